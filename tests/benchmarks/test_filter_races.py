"""Filters, promises and growth are measured as they are described."""

import filters
import grow
import memory_worker
import numpy as np
import peers
import promise
import pytest
import sets
from peers import inverted_files
from race import Course

import tessella as ts


class SmallSize:
    """A quick run."""

    quick, turns, learned_items, n_users = True, 1, 1500, 40


@pytest.fixture(scope="module")
def factors():
    return sets.generated(1500, 8, 40)


@pytest.fixture(scope="module")
def index(factors):
    return ts.Index.build(factors.items, method="tiles")


def test_lists_become_a_matrix():
    matrix = filters.as_matrix([[2, 0], [], [1]], 4)
    np.testing.assert_array_equal(matrix.toarray(), [[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]])


def test_every_form_of_excluding_has_the_same_recall(index, factors):
    excluded = filters.left_out("no such set", factors, SmallSize)
    assert {len(one) for one in excluded} == {filters.N_EXCLUDED}
    found = filters.excluding(index, factors, excluded, 1)
    assert found["lists"]["recall"] == found["arrays"]["recall"] == found["CSR"]["recall"] > 0.8
    assert filters.one_query(index, factors, excluded)["ratio"] > 0


def test_own_lists_are_measured_at_every_share(index, factors):
    found = list(filters.owning(index, factors))
    assert [one["share"] for one in found] == list(filters.SHARES)
    assert min(one["recall"] for one in found) > 0.8


@pytest.mark.skipif(not peers.FLAT.installed, reason="faiss is not installed")
def test_shared_lists_are_measured_against_faiss(index, factors):
    found = list(filters.sharing(index, factors, 1))
    assert min(one["selector_recall"] for one in found) >= 0.95
    assert min(one["exact_over_flat"] for one in found) > 0


def test_recall_had_is_that_of_brute_force(index, factors):
    items, users = factors
    allowed = np.arange(0, 1500, 3)
    got = promise.recalls_had(index, users, 10, {"allow": allowed})
    course = Course.over("allowed", sets.Factors(items[allowed], users))
    ids = index.search(users, 10, allow=allowed).ids
    assert got.mean() == pytest.approx(course.recall(ids // 3))
    few = promise.recalls_had(index, users, 10, {"allow": allowed[:4]})
    np.testing.assert_array_equal(few, 1.0)


def test_a_promise_is_measured_with_other_users_and_flagged(factors):
    seen = filters.as_matrix([[number] for number in range(40)], 1500)
    case = promise.halved("a set", factors, seen, SmallSize)
    assert not set(map(tuple, case.told)) & set(map(tuple, case.asked))
    rows = [np.flatnonzero((factors.users == user).all(axis=1))[0] for user in case.asked]
    np.testing.assert_array_equal(case.seen.indices, rows)
    found = promise.had(case, 0.95, told=True)
    assert list(found["cells"]) == ["plain", "seen left out", "best 100 left out", "1% allowed", "10% allowed"]
    assert set(found["cells"]["plain"]) == {"1", "10", "100", "500"}
    assert promise.flag(0.944, 0.95) == "!"
    assert promise.flag(0.946, 0.95) == " "


def test_a_grown_index_has_all_items(factors):
    found = grow.grown("a set", factors, SmallSize)
    assert found["kept"] > 0
    assert min(found["recall"].values()) > 0.8


@pytest.mark.parametrize("kind", ["auto", "exact"])
def test_peak_memory_is_measured_in_a_process_of_its_own(tmp_path, kind):
    path = tmp_path / "items.npy"
    np.save(path, sets.generated(50_000, 32, 1).items)
    found = memory_worker.ask("build", path, kind)
    assert found["given"] == 50_000 * 32 * 4
    assert found["grown"] > found["kept"] - found["given"] > 0


def test_probes_and_refinement_fit_the_depth():
    from peers import scann_tree  # noqa: PLC0415

    reordered = {k: [n for n in scann_tree.REORDERED if scann_tree._method(None, None, 1, 1, n).fits(k)]
                 for k in (10, 100, 500)}  # fmt: skip
    assert reordered == {
        10: [30, 60, 100, 200, 400, 1000],
        100: [200, 400, 1000, 2000],
        500: [1000, 2000, 5000, 10_000],
    }
    assert inverted_files.REFINED[-1] == 30
