"""Recommender: what it holds, how it changes, its file, its tables, and a sentence for whatever is wrong."""

import dataclasses
import json
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

import tessella as ts
from tessella.recommend import all_users
from tessella.recommend.storage import packed
from tessella.versions import storage

TITLES = ["Alien", "Brazil", "Casablanca", "Dune", None]


@pytest.fixture
def model():
    return made()


def made(**others):
    options = {
        "item_ids": list("abcde"),
        "user_ids": ["ann", "bob", "cy"],
        "seen": [["a"], [], ["b", "c", "zz"]],
        "attributes": {"title": TITLES, "year": [1979, 1985, 1942, 2021, 2000]},
        "signals": {"fresh": [0.0, 1.0, 2.0, 3.0, 4.0]},
    } | others
    items = np.array([[4.0, 0, 1], [3, 1, 0], [2, 2, 0], [1, 3, 0], [0, 4, 1]])
    return ts.Recommender.build(items, [[1.0, 0, 0], [0, 1, 0], [1, 1, 0]], **options)


def frozen(model):
    """Everything a recommender holds, in bytes."""
    return storage.to_bytes(*packed(model._edition))


def test_answers_are_named_counted_and_of_one_version(model):
    found = model.recommend(["ann", "cy"], k=2)
    assert found.ids.tolist() == [["b", "c"], ["a", "d"]]
    assert found.users.tolist() == ["ann", "cy"]
    assert found.titles.tolist() == [["Brazil", "Casablanca"], ["Alien", "Dune"]]
    assert (found.generation, found.version) == (model.generation, 0)
    ids, scores = found
    assert ids is found.ids
    assert scores is found.scores
    model.remove_items(["b"])
    assert model.recommend("ann", k=2).version == 1
    assert model.recommend("ann", k=2).generation == found.generation


def test_shapes_follow_what_is_asked(model):
    assert model.recommend("ann", k=2).ids.shape == (2,)
    assert model.recommend(["ann"], k=2).ids.shape == (1, 2)
    assert model.recommend([], k=2).ids.shape == (0, 2)
    assert model.recommend(np.zeros((0, 3)), k=2).ids.shape == (0, 2)
    assert model.recommend([1.0, 0.0, 0.0], k=2).ids.shape == (2,)
    assert model.recommend(np.ones((2, 3), int), k=2).ids.shape == (2, 2)
    assert model.recommend(np.ones((2, 4, 3)), k=2).ids.shape == (2, 2)
    assert model.recommend(liked=["a"], k=2).ids.shape == (2,)
    assert model.recommend(liked=[["a"], {"b": 2.0}], k=2).ids.shape == (2, 2)
    assert model.recommend(like=["a"], dislike=["b"], k=2).ids.shape == (2,)
    assert model.similar("a", k=2).ids.shape == (2,)
    assert model.similar(["a", "b"], k=2).ids.shape == (2, 2)


def test_numbered_users_and_whole_numbers_as_ids():
    model = ts.Recommender.build(np.eye(3), np.eye(3), user_ids=[30, 10, 20])
    assert model.recommend(10, k=1).ids.tolist() == [1]
    assert model.recommend(np.int32(20), k=1).ids.tolist() == [2]
    assert model.recommend(np.array([20, 30]), k=1).ids.tolist() == [[2], [0]]
    assert ts.Recommender.build(np.eye(3), np.eye(3)).recommend(range(2), k=1).ids.tolist() == [[0], [1]]


def test_likes_of_somebody_new_and_of_a_user(model):
    found = model.recommend(liked=["d", "e"], k=3)
    assert not {"d", "e"} & set(found.ids)
    vector = model.fold_in(["d", "e"])
    np.testing.assert_array_equal(found.ids, model.recommend(vector, k=3, exclude=["d", "e"]).ids)
    assert "d" in model.recommend(liked=["d"], k=5, exclude_seen=False).ids
    hers = model.recommend("ann", liked=["e"], k=5)  # beside "a", which she has seen
    np.testing.assert_array_equal(hers.ids[:3], model.recommend(model.fold_in(["a", "e"]), k=3, exclude=["a", "e"]).ids)
    assert hers.users == "ann"
    many = model.recommend(["ann", "bob"], liked=[["e"], ["a"]], k=5)
    assert many.ids[0].tolist() == hers.ids.tolist()


def test_weights_of_seen_count_for_folding_in():
    rng = np.random.default_rng(0)
    items, users = rng.standard_normal((20, 4)), rng.standard_normal((2, 4))
    seen = scipy.sparse.csr_array(np.where(rng.random((2, 20)) < 0.3, rng.integers(1, 5, (2, 20)), 0))
    model = ts.Recommender.build(items, users, seen=seen)
    row = seen[[1]].tocoo()
    free = next(item for item in range(20) if item not in row.col)
    liked = dict(zip(row.col.tolist(), row.data.tolist(), strict=True)) | {free: 1.0}
    np.testing.assert_allclose(
        model.recommend(1, liked=[free], k=3).scores, model.recommend(liked=liked, k=3).scores, rtol=1e-5
    )


