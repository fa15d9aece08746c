"""OpenSearchIndex: the public class for items in a cluster."""

import functools
import re
import warnings
from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from opensearchpy import OpenSearch, TransportError

from tessella import _checks
from tessella._kernels import levels_to_the_caller
from tessella.index import DEFAULT_SCHEMA
from tessella.jobs.progress import bar
from tessella.mapping.schema import Schema
from tessella.mapping.sparse_map import SparseMap
from tessella.opensearch import fields, reindexing
from tessella.opensearch.cluster import Cluster
from tessella.opensearch.conditions import filter_of
from tessella.opensearch.documents import item_ids, short_enough, texts_of
from tessella.opensearch.filters import lists_of
from tessella.opensearch.layout import Layout, Place
from tessella.opensearch.patience import in_plain_words
from tessella.opensearch.searching import Search
from tessella.opensearch.stats import Stats
from tessella.opensearch.writing import Addition, Change, Removal, Replacement, WriteReport, write
from tessella.recommend.attributes import Attributes
from tessella.recommend.reading import named_columns
from tessella.results import SearchResult
from tessella.retrieval.plan import BUDGET_PER_ANSWER, MAX_SLOTS

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_LONGEST_NAME = 200  # characters; index names may have 255 bytes, and we append to them
_PLUGIN = "opensearch-knn"
_MOST_SHARDS = 1024
_MOST_SLOTS = 1000  # OpenSearch allows 1,024 clauses in a query, including filters


P = ParamSpec("P")
T = TypeVar("T")


def _plainly(
    method: Callable[Concatenate["OpenSearchIndex", P], T],
) -> Callable[Concatenate["OpenSearchIndex", P], T]:
    """The method, which says in one sentence what the client of OpenSearch raises."""

    @functools.wraps(method)
    def asked(self: "OpenSearchIndex", /, *arguments: P.args, **options: P.kwargs) -> T:
        try:
            return method(self, *arguments, **options)
        except TransportError as error:
            raise in_plain_words(error, self.name, self._cluster.client) from error

    return asked


