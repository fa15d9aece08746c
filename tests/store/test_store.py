"""Rows are the truth: what a store acknowledged is there after any end of the process, and indexes say what rows say."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import tessella as ts
from tessella.store import Change, DamagedRowError, EmptyError, ItemInput, Store, connection, pending, tables
from tessella.store.rows import ItemRow

RNG = np.random.default_rng(7)
ITEMS, USERS = RNG.standard_normal((40, 5)).astype(np.float32), RNG.standard_normal((6, 5)).astype(np.float32)
MOVIES = {
    "title": [f"Movie {n}" for n in range(40)],
    "genres": [["comedy", "drama"][: n % 3] for n in range(40)],
    "year": [None if n == 3 else 1990 + n for n in range(40)],
    "rating": np.linspace(0, 1, 40, dtype=np.float32),
    "released": np.array(["2020-01-01"] * 40, "datetime64[D]") + np.arange(40),
    "adult": [n % 7 == 0 for n in range(40)],
}
SIGNALS = {
    "popularity": np.arange(40.0),
    "fresh": ts.Decaying(np.arange(40) * 86400.0, half_life=10 * 86400.0),
}
SEEN = [[0, 1], [], [2], [3, 4, 39], [], [5]]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "catalogue.db"


def filled(path, **options):
    store = Store.open(path, **options)
    store.publish(
        ITEMS, USERS, name="a", seen=SEEN, attributes=MOVIES, signals=SIGNALS, payload=[{"n": n} for n in range(40)]
    )
    return store


def built():
    return ts.Recommender.build(ITEMS, USERS, seen=SEEN, attributes=MOVIES, signals=SIGNALS)


def same_answers(one, other, users=range(6), **asked):
    for user in users:
        a, b = one.recommend(user, k=50, exact=True, **asked), other.recommend(user, k=50, exact=True, **asked)
        assert a.ids.tolist() == b.ids.tolist()
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-4, atol=1e-4)


WHERE = {
    "genres": "comedy",
    "year": {"from": 1995},
    "released": {"to": "2020-02"},
    "rating": {"below": 0.9},
    "adult": False,
}


def test_a_store_answers_as_a_recommender_of_the_same_model(path):
    with filled(path) as store:
        same_answers(store.recommender, built())
        same_answers(store.recommender, built(), where=WHERE)
        same_answers(store.recommender, built(), boosts={"popularity": 0.1, "fresh": 1.0}, now=3e6)
        assert store.recommender.recommend(0, k=1).titles.tolist() == built().recommend(0, k=1).titles.tolist()
        assert store.live == "a"
        assert [(one.name, one.live, one.n_items, one.n_users, one.n_factors) for one in store.generations()] == [
            ("a", True, 40, 6, 5)
        ]


@pytest.mark.parametrize("snapshot", [True, False])
def test_opening_again_gives_the_same(path, snapshot):
    filled(path).close()
    if not snapshot:
        next(path.parent.glob("*.snapshot")).unlink()
    with Store.open(path, mmap=snapshot) as store:
        same_answers(store.recommender, built())
        same_answers(store.recommender, built(), where=WHERE)
        same_answers(store.recommender, built(), boosts={"popularity": 0.1, "fresh": 1.0}, now=3e6)
        (row,) = store.items([3])
        assert row.payload == {"n": 3}
        assert row.attributes == {"title": "Movie 3", "genres": [], "rating": float(MOVIES["rating"][3]),
                                  "released": "2020-01-04", "adult": False}  # fmt: skip
        assert row.signals == {"popularity": 3.0, "fresh": 3 * 86400.0}
        (user,) = store.users([3])
        assert user.seen == (3, 4, 39)
        kinds = store.recommender._edition.attributes.kinds
        assert kinds == built()._edition.attributes.kinds


def test_changes_are_seen_at_once_and_by_the_next_process(path):
    store = filled(path)
    new = 100 * USERS[1]
    before = store.version
    known = {name: [values[5]] for name, values in MOVIES.items()}
    version = store.add_items(
        [new], [99], attributes=known, signals={"popularity": [1.0], "fresh": [0.0]}, payload=["x"]
    )
    assert version == store.version == before + 1 == store.recommender.version
    assert store.recommender.recommend(1, k=1).ids.tolist() == [99]
    store.update_items(None, [99], payload=["y"])
    store.update_items([-new], [99])
    assert 99 not in store.recommender.recommend(1, k=20).ids
    store.update_items(None, [7], attributes={name: [None] for name in MOVIES})
    store.remove_items([0])
    store.add_users([USERS[0]], [77], seen=[[0, 99]])
    store.update_users(None, [1], seen=[[2]])
    store.remove_users([5])
    version = store.version
    store.close()
    with Store.open(path) as store:
        assert store.version == version
        assert store.items([99])[0].payload == "y"
        assert store.items([7])[0].attributes == {}
        assert store.items([0]) == []
        assert store.users([77])[0].seen == (0, 99)
        answers = store.recommender.recommend(77, k=50, exact=True).ids.tolist()
        assert 99 not in answers
        assert 2 not in store.recommender.recommend(1, k=50).ids
        with pytest.raises(KeyError, match="there is no user with id 5"):
            store.recommender.recommend(5)
        np.testing.assert_array_equal(store.items([99])[0].vector, -new)
        again = Store.open(path, read_only=True)
        next(path.parent.glob("*.snapshot")).unlink()
        with Store.open(path, read_only=True) as rebuilt:
            for user in (0, 1, 2, 3, 4, 77):
                one, other = (each.recommender.recommend(user, k=50, exact=True) for each in (again, rebuilt))
                assert one.ids.tolist() == other.ids.tolist()
        again.close()


def test_some_columns_may_change_and_others_stay(path):
    with filled(path) as store:
        store.update_items(None, [7], attributes={"year": [2001]}, signals={"popularity": [5.0]})
        (row,) = store.items([7])
        assert (row.attributes["year"], row.attributes["title"]) == (2001, "Movie 7")
        assert row.signals == {"popularity": 5.0, "fresh": 7 * 86400.0}
        store.add_items(ITEMS[:1], [99], attributes={"title": ["New"]}, signals={"popularity": [1.0], "fresh": [0.0]})
        assert store.items([99])[0].attributes == {"title": "New"}
        with pytest.raises(ValueError, match="did you mean 'popularity'"):
            store.update_items(None, [7], signals={"popular": [5.0]})


def test_text_ids_and_users_without_factors(path):
    with Store.open(path) as store:
        store.publish(
            np.eye(3),
            name="t",
            item_ids=["tea", "mate", "çay"],
            user_ids=["ann", "bob"],
            seen=[["tea"], ["çay", "mate"]],
        )
        assert store.recommender.recommend("ann", liked=["mate"], k=3).ids.tolist()[:1] == ["çay"]
        store.add_items([[9.0, 9.0, 9.0]], ["日本茶"])
        store.add_users(None, ["eve"], seen=[["日本茶"]])
    with Store.open(path) as store:
        assert store.users(["eve"])[0].seen == ("日本茶",)
        assert store.items(["日本茶"])[0].vector.tolist() == [9, 9, 9]
        with pytest.raises(TypeError, match="ids holds integers, but the ids of items are strings"):
            store.remove_items([1])


def test_several_interests_and_weights(path):
    vectors = RNG.standard_normal((3, 2, 5)).astype(np.float32)
    seen = scipy.sparse.csr_matrix(([2.0, 3.0], ([0, 2], [1, 4])), shape=(3, 40))
    with Store.open(path) as store:
        store.publish(ITEMS, vectors, name="a", seen=seen)
        store.add_users([vectors[0]], [9])
        with pytest.raises(ValueError, match="user 10 has 1 vectors, but the other users have 2"):
            store.add_users([USERS[0]], [10])
    direct = ts.Recommender.build(ITEMS, vectors, seen=seen)
    with Store.open(path) as store:
        same_answers(store.recommender, direct, range(3))
        assert store.users([2])[0].weights == (3.0,)
        fold, direct_fold = (each.recommend(2, liked=[7], k=9, exact=True) for each in (store.recommender, direct))
        np.testing.assert_allclose(np.sort(fold.scores), np.sort(direct_fold.scores), rtol=1e-3)


BAD_CHANGES = {
    "wrong dimension": (lambda s: s.add_items([[1.0, 2.0]], [99]), ValueError, "item_factors has 2 columns, but 5 are expected"),
    "not finite": (lambda s: s.add_items([[np.nan] * 5], [99]), ValueError, "must be finite"),
    "there already": (lambda s: s.add_items(ITEMS[:1], [1]), ValueError, "item 1 already exists; use update_items"),
    "not there": (lambda s: s.update_items(ITEMS[:1], [99]), KeyError, "there is no item with id 99"),
    "not there to remove": (lambda s: s.remove_items([1, 99]), KeyError, "there is no item with id 99"),
    "other ids": (lambda s: s.add_items(ITEMS[:1], ["x"]), TypeError, "ids holds strings, but the ids of items are integers"),
    "missing id": (lambda s: s.add_items(ITEMS[:1], [-1]), ValueError, "is reserved for missing answers"),
    "twice": (lambda s: s.add_items(ITEMS[:2], [50, 50]), ValueError, "more than once"),
    "attribute": (lambda s: s.apply([Change(items=[ItemInput(1, attributes={"genre": "x"})])])[0], ValueError, "'genre', but there is no such column; did you mean 'genres'"),
    "kind": (lambda s: s.update_items(None, [1], attributes={**{n: [None] for n in MOVIES}, "year": ["x"]}), TypeError, "kind 'category'"),
    "signal": (lambda s: s.apply([Change(items=[ItemInput(77, ITEMS[0])])])[0], ValueError, "has no signal 'popularity'"),
    "signal name": (lambda s: s.apply([Change(items=[ItemInput(1, signals={"popular": 1})])])[0], ValueError, "did you mean 'popularity'"),
    "signal date": (lambda s: s.apply([Change(items=[ItemInput(1, signals={"fresh": "soon"})])])[0], ValueError, "must be a date"),
    "payload": (lambda s: s.update_items(None, [1], payload=[{1, 2}]), ValueError, "cannot be written as JSON"),
    "surrogates": (lambda s: s.update_items(None, [1], payload=["\ud800"]), ValueError, "payload of item 1 cannot be written"),
    "user dimension": (lambda s: s.add_users([[1.0]], [99]), ValueError, "factors of user 99 have shape"),
    "user without factors": (lambda s: s.add_users(None, [99]), ValueError, "user 99 has 0 vectors, but the other users have 1"),
    "user not there": (lambda s: s.remove_users([99]), KeyError, "there is no user with id 99"),
    "seen": (lambda s: s.update_users(None, [1], seen=[["x"]]), TypeError, "seen of user 1 holds strings"),
    "generation": (lambda s: s.add_items(ITEMS[:1], [99], generation="z"), KeyError, "there is no generation 'z'"),
    "name": (lambda s: s.publish(ITEMS, name="a b"), ValueError, "name is 'a b', but must be 1 to 64 letters"),
    "same name": (lambda s: s.publish(ITEMS, name="a"), FileExistsError, "generation 'a' already exists; choose another name"),
    "no items": (lambda s: s.publish(np.zeros((0, 3)), name="b"), ValueError, "at least 1 item"),
    "no rollback": (lambda s: s.rollback(), LookupError, "there is no earlier generation to roll back to"),
    "live": (lambda s: s.drop("a"), ValueError, "is live; publish another one first"),
    "far newer": (lambda s: s.update_items(None, [1], signals={"popularity": [1.0], "fresh": [1e15]}), ValueError, "lifetimes newer"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(BAD_CHANGES))
def test_bad_changes_are_refused_in_one_sentence_and_change_nothing(path, case):
    change, error, sentence = BAD_CHANGES[case]
    with filled(path) as store:
        before, version, edition = dump(path), store.version, store.recommender._edition
        with pytest.raises(error, match=sentence):
            refused(change(store))
        assert store.version == version
        assert store.recommender._edition is edition
        assert dump(path) == before


def refused(outcome):
    if isinstance(outcome, Exception):
        raise outcome


def dump(path):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return list(database.iterdump())
    finally:
        database.close()


def test_several_changes_are_each_made_or_refused(path):
    with filled(path) as store:
        version = store.version
        outcomes = store.apply([
            Change(items=[ItemInput(1, ITEMS[2])]),
            Change(items=[ItemInput(2, [1.0])]),
            Change(remove_items=[3, 4]),
            Change(remove_items=[3]),
            Change(items=[ItemInput(4, ITEMS[4], signals={"popularity": 1, "fresh": "1970-02-01"})]),
        ])  # fmt: skip
        assert outcomes[0] == version + 1
        assert "have shape (1,)" in str(outcomes[1])
        assert outcomes[2] == version + 2
        assert isinstance(outcomes[3], KeyError)
        assert outcomes[4] == version + 3 == store.version
        assert store.recommender.item_ids.tolist()[-1] == 4  # it came back, as the last one
        outcomes = store.apply([
            Change(items=[ItemInput(5, signals={"fresh": 1e15})]),  # which only the index refuses
            Change(items=[ItemInput(6, ITEMS[9])]),
        ])  # fmt: skip
        assert "lifetimes newer" in str(outcomes[0])
        assert outcomes[1] == store.version
        np.testing.assert_array_equal(store.items([6])[0].vector, ITEMS[9])
        assert store.items([5])[0].signals["fresh"] == 5 * 86400.0


def test_the_recommender_of_a_store_is_changed_by_the_store(path):
    with filled(path) as store:
        for change in (
            "add_items",
            "update_items",
            "remove_items",
            "add_users",
            "update_users",
            "remove_users",
            "tune",
            "rebuild",
        ):
            with pytest.raises(ValueError, match="call the store's method instead"):
                getattr(store.recommender, change)([1])


def test_empty_stores(path):
    with Store.open(path) as store:
        assert store.live is None
        assert "no model yet" in repr(store)
        for ask in (lambda: store.recommender, lambda: store.add_items(ITEMS[:1], [1]), lambda: store.items([1])):
            with pytest.raises(EmptyError, match="holds no model yet; publish one"):
                ask()
        store.make("empty", 5, attributes={"title": "category", "when": "date"}, signals={"fresh": 60.0})
        with pytest.raises(EmptyError, match="holds no items yet"):
            store.publish(name="empty")
        told = Change(
            items=[ItemInput("a", ITEMS[0], {"title": "A", "when": "2020-01-01"}, {"fresh": "2020-01-01"})],
            generation="empty",
        )
        assert isinstance(store.apply([told])[0], int)
        store.publish(name="empty")
        assert store.recommender.recommend(ITEMS[0], k=3, where={"when": "2020"}).titles.tolist()[0] == "A"
        store.remove_items(["a"])
        with pytest.raises(EmptyError, match="holds no items yet"):
            store.recommender  # noqa: B018
        assert store.apply([Change(items=told.items)]) == [store.version]
        assert store.recommender.item_ids.tolist() == ["a"]
        store.make("next", like="empty")
        store.apply([Change(items=told.items, generation="next")])
        assert store.model("next").recommender.item_ids.tolist() == ["a"]


# Generations


def rotated(seed):
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 5)))[0]
    return ITEMS @ turn, USERS @ turn


def test_generations_are_published_kept_and_gone_back_to(path):
    with filled(path, keep=2) as store:
        store.publish(*rotated(1), name="b")
        assert store.live == "b"
        same_answers(store.recommender, ts.Recommender.build(*rotated(1)))
        same_answers(store.model("a").recommender, built())
        assert store.rollback() == "a"
        same_answers(store.recommender, built())
        with pytest.raises(LookupError):
            store.rollback()
        store.publish(name="b")
        store.publish(*rotated(2), name="c")
        assert [one.name for one in store.generations()] == ["b", "c"]
        with pytest.raises(KeyError, match="there is no generation 'a'"):
            store.model("a")
        assert store.rollback() == "b"
        store.drop("c")
        assert [one.name for one in store.generations()] == ["b"]
        assert len(list(path.parent.glob("*.snapshot"))) <= 2
    tables = {line.split()[2] for line in dump(path) if line.startswith("CREATE TABLE items")}
    assert len(tables) == 1
    with Store.open(path) as store:
        assert store.live == "b"


def test_a_load_that_is_interrupted_leaves_nothing(path, monkeypatch):
    monkeypatch.setattr("tessella.store.loading.ROWS", 10)
    with filled(path) as store:
        before = dump(path)

        class Payloads(list):
            def __getitem__(self, some):
                if some.start >= 20:
                    raise KeyboardInterrupt
                return super().__getitem__(some)

        with pytest.raises(KeyboardInterrupt):
            store.publish(ITEMS, name="b", payload=Payloads(range(40)))
        assert [one.name for one in store.generations()] == ["a"]
        assert [line for line in dump(path) if "sqlite_sequence" not in line] == [
            line for line in before if "sqlite_sequence" not in line
        ]


def test_leftovers_of_a_killed_load_go_at_the_next_open(path):
    filled(path).close()
    database = sqlite3.connect(path, isolation_level=None)
    number = tables.insert_generation(database, "half", options="{}", n_factors=5)
    database.execute(f"INSERT INTO items_{number} VALUES (0, 1, x'', NULL, NULL, NULL, 0)")  # noqa: S608
    database.close()
    with Store.open(path, read_only=True) as store:
        assert [one.name for one in store.generations()] == ["a"]
    with Store.open(path) as store:
        assert [one.name for one in store.generations()] == ["a"]
        store.publish(ITEMS, name="half")


# Snapshots


def spoil(file, at=None):
    data = bytearray(file.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 0xFF
    file.write_bytes(data)


def snapshot_of(path):
    (file,) = path.parent.glob("*.snapshot")
    return file


@pytest.mark.parametrize("how", ["damaged", "cut", "empty", "another's", "index"])
def test_a_snapshot_that_cannot_be_trusted_is_built_anew_with_a_warning(path, tmp_path, how):
    filled(path).close()
    file = snapshot_of(path)
    if how == "damaged":
        spoil(file)
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "index":
        ts.Index.build(ITEMS).save(file, overwrite=True)
    else:
        other = tmp_path / "other"
        other.mkdir()
        filled(other / "o.db").close()
        file.write_bytes(snapshot_of(other / "o.db").read_bytes())
    with pytest.warns(UserWarning, match="the index is rebuilt from the rows"), Store.open(path) as store:
        same_answers(store.recommender, built())
    with Store.open(path) as store:  # and the next snapshot is sound
        same_answers(store.recommender, built())


def test_a_snapshot_that_is_behind_follows_the_list_of_changes_and_a_stale_one_is_built_anew(path, monkeypatch):
    filled(path).close()
    old = snapshot_of(path).read_bytes()
    with Store.open(path) as store:
        store.update_items([100 * USERS[1]], [7])
        store.remove_items([1, 2])
    expected = built()
    expected.update_items([100 * USERS[1]], [7])
    expected.remove_items([1, 2])
    snapshot_of(path).write_bytes(old)
    with Store.open(path) as store:
        same_answers(store.recommender, expected)
    monkeypatch.setattr(pending, "KEPT_CHANGES", 2)
    monkeypatch.setattr(pending, "TRIMMED_EVERY", 1)
    with Store.open(path) as store:
        for _ in range(4):
            store.update_items([100 * USERS[1]], [7])
    snapshot_of(path).write_bytes(old)
    with pytest.warns(UserWarning, match="is stale: it has version"), Store.open(path) as store:
        same_answers(store.recommender, expected)


def test_a_snapshot_of_the_same_version_of_another_history_is_not_trusted(path):
    filled(path).close()
    backup = path.read_bytes()
    with Store.open(path) as store:
        store.update_items([100 * USERS[1]], [7])
        version = store.version
    path.write_bytes(backup)  # restored from a copy, and changed otherwise
    with pytest.warns(UserWarning, match="the index is rebuilt"):
        lost = Store.open(path)
    lost.update_items([100 * USERS[2]], [8])
    assert lost.version == version
    lost.close()
    with Store.open(path) as store:
        assert store.recommender.recommend(2, k=1).ids.tolist() == [8]
        assert store.recommender.recommend(1, k=1).ids.tolist() != [7]
    assert "closed" in repr(lost)


def test_damaged_rows_are_named(path):
    filled(path).close()
    snapshot_of(path).unlink()
    database = sqlite3.connect(path)
    database.execute("UPDATE items_1 SET factors = zeroblob(20) WHERE id = 7")
    database.commit()
    database.close()
    with pytest.raises(DamagedRowError, match="item 7 of generation 'a' does not match its checksum; restore it"):
        Store.open(path)
    with pytest.raises(DamagedRowError):
        Store.open(path, read_only=True)
    database = sqlite3.connect(path)
    database.execute("DELETE FROM items_1 WHERE id = 7")
    database.commit()
    database.close()
    with pytest.raises(DamagedRowError, match="holds 39 items, but should hold 40"):
        Store.open(path)


# Readers


def test_readers_follow(path):
    with filled(path) as store, Store.open(path, read_only=True) as reader:
        assert not reader.follow()
        store.add_items(
            [100 * USERS[1]],
            [99],
            attributes={name: [None] for name in MOVIES},
            signals={"popularity": [0.0], "fresh": [0.0]},
        )
        store.remove_items([0])
        assert reader.version < store.version
        assert reader.follow()
        assert reader.version == store.version == reader.recommender.version
        assert reader.recommender.recommend(1, k=1).ids.tolist() == [99]
        assert not reader.follow()
        store.publish(*rotated(1), name="b")
        store.update_items([np.zeros(5)], [3], generation="a")
        assert reader.model("a").recommender.recommend(0, k=1) is not None
        assert reader.live == "a"
        assert reader.follow()
        assert reader.live == "b"
        same_answers(reader.recommender, store.recommender)
        same_answers(reader.model("a").recommender, store.model("a").recommender)
        store.rollback()
        store.drop("b")
        reader.follow()
        assert reader.live == "a"
        with pytest.raises(KeyError, match="no generation 'b'"):
            reader.model("b")
        with pytest.raises(PermissionError, match="open for reading only"):
            reader.remove_items([1])
        with pytest.raises(PermissionError, match="open for reading only"):
            reader.publish(ITEMS, name="z")


def test_a_reader_that_fell_behind_reloads(path, monkeypatch):
    monkeypatch.setattr(pending, "KEPT_CHANGES", 2)
    monkeypatch.setattr(pending, "TRIMMED_EVERY", 1)
    with filled(path) as store, Store.open(path, read_only=True) as reader:
        for number in range(8):
            store.update_items([(1 + number) * USERS[1]], [number])
        assert len([line for line in dump(path) if 'INTO "changes"' in line]) <= 3
        reader.follow()
        same_answers(reader.recommender, store.recommender)


def test_a_change_of_very_many_items_makes_readers_reload(path, monkeypatch):
    monkeypatch.setattr(pending, "MANY", 3)
    with filled(path) as store, Store.open(path, read_only=True) as reader:
        store.remove_items([1, 2, 3, 4, 5])
        reader.follow()
        same_answers(reader.recommender, store.recommender)


def test_a_reader_follows_in_a_thread_of_its_own(path):
    with filled(path) as store, Store.open(path, read_only=True) as reader:
        reader.start_following(every=0.001)
        store.update_items([1000 * USERS[1]], [7])
        until = time.monotonic() + 30
        while reader.version < store.version and time.monotonic() < until:
            time.sleep(0.001)
        assert reader.recommender.recommend(1, k=1).ids.tolist() == [7]


def test_answers_never_mix_generations_or_versions_while_readers_follow(path):
    """Scores of a user with rotated factors are the same; with items of one model and users of another they are not."""
    expected = ITEMS @ USERS.T
    with Store.open(path) as store:
        store.publish(ITEMS, USERS, name="g0")
        reader = Store.open(path, read_only=True)
        reader.start_following(every=0.001)
        stop, wrong, asked = threading.Event(), [], [0]

        def ask():
            while not stop.is_set():
                for each in (reader, store):
                    found = each.recommender.recommend(2, k=5, exact=True)
                    asked[0] += 1
                    if not np.allclose(found.scores, expected[found.ids, 2], atol=1e-4):
                        wrong.append(found.ids)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(1, 8):
            store.publish(*rotated(number), name=f"g{number}")
            if number % 3 == 0:
                store.rollback()
        stop.set()
        for thread in threads:
            thread.join()
        assert asked[0] > 10
        assert not wrong
        reader.close()


# One writer


def test_there_is_one_writer(path):
    with (
        filled(path),
        pytest.raises(
            BlockingIOError,
            match="is already open for writing in this process, and a store has one writer; open it with read_only=True",
        ),
    ):
        Store.open(path)
    Store.open(path).close()


def test_closed_stores_say_so(path):
    store = filled(path)
    store.close()
    store.close()
    for ask in (lambda: store.items([1]), lambda: store.remove_items([1]), store.generations):
        with pytest.raises(ValueError, match=r"catalogue.db was closed; open the store again"):
            ask()


# Files that are none


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(("content", "sentence"), [
    (b"hello" * 100, "is not a tessella store: it is not an SQLite file"),
    (b"SQLite format 3\0", "is not a tessella store: it is not an SQLite file"),
    ("sqlite", "is not a tessella store: another program made this SQLite file"),
    ("newer", "is a store of format 2, but this version of tessella reads format 1"),
])  # fmt: skip
def test_foreign_files_are_refused_and_left_as_they_are(path, content, sentence, read_only):
    if content == "sqlite":
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE t (x)")
        database.close()
    elif content == "newer":
        Store.open(path).close()
        database = sqlite3.connect(path)
        database.execute("PRAGMA user_version = 2")
        database.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=sentence):
        Store.open(path, read_only=read_only)
    assert path.read_bytes() == before


def test_damaged_files_are_refused(path):
    filled(path).close()
    for file in path.parent.glob("*.snapshot"):
        file.unlink()
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"is damaged .*; restore it from a backup"):
        Store.open(path)


def test_paths_that_cannot_be(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        Store.open(tmp_path / "x.db", read_only=True)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Store.open(tmp_path / "none" / "x.db")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Store.open(tmp_path)


def test_file_systems_without_shared_memory_are_refused(path):
    """SQLite's dot-file locking has none, as network file systems have none."""
    filled(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    database.close()
    with pytest.raises(OSError, match=r"does not support SQLite's write-ahead log .* put it on a local disk"):
        connection.connect_writer(path, risk_power_loss=False, vfs="unix-dotfile")
    Store.open(path).close()


def test_a_full_disk_is_one_sentence_and_loses_nothing(path):
    with filled(path) as store:
        before, edition = dump(path), store.recommender._edition
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OSError, match="could not be written: the disk is full; nothing was changed"):
            store.update_items(None, list(range(40)), payload=["x" * 100_000] * 40)
        with pytest.raises(OSError, match="the disk is full"):
            store.publish(np.tile(ITEMS, (100, 1)), name="b")
        assert store.recommender._edition is edition
        assert [line for line in dump(path) if "sqlite_sequence" not in line] == [
            line for line in before if "sqlite_sequence" not in line
        ]
        store._database.execute("PRAGMA max_page_count = 1000000")
        store.update_items([100 * USERS[1]], [7])
        assert store.recommender.recommend(1, k=1).ids.tolist() == [7]