def test_like_and_dislike_are_means_of_vectors(model):
    items = model.index[["a", "b", "e"]][:, :3]
    query = items[:2].mean(axis=0) - items[2]
    found = model.recommend(like=["a", "b"], dislike=["e"], k=3)
    np.testing.assert_array_equal(found.ids, model.recommend(query, k=3, exclude=["a", "b", "e"]).ids)


def test_changes_reach_users_attributes_signals_and_what_was_seen(model):
    model.add_items([[9.0, 9, 9]], ["zz"], attributes={"title": ["Zz"], "year": [2024]}, signals={"fresh": [9.0]})
    assert model.recommend(["ann", "cy"], k=1).ids.tolist() == [["zz"], ["a"]]  # cy has seen it, before it came
    assert model.recommend("ann", k=1).titles.tolist() == ["Zz"]
    assert model.recommend("bob", k=1, where={"year": {"from": 2022}}).ids.tolist() == ["zz"]
    model.update_items(None, ["zz"], attributes={"title": ["Zzz"], "year": [1900]})
    assert model.recommend("bob", k=1, where={"year": {"from": 2022}}).ids.tolist() == [None]
    assert model.recommend("ann", k=1).lists() == [("zz", 9.0, "Zzz")]
    model.update_items(None, ["e"], signals={"fresh": [100.0]})
    assert model.recommend("ann", k=1, boosts={"fresh": 1.0}).lists()[0][:2] == ("e", pytest.approx(100.0))
    model.remove_items(["zz"])
    assert model.recommend("ann", k=1).ids.tolist() == ["b"]
    model.add_users([[0.0, 0, 1]], ["dee"], seen=[["e"]])
    assert model.recommend("dee", k=1).ids.tolist() == ["a"]
    model.update_users(None, ["ann"], seen=[["b"]])
    model.update_users([[0.0, 5, 0]], ["bob"])
    assert model.recommend(["ann", "bob"], k=1).lists() == [[("a", 4.0, "Alien")], [("e", 20.0, None)]]
    model.remove_users(["ann"])
    assert model.user_ids.tolist() == ["bob", "cy", "dee"]
    assert model.recommend("cy", k=2).ids.tolist() == ["a", "d"]
    assert model.version == 8


def test_users_may_come_to_a_model_without():
    bare = ts.Recommender.build(np.eye(3), item_ids=["x", "y", "z"])
    bare.add_users(np.eye(3)[:2], [7, 8], seen=[["x"], []])
    assert bare.recommend([7, 8], k=1).ids.tolist() == [["y"], ["y"]]
    bare.add_users(np.eye(3)[2:], [9])
    assert bare.recommend(9, k=1).ids.tolist() == ["z"]


def test_a_recommender_whose_text_users_were_all_removed_can_be_loaded(tmp_path):
    model = ts.Recommender.build(np.eye(3), [[1.0, 0.0, 0.0]], user_ids=["ann"], seen=[[0]])
    model.remove_users(["ann"])
    model.save(tmp_path / "model")
    loaded = ts.Recommender.load(tmp_path / "model")
    assert loaded.user_ids.tolist() == []
    loaded.add_users([[0.0, 1.0, 0.0]], ["bob"], seen=[[0]])
    assert loaded.recommend("bob", k=2).ids.tolist() == [1, 2]


@pytest.mark.parametrize("mmap", [False, True])
def test_save_then_load_changes_nothing(model, tmp_path, mmap):
    for change in (lambda: None, lambda: model.remove_items(["b"]), lambda: model.remove_users(["ann"])):
        change()
        model.save(tmp_path / "model.tessella", overwrite=True)
        loaded = ts.Recommender.load(tmp_path / "model.tessella", mmap=mmap)
        assert frozen(loaded) == frozen(model)
        assert repr(loaded) == repr(model)
        options = {"boosts": {"fresh": 0.5}, "where": {"year": {"from": 1950}}, "k": 3}
        one, two = (each.recommend(["bob", "cy"], **options) for each in (model, loaded))
        np.testing.assert_array_equal(one.ids, two.ids)
        np.testing.assert_array_equal(one.scores, two.scores)
        assert (loaded.generation, loaded.version) == (model.generation, model.version)
        page = model.recommend("cy", k=1)
        assert loaded.recommend("cy", k=1, after=page.next).ids.tolist() == ["d"]
    loaded.add_items([[9.0, 9, 9]], ["n"], attributes={"title": ["N"], "year": [1]}, signals={"fresh": [1.0]})
    loaded.add_users([[1.0, 1, 1]], ["new"])
    assert loaded.recommend("new", k=1).ids.tolist() == ["n"]
    assert frozen(pickle.loads(pickle.dumps(model))) == frozen(model)  # noqa: S301


