"""Attributes: every form of input is every other form; whatever is done to columns is what happens to their rows."""

import datetime as dt
import importlib.util
import json
import re
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessella.recommend.attributes import Attributes
from tessella.recommend.pools import Texts
from tessella.versions import storage


def installed(name):
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


pa, pd, pl = map(installed, ("pyarrow", "pandas", "polars"))

DATA = {
    "title": ["a", None, "Ünïcode \U0001f3ac"],
    "genre": [["x", "y", "x"], None, []],
    "tags": [[3, 4], [4], None],
    "year": [2**60 + 1, None, -5],
    "price": [0.1, None, 2.5],
    "day": [dt.date(2020, 1, 1), None, dt.date(1950, 5, 1)],
    "time": [dt.datetime(2020, 1, 1, 12, 30, 1, 5), None, dt.datetime(2021, 1, 1)],
    "adult": [True, None, False],
}
ROWS = {
    "title": ["a", None, "Ünïcode \U0001f3ac"],
    "genre": [["x", "y"], None, []],
    "tags": [[3, 4], [4], None],
    "year": [2**60 + 1, None, -5],
    "price": [0.1, None, 2.5],
    "day": ["2020-01-01", None, "1950-05-01"],
    "time": ["2020-01-01T12:30:01.000005", None, "2021-01-01T00:00:00"],
    "adult": [True, None, False],
}
KINDS = {"title": "category", "genre": "several", "tags": "several", "year": "number", "price": "number", "day": "date",
         "time": "date", "adult": "boolean"}  # fmt: skip
UTC = dt.timezone(dt.timedelta(hours=2))


def values(attributes):
    return {name: attributes.values(name) for name in attributes.names}


