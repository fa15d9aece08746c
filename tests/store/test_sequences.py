"""Any sequence of changes, crashes and readers that follow gives the answers of a fresh build from the rows expected."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.store import Change, ItemInput, Store, UserInput

WIDTH = 3
VECTORS = st.lists(st.integers(-4, 4).map(float), min_size=WIDTH, max_size=WIDTH)
ITEM_IDS, USER_IDS = st.integers(0, 9), st.sampled_from(["ann", "bob", "eve", "joe"])
YEARS = st.none() | st.integers(1990, 1995)

PUT_ITEMS = st.tuples(
    st.just("put items"),
    st.dictionaries(ITEM_IDS, st.tuples(VECTORS, YEARS, st.integers(0, 3).map(float)), min_size=1, max_size=4),
)
PART = st.tuples(st.just("year"), st.dictionaries(ITEM_IDS, YEARS, min_size=1, max_size=2))
PUT_USERS = st.tuples(
    st.just("put users"),
    st.dictionaries(USER_IDS, st.tuples(VECTORS, st.lists(ITEM_IDS, unique=True, max_size=3)), min_size=1, max_size=2),
)
REMOVE_ITEMS = st.tuples(st.just("remove items"), st.sets(ITEM_IDS, min_size=1, max_size=3))
REMOVE_USERS = st.tuples(st.just("remove users"), st.sets(USER_IDS, min_size=1, max_size=2))
ROWS = st.one_of(PUT_ITEMS, PUT_ITEMS, PART, PUT_USERS, REMOVE_ITEMS, REMOVE_USERS)
STEPS = st.one_of(
    ROWS,
    ROWS,
    st.tuples(st.just("several"), st.lists(ROWS, min_size=2, max_size=4)),
    st.tuples(st.sampled_from(["follow", "snapshot", "reopen", "crash", "rebuild"]), st.none()),
)


class Expected:
    """Items and users in the order in which they came."""

    def __init__(self):
        self.items = {0: ([1.0, 0.0, 0.0], 1990, 1.0)}
        self.users = {}

    def change(self, kind, what):
        """Make a change, or say that the store must refuse it."""
        if kind == "put items":
            self.items |= what
        elif kind == "year":
            if not what.keys() <= self.items.keys():
                return False
            self.items |= {item: (self.items[item][0], year, self.items[item][2]) for item, year in what.items()}
        elif kind == "put users":
            self.users |= what
        else:
            there = self.items if kind == "remove items" else self.users
            if not what <= there.keys():
                return False
            for one in what:
                del there[one]
        return True

    def check(self, store):
        if not self.items:
            assert store.model().held is None
            return
        factors, years, popularity = zip(*self.items.values(), strict=True)
        fresh = ts.Recommender.build(
            factors,
            [vector for vector, _ in self.users.values()] or None,
            item_ids=list(self.items),
            user_ids=list(self.users) or None,
            attributes={"year": [np.nan if year is None else float(year) for year in years]},
            signals={"popularity": popularity},
        )
        held = store.recommender
        assert held.item_ids.tolist() == list(self.items)
        rows = store.items(list(self.items))
        assert [row.vector.tolist() for row in rows] == list(factors)
        assert [(row.attributes or {}).get("year") for row in rows] == list(years)
        for user, (_, seen) in self.users.items():
            assert store.users([user])[0].seen == tuple(seen)
            for asked in ({}, {"where": {"year": {"from": 1992}}}, {"boosts": {"popularity": 0.5}}):
                one = held.recommend(user, k=10, exact=True, **asked)
                other = fresh.recommend(user, k=10, exact=True, exclude=seen or None, **asked)
                np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)
                if "boosts" not in asked:  # where rounding may change the order of equals
                    assert one.ids.tolist() == other.ids.tolist()


def as_change(kind, what):
    if kind == "put items":
        told = [
            ItemInput(item, vector, {"year": year}, {"popularity": one}) for item, (vector, year, one) in what.items()
        ]
        return Change(items=told)
    if kind == "year":
        return Change(items=[ItemInput(item, attributes={"year": year}) for item, year in what.items()], mode="update")
    if kind == "put users":
        return Change(users=[UserInput(user, vector, seen) for user, (vector, seen) in what.items()])
    return Change(remove_items=sorted(what)) if kind == "remove items" else Change(remove_users=sorted(what))


def crashed(path, folder, number):
    """The files of a store as a killed process leaves them."""
    copy = folder / f"crash-{number}"
    copy.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        if not file.name.endswith(("-shm", ".writer")):
            shutil.copy(file, copy / file.name)
    return copy / path.name


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=12))
def test_any_sequence_of_changes_equals_a_fresh_build(steps):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "s.db"
        expected = Expected()
        store = Store.open(path)
        store.make("a", WIDTH, attributes={"year": "number"}, signals={"popularity": None})
        assert store.apply([Change(items=as_change("put items", expected.items).items, generation="a")]) == [
            store.version
        ]
        store.publish(name="a")
        reader = Store.open(path, read_only=True)
        try:
            for number, (kind, what) in enumerate(steps):
                if kind == "follow":
                    reader.follow()
                    expected.check(reader)
                elif kind in ("snapshot", "rebuild"):
                    getattr(store, kind)()
                elif kind == "reopen":
                    store.close()
                    store = Store.open(path)
                elif kind == "crash":
                    reader.close()
                    other = crashed(path, folder, number)
                    store.close()
                    path = other
                    store = Store.open(path)
                    reader = Store.open(path, read_only=True)
                else:
                    several = what if kind == "several" else [(kind, what)]
                    outcomes = store.apply([as_change(*one) for one in several])
                    made = [expected.change(*one) for one in several]
                    assert [isinstance(outcome, int) for outcome in outcomes] == made
                expected.check(store)
            reader.follow()
            expected.check(reader)
        finally:
            reader.close()
            store.close()
