"""Answering: handles recommend, similar and explain requests."""

import asyncio
import importlib
import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
import numpy as np

from tessella._threads import thread_count
from tessella.recommend.tables import Recommendations
from tessella.recommend.variety import at_most, diversify
from tessella.recommender import Recommender
from tessella.serve.calls import (
    ARROW,
    JSON,
    Answer,
    Call,
    answer,
    id_in,
    id_out,
    ids_in,
    ids_out,
    moment,
    user_kind,
    vectors_of,
)
from tessella.serve.messages import (
    PLAIN,
    RECOMMEND,
    Bound,
    Explain,
    Explained,
    Liked,
    Near,
    Plain,
    Recommend,
    Shared,
    SimilarTo,
    Slot,
)
from tessella.serve.problems import Problem, too_large
from tessella.serve.settings import Settings
from tessella.serve.together import Together
from tessella.store import Model, Store

USERS_AT_ONCE = 64  # users of a batch that are answered between two checks of the deadline
_DEFAULT_K = 10
_MANY = 100  # largest k of a request that shares a search; longer lists would delay the others
_SHORT = 64  # largest body, in bytes, that is tried as a plain request
Made = TypeVar("Made")
_WHO = ("user", "users", "vector", "vectors")


class Threads:
    """Runs work that would block the event loop, a few jobs at a time, and refuses more once the queue is full."""

    def __init__(self, waiting: int) -> None:
        self._count = max(2, thread_count(None))
        self._pool = ThreadPoolExecutor(self._count, "tessella batch")
        self._most = self._count + waiting
        self._busy = 0

    async def run(self, call: Call, work: Callable[[], Made]) -> Made:
        """Run `work` in a thread and return its result; refuse it if the queue is full."""
        if self._busy >= self._most:
            raise Problem(429, "too many batches are waiting; try again in a second.", {"Retry-After": "1"})
        self._busy += 1

        def checked() -> Made:
            call.check_time()
            return work()

        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, checked)
        finally:
            self._busy -= 1

    def close(self) -> None:
        """Wait for running work to finish, then stop the threads."""
        self._pool.shutdown(wait=True)


