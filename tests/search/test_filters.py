"""Filters: every form of input is every other form, and brute force; what cannot be right is refused or warned of."""

import gc
import importlib.util
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest
import scipy.sparse
from conftest import at_level
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella import _kernels, _reference
from tessella.datasets import generated_factors
from tessella.jobs import all_users
from tessella.retrieval.engine import Filter
from tessella.search import filters
from tessella.search.filters import LazyFilter, filter_for


def installed(name):
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


pa, pd, pl = map(installed, ("pyarrow", "pandas", "polars"))
ITEMS, USERS = generated_factors(700, 9, 13, seed=4)
KINDS = ["numbers", "far numbers", "texts"]
METHODS = [ts.Exact(), ts.Tiles(1.0), ts.Tiles(0.2), ts.Slots(40)]


def names(kind, rng):
    """Ids of 700 items: close together, far apart, or texts."""
    if kind == "numbers":
        return rng.permutation(900)[:700]
    if kind == "far numbers":
        return rng.choice(2**62, 700, replace=False) - 2**61
    return np.array([f"item {i}" for i in rng.permutation(700)])


def build(kind, rng):
    return ts.Index.build(ITEMS, names(kind, rng), method=ts.LearnedTiles(n_tiles=20))


def brute_force(index, k, may_answer):
    """The true top k of what may answer each user: a bool for each user and item."""
    scores = _reference.arithmetic.scores_of(USERS, index[index.ids])
    scores = np.where(may_answer, scores, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    found = index.ids[order].astype(object)
    found[np.take_along_axis(scores, order, axis=1) == -np.inf] = None if index.ids.dtype.kind == "U" else -1
    return found.tolist()


def library_forms(lists):
    """The same lists in the sequences of other libraries, as far as they are installed."""
    forms = {}
    texts = lists[0].dtype.kind == "U"
    if pa is not None:
        forms["Arrow arrays"] = [pa.array(own.tolist(), pa.string() if texts else None) for own in lists]
        forms["Arrow chunks"] = [pa.chunked_array([part]) for part in forms["Arrow arrays"]]
        forms["Arrow lists"] = pa.array([own.tolist() for own in lists])
    if pd is not None:
        forms["pandas series"] = [pd.Series(own, index=np.arange(len(own)) + 5) for own in lists]
        forms["pandas indexes"] = tuple(pd.Index(own) for own in lists)
        forms["pandas lists"] = pd.Series([own.tolist() for own in lists])
    if pl is not None:
        forms["polars series"] = [pl.Series(own.tolist(), dtype=pl.String if texts else pl.Int64) for own in lists]
        forms["polars lists"] = pl.Series([own.tolist() for own in lists])
    return forms


def forms_of(index, mask, rng):
    """A mask of users and items in every form that filters take."""
    ids = index.ids
    lists = [rng.permutation(np.repeat(ids[row], 2)) for row in mask]
    width = max(map(len, lists))
    forms = {
        "lists": [own.tolist() for own in lists],
        "tuples": tuple(tuple(own.tolist()) for own in lists),
        "sets": [set(own.tolist()) for own in lists],
        "arrays": lists,
        "arrays and lists": [own if user % 2 else own.tolist() for user, own in enumerate(lists)],
        "objects": [own.astype(object) for own in lists],
        "an array of arrays": np.array([*lists, None], object)[:-1],
        "mask": mask,
        "rows of a larger mask": np.repeat(mask, 2, axis=0)[::2],
        "mask, ids": (mask, ids.copy()),
    }
    missing = None if ids.dtype.kind == "U" else -1
    forms["with missing ids"] = [[missing, *own.tolist(), missing] for own in lists]
    padded = [[*own.tolist(), *[missing] * (width - len(own))] for own in lists]
    forms["rows of an array"] = np.array(padded, object if missing is None else np.int64)
    if ids.dtype.kind == "i":
        forms["numbers of NumPy"] = [list(own) for own in lists]
        forms["int32"] = [own.astype(np.int32) for own in lists] if abs(ids).max() < 2**31 else lists
    matrix = scipy.sparse.csr_array(mask.astype(np.float32))
    order = rng.permutation(len(ids))
    for form in ("csr", "csc", "coo", "lil", "dok"):
        forms[form] = matrix.asformat(form)
        forms[f"{form}, ids"] = matrix[:, order].asformat(form), ids[order].tolist()
    forms["matrix"] = scipy.sparse.csr_matrix(matrix)
    wide = matrix.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    forms["csr of 64 bits"] = wide
    unsorted = matrix.copy()
    for user in range(len(mask)):
        own = slice(unsorted.indptr[user], unsorted.indptr[user + 1])
        unsorted.indices[own] = rng.permutation(unsorted.indices[own])
    unsorted.data[:] = 0
    forms["csr out of order, of zeros"] = unsorted
    unknown = np.array(["no", "none"]) if ids.dtype.kind == "U" else np.array([2**62, -5])
    forms["csr, also unknown ids"] = (
        scipy.sparse.csr_array(np.hstack([mask[:, order], np.ones((len(mask), 2), np.bool_)])),
        np.concatenate([ids[order], unknown]),
    )
    return forms | library_forms(lists)


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_is_every_other_and_brute_force(kind, rng):
    index = build(kind, rng)
    for density in (0.02, 0.5, 0.97):
        mask = rng.random((len(USERS), len(ITEMS))) < density
        mask[3], mask[4, 1:] = False, False
        for name in ("exclude", "allow"):
            expected = brute_force(index, 8, ~mask if name == "exclude" else mask)
            alike = dict.fromkeys(METHODS)
            for form, value in forms_of(index, mask, rng).items():
                for method in METHODS:
                    found = index.search(USERS, 8, method=method, **{name: value})
                    if found.certified.all():
                        assert found.ids.tolist() == expected, form
                    before = alike[method] = alike[method] or found
                    assert found.ids.tolist() == before.ids.tolist(), (form, method)
                    assert found.scores.tobytes() == before.scores.tobytes(), (form, method)
                    np.testing.assert_array_equal(found.n_scored, before.n_scored)
            assert alike[METHODS[0]].certified.all()


def common_forms(index, mask, rng):
    ids = index.ids
    own = rng.permutation(np.repeat(ids[mask], 2))
    forms = {
        "list": own.tolist(),
        "tuple": tuple(own.tolist()),
        "set": set(own.tolist()),
        "array": own,
        "objects": own.astype(object),
        "mask": mask,
        "mask, ids": (mask[::-1], ids[::-1]),
        "sparse vector": scipy.sparse.coo_array(mask.astype(np.int8)),
        "sparse vector, ids": (scipy.sparse.coo_array(mask[::-1]), ids[::-1]),
    }
    for form, value in library_forms([own]).items():
        if "list" not in form:
            forms[form] = value[0]
    return forms


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_common_list_is_every_other(kind, rng):
    index = build(kind, rng)
    for n in (0, 5, 400, 690):
        mask = rng.permutation(len(ITEMS)) < n
        for name in ("exclude", "allow"):
            expected = brute_force(index, 8, np.tile(~mask if name == "exclude" else mask, (len(USERS), 1)))
            for form, value in common_forms(index, mask, rng).items():
                for method in METHODS[:2]:
                    found = index.search(USERS, 8, method=method, **{name: value})
                    assert found.ids.tolist() == expected, (form, name, n)
                    assert index.search(USERS[2], 8, method=method, **{name: value}).ids.tolist() == expected[2], form
                one = index.search(USERS[2], 8, method=METHODS[2], **{name: value})
                many = index.search(USERS, 8, method=METHODS[2], **{name: value})
                assert one.ids.tolist() == many.ids[2].tolist()
                assert one.n_scored == many.n_scored[2]


def test_more_rows_than_are_repeated_are_left_without_a_bit(rng, monkeypatch):
    index = build("numbers", rng)
    out = index.ids[::3]
    expected = index.search(USERS, 8, method=ts.Tiles(1.0), exclude=out)
    assert isinstance(filter_for(index._version, 9, out, None), LazyFilter)
    monkeypatch.setattr(filters, "MOST_REPEATED", 10)
    made = filter_for(index._version, 9, out, None)
    assert isinstance(made, Filter)
    assert made.n_allowed == 700 - len(out)
    assert index.search(USERS, 8, method=ts.Tiles(1.0), exclude=out).ids.tolist() == expected.ids.tolist()
    for value in (out, out.tolist(), set(out.tolist())):
        found = index.search(USERS, 8, method=ts.Tiles(0.2), exclude=value)
        for user, row, n_scored in zip(USERS, found.ids.tolist(), found.n_scored, strict=True):
            one = index.search(user, 8, method=ts.Tiles(0.2), exclude=value)
            assert (one.ids.tolist(), one.n_scored) == (row, n_scored)


@pytest.mark.parametrize("level", _kernels.simd_levels())
def test_long_lists_are_resolved_a_few_at_a_time(rng, level, monkeypatch):
    index = at_level(build("far numbers", rng), level, monkeypatch)
    allow = [rng.permutation(index.ids)[: rng.integers(0, 600)] for _ in USERS]
    exclude = [rng.permutation(index.ids)[:100] for _ in USERS]
    for options in ({"allow": allow}, {"allow": allow, "exclude": exclude}):
        expected = index.search(USERS, 8, **options, threads=1)
        monkeypatch.setattr(filters, "ENTRIES_AT_ONCE", 700)
        assert filter_for(index._version, 9, None, allow).queries_at_once < 9
        for threads in (1, 3):
            found = index.search(USERS, 8, **options, threads=threads)
            assert found.ids.tolist() == expected.ids.tolist()
        monkeypatch.undo()
        monkeypatch.setenv("TESSELLA_SIMD", level)


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_sequences_of_other_libraries(library, rng):
    module = pytest.importorskip(library)
    make = module.array if library == "pyarrow" else module.Series
    index = build("numbers", rng)
    texts = ts.Index.build(ITEMS, [f"item {i}" for i in range(700)])
    ids = index.ids[:3].tolist()
    mask = np.isin(index.ids, ids)
    options = {"dtype": "Int64"} if library == "pandas" else {}
    for value in (make(ids), make([ids[0], None, *ids[1:]], **options), make(mask), (make(mask), make(index.ids))):
        for name in ("exclude", "allow"):
            expected = index.search(USERS, 5, **{name: ids}).ids.tolist()
            assert index.search(USERS, 5, **{name: value}).ids.tolist() == expected
            assert index.search(USERS[0], 5, **{name: value}).ids.tolist() == expected[0]
    expected = texts.search(USERS, 5, exclude=["item 5", "item 600"]).ids.tolist()
    assert texts.search(USERS, 5, exclude=make(["item 5", None, "item 600"])).ids.tolist() == expected
    with pytest.raises(TypeError, match="exclude holds float64, but must hold integers or strings"):
        index.search(USERS, exclude=make([1.5]))
    with pytest.raises(TypeError, match="exclude holds both ids and sequences of ids"):
        index.search(USERS[:2], exclude=make([[1], None]))
    with pytest.raises((TypeError, ValueError), match=r"exclude (has shape \(699,\), but must|holds a bool)"):
        index.search(USERS, exclude=make([True] * 699 + [None]))


def test_an_array_may_hold_a_row_for_each_query(rng):
    index = build("numbers", rng)
    seen = index.search(USERS, 4).ids
    seen[2, 1:] = -1
    later = index.search(USERS, 4, exclude=seen)
    assert not np.isin(later.ids[0], seen[0]).any()
    assert later.ids[2].tolist() == index.search(USERS[2], 5).ids[1:].tolist()
    assert index.search(USERS[2], 4, exclude=seen[2]).ids.tolist() == later.ids[2].tolist()
    assert index.search(USERS[2], 4, exclude=seen[2:3]).ids.tolist() == later.ids[2].tolist()


def test_no_queries_and_no_ids(rng):
    index = build("texts", rng)
    for nothing in ([], (), np.zeros(0), np.zeros(0, np.str_), set(), range(0)):
        assert index.search(USERS, 3, exclude=nothing).ids.tolist() == index.search(USERS, 3).ids.tolist()
        assert (index.search(USERS, 3, allow=nothing).scores == -np.inf).all()
        assert index.search(USERS[:0], 3, exclude=nothing, allow=nothing).ids.shape == (0, 3)
    assert index.search(USERS[:0], 3, allow=np.zeros((0, 700), np.bool_)).ids.shape == (0, 3)
    each = [[] for _ in USERS]
    assert index.search(USERS, 3, exclude=each).ids.tolist() == index.search(USERS, 3).ids.tolist()


BAD = {
    "a number": (5, TypeError, "is a int, but must be a sequence of ids"),
    "a text": ("item 5", TypeError, "is a str, but must be a sequence of ids"),
    "a generator": ((i for i in range(3)), TypeError, "is a generator, but must be a sequence of ids"),
    "a dict": ({1: 2}, TypeError, "is a dict, but must be a sequence of ids"),
    "a scalar": (np.array(5), ValueError, "is an array of 0 dimensions, but must have 1, or 2 with a row per query"),
    "a cube": (np.zeros((9, 2, 2), int), ValueError, "is an array of 3 dimensions"),
    "bools": ([True, False], TypeError, "holds a bool, but must hold integers or strings; a mask is a NumPy array"),
    "bools and numbers": ([True, 5], TypeError, "holds a bool"),
    "floats": ([1.0], TypeError, "holds float64, but must hold integers or strings"),
    "an array of floats": (np.ones(3), TypeError, "holds float64, but must hold integers or strings"),
    "floats in a list": ([[1.5]] * 9, TypeError, "holds float64, but must hold integers or strings"),
    "bytes": ([b"a"], TypeError, "holds bytes, but must hold integers or strings"),
    "texts and numbers": ([1, "a"], TypeError, "holds both strings and other values"),
    "texts and numbers of queries": ([np.array(["a"]), np.array([1])] * 4 + [[]], TypeError, "holds both strings"),
    "texts": (["a"], TypeError, "ids are strings, but those in the index are integers"),
    "texts of queries": ([["a"]] * 9, TypeError, "ids are strings, but those in the index are integers"),
    "large numbers": ([2**63], ValueError, "holds a number that does not fit in int64"),
    "large numbers of queries": ([[2**63]] * 9, ValueError, "holds a number that does not fit in int64"),
    "a large array": (np.array([2**63], np.uint64), ValueError, "holds 9223372036854775808, but ids must fit in int64"),
    "a NUL": (["a\0"], ValueError, "must not end in a NUL character"),
    "ids and lists": ([1, [2]], TypeError, "holds both ids and sequences of ids"),
    "None for a query": ([[1]] * 8 + [None], TypeError, "holds both ids and sequences of ids"),
    "too few lists": ([[1]], ValueError, "has 1 sequence of ids, but there are 9 queries"),
    "too few rows": (np.ones((8, 2), int), ValueError, "has 8 sequences of ids, but there are 9 queries"),
    "a set of lists": ({(1, 2), (3, 4)}, TypeError, "is a set of sequences, but must be a list of them"),
    "lists of lists": ([[[1]]] * 9, ValueError, "has nested sequences for a query"),
    "arrays of lists": (
        [np.ones((1, 1), int)] * 9,
        ValueError,
        "has a ndarray for a query, but must have a flat sequence",
    ),
    "masks of queries": ([np.ones(700, np.bool_)] * 9, ValueError, "has a ndarray for a query, but must have a flat"),
    "a short mask": (
        np.ones(699, np.bool_),
        ValueError,
        r"has shape \(699,\), but must have shape \(700,\): column j is",
    ),
    "few rows": (
        np.ones((8, 700), np.bool_),
        ValueError,
        r"shape \(8, 700\), but must have shape \(9, 700\): each row belongs",
    ),
    "a narrow matrix": (
        scipy.sparse.csr_array((9, 699)),
        ValueError,
        r"has shape \(9, 699\), but must have shape \(9, 700\): column j is item index.ids\[j\]; pass .*column_ids",
    ),
    "too few column ids": (
        (scipy.sparse.csr_array((9, 700)), [1, 2]),
        ValueError,
        r"has shape \(9, 700\), but must have shape \(9, 2\): column j is item column_ids\[j\]",
    ),
    "texts for columns": (
        (scipy.sparse.csr_array((9, 1)), ["a"]),
        TypeError,
        "ids are strings, but those in the index are integers",
    ),
    "lists for columns": (
        (scipy.sparse.csr_array((9, 1)), [[1]]),
        TypeError,
        "column_ids of .* is a list, but must be a flat sequence of ids",
    ),
    "a filter of a filter": (ts.Index, TypeError, "is a type, but must be"),
}


@pytest.mark.parametrize("name", ["exclude", "allow"])
@pytest.mark.parametrize("what", BAD)
def test_bad_filters_get_one_sentence(what, name, rng):
    value, error, sentence = BAD[what]
    index = build("numbers", rng)
    for call in (
        lambda: index.search(USERS, **{name: value}),
        lambda: index.search_all(USERS, **{name: value}),
    ):
        with pytest.raises(error, match=sentence) as refused:
            call()
        if "ids are" not in sentence:
            assert str(refused.value).startswith((name, f"column_ids of {name}"))


@pytest.mark.parametrize("column", [-1, 700, 2**31 - 1])
@pytest.mark.parametrize("with_ids", [False, True])
def test_columns_that_are_not_there_are_refused(column, with_ids, rng):
    index = build("numbers", rng)
    seen = scipy.sparse.csr_array((np.ones(2), np.array([3, 4]), np.array([0] + [1] * 8 + [2])), shape=(9, 700))
    seen.indices[1] = column
    for name in ("exclude", "allow"):
        with pytest.raises(ValueError, match=f"{name} has an entry in column {column}, but its columns are 0 to 699"):
            index.search(USERS, **{name: (seen, index.ids.copy()) if with_ids else seen})


@pytest.mark.parametrize("indptr", [[0, 5, 2, 6], [0, 2, 4, 99], [3, 2, 1, 0], [-4, 2, 3, 6]])
def test_damaged_matrices_are_refused(indptr, rng):
    index = build("numbers", rng)
    seen = scipy.sparse.csr_array((np.ones(6), np.arange(6), np.array([0, 2, 4, 6])), shape=(3, 700))
    seen.indptr[:] = indptr
    for name in ("exclude", "allow"):
        for value in (seen, (seen, index.ids.copy())):
            with pytest.raises(ValueError, match=f"{name} is damaged: its indptr does not ascend from 0 to 6, its"):
                index.search(USERS[:3], **{name: value})


def seen_by(index, rng):
    return scipy.sparse.random_array((len(USERS), len(index)), density=0.3, rng=rng, format="csr")


def test_a_matrix_of_the_items_before_is_refused_without_its_ids(rng):
    index = build("numbers", rng)
    before, seen = index.ids.copy(), seen_by(index, rng)
    mask = seen.toarray() != 0
    index.add(ITEMS[:1], [5000])
    for bare in (seen, mask, mask[0]):
        with pytest.raises(
            ValueError, match=r"must have shape .*column j is item index.ids\[j\]; pass exclude=\(matrix"
        ):
            index.search(USERS, exclude=bare)
    found = index.search(USERS, 50, exact=True, exclude=(seen, before))
    for ids, own in zip(found.ids, mask, strict=True):
        assert not np.isin(ids, before[own]).any()
    wider = scipy.sparse.hstack([seen, scipy.sparse.csr_array((len(USERS), 1))])
    assert index.search(USERS, 50, exact=True, exclude=wider).ids.tolist() == found.ids.tolist()
    index.update(ITEMS[:1] * 2, [5000])
    index.search(USERS, exclude=wider)


def test_a_bare_matrix_is_refused_once_items_were_removed(rng, tmp_path):
    index = build("numbers", rng)
    before, seen = index.ids.copy(), seen_by(index, rng)
    mask = seen.toarray() != 0
    index.remove([])
    index.search(USERS, exclude=seen)
    index.remove(before[:1])
    index.add(ITEMS[:1], before[:1])
    index.save(tmp_path / "items.tessella")
    loaded = ts.Index.load(tmp_path / "items.tessella")
    for changed in (index, loaded):
        for bare in (seen, mask, mask[0]):
            for name in ("exclude", "allow"):
                with pytest.raises(ValueError, match=f"^{name} is a matrix without column ids, but items were removed"):
                    changed.search(USERS, **{name: bare})
                with pytest.raises(ValueError, match="its columns may have moved; pass"):
                    changed.filter(**{name: bare})
        found = changed.search(USERS, 20, exact=True, exclude=(seen, before))
        assert not any(np.isin(ids, before[own]).any() for ids, own in zip(found.ids, mask, strict=True))
        changed.rebuild()
        with pytest.raises(ValueError, match="items were removed"):
            changed.search(USERS, exclude=seen)
        assert changed.search(USERS, 20, exact=True, exclude=(seen, before)).ids.tolist() == found.ids.tolist()
    ts.Index.build(ITEMS).search(USERS, exclude=seen)


@pytest.mark.parametrize("kind", ["far numbers", "texts"])
def test_ids_that_are_mostly_unknown_are_warned_of(kind, rng):
    index = build(kind, rng)
    positions = np.arange(20) if kind == "far numbers" else np.array([str(i) for i in range(20)])
    sentence = f"are not in the index, such as .*{positions[0]}.*pass index.ids.positions."
    each = [positions] * len(USERS)
    matrix = scipy.sparse.csr_array(np.ones((len(USERS), 20)))
    for name in ("exclude", "allow"):
        calls = [(queries, value) for queries in (USERS, USERS[0]) for value in (positions, positions.tolist())]
        for queries, value in [*calls, (USERS, each), (USERS, (matrix, positions))]:
            for search in (index.search, index.search_all) if queries.ndim == 2 else (index.search,):
                with pytest.warns(UserWarning, match=f"most ids in {name} {sentence}") as warned:
                    search(queries, **{name: value})
                assert len(warned) == 1
                assert warned[0].filename == __file__
        with pytest.warns(UserWarning, match=f"most ids in {name} {sentence}"):
            prepared = index.filter(**{name: positions})
        index.search(USERS, allow=prepared)
        half = np.concatenate([positions, index.ids[:20]])
        few = positions[:9]
        repeated = np.repeat(positions[:1], 50)
        for value in (half, few, repeated):
            index.search(USERS, **{name: value})
            index.search(USERS[0], **{name: value})
    missing = np.full(30, -1) if kind == "far numbers" else [None] * 30
    index.search(USERS[0], exclude=missing)


def test_prepared_filters_are_what_they_were_made_of(rng):
    index = build("numbers", rng)
    ids = index.ids
    common, each = ids[::2], [rng.permutation(ids)[:200] for _ in USERS]
    for exclude, allow in ((None, common), (common, None), (None, each), (each, None), (each, common), (common, each)):
        expected = index.search(USERS, 8, exclude=exclude, allow=allow)
        prepared = index.filter(exclude=exclude, allow=allow)
        for _ in range(2):
            found = index.search(USERS, 8, allow=prepared)
            assert found.ids.tolist() == expected.ids.tolist()
        if allow is None:
            assert index.search(USERS, 8, exclude=prepared).ids.tolist() == expected.ids.tolist()
        assert index.search_all(USERS, 8, allow=prepared).ids.tolist() == expected.ids.tolist()


@pytest.mark.parametrize("prepared_exclude", ["all", "each", None])
@pytest.mark.parametrize("prepared_allow", ["all", "each", None])
@pytest.mark.parametrize("plain", ["all", "each"])
def test_prepared_filters_go_with_others(prepared_exclude, prepared_allow, plain, rng):
    """A filter passed as allow goes with any exclude; one that only excludes, passed so, with any allow."""
    index = build("numbers", rng)
    may = np.ones((len(USERS), 700), np.bool_)

    def some(name, kind, share):
        nonlocal may
        mask = rng.random((1 if kind == "all" else len(USERS), 700)) < share
        may &= mask if name == "allow" else ~mask
        return index.ids[mask[0]] if kind == "all" else [index.ids[own] for own in mask]

    parts = {}
    if prepared_exclude:
        parts["exclude"] = some("exclude", prepared_exclude, 0.1)
    if prepared_allow:
        parts["allow"] = some("allow", prepared_allow, 0.6)
    if not parts:
        return
    prepared = index.filter(**parts)
    before = may
    for given_as, other in (("allow", "exclude"), ("exclude", "allow")):
        if given_as == "exclude" and prepared_allow:
            continue
        may = before.copy()
        asked = {given_as: prepared, other: some(other, plain, 0.3)}
        assert index.search(USERS, 8, exact=True, **asked).ids.tolist() == brute_force(index, 8, may)
        asked = {given_as: prepared, other: index.filter(**{other: asked[other]})}
        assert index.search(USERS, 8, exact=True, **asked).ids.tolist() == brute_force(index, 8, may)
        both = {"exclude": prepared, "allow": prepared}
        if not prepared_allow:
            assert index.search(USERS, 8, exact=True, **both).ids.tolist() == brute_force(index, 8, before)


def test_prepared_filters_follow_the_index(rng):
    index = build("texts", rng)
    ids = index.ids.copy()
    mask = rng.random((len(USERS), 700)) < 0.4
    allowed = index.filter(allow=[*ids[:300].tolist(), "later"])
    seen = index.filter(exclude=mask)
    as_matrix = index.filter(exclude=scipy.sparse.csr_array(mask))

    def check():
        now = index.ids
        places = {name: place for place, name in enumerate(ids.tolist())}
        own = np.array([places.get(name, -1) for name in now.tolist()])
        allow = (own >= 0) & (own < 300) | (now == "later")
        left = ~mask[:, own] | (own < 0)
        assert index.search(USERS, 8, exact=True, allow=allowed).ids.tolist() == brute_force(
            index, 8, np.tile(allow, (len(USERS), 1))
        )
        for given_seen in (seen, as_matrix):
            found = index.search(USERS, 8, exact=True, exclude=given_seen, allow=allowed)
            assert found.ids.tolist() == brute_force(index, 8, left & allow)
            part = index.search(USERS[0], 8, exact=True, exclude=given_seen.of_queries(slice(0, 1)))
            assert part.ids.tolist() == brute_force(index, 8, left)[0]

    check()
    index.remove(ids[:100])
    check()
    index.add(ITEMS[:101] * 2, [*ids[:100].tolist(), "later"])
    check()
    index.update(ITEMS[1:2] * 9, ["later"])
    check()
    index.rebuild()
    check()


def test_a_prepared_filter_holds_copies(rng):
    index = build("numbers", rng)
    given_ids, mask = index.ids[:50].copy(), rng.random((len(USERS), 700)) < 0.5
    lists = [own[own != 5].copy() for own in (index.ids[row] for row in mask)]
    matrix = scipy.sparse.csr_array(mask)
    columns = index.ids.copy()
    made = [index.filter(exclude=value) for value in (given_ids, mask, lists, matrix, (matrix, columns))]
    expected = [index.search(USERS, 5, exclude=each).ids.tolist() for each in made]
    given_ids[:], mask[:], matrix.indices[:], columns[:] = index.ids[-1], False, 0, index.ids[0]
    for own in lists:
        own[:] = index.ids[-1]
    index.update(ITEMS[:1], index.ids[:1])
    assert [index.search(USERS, 5, exclude=each).ids.tolist() for each in made] == expected


def test_prepared_filters_that_do_not_fit_are_refused(rng):
    index, other = build("numbers", rng), build("numbers", rng)
    each = index.filter(exclude=[[1]] * 9)
    assert each.n_queries == 9
    assert repr(each) == "PreparedFilter(exclude=9 lists of 9)"
    assert index.filter(allow=[1, 2]).n_queries is None
    for name in ("exclude", "allow"):
        with pytest.raises(
            ValueError, match="the filter was created by another index; create it with this index's filter"
        ):
            other.search(USERS, **{name: each})
        with pytest.raises(ValueError, match="the filter was created by another index"):
            other.search_all(USERS, **{name: each})
        with pytest.raises(ValueError, match=f"{name} is a filter for 9 queries, but there are 4"):
            index.search(USERS[:4], **{name: each})
        with pytest.raises(ValueError, match=f"{name} is a filter for 9 queries, but there are 4"):
            index.search_all(USERS[:4], **{name: each})
        with pytest.raises(TypeError, match=f"{name} is already a prepared filter"):
            index.filter(**{name: each})
    with pytest.raises(ValueError, match="exclude is a filter with allowed items; pass it as allow"):
        index.search(USERS, exclude=index.filter(allow=[1]))
    with pytest.raises(ValueError, match="allow has 2 sequences of ids, but there are 9 queries"):
        index.filter(exclude=[[1]] * 9, allow=[[1]] * 2)
    with pytest.raises(ValueError, match="a filter needs exclude, allow or both"):
        index.filter()
    with pytest.raises(TypeError, match="ids are strings"):
        index.filter(allow=["a"])


def test_a_prepared_filter_keeps_no_old_version_alive(rng):
    index = build("numbers", rng)
    prepared = index.filter(allow=index.ids[:100])
    index.search(USERS, allow=prepared)
    before = weakref.ref(index._version)
    index.update(ITEMS[:1], index.ids[:1])
    gc.collect()
    assert before() is None


def test_a_prepared_filter_serves_many_threads_under_changes(rng):
    index = build("numbers", rng)
    allowed = index.ids[:200].copy()
    prepared = index.filter(allow=allowed)
    expected = index.search(USERS, 5, exact=True, allow=allowed).ids.tolist()
    wrong, done = [], threading.Event()

    def serve():
        while not done.is_set():
            if index.search(USERS, 5, exact=True, allow=prepared, threads=1).ids.tolist() != expected:
                wrong.append(1)

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(30):
        index.remove(index.ids[-3:])
        index.add(100 * ITEMS[:3], 10_000 + 3 * turn + np.arange(3))
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_search_all_resumes_with_the_same_filter_in_another_form(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(all_users, "USERS_PER_BLOCK", 2)
    index = build("numbers", rng)
    mask = rng.random((len(USERS), 700)) < 0.3
    whole = all_users.search
    calls = []

    def failing(*arguments, **options):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    monkeypatch.setattr(all_users, "search", failing)
    for name in ("exclude", "allow"):
        calls.clear()
        expected = index.search(USERS, 5, **{name: mask})
        forms = forms_of(index, mask, rng)
        with pytest.raises(KeyboardInterrupt):
            index.search_all(USERS, 5, **{name: forms["csr"]}, out=tmp_path / name)
        with pytest.raises(ValueError, match="other users or filters"):
            index.search_all(USERS, 5, **{name: mask[::-1]}, out=tmp_path / name)
        found = index.search_all(USERS, 5, **{name: forms["arrays"]}, out=tmp_path / name)
        assert found.ids.tolist() == expected.ids.tolist()


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), spread=st.sampled_from([1, 3, 2**40]), crowded=st.booleans())
def test_lists_of_rows_are_those_of_the_reference(seed, spread, crowded):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 5, 300, 6000]))
    ids = rng.permutation(np.arange(n) - n // 3) * spread
    ids[ids == -1] = 2**50
    factors = rng.standard_normal((n, 2)).astype(np.float32)
    index = ts.Index.build(factors, ids, method="exact")
    index.remove(rng.permutation(ids)[: n // 5])
    if n > 2:
        index.update(factors[:2], index.ids[:2])
    lengths = rng.integers(0, [1, 40, 300, 5000][seed % 4] + 1, 6)
    starts = np.concatenate([[0], np.cumsum(lengths)]) + 3
    pool = ids[:20] if crowded else np.concatenate([ids, [-1, 2**60, -(2**63), 2**63 - 1], ids[:3] + 1])
    wanted = rng.choice(pool, starts[-1])
    excluded = [np.unique(rng.choice(n, rng.integers(0, n + 1))) for _ in range(6)]
    without = np.concatenate(excluded), np.concatenate([[0], np.cumsum([len(own) for own in excluded])])

    def listed(fill, *arguments):
        rows, row_starts = np.empty(starts[-1] - 3, np.int64), np.empty(7, np.int64)
        said = fill(*arguments, rows, row_starts)
        return said, rows[: row_starts[-1]].tolist(), row_starts.tolist()

    with pytest.MonkeyPatch.context() as patch:
        engines = [at_level(index, level, patch)._version.engine for level in _kernels.simd_levels()]
        for less in (None, without):
            first, *others = [listed(engine.list_ids, wanted, starts, less) for engine in engines]
            assert all(other == first for other in others)
            own = index._version.find(wanted[3:])
            kept = [
                sorted(
                    set(index._version.rows_at(own[a:b][own[a:b] >= 0]).tolist()) - set(out.tolist() if less else [])
                )
                for a, b, out in zip(starts[:-1] - 3, starts[1:] - 3, excluded, strict=True)
            ]
            assert first[1] == [row for rows in kept for row in rows]
            assert first[0] == np.count_nonzero((own < 0) & (wanted[3:] != -1))
    if _kernels._native is not None:
        table = rng.permutation(n + 5) - 5
        for columns in (rng.integers(-1, len(table) + 1, starts[-1]), rng.integers(0, len(table), starts[-1])):
            for dtype in (np.int32, np.int64):
                for rows_of in (table, None):
                    arguments = columns.astype(dtype), starts, rows_of, without
                    assert listed(_kernels._native.list_columns, *arguments) == listed(
                        _reference.list_columns, *arguments
                    )


@pytest.mark.skipif(_kernels._native is None, reason="there is no native core")
def test_lists_of_python_are_read_as_by_the_reference():
    for lists, n in (
        ([[1, 2], (3,), []], 3),
        ([[-(2**63), 2**63 - 1]], 2),
        ([[2**63]], 1),
        ([[True]], 1),
        ([[1.0]], 1),
        ([["a"]], 1),
        ([{1}], 1),
        ([[np.int64(1)]], 1),
        ([[None]], 1),
        ([], 0),
    ):
        both = []
        for kernels in (_kernels._native, _reference):
            ids = np.zeros(n, np.int64)
            said = kernels.read_ids(lists, ids)
            both.append((said, ids.tolist() if said else None))
        assert both[0] == both[1]
    for lists, n in (([[1, 2]], 1), ([[1]], 2), ((1,), 1)):
        with pytest.raises(ValueError, match="lists"):
            _kernels._native.read_ids(lists, np.zeros(n, np.int64))


def test_nothing_is_warned_of_where_ids_are_known(rng):
    index = build("numbers", rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.search(USERS, exclude=index.ids[:30], allow=[index.ids] * len(USERS))


def test_likely_mistakes_are_refused(rng):
    index = ts.Index.build(rng.standard_normal((9, 3)))
    users = rng.standard_normal((2, 3))
    matrix = scipy.sparse.csr_array(np.eye(2, 9))
    with pytest.raises(ValueError, match="column_ids of exclude holds 4 more than once"):
        index.search(users, 2, exclude=(matrix, [0, 1, 2, 3, 4, 4, 6, 7, 8]))
    with pytest.raises(ValueError, match=r"exclude has a 0 or 1 for each item, .* exclude\.astype\(bool\)"):
        index.search(users, 2, exclude=np.eye(2, 9, dtype=int))
    with pytest.raises(ValueError, match="exclude has 2 sequences of ids, but there is 1 query"):
        index.search(users[:1], 2, exclude=[[1], [2]])
    with pytest.raises(TypeError, match="method is the class Exact, but must be"):
        index.search(users, 2, method=ts.Exact)
    with pytest.raises(TypeError, match="a prepared filter cannot be pickled without its index"):
        pickle.dumps(index.filter(exclude=[1]))
