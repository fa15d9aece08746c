"""README, docs and examples say only what runs."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from conftest import DATA, NATIVE, NEEDS_DATA, load

import tessella as ts
from tessella.paper import report

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "```python" in page.read_text()
    and not re.search(r"/(start/from-.*|guides/spark|guides/opensearch)\.md$", page.as_posix())  # tested elsewhere
]


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def notebook_cells(page):
    return re.findall(r"```\{code-cell\} python\n(?::[^\n]*\n)*(.*?)```", page.read_text(), re.DOTALL)


def run_shell(block, folder):
    """What a block of shell commands prints where `tessella` and `python` are those that run the tests."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-eu", "-c", block]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_page_on_performance_is_made_from_results():
    page = (ROOT / "docs" / "performance.md").read_text()
    assert load(ROOT / "docs" / "make_performance.py").page() == page


def churn_line(kept, commit):
    fast = {"idle": 100, "busy": 50, "replaced_per_second": 9, "recall": 0.96, "fresh_recall": 0.97}
    return {"machine": {"cpu": "some", "cpus": "2", "simd": "avx2", "tessella": "0", "commit": commit},
            "part": "churn", "set": "a set", "method": "auto", "kept": kept, "lost": 0.01, "rounds": [fast]}  # fmt: skip


def test_the_page_on_performance_takes_the_latest_of_what_there_is(tmp_path, monkeypatch):
    maker = load(ROOT / "docs" / "make_performance.py")
    written = [line for name in ("peers", "profile") for line in maker.lines(name)]
    parts = {line.get("part", "profile"): line for line in written}
    monkeypatch.setattr(maker, "RESULTS", tmp_path)
    with pytest.raises(SystemExit, match="There are no results yet"):
        maker.page()
    for part, line in parts.items():
        (tmp_path / "peers.jsonl").write_text(json.dumps({"part": part, **line}) + "\n")
        titles = re.findall("^## (.*)", maker.page(), re.MULTILINE)
        assert [title for title in titles if title != "The floor"] == [
            title for name, title, *_ in maker.SECTIONS if name == part
        ]
    two = [churn_line(0.7, "old"), churn_line(0.5, "new")]
    (tmp_path / "peers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in two))
    page = maker.page()
    assert "Measured at commit new." in page
    assert "| **0.50** (goal at least 0.6, missed) |" in page
    assert "| **0.0100** (goal at most 0.01) |" in page
    assert "0.70" not in page


def test_the_page_on_performance_says_where_a_promise_is_broken(tmp_path, monkeypatch):
    maker = load(ROOT / "docs" / "make_performance.py")
    monkeypatch.setattr(maker, "RESULTS", tmp_path)
    cells = {"plain": {k: {"recall": recall, "few": 0.1} for k, recall in {"1": 0.9449, "10": 0.9451}.items()}}
    line = churn_line(0.7, "new") | {"part": "promise", "target": 0.95, "told": False, "cells": cells}
    (tmp_path / "peers.jsonl").write_text(json.dumps(line) + "\n")
    assert "| a set | 0.95 | none | plain | **0.9449** | 0.9451 | 0.100 |" in maker.page()


def test_the_page_on_performance_shows_goals_of_depth_and_filters(tmp_path, monkeypatch):
    maker = load(ROOT / "docs" / "make_performance.py")
    monkeypatch.setattr(maker, "RESULTS", tmp_path)
    machine = {"machine": churn_line(0.7, "new")["machine"], "set": "a set"}
    point = {"family": "tessella tiles", "setting": "reach 0.3", "recall": 0.96, "queries_per_second": 1000.0}
    claim = {"level": 0.95, "ratio": 1.4, "goal": 1.5, "ours": point, "peer": point, "auto_ratio": 1.35,
             "auto_recall": 0.94, "auto_goal": 1.3}  # fmt: skip
    lines = [
        {"part": "depth", "k": 100, "claims": [claim], "over_flat": 2.5, "over_flat_goal": 2.0},
        {"part": "filters", "kind": "shared", "share": 0.1, "recall": 0.97, "over_flat": 0.8, "exact_over_flat": 0.9,
         "goal": 1.0, "over_selector": 6.0, "selector_recall": 0.96},
        {"part": "grow", "method": "auto", "n_items": 1000, "peak_over_factors": 4.8},
    ]  # fmt: skip
    (tmp_path / "peers.jsonl").write_text("".join(json.dumps(machine | line) + "\n" for line in lines))
    page = maker.page()
    assert (
        "| a set | 100 | 0.95 | **1.40** (goal at least 1.5, missed) | **1.35** (goal at least 1.3), 0.9400, missed"
        in page
    )
    assert "| **2.50** (goal at least 2) |" in page
    assert "| 10.0% | 0.80, 0.9700 | **0.90** (goal at least 1, missed) | **6.0** (goal at least 5), 0.9600 |" in page
    assert "| 1,000 x 64 | auto | **4.80** (goal at most 2.5, missed) |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_in_pages_runs_and_prints_what_it_says(page, capsys):
    names, printed = {}, []  # a page goes on where its last block ended
    for block, said in re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), names)  # noqa: S102
        out = capsys.readouterr().out
        assert not said or out == said
        printed += out.splitlines()
    said = list(re.findall(r"print\(.*\)  # (\[.*\])$", page.read_text(), re.MULTILINE))
    assert printed[: len(said)] == said