class OpenSearchIndex:
    """An index of items in an OpenSearch cluster, sharded and replicated, searched by slots.

    Every item is a document. Its slots are `rank_features`, so a search is a query of the inverted index; the shards
    then score the best items by inner product. With the same schema and budget, it finds what
    `Index.search(method=Slots(budget))` finds. Attributes are ordinary fields. Any number of clients may write and
    search at the same time.

    Parameters
    ----------
    client : opensearchpy.OpenSearch
        A client for the cluster. Give it several nodes, so that requests continue when one is lost.
    name : str
        The alias of the index, in lower case.
    schema : Schema, default None
        How `create` turns factors into sparse vectors; None is Schema(Ternary(), OneHot(), threshold=2.5,
        rotation="principal"). For an existing index, leave it None or pass the schema that the index has.
    scoring : {"auto", "shards", "client"}, default "auto"
        Where exact scores are computed: on the shards, which needs OpenSearch's k-NN plugin, or in this process, which
        fetches the factors of up to `budget` items per query and takes several times as long. "auto" chooses the
        shards if the plugin was installed when the index was made. Clients of one index may differ.
    timeout : float, default 60.0
        For how many seconds to repeat requests that fail for a temporary reason, such as a lost node, the election of a
        cluster manager, or a full queue.

    Examples
    --------
    >>> import numpy as np
    >>> from opensearchpy import OpenSearch, TransportError
    >>> from tessella.opensearch import OpenSearchIndex
    >>> client = OpenSearch(["http://127.0.0.1:9200", "http://127.0.0.1:9201"])
    >>> index = OpenSearchIndex(client, "movies")
    >>> index
    OpenSearchIndex('movies')

    The following calls need a running cluster.

    >>> index.create(shards=2, replicas=1, item_factors=np.eye(4))  # doctest: +SKIP
    >>> index.add(np.eye(4), ids=[10, 11, 12, 13], refresh=True)  # doctest: +SKIP
    WriteReport(n_written=4, missing=(), n_repeated=0)
    >>> ids, scores = index.search([4.0, 3.0, 2.0, 1.0], k=2)  # doctest: +SKIP
    >>> ids, scores  # doctest: +SKIP
    (array([10, 11]), array([4., 3.], dtype=float32))
    >>> index.remove([10], refresh=True)  # doctest: +SKIP
    WriteReport(n_written=1, missing=(), n_repeated=0)
    >>> index.search([4.0, 3.0, 2.0, 1.0], k=2).ids  # doctest: +SKIP
    array([11, 12])
    """

    def __init__(
        self,
        client: OpenSearch,
        name: str,
        schema: Schema | None = None,
        *,
        scoring: Literal["auto", "shards", "client"] = "auto",
        timeout: float = 60.0,
    ) -> None:
        if not isinstance(client, OpenSearch):
            raise TypeError(f"client must be an opensearchpy.OpenSearch, not {type(client).__name__}.")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise ValueError(
                f"name is {name!r}, but must be at most {_LONGEST_NAME} lower-case letters, digits, '-', '_' and '.', "
                "starting with a letter or digit."
            )
        if schema is not None and not isinstance(schema, Schema):
            raise TypeError(f"schema must be a tessella.Schema, not {type(schema).__name__}.")
        self._schema = schema
        self._scoring = _checks.one_of(scoring, "scoring", ("auto", "shards", "client"))
        self._cluster = Cluster(client, name, _checks.number_at_least(timeout, "timeout", 0.0))

    @_plainly
    def create(
        self,
        shards: int = 1,
        replicas: int = 1,
        *,
        item_factors: ArrayLike,
        attributes: Any = None,
        text_ids: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Make an empty index; `add` stores items in it.

        The call returns when all copies of all shards are allocated, and warns if some cannot be.

        Parameters
        ----------
        shards : int, default 1
            How many shards to split the items into. A shard is searched by one thread at a time, and should stay below
            some tens of gigabytes. `reindex` can change it.
        replicas : int, default 1
            How many further copies of each shard to keep on other nodes. With 1, the loss of a node loses no items and
            stops no searches. Each copy takes the space again and adds search throughput. `reindex` can change it.
        item_factors : array_like of shape (n, n_factors)
            Items, or a representative sample of some thousands, from which the schema learns its scale and axes.
        attributes : dict, or table of pandas, polars or Arrow, default None
            Columns of all or some items, from which the names and types of fields are taken; None for no attributes.
            The kinds are those of `Recommender.build`. Integers become long, floats float or double, strings keyword.
        text_ids : bool, default False
            Whether ids of items are strings. Otherwise they are integers.
        settings : dict, default None
            Other index settings of OpenSearch by name, such as {"index.refresh_interval": "5s"}.
        """
        n_shards = _checks.whole_number(shards, "shards", 1, _MOST_SHARDS)
        n_replicas = _checks.whole_number(replicas, "replicas", 0)
        _checks.true_or_false(text_ids, "text_ids")
        _check_settings(settings)
        factors = _item_factors(item_factors)
        columns = _columns(attributes)
        sparse_map = SparseMap(self._schema or DEFAULT_SCHEMA).fit(factors)
        layout = Layout(sparse_map, columns, bool(text_ids), on_shards=False)
        layout.meta()  # refuses a layout that is too large
        if self._cluster.find() is not None:
            raise ValueError(f"the index {self.name!r} already exists; use it, reindex() it, or drop() it first.")
        layout = Layout(sparse_map, columns, bool(text_ids), on_shards=self._has_plugin())
        place = reindexing.create(self._cluster, layout, n_shards, n_replicas, settings or {}, visible=True)
        self._cluster.forget()
        self._wait_for_copies(place)

    @_plainly
    def add(
        self,
        item_factors: ArrayLike,
        ids: ArrayLike,
        *,
        attributes: Any = None,
        refresh: bool = False,
        progress: bool | None = None,
    ) -> WriteReport:
        """Add items; an item that already exists is replaced.

        Items are sent in batches. A batch that fails for a temporary reason is sent again. After an interruption,
        repeat the call.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors)
            Finite numbers.
        ids : array_like of shape (n,)
            Unique integers or strings, of the kind that the index has. Strings have 1 to 512 bytes.
        attributes : dict, or table of pandas, polars or Arrow, default None
            Columns with a value for each item; required if the index has attributes.
        refresh : bool, default False
            Whether searches must find the items as soon as the call returns. Otherwise they do within a second, unless
            "index.refresh_interval" says otherwise. A refresh takes time, so do it once after many items.
        progress : bool, default None
            Whether to show a progress bar on stderr; None shows it in a terminal.

        Returns
        -------
        report : WriteReport
            How many items were written.

        Raises
        ------
        WriteError
            If some items were not written; its `report` and `failed` say which.
        """
        layout = self._place().layout
        factors = _item_factors(item_factors, layout.n_factors)
        checked = item_ids(ids, len(factors), layout)
        values = _values(attributes, len(factors), layout, needed=True)
        return self._write(Addition(texts_of(checked, layout), factors, values), checked, refresh, progress)

    @_plainly
    def update(
        self,
        item_factors: ArrayLike | None,
        ids: ArrayLike,
        *,
        attributes: Any = None,
        refresh: bool = False,
        progress: bool | None = None,
    ) -> WriteReport:
        """Change the factors or attributes of existing items, or both.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors), or None
            Finite numbers; None leaves the factors as they are.
        ids : array_like of shape (n,)
            Unique ids. Ids that are not in the index fail; the others are written.
        attributes : dict, or table of pandas, polars or Arrow, default None
            All columns, with a value for each item; None leaves them as they are.
        refresh, progress
            As for `add`.

        Returns
        -------
        report : WriteReport
            How many items were written.

        Raises
        ------
        WriteError
            If some items were not written; its `report` and `failed` say which.
        """
        layout = self._place().layout
        if item_factors is None and attributes is None:
            raise ValueError("item_factors and attributes are both None, so there is nothing to update.")
        factors = None if item_factors is None else _item_factors(item_factors, layout.n_factors)
        checked = item_ids(ids, None if factors is None else len(factors), layout)
        values = _values(attributes, len(checked), layout, needed=False)
        return self._write(Replacement(texts_of(checked, layout), factors, values), checked, refresh, progress)

    @_plainly
    def remove(self, ids: ArrayLike, *, refresh: bool = False, progress: bool | None = None) -> WriteReport:
        """Remove items.

        Parameters
        ----------
        ids : array_like of shape (n,)
            Unique ids. The report names those that were not in the index.
        refresh, progress
            As for `add`.

        Returns
        -------
        report : WriteReport
            How many items were removed, and which were missing.

        Raises
        ------
        WriteError
            If some items were not removed; its `report` and `failed` say which.
        """
        layout = self._place().layout
        checked = item_ids(ids, None, layout)
        return self._write(Removal(texts_of(checked, layout)), checked, refresh, progress)

    @_plainly
    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        budget: int | None = None,
        max_slots: int | None = None,
        exact: bool = False,
        exclude: Any = None,
        allow: Any = None,
        where: Any = None,
    ) -> SearchResult:
        """Find each query's top k items by inner product.

        Queries are sent a hundred at a time. All items that pass the filters are scored if slots find fewer than k
        items, or if `allow` or `where` leave at most `budget` items, or 256 if that is more.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors) or (n_factors,)
            User factors.
        k : int, default 10
            How many items to return, from 1 to 10,000. If there are fewer, the rest have id -1 (None for text ids) and
            score -inf.
        budget : int, default None
            How many items to score per query, over all shards; at least k. More finds more of the true top k and takes
            longer. None is 40 * k. The limit is 10,000 per shard.
        max_slots : int, default None
            How many of a query's slots to use, largest values first. More rank items better and take longer. None is
            24; the limit is 1,000.
        exact : bool, default False
            Score all items that pass the filters, which takes time in proportion to their number.
        exclude : ids, list of n_queries sequences of ids, or (matrix, column_ids), default None
            Items that must not be returned, such as those a user has seen. A flat sequence of ids applies to all
            queries; a list of sequences has one per query. A SciPy sparse matrix or a bool mask needs the ids of its
            columns. Unknown ids are ignored.
        allow : ids, list of n_queries sequences of ids, or (matrix, column_ids), default None
            The only items that may be returned.
        where : dict, default None
            A condition on attributes, as for `Recommender.recommend`; the engine evaluates it.

        Returns
        -------
        found : SearchResult
            ids, scores, n_scored, certified; unpacks as ids, scores. Scores are inner products in float32, computed as
            in `Index`. They descend; among equal scores, the smaller id comes first. `n_scored` is an upper bound on
            the number of items scored. No result is certified. A query of zeros returns arbitrary items with score 0.
        """
        place = self._place()
        layout = place.layout
        array = _checks.numbers(queries, "queries")
        single = array.ndim == 1
        asked = _checks.all_factors(array[None] if single else array, "queries", layout.n_factors)
        norms = short_enough(asked, "queries")
        _checks.true_or_false(exact, "exact")
        on_shards = self._on_shards(layout)
        wanted = _checks.whole_number(k, "k", 1, place.window)
        most = place.window * (place.n_shards if on_shards else 1)
        usual = min(BUDGET_PER_ANSWER * wanted, most)
        chosen = usual if budget is None else _checks.whole_number(budget, "budget", 1, most)
        slots = MAX_SLOTS if max_slots is None else _checks.whole_number(max_slots, "max_slots", 1, _MOST_SLOTS)
        if where is not None:
            filter_of(where, layout.columns)  # refuses a bad condition before any request
        found = Search(
            self._cluster,
            asked,
            norms,
            wanted,
            max(chosen, wanted),
            min(slots, layout.n_factors),
            on_shards,
            None if exclude is None else lists_of(exclude, "exclude", len(asked), layout),
            None if allow is None else lists_of(allow, "allow", len(asked), layout),
            where,
        ).answered(exact=bool(exact))
        return SearchResult(*(array[0] for array in found.arrays().values())) if single else found

    @_plainly
    def reindex(
        self,
        *,
        schema: Schema | None = None,
        item_factors: ArrayLike | None = None,
        shards: int | None = None,
        replicas: int | None = None,
        settings: dict[str, Any] | None = None,
        restart: bool = False,
        progress: bool | None = None,
    ) -> None:
        """Refit the index, or change its schema, shards or replicas, while searches and writes continue.

        Items are copied to a new OpenSearch index, which then replaces the old one; this takes twice the space for a
        while. Items that change meanwhile are copied again. Writes wait briefly at the end, and none is lost. If the
        call fails or is interrupted, the index stays as it was.

        Parameters
        ----------
        schema : Schema, default None
            The new schema; None keeps the current one.
        item_factors : array_like of shape (n, n_factors), default None
            Items, or a sample, from which the schema learns its scale and axes; None takes up to 50,000 from the index.
        shards, replicas : int, default None
            As for `create`; None keeps the current number.
        settings : dict, default None
            Other settings of the new OpenSearch index; those of the old one are not copied.
        restart : bool, default False
            Whether to discard what a killed call has left behind, and start again. Without it, the call is refused
            while another may be running.
        progress : bool, default None
            Whether to show a progress bar on stderr; None shows it in a terminal.
        """
        n_shards = None if shards is None else _checks.whole_number(shards, "shards", 1, _MOST_SHARDS)
        n_replicas = None if replicas is None else _checks.whole_number(replicas, "replicas", 0)
        _checks.true_or_false(restart, "restart")
        _check_settings(settings)
        if schema is not None and not isinstance(schema, Schema):
            raise TypeError(f"schema must be a tessella.Schema, not {type(schema).__name__}.")
        self._cluster.forget()
        old = self._place()
        factors = None if item_factors is None else _item_factors(item_factors, old.layout.n_factors)
        if restart:
            reindexing.abandon(self._cluster)
            old = self._place()
        elif old.journal is not None:
            raise reindexing.under_way(self._cluster)
        if old.blocks:
            raise ValueError(f"the index {self.name!r} has the setting {old.blocks[0]}; take it back to reindex.")

        def make() -> Place:
            wanted = old.layout.schema if schema is None else schema
            fitted = SparseMap(wanted)
            fitted.fit(reindexing.sample(self._cluster, old) if factors is None else factors)
            return reindexing.create(
                self._cluster,
                Layout(fitted, old.layout.columns, old.layout.text_ids, self._has_plugin()),
                old.n_shards if n_shards is None else n_shards,
                old.n_replicas if n_replicas is None else n_replicas,
                settings or {},
                visible=False,
            )

        with bar(self.stats().n_items, "Copying", shown=progress) as moved:
            reindexing.reindex(self._cluster, old, make, moved)

    @_plainly
    def refresh(self) -> None:
        """Make everything written so far visible to searches."""
        client = self._cluster.client
        self._cluster.at_place(lambda place: client.indices.refresh(index=place.index))

    @_plainly
    def stats(self) -> Stats:
        """Return the number of items, their size on disk, and the health of the index."""
        client = self._cluster.client

        def ask(place: Place) -> Stats:
            said = client.indices.stats(index=place.index, metric="docs,store")["_all"]
            health = client.cluster.health(index=place.index)["status"]
            documents = said["primaries"].get("docs", {"count": 0, "deleted": 0})
            return Stats(
                place.index,
                health,
                documents["count"],
                documents["deleted"],
                place.n_shards,
                place.n_replicas,
                said["primaries"].get("store", {}).get("size_in_bytes", 0),
                said["total"].get("store", {}).get("size_in_bytes", 0),
                place.journal is not None,
            )

        self._cluster.forget()
        return self._cluster.at_place(ask)

    @_plainly
    def drop(self) -> None:
        """Delete the index with all its items."""
        self._place()
        reindexing.drop(self._cluster, reindexing.own_indexes(self._cluster))
        self._cluster.forget()

    @property
    def name(self) -> str:
        """The alias of the index."""
        return self._cluster.name

    @property
    def schema(self) -> Schema:
        """How factors become sparse vectors."""
        return self._place().layout.schema

    @property
    def n_factors(self) -> int:
        """How many coordinates a factor has."""
        return self._place().layout.n_factors

    def __repr__(self) -> str:
        return f"OpenSearchIndex({self.name!r})"

    @_plainly
    def _place(self) -> Place:
        """Return where the items are; on first use, check that a given schema is that of the index."""
        place = self._cluster.place()
        given, self._schema = self._schema, None
        if given is not None and given != place.layout.schema:
            self._schema = given
            raise ValueError(
                f"the index {self.name!r} has the schema {place.layout.schema}, but {given} was passed; leave it out, "
                "or change the schema with reindex(schema=)."
            )
        return place

    def _write(self, change: Change, ids: NDArray[Any], refresh: bool, progress: bool | None) -> WriteReport:
        _checks.true_or_false(refresh, "refresh")
        with bar(len(ids), "Writing", shown=progress) as moved:
            report = write(self._cluster, change, ids.tolist(), moved)
        if refresh:
            self.refresh()
        return report

    def _has_plugin(self) -> bool:
        """Return whether all nodes have the k-NN plugin; without it, clients compute the scores."""
        client = self._cluster.client
        listed = self._cluster.patiently(lambda: client.cat.plugins(params={"format": "json", "h": "name,component"}))
        nodes = self._cluster.patiently(lambda: client.cat.nodes(params={"format": "json", "h": "name"}))
        having = {plugin["name"] for plugin in listed if plugin["component"] == _PLUGIN}
        return {node["name"] for node in nodes} <= having

    def _on_shards(self, layout: Layout) -> bool:
        if self._scoring == "shards" and not layout.on_shards:
            raise ValueError(
                "scoring is 'shards', but the index was made without OpenSearch's k-NN plugin; install it and "
                "reindex(), or pass scoring='client'."
            )
        return layout.on_shards and self._scoring != "client"

    def _wait_for_copies(self, place: Place) -> None:
        """Wait for all copies of all shards, because an item with a single copy is lost with its node."""
        said = self._cluster.patiently(lambda: self._cluster.client.cluster.health(index=place.index))
        too_few = said["number_of_data_nodes"] <= place.n_replicas
        answer = said if too_few else self._cluster.health(place.index, "green")
        if answer["status"] != "green":
            warnings.warn(
                f"the index {self.name!r} is {answer['status']}: {answer['unassigned_shards']} of its "
                f"{place.n_shards * (1 + place.n_replicas)} shard copies have no node; use fewer replicas, or as many "
                "nodes as copies of a shard.",
                UserWarning,
                stacklevel=levels_to_the_caller(),
            )


def _item_factors(given: ArrayLike, n_factors: int | None = None) -> NDArray[np.float32]:
    factors = _checks.item_factors(given, n_factors)
    short_enough(factors, "item_factors")
    return factors


def _columns(attributes: Any) -> Attributes:
    """Return a template with the names and kinds of the columns that a caller passed."""
    if attributes is None:
        return Attributes({}, 1)
    named = dict(named_columns(attributes, "attributes"))
    fields.check_names(named)
    n = next((len(column) for column in named.values() if hasattr(column, "__len__")), 1)
    if not n:
        raise ValueError("attributes has 0 rows, but at least 1 is needed to learn the types of the columns.")
    return fields.of_description(fields.described(Attributes.of(attributes, n)))


def _values(attributes: Any, n: int, layout: Layout, *, needed: bool) -> list[fields.Values] | None:
    """Return the attributes that a caller passed, one by one."""
    names = layout.columns.names
    if attributes is None:
        if needed and names:
            raise ValueError(
                f"attributes are missing, but items in the index have {', '.join(names)}; pass these columns, with "
                "None for unknown values."
            )
        return None
    if not names:
        raise ValueError("attributes were passed, but the index has none; make one that does with create(attributes=).")
    return fields.read(attributes, n, layout.columns)


def _check_settings(settings: object) -> None:
    if settings is not None and not isinstance(settings, dict):
        raise TypeError(f"settings must be a dict, not {type(settings).__name__}.")
