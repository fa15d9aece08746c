"""Writing: applies changes from requests to the store. Changes that wait together share one commit."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from tessella import _checks
from tessella.serve import messages
from tessella.serve.answering import Threads, arrow_table
from tessella.serve.calls import ARROW, Answer, Call, answer, id_in, ids_in, item_kind, user_kind
from tessella.serve.messages import (
    Changed,
    Ids,
    ItemBody,
    ItemOne,
    NewGeneration,
    PutItems,
    PutUsers,
    UserBody,
    UserOne,
)
from tessella.serve.problems import Problem, too_large
from tessella.serve.settings import Settings
from tessella.store import Change, EmptyError, ItemInput, Store, UserInput

MOST_WAITING = 1_000  # changes in the queue
MOST_ROWS = 10_000  # rows of one change
SNAPSHOT_EVERY = 300.0  # seconds between two snapshots
Made = TypeVar("Made")


class Writing:
    """Applies changes from requests, several in one commit.

    Parameters
    ----------
    store : Store
        The store, open for writing.
    settings : Settings
        The limits.
    threads : Threads
        Run slow work such as publishing.
    """

    def __init__(self, store: Store, settings: Settings, threads: Threads) -> None:
        self._store, self._settings, self._threads = store, settings, threads
        self._waiting: list[tuple[Change, asyncio.Future[int]]] = []
        self._more = threading.Condition()
        self._ending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="tessella writer", daemon=True)
        self._thread.start()
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep_snapshot, name="tessella snapshots", daemon=True)
        self._keeper.start()

    async def _apply(self, call: Call, change: Change) -> int:
        """Queue a change and return the store's version once it is on disk."""
        call.check_time()
        if len(self._waiting) >= MOST_WAITING:
            raise Problem(429, "too many changes are waiting; try again in a second.", {"Retry-After": "1"})
        self._loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = self._loop.create_future()
        with self._more:
            if self._ending:
                raise Problem(503, "the service is shutting down.", {"Retry-After": "5"})
            self._waiting.append((change, done))
            self._more.notify()
        return await done

    def _work(self) -> None:
        while True:
            with self._more:
                while not self._waiting and not self._ending:
                    self._more.wait()
                if not self._waiting:
                    return
                some, self._waiting = self._waiting, []
            try:
                outcomes: list[int | Exception] = self._store.apply([change for change, _ in some])
            except Exception as error:  # noqa: BLE001 - passed on to every change of the batch
                outcomes = [error] * len(some)
            if self._loop is not None:
                self._loop.call_soon_threadsafe(_tell, [done for _, done in some], outcomes)

    def _keep_snapshot(self) -> None:
        while not self._stop.wait(SNAPSHOT_EVERY):
            self._store.snapshot()

    def close(self) -> None:
        """Apply the accepted changes, then stop."""
        with self._more:
            self._ending = True
            self._more.notify()
        self._thread.join()
        self._stop.set()
        self._keeper.join()

    # Items

    async def put_items(self, call: Call) -> Answer:
        """Handle PUT /v1/items."""
        told = self._items_from_arrow(call) if call.content_type == ARROW else call.read(PutItems)
        return await self._put_items(call, told.items, told.generation)

    async def put_item(self, call: Call) -> Answer:
        """Handle PUT /v1/items/{id}."""
        told = call.read(ItemBody)
        one = ItemOne(
            call.params["id"], told.factors, told.like, told.liked_by, told.attributes, told.signals, told.payload
        )
        return await self._put_items(call, [one], told.generation)

    async def _put_items(self, call: Call, told: list[ItemOne], generation: str | None) -> Answer:
        self._check_rows(len(told))
        model = self._store.model(generation)
        kind = item_kind(model)
        made = []
        for one in told:
            ways = [one.factors is not None, one.like is not None, one.liked_by is not None]
            if sum(ways) > 1:
                raise Problem(
                    422, f"item {one.id!r} has more than one of factors, like and liked_by; pass one of them."
                )
            factors: Any = one.factors
            if one.like is not None:
                held = model.recommender._edition
                ids = ids_in(one.like, kind)
                if not ids:
                    raise Problem(422, f"item {one.id!r} has an empty like; name at least one item.")
                factors = held.item_vectors(_checks.ids(ids, None, unique=False, name="like")).mean(axis=0)
            if one.liked_by is not None:
                recommender = model.recommender
                users = recommender._edition.known_users()
                factors = recommender.fold_in_item(ids_in(one.liked_by, users.ids.dtype.kind))
            input_ = ItemInput(id_in(one.id, kind), factors, one.attributes, one.signals)
            made.append(input_ if one.payload is UNSET else input_._replace(payload=one.payload))
        items = None if model.held is None else model.held._edition.version
        there = 0 if items is None else _count_found([one.id for one in made], items.find, texts=items.text_ids)
        version = await self._apply(call, Change(items=made, generation=model.name))
        return answer(Changed(model.name, version, added=len(made) - there, updated=there), model.name, version)

    async def delete_items(self, call: Call) -> Answer:
        """Handle DELETE /v1/items."""
        told = call.read(Ids)
        return await self._delete(call, "items", told.ids, told.generation)

    async def delete_item(self, call: Call) -> Answer:
        """Handle DELETE /v1/items/{id}."""
        return await self._delete(call, "items", [call.params["id"]], call.query.get("generation"))

    async def _delete(self, call: Call, what: str, given: list[Any], generation: str | None) -> Answer:
        self._check_rows(len(given))
        model = self._store.model(generation)
        ids = ids_in(given, item_kind(model) if what == "items" else user_kind(model))
        change = Change(remove_items=ids, generation=model.name)
        if what == "users":
            change = Change(remove_users=ids, generation=model.name)
        version = await self._apply(call, change)
        return answer(Changed(model.name, version, removed=len(ids)), model.name, version)

    def _check_rows(self, n: int) -> None:
        if n > MOST_ROWS:
            raise too_large("the number of rows", n, MOST_ROWS)

    # Users

    async def put_users(self, call: Call) -> Answer:
        """Handle PUT /v1/users."""
        told = self._users_from_arrow(call) if call.content_type == ARROW else call.read(PutUsers)
        return await self._put_users(call, told.users, told.generation)

    async def put_user(self, call: Call) -> Answer:
        """Handle PUT /v1/users/{id}."""
        told = call.read(UserBody)
        one = UserOne(call.params["id"], told.factors, told.liked, told.seen, told.weights)
        return await self._put_users(call, [one], told.generation)

    async def _put_users(self, call: Call, told: list[UserOne], generation: str | None) -> Answer:
        self._check_rows(len(told))
        model = self._store.model(generation)
        items, users = item_kind(model), user_kind(model)
        made = []
        for one in told:
            factors: Any = one.factors
            if one.liked is not None:
                if factors is not None:
                    raise Problem(422, f"user {one.id!r} has both factors and liked; pass one of them.")
                factors = model.recommender.fold_in(ids_in(one.liked, items))
            seen = None if one.seen is None else ids_in(one.seen, items)
            made.append(UserInput(id_in(one.id, users), factors, seen, one.weights))
        known = None if model.held is None else model.held._edition.users
        there = 0
        if known is not None and len(known):
            there = _count_found([one.id for one in made], known.find, texts=known.ids.dtype.kind == "U")
        version = await self._apply(call, Change(users=made, generation=model.name))
        return answer(Changed(model.name, version, added=len(made) - there, updated=there), model.name, version)

    async def delete_users(self, call: Call) -> Answer:
        """Handle DELETE /v1/users."""
        told = call.read(Ids)
        return await self._delete(call, "users", told.ids, told.generation)

    async def delete_user(self, call: Call) -> Answer:
        """Handle DELETE /v1/users/{id}."""
        return await self._delete(call, "users", [call.params["id"]], call.query.get("generation"))

    # Generations

    async def make_generation(self, call: Call) -> Answer:
        """Handle PUT /v1/generations/{name}."""
        told = call.read(NewGeneration)
        return await self._of_store(
            call,
            lambda: self._store.make(
                call.params["name"],
                told.n_factors,
                attributes=told.attributes,
                signals=told.signals,
                like=told.like,
            ),
        )

    async def publish(self, call: Call) -> Answer:
        """Handle POST /v1/generations/{name}/publish."""
        return await self._of_store(call, lambda: self._store.publish(name=call.params["name"]))

    async def rollback(self, call: Call) -> Answer:
        """Handle POST /v1/rollback."""
        return await self._of_store(call, self._store.rollback)

    async def drop(self, call: Call) -> Answer:
        """Handle DELETE /v1/generations/{name}."""

        def work() -> None:
            if call.params["name"] == self._store.live:
                raise EmptyError(f"generation {call.params['name']!r} is live; publish another one first.")
            self._store.drop(call.params["name"])

        return await self._of_store(call, work)

    async def _of_store(self, call: Call, work: Callable[[], Any]) -> Answer:
        await self._threads.run(call, work)
        live, version = self._store.live, self._store.version
        return answer(messages.Live(live, version))

    # Arrow

    def _items_from_arrow(self, call: Call) -> PutItems:
        """Read columns id, factors, attributes, signals and payload; the last three hold structs or JSON."""
        table = arrow_table(call.body)
        generation = (table.schema.metadata or {}).get(b"generation")
        allowed = {"id", "factors", "attributes", "signals", "payload"}
        made = [ItemOne(**row) for row in _rows(table, allowed)]
        return PutItems(made, None if generation is None else generation.decode())

    def _users_from_arrow(self, call: Call) -> PutUsers:
        table = arrow_table(call.body)
        generation = (table.schema.metadata or {}).get(b"generation")
        made = [UserOne(**row) for row in _rows(table, {"id", "factors", "seen", "weights"})]
        return PutUsers(made, None if generation is None else generation.decode())


