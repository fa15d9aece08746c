"""What is sent to OpenSearch, without a server: features, documents, mappings, filters and queries."""

import base64
import json
import subprocess
import sys
from datetime import date, datetime

import numpy as np
import pytest
import scipy.sparse
from conftest import factor_matrices
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tessella as ts
from tessella._reference.slots import heaviest
from tessella.opensearch import asking, features, fields
from tessella.opensearch.conditions import ALL, NONE, filter_of
from tessella.opensearch.documents import documents, factors_of, texts_of, values_of
from tessella.opensearch.filters import lists_of
from tessella.opensearch.layout import LARGEST_META, Layout, Place, index_name, index_pattern
from tessella.recommend.attributes import Attributes

FEW = {"max_rows": 20, "max_factors": 6}
SCHEMAS = [
    ts.Schema(),
    ts.Schema(ts.Ternary(), ts.OneHot(), threshold=2.5, rotation="principal"),
    ts.Schema(ts.DAry(3), ts.ParseTree(2), threshold=0.5, threshold_kind="relative", rotation="random"),
    ts.Schema(ts.ExplicitTessellation(np.eye(4)), ts.OneHot(), rotation=np.eye(4)[::-1]),
]


def layout_of(item_factors, schema=None, attributes=None, *, text_ids=False, on_shards=True):
    columns = Attributes({}, 1)
    if attributes is not None:
        n = len(next(iter(attributes.values())))
        columns = fields.of_description(fields.described(Attributes.of(attributes, n)))
    return Layout(ts.SparseMap(schema).fit(item_factors), columns, text_ids, on_shards)


# Features


@given(
    hnp.arrays(
        np.float32,
        20,
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False, max_value=2.0**126, min_value=-(2.0**126)),
    )
)
def test_features_are_numbers_that_lucene_keeps_as_they_are(values):
    sizes = features.rounded(values)
    bits = sizes.view(np.int32)
    np.testing.assert_array_equal(bits >> 15 << 15, bits)  # Lucene drops the last 15 bits
    large = np.abs(values) >= 2.0**-125
    np.testing.assert_allclose(sizes[large], np.abs(values)[large], rtol=2.0**-9)
    assert ((sizes == 0) | (sizes >= 2.0**-126)).all()


@given(factor_matrices(**FEW))
def test_partial_products_are_the_positive_terms_of_those_in_one_process(factors):
    factors = np.clip(factors, -1e3, 1e3)
    if not len(factors):
        return
    layout = layout_of(factors, ts.Schema(ts.Ternary(), ts.OneHot()))
    starts, slots, values = layout.item_mapper.entries(factors)
    (weights,) = asking.weights_of(layout, factors[:1], 4)
    _, query_slots, query_values = layout.query_mapper.entries(factors[:1])
    used, used_values = heaviest((query_slots, query_values), 4)
    largest = np.abs(used_values).max(initial=0) or 1
    for item in range(len(factors)):
        here = slice(starts[item], starts[item + 1])
        own = features.of_item(slots[here], values[here])
        ours = sum(weight * own.get(name, 0) for name, weight in weights.items()) * largest
        entries = dict(zip(slots[here].tolist(), values[here].astype(np.float64).tolist(), strict=True))
        terms = [
            value * entries.get(slot, 0)
            for slot, value in zip(used.tolist(), used_values.astype(np.float64).tolist(), strict=True)
        ]
        assert ours == pytest.approx(sum(term for term in terms if term > 0), rel=2.0**-8, abs=1e-30)


