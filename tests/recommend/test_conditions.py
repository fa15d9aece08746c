"""Conditions: vectorised masks equal a row-by-row evaluator with three-valued logic; equal filters have equal texts."""

import datetime as dt
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tessella.recommend.attributes import Attributes
from tessella.recommend.conditions import Condition

GENRES = ["comedy", "crime", "drama", "", "Ünïcode", "\U0001f3ac"]
DAYS = [dt.date(2019, 12, 31), dt.date(2020, 1, 1), dt.date(2020, 2, 29), dt.date(2021, 1, 1)]
TIMES = [dt.datetime.combine(day, dt.time(hour)) for day in DAYS for hour in (0, 23)]
NUMBERS = [-300, -1, 0, 1, 2, 1990, 2**40, 2**53 + 1, -1.5, 0.1, 2.5, 1e300]
COLUMNS = {
    "genre": st.sampled_from(GENRES),
    "several": st.lists(st.sampled_from(GENRES), max_size=3),
    "tags": st.lists(st.integers(-2, 4), max_size=3),
    "year": st.sampled_from([number for number in NUMBERS if isinstance(number, int)]),
    "price": st.sampled_from(NUMBERS).map(float),
    "day": st.sampled_from(DAYS),
    "time": st.sampled_from(TIMES),
    "adult": st.booleans(),
}
ORDERED = {"year", "price", "day", "time"}
LISTS = {"several", "tags"}
WRITTEN = st.sampled_from(["2019", "2020", "2020-02", "2019-12-31", "2020-01-01", "2020-01-01T23:00:00", *DAYS, *TIMES])
ASKED = {
    "genre": st.sampled_from([*GENRES, "unknown"]),
    "several": st.sampled_from([*GENRES, "unknown"]),
    "tags": st.integers(-3, 5),
    "year": st.sampled_from(NUMBERS),
    "price": st.sampled_from(NUMBERS),
    "day": WRITTEN,
    "time": WRITTEN,
    "adult": st.booleans(),
}


@st.composite
def single_tests(draw):
    name = draw(st.sampled_from(sorted(COLUMNS)))
    values = st.lists(ASKED[name], max_size=10)
    forms = [ASKED[name], values, values.map(lambda many: {"any": many}), values.map(lambda many: {"none": many})]
    forms.append(st.booleans().map(lambda missing: {"missing": missing}))
    if name in ORDERED:
        forms.append(st.dictionaries(st.sampled_from(["from", "to", "above", "below"]), ASKED[name], min_size=1))
    if name in LISTS:
        forms.append(values.map(lambda many: {"all": many[:3]}))
    return {name: draw(st.one_of(forms))}


def combined(inner):
    lists = st.lists(inner, max_size=3)
    both = st.tuples(inner, inner).map(lambda two: {**two[0], **two[1]})
    return st.one_of(
        inner.map(lambda one: {"not": one}),
        lists.map(lambda many: {"or": many}),
        lists.map(lambda many: {"and": many}),
        both,
    )


WHERES = st.one_of(st.just({}), st.recursive(single_tests(), combined, max_leaves=6))


@st.composite
def tables(draw):
    n = draw(st.integers(0, 12))
    return {
        name: draw(st.lists(st.none() | values if draw(st.booleans()) else values, min_size=n, max_size=n))
        for name, values in COLUMNS.items()
    }, n


def attributes_of(table, n):
    """Even where a column has no value, its kind is known."""
    samples = {"genre": ["x"], "several": [["x"]], "tags": [[1]], "year": [1], "price": [0.5], "day": [DAYS[0]],
               "time": [TIMES[1]], "adult": [True]}  # fmt: skip
    return Attributes.of(table, n, like=Attributes.of(samples, 1))