def test_the_notebook_of_pictures_runs(monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("Agg")
    names = {}
    for cell in notebook_cells(ROOT / "docs" / "notebooks" / "what-the-tessellation-does.md"):
        exec(compile(cell, "a cell of the notebook", "exec"), names)  # noqa: S102
    n_drawn = len(plt.get_fignums())
    plt.close("all")
    assert n_drawn == 7
    recalls = [recall for recall, _ in names["curves"]["Tiles(reach)"]]
    assert recalls == sorted(recalls)
    assert recalls[-1] > 0.999  # reach 1 is exact, but for scores that tie


def test_the_reference_lists_everything_public():
    listed = set()
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for module, block in re.findall(r"currentmodule:: (\S+)\n(.*?)```", page.read_text(), re.DOTALL):
            listed |= {f"{module}.{name}" for name in re.findall(r"^ {3}(\w+)$", block, re.MULTILINE)}
        listed |= set(re.findall(r"^ {3}~(tessella\.[\w.]+)$", page.read_text(), re.MULTILINE))
    for path in (ROOT / "src" / "tessella").rglob("__init__.py"):
        module = ".".join(path.parent.relative_to(ROOT / "src").parts)
        (names,) = re.findall(r"^__all__ = (\[.*?\])", path.read_text(), re.DOTALL | re.MULTILINE) or ["[]"]
        public = {f"{module}.{name}" for name in ast.literal_eval(names)} - {"tessella.datasets"}
        if module.split(".")[1:2] not in (["commands"], ["serve"]) and not module.split(".")[-1].startswith("_"):
            assert public <= listed, module
    for path in (ROOT / "src" / "tessella" / "integrations").glob("[a-z]*.py"):
        names = re.findall(r"^(?:def|class) ([a-zA-Z]\w+)", path.read_text(), re.MULTILINE)
        assert {f"tessella.integrations.{path.stem}.{name}" for name in names} <= listed


def test_shell_in_the_page_on_the_command_line_runs_and_prints_what_it_says(tmp_path):
    page = (ROOT / "docs" / "guides" / "command-line.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```\n(?:\n```text\n(.*?)```)?", page, re.DOTALL)
    assert len(blocks) > 5
    for block, said in blocks:
        printed = run_shell(block, tmp_path)
        assert not said or printed == said


def test_readme_example_finds_what_it_says():
    names = {}
    exec(python_blocks(ROOT / "README.md")[0], names)  # noqa: S102
    best = -np.sort(-(names["users"] @ names["items"].T))[:, :10]
    np.testing.assert_allclose(names["exact"].scores, best, rtol=1e-5)
    assert names["index"].search(names["users"][0], 1, exact=True).ids[0] == 50_000


def test_readme_is_short_and_its_links_work_anywhere():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    assert {"`make demo`", "`make test`"} <= set(re.findall("`make [a-z]+`", text[: text.index("```python")]))
    assert all(link.startswith("https://") for link in re.findall(r"\]\((.*?)\)", text))


def test_throughput_in_readme_is_what_the_benchmark_found():
    text = (ROOT / "README.md").read_text()
    maker = load(ROOT / "docs" / "make_performance.py")
    assert len(re.findall(r"^\| queries a second, (?:ALS|BPR) \| [\d,]+ \|", text, re.MULTILINE)) == 2
    assert maker.readme(text) == text
    assert re.search(r"^\| \| (.*) \|$", text, re.MULTILINE)[1].split(" | ") == list(maker.LIBRARIES)


class Tensor(np.ndarray):
    """A stand-in for PyTorch's."""

    def detach(self):
        return self

    cpu = numpy = detach


LIBRARIES = ROOT / "docs" / "start" / "from-other-libraries.md"
ITEMS, USERS = np.random.default_rng(0).standard_normal((2, 30, 4)).astype(np.float32)
BIASES = np.linspace(-1, 1, 30, dtype=np.float32)
ROWS = [SimpleNamespace(id=100 + row, features=factors.tolist()) for row, factors in enumerate(ITEMS)]


@pytest.mark.parametrize(
    ("model", "built", "asked", "scores"),
    [
        (
            SimpleNamespace(item_factors=ITEMS, user_factors=USERS),
            "model.item_factors",
            "model.user_factors[u]",
            ITEMS @ USERS[3],
        ),
        (
            SimpleNamespace(item_embeddings=ITEMS, item_biases=BIASES, user_embeddings=USERS),
            "np.column_stack([model.item_embeddings, model.item_biases])",
            "np.append(model.user_embeddings[u], np.float32(1))",
            ITEMS @ USERS[3] + BIASES,
        ),
        (
            SimpleNamespace(
                items=SimpleNamespace(weight=ITEMS.view(Tensor)), users=SimpleNamespace(weight=USERS.view(Tensor))
            ),
            "model.items.weight.detach().cpu().numpy()",
            "model.users.weight[u].detach().cpu().numpy()",
            ITEMS @ USERS[3],
        ),
    ],
    ids=["implicit", "LightFM", "PyTorch"],
)
def test_the_page_says_what_to_pass_from_other_libraries(model, built, asked, scores):
    """Stand-ins hold what models of these libraries do."""
    text = LIBRARIES.read_text()
    names = {"np": np, "model": model, "u": 3}
    assert f"`{built}`" in text
    assert f"`{asked}`" in text
    index = ts.Index.build(eval(built, names))  # noqa: S307
    np.testing.assert_array_equal(index.search(eval(asked, names), 5).ids, np.argsort(-scores)[:5])  # noqa: S307
    seen = scipy.sparse.csr_matrix(np.tile(scores > 0, (4, 1)))
    left = index.search(eval(asked, names), 5, exclude=seen[3]).ids  # noqa: S307
    np.testing.assert_array_equal(left, np.argsort(np.where(scores > 0, np.inf, -scores))[:5])


def test_the_page_says_what_to_pass_from_spark():
    text = LIBRARIES.read_text()
    factors, ids = "[row.features for row in rows]", "[row.id for row in rows]"
    assert f"`{factors}` and `ids={ids}`" in text
    index = ts.Index.build(eval(factors, {"rows": ROWS}), ids=eval(ids, {"rows": ROWS}))  # noqa: S307
    best = np.argsort(-ITEMS @ ITEMS[3])[:5]
    np.testing.assert_array_equal(index.search(ROWS[3].features, 5).ids, 100 + best)


def test_the_table_of_cosines_is_what_the_command_prints():
    figures = load(ROOT / "docs" / "make_figures.py")
    page = figures.PAGE.read_text()
    assert figures.cosine_table() in page
    assert figures.page_with_table(page) == page


def test_the_page_on_the_paper_is_what_its_results_say():
    results = json.loads((ROOT / "docs" / "paper" / "paper-results.json").read_text())
    page = (ROOT / "docs" / "paper" / "measured.md").read_text()
    assert page == report.paper_page(results)
    (picture,) = re.findall(r"!\[.*?\]\((.*?)\)", page)
    assert (ROOT / "docs" / "paper" / picture).is_file()


@pytest.mark.parametrize("simd", [None, "numpy"])
def test_the_demo_runs(tmp_path, simd):
    picture = tmp_path / "pictures" / "search.png"
    sizes = ["--items", "3000", "--users", "60", "--out", str(picture)]
    ran = subprocess.run(  # noqa: S603
        [sys.executable, str(ROOT / "examples" / "demo.py"), *sizes],
        env=os.environ | ({} if simd is None else {"TESSELLA_SIMD": simd}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr
    assert "Measuring" not in ran.stderr
    assert re.search(r"^ *exact +[\d,]+ +[\d.]+% +1\.0000 +100\.0% +[\d.]+ x *$", ran.stdout, re.MULTILINE)
    best = re.findall(r"^  (?:now|after index\.\w+) +(.*?)  +[\d.]+$", ran.stdout, re.MULTILINE)
    assert best[1] == "Brand New Song for User 0"
    assert best[0] == best[2] != best[1]
    assert f"Item '{best[0]}' scores" in ran.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "source"),
    [
        (["--made-up"], "Made-up movies"),
        pytest.param(["--data", str(DATA)], "MovieLens 100k", marks=NEEDS_DATA),
    ],
    ids=["made up", "MovieLens"],
)
def test_the_movie_example_runs(options, source):
    command = [sys.executable, str(ROOT / "examples" / "movielens_recommender.py"), *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stderr
    head, *parts = re.split(r"\n\n(?=\w)", ran.stdout)
    assert head.startswith(source)
    said = dict(part.split("\n\n", 1) for part in parts)
    rows = {title: re.findall(r"^ +\d +(\d+) +-?[\d.]+ +(.+)$", text, re.MULTILINE) for title, text in said.items()}
    best = rows["Recommended, leaving those out"]
    assert len(best) == 5
    assert rows["The second page, with three per page"][:2] == best[3:]
    liked = next(title for title in said if title.startswith("User"))
    assert not {title for _, title in best} & {line.strip() for line in said[liked].splitlines()}
    years = [int(title[-5:-1]) for _, title in rows["Only comedies since 1980"]]
    assert len(years) == 5
    assert min(years) >= 1980
    assert f"({best[0][0]}) scores" in said["Why the first movie is recommended"]
    assert "It is filtered out" in said["Why a seen movie is not"]
    assert len(rows["and gets these recommendations"]) == 5
    assert "the same answers: True" in said["Saved and loaded"]


@NATIVE
def test_the_benchmark_runs():
    command = [sys.executable, str(ROOT / "benchmarks" / "bench_mapping.py"), "--rows", "20000", "--memory-at", "1.3"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stderr
    assert 0.0 <= float(ran.stdout) < 3.0


def test_native_readme_names_every_function_and_file():
    text = (ROOT / "native" / "README.md").read_text()
    stub = (ROOT / "src" / "tessella" / "_native.pyi").read_text()
    names = set(re.findall(r"^ *(?:def|class) ([A-Za-z]\w*)", stub, re.MULTILINE))
    assert {"levels", "Engine", "search", "choose"} <= names
    for name in names:
        assert f"`{name}(" in text
    files = re.findall(r"^\| `(\w+\.[ch]pp)` \|", text, re.MULTILINE)
    assert sorted(files) == sorted(path.name for path in (ROOT / "native").glob("*.[ch]pp"))
