"""Reading: lists and looks up items, users and generations, and reports statistics."""

import datetime
import math
import sqlite3
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import __version__
from tessella.recommend.columns import Boolean, Category, Column, Date, Number, Several
from tessella.recommend.edition import Edition
from tessella.serve import messages
from tessella.serve.answering import Threads
from tessella.serve.calls import Answer, Call, answer, id_in, id_out, ids_in, ids_out, item_kind, user_kind
from tessella.serve.counters import STEP, Counters
from tessella.serve.messages import GenerationInfo
from tessella.serve.problems import Problem, too_large
from tessella.serve.settings import Settings
from tessella.store import EmptyError, Generation, Model, Store

TOP = 20  # most frequent values of a column that are listed
MOST_LISTED = 1_000  # items or users per page
_LARGEST_SAMPLE = 2_000
_BINS = 20


class Reading:
    """Answers requests that only read the store."""

    def __init__(self, store: Store, settings: Settings, threads: Threads, counters: Counters) -> None:
        self._store, self._settings, self._threads, self._counters = store, settings, threads, counters
        self._begun = time.monotonic()
        self._described: dict[str, tuple[Edition, Any]] = {}

    async def items(self, call: Call) -> Answer:
        """Handle GET /v1/items."""
        return await self._threads.run(call, lambda: self._items(call))

    def _items(self, call: Call) -> Answer:
        model = self._store.model(call.query.get("generation"))
        listed = call.query.get("ids")
        limit = call.number("limit", 50, 1, MOST_LISTED)
        after = call.number("after", -1, -1, 2**62)
        if listed is not None:
            asked = ids_in([one for one in listed.split(",") if one], item_kind(model))
            if len(asked) > MOST_LISTED:
                raise too_large("the number of ids", len(asked), MOST_LISTED)
            found, following = self._store.items(asked, generation=model.name), None
        else:
            query = call.query.get("query") or None
            found = self._store.list_items(after, limit, query=query, generation=model.name)
            following = found[-1].place if len(found) == limit else None
        items = [messages.Item(id_out(row.id), row.attributes or {}, row.signals or {}, row.payload) for row in found]
        return answer(messages.Items(model.name, model.version, items, following), model.name, model.version)

    async def item(self, call: Call) -> Answer:
        """Handle GET /v1/items/{id}."""
        return await self._threads.run(call, lambda: self._item(call))

    def _item(self, call: Call) -> Answer:
        model = self._store.model(call.query.get("generation"))
        item = id_in(call.params["id"], item_kind(model))
        found = self._store.items([item], generation=model.name)
        if not found:
            raise KeyError(f"there is no item with id {item!r}.")
        (row,) = found
        made = messages.Item(
            id_out(row.id),
            row.attributes or {},
            row.signals or {},
            row.payload,
            row.vector.tolist(),
            model.name,
            model.version,
        )
        return answer(made, model.name, model.version)

    async def users(self, call: Call) -> Answer:
        """Handle GET /v1/users."""
        return await self._threads.run(call, lambda: self._users(call))

    def _users(self, call: Call) -> Answer:
        model = self._store.model(call.query.get("generation"))
        limit = call.number("limit", 50, 1, MOST_LISTED)
        after = call.number("after", -1, -1, 2**62)
        query = call.query.get("query") or None
        found = self._store.list_users(after, limit, query=query, generation=model.name)
        listed = [messages.UserShort(id_out(row.id), len(row.seen or ())) for row in found]
        following = found[-1].place if len(found) == limit else None
        return answer(messages.Users(model.name, model.version, listed, following), model.name, model.version)

    async def user(self, call: Call) -> Answer:
        """Handle GET /v1/users/{id}."""
        return await self._threads.run(call, lambda: self._user(call))

    def _user(self, call: Call) -> Answer:
        model = self._store.model(call.query.get("generation"))
        edition = None if model.held is None else model.held._edition
        user = id_in(call.params["id"], user_kind(model))
        found = self._store.users([user], generation=model.name)
        if not found:
            raise KeyError(f"there is no user with id {user!r}.")
        (row,) = found
        factors: Any = None
        if row.factors is not None:
            vectors = np.frombuffer(row.factors, "<f4")
            width = vectors.size if edition is None else edition.n_factors
            factors = vectors.tolist() if vectors.size == width else vectors.reshape(-1, width).tolist()
        seen = None if row.seen is None else list(row.seen)
        titles = None
        if seen is not None and edition is not None and edition.titled:
            ids = np.array(seen) if seen else edition.version.no_ids()
            titles = edition.titles(ids.astype(object) if ids.dtype.kind == "U" else ids).tolist()
        weights = None if row.weights is None else list(row.weights)
        made = messages.User(
            model.name,
            model.version,
            id_out(row.id),
            factors,
            None if seen is None else ids_out(seen),
            weights,
            titles,
        )
        return answer(made, model.name, model.version)

    async def generations(self, call: Call) -> Answer:
        """Handle GET /v1/generations."""
        found = await self._threads.run(call, self._store.generations)
        live = next((one.name for one in found if one.live), None)
        return answer(messages.Generations(live, self._store.version, [info(one) for one in found]))

    async def stats(self, call: Call) -> Answer:
        """Handle GET /v1/stats."""
        return await self._threads.run(call, lambda: self._stats(call))

    def _stats(self, call: Call) -> Answer:
        generation = call.query.get("generation")
        try:
            model: Model | None = self._store.model(generation)
        except EmptyError:
            model = None
        edition = None if model is None or model.held is None else model.held._edition
        users = None if edition is None else edition.users
        limits = self._settings
        found = self._store.generations()
        own = next((one for one in found if model is not None and one.name == model.name), None)
        columns, signals = ([], []) if edition is None or model is None else self._about(model, edition)
        held = None if model is None else model.held
        made = messages.Stats(
            generation=None if model is None else model.name,
            version=self._store.version if edition is None else edition.number,
            writable=limits.writable,
            n_items=0 if edition is None else edition.version.n_live,
            n_users=0 if users is None else len(users),
            n_factors=0 if own is None else own.n_factors,
            n_seen=0 if users is None or users.seen is None else users.seen.n_entries,
            item_ids=None if edition is None else ("texts" if edition.version.text_ids else "whole numbers"),
            user_ids=None if users is None else ("texts" if users.ids.dtype.kind == "U" else "whole numbers"),
            memory={} if held is None else held.memory,
            nbytes=0 if held is None else held.nbytes,
            plan=None if held is None else str(held.plan).partition("\n")[0],
            plan_details=None if held is None else str(held.plan),
            stale=held is not None and bool(held.plan.stale),
            titled=edition is not None and edition.titled,
            attributes=columns,
            signals=signals,
            generations=[info(one) for one in found],
            limits={
                name: getattr(limits, name) for name in ("max_k", "max_batch", "max_filter", "max_body", "timeout")
            },
            tessella=__version__,
            sqlite=sqlite3.sqlite_version,
            workers=limits.workers,
            uptime=time.monotonic() - self._begun,
        )
        return answer(made, made.generation, made.version)

    def _about(self, model: Model, edition: Edition) -> tuple[list[messages.Column], list[messages.SignalInfo]]:
        """Describe the attributes and signals; attributes are summarised once per edition."""
        known = self._described.get(model.name)
        if known is not None and known[0].attributes is edition.attributes and known[0].signals is edition.signals:
            columns = known[1]
        else:
            attributes = edition.attributes
            columns = [] if attributes is None else [_column(name, one) for name, one in attributes.columns.items()]
            self._described[model.name] = edition, columns
        return columns, _signals(edition)

    async def scored(self, call: Call) -> Answer:
        """Handle GET /v1/scored."""
        return await self._threads.run(call, lambda: self._scored(call))

    def _scored(self, call: Call) -> Answer:
        model = self._store.model(call.query.get("generation"))
        sample = call.number("sample", 200, 1, _LARGEST_SAMPLE)
        k = call.number("k", min(10, self._settings.max_k), 1, self._settings.max_k)
        recommender = model.recommender
        users = recommender._edition.users
        if users is None or users.factors is None or not len(users):
            raise Problem(409, f"generation {model.name!r} has no users with factors to sample.")
        rows = np.linspace(0, len(users) - 1, min(sample, len(users)), dtype=np.int64)
        counts: list[NDArray[np.int64]] = []
        for first in range(0, len(rows), 64):
            call.check_time()
            some = users.ids[rows[first : first + 64]]
            counts.append(recommender.recommend(some.tolist(), k, threads=1).n_scored)
        scored = np.concatenate(counts)
        n_items = recommender._edition.version.n_live
        edges = np.linspace(0, max(1, n_items), _BINS + 1)
        if scored.max() < n_items / _BINS:  # every count would fall in the first bin: zoom in
            edges = np.linspace(0, max(1, int(scored.max())), _BINS + 1)
        made = messages.Scored(
            model.name,
            recommender.version,
            n_items,
            len(rows),
            float(scored.mean()),
            float(np.median(scored)),
            edges.tolist(),
            np.histogram(scored, edges)[0].tolist(),
        )
        return answer(made, model.name, made.version)

    async def traffic(self, call: Call) -> Answer:
        """Handle GET /v1/traffic."""
        minutes = call.number("minutes", 10, 1, 30)
        return answer(messages.Traffic(STEP, time.time(), self._counters.traffic(minutes)))