def span(asked):
    """The first and the last microsecond that is meant."""
    if isinstance(asked, dt.datetime):
        return asked, asked
    text = asked.isoformat() if isinstance(asked, dt.date) else asked
    if len(text) > 10:
        return dt.datetime.fromisoformat(text), dt.datetime.fromisoformat(text)
    year, month, day = (*map(int, text.split("-")), None, None)[:3]
    first = dt.datetime(year, month or 1, day or 1)
    after = dt.datetime(year + 1, 1, 1) if month is None else dt.datetime(year + month // 12, month % 12 + 1, 1)
    end = first + dt.timedelta(days=1) if day else after
    return first, end - dt.timedelta(microseconds=1)


def truth(value, operator, asked):
    """True, False, or None for unknown: one test of one value, as SQL has it."""
    if operator == "missing" or value is None:
        return (value is None) == asked if operator == "missing" else None
    if operator == "none":
        return not truth(value, "any", asked)
    if operator == "all":
        return set(asked) <= set(value)
    if operator == "any":
        if isinstance(value, list):
            return bool(set(asked) & set(value))
        return any(truth(value, "from", one) and truth(value, "to", one) for one in asked)
    if isinstance(value, dt.date):
        low, high = span(asked)
        value = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    else:
        low = high = float(asked) if isinstance(value, float) else asked  # in the type of the column
    return {"from": value >= low, "to": value <= high, "above": value > high, "below": value < low}[operator]


def both(truths):
    return False if False in truths else None if None in truths else True


def negated(known):
    return None if known is None else not known


def evaluated(where, row):
    truths = []
    for key, asked in where.items():
        if key == "not":
            truths.append(negated(evaluated(asked, row)))
        elif key == "and":
            truths.append(both([evaluated(one, row) for one in asked]))
        elif key == "or":
            truths.append(negated(both([negated(evaluated(one, row)) for one in asked])))
        else:
            tests = asked if isinstance(asked, dict) else {"any": asked if isinstance(asked, list) else [asked]}
            truths.append(both([truth(row[key], operator, value) for operator, value in tests.items()]))
    return both(truths)


@settings(max_examples=1500, deadline=None)
@given(tables(), WHERES)
@example(({name: [None] for name in COLUMNS}, 1), {"not": {"or": [{"year": 1}, {"adult": {"missing": True}}]}})
def test_masks_equal_the_evaluation_row_by_row(table, where):
    columns, n = table
    attributes = attributes_of(columns, n)
    condition = Condition.of(where, attributes)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    mask = condition.mask(attributes)
    assert mask.dtype == np.bool_
    assert mask.tolist() == [evaluated(where, row) is True for row in rows]
    again = Condition.of(json.loads(condition.text), attributes)  # the canonical text is a where itself
    assert again.text == condition.text
    assert again == condition
    whole = Condition.of({"not": {"not": where}}, attributes)
    assert whole.text == condition.text


@settings(max_examples=200, deadline=None)
@given(tables(), WHERES)
def test_what_is_unknown_is_neither_true_nor_false(table, where):
    attributes = attributes_of(*table)
    yes, no = (Condition.of(one, attributes).mask(attributes) for one in (where, {"not": where}))
    assert not (yes & no).any()
    if all(None not in values for values in table[0].values()):
        assert (yes | no).all()


MOVIES = Attributes.of(
    {
        "genre": [["comedy"], ["drama", "crime"], None, []],
        "title": ["a", "b", None, "c"],
        "year": [1994, 1972, None, 2001],
        "rating": np.array([0.1, 0.5, np.nan, 0.9], np.float32),
        "released": np.array(["2020-12-31T15:00", "2021-01-01", "NaT", "2019-06-01"], "M8[s]"),
        "adult": [False, True, None, False],
        "tags": [[1], [2, 3], [], None],
    },
    4,
)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"year": 1994}, {"year": {"any": [1994.0, np.int16(1994)]}}),
        ({"year": [1, 2]}, {"year": {"any": {2, 1}}}),
        ({"year": 1, "title": "a"}, {"title": ["a"], "year": [1]}),
        ({"year": 1, "title": "a"}, {"and": [{"title": "a"}, {"and": [{"year": 1}]}, {"year": [1]}]}),
        ({"not": {"year": {"from": 1990}}}, {"year": {"below": 1990}}),
        ({"not": {"year": 1, "title": "a"}}, {"or": [{"title": {"none": ["a"]}}, {"not": {"year": 1}}]}),
        ({"genre": {"all": ["drama"]}}, {"genre": "drama"}),
        ({"year": {"missing": False}}, {"not": {"year": {"missing": np.True_}}}),
        ({"released": "2020-12-31"}, {"released": dt.date(2020, 12, 31)}),
        ({"released": "2020-12-31"}, {"released": np.datetime64("2020-12-31")}),
        ({"released": "2020-12"}, {"released": np.datetime64("2020-12")}),
        ({"released": "2020-12-31T15:00Z"}, {"released": "2020-12-31 16:00:00.000+01:00"}),
        ({"released": "2020-12-31T15:00"}, {"released": np.datetime64("2020-12-31T15:00:00", "ns")}),
        ({"released": "2020-12-31T15:00"}, {"released": dt.datetime(2020, 12, 31, 10, tzinfo=dt.timezone(-dt.timedelta(hours=5)))}),
        ({}, {"and": [{}, {}]}),
        ({}, {"not": {"or": []}}),
    ],
)  # fmt: skip
def test_equal_filters_have_equal_texts(one, two):
    assert Condition.of(one, MOVIES).text == Condition.of(two, MOVIES).text