def _rows(table: Any, allowed: set[str]) -> list[dict[str, Any]]:
    unknown = next((name for name in table.column_names if name not in allowed), None)
    if unknown is not None or "id" not in table.column_names:
        wrong = "no column 'id'" if unknown is None else f"a column {unknown!r}"
        raise Problem(
            422, f"the table has {wrong}; its columns may be {', '.join(sorted(allowed))}, and 'id' is required."
        )
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name in ("attributes", "signals", "payload"):
            if isinstance(row.get(name), str):
                try:
                    row[name] = json.loads(row[name])
                except ValueError as error:
                    raise Problem(422, f"{name} of {row['id']!r} is not valid JSON: {error}.") from None
        if row.get("payload", UNSET) is None:
            del row["payload"]
    return rows


def _count_found(ids: list[Any], find: Callable[[NDArray[Any]], NDArray[np.int64]], *, texts: bool) -> int:
    """Count the ids that exist already; those of another type, which the store will refuse, do not."""
    same = [one for one in ids if isinstance(one, str) == texts and _checks.may_be_id(one)]
    return int(np.count_nonzero(find(np.array(same)) >= 0)) if same else 0


def _tell(futures: list["asyncio.Future[int]"], outcomes: list[int | Exception]) -> None:
    for done, outcome in zip(futures, outcomes, strict=True):
        if done.done():  # the client has disconnected
            continue
        if isinstance(outcome, Exception):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)
