"""All users: what search gives, whatever the blocks, and a folder that outlasts whatever ends the job."""

import errno
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import tessella as ts
from tessella.jobs import all_users, answer_folder

RNG = np.random.default_rng(3)
ITEMS = (RNG.standard_normal((300, 8)) * RNG.lognormal(0, 1, (300, 1))).astype(np.float32)
USERS = RNG.standard_normal((50, 8)).astype(np.float32)
SEEN = scipy.sparse.csr_array(RNG.random((50, 300)) < 0.3)
NAMES = [f"item {row}" + "é" * (row % 7) for row in range(300)]
FILES = {"ids.npy", "scores.npy", "n_scored.npy", "certified.npy", "job.json"}


@pytest.fixture
def index():
    return ts.Index.build(ITEMS)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(all_users, "USERS_PER_BLOCK", 7)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.ids, expected.ids)
    assert found.scores.dtype == np.float32
    assert found.scores.tobytes() == expected.scores.tobytes()
    np.testing.assert_array_equal(found.n_scored, expected.n_scored)
    np.testing.assert_array_equal(found.certified, expected.certified)


def joined(parts):
    parts = [part.arrays() for part in parts]
    return ts.SearchResult(*(np.concatenate([part[name] for part in parts]) for name in ts.SearchResult.FIELDS))