def test_texts_tell_filters_apart():
    wheres = [{}, {"or": []}, {"year": 1}, {"title": "1"}, {"year": [1, 2]}, {"year": {"from": 1}}, {"year": {"to": 1}},
              {"year": {"missing": True}}, {"year": {"missing": False}}, {"not": {"year": 1}}, {"tags": 1},
              {"tags": {"all": [1, 2]}}, {"not": {"tags": {"all": [1, 2]}}}, {"tags": [1, 2]}, {"released": "2020"},
              {"or": [{"year": 1}, {"year": {"to": 1}}]}, {"released": "2020-01"}]  # fmt: skip
    assert len({Condition.of(where, MOVIES).text for where in wheres}) == len(wheres)


@pytest.mark.parametrize(
    ("where", "allowed"),
    [
        ({"rating": 0.1}, [0]),  # compared in float32, as the column is
        ({"rating": {"above": 0.1}}, [1, 3]),
        ({"year": {"to": 1e300}}, [0, 1, 3]),
        ({"year": {"to": -(10**30)}}, []),
        ({"year": {"above": 1993.5, "below": 1994.5}}, [0]),
        ({"year": 1994.5}, []),
        ({"released": {"to": "2020-12-31"}}, [0, 3]),  # the whole day
        ({"released": {"above": "2020-12-31"}}, [1]),
        ({"released": "2020"}, [0]),
        ({"title": {"none": ["a"]}}, [1, 3]),
        ({"genre": {"none": ["comedy"]}}, [1, 3]),  # an empty list is no missing value
        ({"genre": {"missing": True}}, [2]),
        ({"or": [{"genre": {"missing": True}}, {"year": 1972}]}, [1, 2]),
        ({"tags": {"all": [2, 3]}}, [1]),
        ({"tags": {"all": []}}, [0, 1, 2]),
        ({"or": []}, []),
        ({}, [0, 1, 2, 3]),
    ],
)
def test_examples(where, allowed):
    assert np.flatnonzero(Condition.of(where, MOVIES).mask(MOVIES)).tolist() == allowed


def deep(levels):
    where = {}
    for _ in range(levels):
        where = {"not": where}
    return where


@pytest.mark.parametrize(
    ("where", "kind", "sentence"),
    [
        ([], TypeError, "where has a list where a dict of conditions is expected."),
        ({"yaer": 1}, ValueError, "where names the column 'yaer', but there is no such column; did you mean 'year'?"),
        ({"x": 1}, ValueError, "there is no such column; there are 'genre', 'title', 'year', 'rating', 'released', 'adult', 'tags'."),
        ({3: 1}, TypeError, "where has the key 3, but keys must be column names, 'and', 'or' or 'not'."),
        ({"year": {"form": 1}}, ValueError, "where['year'] has the operator 'form', but there is no such operator; did you mean 'from'?"),
        ({"year": {}}, ValueError, "where['year'] is an empty dict, but must have at least one operator."),
        ({"year": "1994"}, TypeError, "where['year'] compares with '1994', but the column holds finite numbers."),
        ({"year": True}, TypeError, "where['year'] compares with True"),
        ({"year": math.nan}, TypeError, "where['year'] compares with nan"),
        ({"year": {"from": math.inf}}, TypeError, "where['year'] compares with inf"),
        ({"year": 10**400}, TypeError, "finite numbers"),
        ({"year": None}, TypeError, "where['year'] compares with None; pass {'missing': True} for items without a value."),
        ({"year": [1, None]}, TypeError, "where['year'] compares with None"),
        ({"year": {"missing": 1}}, TypeError, "where['year']['missing'] must be True or False, not int."),
        ({"year": {"any": 1}}, TypeError, "where['year'] has 'any' with an int, but it takes a list."),
        ({"year": {"all": [1]}}, TypeError, "where['year'] has 'all', which needs a column of lists, but the column has kind 'number'."),
        ({"title": {"from": "a"}}, TypeError, "where['title'] has 'from', which needs numbers or dates, but the column has kind 'category'."),
        ({"title": 5}, TypeError, "where['title'] compares with 5, but the column holds strings."),
        ({"genre": [["a"]]}, TypeError, "where['genre'] compares with ['a']"),
        ({"adult": 1}, TypeError, "where['adult'] compares with 1, but the column holds true or false."),
        ({"released": 2020}, TypeError, "where['released'] compares with 2020, but the column holds dates, such as '2020', "),
        ({"released": "2020-02-30"}, TypeError, "where['released'] compares with '2020-02-30'"),
        ({"released": np.datetime64("NaT")}, TypeError, "where['released'] compares with"),
        ({"or": {"year": 1}}, TypeError, "where has 'or' with a dict, but it takes a list of dicts."),
        ({"and": [1]}, TypeError, "where has an int where a dict of conditions is expected."),
        ({"not": [{"year": 1}]}, TypeError, "where has a list where a dict of conditions is expected."),
        (deep(500), ValueError, "where is nested more than 100 levels deep; simplify it."),
    ],
)  # fmt: skip
def test_bad_input(where, kind, sentence):
    with pytest.raises(kind, match=re.escape(sentence)):
        Condition.of(where, MOVIES)