def test_every_damaged_byte_of_a_file_is_noticed(model, tmp_path):
    whole = frozen(model)
    path = tmp_path / "model.tessella"
    rng = np.random.default_rng(0)
    for at in [0, 9, *rng.integers(0, len(whole), 60).tolist(), len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"cannot be used"):
            ts.Recommender.load(path)
    for length in (0, 7, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cannot be used"):
            ts.Recommender.load(path)


def test_files_of_an_index_and_of_a_recommender_are_told_apart(model, tmp_path):
    model.save(tmp_path / "model")
    model.index.save(tmp_path / "index")
    with pytest.raises(ValueError, match=r"holds a recommender, not an index; load it with Recommender\.load"):
        ts.Index.load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"holds an index, not a recommender; load it with Index\.load"):
        ts.Recommender.load(tmp_path / "index")
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "model")


def test_all_users_into_a_folder_resume_and_a_function(model, tmp_path):
    found = model.recommend_all(k=2, out=tmp_path / "recs", where={"year": {"to": 2000}}, progress=False)
    assert isinstance(found.scores, np.memmap)
    wanted = model.recommend(model.user_ids, k=2, where={"year": {"to": 2000}})
    assert found.ids.tolist() == wanted.ids.tolist()
    assert found.titles.tolist() == wanted.titles.tolist()
    assert (repr(found), found.lists()) == (repr(wanted), wanted.lists())
    assert json.loads((tmp_path / "recs" / "users.json").read_text()) == ["ann", "bob", "cy"]
    assert model.recommend(model.user_ids, k=1, after=found.next).ids.tolist() == [["d"], ["d"], ["d"]]
    blocks = []
    assert model.recommend_all(k=2, out=lambda first, part: blocks.append((first, part)), progress=False) is None
    assert [(first, part.users.tolist()) for first, part in blocks] == [(0, ["ann", "bob", "cy"])]
    assert blocks[0][1].titles.shape == (3, 2)
    with pytest.raises(FileExistsError):
        model.recommend_all(k=2, out=tmp_path / "recs", progress=False)


def test_an_interrupted_job_resumes(tmp_path, monkeypatch):
    items, users = ts.datasets.generated_factors(500, 200)
    model = ts.Recommender.build(items, users, seen=[[at % 500] for at in range(200)])
    monkeypatch.setattr("tessella.jobs.all_users.USERS_PER_BLOCK", 64)
    asked = []
    real = all_users.answered

    def failing(edition, who, wish):
        asked.append(len(who))
        if len(asked) == 4:
            raise KeyboardInterrupt
        return real(edition, who, wish)

    monkeypatch.setattr(all_users, "answered", failing)
    with pytest.raises(KeyboardInterrupt):
        model.recommend_all(out=tmp_path / "recs", progress=False)
    asked += [0] * 10
    with pytest.raises(ValueError, match="started with another k"):
        model.recommend_all(5, out=tmp_path / "recs", progress=False)
    found = model.recommend_all(out=tmp_path / "recs", progress=False)
    assert asked[-2:] == [64, 8]  # the first two blocks were kept
    np.testing.assert_array_equal(found.ids, model.recommend(np.arange(200)).ids)


def test_swapping_models_under_searching_threads_mixes_nothing():
    rng = np.random.default_rng(0)
    items, users = rng.standard_normal((400, 16)), rng.standard_normal((50, 16))
    turn = scipy.stats.ortho_group.rvs(16, random_state=1)
    models = [ts.Recommender.build(items, users), ts.Recommender.build(items @ turn, users @ turn)]
    assert models[0].generation != models[1].generation
    wanted = models[0].recommend(np.arange(50), k=5)
    live, stop, wrong, generations = ts.Live(models[0]), threading.Event(), [], set()

    def search():
        while not stop.is_set():
            user = int(time.monotonic_ns() % 50)
            found = live.recommend(user, k=5)
            generations.add(found.generation)
            if not np.allclose(found.scores, wanted.scores[user], atol=1e-4):
                wrong.append(user)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    number = 0
    while number < 300 or len(generations) < 2:  # until threads have met both
        assert live.swap(models[(number + 1) % 2]) is models[number % 2]
        live.recommend(number % 50)
        number += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert generations == {model.generation for model in models}
    cursor = models[0].recommend(0).next
    live.swap(models[1])
    with pytest.raises(ValueError, match="start again with the first page"):
        live.recommend(0, after=cursor)


