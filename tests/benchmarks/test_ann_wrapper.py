"""The wrapper for ann-benchmarks finds the nearest rows, under a runner that calls it as that project does."""

import importlib.util
import sys
import types
from itertools import product
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "ann_benchmarks" / "tessella"


class BaseANN:
    """What ann-benchmarks' base class of algorithms has, as its documentation says."""

    def done(self):
        """Called last."""

    def get_memory_usage(self):
        return 0.0

    def get_batch_results(self):
        return self.res

    def get_additional(self):
        return {}


def run(algorithm, rows, queries, n, query_arguments=(), *, batch=False):
    """The rows that ann-benchmarks would store for each query, refused where it would refuse them."""
    algorithm.get_memory_usage()
    algorithm.fit(rows)
    if query_arguments:
        algorithm.set_query_arguments(*query_arguments)
    if batch:
        algorithm.batch_query(queries, n)
        found = algorithm.get_batch_results()
    else:
        found = [algorithm.query(query, n) for query in queries]
    assert len(found) == len(queries)
    for ids in found:
        assert len(ids) == len(set(ids))
        assert len(ids) <= n
        assert all(0 <= int(row) < len(rows) for row in ids)
    assert algorithm.get_additional() == {}
    algorithm.done()
    return [np.asarray(ids) for ids in found]


def share(found, true):
    return np.mean([np.isin(theirs, mine).mean() for mine, theirs in zip(found, true, strict=True)])


@pytest.fixture(scope="module")
def wrapper():
    """The module under the name it has in ann-benchmarks."""
    names = ["ann_benchmarks", "ann_benchmarks.algorithms", "ann_benchmarks.algorithms.base",
             "ann_benchmarks.algorithms.base.module", "ann_benchmarks.algorithms.tessella"]  # fmt: skip
    stubs = {name: types.ModuleType(name) for name in names}
    for stub in stubs.values():
        stub.__path__ = []
    stubs[names[3]].BaseANN = BaseANN
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


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("metric", ["angular", "euclidean", "ip", "dot"])
def test_exact_neighbours_are_found_singly_and_in_batches(wrapper, rng, metric, batch):
    rows = rng.standard_normal((500, 8)) * rng.lognormal(size=(500, 1)) + 3
    queries = rng.standard_normal((20, 8)).astype(np.float32)
    algorithm = wrapper.Tessella(metric, "exact")
    found = run(algorithm, rows, queries, 5, batch=batch)
    np.testing.assert_array_equal(found, nearest(rows, queries, metric, 5))
    assert str(algorithm) == "tessella(exact)"


@pytest.mark.parametrize("batch", [False, True])
def test_fewer_rows_than_asked_for_are_not_padded(wrapper, rng, batch):
    rows = rng.standard_normal((6, 4))
    found = run(wrapper.Tessella("euclidean", "exact"), rows, rows[:2], 10, batch=batch)
    np.testing.assert_array_equal(found, nearest(rows, rows[:2], "euclidean", 6))


def test_equal_rows_are_no_trouble(wrapper):
    found = run(wrapper.Tessella("euclidean", "exact"), np.ones((5, 3)), np.ones((1, 3)), 2)
    assert found[0].tolist() == [0, 1]


def test_slots_take_a_threshold_a_budget_and_slots(wrapper, rng):
    rows = rng.standard_normal((500, 8))
    algorithm = wrapper.Tessella("angular", "slots", 0.7)
    found = run(algorithm, rows, rows[:30], 10, (200, 8))
    assert str(algorithm) == "tessella(slots, threshold=0.7, budget=200, max_slots=8)"
    assert algorithm.index.schema.threshold == 0.7
    assert share(found, nearest(rows, rows[:30], "angular", 10)) > 0.9


def test_tiles_take_a_reach(wrapper, rng):
    rows = rng.standard_normal((500, 8))
    queries = rng.standard_normal((20, 8)).astype(np.float32)
    algorithm = wrapper.Tessella("angular", "tiles")
    found = run(algorithm, rows, queries, 5, (1.0,))
    assert str(algorithm) == "tessella(tiles, reach=1.0)"
    np.testing.assert_array_equal(found, nearest(rows, queries, "angular", 5))


@pytest.mark.parametrize("metric", ["angular", "euclidean"])
def test_auto_reaches_a_recall(wrapper, rng, metric):
    rows = rng.standard_normal((6000, 12)) + 4 * rng.standard_normal((60, 12))[rng.integers(60, size=6000)]
    queries, rows = rows[:100].astype(np.float32), rows[100:]
    algorithm = wrapper.Tessella(metric, "auto", 0.9)
    found = run(algorithm, rows, queries, 10)
    assert str(algorithm) == "tessella(auto, target_recall=0.9)"
    assert algorithm.index.plan.target_recall == 0.9
    assert share(found, nearest(rows, queries, metric, 10)) > 0.85


def test_what_does_not_fit_gets_a_sentence(wrapper):
    with pytest.raises(ValueError, match="metric is 'hamming', but must be angular"):
        wrapper.Tessella("hamming", "exact")
    with pytest.raises(ValueError, match="method is 'magic', but must be exact"):
        wrapper.Tessella("angular", "magic")
    with pytest.raises(ValueError, match=r"setting is 0\.9, but tiles has none"):
        wrapper.Tessella("angular", "tiles", 0.9)
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
