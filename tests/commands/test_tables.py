"""Tables in files: what is written is read back, and a bad file gets one sentence."""

import csv
import io
import json
import pickle
import re
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.commands import tables, writing

FACTORS = np.array([[0.5, -1.0, 3e-7], [2.0, 0.1, 1e30]], np.float32)
COLUMNS = ("user", "rank", "item", "score")
TYPED = {"names": ["a", "b"], "numbers": [7, 12]}


def saved_npy(path, factors):
    np.save(path, factors)


def saved_fortran(path, factors):
    np.save(path, np.asfortranarray(factors.astype(np.float64)))


def saved_npz(path, factors):
    np.savez_compressed(path, anything=factors)


def saved_named_npz(path, factors):
    np.savez(path, other=np.zeros(3), factors=factors)


def saved_csv(path, factors):
    np.savetxt(path, factors, delimiter=",")


def saved_csv_with_names(path, factors):
    np.savetxt(path, factors, delimiter=",", header="f0,f1,f2", comments="\ufeff", encoding="utf-8", newline="\r\n")


def saved_columns(path, factors):
    pq.write_table(pa.table({f"f{column}": factors[:, column] for column in range(factors.shape[1])}), path)


def saved_lists(path, factors):
    pq.write_table(pa.table({"factors": factors.tolist()}), path, row_group_size=1)


def saved_large_lists(path, factors):
    pq.write_table(pa.table({"v": pa.array(factors.tolist(), pa.large_list(pa.float32()))}), path)


def saved_fixed_lists(path, factors):
    pq.write_table(pa.table({"v": pa.array(factors.tolist(), pa.list_(pa.float32(), factors.shape[1]))}), path)


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("a.npy", saved_npy),
        ("a.NPY", lambda path, factors: path.write_bytes(npy_bytes(factors))),
        ("a.npy", saved_fortran),
        ("a.npz", saved_npz),
        ("a.npz", saved_named_npz),
        ("a.csv", saved_csv),
        ("a.csv", saved_csv_with_names),
        ("a.parquet", saved_columns),
        ("a.parquet", saved_lists),
        ("a.parquet", saved_large_lists),
        ("a.parquet", saved_fixed_lists),
    ],
)
def test_factors_come_back(tmp_path, name, save):
    save(tmp_path / name, FACTORS)
    table = tables.read_factors(tmp_path / name, 3)
    np.testing.assert_array_equal(table.factors, FACTORS)
    assert table.factors.dtype == np.float32
    assert table.ids is None


def npy_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("kind", TYPED)
def test_ids_beside_factors(tmp_path, kind):
    ids = TYPED[kind]
    np.savez(tmp_path / "a.npz", v=FACTORS, ids=ids)
    lines = [f"{name},{','.join(map(str, row))}" for name, row in zip(ids, FACTORS.tolist(), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["ID,0,1,2", *lines, ""]))
    pq.write_table(pa.table({"v": FACTORS.tolist(), "id": ids}), tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"id": pa.array(ids).dictionary_encode(), "x": FACTORS[:, 0], "y": FACTORS[:, 1], "z": FACTORS[:, 2]}),
        tmp_path / "b.parquet",
    )
    for name in ("a.npz", "a.csv", "a.parquet", "b.parquet"):
        table = tables.read_factors(tmp_path / name)
        np.testing.assert_array_equal(table.factors, FACTORS)
        assert tables.as_ids(table.ids).tolist() == ids


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("kind", ["texts", "numbers", "long numbers", "none"])
def test_many_users_are_left_in_files(tmp_path, monkeypatch, size, kind):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", size)
    monkeypatch.setattr(tables, "_LINES_AT_ONCE", size)
    factors = np.arange(21.0).reshape(7, 3) / 7
    ids = {
        "texts": ["a", "bé", "", "007", "c\n", "1", "x" * 50],
        "numbers": list(range(7, 14)),
        "long numbers": [2**62 + row for row in range(7)],
        "none": None,
    }[kind]
    columns = {"v": factors.tolist()} | ({} if ids is None else {"id": ids})
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=4)
    pq.write_table(
        pa.table({"id": ids or list(range(7)), **{name: factors[:, at] for at, name in enumerate("xyz")}}),
        tmp_path / "b.parquet",
    )
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        names = [text or "-" for text in ids] if kind == "texts" else ids
        rows = (
            factors.tolist()
            if ids is None
            else [[name, *row] for name, row in zip(names, factors.tolist(), strict=True)]
        )
        csv.writer(file).writerows([["x", "y", "z"] if ids is None else ["id", "x", "y", "z"], *rows])
    for name in ("a.parquet", "b.parquet", "a.csv"):
        users, table = tables.open_users(tmp_path / name, 3, tmp_path), tables.read_factors(tmp_path / name, 3)
        np.testing.assert_array_equal(np.float32(users.factors), table.factors)
        np.testing.assert_array_equal(table.factors, factors.astype(np.float32))
        if table.ids is None:
            assert users.ids is None
            continue
        expected = tables.as_ids(table.ids).tolist()
        assert users.ids[:].tolist() == expected
        assert len(users.ids) == 7
        for part in (slice(0, 0), slice(2, 5), slice(6, 9)):
            assert users.ids[part].tolist() == expected[part]
            assert users.ids[part].dtype.kind == tables.as_ids(table.ids).dtype.kind
    assert {path.name for path in tmp_path.iterdir()} == {"a.parquet", "b.parquet", "a.csv"}


