"""Bad input times every method of OpenSearchIndex, with the sentence expected; nothing is sent."""

import re
from datetime import datetime

import numpy as np
import pytest
import scipy.sparse
from opensearchpy import ConnectionError as Unreachable
from opensearchpy import OpenSearch

import tessella as ts
from tessella.opensearch import ClusterError, OpenSearchIndex, WriteError, WriteReport, fields
from tessella.opensearch.layout import Layout, Place
from tessella.recommend.attributes import Attributes

CLIENT = OpenSearch(["http://127.0.0.1:9"], max_retries=0)  # where no one answers: what is sent raises another error
GOOD = np.arange(12.0).reshape(4, 3) - 5
NAN = np.where(GOOD == 2, np.nan, GOOD)
COLUMNS = {"genre": [["a"]], "language": ["en"], "year": [1990], "rating": np.zeros(1, np.float32),
           "when": np.array(["2000-01-01"], "M8[D]"), "ok": [True]}  # fmt: skip


def index_of(*, text_ids=False, attributes=None, scoring="auto", on_shards=True):
    columns = Attributes({}, 1)
    if attributes is not None:
        columns = fields.of_description(fields.described(Attributes.of(attributes, 1)))
    index = OpenSearchIndex(CLIENT, "movies", scoring=scoring)
    layout = Layout(ts.SparseMap(ts.Schema()).fit(GOOD), columns, text_ids, on_shards)
    index._cluster._place = Place("movies-1", "movies-1-write-0", 2, 1, 10_000, layout)
    return index


def attributes(**changed):
    good = {"genre": [["a"]] * 4, "language": ["en"] * 4, "year": [1] * 4, "rating": [0.5] * 4,
            "when": [datetime(2000, 1, 1)] * 4, "ok": [None] * 4}  # fmt: skip
    return good | changed