def forms():
    yield "dict of lists", DATA
    yield "dict of tuples", {name: tuple(column) for name, column in DATA.items()}
    yield (
        "sets and arrays",
        DATA | {"genre": [{"y", "x"}, None, np.array([], "U1")], "tags": [np.array([3, 4]), (4,), None]},
    )
    yield "missing values", DATA | {"title": ["a", np.nan, "Ünïcode \U0001f3ac"], "genre": [["x", None, "y", np.nan], np.nan, []],
                                    "price": [Decimal("0.1"), np.nan, 2.5], "day": np.array(["2020-01-01", "NaT", "1950-05-01"], "M8[D]"),
                                    "time": [DATA["time"][0], np.datetime64("NaT"), np.datetime64("2021-01-01", "ns")]}  # fmt: skip
    yield (
        "with zones",
        DATA | {"time": [DATA["time"][0].replace(tzinfo=dt.UTC), None, dt.datetime(2021, 1, 1, 2, tzinfo=UTC)]},
    )
    arrays = {name: np.array([*column, None], object)[:-1] for name, column in DATA.items()}
    yield "arrays of objects", arrays
    if pa:
        table = pa.table(DATA)
        yield "Arrow table", table
        yield "Arrow batch", table.to_batches()[0]
        yield "dict of Arrow", {name: table.column(name) for name in DATA}
        yield "Arrow dictionary", table.set_column(0, "title", table.column("title").dictionary_encode())
        yield "Arrow zones", table.set_column(6, "time", table.column("time").cast(pa.timestamp("us", "Europe/Berlin")))
    if pd:
        frame = pd.DataFrame(DATA | {"year": pd.array(DATA["year"], "Int64")})
        yield "pandas", frame
        yield "pandas with an index", frame.set_index(pd.Index([7, 3, 7]))
        yield "pandas nullable", frame.convert_dtypes()
        yield "pandas category", frame.assign(title=frame["title"].astype("category"))
        yield "pandas zones", frame.assign(time=frame["time"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
        if pa:
            yield "pandas on Arrow", pa.table(DATA).to_pandas(types_mapper=pd.ArrowDtype)
    if pl:
        frame = pl.DataFrame(DATA, strict=False)
        yield "polars", frame
        yield "polars categories", frame.with_columns(pl.col("title").cast(pl.Categorical))
        yield "polars zones", frame.with_columns(pl.col("time").dt.replace_time_zone("UTC"))
        yield "dict of polars", {name: frame[name] for name in DATA}


@pytest.mark.parametrize(("data"), [pytest.param(data, id=name) for name, data in forms()])
def test_every_form_gives_the_same(data):
    attributes = Attributes.of(data, 3)
    assert attributes.names == tuple(DATA)
    assert attributes.kinds == KINDS
    assert values(attributes) == ROWS
    assert type(attributes.values("year")[0]) is int
    assert attributes.row(2) == {name: column[2] for name, column in ROWS.items()}
    json.dumps(attributes.row(0), allow_nan=False)
    assert len(attributes) == 3
    again = Attributes.of({name: attributes.values(name) for name in attributes.names}, 3, like=attributes)
    assert values(again) == ROWS  # dates as texts, where they are known to be dates


@pytest.mark.parametrize(
    ("array", "kind", "shown"),
    [
        (np.array([1, 2], np.uint8), "number", [1, 2]),
        (np.array([-(2**31), 2**31 - 1], np.int32), "number", [-(2**31), 2**31 - 1]),
        (np.array([-128, 127], np.int8), "number", [-128, 127]),
        (np.array([2**63 - 1, 0], np.uint64), "number", [2**63 - 1, 0]),
        (np.array([0.5, np.nan], np.float16), "number", [0.5, None]),
        (np.array([np.inf, -np.inf]), "number", [np.inf, -np.inf]),
        (np.array([True, False]), "boolean", [True, False]),
        (np.array(["a", "b"]), "category", ["a", "b"]),
        (np.array(["2020-01-01", "NaT"], "M8[ns]"), "date", ["2020-01-01T00:00:00", None]),
        (np.array(["2020", "2021"], "M8[Y]"), "date", ["2020-01-01", "2021-01-01"]),
        (range(2), "number", [0, 1]),
        ([1, 2.5], "number", [1.0, 2.5]),
        ([None, None], "category", [None, None]),
        ([[], []], "several", [[], []]),
        (["2020-01-01", "x"], "category", ["2020-01-01", "x"]),  # a text is a text
        (["\ud800", "a\0"], "category", ["\ud800", "a\0"]),
    ],
)
def test_columns_by_type(array, kind, shown):
    attributes = Attributes.of({"it": array}, 2)
    assert attributes.kinds == {"it": kind}
    assert attributes.values("it") == shown
    assert values(Attributes.from_arrays(attributes.to_arrays(), attributes.facts())) == {"it": shown}


def test_what_was_passed_in_is_not_kept():
    array = np.array([1, 2, 3], np.int8)
    floats, bools = array.astype(np.float64), array > 1
    attributes = Attributes.of({"whole": array, "float": floats, "bool": bools}, 3)
    array[:], floats[:], bools[:] = 0, 0, False
    assert values(attributes) == {"whole": [1, 2, 3], "float": [1, 2, 3], "bool": [False, True, True]}


COLUMNS = {
    "title": st.text(max_size=3),
    "genre": st.lists(st.sampled_from("abcdefgh"), max_size=3, unique=True),
    "tags": st.lists(st.integers(-3, 3), max_size=3, unique=True),
    "year": st.integers(-130, 130) | st.integers(1 - 2**63, 2**63 - 1),
    "price": st.floats(allow_nan=False),
    "day": st.dates().map(dt.date.isoformat),
    "time": st.datetimes().map(dt.datetime.isoformat),
    "adult": st.booleans(),
}
EMPTY = Attributes.of(DATA, 3).take([])


@st.composite
def tables(draw, min_size=0):
    n = draw(st.integers(min_size, 8))
    return {name: draw(st.lists(st.none() | one, min_size=n, max_size=n)) for name, one in COLUMNS.items()}, n


@settings(max_examples=200, deadline=None)
@given(st.lists(tables(), min_size=1, max_size=4), st.data())
def test_columns_follow_what_is_done_to_rows(parts, data):
    attributes, rows = EMPTY, {name: [] for name in COLUMNS}
    for table, n in parts:
        added = Attributes.of(table, n, like=EMPTY)
        assert values(added) == table
        attributes = attributes.joined(added)
        rows = {name: column + table[name] for name, column in rows.items()}
        assert values(attributes) == rows
        if len(attributes):
            n_entries = len(attributes)
            entries = data.draw(st.lists(st.integers(0, n_entries - 1), max_size=6))
            assert values(attributes.take(entries)) == {name: [own[at] for at in entries] for name, own in rows.items()}
            unique = sorted(set(entries))[:n]
            attributes = attributes.replaced(unique, added.take(range(len(unique))))
            for name, column in rows.items():
                for place, entry in enumerate(unique):
                    column[entry] = table[name][place]
            assert values(attributes) == rows
    arrays, facts = attributes.to_arrays(), attributes.facts()
    kept, said = storage.from_buffer(np.frombuffer(storage.to_bytes(arrays, facts), np.uint8), "it")
    assert values(Attributes.from_arrays(kept, said)) == rows
    assert attributes.nbytes == sum(array.nbytes for array in arrays.values())
    assert values(attributes.joined(attributes.blank(2))) == {
        name: [*column, None, None] for name, column in rows.items()
    }


@settings(max_examples=200, deadline=None)
@given(st.sets(st.text(max_size=4), max_size=60), st.sets(st.text(max_size=4), max_size=3))
def test_pools_take_in_others(mine, theirs):
    one, two = Texts.of(sorted(mine)), Texts.of(sorted(theirs))
    whole, codes, other_codes = one.merged(two)
    assert list(whole) == sorted(mine | theirs)
    assert [whole[code] for code in codes] == sorted(mine)
    assert [whole[code] for code in other_codes] == sorted(theirs)
    for code, text in enumerate(whole):
        assert whole.find(text) == code
    assert whole.find("not among these") == -1
    kept = np.arange(0, len(whole), 2)
    assert list(whole.take(kept)) == sorted(mine | theirs)[::2]


def test_values_that_are_no_longer_used_are_dropped_in_time():
    attributes = Attributes.of({"title": [f"title {number}" for number in range(100)]}, 100)
    size = attributes.nbytes
    for number in range(1000):
        attributes = attributes.replaced([number % 100], Attributes.of({"title": [f"other {number}"]}, 1))
    assert attributes.values("title", [99, 0]) == ["other 999", "other 900"]
    assert attributes.nbytes < 3 * size


def test_numbers_become_what_they_must():
    whole = Attributes.of({"it": [1, None]}, 2)
    for other, expected in [([2**40], [1, None, 2**40]), ([2.0, None], [1, None, 2, None]), ([0.5], [1, None, 0.5])]:
        joined = whole.joined(Attributes.of({"it": other}, len(other)))
        assert joined.values("it") == expected
        assert [type(value) for value in joined.values("it")[:1]] == [float if 0.5 in expected else int]
    floats = Attributes.of({"it": np.array([0.1], np.float32)}, 1).joined(Attributes.of({"it": [0.1, 5]}, 2))
    assert floats.to_arrays()["0.numbers"].dtype == np.float32
    days = Attributes.of({"it": [dt.date(2020, 1, 1), None]}, 2)
    times = Attributes.of({"it": np.array(["2020-01-01T12"], "M8[s]")}, 1)
    assert days.joined(times).values("it") == ["2020-01-01T00:00:00", None, "2020-01-01T12:00:00"]
    assert times.joined(days).values("it") == ["2020-01-01T12:00:00", "2020-01-01T00:00:00", None]


KNOWN = Attributes.of({"year": [1], "genre": [["a"]], "day": [dt.date(2020, 1, 1)]}, 1)


@pytest.mark.parametrize(
    ("data", "kind", "sentence"),
    [
        ({"a": [1, 2]}, ValueError, "attributes['a'] has 2 values, but there are 3 items."),
        ({"a": np.zeros(4)}, ValueError, "attributes['a'] has 4 values, but there are 3 items."),
        ({"a": "abc"}, TypeError, "attributes['a'] must be a list or array with a value for each item, not str."),
        ({"a": {1, 2, 3}}, TypeError, "attributes['a'] must be a list or array with a value for each item, not set."),
        ({"a": None}, TypeError, "attributes['a'] must be a list or array with a value for each item, not NoneType."),
        ({"a": np.zeros((3, 2))}, ValueError, "attributes['a'] has 2 dimensions, but must have 1; pass a list for each item instead."),
        ({"a": [1, "x", None]}, TypeError, "attributes['a'] holds int and str, but must hold values of one kind: strings, lists of strings or integers, numbers, dates or bools."),
        ({"a": [True, 1, 2]}, TypeError, "attributes['a'] holds bool and int, but must hold values of one kind"),
        ({"a": [b"a", b"b", b"c"]}, TypeError, "attributes['a'] holds bytes, but must hold values of one kind"),
        ({"a": np.array([b"a", b"b", b"c"])}, TypeError, "attributes['a'] holds |S1, but must hold strings, "),
        ({"a": [["a"], "a", None]}, TypeError, "attributes['a'] holds list and str, but must hold values of one kind"),
        ({"a": [["a"], [1], None]}, TypeError, "attributes['a'] holds lists of int and str, but must hold lists of strings or of integers."),
        ({"a": [[["a"]], [], None]}, TypeError, "attributes['a'] holds lists of list, but must hold lists of strings or of integers."),
        ({"a": [2**63, 1, 2]}, ValueError, "attributes['a'] holds 9223372036854775808, but must fit in int64."),
        ({"a": np.array([2**63, 1, 2], np.uint64)}, ValueError, "attributes['a'] holds 9223372036854775808, but must fit in int64."),
        ({"a": [-(2**63), 1, 2]}, ValueError, "attributes['a'] holds -9223372036854775808, which stands for a missing value; use a larger number."),
        ({"a": [[2**63], [1], []]}, ValueError, "attributes['a'] holds 9223372036854775808, but must fit in int64."),
        ({1: [1, 2, 3]}, TypeError, "attributes has a column named 1, but column names must be non-empty strings."),
        ({"": [1, 2, 3]}, TypeError, "attributes has a column named '', but column names must be non-empty strings."),
        ({"not": [1, 2, 3]}, ValueError, "attributes has a column named 'not', which is a keyword of where; rename the column."),
        ([1, 2, 3], TypeError, "attributes must be a dict of columns, or a pandas, polars or Arrow table, not list."),
    ],
)  # fmt: skip
def test_bad_input(data, kind, sentence):
    with pytest.raises(kind, match=re.escape(sentence)):
        Attributes.of(data, 3)


@pytest.mark.parametrize(
    ("data", "kind", "sentence"),
    [
        ({"year": ["x"]}, TypeError, "added['year'] has kind 'category', but for existing items it has kind 'number'."),
        ({"genre": [[1]]}, TypeError, "added['genre'] holds lists of integers, but for existing items it holds lists of strings."),
        ({"day": ["2020-13-01"]}, ValueError, "added['day'] holds '2020-13-01' in row 0, but must hold dates such as 2020-12-31 or 2020-12-31T12:00:00."),
        ({"day": ["2020"]}, ValueError, "added['day'] holds '2020' in row 0"),
        ({"yeer": [1]}, ValueError, "added names the column 'yeer', but there is no such column; did you mean 'year'?"),
    ],
)  # fmt: skip
def test_bad_input_beside_other_items(data, kind, sentence):
    with pytest.raises(kind, match=re.escape(sentence)):
        Attributes.of({"year": [1], "genre": [[]], "day": [None]} | data, 1, "added", like=KNOWN)
    with pytest.raises(ValueError, match="added has no column 'day', but existing items have it; pass None"):
        Attributes.of({"year": [1], "genre": [[]]}, 1, "added", like=KNOWN)
    with pytest.raises(TypeError, match="attributes\\['year'\\] has kind 'boolean'"):
        KNOWN.joined(Attributes.of({"year": [True], "genre": [["a"]], "day": [dt.date(2020, 1, 1)]}, 1))


@pytest.mark.skipif(not pl, reason="needs polars")
def test_a_lazy_frame_is_refused():
    with pytest.raises(
        TypeError, match=re.escape("attributes is a LazyFrame, which is not computed yet; pass its collect().")
    ):
        Attributes.of(pl.DataFrame(DATA, strict=False).lazy(), 3)


@pytest.mark.skipif(not pd, reason="needs pandas")
def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="attributes has two columns named 'a'"):
        Attributes.of(frame, 1)


def test_unknown_columns_are_refused_with_those_near_them():
    with pytest.raises(ValueError, match=r"attributes names the column 'genr', but .* did you mean 'genre'\?"):
        KNOWN.values("genr")


@pytest.mark.parametrize("name", list(Attributes.of(DATA, 3).to_arrays()))
def test_arrays_that_do_not_fit_are_refused(name):
    attributes = Attributes.of(DATA, 3)
    arrays, facts = attributes.to_arrays(), attributes.facts()
    without = {own: array for own, array in arrays.items() if own != name}
    for damaged in (without, arrays | {name: arrays[name][:-1]}, arrays | {name: arrays[name].astype(str)}):
        with pytest.raises(ValueError, match="The attributes are damaged"):
            Attributes.from_arrays(damaged, facts)


def test_no_library_is_imported():
    code = "import sys; from tessella.recommend.attributes import Attributes as A; A.of({'a': ['x'], 'b': [[1]]}, 1)\n"
    code += "print([name for name in ('pandas', 'polars', 'pyarrow') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout == "[]\n"
