"""The commands that know users: build with all of it, recommend, and user ids in what is written."""

import csv
import json
import re
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from test_commands import good, on_a_terminal, run

import tessella as ts
from tessella.commands import everybody, known, recommend, tables
from tessella.recommend.storage import packed

RNG = np.random.default_rng(11)
ITEMS = RNG.standard_normal((30, 5)).astype(np.float32)
USERS = RNG.standard_normal((8, 5)).astype(np.float32)
USER_IDS = [f"user {row}" for row in range(8)]
ITEM_IDS = [100 + row for row in range(30)]
SEEN = scipy.sparse.csr_array(RNG.random((8, 30)) < 0.2)
TITLES = [f"Film, {row}" if row % 4 else None for row in range(30)]
GENRES = [["comedy", "drama"] if row % 3 == 0 else ["crime"] if row % 3 == 1 else None for row in range(30)]
YEARS = [1980 + row for row in range(30)]
ATTRIBUTES = {"title": TITLES, "genre": GENRES, "year": YEARS}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Files of everything, to work with."""
    monkeypatch.chdir(tmp_path)
    np.savez("items.npz", factors=ITEMS, ids=ITEM_IDS)
    np.save("users.npy", USERS)
    Path("user-ids.txt").write_text("".join(f"{name}\n" for name in USER_IDS))
    pq.write_table(pa.table({"id": USER_IDS, "v": USERS.tolist()}), "users.parquet")
    rows, columns = SEEN.nonzero()
    pairs = [(USER_IDS[row], ITEM_IDS[column]) for row, column in zip(rows, columns, strict=True)]
    pq.write_table(pa.table({"item": [pair[1] for pair in pairs], "user": [pair[0] for pair in pairs]}), "seen.parquet")
    write_csv("seen.csv", ["User", "Item"], pairs)
    scipy.sparse.save_npz("seen.npz", SEEN)
    order = RNG.permutation(30)
    shuffled = {name: [values[row] for row in order] for name, values in ATTRIBUTES.items()}
    pq.write_table(pa.table({"id": [ITEM_IDS[row] for row in order], **shuffled}), "movies.parquet")
    write_csv("movies.csv", ["id", "title", "genre", "year"], [
        (ITEM_IDS[row], TITLES[row], "|".join(GENRES[row] or []), YEARS[row]) for row in order
    ])  # fmt: skip
    model().save("model.tessella")
    return tmp_path


def write_csv(path, head, rows):
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])


def model(**options):
    given = {"item_ids": ITEM_IDS, "user_ids": USER_IDS, "seen": SEEN, "attributes": ATTRIBUTES} | options
    return ts.Recommender.build(ITEMS, USERS, **given)


def rows_of(text):
    lines = list(csv.reader(text.splitlines(), delimiter="\t"))
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def expected_rows(found):
    columns = found.columns()
    if found.users is None:
        del columns["user"]
    shown = {name: [("" if value is None else str(value)) for value in values] for name, values in columns.items()}
    return [dict(zip(shown, row, strict=True)) for row in zip(*shown.values(), strict=True)]


@pytest.mark.parametrize(
    "users", [("--users", "users.parquet"), ("--users", "users.npy", "--user-ids", "user-ids.txt")]
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_one_file_of_it_all(users, suffix):
    said = good(
        "build",
        "items.npz",
        "-o",
        "new.tessella",
        *users,
        "--seen",
        f"seen.{suffix}",
        "--attributes",
        f"movies.{suffix}",
    )
    built = ts.Recommender.load("new.tessella")
    assert said == f"new.tessella: {built}\n"
    expected = model()
    assert built.user_ids.tolist() == USER_IDS
    assert built._edition.attributes.kinds == expected._edition.attributes.kinds
    assert [built._edition.attributes.row(row) for row in range(30)] == [
        expected._edition.attributes.row(row) for row in range(30)
    ]
    for where in (None, {"genre": "comedy"}, {"year": {"from": 1990}, "not": {"genre": "crime"}}):
        found, wanted = built.recommend(USER_IDS, 5, where=where), expected.recommend(USER_IDS, 5, where=where)
        assert found.ids.tolist() == wanted.ids.tolist()
        assert found.titles.tolist() == wanted.titles.tolist()


def test_a_matrix_of_seen_items_goes_by_rows():
    good("build", "items.npz", "-o", "new.tessella", "--users", "users.npy", "--seen", "seen.npz")
    wanted = model(user_ids=None).recommend(range(8), 5)
    assert ts.Recommender.load("new.tessella").recommend(range(8), 5).ids.tolist() == wanted.ids.tolist()


def test_parts_may_be_left_out():
    good("build", "items.npz", "-o", "a.tessella", "--attributes", "movies.csv")
    alone = ts.Recommender.load("a.tessella")
    assert len(alone.user_ids) == 0
    assert rows_of(good("recommend", "a.tessella", "--liked", "100,105", "-k", 3)) == expected_rows(
        alone.recommend(liked=[100, 105], k=3)
    )
    good("build", "items.npz", "-o", "b.tessella", "--seen", "seen.csv")  # users are those of whom something is known
    known_users = ts.Recommender.load("b.tessella")
    assert set(known_users.user_ids.tolist()) == {USER_IDS[row] for row in set(SEEN.nonzero()[0].tolist())}
    seen = {ITEM_IDS[column] for column in SEEN[[0]].nonzero()[1]}
    found = rows_of(good("recommend", "b.tessella", "--users", "user 0", "--liked", "100", "-k", 30))
    assert {int(row["item"]) for row in found} == set(ITEM_IDS) - seen - {100}
    good("build", "items.npz", "-o", "c.tessella", "--seen", "seen.npz")
    assert ts.Recommender.load("c.tessella").user_ids.tolist() == list(range(8))


def test_weights_of_seen_items_count():
    write_csv(
        "seen.csv", ["user", "item", "weight"], [("user 1", 101, "2.5"), ("user 1", 103, "-1"), ("user 2", 101, 1)]
    )
    pq.write_table(
        pa.table({"user": ["user 1", "user 1", "user 2"], "item": [101, 103, 101], "weight": [2.5, -1, 1]}), "w.parquet"
    )
    for path in ("seen.csv", "w.parquet"):
        good("build", "items.npz", "-o", "new.tessella", "--users", "users.parquet", "--seen", path, "--overwrite")
        ids, weights = ts.Recommender.load("new.tessella")._edition.users.seen.of_user(1)
        assert dict(zip(ids.tolist(), weights.tolist(), strict=True)) == {101: 2.5, 103: -1}


def test_rows_of_others_are_passed_over_and_counted():
    with Path("seen.csv").open("a") as file:
        file.write("nobody,100\nuser 1,999\n")
    with Path("movies.csv").open("a") as file:
        file.write("999,Gone,,2000\n")
    n = SEEN.nnz + 2
    said = good(
        "build",
        "items.npz",
        "-o",
        "new.tessella",
        "--users",
        "users.parquet",
        "--seen",
        "seen.csv",
        "--attributes",
        "movies.csv",
    )
    assert f"seen.csv: ignored 2 of {n} rows, which name unknown users or items\n" in said
    assert "movies.csv: ignored 1 of 31 rows, which name unknown items\n" in said
    wanted = model().recommend(USER_IDS, 5)
    assert ts.Recommender.load("new.tessella").recommend(USER_IDS, 5).ids.tolist() == wanted.ids.tolist()


def test_items_without_a_row_have_missing_values():
    write_csv("some.csv", ["year", "ID"], [(1999, 105)])
    good("build", "items.npz", "-o", "new.tessella", "--attributes", "some.csv")
    attributes = ts.Recommender.load("new.tessella")._edition.attributes
    assert attributes.names == ("year",)
    assert [attributes.row(row)["year"] for row in (4, 5)] == [None, 1999]


def test_signals_can_be_boosted():
    write_csv("signals.csv", ["id", "fresh"], [(item, item / 7) for item in ITEM_IDS])
    good("build", "items.npz", "-o", "new.tessella", "--users", "users.parquet", "--signals", "signals.csv")
    boosted = ts.Recommender.load("new.tessella")
    asked = ("recommend", "new.tessella", "--users", "user 1", "-k", 4)
    assert rows_of(good(*asked, "--boost", "fresh=3")) == expected_rows(
        boosted.recommend(["user 1"], 4, boosts={"fresh": 3})
    )
    assert rows_of(good(*asked, "--boost", "fresh=3")) != rows_of(good(*asked))
    refused = run("search", "new.tessella", "users.npy")
    assert refused.stderr == (
        "tessella: new.tessella has signals, which a plain search would mistake for factors; use tessella recommend instead.\n"
    )


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (["1", "", "-3"], [1, None, -3]),
        (["1", "2.5", ""], [1.0, 2.5, None]),
        (["1", "007"], ["1", "007"]),
        (["1", "1e3"], [1.0, 1000.0]),
        (["True", "false", ""], [True, False, None]),
        (["a|b", "c", ""], [["a", "b"], ["c"], None]),
        (["yes", "", "no"], ["yes", None, "no"]),
        (["2020-13-01"], ["2020-13-01"]),
        (["", ""], [None, None]),
    ],
)
def test_columns_of_text_files_have_types(texts, read):
    assert known._typed(texts, "column") == read
    assert known._typed(texts, "title") == [text or None for text in texts]


def test_dates_of_text_files():
    assert [str(value) for value in known._typed(["2020-01-31", "", "1999-12-01"], "out")] == [
        "2020-01-31", "None", "1999-12-01",
    ]  # fmt: skip
    assert str(known._typed(["2020-01-31", "2020-01-31T12:30"], "out")[1]) == "2020-01-31 12:30:00"


WISHES = {
    "plain": ((), {}),
    "exact": (("--exact", "--threads", 1), {"exact": True}),
    "where": (("--where", '{"genre": "comedy", "year": {"from": 1985}}'), {"where": {"genre": "comedy", "year": {"from": 1985}}}),
    "with seen": (("--with-seen",), {"exclude_seen": False}),
    "allow": (("--allow", "allow.txt"), {"allow": [103, 104, 110]}),
    "liked": (("--liked", "101, 107"), {"liked": [[101, 107]] * 2}),
}  # fmt: skip


@pytest.mark.parametrize("case", WISHES)
def test_recommend_to_users(case):
    Path("allow.txt").write_text("103\n104\n110\n999\n")
    arguments, options = WISHES[case]
    found = rows_of(good("recommend", "model.tessella", "--users", "user 1,user 6", "-k", 4, *arguments))
    assert found == expected_rows(model().recommend(["user 1", "user 6"], 4, **options))
    assert tuple(found[0]) == ("user", "rank", "item", "score", "title")
    assert case != "allow" or len(found) < 8  # lists are short where there are fewer items


def test_users_are_named_in_several_ways(monkeypatch):
    monkeypatch.setattr(recommend, "USERS_PER_BLOCK", 3)
    one_by_one = good("recommend", "model.tessella", *(word for name in USER_IDS for word in ("--users", name)))
    assert good("recommend", "model.tessella", "--users", ",".join(USER_IDS)) == one_by_one
    assert good("recommend", "model.tessella", "--ids", "user-ids.txt") == one_by_one
    model(user_ids=None).save("numbered.tessella")
    assert {row["user"] for row in rows_of(good("recommend", "numbered.tessella", "--users", "3,7"))} == {"3", "7"}


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("--liked", "101,107"), {"liked": [101, 107]}),
        (("--like", "101"), {"like": [101]}),
        (("--dislike", "101"), {"dislike": [101]}),
        (("--like", "101,102", "--dislike", "110"), {"like": [101, 102], "dislike": [110]}),
    ],
)
def test_recommend_by_likes(arguments, options):
    found = rows_of(good("recommend", "model.tessella", "-k", 3, *arguments))
    assert found == expected_rows(model().recommend(k=3, **options))
    assert "user" not in found[0]


def test_pages():
    users = ["user 1", "user 2"]
    first = model().recommend(users, 3)
    asked = ("recommend", "model.tessella", "--users", ",".join(users), "-k", 3)
    assert rows_of(good(*asked, "--after", first.next)) == expected_rows(model().recommend(users, 3, after=first.next))
    shown = on_a_terminal(*asked)
    cursor = re.search(r"For the next page, pass --after (\S+)", shown)[1]
    assert cursor == first.next


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "npz"])
def test_recommendations_in_files(suffix):
    output = f"recs.{suffix}"
    said = good("recommend", "model.tessella", "--users", "user 1,user 2", "-k", 30, "-o", output)
    assert said == f"{output}: the top 30 for 2 users, 2 certified\n"
    found = model().recommend(["user 1", "user 2"], 30)
    wanted = [tuple(row) for row in zip(*(values.tolist() for values in found.columns().values()), strict=True)]
    assert len(wanted) < 60
    names = tuple(found.columns())
    if suffix == "npz":
        with np.load(output) as arrays:
            np.testing.assert_array_equal(arrays["ids"], found.ids)
            assert arrays["users"].tolist() == ["user 1", "user 2"]
        return
    if suffix == "parquet":
        table = pq.read_table(output)
        assert table.schema.types == [pa.string(), pa.int32(), pa.int64(), pa.float32(), pa.string()]
        rows = table.to_pylist()
    elif suffix == "jsonl":
        rows = [json.loads(line) for line in Path(output).read_text().splitlines()]
    else:
        with Path(output).open(newline="", encoding="utf-8") as file:
            lines = csv.DictReader(file)
            rows = [
                line | {"rank": int(line["rank"]), "item": int(line["item"]), "title": line["title"] or None}
                for line in lines
            ]
    assert all(tuple(row) == names for row in rows)
    assert [(*list(row.values())[:3], np.float32(row["score"]), row["title"]) for row in rows] == [
        (*row[:3], np.float32(row[3]), row[4]) for row in wanted
    ]


def test_a_table_with_titles_on_a_terminal():
    shown = on_a_terminal("recommend", "model.tessella", "--users", "user 1,user 2", "-k", 3)
    for row in expected_rows(model().recommend(["user 1", "user 2"], 3)):
        cells = " +".join(re.escape(value) for value in row.values() if value)
        assert re.search(rf"^ *{cells} *\r?$", shown, re.MULTILINE), row
    assert "-o writes" not in shown
    shown = on_a_terminal("recommend", "model.tessella", "--ids", "user-ids.txt", "-k", 20)
    assert "The first 2 of 8 users; use -o to write the answers for all." in shown
    assert "--after" not in shown


@pytest.mark.parametrize("where", [None, {"genre": "comedy"}])
def test_everybody_in_one_file_or_a_folder(where):
    asked = () if where is None else ("--where", json.dumps(where))
    said = good("recommend", "model.tessella", "--all-users", "-k", 9, "-o", "recs.parquet", *asked)
    assert re.fullmatch(r"recs\.parquet: the top 9 for 8 users, all certified, [\d,]+ users per second\n", said)
    found = model().recommend(USER_IDS, 9, where=where)
    wanted = {name: values.tolist() for name, values in found.columns().items()}
    assert pq.read_table("recs.parquet").to_pydict() == wanted
    good("recommend", "model.tessella", "--all-users", "-k", 9, "-o", "recs", *asked)
    assert json.loads(Path("recs/users.json").read_text()) == USER_IDS
    np.testing.assert_array_equal(np.load("recs/ids.npy"), found.ids)
    assert {path.name for path in Path().glob("*recs*")} == {"recs", "recs.parquet"}
    refused = run("recommend", "model.tessella", "--all-users", "-o", "recs.parquet")
    assert refused.stderr == "tessella: recs.parquet already exists; pass --overwrite to replace it.\n"


@pytest.mark.parametrize("index", ["model.tessella", "texts.tessella"])
@pytest.mark.parametrize("users", [("users.parquet",), ("users.npy", "--ids", "user-ids.txt"), ("users.csv",)])
def test_searches_keep_user_ids(index, users):
    names = [f"{row}{'é' * (row % 7)}" for row in range(30)]
    ts.Index.build(ITEMS, names).save("texts.tessella")
    write_csv("users.csv", ["id", *"abcde"], [(name, *row) for name, row in zip(USER_IDS, USERS.tolist(), strict=True)])
    loaded = model().index if index == "model.tessella" else ts.Index.load(index)
    Path("allow.txt").write_text("".join(f"{item}\n" for item in loaded.ids[:12]))
    found = loaded.search(USERS, 15, allow=loaded.ids[:12])
    there = found.scores > -np.inf
    assert there.sum() == 8 * 12
    wanted = {"user": np.repeat(USER_IDS, 12).tolist(), "item": found.ids[there].tolist()}
    asked = (index, *users, "-k", 15, "--allow", "allow.txt")
    for command in ("search", "search-all"):
        good(command, *asked, "-o", f"{command}.parquet")
        table = pq.read_table(f"{command}.parquet")
        assert {name: table[name].to_pylist() for name in wanted} == wanted
        assert table["item"].null_count == 0
        assert ("title" in table.column_names) == (index == "model.tessella")
    assert not list(Path().glob("*.answers*"))
    good("search-all", *asked, "--out", "recs")
    assert json.loads(Path("recs/users.json").read_text()) == USER_IDS
    ids = np.load("recs/ids.npy")
    assert ids.dtype == np.int64
    assert ((ids == -1) == ~there).all()
    if index == "texts.tessella":
        items = json.loads(Path("recs/items.json").read_text())
        assert [items[place] for place in ids[there]] == found.ids[there].tolist()


def test_users_without_ids_go_by_rows():
    good("search-all", "model.tessella", "users.npy", "-k", 2, "-o", "recs.csv")
    good("search-all", "model.tessella", "users.npy", "-k", 2, "-o", "recs")
    with Path("recs.csv").open(newline="") as file:
        assert [row["user"] for row in csv.DictReader(file)] == [str(row) for row in range(8) for _ in range(2)]
    assert not Path("recs/users.json").exists()


STEPPED = """
import signal, sys
from tessella.commands import app, everybody
from tessella.jobs import all_users
signal.signal(signal.SIGINT, signal.default_int_handler)
all_users.USERS_PER_BLOCK = 2
where = sys.argv.pop(1)
search, parts = all_users.search, everybody._parts
left = [4]
def stepped(*arguments):
    left[0] -= 1
    if where == "search" and left[0] < 0:
        print("here", flush=True)
        sys.stdin.readline()
    return search(*arguments)
