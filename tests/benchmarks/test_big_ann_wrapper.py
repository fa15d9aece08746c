"""The wrapper for big-ann-benchmarks finds the nearest rows with a query's tags, called as that project does."""

import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

FOLDER = Path(__file__).parents[2] / "benchmarks" / "big_ann" / "tessella"
N_ROWS, N_TAGS, WIDTH = 3000, 40, 8


class BaseFilterANN:
    """What that project's base class of filtered search has, as its documentation says."""

    def track(self):
        return "filter"

    def get_memory_usage(self):
        return 0.0

    def done(self):
        """Called last."""


class Data:
    """A data set as that project gives one: vectors of bytes, and tags as CSR matrices."""

    d, nb = WIDTH, N_ROWS

    def __init__(self, filtered=True):
        rng = np.random.default_rng(5)
        centres = rng.integers(60, 200, (20, WIDTH))
        self.rows, self.queries = (
            np.clip(centres[rng.integers(20, size=n)] + rng.normal(0, 15, (n, WIDTH)), 0, 255).astype(np.uint8)
            for n in (N_ROWS, 60)
        )
        often = 1 / np.arange(1, N_TAGS + 1)  # a few tags are frequent, most are rare; the last has no rows
        tags = rng.random((N_ROWS, N_TAGS)) < often
        tags[:, -1] = False
        self.tags = scipy.sparse.csr_matrix(tags)
        wanted = np.zeros((60, N_TAGS), bool)
        wanted[:30, 0] = True  # many queries with the same tag
        wanted[np.arange(20, 60), rng.integers(1, N_TAGS - 1, 40)] = True
        wanted[59] = np.arange(N_TAGS) == N_TAGS - 1
        self.wanted = scipy.sparse.csr_matrix(wanted)
        self.filtered = filtered

    def get_dataset(self):
        return self.rows

    def get_dataset_metadata(self):
        return self.tags

    def search_type(self):
        return "knn_filtered" if self.filtered else "knn"

    def truth(self, metric):
        rows, queries = self.rows.astype(np.float64), self.queries.astype(np.float64)
        products = queries @ rows.T
        ranked = products - (rows**2).sum(axis=1) / 2 if metric == "euclidean" else products
        if self.filtered:
            n_wanted = np.asarray(self.wanted.sum(axis=1))
            has_all = (self.wanted.astype(int) @ self.tags.T.astype(int)).toarray() == n_wanted
            ranked = np.where(has_all, ranked, -np.inf)
        return ranked


@pytest.fixture(scope="module")
def wrapper():
    """The module as it is found in a checkout of big-ann-benchmarks."""
    names = ["benchmark", "benchmark.datasets", "neurips23", "neurips23.filter", "neurips23.filter.base"]
    stubs = {name: types.ModuleType(name) for name in names}
    for stub in stubs.values():
        stub.__path__ = []
    stubs["benchmark.datasets"].DATASETS = {"tagged": Data, "plain": lambda: Data(filtered=False)}
    stubs["neurips23.filter.base"].BaseFilterANN = BaseFilterANN
    with pytest.MonkeyPatch.context() as patch:
        for name, stub in stubs.items():
            patch.setitem(sys.modules, name, stub)
        spec = importlib.util.spec_from_file_location("neurips23.filter.tessella.module", FOLDER / "module.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def run(algorithm, dataset, data, k, query_arguments=()):
    """The answers that big-ann-benchmarks would store."""
    if not algorithm.load_index(dataset):
        algorithm.fit(dataset)
    if query_arguments:
        algorithm.set_query_arguments(*query_arguments)
    if data.search_type() == "knn":
        algorithm.query(data.queries, k)
    else:
        algorithm.filtered_query(data.queries, data.wanted, k)
    found = algorithm.get_results()
    assert found.shape == (len(data.queries), k)
    algorithm.done()
    return found


def assert_best(found, ranked):
    """Answers are as near as the true ones; distances tie, as vectors are bytes."""
    best = -np.sort(-ranked, axis=1)[:, : found.shape[1]]
    np.testing.assert_array_equal(found >= 0, np.isfinite(best))
    picked = np.where(found >= 0, np.take_along_axis(ranked, np.maximum(found, 0), axis=1), -np.inf)
    np.testing.assert_array_equal(picked, best)
    for ids in found:
        assert len(set(ids[ids >= 0])) == np.count_nonzero(ids >= 0)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("metric", ["euclidean", "ip"])
@pytest.mark.parametrize("entries", [2**24, 500])
def test_exact_search_finds_the_nearest_rows_with_all_tags(wrapper, monkeypatch, metric, entries):
    monkeypatch.setattr(wrapper, "ENTRIES_PER_CALL", entries)
    data = Data()
    algorithm = wrapper.Tessella(metric, {"method": "exact"})
    assert_best(run(algorithm, "tagged", data, 10), data.truth(metric))
    assert algorithm.get_additional()["dist_comps"] > 0
    assert str(algorithm) == "tessella(exact)"
    assert algorithm.track() == "filter"


def test_an_index_is_loaded_where_it_was_saved(wrapper):
    data = Data()
    assert not wrapper.Tessella("euclidean", {"method": "exact"}).load_index("tagged")
    built = run(wrapper.Tessella("euclidean", {"method": "exact"}), "tagged", data, 10)
    again = wrapper.Tessella("euclidean", {"method": "exact"})
    assert again.load_index("tagged")
    np.testing.assert_array_equal(run(again, "tagged", data, 10), built)
    assert not wrapper.Tessella("euclidean", {"method": "tiles"}).load_index("tagged")


def test_tiles_take_a_reach(wrapper):
    data = Data()
    algorithm = wrapper.Tessella("euclidean", {"method": "tiles"})
    assert_best(run(algorithm, "tagged", data, 10, ({"reach": 1.0},)), data.truth("euclidean"))
    assert str(algorithm) == "tessella(tiles, reach=1.0)"


def test_queries_without_tags(wrapper):
    data = Data(filtered=False)
    algorithm = wrapper.Tessella("euclidean", {"method": "auto", "target_recall": 1.0})
    assert_best(run(algorithm, "plain", data, 10), data.truth("euclidean"))


def test_what_does_not_fit_gets_a_sentence(wrapper):
    with pytest.raises(ValueError, match="metric is 'angular', but must be euclidean or ip"):
        wrapper.Tessella("angular", {})
    with pytest.raises(ValueError, match="method is 'slots', but must be exact, tiles or auto"):
        wrapper.Tessella("ip", {"method": "slots"})
    with pytest.raises(ValueError, match="exact takes no query arguments, but"):
        wrapper.Tessella("ip", {"method": "exact"}).set_query_arguments({"reach": 1.0})


def test_the_configuration_names_what_there_is(wrapper):
    yaml = pytest.importorskip("yaml")
    sets = yaml.safe_load((FOLDER / "config.yaml").read_text())
    assert {"random-filter-s", "yfcc-10M"} <= set(sets)
    for entry in (found["tessella"] for found in sets.values()):
        assert entry["docker-tag"] == "neurips23-filter-tessella"
        assert entry["module"] == "neurips23.filter.tessella.module"
        assert entry["base-args"] == ["@metric"]
        for group in entry["run-groups"].values():
            for built in json.loads(group["args"]):
                algorithm = getattr(wrapper, entry["constructor"])("euclidean", built)
                for arguments in json.loads(group.get("query-args", "[]")):
                    algorithm.set_query_arguments(arguments)