def test_lists_of_factors_are_as_long_everywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 1)
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0]]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="has lists of lengths 1 and 2, but all must have the same length"):
        tables.open_users(tmp_path / "a.parquet", None)


def test_files_without_rows(tmp_path):
    pq.write_table(pa.table({"id": pa.array([], pa.string()), "x": pa.array([], pa.float32())}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("id,x\n")
    for name in ("a.parquet", "a.csv"):
        assert tables.open_users(tmp_path / name, 1).factors.shape == (0, 1)
        assert tables.read_factors(tmp_path / name, 1).factors.shape == (0, 1)


def test_long_lists_of_ids_are_left_in_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 2)
    for ids in (["7", "-3", "0"], ["7", "x", "ä", "007"], []):
        (tmp_path / "ids.txt").write_text("".join(f"{name}\n" for name in ids), encoding="utf-8")
        lines = tables.open_ids(tmp_path / "ids.txt", tmp_path)
        assert lines[:].tolist() == tables.as_ids(ids).tolist()


def test_numbers_in_a_column_of_texts_stay_texts(tmp_path):
    pq.write_table(pa.table({"id": ["1", "2"], "v": FACTORS.tolist()}), tmp_path / "a.parquet")
    assert tables.as_ids(tables.read_factors(tmp_path / "a.parquet").ids).tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("7\n-3\n0\n", [7, -3, 0]),
        ("7\r\n8", [7, 8]),
        ("9223372036854775807\n", [2**63 - 1]),
        ("9223372036854775808\n", ["9223372036854775808"]),
        ("007\n8\n", ["007", "8"]),
        ("-0\n", ["-0"]),
        ("1\n2.0\n", ["1", "2.0"]),
        ("٣\n", ["٣"]),
        ("\ufeffa b\nü,\n 1\n", ["a b", "ü,", " 1"]),
        ("", []),
    ],
)
def test_lines_are_whole_numbers_or_texts(tmp_path, lines, expected):
    path = tmp_path / "ids.txt"
    path.write_bytes(lines.encode())
    ids = tables.read_ids(path)
    assert tables.as_ids(ids).tolist() == expected
    assert tables.as_ids(ids, texts=True).tolist() == ids


def written(text):
    return lambda path: path.write_text(text, encoding="utf-8")


def parquet(**columns):
    return lambda path: pq.write_table(pa.table(columns), path)


