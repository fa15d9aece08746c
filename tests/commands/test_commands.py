"""The command line: what each command does, what it says to bad input, and how it ends."""

import json
import os
import pty
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import typer.main
from typer.testing import CliRunner

import tessella as ts
from tessella.commands import app as cli
from tessella.commands import search as searching
from tessella.versions import storage
from tessella.versions.snapshot import snapshot

RNG = np.random.default_rng(7)
ITEMS = RNG.standard_normal((40, 6)).astype(np.float32)
USERS = RNG.standard_normal((9, 6)).astype(np.float32)
COMMANDS = (
    "build",
    "recommend",
    "search",
    "search-all",
    "add",
    "update",
    "remove",
    "info",
    "explain",
    "verify",
    "reproduce",
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a little of everything, to work in."""
    monkeypatch.chdir(tmp_path)
    np.save("items.npy", ITEMS)
    np.save("users.npy", USERS)
    np.save("more.npy", ITEMS[:2] * 3)
    np.save("wide.npy", np.ones((2, 7)))
    np.save("nan.npy", np.where(np.arange(54).reshape(9, 6) == 40, np.nan, USERS))
    Path("two.txt").write_text("100\n101\n")
    Path("names.txt").write_text("".join(f"{row:03}\n" for row in range(40)))
    Path("empty.npy").touch()
    Path("words.npy").write_text("hello")
    ts.Index.build(ITEMS).save("items.tessella")
    ts.Index.build(ITEMS, [str(row) for row in range(40)]).save("texts.tessella")
    damaged = bytearray(Path("items.tessella").read_bytes())
    damaged[-1] ^= 1
    Path("damaged.tessella").write_bytes(damaged)
    Path("folder.npy").mkdir()
    os.mkfifo("pipe.npy")
    Path("device.npy").symlink_to("/dev/null")
    Path("loop").symlink_to("loop")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], prog_name="tessella")


def good(*arguments):
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    return result.stdout


def start(*arguments, **options):
    """The real command, in a process of its own."""
    command = [sys.executable, "-m", "tessella", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)  # noqa: S603


def rows_of(text):
    header, *lines = text.splitlines()
    assert header == "user\trank\titem\tscore"
    return [tuple(line.split("\t")) for line in lines]


def expected_rows(index, k, users=USERS, names=None, **options):
    found = index.search(users, k, **options)
    return [
        (
            str(user if names is None else names[user]),
            str(rank + 1),
            str(found.ids[user, rank]),
            str(found.scores[user, rank]),
        )
        for user in range(len(users))
        for rank in range(k)
        if found.scores[user, rank] > -np.inf
    ]


def test_from_factors_to_recommendations():
    assert good("build", "items.npy", "-o", "new.tessella") == f"new.tessella: {ts.Index.build(ITEMS)}\n"
    index = ts.Index.build(ITEMS)
    assert rows_of(good("search", "new.tessella", "users.npy", "-k", 3)) == expected_rows(index, 3)
    said = good("add", "new.tessella", "more.npy", "--ids", "two.txt")
    assert said.startswith("new.tessella: Index of 42 items x 6 factors, ")
    index.add(ITEMS[:2] * 3, [100, 101])
    assert rows_of(good("search", "new.tessella", "users.npy")) == expected_rows(index, 10)
    np.save("more.npy", -ITEMS[:2])
    good("update", "new.tessella", "more.npy", "--ids", "two.txt")
    index.update(-ITEMS[:2], [100, 101])
    good("remove", "new.tessella", 3, 7)
    good("remove", "new.tessella", 4, "--ids", "two.txt")
    index.remove([3, 4, 7, 100, 101])
    assert rows_of(good("search", "new.tessella", "users.npy")) == expected_rows(index, 10)
    assert ts.Index.load("new.tessella").ids.tolist() == index.ids.tolist()


def test_an_index_is_built_for_a_method():
    good("build", "items.npy", "-o", "exact.tessella", "--method", "exact")
    exact = ts.Index.load("exact.tessella")
    assert exact.plan.reason == "its answers are certified"
    good("build", "items.npy", "-o", "auto.tessella", "--target-recall", 0.9, "--queries", "users.npy")
    assert ts.Index.load("auto.tessella").plan.reason == "there are only 40 items"
    said = good("build", "items.npy", "-o", "tiles.tessella", "--method", "tiles")
    tiles = ts.Index.load("tiles.tessella")
    assert said == f"tiles.tessella: {tiles}\n"
    assert tiles.tiles == ts.LearnedTiles()
    assert tiles.plan.method.name == "tiles"
    said = good("info", "tiles.tessella")
    assert f"search    {tiles.plan.method}: " in said
    assert "LearnedTiles(n_tiles='auto', spill=1, seed=0)\n" in said
    assert "tiles     none" in good("info", "exact.tessella")
    good("build", "items.npy", "-o", "tuned.tessella", "--method", "tiles", "--queries", "users.npy")
    tuned = ts.Index.load("tuned.tessella")
    assert "the fastest method with a recall of at least 0.95, on 9 queries given" in tuned.plan.reason
    assert tuned.tiles == ts.LearnedTiles()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--budget", 0), "budget is 0, but must be at least 1."),
        (("--max-slots", 0), "max_slots is 0, but must be at least 1."),
        (("--reach", 2), "reach is 2, but must be from 0 to 1."),
        (("--exact", "--reach", 1), "--exact and --reach select different methods; pass only one of them."),
        (
            ("--reach", 1, "--max-slots", 3),
            "--reach and --budget or --max-slots select different methods; pass only one of them.",
        ),
    ],
)
def test_bad_methods(options, sentence):
    for command in (("search", INDEX, FILE), ("search-all", INDEX, FILE, "--out", "recs")):
        refused = run(*command, *options)
        assert (refused.exit_code, refused.stderr) == (1, f"tessella: {sentence}\n")


def test_searches_may_have_a_reach():
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles(n_tiles=9))
    index.save("tiles.tessella")
    for options, given in (
        ({"method": ts.Tiles(0.0)}, ("--reach", 0)),
        ({"method": ts.Tiles(1.0)}, ("--reach", 1)),
        ({}, ()),
    ):
        said = good("search", "tiles.tessella", "users.npy", "-k", 3, *given)
        assert rows_of(said) == expected_rows(index, 3, **options)
        said = good("search-all", "tiles.tessella", "users.npy", "-k", 3, "--out", "recs", "--overwrite", *given)
        assert ("all certified" in said) == (options.get("method") == ts.Tiles(1.0))
        np.testing.assert_array_equal(np.load("recs/ids.npy"), index.search(USERS, 3, **options).ids)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--method", "slots"), 2, "'slots' is not one of 'auto', 'exact', 'tiles'"),
        (
            ("--method", "exact", "--queries", "users.npy"),
            2,
            "do not apply to --method exact, whose recall is always 1",
        ),
        (("--method", "exact", "--target-recall", 0.9), 2, "do not apply to --method exact, whose recall is always 1"),
        (("--target-recall", 1.5), 1, "target_recall is 1.5, but must be from 0 to 1."),
        (("--method", "tiles", "--target-recall", -1), 1, "target_recall is -1, but must be from 0 to 1."),
        (("--queries", "wide.npy"), 1, "7 columns, but 6 are expected"),
        (("--queries", "nan.npy"), 1, "nan in row 6, column 4"),
        (("--queries", "nowhere.npy"), 1, "nowhere.npy"),
    ],
)
def test_bad_ways_to_build(arguments, code, sentence):
    result = run("build", "items.npy", "-o", "new.tessella", *arguments)
    assert result.exit_code == code
    assert sentence in " ".join(result.stderr.split())
    assert not Path("new.tessella").exists()


def test_a_reach_needs_tiles():
    result = run("search", "items.tessella", "users.npy", "--reach", 0.5)
    assert result.exit_code == 1
    assert result.stderr == "tessella: method is Tiles, but the index has no tiles; build it with --method tiles.\n"
    assert len(result.stderr.splitlines()) == 1


def test_ids_come_from_a_list_or_beside_the_factors():
    good("build", "items.npy", "-o", "listed.tessella", "--ids", "names.txt")
    assert ts.Index.load("listed.tessella").ids[:2].tolist() == ["000", "001"]
    np.savez("items.npz", factors=ITEMS, ids=np.arange(40) + 7)
    good("build", "items.npz", "-o", "beside.tessella")
    assert ts.Index.load("beside.tessella").ids[:2].tolist() == [7, 8]
    good("build", "items.npz", "-o", "beside.tessella", "--ids", "names.txt", "--overwrite")
    assert ts.Index.load("beside.tessella").ids[:2].tolist() == ["000", "001"]


def test_ids_are_of_the_kind_in_the_index():
    good("add", "texts.tessella", "more.npy", "--ids", "two.txt")
    assert ts.Index.load("texts.tessella").ids[-2:].tolist() == ["100", "101"]
    good("remove", "texts.tessella", "5", "100")
    assert len(ts.Index.load("texts.tessella")) == 40
    Path("more.csv").write_text("id,a,b,c,d,e,f\n9000,1,2,3,4,5,6\n")
    good("add", "texts.tessella", "more.csv")
    good("add", "items.tessella", "more.csv")
    assert "9000" in ts.Index.load("texts.tessella")
    assert 9000 in ts.Index.load("items.tessella")


def test_ids_may_come_through_a_pipe():
    assert in_a_shell("remove", INDEX, "--ids", redirected="<(printf '3\\n4\\n') > /dev/null") == (0, "")
    assert len(ts.Index.load(INDEX)) == 38


def test_an_index_can_be_emptied_and_filled_again():
    good("remove", "texts.tessella", *ts.Index.load("texts.tessella").ids)
    assert rows_of(good("search", "texts.tessella", "users.npy")) == []
    good("add", "texts.tessella", "items.npy", "--ids", "names.txt")
    assert ts.Index.load("texts.tessella").ids[1] == "001"


@pytest.mark.parametrize("size", [1, 4, 9, 100])
def test_batches_change_nothing(monkeypatch, size):
    seen = scipy.sparse.csr_array(np.random.default_rng(1).random((9, 40)) < 0.9)
    scipy.sparse.save_npz("seen.npz", seen)
    monkeypatch.setattr(searching, "USERS_PER_BLOCK", size)
    found = rows_of(good("search", "texts.tessella", "users.npy", "--exclude", "seen.npz", "--threads", 1))
    assert found == expected_rows(ts.Index.load("texts.tessella"), 10, exclude=seen)
    assert len(found) < 90
    good("search", "items.tessella", "users.npy", "--exclude", "seen.npz", "-o", "recs.npz")
    with np.load("recs.npz") as arrays:
        for name, values in ts.Index.build(ITEMS).search(USERS, 10, exclude=seen).arrays().items():
            np.testing.assert_array_equal(arrays[name], values)


def test_users_go_by_their_ids():
    names = [f"user {row}" for row in range(9)]
    np.savez("users.npz", users=USERS, ids=names)
    assert rows_of(good("search", "items.tessella", "users.npz", "-k", 2)) == expected_rows(
        ts.Index.build(ITEMS), 2, names=names
    )


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "npz", "parquet"])
def test_output_files(suffix):
    output = f"recs.{suffix}"
    assert (
        good("search", "items.tessella", "users.npy", "-k", 2, "-o", output)
        == f"{output}: the top 2 for 9 users, 9 of them certified\n"
    )
    first = Path(output).read_bytes()
    refused = run("search", "items.tessella", "users.npy", "-o", output)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == f"tessella: {output} already exists; pass --overwrite to replace it.\n"
    assert Path(output).read_bytes() == first
    good("search", "items.tessella", "users.npy", "-k", 5, "-o", output, "--overwrite")
    assert Path(output).read_bytes() != first


def test_no_users_no_answers():
    np.save("none.npy", USERS[:0])
    assert good("search", "items.tessella", "none.npy") == "user\trank\titem\tscore\n"
    assert run("search", "items.tessella", "none.npy", "-k", 0).exit_code == 1


def test_threads_of_build():
    good("build", "items.npy", "-o", "new.tessella", "--threads", 1)


def test_exact_search_is_asked_for():
    assert rows_of(good("search", "items.tessella", "users.npy", "--exact")) == expected_rows(ts.Index.build(ITEMS), 10)


def test_slots_search_is_asked_for():
    index = ts.Index.build(ITEMS)
    asked = rows_of(good("search", "items.tessella", "users.npy", "-k", 2, "--budget", 5, "--max-slots", 2))
    assert asked == expected_rows(index, 2, method=ts.Slots(5, 2))


def test_columns_have_ids_once_items_were_removed():
    seen = scipy.sparse.csr_array(np.random.default_rng(1).random((9, 40)) < 0.5)
    scipy.sparse.save_npz("seen.npz", seen)
    columns = ts.Index.load("items.tessella").ids.copy()
    Path("columns.txt").write_text("".join(f"{item}\n" for item in columns), encoding="utf-8")
    Path("fewer.txt").write_text("".join(f"{item}\n" for item in columns[1:]), encoding="utf-8")
    good("remove", "items.tessella", 3)
    index = ts.Index.load("items.tessella")
    asked = ("--exclude", "seen.npz", "--columns", "columns.txt")
    found = rows_of(good("search", "items.tessella", "users.npy", *asked))
    assert found == expected_rows(index, 10, exclude=(seen, columns))
    good("search-all", "items.tessella", "users.npy", "-o", "recs", *asked)
    assert np.load("recs/ids.npy").tolist() == index.search(USERS, exclude=(seen, columns)).ids.tolist()
    item = int(columns[seen[[0]].indices[-1]])
    said = good("explain", "items.tessella", "users.npy", "--user", 0, "--item", item, *asked)
    assert "filters it out: it is in exclude" in said
    for options, sentence in (
        (
            asked[:2],
            "seen.npz has no column ids, but items were removed from the index, so its columns may have moved",
        ),
        (
            (*asked[:3], "fewer.txt"),
            "seen.npz has shape (9, 40), but must have shape (9, 39): users x ids in fewer.txt",
        ),
        (asked[2:], "--columns needs --exclude, which is not given."),
    ):
        for command in (("search",), ("explain", "--user", 0, "--item", 0)):
            refused = run(command[0], "items.tessella", "users.npy", *command[1:], *options)
            assert refused.exit_code == 1
            assert sentence in refused.stderr


def test_explain():
    index = ts.Index.build(ITEMS)
    asked = good("explain", "items.tessella", "users.npy", "--user", 3, "--item", 5, "-k", 3, "--budget", 20)
    assert asked == f"{index.explain(USERS[3], 5, 3, method=ts.Slots(20))}\n"
    assert good("explain", "items.tessella", "users.npy", "--user", 3, "--item", 5) == f"{index.explain(USERS[3], 5)}\n"
    np.savez("users.npz", users=USERS, ids=[f"u{row}" for row in range(9)])
    assert (
        good("explain", "texts.tessella", "users.npz", "--user", "u3", "--item", 5)
        == f"{ts.Index.load('texts.tessella').explain(USERS[3], '5')}\n"
    )


def test_info():
    size = Path("texts.tessella").stat().st_size
    lines = dict(line.split(maxsplit=1) for line in good("info", "texts.tessella").splitlines())
    assert lines["items"] == "40"
    assert lines["factors"] == "6"
    assert lines["ids"] == "strings"
    assert lines["file"] == f"{size / 2**20:,.1f} MiB"
    assert lines["format"] == str(storage.FORMAT)
    assert lines["tessella"] == ts.__version__
    assert lines["schema"] == "Ternary(max_nonzeros=None), OneHot(), threshold 2.5"
    assert lines["search"].startswith("exact: ")


@pytest.mark.parametrize(("name", "number"), [("format-1-numbers", "1"), ("format-2-auto", "2")])
def test_info_shows_the_format_of_the_file(name, number):
    Path("old.tessella").write_bytes((Path(__file__).parents[1] / "data" / f"{name}.tessella").read_bytes())

    def shown():
        return re.search(r"^format +(.*)$", good("info", "old.tessella"), re.MULTILINE)[1]

    assert shown() == number
    good("remove", "old.tessella", ts.Index.load("old.tessella").ids[0])
    assert shown() == str(storage.FORMAT)


def test_verify():
    assert good("verify", "items.tessella") == f"items.tessella is intact: {ts.Index.build(ITEMS)}\n"
    data = Path("items.tessella").read_bytes()
    length = 8 + int.from_bytes(data[:8], "little")
    Path("items.tessella").write_bytes(data[:length] + b"?" * (len(data) - length) + b"more")
    result = run("verify", "items.tessella")
    assert result.exit_code == 1
    assert result.stderr == "tessella: items.tessella is damaged; build it again or restore a copy.\n"
    arrays = [name for name in json.loads(data[8:length]) if name != "__metadata__"]
    for name in arrays:
        assert f"items.tessella: its array {name} is damaged\n" in result.stdout
    assert result.stdout.endswith("items.tessella: bytes follow its last array\n")
    assert len(result.stdout.splitlines()) == len(arrays) + 1


def test_verify_refuses_arrays_that_do_not_belong_together():
    arrays, facts = snapshot(ts.Index.build(ITEMS)._version)
    storage.write(Path("forged.tessella"), arrays | {"rows": arrays["rows"] + 1}, facts, overwrite=False)
    result = run("verify", "forged.tessella")
    assert result.exit_code == 1
    assert result.stderr.startswith("tessella: forged.tessella cannot be used: its arrays do not belong together")


INDEX, FILE = "items.tessella", "users.npy"
BAD = [
    (("build", "nowhere.npy", "-o", "x"), "nowhere.npy cannot be used: no such file or directory."),
    (("build", "folder.npy", "-o", "x"), "folder.npy is a folder, but only a regular file can be read."),
    (("build", "names.txt", "-o", "x"), "names.txt ends in '.txt', but factors are read from .npy, .npz, .csv or .parquet."),
    (("build", "empty.npy", "-o", "x"), "empty.npy is empty."),
    (("build", "words.npy", "-o", "x"), "words.npy cannot be read: it is damaged, not an .npy file, or holds Python objects."),
    (("build", "nan.npy", "-o", "x"), "nan.npy holds nan in row 6, column 4; factors must be finite."),
    (("build", "items.npy", "-o", INDEX), "items.tessella already exists; pass --overwrite to replace it."),
    (("build", "nowhere.npy", "-o", INDEX), "items.tessella already exists; pass --overwrite to replace it."),
    (("build", "items.npy", "-o", "folder.npy", "--overwrite"), "folder.npy is a folder, but only a regular file can be replaced."),
    (("build", "pipe.npy", "-o", "x"), "pipe.npy is a pipe, but only a regular file can be read."),
    (("build", "device.npy", "-o", "x"), "device.npy is a device, but only a regular file can be read."),
    (("build", "items.npy", "-o", "pipe.npy"), "pipe.npy is a pipe, but only a regular file can be replaced."),
    (("build", "items.npy", "-o", "pipe.npy", "--overwrite"), "pipe.npy is a pipe, but only a regular file can be replaced."),
    (("build", "items.npy", "-o", "loop", "--overwrite"), "loop cannot be written: Too many levels of symbolic links."),
    (("build", "items.npy", "-o", "no/x"), "no/x cannot be written: there is no folder no."),
    (("build", "items.npy", "-o", "x", "--ids", "two.txt"), "ids has 2 entries, but there are 40 items."),
    (("build", "items.npy", "-o", "x", "--ids", "nowhere.txt"), "nowhere.txt cannot be used: no such file or directory."),
    (("build", "items.npy", "-o", "x", "--ids", "items.npy"), "items.npy is not UTF-8 text: "),
    (("recommend", "nowhere", "--users", "1"), "nowhere cannot be used: no such file or directory."),
    (("recommend", "pipe.npy", "--users", "1"), "pipe.npy is a pipe, but only a regular file can be read."),
    (("search", "nowhere", FILE), "nowhere cannot be used: no such file or directory."),
    (("search", "folder.npy", FILE), "folder.npy is a folder, but only a regular file can be read."),
    (("search", "empty.npy", FILE), "empty.npy cannot be used: it is too short for an index."),
    (("search", "words.npy", FILE), "words.npy cannot be used: it is too short for an index."),
    (("search", "users.npy", FILE), "users.npy cannot be used: it is not a tessella index, or is truncated."),
    (("search", "damaged.tessella", FILE), "damaged.tessella cannot be used: its array "),
    (("search", INDEX, "nowhere.npy"), "nowhere.npy cannot be used: no such file or directory."),
    (("search", INDEX, "wide.npy"), "wide.npy has 7 columns, but 6 are expected."),
    (("search", INDEX, "nan.npy"), "nan.npy holds nan in row 6, column 4; factors must be finite."),
    (("search", INDEX, FILE, "-k", 0), "k is 0, but must be from 1 to 1048576."),
    (("search", INDEX, FILE, "-k", 0, "-o", "x.csv"), "k is 0, but must be from 1 to 1048576."),
    (("search", INDEX, FILE, "--threads", 0), "threads is 0, but at least 1 is needed; None uses every CPU."),
    (("search", INDEX, FILE, "--exclude", "nowhere.npz"), "nowhere.npz cannot be used: no such file or directory."),
    (("search", INDEX, FILE, "--exclude", "users.npy"), "users.npy cannot be read: it is damaged, or not a sparse matrix from scipy.sparse.save_npz."),
    (("search", "nowhere", FILE, "-o", "x.xlsx"), "x.xlsx ends in '.xlsx', but answers are written to .parquet, .csv, .jsonl or .npz."),
    (("search", "nowhere", FILE, "-o", "no/x.csv"), "no/x.csv cannot be written: there is no folder no."),
    (("search", "pipe.npy", FILE), "pipe.npy is a pipe, but only a regular file can be read."),
    (("search", "device.npy", FILE), "device.npy is a device, but only a regular file can be read."),
    (("search", INDEX, "pipe.npy"), "pipe.npy is a pipe, but only a regular file can be read."),
    (("search", INDEX, FILE, "--exclude", "pipe.npy"), "pipe.npy is a pipe, but only a regular file can be read."),
    (("search-all", "nowhere", FILE, "--out", "pipe.npy", "--overwrite"), "pipe.npy is a pipe, but only a folder can be replaced."),
    (("search-all", INDEX, "pipe.npy", "--out", "recs"), "pipe.npy is a pipe, but only a regular file can be read."),
    (("search-all", INDEX, "device.npy", "--out", "recs"), "device.npy is a device, but only a regular file can be read."),
    (("search-all", "nowhere", FILE, "--out", "recs"), "nowhere cannot be used: no such file or directory."),
    (("search-all", "nowhere", FILE, "--out", "folder.npy"), "folder.npy already exists; pass --overwrite to replace it."),
    (("search-all", "nowhere", FILE, "--out", FILE, "--overwrite"), "users.npy is a file, but only a folder can be replaced."),
    (("search-all", "nowhere", FILE, "--out", "no/recs"), "no/recs cannot be written: there is no folder no."),
    (("search-all", INDEX, "nowhere.npy", "--out", "recs"), "nowhere.npy cannot be used: no such file or directory."),
    (("search-all", INDEX, "folder.npy", "--out", "recs"), "folder.npy is a folder, but only a regular file can be read."),
    (("search-all", INDEX, "empty.npy", "--out", "recs"), "empty.npy is empty."),
    (("search-all", INDEX, "words.npy", "--out", "recs"), "words.npy cannot be read: it is damaged, not an .npy file, or holds Python objects."),
    (("search-all", INDEX, "names.txt", "--out", "recs"), "names.txt ends in '.txt', but factors are read from "),
    (("search-all", INDEX, "wide.npy", "--out", "recs"), "wide.npy has 7 columns, but 6 are expected."),
    (("search-all", INDEX, "nan.npy", "--out", "recs"), "nan.npy holds nan in row 6, column 4; factors must be finite."),
    (("search-all", INDEX, FILE, "--out", "recs", "-k", 0), "k is 0, but must be from 1 to 1048576."),
    (("search-all", INDEX, FILE, "--out", "recs", "--threads", 0), "threads is 0, but at least 1 is needed; None uses every CPU."),
    (("search-all", INDEX, FILE, "--out", "recs", "--exclude", "users.npy"), "users.npy cannot be read: it is damaged, or not a sparse matrix from scipy.sparse.save_npz."),
    (("add", "nowhere", "more.npy", "--ids", "two.txt"), "nowhere cannot be used: no such file or directory."),
    (("add", INDEX, "more.npy"), "more.npy holds no ids; pass them with --ids."),
    (("add", INDEX, "wide.npy", "--ids", "two.txt"), "wide.npy has 7 columns, but 6 are expected."),
    (("add", INDEX, "items.npy", "--ids", "two.txt"), "ids has 2 entries, but there are 40 items."),
    (("add", INDEX, "items.npy", "--ids", "names.txt"), "ids are strings, but those in the index are integers."),
    (("update", INDEX, "more.npy", "--ids", "two.txt"), "there is no item with id 100 in the index."),
    (("update", INDEX, "more.npy"), "more.npy holds no ids; pass them with --ids."),
    (("remove", INDEX, "77"), "there is no item with id 77 in the index."),
    (("remove", INDEX, "3", "3"), "ids holds 3 more than once."),
    (("remove", INDEX, "three"), "there is no item with id 'three' in the index."),
    (("remove", "damaged.tessella", "3"), "damaged.tessella cannot be used: its array "),
    (("remove", INDEX, "--ids", "nowhere.txt"), "nowhere.txt cannot be used: no such file or directory."),
    (("add", "pipe.npy", "more.npy", "--ids", "two.txt"), "pipe.npy is a pipe, but only a regular file can be read."),
    (("info", "pipe.npy"), "pipe.npy is a pipe, but only a regular file can be read."),
    (("reproduce", "synthetic", "--out", "pipe.npy", "--overwrite"), "pipe.npy is a pipe, but only a folder can be replaced."),
    (("verify", "pipe.npy"), "pipe.npy is a pipe, but only a regular file can be read."),
    (("info", "nowhere"), "nowhere cannot be used: no such file or directory."),
    (("info", "damaged.tessella"), "damaged.tessella cannot be used: its array "),
    (("explain", "nowhere", FILE, "--user", "0", "--item", "0"), "nowhere cannot be used: no such file or directory."),
    (("explain", INDEX, FILE, "--user", "9", "--item", "0"), "users.npy has no row 9; its rows are 0 to 8."),
    (("explain", INDEX, FILE, "--user", "-1", "--item", "0"), "users.npy has no row -1; its rows are 0 to 8."),
    (("explain", INDEX, "wide.npy", "--user", "0", "--item", "0"), "wide.npy has 7 columns, but 6 are expected."),
    (("reproduce", "movielens", "--data", "folder.npy"), "folder.npy does not contain ml-100k/u.data; unpack https://files.grouplens.org/datasets/movielens/ml-100k.zip there."),
    (("reproduce", "synthetic", "--out", "folder.npy"), "folder.npy already exists; pass --overwrite to replace it."),
    (("reproduce", "synthetic", "--out", FILE, "--overwrite"), "users.npy is a file, but only a folder can be replaced."),
    (("reproduce", "synthetic", "--out", "no/report"), "no/report cannot be written: there is no folder no."),
    (("verify", "nowhere"), "nowhere cannot be used: no such file or directory."),
    (("verify", "folder.npy"), "folder.npy is a folder, but only a regular file can be read."),
    (("verify", "damaged.tessella"), "damaged.tessella is damaged; build it again or restore a copy."),
]  # fmt: skip


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("arguments", "sentence"), BAD, ids=[" ".join(map(str, arguments)) for arguments, _ in BAD])
def test_bad_input_gets_one_sentence_and_changes_nothing(folder, arguments, sentence):
    before = contents(folder)
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"tessella: {sentence}")
    assert result.stderr.count("\n") == 1
    assert result.stdout == "" or arguments[0] == "verify"
    assert contents(folder) == before


def test_every_command_has_a_bad_input():
    assert {arguments[0] for arguments, _ in BAD} == set(COMMANDS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write anything")
def test_files_that_may_not_be_used(folder):
    Path("users.npy").chmod(0)
    result = run("search", INDEX, "users.npy")
    assert (result.exit_code, result.stderr) == (1, "tessella: users.npy cannot be used: permission denied.\n")
    folder.chmod(0o500)
    result = run("build", "items.npy", "-o", "x")
    assert (result.exit_code, result.stderr) == (1, "tessella: x cannot be written: the folder . is read-only.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("serch",),
        ("search",),
        ("search", INDEX, FILE, "-k", "many"),
        ("build", "items.npy"),
        ("remove", INDEX),
        ("info", INDEX, "--fast"),
    ],
)
def test_wrong_usage(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage: tessella" in result.stderr


def test_help_teaches():
    text = good("--help")
    for command in COMMANDS:
        assert f"  {command} " in text
    steps = [text.index(f"tessella {command} ") for command in ("build", "search", "add")]
    assert steps == sorted(steps)
    assert "--install-completion" in text
    for command in COMMANDS:
        page = good(command, "--help")
        assert f"Examples:\n    tessella {command} " in page
        assert good(command, "-h") == page
        assert max(map(len, page.splitlines())) <= 80
    assert "integers if every line is one" in " ".join(good("build", "--help").split())


@pytest.mark.parametrize(
    ("typed", "offered"), [("se", {"search", "search-all", "serve"}), ("search --ex", {"--exact", "--exclude"})]
)
def test_a_shell_completes_commands_and_options(typed, offered):
    words = {
        "COMP_WORDS": f"tessella {typed}",
        "COMP_CWORD": str(len(typed.split())),
        "_TESSELLA_COMPLETE": "complete_bash",
    }
    ran = subprocess.run(  # noqa: S603
        [Path(sys.executable).with_name("tessella")], env=os.environ | words, capture_output=True, text=True, check=True
    )
    assert set(ran.stdout.split()) == offered


def test_examples_in_help_are_right_usage():
    """Every example parses: it fails for want of its files, if at all, not for its options."""
    Path("seen.npz").touch()
    for command in COMMANDS[:-1]:  # reproduce would start to measure
        for line in good(command, "--help").split("Examples:\n")[1].splitlines():
            arguments = shlex.split(re.split(r" [|&]", line.strip())[0])[1:]
            assert run(*arguments).exit_code in (0, 1), line


def test_version():
    assert good("--version") == f"tessella {ts.__version__}\n"


def test_help_is_not_slowed_by_what_it_does_not_need():
    code = "import sys, tessella.commands.app; print([name for name in ('pyarrow', 'matplotlib', 'sklearn') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout == "[]\n"


def test_the_real_command_ends_with_its_exit_code():
    for arguments, code in ((("info", INDEX), 0), (("info", "nowhere"), 1), (("inf",), 2)):
        process = start(*arguments, stdout=subprocess.PIPE)
        _, said = process.communicate()
        assert process.returncode == code
        assert "Traceback" not in said
    command = [Path(sys.executable).with_name("tessella"), "--version"]
    script = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert script.stdout == f"tessella {ts.__version__}\n"


def test_a_closed_pipe_ends_it_quietly():
    np.save("users.npy", np.ones((9000, 6)))
    process = start("search", INDEX, "users.npy", stdout=subprocess.PIPE)
    assert process.stdout.readline() == "user\trank\titem\tscore\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == cli.PIPE_CLOSED
    process.stderr.close()


FULL = pytest.param("> /dev/full", "no space left on device", id="full")
CLOSED = pytest.param(">&-", "standard output is closed", id="closed")


def in_a_shell(*arguments, redirected):
    """The real command, with streams as a shell redirects them; its exit code and what it says on stderr."""
    command = f"{sys.executable} -m tessella {' '.join(map(str, arguments))} {redirected}"
    ran = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603, S607
    return ran.returncode, ran.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(("redirected", "reason"), [FULL, CLOSED])
@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("build", "--help"), ("--version",), ("info", INDEX), ("verify", INDEX), ("search", INDEX, FILE)],
    ids=" ".join,
)
def test_output_that_cannot_be_printed(arguments, redirected, reason):
    sentence = f"tessella: the output could not be printed: {reason}.\n"
    assert in_a_shell(*arguments, redirected=redirected) == (1, sentence)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(("redirected", "reason"), [FULL, CLOSED])
@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (("build", "items.npy", "-o", "y"), "y"),
        (("search", INDEX, FILE, "-o", "y.csv"), "y.csv"),
        (("search-all", INDEX, FILE, "-o", "y"), "y"),
        (("add", INDEX, "more.npy", "--ids", "two.txt"), INDEX),
        (("remove", INDEX, "3"), INDEX),
    ],
    ids=["build", "search", "search-all", "add", "remove"],
)
def test_a_report_that_cannot_be_printed_does_not_undo_what_was_written(arguments, written, redirected, reason):
    sentence = f"tessella: {written} was written, but the report could not be printed: {reason}.\n"
    assert in_a_shell(*arguments, redirected=redirected) == (0, sentence)
    assert Path(written).exists()
    assert len(ts.Index.load(INDEX)) == {"add": 42, "remove": 39}.get(arguments[0], 40)


def test_every_command_that_writes_says_where():
    writes = {
        command.name: {option.name for option in command.params}
        for command in typer.main.get_command(cli.app).commands.values()
    }
    assert {name for name, options in writes.items() if options & {"output", "out"}} < set(cli.WRITTEN)
    assert all(option in writes[name] for name, option in cli.WRITTEN.items())


def test_a_report_into_a_closed_pipe_is_no_failure():
    assert in_a_shell("build", "items.npy", "-o", "y", redirected="| true; exit ${PIPESTATUS[0]}") == (0, "")
    assert len(ts.Index.load("y")) == 40
    assert in_a_shell("--help", redirected="| true; exit ${PIPESTATUS[0]}") == (cli.PIPE_CLOSED, "")


@pytest.mark.parametrize("redirected", ["2>&-", "2>&- >&-", "<&- >&- 2>&-", "2> /dev/full"])
def test_streams_that_are_closed_keep_out_of_files(redirected):
    """A file that took the number of a closed stream would get what is printed."""
    good("build", "items.npy", "-o", "expected")
    for arguments in (("build", "items.npy", "-o", "y"), ("search-all", INDEX, FILE, "-o", "recs")):
        assert in_a_shell(*arguments, redirected=redirected) == (0, "")
    assert Path("y").read_bytes() == Path("expected").read_bytes()
    np.testing.assert_array_equal(answers_in("recs").ids, ts.Index.build(ITEMS).search(USERS).ids)
    assert in_a_shell("info", "nowhere", redirected=redirected) == (1, "")


@pytest.mark.parametrize("output", ["recs.csv", "recs.npz", "recs.parquet"])
def test_a_full_disk_leaves_what_was_there(folder, output):
    Path(output).write_text("mine")
    before = contents(folder)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

    process = start("search", INDEX, FILE, "-k", 40, "-o", output, "--overwrite", preexec_fn=limit)
    _, said = process.communicate()
    assert process.returncode == 1
    assert said == f"tessella: {output} could not be written: File too large. The existing file is unchanged.\n"
    assert contents(folder) == before


def listen_to_interrupts():
    """A shell's background jobs, and all they start, do not, unless told to."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def long_search(output):
    """A search that takes minutes, under way."""
    np.save("users.npy", np.ones((200_000, 6)))
    environment = os.environ | {"TESSELLA_SIMD": "numpy"}
    process = start(
        "search", INDEX, "users.npy", "-o", output,
        env=environment, stdout=subprocess.DEVNULL, preexec_fn=listen_to_interrupts,
    )  # fmt: skip
    while process.poll() is None and not list(Path().glob(f".{output}.*")):
        time.sleep(0.01)
    time.sleep(0.2)
    assert process.poll() is None
    return process


@pytest.mark.parametrize(
    ("sent", "code", "sentence"), [(signal.SIGINT, 130, "tessella: interrupted.\n"), (signal.SIGTERM, 143, "")]
)
def test_an_interrupted_search_leaves_nothing(folder, sent, code, sentence):
    process = long_search("recs.csv")
    before = {path for path in folder.iterdir() if not path.name.startswith(".recs")}
    process.send_signal(sent)
    assert process.communicate()[1] == sentence
    assert process.returncode == code
    assert set(folder.iterdir()) == before


def test_a_killed_search_leaves_no_half_written_output():
    process = long_search("recs.jsonl")
    process.kill()
    process.communicate()
    assert not Path("recs.jsonl").exists()


def answers_in(folder):
    return ts.SearchResult(*(np.load(Path(folder) / f"{name}.npy") for name in ts.SearchResult.FIELDS))


@pytest.mark.parametrize("source", ["users.npy", "users.npz"])
def test_all_users_are_answered_into_a_folder(source):
    np.savez("users.npz", factors=USERS, ids=np.arange(9) + 7)
    seen = scipy.sparse.csr_array(np.random.default_rng(1).random((9, 40)) < 0.5)
    scipy.sparse.save_npz("seen.npz", seen)
    said = good("search-all", INDEX, source, "--out", "recs", "--k", 3, "--exclude", "seen.npz")
    assert re.fullmatch(r"recs: the top 3 for 9 users, all certified, [\d,]+ users per second\n", said)
    expected = ts.Index.build(ITEMS).search(USERS, 3, exclude=seen)
    for name, true in expected.arrays().items():
        np.testing.assert_array_equal(answers_in("recs").arrays()[name], true)
    good("search-all", INDEX, source, "--out", "recs", "-k", 4, "--overwrite")
    np.testing.assert_array_equal(answers_in("recs").ids, ts.Index.build(ITEMS).search(USERS, 4).ids)


def test_speed_is_never_told_without_recall():
    items, users = np.random.default_rng(0).standard_normal((2, 4000, 16))
    ts.Index.build(items).save("large.tessella")
    np.save("users.npy", users[:300])
    seen = scipy.sparse.csr_array(np.random.default_rng(1).random((300, 4000)) < 0.5)
    scipy.sparse.save_npz("seen.npz", seen)
    said = good("search-all", "large.tessella", "users.npy", "-o", "recs", "--budget", 60, "--exclude", "seen.npz")
    pattern = r"recs: the top 10 for 300 users, (\d+|none) certified, recall ([\d.]+) measured with 200 users, [\d,]+ users per second\n"
    certified, recall = re.fullmatch(pattern, said).groups()
    found, true = answers_in("recs"), ts.Index.build(items).search(users[:300], exclude=seen)
    hits = np.array([np.isin(mine, theirs).mean() for mine, theirs in zip(found.ids, true.ids, strict=True)])
    assert int(certified.replace("none", "0")) == found.certified.sum() < 300
    assert abs(float(recall) - hits.mean()) < 0.05
    assert 0.1 < hits.mean() < 0.999


def test_all_of_no_users():
    np.save("users.npy", USERS[:0])
    assert good("search-all", INDEX, "users.npy", "-o", "recs") == "recs: the top 10 for 0 users, all certified\n"
    assert answers_in("recs").ids.shape == (0, 10)


STEPPED = """
import signal, sys
from tessella.commands.app import main
from tessella.jobs import all_users
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs may be deaf to it
all_users.USERS_PER_BLOCK = 2
search = all_users.search
def stepped(*arguments):
    print("block", flush=True)
    sys.stdin.readline()
    return search(*arguments)
all_users.search = stepped
main()
"""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_job_for_all_users_resumes(sent, code):
    """The signal is sent while the job waits for leave to search a block, so it finds the same users done every time."""
    command = "search-all", INDEX, FILE, "--out", "recs"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", STEPPED, *command], text=True, **pipes)  # noqa: S603
    for _ in range(3):  # a search for nobody, then two blocks
        assert process.stdout.readline() == "block\n"
        process.stdin.write("\n")
        process.stdin.flush()
    assert process.stdout.readline() == "block\n"
    process.send_signal(sent)
    _, said = process.communicate()
    assert process.returncode == code
    assert said == "tessella: interrupted. 4 of 9 users are done and kept; repeat the command to resume.\n"
    assert not Path("recs").exists()
    refused = run(*command, "-k", 3)
    assert (refused.exit_code, refused.stderr) == (
        1,
        "tessella: recs.partial was started with another k (10, not 3); pass the same to resume, or --overwrite to start over.\n",
    )
    said = good(*command)
    assert re.fullmatch(
        r"recs: the top 10 for 9 users \(4 from an earlier run\), all certified, [\d,]+ users per second\n", said
    )
    assert not Path("recs.partial").exists()
    np.testing.assert_array_equal(answers_in("recs").ids, ts.Index.build(ITEMS).search(USERS).ids)


def on_a_terminal(*arguments, **streams):
    """What the command shows on a terminal, which is all of its streams but those given."""
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "tessella", *map(str, arguments)]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
    process = subprocess.Popen(command, env=environment, **{"stdout": terminal, "stderr": terminal, **streams})  # noqa: S603
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(screen, 10_000):
            shown += part
    except OSError:  # how Linux says that the terminal was closed
        pass
    os.close(screen)
    assert process.wait() == 0
    return shown.decode()


def test_a_terminal_gets_a_table_of_the_first_users():
    ts.Index.build(ITEMS, [f"[red]{row}:smile:" for row in range(40)]).save("odd.tessella")
    shown = on_a_terminal("search", "odd.tessella", FILE, "-k", 20)
    assert "The first 2 of 9 users; use -o to write the answers for all." in shown
    for user, rank, item, score in expected_rows(ts.Index.load("odd.tessella"), 20, USERS[:2]):
        assert re.search(rf"^ *{user} +{rank} +{re.escape(item)} +{re.escape(score)} *\r?$", shown, re.MULTILINE)
    assert len(shown.splitlines()) < 60


def test_a_terminal_gets_a_bar_and_a_pipe_none():
    np.save("users.npy", np.ones((20_000, 6)))
    shown = on_a_terminal("search", INDEX, "users.npy", "-o", "recs.npz", stdout=subprocess.DEVNULL)
    assert "Searching" in shown
    assert "20000" in shown
    shown = on_a_terminal("search-all", INDEX, "users.npy", "-o", "recs", stdout=subprocess.DEVNULL)
    assert "Searching" in shown
    assert "20000" in shown