# Documents and layouts


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_client_maps_alike(schema, rng):
    items = rng.standard_normal((50, 4)).astype(np.float32)
    layout = layout_of(items, schema, {"genre": [["a"]], "when": [date(2000, 1, 1)]}, text_ids=True)
    facts = json.loads(json.dumps(layout.mapping()["_meta"]["tessella"]))
    again = Layout.from_meta(facts)
    assert again.schema == schema
    assert again.fits(layout)
    assert documents(again, items) == documents(layout, items)
    for ours, theirs in zip(again.query_mapper.entries(items), layout.query_mapper.entries(items), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(factor_matrices(**FEW), st.booleans())
def test_documents_keep_factors_to_the_bit(factors, on_shards):
    factors = np.clip(factors, -1e18, 1e18)
    if not len(factors):
        return
    layout = layout_of(factors, ts.Schema(), on_shards=on_shards)
    made = [json.loads(document)["tessella"] for document in documents(layout, factors)]
    np.testing.assert_array_equal(factors_of([{"tessella": own} for own in made], factors.shape[1]), factors)
    for own, factor in zip(made, factors, strict=True):
        assert ("vector" in own) == on_shards
        if on_shards:
            np.testing.assert_array_equal(np.array(own["vector"], np.float32), factor)
        assert all(value > 0 for value in own["slots"].values())


def test_a_document_holds_attributes_as_fields():
    columns = {"genre": [["a", "b"], [], None], "year": [1990, None, 3], "when": [date(2000, 1, 1), None, None]}
    layout = layout_of(np.eye(3), ts.Schema(), columns)
    values = fields.read(columns, 3, layout.columns)
    first, second, third = (json.loads(one) for one in documents(layout, np.eye(3, dtype=np.float32), values))
    assert {name: first[name] for name in columns} == {"genre": ["a", "b"], "year": 1990, "when": "2000-01-01"}
    assert first["tessella"]["dates"] == {"when": 946_684_800_000_000}
    assert second["genre"] == []
    assert second["tessella"]["empty"] == ["genre"]
    assert set(third) == {"tessella", "year"}
    stored = {**first, "tessella": {name: first["tessella"][name] for name in ("factor", "dates")}}
    assert values_of(stored) == values[0]


def test_the_mapping():
    layout = layout_of(
        np.eye(3), ts.Schema(), {"genre": [["a"]], "when": [datetime(2000, 1, 1)], "n": [1.5], "ok": [True]}
    )
    mapping = layout.mapping()
    own = mapping["properties"].pop("tessella")["properties"]
    assert mapping["dynamic"] == "strict"
    assert mapping["_source"] == {"excludes": ["tessella.slots", "tessella.vector"]}
    assert mapping["properties"] == {
        "genre": {"type": "keyword"}, "when": {"type": "date"}, "n": {"type": "double"}, "ok": {"type": "boolean"},
    }  # fmt: skip
    assert own["slots"] == {"type": "rank_features"}
    assert own["vector"] == {"type": "knn_vector", "dimension": 3}
    assert "vector" not in layout_of(np.eye(3), on_shards=False).mapping()["properties"]["tessella"]["properties"]


def test_a_place_is_read_from_what_the_cluster_says():
    index = index_name("movies")
    facts = {
        "aliases": {"movies": {}, f"{index}-write-0": {}},
        "mappings": layout_of(np.eye(3), ts.Schema()).mapping(),
        "settings": {"index": {"number_of_shards": "3", "number_of_replicas": "1"}},
    }
    place = Place.of("movies", {index: facts})
    assert (place.index, place.n_shards, place.n_replicas, place.window, place.journal) == (index, 3, 1, 10_000, None)
    facts["aliases"] = {"movies": {}, place.next_write_alias(journaled=True): {}}
    place = Place.of("movies", {index: facts})
    assert place.write_alias == f"{index}-journaled-1"
    assert place.journal == f"{index}-journal"
    assert index_pattern("movies").fullmatch(index)
    assert index_pattern("movies").fullmatch(f"{index}-journal-1")
    for other in ("movies-000001", "movies-1234567890123-x", "moviesx-1234567890123", f"my-{index}"):
        assert not index_pattern("movies").fullmatch(other)
    for damage in (
        {},
        {index: {**facts, "aliases": {}}},
        {index: {**facts, "mappings": {}}},
    ):
        with pytest.raises(ValueError, match="the index 'movies' was not made by tessella, or is damaged"):
            Place.of("movies", damage)
    with pytest.raises(ValueError, match=r"^'movies' is an alias of 2 indexes, but must lead to one\.$"):
        Place.of("movies", {index: facts, "other": facts})
    facts["settings"]["index"]["blocks"] = {"read_only": "true", "write": "false"}
    assert Place.of("movies", {index: facts}).blocks == ("index.blocks.read_only",)
    facts["mappings"]["_meta"]["tessella"]["format"] = 2
    with pytest.raises(ValueError, match=r"its format is 2, but this version of tessella reads 1"):
        Place.of("movies", {index: facts})


def test_what_is_learned_must_fit_the_state_of_a_cluster():
    wide = layout_of(np.eye(700), ts.Schema(rotation="principal"))
    with pytest.raises(
        ValueError, match=rf"takes 5,\d\d\d,\d\d\d bytes, but the limit in the cluster state is {LARGEST_META:,}"
    ):
        wide.mapping()


# Conditions

COLUMNS = Attributes.of(
    {"genre": [["a"]], "codes": [[1]], "language": ["en"], "year": [1990], "rating": [0.5],
     "short": np.zeros(1, np.float32), "when": [date(2000, 1, 1)], "ok": [True]}, 1,
)  # fmt: skip
THERE = {
    "bool": {
        "should": [{"exists": {"field": "genre"}}, {"term": {"tessella.empty": "genre"}}],
        "minimum_should_match": 1,
    }
}
DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ({}, ALL),
        ({"or": []}, NONE),
        ({"language": "en"}, {"terms": {"language": ["en"]}}),
        ({"language": ["en", "de"]}, {"terms": {"language": ["de", "en"]}}),
        ({"language": []}, NONE),
        ({"language": {"none": ["en"]}}, {"bool": {"filter": [{"exists": {"field": "language"}}], "must_not": [{"terms": {"language": ["en"]}}]}}),
        ({"not": {"language": "en"}}, {"bool": {"filter": [{"exists": {"field": "language"}}], "must_not": [{"terms": {"language": ["en"]}}]}}),
        ({"language": {"missing": True}}, {"bool": {"must_not": [{"exists": {"field": "language"}}]}}),
        ({"genre": {"missing": False}}, THERE),
        ({"genre": {"all": ["a", "b"]}}, {"bool": {"filter": [{"terms": {"genre": ["a"]}}, {"terms": {"genre": ["b"]}}]}}),
        ({"genre": {"all": []}}, THERE),
        ({"not": {"genre": {"all": ["a", "b"]}}}, {"bool": {"filter": [THERE], "must_not": [{"bool": {"filter": [{"terms": {"genre": ["a"]}}, {"terms": {"genre": ["b"]}}]}}]}}),
        ({"codes": [1, 2.5, 2**70]}, {"terms": {"codes": [1]}}),
        ({"year": {"from": 1990}}, {"range": {"year": {"gte": 1990}}}),
        ({"year": {"from": 1990.5}}, {"range": {"year": {"gte": 1991}}}),
        ({"year": {"above": 1990.5}}, {"range": {"year": {"gte": 1991}}}),
        ({"year": {"above": 1990}}, {"range": {"year": {"gte": 1991}}}),
        ({"year": {"to": 1990.5}}, {"range": {"year": {"lte": 1990}}}),
        ({"year": {"below": 1990.5}}, {"range": {"year": {"lte": 1990}}}),
        ({"year": {"below": 1990}}, {"range": {"year": {"lte": 1989}}}),
        ({"year": {"from": 1e30}}, NONE),
        ({"year": {"from": -1e30}}, {"exists": {"field": "year"}}),
        ({"year": {"to": 1e30}}, {"exists": {"field": "year"}}),
        ({"year": {"to": -1e30}}, NONE),
        ({"not": {"year": {"below": 1990}}}, {"range": {"year": {"gte": 1990}}}),
        ({"rating": {"above": 0.1}}, {"range": {"rating": {"gt": 0.1}}}),
        ({"rating": {"to": -0.0}}, {"range": {"rating": {"lte": 0}}}),
        ({"short": 0.1}, {"terms": {"short": [float(np.float32(0.1))]}}),
        ({"short": {"below": 1e39}}, {"exists": {"field": "short"}}),
        ({"short": {"from": 1e39}}, NONE),
        ({"short": {"above": -1e39}}, {"exists": {"field": "short"}}),
        ({"when": "2000"}, {"range": {"tessella.dates.when": {"gte": 10957 * DAY, "lte": 11323 * DAY - 1}}}),
        ({"when": {"above": "2000-01-01"}}, {"range": {"tessella.dates.when": {"gte": 10958 * DAY}}}),
        ({"when": {"below": date(2000, 1, 1)}}, {"range": {"tessella.dates.when": {"lte": 10957 * DAY - 1}}}),
        ({"ok": True}, {"terms": {"ok": [True]}}),
        ({"or": [{"ok": True}, {"year": 1}]}, {"bool": {"should": [{"terms": {"ok": [True]}}, {"terms": {"year": [1]}}], "minimum_should_match": 1}}),
    ],
)  # fmt: skip
def test_conditions(where, wanted):
    assert filter_of(where, COLUMNS) == wanted