AS_NOBODY = """
import os, sys
from tessella.store import Store
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    Store.open(sys.argv[1], read_only=sys.argv[2] == "ro")
except Exception as error:
    print(type(error).__name__, error)
else:
    print("opened")
"""


@pytest.mark.parametrize(("mode", "sentence"), [("rw", "cannot be written"), ("ro", "")])
def test_a_read_only_folder_is_one_sentence(path, mode, sentence):
    filled(path).close()
    for file in path.parent.iterdir():
        file.chmod(0o444)
    for folder in (path.parent, *path.parent.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(0o555 if folder == path.parent else folder.stat().st_mode | 0o055)
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-c", AS_NOBODY, str(path), mode], capture_output=True, text=True, check=False
    )
    path.parent.chmod(0o755)
    assert ran.returncode == 0, ran.stderr
    if mode == "rw":
        assert ran.stdout.startswith("PermissionError")
        assert sentence in ran.stdout
        assert "open it with read_only=True" in ran.stdout
    else:
        assert ran.stdout.startswith(("opened", "PermissionError"))
    same = Store.open(path, read_only=True)
    same_answers(same.recommender, built())
    same.close()


# kill -9

WRITER = """
import sys
import numpy as np
from tessella.store import Store, Change, ItemInput

store = Store.open(sys.argv[1])
first = int(sys.argv[2])
rng = np.random.default_rng(first)
print("ready", flush=True)
for number in range(first, first + 100_000):
    vector = np.full(5, number, np.float32)
    changes = [Change(items=[ItemInput(number, vector, payload={"number": number})]), Change(items=[ItemInput(0, vector)])]
    if number % 3 == 0:
        changes.append(Change(remove_items=[number]))
    store.apply(changes)
    print(number, flush=True)
    if number % 25 == 0:
        store.snapshot()
"""