PLAIN, TEXTS, RICH = index_of(), index_of(text_ids=True), index_of(attributes=COLUMNS)
IDS = [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: OpenSearchIndex("http://127.0.0.1:9200", "movies"), TypeError, "client must be an opensearchpy.OpenSearch, not str."),
        (lambda: OpenSearchIndex(CLIENT, "Movies"), ValueError, "name is 'Movies', but must be at most 200 lower-case letters"),
        (lambda: OpenSearchIndex(CLIENT, "_movies"), ValueError, "name is '_movies', but"),
        (lambda: OpenSearchIndex(CLIENT, "a" * 201), ValueError, "but must be at most 200 lower-case letters"),
        (lambda: OpenSearchIndex(CLIENT, "a,b"), ValueError, "name is 'a,b', but"),
        (lambda: OpenSearchIndex(CLIENT, "a*"), ValueError, "name is 'a*', but"),
        (lambda: OpenSearchIndex(CLIENT, ""), ValueError, "name is '', but"),
        (lambda: OpenSearchIndex(CLIENT, 7), ValueError, "name is 7, but"),
        (lambda: OpenSearchIndex(CLIENT, "movies", "ternary"), TypeError, "schema must be a tessella.Schema, not str."),
        (lambda: OpenSearchIndex(CLIENT, "movies", scoring="nodes"), ValueError, "scoring is 'nodes', but must be one of 'auto', 'shards', 'client'."),
        (lambda: OpenSearchIndex(CLIENT, "movies", timeout=-1), ValueError, "timeout is -1.0, but must be finite and at least 0."),
        (lambda: PLAIN.create(0, item_factors=GOOD), ValueError, "shards is 0, but must be from 1 to 1024."),
        (lambda: PLAIN.create(1, -1, item_factors=GOOD), ValueError, "replicas is -1, but must be at least 0."),
        (lambda: PLAIN.create(1.5, item_factors=GOOD), TypeError, "shards must be an integer, not float."),
        (lambda: PLAIN.create(item_factors=NAN), ValueError, "item_factors holds nan in row 2, column 1; factors must be finite."),
        (lambda: PLAIN.create(item_factors=GOOD[:0]), ValueError, "item_factors has 0 rows, but at least 1 is needed to fit."),
        (lambda: PLAIN.create(item_factors=GOOD * 1e19), ValueError, "in row 3, but the limit in OpenSearch is 1e+19; scale the factors down."),
        (lambda: PLAIN.create(item_factors=GOOD, text_ids=1), TypeError, "text_ids must be True or False, not int."),
        (lambda: PLAIN.create(item_factors=GOOD, settings=[1]), TypeError, "settings must be a dict, not list."),
        (lambda: PLAIN.create(item_factors=GOOD, attributes=[1]), TypeError, "attributes must be a dict of columns, or a pandas, polars or Arrow table, not list."),
        (lambda: PLAIN.create(item_factors=GOOD, attributes={"a": []}), ValueError, "attributes has 0 rows, but at least 1 is needed to learn the types of the columns."),
        (lambda: PLAIN.create(item_factors=GOOD, attributes={"a": 5}), TypeError, "attributes['a'] must be a list or array with a value for each item, not int."),
        (lambda: PLAIN.create(item_factors=GOOD, attributes={"a.b": [1]}), ValueError, "attributes has a column named 'a.b', but field names in OpenSearch must not contain a dot"),
        (lambda: PLAIN.create(item_factors=GOOD, attributes={"_id": [1]}), ValueError, "attributes has a column named '_id', but"),
        (lambda: PLAIN.create(item_factors=GOOD, attributes={"tessella": [1]}), ValueError, "attributes has a column named 'tessella', but"),
        (lambda: PLAIN.create(item_factors=GOOD, attributes={" a": [1]}), ValueError, "attributes has a column named ' a', but"),
        (lambda: PLAIN.create(item_factors=GOOD, attributes={"not": [1]}), ValueError, "attributes has a column named 'not', which is a keyword of where"),
        (lambda: PLAIN.create(item_factors=GOOD, attributes={"a": [1], "b": [1, 2]}), ValueError, "attributes['b'] has 2 values, but there are 1 items."),
        (lambda: PLAIN.add(GOOD[:, :2], IDS), ValueError, "item_factors has 2 columns, but 3 are expected."),
        (lambda: PLAIN.add(NAN, IDS), ValueError, "item_factors holds nan in row 2"),
        (lambda: PLAIN.add(GOOD, [1, 2]), ValueError, "ids has 2 entries, but there are 4 items."),
        (lambda: PLAIN.add(GOOD, [1, 1, 2, 3]), ValueError, "ids holds 1 more than once."),
        (lambda: PLAIN.add(GOOD, [-1, 1, 2, 3]), ValueError, "ids holds -1, which is reserved for missing answers"),
        (lambda: PLAIN.add(GOOD, list("abcd")), TypeError, "ids are strings, but those in the index are integers."),
        (lambda: TEXTS.add(GOOD, IDS), TypeError, "ids are integers, but those in the index are strings."),
        (lambda: TEXTS.add(GOOD, ["", "b", "c", "d"]), ValueError, "ids holds '' of 0 bytes, but ids in OpenSearch must have 1 to 512 bytes of UTF-8."),
        (lambda: PLAIN.add(GOOD, IDS, attributes={"a": IDS}), ValueError, "attributes were passed, but the index has none"),
        (lambda: PLAIN.add(GOOD, IDS, refresh="yes"), TypeError, "refresh must be True or False, not str."),
        (lambda: RICH.add(GOOD, IDS), ValueError, "attributes are missing, but items in the index have genre, language, year"),
        (lambda: RICH.add(GOOD, IDS, attributes={"genre": [["a"]] * 4}), ValueError, "attributes has no column 'language', but existing items have it"),
        (lambda: RICH.add(GOOD, IDS, attributes=attributes(color=IDS)), ValueError, "attributes names the column 'color', but there is no such column"),
        (lambda: RICH.add(GOOD, IDS, attributes=attributes(year=["a"] * 4)), TypeError, "attributes['year'] has kind 'category', but for existing items it has kind 'number'."),
        (lambda: RICH.add(GOOD, IDS, attributes=attributes(year=[1, 2.5, 3, 4])), ValueError, "attributes['year'] holds 2.5 at 1, but the field takes integers, as when the index was made."),
        (lambda: RICH.add(GOOD, IDS, attributes=attributes(rating=[1, 1e300, 3, 4])), ValueError, "attributes['rating'] holds 1e+300 at 1, but the field takes finite float32."),
        (lambda: RICH.add(GOOD, IDS, attributes=attributes(rating=[np.inf, 1.0, 3, 4])), ValueError, "attributes['rating'] holds inf at 0, but the field takes finite float32."),
        (lambda: RICH.add(GOOD, IDS, attributes=attributes(language=["x" * 40_000] * 4)), ValueError, "attributes['language'] holds a string of 40,000 bytes at 0, but a field takes at most 32,766."),
        (lambda: RICH.add(GOOD, IDS, attributes=attributes(genre=[["ok", "ä" * 20_000]] * 4)), ValueError, "attributes['genre'] holds a string of 40,000 bytes at 0, but"),
        (lambda: RICH.add(GOOD, IDS, attributes=attributes(when=np.array(["12000-01-01"] * 4, "M8[D]"))), ValueError, "attributes['when'] holds 12000-01-01 at 0, but date fields take the years 0001 to 9999."),
        (lambda: RICH.add(GOOD, IDS, attributes=attributes(when=np.array(["-0044-03-15"] * 4, "M8[D]"))), ValueError, "attributes['when'] holds -044-03-15 at 0, but"),
        (lambda: PLAIN.update(None, IDS), ValueError, "item_factors and attributes are both None, so there is nothing to update."),
        (lambda: PLAIN.update(GOOD, [1]), ValueError, "ids has 1 entries, but there are 4 items."),
        (lambda: RICH.update(None, IDS, attributes=attributes(year=[1])), ValueError, "attributes['year'] has 1 values, but there are 4 items."),
        (lambda: PLAIN.remove(["a"]), TypeError, "ids are strings, but those in the index are integers."),
        (lambda: PLAIN.remove(7), ValueError, "ids is 7, but must be a sequence; pass [7]."),
        (lambda: PLAIN.remove([7, 7]), ValueError, "ids holds 7 more than once."),
        (lambda: PLAIN.search(GOOD[:, :2]), ValueError, "queries has 2 columns, but 3 are expected."),
        (lambda: PLAIN.search([1.0, np.nan, 2.0]), ValueError, "queries holds nan in row 0, column 1; factors must be finite."),
        (lambda: PLAIN.search([1e30, 0, 0]), ValueError, "queries has norm 1e+30 in row 0, but the limit in OpenSearch is 1e+19"),
        (lambda: PLAIN.search(None), TypeError, "queries holds object, but must hold real numbers"),
        (lambda: PLAIN.search(GOOD, 0), ValueError, "k is 0, but must be from 1 to 10000."),
        (lambda: PLAIN.search(GOOD, 10_001), ValueError, "k is 10001, but must be from 1 to 10000."),
        (lambda: PLAIN.search(GOOD, "5"), TypeError, "k must be an integer, not str."),
        (lambda: PLAIN.search(GOOD, budget=0), ValueError, "budget is 0, but must be from 1 to 20000."),
        (lambda: PLAIN.search(GOOD, budget=20_001), ValueError, "budget is 20001, but must be from 1 to 20000."),
        (lambda: index_of(scoring="client").search(GOOD, budget=10_001), ValueError, "budget is 10001, but must be from 1 to 10000."),
        (lambda: PLAIN.search(GOOD, budget="all"), TypeError, "budget must be an integer, not str."),
        (lambda: PLAIN.search(GOOD, max_slots=0), ValueError, "max_slots is 0, but must be from 1 to 1000."),
        (lambda: PLAIN.search(GOOD, max_slots=1001), ValueError, "max_slots is 1001, but must be from 1 to 1000."),
        (lambda: PLAIN.search(GOOD, exact=1), TypeError, "exact must be True or False, not int."),
        (lambda: PLAIN.search(GOOD, exclude="abc"), TypeError, "exclude is a str, but must be a sequence of ids"),
        (lambda: PLAIN.search(GOOD, exclude=[["a"], [1], [], []]), TypeError, "exclude holds both strings and other values"),
        (lambda: PLAIN.search(GOOD, exclude=["a"]), TypeError, "exclude are strings, but those in the index are integers."),
        (lambda: PLAIN.search(GOOD, allow=[[1], [2]]), ValueError, "allow has 2 sequences of ids, but there are 4 queries."),
        (lambda: PLAIN.search(GOOD, exclude=scipy.sparse.eye_array(4).tocsr()), ValueError, "exclude is a matrix or a mask without column ids, but items in OpenSearch have no order"),
        (lambda: PLAIN.search(GOOD, allow=np.ones(4, bool)), ValueError, "allow is a matrix or a mask without column ids"),
        (lambda: PLAIN.search(GOOD, exclude=(scipy.sparse.eye_array(4).tocsr(), [1, 2])), ValueError, "exclude has shape (4, 4), but must have shape (4, 2)"),
        (lambda: PLAIN.search(GOOD, exclude=ts.Index.build(GOOD).filter(exclude=[1])), TypeError, "exclude is a filter prepared by an Index; pass the ids themselves."),
        (lambda: PLAIN.search(GOOD, where={"year": 1}), ValueError, "where names the column 'year', but there is no such column; there are none."),
        (lambda: RICH.search(GOOD, where={"yaer": 1}), ValueError, "where names the column 'yaer', but there is no such column; did you mean 'year'?"),
        (lambda: RICH.search(GOOD, where=[1]), TypeError, "where has a list where a dict of conditions is expected."),
        (lambda: RICH.search(GOOD, where={"year": "x"}), TypeError, "where['year'] compares with 'x', but the column holds finite numbers."),
        (lambda: index_of(scoring="shards", on_shards=False).search(GOOD), ValueError, "scoring is 'shards', but the index was made without OpenSearch's k-NN plugin"),
        (lambda: PLAIN.reindex(schema="x"), TypeError, "schema must be a tessella.Schema, not str."),
        (lambda: PLAIN.reindex(shards=0), ValueError, "shards is 0, but must be from 1 to 1024."),
        (lambda: PLAIN.reindex(restart="x"), TypeError, "restart must be True or False, not str."),
        (lambda: PLAIN.reindex(settings=1), TypeError, "settings must be a dict, not int."),
    ],
)  # fmt: skip
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        call()