def test_what_it_holds_is_told(model):
    assert repr(model) == (
        "Recommender of 5 items and 3 users x 3 factors, seen: 4 items, attributes: title, year, signals: fresh, search: exact"
    )
    assert "<td>title, year</td>" in model._repr_html_()
    assert {"users", "seen", "attributes", "signals"} <= set(model.memory)
    before = model.nbytes
    model.similar("a")
    assert model.memory["unit factors"] > 0
    assert model.nbytes == before + model.memory["unit factors"]
    assert repr(ts.Live(model)).startswith("Live(Recommender of 5 items")


def test_tables(model):
    found = model.recommend(["ann", "bob"], k=5)
    assert str(found).splitlines()[:2] == ["user  rank  item  score  title", "ann   1     b     3      Brazil"]
    assert "<td>Brazil</td>" in found._repr_html_()
    assert found.columns()["user"].tolist() == ["ann"] * 4 + ["bob"] * 5  # short lists are not filled up
    assert found.columns()["rank"].tolist() == [1, 2, 3, 4, 1, 2, 3, 4, 5]
    arrow = found.to_arrow()
    assert arrow.column_names == ["user", "rank", "item", "score", "title"]
    assert arrow["title"].to_pylist()[:2] == ["Brazil", "Casablanca"]
    assert model.recommend(np.eye(3), k=1).columns()["user"].tolist() == [0, 1, 2]
    assert "title" not in made(attributes=None).recommend("ann").columns()
    many = model.recommend(np.ones((30, 3)), k=5)
    assert str(many).splitlines()[-1] == "... and 130 more"
    odd = made(attributes={"title": ["<b>", "x" * 99, "", "&", None]}).recommend("bob", k=5)
    assert "&lt;b&gt;" in odd._repr_html_()
    assert "..." in str(odd)
    like = model.similar(["a"], k=1)
    assert str(like).splitlines()[0].startswith("like  rank  item")
    with pytest.raises(ValueError, match="similar items have no pages"):
        like.next  # noqa: B018


def test_a_short_list_says_so(model):
    found = model.recommend("ann", k=4, where={"year": {"from": 1980}}, exclude=["b"])
    assert bool(found.short)
    assert str(found).splitlines()[-1] == "2 of the 4 requested items; no more were found."
    assert "<p>2 of the 4 requested items; no more were found.</p>" in found._repr_html_()
    both = model.recommend(["ann", "bob"], k=5)
    assert both.short.tolist() == [True, False]
    assert str(both).splitlines()[-1] == "1 list has fewer than the 5 requested items; no more were found."
    assert not model.recommend("ann", k=4).short
    alike = made(attributes={"genre": ["x", "x", "y", "y", "y"]}).recommend(
        "bob", k=3, variety=ts.at_most(1, per="genre")
    )
    assert str(alike).splitlines()[-1] == "2 of the 3 requested items; no more were found."


def test_pages_tell_which_version_the_page_before_saw(model):
    first = model.recommend("bob", k=2)
    assert first.after_version is None
    second = model.recommend("bob", k=2, after=first.next)
    assert (second.after_version, second.version) == (0, 0)
    model.remove_items(["a"])
    third = pickle.loads(pickle.dumps(model.recommend("bob", k=2, after=second.next)))  # noqa: S301
    assert (third.after_version, third.version) == (0, 1)


def test_answers_can_be_pickled_without_their_model(model):
    for found in (model.recommend(["ann", "bob"], k=5), model.recommend("ann"), model.similar("a", k=2)):
        data = pickle.dumps(found)
        assert len(data) < 3_000
        again = pickle.loads(pickle.dumps(pickle.loads(data)))  # noqa: S301
        assert str(again) == str(found)
        assert again.lists() == found.lists()
        if found.users is not None and found._next is not None:
            assert again.next == found.next