@pytest.mark.parametrize("wait", [0.05, 0.2, 0.4])
def test_what_was_acknowledged_survives_kill_9(path, wait):
    with Store.open(path) as store:
        store.publish(ITEMS, name="a", method="exact")
    last = {}
    for first in (1000, 2000):
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", WRITER, str(path), str(first)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "ready\n"
        acknowledged = [int(process.stdout.readline())]
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        process.wait()
        process.stdout.close()
        last[first] = acknowledged[-1]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store = Store.open(path)
        with store:
            for begin, end in last.items():
                for row, number in zip(
                    store.items([n for n in range(begin, end + 1) if n % 3]),
                    [n for n in range(begin, end + 1) if n % 3],
                    strict=True,
                ):
                    assert row.id == number
                    assert row.vector.tolist() == [number] * 5
                    assert row.payload == {"number": number}
                assert store.items([n for n in range(begin, end + 1) if n % 3 == 0]) == []
            index = store.recommender.index
            (zero,) = store.items([0])
            if last:
                assert zero.vector[0] >= max(last.values())
            listed = store.list_items(limit=100_000)
            assert [row.id for row in listed] == index.ids.tolist()
            for row in listed:
                found = store.recommender.explain(np.ones(5), item=row.id, k=1)
                assert found.score == pytest.approx(float(row.vector.sum()), rel=1e-5)
    assert last