def writing(*arguments):
    yield next(parts(*arguments))
    print("here", flush=True)
    sys.stdin.readline()
all_users.search = stepped
if where == "writing":
    everybody._parts = writing
app.main()
"""


@pytest.mark.parametrize(("where", "done"), [("search", 6), ("writing", 8)])
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_file_for_all_users_resumes_after_an_interruption(where, done, sent, code):
    command = "search-all", "model.tessella", "users.parquet", "--out", "recs.parquet"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", STEPPED, where, *command], text=True, **pipes)  # noqa: S603
    assert process.stdout.readline() == "here\n"
    process.send_signal(sent)
    _, said = process.communicate()
    assert process.returncode == code
    assert said == f"tessella: interrupted. {done} of 8 users are done and kept; repeat the command to resume.\n"
    assert not Path("recs.parquet").exists()
    refused = run(*command, "-k", 3)
    assert "recs.parquet.answers.partial was started with another k (10, not 3)" in refused.stderr
    said = good(*command)
    assert f"8 users ({done} from an earlier run), all certified" in said
    assert pq.read_table("recs.parquet")["item"].to_pylist() == model().index.search(USERS).ids.ravel().tolist()
    assert {path.name for path in Path().glob("*recs*")} == {"recs.parquet"}


def test_a_foreign_folder_of_that_name_stays():
    Path("recs.parquet.answers").mkdir()
    Path("recs.parquet.answers/mine.txt").write_text("mine")
    refused = run("search-all", "model.tessella", "users.npy", "--out", "recs.parquet")
    assert refused.exit_code == 1
    assert "recs.parquet.answers contains files other than answers" in refused.stderr
    assert Path("recs.parquet.answers/mine.txt").read_text() == "mine"


@pytest.mark.parametrize("suffix", ["parquet", "csv", "txt"])
def test_memory_does_not_grow_with_a_file_of_users(suffix, monkeypatch):
    """Neither factors nor ids nor answers are ever there as a whole; memory maps do not count."""
    n = 40_000
    good("search-all", "model.tessella", "users.parquet", "-o", "first.parquet")  # what is imported is no part of it
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 512)
    monkeypatch.setattr(tables, "_LINES_AT_ONCE", 128)
    monkeypatch.setattr(everybody, "USERS_PER_BLOCK", 512)
    monkeypatch.setattr("tessella.jobs.all_users.USERS_PER_BLOCK", 512)
    ts.Index.build(RNG.standard_normal((50, 32))).save("wide.tessella")
    users = RNG.standard_normal((n, 32)).astype(np.float32)
    names = [f"{row:040}" for row in range(n)]
    ids = ()
    if suffix == "parquet":
        pq.write_table(pa.table({"id": names, "v": users.tolist()}), "big.parquet", row_group_size=2000)
    elif suffix == "csv":
        write_csv(
            "big.csv", ["id", *range(32)], [(name, *row) for name, row in zip(names, users.tolist(), strict=True)]
        )
    else:
        np.save("big.npy", users)
        Path("big.txt").write_text("".join(f"{name}\n" for name in names))
        ids = ("--ids", "big.txt")
    del users, names
    tracemalloc.start()
    try:
        good("search-all", "wide.tessella", f"big.{'npy' if ids else suffix}", "-o", "recs.parquet", *ids)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e6 < n * 32 * 4
    assert pq.ParquetFile("recs.parquet").metadata.num_rows == n * 10


def test_arrow_holds_a_few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 512)
    users = RNG.standard_normal((40_000, 32))
    pq.write_table(pa.table({"v": users.tolist()}), "big.parquet")
    before, most = pa.total_allocated_bytes(), 0
    for _ in tables._opened_blocks(Path("big.parquet")):
        most = max(most, pa.total_allocated_bytes() - before)
    assert 0 < most < users.nbytes / 2


def test_info_and_verify_know_recommenders():
    lines = dict(line.split(maxsplit=1) for line in good("info", "model.tessella").splitlines())
    assert lines["users"] == "8, ids are strings, 1 vector each"
    assert lines["seen"] == f"{SEEN.nnz} pairs of user and item"
    assert lines["attributes"] == "title (category), genre (several), year (number)"
    assert lines["signals"] == "none"
    assert lines["items"] == "30"
    assert lines["factors"] == "5"
    assert lines["model"] == f"{model().generation}, version 0"
    assert lines["search"].startswith("exact: ")
    assert "attributes 0.0" in lines["memory"]
    assert good("verify", "model.tessella") == f"model.tessella is intact: {model()}\n"
    ts.Recommender.build(ITEMS, signals={"new": np.arange(30.0)}).save("items.tessella")
    lines = dict(line.split(maxsplit=1) for line in good("info", "items.tessella").splitlines())
    assert (lines["users"], lines["seen"], lines["attributes"], lines["signals"], lines["factors"]) == (
        "none", "none", "none", "new", "5",
    )  # fmt: skip


NEW = RNG.standard_normal((3, 5)).astype(np.float32)
NEW_IDS = [500, 501, 7]
NEW_ATTRIBUTES = {
    "title": ["1984", None, "Up"],
    "genre": [["drama"], None, ["comedy", "crime"]],
    "year": [1984, 2, None],
}
DAYS = np.datetime64("2024-01-01") - np.arange(33)


def write_new(suffix):
    """Files about the new items, and some others, in another order."""
    order = [2, 0, 1]
    np.savez("new.npz", factors=NEW, ids=NEW_IDS)
    known = {name: [values[row] for row in order] + [None] for name, values in NEW_ATTRIBUTES.items()}
    known = {"id": [NEW_IDS[row] for row in order] + [9000], **known}
    signals = {"id": [*NEW_IDS, 9000], "new": [0.5, 1.5, 2.5, 9.0], "fresh": [*DAYS[30:].tolist(), DAYS[0].item()]}
    if suffix == ".parquet":
        pq.write_table(pa.table(known), "new.parquet")
        pq.write_table(pa.table(signals), "new-signals.parquet")
        return
    for name, columns in (("new.csv", known), ("new-signals.csv", signals)):
        rows = zip(*columns.values(), strict=True)
        texts = [["|".join(cell) if isinstance(cell, list) else cell for cell in row] for row in rows]
        write_csv(name, list(columns), texts)


def same_models(path, wanted):
    """The file holds what was built and changed in Python."""
    found = ts.Recommender.load(path)
    found_parts, wanted_parts = (packed(one._edition)[0] for one in (found, wanted))
    assert found_parts.keys() == wanted_parts.keys()
    for name, array in wanted_parts.items():
        np.testing.assert_array_equal(found_parts[name], array, err_msg=name)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("signals", [False, True])
def test_items_of_a_recommender_come_and_go(suffix, signals):
    write_new(suffix)
    old, new = {"new": np.arange(30.0)}, {"new": [0.5, 1.5, 2.5]}
    own = model(signals=old | {"fresh": ts.Decaying(DAYS[:30], half_life=86_400 * 30)} if signals else None)
    own.save("model.tessella", overwrite=True)
    files = ["--attributes", f"new{suffix}", *(["--signals", f"new-signals{suffix}"] if signals else [])]
    said = good("add", MODEL, "new.npz", *files)
    own.add_items(NEW, NEW_IDS, attributes=NEW_ATTRIBUTES, signals=new | {"fresh": DAYS[30:]} if signals else None)
    assert said.splitlines() == [
        *(f"{path}: ignored 1 of 4 rows, which name unknown items" for path in files[1::2]),
        f"model.tessella: {own}",
    ]
    same_models(MODEL, own)
    assert good("remove", MODEL, 7, 101) == f"model.tessella: {own.remove_items([7, 101]) or own}\n"
    same_models(MODEL, own)
    np.savez("changed.npz", factors=-NEW[:2], ids=[500, 102])
    good("update", MODEL, "changed.npz")
    own.update_items(-NEW[:2], [500, 102])
    same_models(MODEL, own)
    write_csv("years.csv", ["year", "id"], [(3, 100), ("", 500), (1, 9000)])
    said = good("update", MODEL, "--attributes", "years.csv")
    own.update_items(None, [100, 500], attributes={"year": [3, None]})
    assert said.startswith("years.csv: ignored 1 of 3 rows, which name unknown items\n")
    same_models(MODEL, own)
    if signals:
        write_csv("newer.csv", ["id", "new"], [(100, 7)])
        good("update", MODEL, "--signals", "newer.csv")
        own.update_items(None, [100], signals={"new": [7.0]})
        same_models(MODEL, own)
    assert ts.Recommender.load(MODEL).generation == own.generation


def test_new_rows_of_text_files_are_read_as_columns_there_are():
    attributes = {
        "code": ["a"] * 30,
        "tags": [[1, 2]] * 30,
        "day": [np.datetime64("2020-01-01")] * 30,
        "ok": [True] * 30,
    }
    ts.Recommender.build(ITEMS, attributes=attributes).save("kinds.tessella")
    write_csv(
        "kinds.csv",
        ["id", "code", "tags", "day", "ok"],
        [(3, "007", "5", "2021-02-03", "false"), (4, "8|9", "", "", "")],
    )
    good("update", "kinds.tessella", "--attributes", "kinds.csv")
    known = ts.Recommender.load("kinds.tessella")._edition.attributes
    assert known.row(3) == {"code": "007", "tags": [5], "day": "2021-02-03", "ok": False}
    assert known.row(4) == {"code": "8|9", "tags": None, "day": None, "ok": None}


def test_signals_of_dates_decay():
    write_csv("fresh.csv", ["id", "fresh"], list(zip(ITEM_IDS, DAYS[:30], strict=True)))
    good("build", "items.npz", "-o", "x", "--users", "users.npy", "--signals", "fresh.csv", "--half-life", "fresh=10")
    own = ts.Recommender.build(
        ITEMS, USERS, item_ids=ITEM_IDS, signals={"fresh": ts.Decaying(DAYS[:30], half_life=864_000)}
    )
    same_models("x", own)
    asked = good("recommend", "x", "--users", "3", "-k", 4, "--boost", "fresh=9", "--now", "2024-02-01")
    wanted = own.recommend([3], 4, boosts={"fresh": 9.0}, now=np.datetime64("2024-02-01"))
    assert rows_of(asked) == expected_rows(wanted)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        (("--where", '{"year": {"from": 1990}}', "-k", 2), {"where": {"year": {"from": 1990}}, "k": 2}),
        (("--with-seen", "--exact"), {"exclude_seen": False, "exact": True}),
        (("--at-most", "genre=1"), {"variety": ts.at_most(1, per="genre")}),
        (("--diversify", "0.5"), {"variety": ts.diversify(0.5)}),
    ],
)
def test_explain_and_variety(arguments, options):
    for item in (100, 107):
        said = good("explain", MODEL, "--user", "user 1", "--item", item, *arguments)
        assert said == f"{model().explain('user 1', item, **options)}\n"
        said = good("explain", MODEL, "users.npy", "--user", 1, "--item", item, "--exclude", "seen.npz", *arguments)
        own = model().explain(USERS[1], item, exclude=SEEN[[1]], **options)
        assert said == f"{own}\n"
    found = good("recommend", MODEL, "--users", "user 1", *arguments)
    assert rows_of(found) == expected_rows(model().recommend(["user 1"], **options))


def test_likes_are_folded_in_as_the_model_was_trained():
    asked = good("recommend", MODEL, "--liked", "100,103", "--alpha", 20, "--regularization", "0.5")
    assert rows_of(asked) == expected_rows(model().recommend(liked=[100, 103], alpha=20.0, regularization=0.5))


MODEL = "model.tessella"
ASK = ("recommend", MODEL, "--users", "user 1")
BUILD = ("build", "items.npz", "-o", "x")
BAD = [
    (("recommend", "nowhere", "--users", "1"), "nowhere cannot be used: no such file or directory."),
    (("recommend", "plain.tessella", "--users", "1"), "plain.tessella holds items only; build it with --users, --seen or --attributes, or use search."),
    (("recommend", MODEL, "--users", "nobody"), "there is no user with id 'nobody'."),
    (("recommend", MODEL, "--users", "user 1,user 99"), "there is no user with id 'user 99'."),
    (("recommend", MODEL, "--ids", "nowhere.txt"), "nowhere.txt cannot be used: no such file or directory."),
    (("recommend", MODEL, "--liked", "7"), "there is no item with id 7 in the index."),
    (("recommend", MODEL, "--liked", "tea"), "ids are strings, but those in the index are integers."),
    (("recommend", "items-only.tessella", "--users", "1"), "the recommender has no users; pass the liked items with --liked."),
    ((*ASK, "-k", 0), "k is 0, but must be from 1 to 1048576."),
    ((*ASK, "--threads", 0), "threads is 0, but at least 1 is needed; None uses every CPU."),
    ((*ASK, "--where", "{"), "--where is not valid JSON: Expecting property name"),
    ((*ASK, "--where", '{"yeer": 1}'), "where names the column 'yeer', but there is no such column; did you mean 'year'?"),
    ((*ASK, "--where", "[]"), "where has a list where a dict of conditions is expected."),
    ((*ASK, "--boost", "fresh=1"), "boosts needs item signals, but the recommender has none; build it with --signals."),
    ((*ASK, "--after", "hello"), "after is not a valid cursor; pass the `next` of the previous page."),
    ((*ASK, "--allow", "nowhere.txt"), "nowhere.txt cannot be used: no such file or directory."),
    ((*ASK, "--allow", "other.txt"), "other.txt names no item of the index, so nothing could be recommended; check the ids."),
    ((*ASK, "-o", "x.xlsx"), "x.xlsx ends in '.xlsx', but answers are written to .parquet, .csv, .jsonl or .npz."),
    (("recommend", "items-only.tessella", "--all-users", "-o", "x.csv"), "the recommender has no users;"),
    (("search", MODEL, "users.npy", "--ids", "other.txt"), "other.txt has 2 ids, but users.npy has 8 users."),
    (("search-all", MODEL, "users.npy", "--ids", "other.txt", "-o", "x"), "other.txt has 2 ids, but users.npy has 8 users."),
    (("search-all", MODEL, "users.npy", "--allow", "other.txt", "-o", "x"), "other.txt names no item of the index"),
    (("add", MODEL, "users.npy"), "users.npy holds no ids; pass them with --ids."),
    (("add", MODEL, "wide.npy", "--ids", "other.txt"), "wide.npy has 6 columns, but 5 are expected."),
    (("add", MODEL, "two.npy", "--ids", "other.txt"), "attributes of the new items are missing; pass --attributes with 'title', 'genre', 'year'."),
    (("add", MODEL, "two.npy", "--ids", "other.txt", "--attributes", "years.csv"), "attributes has no column 'title', but existing items have it;"),
    (("add", MODEL, "two.npy", "--ids", "other.txt", "--attributes", "movies.csv"), "movies.csv has 0 rows for the 2 new items; check that the ids match."),
    (("add", MODEL, "two.npy", "--ids", "other.txt", "--attributes", "new.csv", "--signals", "years.csv"), "signals are given, but the recommender was built without signals."),
    (("add", MODEL, "items.npz", "--attributes", "movies.csv"), "id 100 is already in the index; use update to change its factor."),
    (("add", "plain.tessella", "two.npy", "--ids", "other.txt", "--attributes", "new.csv"), "plain.tessella holds an index, which has no attributes; build a recommender with --attributes."),
    (("update", MODEL, "two.npy", "--ids", "other.txt"), "there is no item with id 5000 in the index."),
    (("update", MODEL, "--attributes", "years.csv"), "years.csv has no column `id`; add one to say which item each row is for."),
    (("update", MODEL, "--attributes", "double.csv"), "double.csv has two rows with id 101."),
    (("update", MODEL, "--attributes", "others.csv"), "others.csv has 2 rows, but only 0 of them name known items; check that the ids match."),
    (("update", MODEL, "--attributes", "named.csv"), "attributes names the column 'new', but there is no such column"),
    (("update", MODEL, "--attributes", "words.csv"), "attributes['year'] has kind 'category', but for existing items it has kind 'number'."),
    (("update", MODEL, "items.npz", "--attributes", "words.csv"), "attributes['year'] has kind 'category', but for existing items it has kind 'number'."),
    (("update", MODEL, "--signals", "double.csv"), "double.csv has two rows with id 101."),
    (("update", MODEL, "--signals", "named.csv"), "signals are given, but the recommender was built without signals."),
    (("update", "plain.tessella", "two.npy", "--ids", "other.txt", "--signals", "named.csv"), "plain.tessella holds an index, which has no signals; build a recommender with --signals."),
    (("remove", MODEL, "7"), "there is no item with id 7 in the index."),
    (("remove", MODEL, "100", "100"), "ids holds 100 more than once."),
    (("explain", MODEL, "--user", "user 99", "--item", 100), "there is no user with id 'user 99'."),
    (("explain", MODEL, "--user", "user 1", "--item", 7), "there is no item with id 7 in the index."),
    (("explain", MODEL, "users.npy", "--user", 99, "--item", 100), "users.npy has no row 99; its rows are 0 to 7."),
    (("explain", "plain.tessella", "users.npy", "--user", 1, "--item", 1, "--with-seen"), "plain.tessella holds items only, without attributes, signals or seen items; omit the options that need them."),
    ((*ASK, "--at-most", "genr=1"), "at_most names the column 'genr', but there is no such column; did you mean 'genre'?"),
    ((*ASK, "--at-most", "genre=0"), "n is 0, but must be at least 1."),
    ((*ASK, "--diversify", "2"), "weight is 2, but must be from 0 to 1."),
    ((*ASK, "--where", "false"), "where has a bool where a dict of conditions is expected."),
    ((*BUILD, "--signals", "movies.csv", "--half-life", "fresh=3"), "--half-life names 'fresh', but movies.csv has 'title', 'genre', 'year'."),
    ((*BUILD, "--users", "nowhere.npy"), "nowhere.npy cannot be used: no such file or directory."),
    ((*BUILD, "--users", "wide.npy"), "wide.npy has 6 columns, but 5 are expected."),
    ((*BUILD, "--users", "users.npy", "--user-ids", "other.txt"), "other.txt has 2 ids, but users.npy has 8 users."),
    ((*BUILD, "--users", "users.npy", "--user-ids", "twice.txt"), "user_ids holds 'a' more than once."),
    ((*BUILD, "--seen", "users.npy"), "users.npy ends in '.npy', but seen items are read from .csv, .parquet or .npz."),
    ((*BUILD, "--seen", "movies.csv"), "movies.csv has the columns id, title, genre, year, but needs `user` and `item`, and optionally `weight`."),
    ((*BUILD, "--users", "users.npy", "--seen", "wide.npz"), "wide.npz has shape (8, 6), but must have shape (8, 30): users x items."),
    ((*BUILD, "--users", "users.npy", "--seen", "seen.csv"), f"seen.csv has {SEEN.nnz} rows, but only 0 of them name known users; check that the ids match."),
    ((*BUILD, "--seen", "short.csv"), "short.csv has 1 columns in line 3, but 2 in line 1."),
    ((*BUILD, "--seen", "heavy.csv"), "heavy.csv has the weight 'much' in line 2, but weights must be numbers."),
    ((*BUILD, "--seen", "blank.csv"), "blank.csv has no item in line 2."),
    ((*BUILD, "--seen", "null.parquet"), "null.parquet has missing values"),
    ((*BUILD, "--seen", "words.parquet"), "words.parquet cannot be read: it is damaged, or not a Parquet file."),
    ((*BUILD, "--attributes", "users.npy"), "users.npy ends in '.npy', but attributes are read from .csv or .parquet."),
    ((*BUILD, "--attributes", "words.parquet"), "words.parquet cannot be read: it is damaged, or not a Parquet file."),
    ((*BUILD, "--attributes", "ids.csv"), "ids.csv has no attributes; besides `id`, it needs at least 1 column."),
    ((*BUILD, "--attributes", "years.csv"), "years.csv has 2 rows, but there are 30 items; add a column `id`."),
    ((*BUILD, "--attributes", "double.csv"), "double.csv has two rows with id 101."),
    ((*BUILD, "--attributes", "others.csv"), "others.csv has 2 rows, but only 0 of them name known items; check that the ids match."),
    ((*BUILD, "--attributes", "unnamed.csv"), "unnamed.csv starts with id,,x..., but must start with a different name for each column."),
    ((*BUILD, "--attributes", "empty.csv"), "empty.csv has no columns."),
    ((*BUILD, "--signals", "named.csv"), "signals["),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "sentence"), BAD, ids=[" ".join(map(str, arguments)) for arguments, _ in BAD])
def test_bad_input_gets_one_sentence_and_changes_nothing(folder, arguments, sentence):
    ts.Index.build(ITEMS).save("plain.tessella")
    ts.Recommender.build(ITEMS, attributes={"title": TITLES}).save("items-only.tessella")
    for name, text in {
        "other.txt": "5000\n5001\n", "twice.txt": "a\n" * 8, "short.csv": "user,item\n1,100\n1\n", "empty.csv": "",
        "heavy.csv": "user,item,weight\n1,100,much\n", "blank.csv": "user,item\n1,\n", "words.parquet": "hello",
        "ids.csv": "id\n100\n", "years.csv": "year\n1\n2\n", "double.csv": "id,year\n101,1\n101,2\n",
        "others.csv": "id,year\n1,1\n2,2\n", "unnamed.csv": "id,,x\n100,1,2\n",
        "new.csv": "id,title,genre,year\n5000,A,x|y,1\n5001,B,,2\n", "words.csv": "id,year\n100,new\n",
        "named.csv": "id,new\n" + "".join(f"{item},x\n" for item in ITEM_IDS),
    }.items():  # fmt: skip
        Path(name).write_text(text)
    np.save("two.npy", np.ones((2, 5)))
    np.save("wide.npy", np.ones((8, 6)))
    scipy.sparse.save_npz("wide.npz", scipy.sparse.csr_array(np.ones((8, 6))))
    pq.write_table(pa.table({"user": [1, None], "item": [100, 101]}), "null.parquet")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"tessella: {sentence}")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("recommend", MODEL), "pass users with --users, --ids or --all-users, or items with --liked or --like."),
        (
            ("recommend", MODEL, "--users", "user 1", "--all-users"),
            "cannot be combined, except --users with --liked; pass only one.",
        ),
        (
            ("recommend", MODEL, "--liked", "100", "--like", "101"),
            "cannot be combined, except --users with --liked; pass only one.",
        ),
        (("recommend", MODEL, "--all-users"), "--all-users needs -o, which is not given."),
        (("recommend", MODEL, "--users", "user 1,,user 2"), "has an empty id; separate ids by single commas."),
        ((*ASK, "--boost", "fresh"), "--boost is 'fresh', but must be a name and a number, such as fresh=0.5."),
        ((*ASK, "--now", "soon"), "--now is 'soon', but must be a time such as 2030-12-31T12:00."),
        ((*ASK, "--at-most", "genre"), "--at-most is 'genre', but must be a name and a number, such as genre=2."),
        (
            (*ASK, "--at-most", "genre=1", "--diversify", "0.3"),
            "--at-most and --diversify are different rules; pass only one of them.",
        ),
        ((*ASK, "--alpha", "3"), "--regularization and --alpha need --liked, which is not given."),
        (("update", MODEL), "there is nothing to update; pass a file of factors, --attributes or --signals."),
        (
            ("update", MODEL, "--ids", "user-ids.txt", "--attributes", "movies.csv"),
            "--ids needs a file of factors, but there is none.",
        ),
        (
            ("explain", MODEL, "--user", "user 1", "--item", "100", "--exclude", "seen.npz"),
            "--exclude and --columns need a file of users, but there is none.",
        ),
        ((*BUILD, "--half-life", "fresh=3"), "--half-life needs --signals, which is not given."),
        ((*BUILD, "--user-ids", "user-ids.txt"), "--user-ids needs --users or --seen, but neither is given."),
    ],
)
def test_wrong_usage(arguments, sentence):
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.replace("│", " ").split())
    assert not Path("x").exists()