BAD = [
    ("a.txt", written("1"), "a.txt ends in '.txt', but factors are read from .npy, .npz, .csv or .parquet."),
    ("a", written("1"), "a ends in '', but factors are read from"),
    ("a.npy", written(""), "a.npy is empty."),
    ("a.npy", written("hello"), "a.npy cannot be read: it is damaged, not an .npy file, or holds Python objects."),
    ("a.npy", lambda path: np.save(path, np.array([[None, {}]])), "a.npy cannot be read: it is damaged, not an .npy file, or holds Python objects."),
    ("a.npy", lambda path: path.write_bytes(npy_bytes(FACTORS)[:-1]), "a.npy cannot be read: it is damaged, not an .npy file,"),
    ("a.npy", lambda path: np.save(path, np.ones(3)), "a.npy holds an array of shape (3,), but factors must have 2 dimensions, with a row for each item or user."),
    ("a.npy", lambda path: np.save(path, [["x"]]), "a.npy holds <U1, but must hold real numbers such as float32."),
    ("a.npy", lambda path: np.save(path, [[1, np.nan, 2]]), "a.npy holds nan in row 0, column 1; factors must be finite."),
    ("a.npy", lambda path: np.save(path, np.ones((2, 4))), "a.npy has 4 columns, but 3 are expected."),
    ("a.npz", written("hello"), "a.npz cannot be read: it is damaged, not an .npz file, or holds Python objects."),
    ("a.npz", lambda path: path.write_bytes(npy_bytes(FACTORS)), "a.npz cannot be read: it is damaged, not an .npz file"),
    ("a.npz", lambda path: np.savez(path, v=np.array([[None]])), "a.npz cannot be read: it is damaged, not an .npz file, or holds Python objects."),
    ("a.npz", lambda path: np.savez(path, x=FACTORS, y=FACTORS), "a.npz holds the arrays x, y; name the array of factors `factors`."),
    ("a.npz", lambda path: np.savez(path, factors=FACTORS, ids=[1]), "a.npz has 1 ids, but 2 rows of factors."),
    ("a.npz", lambda path: np.savez(path, factors=FACTORS, ids=[0.5, 1]), "ids holds float64, but must hold integers or strings."),
    ("a.npz", lambda path: scipy.sparse.save_npz(path, scipy.sparse.csr_array(FACTORS)), "a.npz holds the arrays"),
    ("a.csv", written("1,2,3\n4,5\n"), "a.csv has 2 columns in line 2, but 3 in line 1."),
    ("a.csv", written("x,y,z\n1,2,3\n\n4,5,6,7\n"), "a.csv has 4 columns in line 4, but 3 in line 1."),
    ("a.csv", written("1,2,3\n4,five,6\n"), "a.csv cannot be read in line 2: could not convert string to float: 'five'."),
    ("a.csv", written("1,two,3\n4,5,6\n"), "a.csv cannot be read in line 1: could not convert string to float: 'two'."),
    ("a.csv", written(",0,1\n0,2,3\n"), "a.csv cannot be read in line 1: could not convert string to float: ''."),
    ("a.csv", written("0,1,2\n4,5,6\n"), "a.csv starts with 0,1,2..., which may be column names or factors; start it with a line of other column names."),
    ("a.csv", written("item_id,x,y\n4,5,6\n"), "a.csv has a column 'item_id', which looks like ids; rename it to id and put it first, or remove it."),
    ("a.csv", written("x,id,y\n4,5,6\n"), "a.csv has a column 'id', which looks like ids; rename it to id and put it first, or remove it."),
    ("a.csv", written("id,x,y,z\n,5,6,7\n"), "a.csv has no id in line 2."),
    ("a.csv", written("id\n5\n"), "a.csv has 0 columns, but 3 are expected."),
    ("a.csv", written("\n\n"), "a.csv has 0 columns, but 3 are expected."),
    ("a.csv", lambda path: path.write_bytes(b"1,2,\xff\n"), "a.csv is not a CSV file in UTF-8: 'utf-8' codec"),
    ("a.csv", written("1," + "2" * 200_000), "a.csv is not a CSV file in UTF-8: field larger than field limit"),
    ("a.csv", written("1,2,nan\n"), "a.csv holds nan in row 0, column 2; factors must be finite."),
    ("a.csv", written("1,2,1e300\n"), "a.csv holds 1e+300 in row 0, too large for float32; scale the factors down."),
    ("a.parquet", written("hello"), "a.parquet cannot be read: it is damaged, or not a Parquet file."),
    ("a.parquet", parquet(v=[[1.0, 2.0], [3.0]]), "a.parquet has lists of lengths 1 and 2, but all must have the same length."),
    ("a.parquet", parquet(v=[[1.0, None]]), "a.parquet has missing values; fill them in, or remove those rows."),
    ("a.parquet", parquet(x=[1.0, None]), "a.parquet has missing values;"),
    ("a.parquet", parquet(id=["a", None], x=[1.0, 2.0]), "a.parquet has missing values;"),
    ("a.parquet", parquet(id=["a"]), "a.parquet has no factors, but besides `id` it needs one column of lists of numbers, or columns of numbers only."),
    ("a.parquet", parquet(name=["a"], x=[1.0]), "a.parquet has a column of string, but besides `id` it needs"),
    ("a.parquet", parquet(v=[["a"]]), "a.parquet has a column of string, but besides `id` it needs"),
    ("a.parquet", parquet(v=[[1.0]], w=[[1.0]]), "a.parquet has a column of list<"),
    ("a.parquet", parquet(v=[True]), "a.parquet has a column of bool, but besides `id` it needs"),
    ("a.parquet", parquet(itemId=[1], x=[1.0]), "a.parquet has a column 'itemId', which looks like ids; rename it to id"),
    ("a.parquet", parquet(x=[1.0], __index_level_0__=[1]), "a.parquet has a column '__index_level_0__', which looks like ids;"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "sentence"), BAD, ids=[sentence for _, _, sentence in BAD])