def files(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


OPTIONS = {
    "exact": {},
    "k of more than all items": {"k": 400},
    "one answer": {"k": 1},
    "a matrix of seen items": {"exclude": SEEN},
    "another matrix of seen items": {"exclude": scipy.sparse.coo_matrix(SEEN)},
    "lists of seen items": {"exclude": [range(user) for user in range(50)]},
    "rows of seen items": {"exclude": np.arange(150).reshape(50, 3)},
    "few allowed items": {"allow": [1, 5, 299, 1000]},
    "many allowed items": {"allow": set(range(0, 300, 2)), "k": 200},
    "allowed items of each": {"allow": [range(user, 300, 9) for user in range(50)], "k": 50},
    "slots": {"method": ts.Slots(30)},
    "slots, other knobs": {"method": ts.Slots(max_slots=3, min_overlap=2), "exclude": SEEN},
    "exact, on one thread": {"exact": True, "threads": 1},
}


@pytest.mark.parametrize("size", [1, 7, 49, 50, 128])
@pytest.mark.parametrize("case", OPTIONS)
def test_all_users_get_what_search_gives(index, tmp_path, monkeypatch, case, size):
    monkeypatch.setattr(all_users, "USERS_PER_BLOCK", size)
    options = OPTIONS[case]
    expected = index.search(USERS, **options)
    found = index.search_all(USERS, **options)
    assert found.ids.dtype == expected.ids.dtype
    assert_same(found, expected)
    assert_same(index.search_all(USERS, **options, out=tmp_path / "recs"), expected)
    parts = []
    assert index.search_all(USERS, **options, out=lambda first, part: parts.append((first, part))) is None
    assert [first for first, _ in parts] == list(range(0, 50, size))
    assert_same(joined(part for _, part in parts), expected)


def test_blocks_of_the_usual_size(monkeypatch, tmp_path):
    monkeypatch.undo()
    users = np.random.default_rng(1).standard_normal((20_001, 8)).astype(np.float16)
    index = ts.Index.build(ITEMS)
    starts = []
    index.search_all(users, 3, out=lambda first, _: starts.append(first))
    assert starts == [0, 8192, 16384]
    assert_same(index.search_all(users, 3, out=tmp_path / "recs"), index.search(users, 3))


@pytest.mark.parametrize("k", [3, 310])
def test_text_ids(tmp_path, k):
    index = ts.Index.build(ITEMS, NAMES)
    expected = index.search(USERS, k, exclude=SEEN)
    found = index.search_all(USERS, k, exclude=SEEN)
    assert found.ids.dtype == object
    assert_same(found, expected)
    stored = index.search_all(USERS, k, exclude=SEEN, out=tmp_path / "recs")
    assert_same(stored, expected)
    assert stored.ids.shape == expected.ids.shape
    assert stored.ids.tolist() == expected.ids.tolist()
    assert stored.ids[3].tolist() == expected.ids[3].tolist()
    assert ((stored.ids == NAMES[0]) == (expected.ids == NAMES[0])).all()
    ids = np.load(tmp_path / "recs" / "ids.npy", mmap_mode="r")
    assert ids.dtype == np.int64
    items = json.loads((tmp_path / "recs" / "items.json").read_text())
    assert items == index.ids.tolist()
    there = expected.scores > -np.inf
    assert (ids[~there] == -1).all()
    assert np.array(items, object)[ids[there]].tolist() == expected.ids[there].tolist()
    assert (k < 300) == there.all()


@pytest.mark.parametrize("names", [[f"{row}\n\ud800" for row in range(50)], list(range(100, 150))])
def test_users_are_listed_in_the_folder(index, tmp_path, names):
    index.search_all(USERS, 2, user_ids=names, out=tmp_path / "recs")
    assert json.loads((tmp_path / "recs" / "users.json").read_text()) == names
    assert {path.name for path in (tmp_path / "recs").iterdir()} == FILES | {"users.json"}
    index.search_all(USERS, 2, out=tmp_path / "recs", overwrite=True)
    assert {path.name for path in (tmp_path / "recs").iterdir()} == FILES
    with pytest.raises(ValueError, match="user_ids has 49 entries, but there are 50 users"):
        index.search_all(USERS, 2, user_ids=names[1:], out=tmp_path / "others")


def test_a_long_list_is_a_list(tmp_path, monkeypatch):
    monkeypatch.setattr(answer_folder, "_IDS_AT_ONCE", 7)
    for n in (0, 1, 7, 20):
        answer_folder._write_list(tmp_path / "users.json", np.arange(n))
        assert json.loads((tmp_path / "users.json").read_text()) == list(range(n))


def test_the_folder_is_plain_numpy(index, tmp_path):
    index.search_all(USERS, 4, out=str(tmp_path / "recs"))
    assert {path.name for path in tmp_path.iterdir()} == {"recs"}
    assert {path.name for path in (tmp_path / "recs").iterdir()} == FILES
    expected = index.search(USERS, 4)
    for name, part in expected.arrays().items():
        stored = np.load(tmp_path / "recs" / f"{name}.npy", mmap_mode="r")
        assert stored.dtype == part.dtype
        np.testing.assert_array_equal(stored, part)


def test_users_in_a_file_and_of_any_kind(index, tmp_path):
    expected = index.search(USERS, 5)
    for number, kind in enumerate((USERS.astype(np.float64), np.asfortranarray(USERS))):
        path = tmp_path / f"users{number}.npy"
        np.save(path, kind)
        assert_same(index.search_all(path, 5), expected)
        assert_same(index.search_all(str(path), 5), expected)
        assert_same(index.search_all(np.load(path, mmap_mode="r"), 5), expected)
    assert_same(index.search_all(np.repeat(USERS, 2, axis=0)[::2], 5), expected)
    assert_same(index.search_all(USERS.tolist(), 5), expected)


@pytest.mark.parametrize("names", [None, NAMES])
def test_no_users_no_answers(tmp_path, names):
    index = ts.Index.build(ITEMS, names)
    np.save(tmp_path / "users.npy", USERS[:0])
    for users in (USERS[:0], tmp_path / "users.npy"):
        assert_same(index.search_all(users, 3), index.search(USERS[:0], 3))
    assert index.search_all(USERS[:0], 3, out=tmp_path / "recs").ids.shape == (0, 3)
    assert {path.name for path in (tmp_path / "recs").iterdir()} == FILES | ({"items.json"} if names else set())
    index.search_all(USERS[:0], 3, out=lambda *_: pytest.fail("there is nobody to answer"))


def test_an_index_without_items(index, tmp_path):
    index.remove(range(300))
    assert_same(index.search_all(USERS, 3, out=tmp_path / "recs"), index.search(USERS, 3))


def test_changes_meanwhile_do_not_show(index):
    expected = index.search(USERS, 5)
    parts = []

    def change(_, part):
        parts.append(part)
        index.remove(index.ids[:20])

    index.search_all(USERS, 5, out=change)
    assert len(index) == 300 - 8 * 20
    assert_same(joined(parts), expected)


def test_what_the_callable_raises_ends_the_job(index):
    calls = []

    def give_up(first, _):
        calls.append(first)
        if first == 14:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        index.search_all(USERS, out=give_up)
    assert calls == [0, 7, 14]


BAD_ROW = np.where(np.arange(400).reshape(50, 8) == 8 * 40 + 3, np.nan, USERS)
LONG_ROW = USERS * np.where(np.arange(50) == 33, 1e38, 1)[:, None].astype(np.float32)
BAD = [
    ((BAD_ROW,), {}, ValueError, "user_factors holds nan in row 40, column 3; factors must be finite."),
    ((LONG_ROW,), {}, ValueError, "in row 33"),
    ((USERS[0],), {}, ValueError, "user_factors has 1 dimensions, but must have 2"),
    ((USERS[:, :5],), {}, ValueError, "user_factors has 5 columns, but 8 are expected."),
    ((scipy.sparse.csr_array(USERS),), {}, TypeError, "user_factors is a SciPy sparse matrix"),
    ((USERS, 0), {}, ValueError, "k is 0, but must be from 1 to 1048576."),
    ((USERS,), {"method": "slots"}, TypeError, "method is a str, but must be tessella.Exact(), tessella.Tiles(reach) or tessella.Slots(budget)."),
    ((USERS,), {"threads": 0}, ValueError, "threads is 0, but at least 1 is needed"),
    ((USERS,), {"exact": object()}, TypeError, "exact must be True or False, not object."),
    ((USERS,), {"metod": ts.Exact()}, TypeError, "unexpected keyword argument 'metod'"),
    ((USERS,), {"exclude": SEEN[:49]}, ValueError, "exclude has shape (49, 300), but must have shape (50, 300): each row belongs to one query."),
    ((USERS,), {"exclude": [[1]]}, ValueError, "exclude has 1 sequence of ids, but there are 50 queries."),
    ((USERS,), {"exclude": [[1]] * 49 + [2]}, TypeError, "exclude holds both ids and sequences of ids, but must hold only one of the two."),
    ((USERS,), {"exclude": [[1]] * 49 + [["a"]]}, TypeError, "exclude holds both strings and other values"),
    ((USERS,), {"exclude": 3}, TypeError, "exclude is a int, but must be a sequence of ids"),
    ((USERS,), {"allow": [[1]] * 49}, ValueError, "allow has 49 sequences of ids, but there are 50 queries."),
    ((USERS,), {"allow": [[1]] * 49 + [["a"]]}, TypeError, "allow holds both strings and other values"),
    ((USERS,), {"allow": ["a"]}, TypeError, "ids are strings, but those in the index are integers."),
    ((USERS,), {"progress": 1}, TypeError, "progress must be True or False, not int."),
    ((USERS,), {"overwrite": 1}, TypeError, "overwrite must be True or False, not int."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "options", "error", "sentence"), BAD, ids=[sentence for *_, sentence in BAD])
def test_bad_input_gets_one_sentence_and_changes_nothing(index, tmp_path, arguments, options, error, sentence):
    """The bad rows are far from the first, and yet nothing is answered, called or written."""
    for out in (None, tmp_path / "recs", lambda *_: pytest.fail("it was called")):
        with pytest.raises(error, match=re.escape(sentence)):
            index.search_all(*arguments, out=out, **options)
    assert not files(tmp_path)


def test_bad_outputs(index, tmp_path):
    with pytest.raises(TypeError, match=r"^out is a int, but must be a path, a function or None\.$"):
        index.search_all(USERS, out=3)
    with pytest.raises(ValueError, match=r"^overwrite=True replaces a folder of answers, but out is not a path\.$"):
        index.search_all(USERS, overwrite=True)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        index.search_all(USERS, out=tmp_path / "no" / "recs")
    with pytest.raises(ValueError, match=r"^out is '\.', but must be the path of a folder to create\.$"):
        index.search_all(USERS, out=".")
    (tmp_path / "users.npy").write_text("hello")
    with pytest.raises(
        ValueError, match=r"users\.npy cannot be read: it is not a \.npy file of numbers, or is damaged\.$"
    ):
        index.search_all(tmp_path / "users.npy")
    np.save(tmp_path / "users.npy", BAD_ROW)
    with pytest.raises(ValueError, match=r"users\.npy holds nan in row 40"):
        index.search_all(tmp_path / "users.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["users.npy"]


def test_finished_answers_are_replaced_only_if_asked_for(index, tmp_path):
    out = tmp_path / "recs"
    index.search_all(USERS, 3, out=out)
    before = files(tmp_path)
    with pytest.raises(FileExistsError, match=r"recs already exists; pass overwrite=True to replace it\.$"):
        index.search_all(USERS, 4, out=out)
    assert files(tmp_path) == before
    assert_same(index.search_all(USERS, 4, out=out, overwrite=True), index.search(USERS, 4))
    assert [path.name for path in tmp_path.iterdir()] == ["recs"]
    (out / "notes.txt").touch()
    (tmp_path / "file").touch()
    before = files(tmp_path)
    with pytest.raises(
        FileExistsError, match=r"recs contains files other than answers, so it is not replaced; choose another path\.$"
    ):
        index.search_all(USERS, 4, out=out, overwrite=True)
    with pytest.raises(FileExistsError, match=r"file is a file, but only a folder can be replaced\.$"):
        index.search_all(USERS, 4, out=tmp_path / "file", overwrite=True)
    assert files(tmp_path) == before


class Stop(BaseException):
    """An interrupt that no handler expects."""


class Blocks:
    """How many more blocks may be searched before an interrupt."""

    left = 1000


@pytest.fixture(autouse=True)
def stoppable(monkeypatch):
    search = all_users.search

    def stopping(version, queries, *arguments):
        if len(queries):
            if not Blocks.left:
                raise Stop
            Blocks.left -= 1
        return search(version, queries, *arguments)

    monkeypatch.setattr(Blocks, "left", 1000)
    monkeypatch.setattr(all_users, "search", stopping)


def interrupted(out, blocks=3, users=USERS, k=5, names=None, **options):
    """A job interrupted after some blocks; the index it asked."""
    index = ts.Index.build(ITEMS, names)
    Blocks.left = blocks
    with pytest.raises(Stop):
        index.search_all(users, k, out=out, **options)
    Blocks.left = 1000
    return index


def blocks_asked(index, *arguments, **options):
    """The answers, and how many blocks were searched for them."""
    Blocks.left = 1000
    found = index.search_all(*arguments, **options)
    return found, 1000 - Blocks.left


@pytest.mark.parametrize(
    "options",
    [
        {}, {"exclude": SEEN}, {"method": ts.Slots(20)}, {"allow": {7, 8, 9}}, {"names": NAMES},
        {"exclude": [range(user) for user in range(50)]}, {"allow": [range(user) for user in range(1, 51)]},
    ],
    ids=["plain", "seen", "slots", "allowed", "texts", "seen lists", "allowed lists"],
)  # fmt: skip
@pytest.mark.parametrize("blocks", [1, 3, 7])
def test_an_interrupted_job_resumes(tmp_path, monkeypatch, blocks, options):
    index = interrupted(tmp_path / "recs", blocks, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["recs.partial"]
    assert answer_folder.users_done(tmp_path / "recs") == 7 * blocks
    monkeypatch.setattr(all_users, "USERS_PER_BLOCK", 20)  # the job keeps the blocks it was begun with
    asked = {name: value for name, value in options.items() if name != "names"}
    found, n = blocks_asked(index, USERS.astype(np.float64), 5, **asked, threads=1, out=tmp_path / "recs")
    assert n == 8 - blocks
    expected = ts.Index.build(ITEMS, options.get("names")).search(USERS, 5, **asked)
    assert_same(found, expected)
    assert [path.name for path in tmp_path.iterdir()] == ["recs"]
    assert answer_folder.users_done(tmp_path / "recs") == 0


def test_a_job_resumes_with_the_same_user_ids_only(tmp_path):
    names = [f"user {row}" for row in range(50)]
    index = interrupted(tmp_path / "recs", user_ids=names)
    for others in (None, names[::-1]):
        with pytest.raises(ValueError, match="was started with other users or filters"):
            index.search_all(USERS, 5, user_ids=others, out=tmp_path / "recs")
    index.search_all(USERS, 5, user_ids=names, out=tmp_path / "recs")
    assert json.loads((tmp_path / "recs" / "users.json").read_text()) == names


def test_it_can_be_interrupted_again_and_again(tmp_path):
    for round_ in range(1, 8):
        index = interrupted(tmp_path / "recs", 1)
        assert answer_folder.users_done(tmp_path / "recs") == 7 * round_
    found, n = blocks_asked(index, USERS, 5, out=tmp_path / "recs")
    assert n == 1
    assert_same(found, ts.Index.build(ITEMS).search(USERS, 5))


def test_interrupted_before_anything_was_done_it_leaves_nothing(tmp_path):
    interrupted(tmp_path / "recs", 0)
    assert not files(tmp_path)


def test_interrupted_while_it_is_written_down(tmp_path, monkeypatch):
    """Wherever the writing is cut off, the job can be repeated."""
    expected = ts.Index.build(ITEMS).search(USERS[:15], 5)
    monkeypatch.setattr(answer_folder, "SECONDS_BETWEEN_SYNCS", -1)
    write, sync = answer_folder._ArrayFile.write, os.fsync
    for cut in itertools.count():
        steps = itertools.count()

        def step(call, *arguments, cut=cut, steps=steps):
            if next(steps) == cut:
                raise Stop
            return call(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(answer_folder._ArrayFile, "write", lambda *arguments, step=step: step(write, *arguments))
            patch.setattr(os, "fsync", lambda *arguments, step=step: step(sync, *arguments))
            try:
                ts.Index.build(ITEMS).search_all(USERS[:15], 5, out=tmp_path / "recs")
            except Stop:
                pass
            else:
                break
        assert_same(ts.Index.build(ITEMS).search_all(USERS[:15], 5, out=tmp_path / "recs", overwrite=True), expected)
        assert [path.name for path in tmp_path.iterdir()] == ["recs"]
        shutil.rmtree(tmp_path / "recs")
    assert cut > 3 * 10  # for each block: four arrays written, five files and a folder synced


def test_a_loaded_index_is_the_same_index(tmp_path):
    index = interrupted(tmp_path / "recs")
    index.save(tmp_path / "items.tessella")
    found, n = blocks_asked(ts.Index.load(tmp_path / "items.tessella", mmap=True), USERS, 5, out=tmp_path / "recs")
    assert n == 5
    assert_same(found, ts.Index.build(ITEMS).search(USERS, 5))


def other_user():
    users = USERS.copy()
    users[20, 0] += 1e-6
    return users


def other_seen():
    seen = SEEN.tolil()
    seen[20, 0] = not seen[20, 0]
    return seen.tocsr()


OTHERS = {
    "another k (5, not 6)": {"k": 6},
    "another number of users (50, not 49)": {"users": USERS[:49], "exclude": SEEN[:49]},
    "another method": {"method": ts.Slots(299)},
    "other users or filters": {"users": other_user()},
    "other users or filters; pass": {"exclude": other_seen()},
    "another exclude": {"exclude": None},
    "another allow": {"allow": [1, 2]},
    "another index": {"items": ITEMS[::-1]},
    "another version of tessella": {"version": "0.0.9"},
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_job_does_not_resume(tmp_path, monkeypatch, what):
    out = tmp_path / "recs"
    interrupted(out, exclude=SEEN)
    other = {"users": USERS, "k": 5, "exclude": SEEN, "items": ITEMS} | OTHERS[what]
    if version := other.pop("version", None):
        monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    index, users = ts.Index.build(other.pop("items")), other.pop("users")
    before = files(tmp_path)
    with pytest.raises(ValueError, match=re.escape(f"recs.partial was started with {what}")) as caught:
        index.search_all(users, **other, out=out)
    assert str(caught.value).endswith("; pass the same to resume, or overwrite=True to start over.")
    assert files(tmp_path) == before
    assert_same(index.search_all(users, **other, out=out, overwrite=True), index.search(users, **other))
    assert [path.name for path in tmp_path.iterdir()] == ["recs"]


def test_a_changed_index_is_another_index(tmp_path):
    index = interrupted(tmp_path / "recs")
    index.update([ITEMS[250]], [250])
    with pytest.raises(ValueError, match="was started with another index"):
        index.search_all(USERS, 5, out=tmp_path / "recs")


def test_users_not_yet_answered_may_change(tmp_path):
    index = interrupted(tmp_path / "recs")
    users = np.concatenate([USERS[:21], -USERS[21:]])
    found, n = blocks_asked(index, users, 5, out=tmp_path / "recs")
    assert n == 5
    assert_same(found, ts.Index.build(ITEMS).search(users, 5))


def edit(path, change):
    job = json.loads(path.read_text())
    change(job)
    path.write_text(json.dumps(job))


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


DAMAGES = {
    "an answer": lambda folder: flip(folder / "ids.npy", 128 + 8 * 5 * 20),
    "a score": lambda folder: flip(folder / "scores.npy", 128 + 4 * 5 * 20),
    "a count": lambda folder: flip(folder / "n_scored.npy", 128),
    "a proof": lambda folder: flip(folder / "certified.npy", 128 + 20),
    "a header": lambda folder: flip(folder / "ids.npy", 1),
    "a type": lambda folder: np.save(folder / "scores.npy", np.zeros((50, 5))),
    "an array cut off": lambda folder: os.truncate(folder / "scores.npy", 200),
    "an empty array": lambda folder: os.truncate(folder / "certified.npy", 0),
    "an array gone": lambda folder: (folder / "n_scored.npy").unlink(),
    "the first array gone": lambda folder: (folder / "ids.npy").unlink(),
    "the job gone": lambda folder: (folder / "job.json").unlink(),
    "the job cut off": lambda folder: os.truncate(folder / "job.json", 30),
    "the job no text": lambda folder: (folder / "job.json").write_bytes(b"\xff"),
    "the job a list": lambda folder: (folder / "job.json").write_text("[1]"),
    "too much done": lambda folder: edit(folder / "job.json", lambda job: job["done"].update(n_users=28)),
    "more than all done": lambda folder: edit(folder / "job.json", lambda job: job["done"].update(n_users=57)),
    "half a block done": lambda folder: edit(folder / "job.json", lambda job: job["done"].update(n_users=20)),
    "a text done": lambda folder: edit(folder / "job.json", lambda job: job["done"].update(n_users="21")),
    "no blocks": lambda folder: edit(folder / "job.json", lambda job: job.update(users_per_block=0)),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_partial_folder_is_refused(tmp_path, what):
    out = tmp_path / "recs"
    index = interrupted(out)
    DAMAGES[what](tmp_path / "recs.partial")
    before = files(tmp_path)
    with pytest.raises(ValueError, match=r"recs\.partial is damaged: .*; pass overwrite=True to start over\.$"):
        index.search_all(USERS, 5, out=out)
    assert files(tmp_path) == before
    found, n = blocks_asked(index, USERS, 5, out=out, overwrite=True)
    assert n == 8
    assert_same(found, ts.Index.build(ITEMS).search(USERS, 5))


def test_a_partial_folder_of_a_later_format(index, tmp_path):
    interrupted(tmp_path / "recs")
    edit(tmp_path / "recs.partial" / "job.json", lambda job: job.update(format=9))
    with pytest.raises(ValueError, match=re.escape("was started with another format of answers (9, not 3);")):
        index.search_all(USERS, 5, out=tmp_path / "recs")


def test_a_folder_of_that_name_that_is_not_ours_stays(index, tmp_path):
    (tmp_path / "recs.partial").mkdir()
    (tmp_path / "recs.partial" / "thesis.tex").write_text("mine")
    before = files(tmp_path)
    with pytest.raises(ValueError, match=r"recs\.partial is damaged: ids\.npy is missing;"):
        index.search_all(USERS, out=tmp_path / "recs")
    with pytest.raises(FileExistsError, match=r"recs\.partial contains files other than answers, so it is not rep"):
        index.search_all(USERS, out=tmp_path / "recs", overwrite=True)
    assert files(tmp_path) == before


def index_answers():
    return ts.Index.build(ITEMS).search(USERS, 5)


def empty(folder):
    for file in folder.iterdir():
        file.unlink()


NOTHING_DONE = {
    "nothing": empty,
    "an empty array": lambda folder: (empty(folder), (folder / "ids.npy").touch()),
    "half a job": lambda folder: (empty(folder), (folder / ".job.json.0123456789ab.tmp").write_text('{"format"')),
    "no rows": lambda folder: (
        edit(folder / "job.json", lambda job: job.update(done={"n_users": 0, "asked": "", "answered": ""})),
        (folder / "scores.npy").unlink(),
        os.truncate(folder / "ids.npy", 20),
    ),
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("what", NOTHING_DONE)
def test_a_folder_in_which_nothing_was_done_is_used(tmp_path, what, overwrite):
    """Such as a job leaves that is killed while it makes its folder."""
    index = interrupted(tmp_path / "recs")
    NOTHING_DONE[what](tmp_path / "recs.partial")
    assert_same(blocks_asked(index, USERS, 5, out=tmp_path / "recs", overwrite=overwrite)[0], index_answers())
    assert [path.name for path in tmp_path.iterdir()] == ["recs"]
    assert {path.name for path in (tmp_path / "recs").iterdir()} == FILES


def test_what_a_killed_job_left_of_its_notes_goes(tmp_path):
    index = interrupted(tmp_path / "recs")
    (tmp_path / "recs.partial" / ".job.json.0123456789ab.tmp").write_text('{"format"')
    found, n = blocks_asked(index, USERS, 5, out=tmp_path / "recs")
    assert n == 5
    assert_same(found, index_answers())
    assert {path.name for path in (tmp_path / "recs").iterdir()} == FILES


def test_a_long_name_and_a_link_resume(tmp_path):
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / ("é" * 127)
    (tmp_path / "link").symlink_to(target)
    index = interrupted(tmp_path / "link")
    (partial,) = target.parent.iterdir()
    assert partial.name.endswith(".partial")
    assert answer_folder.users_done(target) == answer_folder.users_done(tmp_path / "link") == 21
    found, n = blocks_asked(index, USERS, 5, out=target)
    assert n == 5
    assert_same(found, index_answers())
    assert list(target.parent.iterdir()) == [target]


BAD_PARTIALS = {
    "recs.partial is a file, but only a folder can be replaced.": Path.touch,
    "recs.partial is a pipe, but only a folder can be replaced.": os.mkfifo,
    "recs could not be written: File exists.": lambda partial: partial.symlink_to("nowhere"),
    "recs.partial/ids.npy is a pipe, but only a regular file can be read.": lambda partial: (
        partial.mkdir(),
        os.mkfifo(partial / "ids.npy"),
    ),
    "recs.partial/job.json is a pipe, but only a regular file can be read.": lambda partial: (
        partial.mkdir(),
        (partial / "ids.npy").touch(),
        os.mkfifo(partial / "job.json"),
    ),
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("sentence", BAD_PARTIALS)
def test_a_partial_folder_that_is_something_else(index, tmp_path, monkeypatch, sentence, overwrite):
    monkeypatch.chdir(tmp_path)
    BAD_PARTIALS[sentence](Path("recs.partial"))
    before = [(path, path.lstat()) for path in sorted(tmp_path.rglob("*"))]
    with pytest.raises(OSError, match=f"^{re.escape(sentence)}$"):
        index.search_all(USERS, out="recs", overwrite=overwrite)
    assert [(path, path.lstat()) for path in sorted(tmp_path.rglob("*"))] == before
    assert answer_folder.users_done(Path("recs")) == 0


def test_overwriting_resumes_where_it_stopped(tmp_path):
    out = tmp_path / "recs"
    ts.Index.build(ITEMS).search_all(USERS, 2, out=out)
    before = files(out)
    index = interrupted(out, overwrite=True)
    assert files(out) == before
    found, n = blocks_asked(index, USERS, 5, out=out, overwrite=True)
    assert n == 5
    assert_same(found, ts.Index.build(ITEMS).search(USERS, 5))
    assert [path.name for path in tmp_path.iterdir()] == ["recs"]


def test_two_jobs_do_not_fill_one_folder(tmp_path, monkeypatch):
    out = tmp_path / "recs"

    search, refused = all_users.search, []

    def rival(*arguments):
        if len(arguments[1]) and not refused:
            refused.append(True)
            with pytest.raises(BlockingIOError, match=r"recs\.partial is being filled by another job; wait for it"):
                ts.Index.build(ITEMS).search_all(USERS, 5, out=out, overwrite=True)
        return search(*arguments)

    monkeypatch.setattr(all_users, "search", rival)
    assert_same(ts.Index.build(ITEMS).search_all(USERS, 5, out=out), index_answers())
    assert refused


def run_python(code, *arguments, **options):
    """What a script of its own prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # noqa: S603
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


FULL = """
import resource, sys
import numpy as np
import tessella as ts
from tessella.jobs import all_users
from tessella.jobs import answer_folder
all_users.USERS_PER_BLOCK = 7
limit = int(sys.argv[2])
if sys.argv[3] == "later":  # a system that reserves no room
    answer_folder._ArrayFile.reserve = lambda rows: None
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
items, users = np.load("items.npy"), np.load("users.npy")
try:
    ts.Index.build(items).search_all(users, 20, out=sys.argv[1])
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_full_disk(index, tmp_path, when):
    np.save(tmp_path / "items.npy", ITEMS)
    np.save(tmp_path / "users.npy", USERS)
    before = files(tmp_path)
    said = run_python(FULL, "recs", 128 + 8 * 20 * 30, when, cwd=tmp_path)
    if when == "at once":
        assert said == "recs could not be written: File too large.\n"
        assert files(tmp_path) == before
    else:
        kept = "28 of 50 users are done and kept in recs.partial; repeat the call to resume."
        assert said == f"recs could not be written: File too large. {kept}\n"
        assert answer_folder.users_done(tmp_path / "recs") == 28
    assert run_python(FULL, "recs", 10**6, when, cwd=tmp_path) == ""
    found = ts.SearchResult(*(np.load(tmp_path / "recs" / f"{name}.npy") for name in ts.SearchResult.FIELDS))
    assert_same(found, index.search(USERS, 20))


def test_a_read_only_place(index, tmp_path, monkeypatch):
    """Root may write anywhere, so the system's answer is put in its mouth."""

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OSError, match=r"recs could not be written: Read-only file system\.$"):
        index.search_all(USERS, out=tmp_path / "recs")
    assert not files(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write anything")
def test_a_folder_that_may_not_be_written(index, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match=r"recs could not be written: Permission denied\.$"):
        index.search_all(USERS, out=tmp_path / "recs")


def test_answers_that_cannot_take_their_name_are_kept(tmp_path, monkeypatch):
    out = tmp_path / "recs"
    index = ts.Index.build(ITEMS)
    rename = Path.rename

    def refuse(path, to):
        if path.name == "recs.partial":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, to)

    ts.Index.build(ITEMS).search_all(USERS, 2, out=out)
    before = files(out)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(OSError, match="50 of 50 users are done and kept"):
            index.search_all(USERS, 5, out=out, overwrite=True)
    assert files(out) == before
    found, n = blocks_asked(index, USERS, 5, out=out, overwrite=True)
    assert n == 0
    assert_same(found, ts.Index.build(ITEMS).search(USERS, 5))


KILLED = """
import signal, sys
import numpy as np
import tessella as ts
from tessella.jobs import all_users
from tessella.jobs import answer_folder
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs may be deaf to it
all_users.USERS_PER_BLOCK, answer_folder.SECONDS_BETWEEN_SYNCS = 7, -1
search = all_users.search
def slow(*arguments):
    print("block", flush=True)
    if sys.argv[1] == "wait":
        sys.stdin.readline()
    return search(*arguments)
all_users.search = slow
ts.Index.build(np.load("items.npy")).search_all(np.load("users.npy"), 5, out="recs")
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_job_resumes(index, tmp_path, sent):
    np.save(tmp_path / "items.npy", ITEMS)
    np.save(tmp_path / "users.npy", USERS)
    command = [sys.executable, "-c", KILLED, "wait"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, cwd=tmp_path, text=True, **pipes)  # noqa: S603
    for _ in range(4):  # a search for nobody, then three blocks
        assert process.stdout.readline() == "block\n"
        process.stdin.write("\n")
        process.stdin.flush()
    assert process.stdout.readline() == "block\n"
    process.send_signal(sent)
    _, said = process.communicate()
    assert ("KeyboardInterrupt" in said) == (sent == signal.SIGINT)
    assert process.returncode == -sent
    assert answer_folder.users_done(tmp_path / "recs") == 21
    assert run_python(KILLED, "on", cwd=tmp_path).count("block") == 1 + 5
    np.testing.assert_array_equal(np.load(tmp_path / "recs" / "ids.npy"), index.search(USERS, 5).ids)


@pytest.mark.parametrize(
    ("out", "n_users", "k", "texts", "most"),
    [("recs", 100_000, 10, False, 9e6), ("recs", 20_000, 500, False, 67e6), ("recs", 4_000, 100, True, 67e6), (None, 100_000, 10, False, 9e6)],
)  # fmt: skip
def test_memory_does_not_grow_with_users(tmp_path, monkeypatch, out, n_users, k, texts, most):
    """Neither the users nor their answers are ever there as a whole; memory maps do not count."""
    monkeypatch.undo()
    items = np.random.default_rng(0).standard_normal((600, 16))
    index = ts.Index.build(items, [f"{row:050}" for row in range(600)] if texts else None)
    users = np.lib.format.open_memmap(tmp_path / "users.npy", mode="w+", dtype=np.float64, shape=(n_users, 16))
    users[:, 0] = 1
    entries = np.ones(3 * n_users, np.bool_), np.tile([1, 2, 3], n_users), 3 * np.arange(n_users + 1)
    seen = scipy.sparse.csr_array(entries, shape=(n_users, 600))
    output = (lambda *_: None) if out is None else tmp_path / out
    tracemalloc.start()
    try:
        index.search_all(tmp_path / "users.npy", k, exclude=seen, out=output)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    answers = n_users * k * (4 + (200 if texts else 8))
    assert peak < most < answers


@pytest.mark.parametrize(("progress", "shown"), [(None, False), (False, False), (True, True)])
def test_pipes_get_no_bar_unless_asked_for(index, capsys, progress, shown):
    index.search_all(USERS, progress=progress)
    said = capsys.readouterr()
    assert said.out == ""
    assert ("Searching" in said.err) == shown


def test_a_process_without_stderr_gets_no_bar(index, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert_same(index.search_all(USERS, 5), index_answers())


KILLED_ANYWHERE = """
import itertools, os, signal, sys
import numpy as np
import tessella as ts
from tessella.jobs import all_users, answer_folder
all_users.USERS_PER_BLOCK, answer_folder.SECONDS_BETWEEN_SYNCS = 7, -1
index, users = ts.Index.build(np.load("items.npy")), np.load("users.npy")
overwrite = sys.argv[1] == "overwrite"
watched = ("open", "fcntl.flock", "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate")

def job(k, **options):
    return index.search_all(users, k, out="out/recs", **options)

def forked(work):
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for cut in itertools.count():
    os.mkdir("out")
    if overwrite:
        job(2)
    steps = itertools.count()

    def killed():
        def step(event, _):
            if event in watched and next(steps) == cut:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(step)
        job(5, overwrite=overwrite)

    code = forked(killed)
    kept = os.path.isdir("out/recs") and np.load("out/recs/ids.npy").shape[1]
    if code == 0:
        break
    if not (kept == 5 and not overwrite):  # killed after its end
        assert forked(lambda: job(5, overwrite=overwrite)) == 0, cut
    assert os.listdir("out") == ["recs"], (cut, os.listdir("out"))
    assert {*os.listdir("out/recs")} == {"ids.npy", "scores.npy", "n_scored.npy", "certified.npy", "job.json"}, cut
    assert np.array_equal(np.load("out/recs/ids.npy"), index.search(users, 5).ids), cut
    for file in os.listdir("out/recs"):
        os.remove(f"out/recs/{file}")
    os.rmdir("out/recs")
    os.rmdir("out")
print(cut)
"""


@pytest.mark.parametrize("overwrite", ["overwrite", "new"])
def test_wherever_a_job_is_killed_repeating_it_leaves_only_its_answers(tmp_path, overwrite):
    np.save(tmp_path / "items.npy", ITEMS)
    np.save(tmp_path / "users.npy", USERS[:10])
    assert int(run_python(KILLED_ANYWHERE, overwrite, cwd=tmp_path)) > 40


RIVALS = """
import os, sys
import numpy as np
import tessella as ts
from tessella.jobs import all_users
all_users.USERS_PER_BLOCK = 7
index, users = ts.Index.build(np.load("items.npy")), np.load("users.npy")
for number in range(60):
    children = []
    for _ in range(4):
        children.append(os.fork())
        if not children[-1]:
            try:
                index.search_all(users, 5, out=f"out/{number}", threads=1, overwrite=sys.argv[1] == "overwrite")
            except (BlockingIOError, FileExistsError):  # another fills the folder, or has filled it
                os._exit(9)
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(1)
            os._exit(0)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert 0 in codes and not {*codes} - {0, 9}, codes
    assert sys.argv[1] == "overwrite" or codes.count(0) == 1, codes
    assert np.array_equal(np.load(f"out/{number}/ids.npy"), index.search(users, 5).ids)
assert sorted(map(int, os.listdir("out"))) == [*range(60)], os.listdir("out")
"""


@pytest.mark.parametrize("overwrite", ["overwrite", "new"])
def test_of_jobs_that_start_at_once_one_fills_the_folder(tmp_path, overwrite):
    np.save(tmp_path / "items.npy", ITEMS)
    np.save(tmp_path / "users.npy", USERS)
    (tmp_path / "out").mkdir()
    assert run_python(RIVALS, overwrite, cwd=tmp_path) == ""