def test_more_values_than_a_clause_takes():
    found = filter_of({"codes": list(range(70_000))}, COLUMNS)
    assert [len(part["terms"]["codes"]) for part in found["bool"]["should"]] == [65_536, 4_464]


# Queries


def test_a_search_by_slots(rng):
    items = rng.standard_normal((50, 4)).astype(np.float32)
    layout = layout_of(items, ts.Schema(ts.Ternary(), ts.OneHot()))
    (weights,) = asking.weights_of(layout, items[:1], 2)
    assert len(weights) == 2
    assert max(weights.values()) == 1
    asked = asking.by_slots(weights, [{"terms": {"language": ["en"]}}], ["7"])
    assert asked["bool"]["filter"] == [{"terms": {"language": ["en"]}}]
    assert asked["bool"]["must_not"] == [{"ids": {"values": ["7"]}}]
    assert asked["bool"]["minimum_should_match"] == 1
    first = asked["bool"]["should"][0]["rank_feature"]
    assert first == {"field": f"tessella.slots.{next(iter(weights))}", "boost": 1.0, "linear": {}}
    body = asking.slots_body(asked, (items[0], float(np.linalg.norm(items[0]))), 10, 134, 3)
    assert body["size"] == 10
    assert body["track_total_hits"] == 402
    assert body["rescore"]["window_size"] == 134
    assert body["rescore"]["query"]["query_weight"] == 0
    script = body["rescore"]["query"]["rescore_query"]["script_score"]["script"]
    assert (script["lang"], script["source"]) == ("knn", "knn_score")
    assert script["params"]["space_type"] == "innerproduct"
    vector = np.array(script["params"]["query_value"])
    assert 2**29 <= np.linalg.norm(vector) <= 2**30
    np.testing.assert_allclose(vector / np.linalg.norm(vector), items[0] / np.linalg.norm(items[0]), rtol=1e-6)
    assert asking.restricted([], []) == ALL