def test_bad_factors(tmp_path, monkeypatch, name, make, sentence):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    with pytest.raises((ValueError, TypeError), match="^" + re.escape(sentence)):
        tables.read_factors((tmp_path / name).relative_to(tmp_path), 3)


def test_a_damaged_file_raises_nothing_unforeseen(tmp_path):
    np.savez(tmp_path / "a.npz", factors=FACTORS, ids=[1, 2])
    np.save(tmp_path / "a.npy", FACTORS)
    pq.write_table(pa.table({"id": ["a", "b"], "v": FACTORS.tolist()}), tmp_path / "a.parquet")
    seen = tmp_path / "seen.npz"
    scipy.sparse.save_npz(seen, scipy.sparse.csc_array(FACTORS), compressed=False)
    for name in ("a.npz", "a.npy", "a.parquet", "seen.npz"):
        data = (tmp_path / name).read_bytes()
        damaged = tmp_path / f"damaged{name}"
        for at in range(0, len(data), 7):
            damaged.write_bytes(data[:at] + bytes([data[at] ^ 0x2A]) + data[at + 1 :])
            try:
                tables.read_seen(damaged, (2, 3), "users x items") if name == "seen.npz" else tables.read_factors(
                    damaged
                )
            except (ValueError, TypeError, MemoryError) as error:
                assert str(error)  # noqa: PT017


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return type(self.path).touch, (self.path,)


