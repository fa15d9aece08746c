"""The wrapper for ann-benchmarks finds the nearest rows; a stub stands in for that project's base class."""

import importlib.util
import sys
import types
from itertools import product
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "ann_benchmarks" / "tessella"


@pytest.fixture(scope="module")
def wrapper():
    """The module under the name it has in ann-benchmarks."""
    names = ["ann_benchmarks", "ann_benchmarks.algorithms", "ann_benchmarks.algorithms.base",
             "ann_benchmarks.algorithms.base.module", "ann_benchmarks.algorithms.tessella"]  # fmt: skip
    stubs = {name: types.ModuleType(name) for name in names}
    for stub in stubs.values():
        stub.__path__ = []
    stubs[names[3]].BaseANN = type("BaseANN", (), {})
    with pytest.MonkeyPatch.context() as patch:
        for name, stub in stubs.items():
            patch.setitem(sys.modules, name, stub)
        spec = importlib.util.spec_from_file_location(f"{names[4]}.module", FOLDER / "module.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def nearest(rows, queries, metric, n):
    if metric == "euclidean":
        distances = np.linalg.norm(rows[None] - queries[:, None], axis=2)
    else:
        distances = -queries @ rows.T
        if metric == "angular":
            distances = distances / np.linalg.norm(rows, axis=1)
    return np.argsort(distances, axis=1)[:, :n]


@pytest.mark.parametrize("metric", ["angular", "euclidean", "ip", "dot"])
def test_exact_neighbours_are_found_singly_and_in_batches(wrapper, rng, metric):
    rows = rng.standard_normal((500, 8)) * rng.lognormal(size=(500, 1))
    queries = rng.standard_normal((20, 8)).astype(np.float32)
    algorithm = wrapper.Tessella(metric, "exact")
    algorithm.fit(rows)
    algorithm.set_query_arguments()
    true = nearest(rows, queries, metric, 5)
    np.testing.assert_array_equal([algorithm.query(query, 5) for query in queries], true)
    algorithm.batch_query(queries, 5)
    np.testing.assert_array_equal(algorithm.get_batch_results(), true)
    assert str(algorithm) == "tessella(exact)"


def test_slots_take_a_budget_and_slots(wrapper, rng):
    rows = rng.standard_normal((500, 8))
    algorithm = wrapper.Tessella("angular", "slots")
    algorithm.fit(rows)
    algorithm.set_query_arguments(200, 8)
    assert str(algorithm) == "tessella(slots, budget=200, max_slots=8)"
    found = algorithm.query(rows[3], 10)
    assert found[0] == 3
    assert len(np.unique(found)) == 10


def test_tiles_take_a_reach(wrapper, rng):
    rows = rng.standard_normal((500, 8))
    queries = rng.standard_normal((20, 8)).astype(np.float32)
    algorithm = wrapper.Tessella("angular", "tiles")
    algorithm.fit(rows)
    algorithm.set_query_arguments(1.0)
    assert str(algorithm) == "tessella(tiles, reach=1.0)"
    found = [algorithm.query(query, 5) for query in queries]
    np.testing.assert_array_equal(found, nearest(rows, queries, "angular", 5))


@pytest.mark.parametrize("metric", ["angular", "euclidean"])
def test_auto_takes_a_recall(wrapper, rng, metric):
    rows = rng.standard_normal((6000, 8))
    queries = rng.standard_normal((50, 8)).astype(np.float32)
    algorithm = wrapper.Tessella(metric, "auto", 0.9)
    algorithm.fit(rows)
    algorithm.set_query_arguments()
    assert str(algorithm) == "tessella(auto, target_recall=0.9)"
    assert algorithm.index.plan.target_recall == 0.9
    found = [algorithm.query(query, 10) for query in queries]
    true = nearest(rows, queries, metric, 10)
    hits = [np.isin(mine, theirs).mean() for mine, theirs in zip(found, true, strict=True)]
    assert np.mean(hits) > 0.7


def test_what_does_not_fit_gets_a_sentence(wrapper):
    with pytest.raises(ValueError, match="metric is 'hamming', but must be angular"):
        wrapper.Tessella("hamming", "exact")
    with pytest.raises(ValueError, match="method is 'magic', but must be exact"):
        wrapper.Tessella("angular", "magic")
    with pytest.raises(ValueError, match="slots takes 2 query arguments, but 1 were given"):
        wrapper.Tessella("angular", "slots").set_query_arguments(200)


def test_the_configuration_names_what_there_is(wrapper):
    yaml = pytest.importorskip("yaml")
    methods = set()
    for entry in yaml.safe_load((FOLDER / "config.yml").read_text())["float"]["any"]:
        assert entry["module"] == "ann_benchmarks.algorithms.tessella"
        assert entry["docker_tag"] == "ann-benchmarks-tessella"
        assert not entry["disabled"]
        constructor = getattr(wrapper, entry["constructor"])
        for group in entry["run_groups"].values():
            for built in product(*group["args"]):
                algorithm = constructor("angular", *built)
                methods.add(algorithm.method)
                for arguments in product(*group.get("query_args", [])):
                    algorithm.set_query_arguments(*arguments)
    assert methods == {"exact", "slots", "tiles", "auto"}