@pytest.mark.parametrize("library", ["pandas.Series", "polars.Series", "pyarrow.array"])
def test_users_in_columns_of_other_libraries(model, library):
    name, make = library.split(".")
    column = getattr(pytest.importorskip(name), make)
    assert (
        model.recommend(column(["bob", "ann"]), k=2).ids.tolist() == model.recommend(["bob", "ann"], k=2).ids.tolist()
    )
    assert (
        model.recommend(column([1.0, 2.0, 3.0]), k=2).ids.tolist() == model.recommend([1.0, 2.0, 3.0], k=2).ids.tolist()
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_of_other_libraries(model, library):
    pytest.importorskip(library)
    frame = getattr(model.recommend(["ann"], k=2), f"to_{library}")()
    assert list(frame.columns) == ["user", "rank", "item", "score", "title"]
    assert frame["item"].to_list() == ["b", "c"]


def test_no_table_library_is_imported_before_it_is_asked_for():
    code = (
        "import sys, numpy as np, tessella as ts\n"
        "found = ts.Recommender.build(np.eye(3), np.eye(3), attributes={'title': ['a', 'b', 'c']}).recommend([0, 1])\n"
        "str(found)\n"
        "print(sorted({'pandas', 'polars', 'pyarrow'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_explain_names_every_filter_and_part(model):
    page = model.recommend("cy", k=1, where={"year": {"from": 1950}}, boosts={"fresh": 0.5})
    assert page.ids.tolist() == ["e"]
    options = {"where": {"year": {"from": 1950}}, "boosts": {"fresh": 0.5}, "after": page.next}
    reason = model.explain("cy", "e", k=1, **options)
    assert reason.left_out_by == ("after",)
    assert reason.parts == {"factors": 4.0, "fresh": 2.0}
    assert reason.score == pytest.approx(float(page.scores[0]))
    assert model.explain("cy", "c", exclude=["c"], allow=["a"], **options).left_out_by == (
        "seen",
        "exclude",
        "where",
        "allow",
    )
    best = model.explain("cy", "a", k=1, **(options | {"after": None, "boosts": None}))
    assert best.recommended
    assert best.near[0][:2] == ("b", "Brazil")
    assert "Brazil" in best._repr_html_()


def test_a_gram_matrix_follows_changes(model):
    model.fold_in(["a"])
    model.add_items([[1.0, 2, 3]], ["n"], attributes={"title": ["N"], "year": [1]}, signals={"fresh": [1.0]})
    model.update_items([[3.0, 2, 1]], ["b"])
    model.remove_items(["c"])
    assert "gram" in vars(model._edition)  # it was carried on, not made anew
    loaded = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_allclose(model.fold_in(["a", "n"]), loaded.fold_in(["a", "n"]), rtol=1e-5)


def test_a_memory_map_of_users_stays_in_its_file(tmp_path):
    users = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    np.save(tmp_path / "users.npy", users)
    mapped = np.load(tmp_path / "users.npy", mmap_mode="r")
    model = ts.Recommender.build(np.eye(4), mapped)
    assert np.shares_memory(model._edition.users.factors, mapped)
    np.testing.assert_array_equal(
        model.recommend_all(progress=False).ids, ts.Recommender.build(np.eye(4), users).recommend(np.arange(50)).ids
    )


def test_interests_of_users_that_are_kept(tmp_path):
    users = np.array([[[1.0, 0, 0], [0, 0, 2]], [[0, 3, 0], [0, 0, 0]]])
    model = ts.Recommender.build(-np.eye(3) + 0.5, users)
    wanted = [np.max(users[0] @ (-np.eye(3) + 0.5).T, axis=0), users[1][0] @ (-np.eye(3) + 0.5).T]
    for number in (0, 1):  # a vector of zeros is no interest, though 0 is more than -1.5
        np.testing.assert_allclose(model.recommend(number, k=3).scores, np.sort(wanted[number])[::-1])
    np.testing.assert_array_equal(
        model.recommend([0, 1], k=3, interests="sum").ids, model.recommend(users.sum(axis=1), k=3).ids
    )
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        ts.Recommender.load(tmp_path / "model").recommend_all(2, progress=False).ids, model.recommend([0, 1], 2).ids
    )


@pytest.mark.parametrize("kind", [ts.Tiles(0.5), ts.Slots(50)])
def test_methods_by_name(kind):
    items, users = ts.datasets.generated_factors(800, 5)
    model = ts.Recommender.build(items, users, method="tiles", seen=[[1], [2], [], [], [3]])
    found = model.recommend(range(5), method=kind)
    np.testing.assert_array_equal(
        found.ids, model.index.search(users, exclude=[[1], [2], [], [], [3]], method=kind).ids
    )


BAD_BUILDS = [
    ({"user_factors": np.ones((2, 4))}, "user_factors has 4 columns, but 3 are expected."),
    ({"user_factors": np.ones((2, 0, 3))}, "user_factors has 0 vectors per user"),
    ({"user_factors": [[np.nan, 0, 0]]}, "user_factors holds nan in row 0"),
    ({"user_factors": np.ones((2, 3)), "user_ids": [1]}, "user_ids has 1 entries, but there are 2 users."),
    ({"user_factors": np.ones((2, 3)), "user_ids": [1, 1]}, "user_ids holds 1 more than once."),
    ({"user_factors": np.ones((2, 3)), "seen": [1, 2]}, "seen is one sequence of ids, but must be a list of sequences, one for each of the 2 users"),
    ({"user_factors": np.ones((2, 3)), "seen": [[1]]}, "seen has 1 sequence of ids, but there are 2 queries."),
    ({"user_factors": np.ones((2, 3)), "seen": scipy.sparse.csr_array((2, 9))}, "seen has shape"),
    ({"user_factors": np.ones((2, 3)), "seen": [["a"], []]}, "strings"),
    ({"attributes": {"year": [1, 2]}}, "attributes\\['year'\\] has 2"),
    ({"signals": {"fresh": [1.0]}}, "signals\\['fresh'\\] has 1 values, but there are 3 items."),
    ({"signals": {"fresh": [1.0, np.nan, 0]}}, "signals\\['fresh'\\] holds nan in row 1"),
    ({"item_ids": [1, 1, 2]}, "ids holds 1 more than once."),
    ({"method": "fast"}, "method is 'fast'"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "sentence"), BAD_BUILDS)
def test_bad_builds(options, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence) as error:
        ts.Recommender.build(np.eye(3), **options)
    assert "\n" not in str(error.value)


ANN = {"users": "ann"}
BAD_CALLS = [
    ("recommend", {"users": "dan"}, KeyError, "there is no user with id 'dan'"),
    ("recommend", {"users": 7}, TypeError, "users holds integers, but the user ids are strings."),
    ("recommend", {"users": ["ann", 7]}, TypeError, "users holds both strings and other values"),
    ("recommend", {"users": True}, TypeError, "users must be ids or vectors, not bool."),
    ("recommend", {"users": 1.5}, TypeError, "users must be ids or vectors, not float."),
    ("recommend", {"users": {"ann"}}, TypeError, "users must be ids or vectors, not set."),
    ("recommend", {"users": scipy.sparse.eye_array(3)}, TypeError, "users must be ids or vectors, not a SciPy sparse matrix; pass likes as liked=."),
    ("recommend", {}, ValueError, "there is nobody to recommend to; pass users, liked or like."),
    ("recommend", {"users": [1.0, 2.0]}, ValueError, "users has vectors of length 2, but the model has 3 factors."),
    ("recommend", {"users": [1.0, np.nan, 0]}, ValueError, "users holds nan, but vectors must be finite."),
    ("recommend", {"users": np.ones((1, 1, 1, 3))}, ValueError, "users has 4 dimensions"),
    ("recommend", {"users": np.ones((1, 0, 3))}, ValueError, "users has 0 vectors for each user"),
    ("recommend", {"users": [[1.0, 2], [1.0]]}, ValueError, "users is not a matrix"),
    ("recommend", {"liked": []}, ValueError, "there are no liked items, but folding in needs at least 1."),
    ("recommend", {"liked": ["q"]}, KeyError, "there is no item with id 'q'"),
    ("recommend", {"liked": [3]}, TypeError, "ids are integers, but those in the index are strings."),
    ("recommend", {"liked": ["a", "a"]}, ValueError, "liked holds 'a' more than once."),
    ("recommend", {"liked": "a"}, TypeError, "liked is 'a', but must be a sequence of ids"),
    ("recommend", {"liked": {"a": np.nan}}, ValueError, "weights holds nan in row 0, but must be finite."),
    ("recommend", {"liked": ["a"], "regularization": -1}, ValueError, "regularization is -1.0"),
    ("recommend", {"liked": ["a"], "alpha": np.inf}, ValueError, "alpha is inf"),
    ("recommend", {"liked": [["a"]], "users": "ann"}, ValueError, "liked has 1 lists of items, but"),
    ("recommend", {"liked": ["a"], "users": np.ones(3)}, TypeError, "together with liked it must hold user ids"),
    ("recommend", {"like": []}, ValueError, "like and dislike are empty"),
    ("recommend", {"like": ["q"]}, KeyError, "there is no item with id 'q'"),
    ("recommend", {"like": ["a"], "users": "ann"}, ValueError, "like and dislike cannot be combined with users or liked"),
    ("recommend", {"like": ["a"], "dislike": [["b"], ["c"]]}, ValueError, "like and dislike must both be one sequence"),
    ("recommend", ANN | {"k": 0}, ValueError, "k is 0, but must be from 1"),
    ("recommend", ANN | {"k": "3"}, TypeError, "k must be an integer, not str."),
    ("recommend", ANN | {"exclude_seen": 1}, TypeError, "exclude_seen must be True or False, not int."),
    ("recommend", ANN | {"where": {"genre": "x"}}, ValueError, "genre"),
    ("recommend", ANN | {"where": {"year": "x"}}, (TypeError, ValueError), "year"),
    ("recommend", ANN | {"boosts": {"new": 1}}, ValueError, "boosts names 'new', which is not a signal; there are 'fresh'."),
    ("recommend", ANN | {"boosts": {"fresh": np.nan}}, ValueError, "boosts\\['fresh'\\] is nan, but weights must be finite."),
    ("recommend", ANN | {"boosts": {"fresh": [1, 2]}}, ValueError, "must be one weight, or one for each of the 1 queries."),
    ("recommend", ANN | {"boosts": 3}, TypeError, "boosts must be a dict of weights by signal name, not int."),
    ("recommend", ANN | {"exclude": 3}, TypeError, "exclude is a int"),
    ("recommend", ANN | {"allow": [["a"], ["b"]]}, ValueError, "allow has 2 sequences of ids, but there is 1 query."),
    ("recommend", ANN | {"after": "x"}, ValueError, "after is not a valid cursor"),
    ("recommend", ANN | {"after": "é"}, ValueError, "after is not a valid cursor"),
    ("recommend", ANN | {"after": 3}, TypeError, "after must be a str, the `next` of the previous page, not int."),
    ("recommend", ANN | {"interests": "all"}, ValueError, "interests is 'all', but must be one of 'best', 'sum'."),
    ("recommend", ANN | {"variety": 3}, TypeError, "variety must be tessella.at_most\\(...\\) or tessella.diversify\\(...\\), not int."),
    ("recommend", ANN | {"variety": ts.at_most(1, per="genre")}, ValueError, "genre"),
    ("recommend", ANN | {"method": "exact"}, TypeError, "method is a str"),
    ("recommend", ANN | {"method": ts.Slots(1), "exact": True}, ValueError, "contradict each other"),
    ("recommend", ANN | {"threads": 0}, ValueError, "threads is 0"),
    ("recommend_all", {"k": 0}, ValueError, "k is 0"),
    ("recommend_all", {"exclude": [["a"]]}, ValueError, "exclude has 1 sequence of ids, but there are 3"),
    ("recommend_all", {"out": 3}, TypeError, "out is a int"),
    ("explain", ANN, ValueError, "item is missing"),
    ("explain", ANN | {"item": "q"}, KeyError, "there is no item with id 'q'"),
    ("explain", {"users": ["ann", "bob"], "item": "a"}, ValueError, "there are 2 users, but explain takes 1 at a time."),
    ("similar", {"items": "q"}, KeyError, "there is no item with id 'q'"),
    ("similar", {"items": "a", "metric": "l2"}, ValueError, "metric is 'l2'"),
    ("fold_in", {"items": []}, ValueError, "there are no liked items"),
    ("fold_in", {"items": ["a"], "weights": [1, 2]}, ValueError, "weights has shape \\(2,\\)"),
    ("fold_in_item", {"users": []}, ValueError, "users is empty, but folding in an item needs at least 1 user"),
    ("fold_in_item", {"users": ["dan"]}, KeyError, "there is no user with id 'dan'"),
    ("add_items", {"item_factors": np.ones((1, 3)), "ids": ["n"]}, ValueError, "attributes of the new items are missing; pass 'title', 'year'."),
    ("add_items", {"item_factors": np.ones((1, 3)), "ids": ["n"], "attributes": {"title": ["N"], "year": [1]}}, ValueError, "signals of the new items are missing; pass 'fresh'."),
    ("add_items", {"item_factors": np.ones((1, 3)), "ids": ["n"], "attributes": {"title": ["N"], "year": [1, 2]}, "signals": {"fresh": [1]}}, ValueError, "attributes\\['year'\\] has 2"),
    ("add_items", {"item_factors": np.ones((1, 3)), "ids": ["a"], "attributes": {"title": ["N"], "year": [1]}, "signals": {"fresh": [1]}}, ValueError, "id 'a' is already in the index"),
    ("add_items", {"item_factors": np.ones((1, 4)), "ids": ["n"]}, ValueError, "item_factors has 4 columns, but 3 are expected."),
    ("update_items", {"item_factors": None, "ids": ["q"]}, KeyError, "there is no item with id 'q'"),
    ("update_items", {"item_factors": np.ones((2, 3)), "ids": ["a"]}, ValueError, "ids has 1 entries, but there are 2 items."),
    ("update_items", {"item_factors": None, "ids": ["a"], "signals": {"fresh": [np.inf]}}, ValueError, "signals\\['fresh'\\] holds inf"),
    ("remove_items", {"ids": ["q"]}, KeyError, "there is no item with id 'q'"),
    ("add_users", {"user_factors": np.ones((1, 3)), "ids": ["ann"]}, ValueError, "user 'ann' already exists; use update_users"),
    ("add_users", {"user_factors": np.ones((2, 3)), "ids": ["dan"]}, ValueError, "user_factors has 2 rows, but there are 1 ids."),
    ("add_users", {"user_factors": None, "ids": ["dan"]}, ValueError, "the new users have no factors, but all existing users have them."),
    ("add_users", {"user_factors": np.ones((1, 2, 3)), "ids": ["dan"]}, ValueError, "user_factors has shape \\(1, 2, 3\\)"),
    ("add_users", {"user_factors": np.ones((1, 3)), "ids": [7]}, TypeError, "user ids must be all integers or all strings."),
    ("update_users", {"user_factors": np.ones((1, 3)), "ids": ["dan"]}, KeyError, "there is no user with id 'dan'"),
    ("remove_users", {"ids": ["dan"]}, KeyError, "there is no user with id 'dan'"),
    ("tune", {"queries": np.ones((2, 4))}, ValueError, "queries has 4 columns"),
    ("save", {"path": "x", "overwrite": 1}, TypeError, "overwrite must be True or False"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "options", "error", "sentence"), BAD_CALLS)
def test_bad_calls_change_nothing(model, call, options, error, sentence):
    before = frozen(model)
    with pytest.raises(error, match=sentence) as raised:
        getattr(model, call)(**options)
    assert "\n" not in str(raised.value)
    assert frozen(model) == before
    assert model.recommend("ann", k=1).ids.tolist() == ["b"]


def test_cursors_of_others_are_refused(model):
    cursor = model.recommend("ann", k=1).next
    with pytest.raises(ValueError, match="after is a cursor for other users"):
        model.recommend("bob", after=cursor)
    other = ts.Recommender.build(np.eye(3), np.eye(3), user_ids=["ann", "bob", "cy"])
    with pytest.raises(ValueError, match=r"after is a cursor of model \w+, but this is model"):
        other.recommend("ann", after=cursor)
    for cut in range(1, len(cursor), 7):
        with pytest.raises(ValueError, match="after is"):
            model.recommend("ann", after=cursor[:-cut])


def test_a_model_without_users_factors_attributes_or_signals():
    bare = ts.Recommender.build(np.eye(3))
    for call in (lambda: bare.recommend(0), bare.recommend_all, lambda: bare.remove_users([0])):
        with pytest.raises(ValueError, match="the recommender has no users; pass vectors"):
            call()
    with pytest.raises(ValueError, match="where needs item attributes, but the recommender has none"):
        bare.recommend(np.ones(3), where={"a": 1})
    with pytest.raises(ValueError, match="boosts needs item signals, but the recommender has none"):
        bare.recommend(np.ones(3), boosts={"a": 1})
    with pytest.raises(ValueError, match="at_most needs item attributes"):
        bare.recommend(np.ones(3), variety=ts.at_most(1, per="a"))
    with pytest.raises(ValueError, match="attributes are given, but the recommender was built without attributes"):
        bare.add_items([[1.0, 1, 1]], [5], attributes={"a": [1]})
    without = ts.Recommender.build(np.eye(3), user_ids=[4, 5], seen=[[0], []])
    with pytest.raises(ValueError, match="the recommender has no user factors; pass vectors, or the liked items"):
        without.recommend(4)
    assert without.recommend(4, liked=[1], k=3).ids.tolist() == [2, -1, -1]
    with pytest.raises(
        ValueError, match="liked is added to the items they have seen, but the recommender has no seen items"
    ):
        ts.Recommender.build(np.eye(3), np.eye(3)).recommend(0, liked=[1])


def test_live_takes_recommenders(model):
    with pytest.raises(TypeError, match=r"recommender must be a tessella\.Recommender, not int"):
        ts.Live(3)
    live = ts.Live(model)
    with pytest.raises(TypeError, match=r"recommender must be a tessella\.Recommender, not NoneType"):
        live.swap(None)
    assert live.current is model
    with pytest.raises(
        TypeError, match=r"create a Recommender with Recommender\.build\(item_factors\) or Recommender\.load\(path\)"
    ):
        ts.Recommender(3)


def test_lists_are_diversified_where_items_have_signals():
    rng = np.random.default_rng(0)
    items, users = rng.normal(size=(30, 4)), rng.normal(size=(2, 4))
    plain = ts.Recommender.build(items, users)
    boosted = ts.Recommender.build(items, users, signals={"popularity": np.arange(30.0)})
    rule = ts.diversify(0.5, candidates=20)
    found, other = (model.recommend([0, 1], k=5, variety=rule).ids for model in (plain, boosted))
    np.testing.assert_array_equal(found, other)
    assert (found != plain.recommend([0, 1], k=5).ids).any()


def test_what_an_update_keeps_is_what_would_be_computed_again():
    rng = np.random.default_rng(0)
    items, users = rng.standard_normal((60, 4)), rng.standard_normal((5, 4))
    model = ts.Recommender.build(items, users, item_ids=np.arange(60) * 7, seen=[[0, 7], [14], [], [413], [21]])
    model.remove_items([7, 35])
    model.add_items(rng.standard_normal((2, 4)), [35, 1000])
    model._edition.ready()
    for _ in range(12):
        some = rng.choice(model._edition.version.ids, 10, replace=False)
        model.update_items(rng.standard_normal((10, 4)), some)
        edition = model._edition
        kept = {name: vars(edition.version)[name] for name in ("ids", "live_rows")} | {
            "seen": vars(edition)["seen_rows"]
        }
        fresh = dataclasses.replace(edition.version)
        np.testing.assert_array_equal(kept["ids"], fresh.ids)
        np.testing.assert_array_equal(kept["live_rows"], fresh.live_rows)
        np.testing.assert_array_equal(kept["seen"], dataclasses.replace(edition, version=fresh).seen_rows)