def info(one: Generation) -> GenerationInfo:
    """Convert a generation for JSON."""
    published = None if one.published is None else _time(one.published)
    return GenerationInfo(
        one.name, one.live, True, one.n_items, one.n_users, one.n_factors, one.version, _time(one.created), published
    )


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _column(name: str, column: Column) -> messages.Column:
    """Summarise a column: its range, or its most frequent values."""
    n_missing = 0 if column.present is None else int(np.count_nonzero(~column.present))
    top: list[messages.Count] = []
    low: Any = None
    high: Any = None
    n_values = 0
    if isinstance(column, Category | Several):
        codes = column.codes[column.codes >= 0] if isinstance(column, Category) else column.codes
        counts = np.bincount(codes, minlength=1)
        n_values = int(np.count_nonzero(counts))
        best = np.argsort(-counts, kind="stable")[:TOP]
        best = best[counts[best] > 0]
        top = [messages.Count(column.pool[at], int(counts[at])) for at in best.tolist()]
    elif isinstance(column, Boolean):
        counted = [(value, int(np.count_nonzero(column.codes == value))) for value in (1, 0)]
        top = [messages.Count(bool(value), count) for value, count in counted if count]
        n_values = len(top)
    elif isinstance(column, Number | Date):
        numbers = column.numbers if column.present is None else column.numbers[column.present]
        n_values = len(np.unique(numbers))
        if len(numbers):
            at = [int(np.flatnonzero(column.numbers == edge)[0]) for edge in (numbers.min(), numbers.max())]
            low, high = column.values(np.array(at))
            low, high = (None if isinstance(edge, float) and not math.isfinite(edge) else edge for edge in (low, high))
    return messages.Column(name, column.kind, n_missing, n_values, top, low, high)


def _signals(edition: Edition) -> list[messages.SignalInfo]:
    """Return the range, mean and half-life of each signal."""
    signals = edition.signals
    if signals is None or not len(signals):
        return []
    made = []
    lifetimes = {name: own.get("tau") for name, own in signals.facts().items()}
    for name, tau in lifetimes.items():
        values = signals.boost({name: 1.0}, 1)[0]
        half = None if tau is None else float.fromhex(tau) * math.log(2)
        made.append(messages.SignalInfo(name, float(values.min()), float(values.max()), float(values.mean()), half))
    return made