def test_filters_are_read_in_every_form():
    layout = layout_of(np.eye(3), ts.Schema())
    matrix = scipy.sparse.csr_array([[0, 5, 0], [1, 0, 2]])
    ids = np.array([10, 20, 30])
    for passed, wanted in (
        ([3, 5, 5, -1], [["3", "5"]] * 2),
        ({7}, [["7"]] * 2),
        (np.array([[1, -1], [2, 3]]), [["1"], ["2", "3"]]),
        ([[1], [None, 2]], [["1"], ["2"]]),
        ((matrix, ids), [["20"], ["10", "30"]]),
        ((np.array([True, False, True]), ids), [["10", "30"]] * 2),
        ((np.array([[True, False, False], [False] * 3]), ids), [["10"], []]),
        ([], [[], []]),
    ):
        found = lists_of(passed, "exclude", 2, layout)
        assert [found.of_query(0), found.of_query(1)] == wanted
    texts = lists_of(["b", "a", "b"], "allow", 1, layout_of(np.eye(3), text_ids=True))
    assert texts.of_query(0) == ["a", "b"]


def test_ids_become_texts():
    numbers, texts = layout_of(np.eye(3)), layout_of(np.eye(3), text_ids=True)
    assert texts_of(np.array([-5, 2**62]), numbers) == ["-5", str(2**62)]
    assert texts_of(np.array(["a", "ä" * 256]), texts) == ["a", "ä" * 256]
    for bad in ("", "ä" * 257, "\ud800"):
        with pytest.raises(ValueError, match="but ids in OpenSearch must have 1 to 512 bytes of UTF-8"):
            texts_of(np.array([bad, "x"]), texts)


# The extra


def test_tessella_does_not_need_opensearch():
    code = "import sys, tessella; assert not any(name.startswith('opensearch') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603
    code = "import sys; sys.modules['opensearchpy'] = None; import tessella.opensearch"
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)  # noqa: S603
    last = ran.stderr.splitlines()[-1]
    assert (
        last
        == "ImportError: tessella.opensearch needs opensearch-py; install it with: pip install 'tessella[opensearch]'"
    )


def test_base64_is_what_is_stored():
    layout = layout_of(np.eye(3), ts.Schema())
    own = json.loads(documents(layout, np.eye(3, dtype=np.float32))[1])["tessella"]
    assert base64.b64decode(own["factor"]) == np.array([0, 1, 0], "<f4").tobytes()