def test_nothing_is_unpickled(tmp_path):
    trap = np.array([[Trap(tmp_path / "sprung")]])
    np.save(tmp_path / "a.npy", trap)
    np.savez(tmp_path / "a.npz", factors=FACTORS, ids=trap)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(trap))
    for name in ("a.npy", "a.npz", "b.npy"):
        with pytest.raises(ValueError, match="or holds Python objects"):
            tables.read_factors(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_seen_items_in_every_form(tmp_path, kind):
    matrix = scipy.sparse.csr_array(np.array([[0, 1, 0], [2, 0, 3]]))
    scipy.sparse.save_npz(tmp_path / "seen.npz", matrix.asformat(kind))
    np.testing.assert_array_equal(
        tables.read_seen(tmp_path / "seen.npz", (2, 3), "users x items").toarray(), matrix.toarray()
    )


def test_bad_seen_items(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = (tmp_path / "seen.npz").relative_to(tmp_path)
    np.savez(path, factors=FACTORS)
    unreadable = "seen.npz cannot be read: it is damaged, or not a sparse matrix from scipy.sparse.save_npz."
    with pytest.raises(ValueError, match=re.escape(unreadable)):
        tables.read_seen(path, (2, 3), "users x items")
    outside = scipy.sparse.csr_array(FACTORS)
    outside.indices[0] = 77
    scipy.sparse.save_npz(path, outside)
    with pytest.raises(ValueError, match=re.escape(unreadable)):
        tables.read_seen(path, (2, 3), "users x items")
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(FACTORS))
    sentence = "seen.npz has shape (2, 3), but must have shape (2, 9): users x items."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        tables.read_seen(path, (2, 9), "users x items")


def answers(ids, users=("u", "v")):
    scores = np.array([[2.5, -0.1], [1e-30, -np.inf]], np.float32)
    return writing.UserAnswers(np.array(users), ts.SearchResult(ids, scores, np.array([2, 1]), np.array([True, False])))


NUMBERED = answers(np.array([[4, 9], [7, -1]]), [0, 5])
NAMED = answers(np.array([["ä,\n", 'b"'], ["c", None]], object))


@pytest.mark.parametrize("found", [NUMBERED, NAMED], ids=["numbers", "texts"])
def test_answers_are_written(tmp_path, found):
    users, ids, scores = found.users.tolist(), found.found.ids, found.found.scores
    expected = [
        (users[0], 1, ids[0, 0], scores[0, 0]),
        (users[0], 2, ids[0, 1], scores[0, 1]),
        (users[1], 1, ids[1, 0], scores[1, 0]),
    ] * 2
    for suffix in ("csv", "jsonl", "npz", "parquet"):
        path = tmp_path / f"recs.{suffix}"
        writing.writer(path)(path, iter([found, found]))
    with (tmp_path / "recs.csv").open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert [(*line[:3], np.float32(line[3])) for line in lines] == [
        (str(user), str(rank), str(item), score) for user, rank, item, score in expected
    ]
    objects = [json.loads(line) for line in (tmp_path / "recs.jsonl").read_text().splitlines()]
    assert [(*list(row.values())[:3], np.float32(row["score"])) for row in objects] == expected
    assert all(tuple(row) == COLUMNS for row in objects)
    table = pq.read_table(tmp_path / "recs.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert table["score"].type == pa.float32()
    assert [tuple(row.values()) for row in table.to_pylist()] == expected
    with np.load(tmp_path / "recs.npz") as arrays:
        assert set(arrays) - {"items"} == {"users", "ids", "scores", "n_scored", "certified"}
        assert arrays["users"].tolist() == users * 2
        assert arrays["ids"].dtype == np.int64
        assert (arrays["ids"] == -1).tolist() == [[False, False], [False, True]] * 2
        named = np.append(arrays["items"].astype(object), None) if "items" in arrays else None
        assert (found is NAMED) == (named is not None)
        stored = arrays["ids"] if named is None else named[arrays["ids"]]
        assert stored.tolist() == ids.tolist() * 2
        np.testing.assert_array_equal(arrays["scores"], np.concatenate([scores, scores]))
        assert arrays["certified"].tolist() == [True, False] * 2


def test_no_answers_are_written(tmp_path):
    empty = ts.Index.build(FACTORS).search(FACTORS[:0], 2)
    for suffix, size in (("csv", 1), ("jsonl", 0)):
        path = tmp_path / f"recs.{suffix}"
        writing.writer(path)(path, iter([writing.UserAnswers(np.arange(0), empty)]))
        assert len(path.read_text().splitlines()) == size
    for suffix in ("npz", "parquet"):
        path = tmp_path / f"recs.{suffix}"
        writing.writer(path)(path, iter([writing.UserAnswers(np.arange(0), empty)]))
    assert pq.read_table(tmp_path / "recs.parquet").num_rows == 0
    with np.load(tmp_path / "recs.npz") as arrays:
        assert arrays["ids"].shape == (0, 2)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_scores_come_back_from_text(scores):
    given_scores = np.array([scores], np.float32)
    found = ts.SearchResult(np.zeros(given_scores.shape, np.int64), given_scores, np.zeros(1), np.ones(1))
    texts = [row[3] for row in writing.UserAnswers(np.arange(1), found).rows()]
    assert [struct.pack("<f", float(text)) for text in texts] == [struct.pack("<f", score) for score in given_scores[0]]


def test_without_pyarrow_the_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    saved_npy(tmp_path / "a.npy", FACTORS)
    (tmp_path / "a.npy").rename(tmp_path / "a.parquet")
    for call in (tables.read_factors, writing.writer):
        with pytest.raises(ImportError, match=re.escape("pip install 'tessella[parquet]'")):
            call(tmp_path / "a.parquet")


def test_answers_are_not_written_to_any_suffix(tmp_path):
    with pytest.raises(
        ValueError, match=re.escape(".xlsx', but answers are written to .parquet, .csv, .jsonl or .npz.")
    ):
        writing.writer(tmp_path / "recs.xlsx")


def test_ids_must_be_lines_of_text(tmp_path):
    path = tmp_path / "ids.txt"
    path.write_text("a\n\nb\n")
    with pytest.raises(ValueError, match=r"ids\.txt has an empty line 2, but every line must be an id\."):
        tables.read_ids(path)
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match=r"ids\.txt is not UTF-8 text: "):
        tables.read_ids(path)