class Answering:
    """Answers requests from the models of a store, within the limits of the settings."""

    def __init__(self, store: Store, settings: Settings, threads: Threads) -> None:
        self._store, self._limits, self._threads = store, settings, threads
        self._together = Together()
        self._k = min(_DEFAULT_K, settings.max_k)
        self._most_together = min(_MANY, settings.max_k)

    async def recommend(self, call: Call) -> Answer:
        """Handle POST /v1/recommend."""
        plain = _plain(call)
        if plain is not None:
            k = self._k if plain.k is None else plain.k
            if k <= self._most_together:
                call.check_time()
                model = self._store.model()
                return await self._together.ask(model, id_in(plain.user, user_kind(model)), k)
        asked = RECOMMEND.decode(call.body) if call.content_type == JSON else self._from_arrow(call)
        n = self._count(asked)
        self._check(asked.k, asked.exclude, asked.allow, asked.liked, asked.like, asked.dislike, asked.where)
        held = self._held(asked.generation)
        if n == 1 and held is not None and asked.at_most is None and asked.diversify is None:
            if call.deadline < math.inf:
                call.check_time()
            return self._recommended(call, asked, held)
        return await self._threads.run(
            call, lambda: self._recommended(call, asked, held or self._store.model(asked.generation))
        )

    def _held(self, generation: str | None) -> Model | None:
        """Return the model if it is in memory, else None: loading it here would block the event loop."""
        if generation is None:
            return self._store.model()
        return next((model for model in self._store._view.models.values() if model.name == generation), None)

    def _recommended(self, call: Call, asked: Recommend, model: Model) -> Answer:
        recommender = model.recommender
        options = self._options(asked, recommender)
        k = self._k if asked.k is None else asked.k
        who: Any = None
        if asked.user is not None:
            who = id_in(asked.user, user_kind(model))
        elif asked.users is not None:
            who = ids_in(asked.users, user_kind(model))
        elif asked.vector is not None:
            who = vectors_of([asked.vector], recommender.n_factors)[0]
        elif asked.vectors is not None:
            who = vectors_of(asked.vectors, recommender.n_factors)
        if "liked" in options and isinstance(who, list):
            options["liked"] = [options["liked"]] * len(who)
        pages = asked.pages or asked.after is not None
        parts: list[Recommendations] = []
        many = (asked.users is not None or asked.vectors is not None) and not pages
        if many and len(who) > USERS_AT_ONCE:
            for first in range(0, len(who), USERS_AT_ONCE):
                call.check_time()
                parts.append(recommender.recommend(who[first : first + USERS_AT_ONCE], k, threads=1, **options))
        elif many and not len(who):
            parts = []
        else:
            parts = [recommender.recommend(who, k, threads=1, **options)]
        if len({part.version for part in parts}) > 1:  # items changed meanwhile; all lists must come from one version
            parts = [recommender.recommend(who, k, threads=1, **options)]
        named = None if who is None or asked.vector is not None or asked.vectors is not None else who
        return self._lists(call, model, parts, "user", named, asked.fields, pages=pages)

    def _options(self, asked: Recommend, recommender: Recommender) -> dict[str, Any]:
        """Return the keyword arguments for `Recommender.recommend`, without those that have its defaults."""
        options: dict[str, Any] = {}
        texts = recommender._edition.version.text_ids
        items = "U" if texts else "i"
        if asked.liked is not None:
            options = {
                "liked": _weights(asked.liked, items),
                "regularization": asked.regularization,
                "alpha": asked.alpha,
            }
        for name in ("like", "dislike", "exclude", "allow"):
            given = getattr(asked, name)
            if given is not None:
                options[name] = _listed(ids_in(given, items), texts=texts)
        for name, default in (("exclude_seen", True), ("exact", False), ("interests", "best")):
            given = getattr(asked, name)
            if given != default:
                options[name] = given
        for name in ("where", "boosts", "after"):
            given = getattr(asked, name)
            if given is not None:
                options[name] = given
        if asked.now is not None:
            options["now"] = moment(asked.now)
        if asked.at_most is not None or asked.diversify is not None:
            options["variety"] = self._variety(asked)
        return options

    def _variety(self, asked: Recommend) -> Any:
        """Return the variety rule that was asked for."""
        if asked.at_most is not None and asked.diversify is not None:
            raise Problem(422, "at_most and diversify are alternatives; pass only one of them.")
        if asked.at_most is not None:
            return at_most(asked.at_most.n, per=asked.at_most.per)
        rule = asked.diversify
        if rule is None or rule.candidates is None:
            return diversify(1.0 if rule is None else rule.weight)
        if rule.candidates > self._limits.max_filter:
            raise too_large("candidates", rule.candidates, self._limits.max_filter, "--max-filter")
        return diversify(rule.weight, candidates=rule.candidates)

    def _count(self, asked: Recommend) -> int:
        """Return the number of lists that are asked for; a batch counts as at least two."""
        given = [name for name in _WHO if getattr(asked, name) is not None]
        alike = asked.like is not None or asked.dislike is not None
        liked = asked.liked is not None and given not in (["user"], ["users"])
        if len(given) + alike + liked != 1:
            raise Problem(
                422,
                "pass exactly one of user, users, vector, vectors, liked, and like with dislike; only liked may be "
                "combined with user or users.",
            )
        many = asked.users if asked.users is not None else asked.vectors
        n = 1 if many is None else len(many)
        if n > self._limits.max_batch:
            raise too_large("the number of users", n, self._limits.max_batch, "--max-batch")
        return n if many is None else max(n, 2)  # batches run in threads, even a batch of one

    def _check(self, k: int | None, *filters: Any) -> None:
        if k is not None and k > self._limits.max_k:
            raise too_large("k", k, self._limits.max_k, "--max-k")
        size = 0
        for given in filters:
            if given is not None:
                size += _size(given, self._limits.max_filter) if isinstance(given, dict) else len(given)
        if size > self._limits.max_filter:
            raise too_large("the number of ids and values in filters", size, self._limits.max_filter, "--max-filter")

    async def similar(self, call: Call) -> Answer:
        """Handle POST /v1/similar."""
        asked = call.read(SimilarTo)
        if (asked.item is None) == (asked.items is None):
            raise Problem(422, "pass either item or items.")
        self._check(asked.k, asked.exclude, asked.allow, asked.where)
        if asked.items is not None and len(asked.items) > self._limits.max_batch:
            raise too_large("the number of items", len(asked.items), self._limits.max_batch, "--max-batch")
        return await self._threads.run(call, lambda: self._similar(call, asked))

    def _similar(self, call: Call, asked: SimilarTo) -> Answer:
        model = self._store.model(asked.generation)
        recommender = model.recommender
        texts = recommender._edition.version.text_ids
        kind = "U" if texts else "i"
        items: Any = id_in(asked.item, kind) if asked.item is not None else ids_in(asked.items or [], kind)
        options = {
            name: _listed(ids_in(given, kind), texts=texts)
            for name, given in (("exclude", asked.exclude), ("allow", asked.allow))
            if given is not None
        }
        k = self._k if asked.k is None else asked.k
        parts = []
        if asked.item is not None or items:
            parts = [
                recommender.similar(
                    items, k, metric=asked.metric, where=asked.where, exact=asked.exact, threads=1, **options
                )
            ]
        return self._lists(call, model, parts, "item", items, asked.fields, pages=None)

    def _lists(
        self,
        call: Call,
        model: Model,
        parts: list[Recommendations],
        who: str,
        named: Any,
        fields: list[str] | None,
        *,
        pages: bool | None,
    ) -> Answer:
        """Return the lists as JSON or Arrow, as the request accepts."""
        edition = model.recommender._edition
        version = parts[0].version if parts else edition.number
        cursor = parts[0].next if pages and parts else None
        arrow = ARROW in call.accept
        lists: list[dict[str, Any]] = []
        names = [named] if named is not None and parts and parts[0].ids.ndim == 1 else named
        for part in parts:
            columns = [array.tolist() for array in (part.ids, part.scores, part.n_scored, part.certified)]
            if part.ids.ndim == 1:
                columns = [[column] for column in columns]
            for ids, scores, scored, certified in zip(*columns, strict=True):
                if scores and scores[-1] == -math.inf:
                    left = sum(score > -math.inf for score in scores)
                    ids, scores = ids[:left], scores[:left]  # noqa: PLW2901
                made: dict[str, Any] = {"ids": ids if arrow else ids_out(ids), "scores": scores}
                made |= {"scored": scored, "certified": certified}
                if names is not None:
                    made[who] = names[len(lists)] if arrow else id_out(names[len(lists)])
                if fields:
                    made["fields"] = self._fields(model, ids, fields)
                lists.append(made)
        head = {"generation": model.name, "version": version, "n_items": edition.version.n_live}
        if arrow:
            return _as_arrow(head | {"next": cursor}, lists, who)
        message = head | {"lists": lists}
        return answer(message if pages is None else message | {"next": cursor}, model.name, version)

    def _fields(self, model: Model, ids: list[Any], fields: list[str]) -> list[dict[str, Any]]:
        """Return the requested fields of each item, from its attributes and its payload."""
        edition = model.recommender._edition
        known = () if edition.attributes is None else edition.attributes.names
        every = "*" in fields
        columns = known if every else [name for name in fields if name in known]
        others = [name for name in fields if name not in known and name != "*"]
        made: list[dict[str, Any]] = [{} for _ in ids]
        if columns and edition.attributes is not None and ids:
            entries = edition.entries_of(np.array(ids))
            there = np.flatnonzero(entries >= 0).tolist()
            for name in columns:
                for at, value in zip(there, edition.attributes.values(name, entries[there]), strict=True):
                    made[at][name] = value
        if others or every:
            payloads = self._store.payloads(ids, generation=model.name)
            for own, item in zip(made, ids, strict=True):
                payload = payloads.get(item)
                told = payload if isinstance(payload, dict) else {}
                own.update(told if every else {name: told.get(name) for name in others})
        return made

    async def explain(self, call: Call) -> Answer:
        """Handle POST /v1/explain."""
        asked = call.read(Explain)
        if asked.users is not None or asked.vectors is not None:
            raise Problem(422, "explain takes one user at a time; pass user or vector.")
        self._count(asked)
        self._check(asked.k, asked.exclude, asked.allow, asked.liked, asked.like, asked.dislike, asked.where)
        return await self._threads.run(call, lambda: self._explained(asked))

    def _explained(self, asked: Explain) -> Answer:
        model = self._store.model(asked.generation)
        recommender = model.recommender
        who: Any = None
        if asked.user is not None:
            who = id_in(asked.user, user_kind(model))
        elif asked.vector is not None:
            who = vectors_of([asked.vector], recommender.n_factors)[0]
        k = self._k if asked.k is None else asked.k
        version = recommender.version
        item = id_in(asked.item, "U" if recommender._edition.version.text_ids else "i")
        reason = recommender.explain(who, item, k, **self._options(asked, recommender))
        search = reason.search
        tile = search.tile
        made = Explained(
            generation=model.name,
            version=version,
            item=id_out(reason.item),
            title=reason.title,
            score=reason.score,
            parts=reason.parts,
            recommended=reason.recommended,
            place=search.place,
            rank=search.rank,
            n_items=search.n_items,
            n_left=search.n_left,
            rank_left=search.rank_left,
            last_score=search.last_score if math.isfinite(search.last_score) else None,
            method=search.method,
            left_out_by=list(reason.left_out_by),
            near=[Near(id_out(near), title, cosine) for near, title, cosine in reason.near],
            slots=Shared(
                len(search.query_slots),
                len(search.item_slots),
                search.used_slots,
                [Slot(*one) for one in search.shared],
                search.partial_score,
                search.candidate_rank,
                search.budget,
            ),
            tile=None if tile is None else Bound(tile.centre_score, tile.spread, tile.reach, tile.believed),
            sentences=list(reason.sentences),
        )
        return answer(made, model.name, version)

    def _from_arrow(self, call: Call) -> Recommend:
        """Read an Arrow request: a column of users or vectors, and the other options as JSON in the metadata."""
        if call.content_type != ARROW:
            raise Problem(415, f"Content-Type is {call.content_type or 'missing'}, but must be {JSON} or {ARROW}.")
        table = arrow_table(call.body)
        told = (table.schema.metadata or {}).get(b"request", b"{}")
        asked = RECOMMEND.decode(told)
        for column, name in (("user", "users"), ("vector", "vectors")):
            if column in table.column_names:
                if table.num_rows > self._limits.max_batch:
                    raise too_large("the number of users", table.num_rows, self._limits.max_batch, "--max-batch")
                setattr(asked, name, table.column(column).to_pylist())
        return asked