def test_rows_are_listed_and_found_by_title(path):
    with filled(path) as store:
        assert [row.id for row in store.list_items(limit=3)] == [0, 1, 2]
        assert [row.id for row in store.list_items(after=2, limit=2)] == [3, 4]
        assert [row.id for row in store.list_items(query="movie 3")] == [3, *range(30, 40)]
        assert [row.id for row in store.list_items(query="%")] == []
        assert [row.id for row in store.list_items(query="17")][:1] == [17]
        assert [row.id for row in store.list_users(query="3")] == [3]
        assert store.payloads([3, 4, 99]) == {3: {"n": 3}, 4: {"n": 4}}
        assert isinstance(store.items([1])[0], ItemRow)
        assert json.dumps(store.items([1])[0].attributes)


def test_risking_power_loss_is_said_by_name(path):
    with filled(path) as store:
        assert store._database.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert store._database.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    with Store.open(path, risk_power_loss=True) as store:
        assert store._database.execute("PRAGMA synchronous").fetchone()[0] == 1
    with pytest.raises(TypeError, match="risk_power_loss must be True or False, not str"):
        Store.open(path, risk_power_loss="yes")


def test_rebuild_gives_the_same_answers(path):
    with filled(path) as store:
        store.update_items([100 * USERS[1]], [7])
        version = store.version
        before = [store.recommender.recommend(user, k=40, exact=True).ids.tolist() for user in range(6)]
        store.rebuild()
        assert store.version == version == store.recommender.version
        assert before == [store.recommender.recommend(user, k=40, exact=True).ids.tolist() for user in range(6)]