def test_parts_of_ones_own_cannot_be_kept():
    class Signs:
        levels = 1

        def tiles(self, factors, *, threads=None):  # noqa: ARG002
            return np.sign(factors).astype(np.int8)

    index = OpenSearchIndex(CLIENT, "movies", ts.Schema(Signs(), ts.OneHot()))
    with pytest.raises(TypeError, match="tessellation is a Signs, which cannot be written as JSON"):
        index.create(item_factors=GOOD)


def test_a_cluster_that_does_not_answer_is_named():
    hasty = OpenSearchIndex(CLIENT, "movies", timeout=0.0)
    sentence = r"^OpenSearch does not answer at 127\.0\.0\.1:9: \[Errno \d+\] Connection refused\.$"
    for call in (lambda: hasty.search(GOOD), hasty.stats, hasty.drop, lambda: hasty.create(item_factors=GOOD)):
        with pytest.raises(ClusterError, match=sentence) as told:
            call()
        assert isinstance(told.value.__cause__, Unreachable)
    hasty._cluster._place = PLAIN._cluster._place
    with pytest.raises(
        WriteError, match=r"4 of 4 items were not written, among them 1: .*Connection refused"
    ) as raised:
        hasty.add(GOOD, IDS)
    assert raised.value.report == WriteReport(0)
    assert list(raised.value.failed) == IDS
    assert raised.value.n_untried == 0