def _weights(liked: list[Any], kind: str) -> dict[Any, float]:
    """Return the weight of each liked item."""
    weights: dict[Any, float] = {}
    for one in liked:
        item, weight = (one.item, one.weight) if isinstance(one, Liked) else (one, 1.0)
        item = id_in(item, kind)
        if item in weights:
            raise Problem(422, f"liked holds {item!r} more than once.")
        weights[item] = weight
    return weights


def _listed(ids: list[Any], *, texts: bool) -> Any:
    """Return the ids; an empty list becomes an array whose dtype still tells text ids from integer ids."""
    return ids or np.zeros(0, np.str_ if texts else np.int64)


def _plain(call: Call) -> Plain | None:
    """Return a request that holds only a user and k; None for any other or malformed request."""
    if len(call.body) > _SHORT or call.content_type != JSON or ARROW in call.accept:
        return None
    try:
        return PLAIN.decode(call.body)
    except msgspec.DecodeError:
        return None


def _size(where: Any, most: int) -> int:
    """Count the values of a condition at any depth, and stop once there are more than `most`."""
    waiting, count = [where], 0
    while waiting and count <= most:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        else:
            count += 1
    return count


def pyarrow() -> Any:
    """Import and return pyarrow."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise Problem(415, "Arrow needs pyarrow, which the service does not have installed; send JSON.") from None


def arrow_table(body: bytes) -> Any:
    """Read the table of an Arrow stream."""
    arrow = pyarrow()
    try:
        with arrow.ipc.open_stream(body) as stream:
            return stream.read_all()
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise Problem(400, f"the body is not an Arrow stream: {error}.") from None


def _as_arrow(head: dict[str, Any], lists: list[dict[str, Any]], who: str) -> Answer:
    arrow = pyarrow()

    def ids_type(values: list[Any]) -> Any:
        return arrow.string() if any(isinstance(value, str) for value in values) else arrow.int64()

    columns = {
        who: arrow.array(names := [own.get(who) for own in lists], ids_type(names)),
        "ids": arrow.array(
            listed := [own["ids"] for own in lists], arrow.list_(ids_type([item for ids in listed for item in ids]))
        ),
        "scores": arrow.array([own["scores"] for own in lists], arrow.list_(arrow.float32())),
        "scored": arrow.array([own["scored"] for own in lists], arrow.int64()),
        "certified": arrow.array([own["certified"] for own in lists], arrow.bool_()),
    }
    told = {name: json.dumps(value) if value is None else str(value) for name, value in head.items()}
    table = arrow.table(columns).replace_schema_metadata(told)
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    headers = (
        (b"tessella-generation", str(head["generation"]).encode()),
        (b"tessella-version", str(head["version"]).encode()),
    )
    return Answer(sink.getvalue().to_pybytes(), 200, ARROW.encode(), headers)