def test_the_page_says_what_its_examples_allow():
    page = (Path(__file__).parents[2] / "docs" / "guides" / "attributes.md").read_text()
    names = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], names)  # noqa: S102
    movies = Attributes.of(names["movies"], 5)
    examples = re.findall(r"^\| `({.*})` \| ([A-Z].*) \|$", page, re.MULTILINE)
    assert len(examples) == 14
    for where, allowed in examples:
        mask = Condition.of(json.loads(where), movies).mask(movies)
        assert movies.values("title", np.flatnonzero(mask)) == allowed.split(", "), where
    conditions = [
        text for row in re.findall(r"^\| (`{.*}`) \| [a-z]", page, re.MULTILINE) for text in re.findall("`(.*?)`", row)
    ]
    assert len(conditions) == 14
    for where in conditions:
        Condition.of(json.loads(where.replace("{...}", "{}")), movies)


def test_many_values_are_found_as_few_are(rng):
    for numbers in (
        rng.integers(-100, 100, 1000),
        rng.integers(-9000, 9000, 1000),
        rng.integers(0, 2**40, 1000),
        rng.random(1000),
    ):
        attributes = Attributes.of({"it": [*numbers.tolist(), None]}, 1001)
        texts = Attributes.of({"it": [*map(str, numbers.tolist()), None]}, 1001)
        for count in (5, 30, 200):
            wanted = [*numbers[:count].tolist(), -1, 2**50]
            expected = [*np.isin(numbers, wanted).tolist(), False]
            assert Condition.of({"it": wanted}, attributes).mask(attributes).tolist() == expected
            assert Condition.of({"it": [*map(str, wanted)]}, texts).mask(texts).tolist() == expected


def test_a_condition_outlives_the_attributes_it_was_read_with():
    condition = Condition.of({"genre": "comedy", "year": {"from": 1990}}, MOVIES)
    longer = MOVIES.joined(MOVIES.take([0, 1]))
    assert np.flatnonzero(condition.mask(longer)).tolist() == [0, 4]
    other = Attributes.of({"genre": ["comedy"], "year": [1990]}, 1)
    assert condition.mask(other).tolist() == [True]
    with pytest.raises(ValueError, match="the column 'year' has changed its kind since the condition was parsed"):
        condition.mask(Attributes.of({"genre": ["comedy"], "year": ["1990"]}, 1))


def test_masks_are_arrays_of_their_own():
    """Whoever changes a mask changes nothing that is kept."""
    for where in (
        {"genre": {"all": []}},
        {"genre": {"missing": False}},
        {"genre": {"none": []}},
        {"year": {"to": 3000}},
    ):
        condition = Condition.of(where, MOVIES)
        before = condition.mask(MOVIES).tolist()
        condition.mask(MOVIES)[:] = True
        assert condition.mask(MOVIES).tolist() == before
