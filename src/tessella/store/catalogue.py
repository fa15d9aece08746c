"""Store: the public class. Rows in SQLite are the truth; recommenders are built from them."""

import contextlib
import os
import queue
import sqlite3
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from tessella import _checks, _files
from tessella.jobs.progress import bar
from tessella.recommend.edition import Edition
from tessella.recommend.signals import Decaying
from tessella.store import inputs, models, rows, tables
from tessella.store.building import Delta, StoredRecommender, build, columns_bytes, columns_of
from tessella.store.connection import (
    WriterLock,
    check_header,
    connect_reader,
    connect_writer,
    is_file,
    reading,
    sentences,
    transaction,
)
from tessella.store.inputs import Change, UserInput
from tessella.store.loading import ROWS, Bulk
from tessella.store.models import EmptyError, Model
from tessella.store.pending import Pending, stamp
from tessella.store.rows import Id, ItemRow, UserRow, as_json
from tessella.store.tables import Entry

FOLLOW_EVERY = 0.02  # seconds between two checks for changes
_REFUSED = (ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Generation:
    """A description of one generation of a store.

    Attributes
    ----------
    name : str
        Its name.
    live : bool
        Whether it answers requests that name no generation.
    n_items, n_users, n_factors : int
        Its size.
    version : int
        The version of the store at its last change.
    created, published : float
        When it was created and last published, in seconds since 1970; `published` is None if it never was.
    """

    name: str
    live: bool
    n_items: int
    n_users: int
    n_factors: int
    version: int
    created: float
    published: float | None


class _View(NamedTuple):
    """The models in memory at one moment."""

    models: dict[int, Model]
    live: int | None
    version: int


class _Refused(Exception):  # noqa: N818
    """The index refused the rows of a change."""


class Store:
    """A durable store of models: items, users and their attributes, as rows of one SQLite file.

    Open a store with `Store.open`. One process writes; any number of processes read and follow its changes. Once a
    method returns, its change survives a crash of the process and, by default, of the machine.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from tessella.store import Store
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store.open(pathlib.Path(folder.name) / "catalogue.db") as store:
    ...     store.publish(np.eye(3), [[3.0, 2.0, 1.0]], name="first")
    ...     version = store.add_items([[5.0, 0.0, 0.0]], [3])
    >>> with Store.open(pathlib.Path(folder.name) / "catalogue.db") as store:
    ...     store.recommender.recommend(0, k=2).ids
    array([3, 0])
    >>> folder.cleanup()
    """

    def __init__(
        self, path: Path, lock: WriterLock | None, database: sqlite3.Connection, *, keep: int, mmap: bool
    ) -> None:
        self._path, self._lock, self._database = path, lock, database
        self._keep, self._mmap = keep, mmap
        self._writing = threading.RLock()  # held to write, and by readers to follow
        self._queries: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._loading = threading.Lock()
        self._view = _View({}, None, 0)
        self._followed = -1  # SQLite's number for the last change by others
        self._snapshots: dict[int, int] = {}  # the version of each generation's snapshot
        self._stop = threading.Event()
        self._follower: threading.Thread | None = None
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        risk_power_loss: bool = False,
        keep: int = 3,
        mmap: bool = False,
    ) -> Self:
        """Open a store, or create an empty one if the file does not exist.

        The index of the live model is loaded from a snapshot if one matches the rows; otherwise it is built from the
        rows.

        Parameters
        ----------
        path : str or path
            The file, on a local disk. Files beside it that end in ``-wal``, ``-shm``, ``.writer`` or ``.snapshot``
            belong to it.
        read_only : bool, default False
            Open for reading only. There is one writer at a time and any number of readers; see `follow`.
        risk_power_loss : bool, default False
            Commit several times faster by not waiting for the disk. The last changes may then be lost if the machine
            loses power, but not if the process is killed, and the file stays intact.
        keep : int, default 3
            How many published generations to keep, including the live one. Can change with each `open`.
        mmap : bool, default False
            Memory-map the arrays of snapshots, so that processes share them.
        """
        place = _files.followed(Path(path))
        for value, name in ((read_only, "read_only"), (risk_power_loss, "risk_power_loss"), (mmap, "mmap")):
            _checks.true_or_false(value, name)
        keep = _checks.whole_number(keep, "keep", 1)
        if read_only:
            if not is_file(place):
                raise FileNotFoundError(f"{place} cannot be read: there is no such file.")
            check_header(place)
            store = cls(place, None, connect_reader(place), keep=keep, mmap=mmap)
        else:
            if is_file(place):
                check_header(place)
            lock = WriterLock(place)
            try:
                if not is_file(place):
                    tables.create(place)
                check_header(place)
                database = connect_writer(place, risk_power_loss=risk_power_loss)
            except BaseException:
                lock.release()
                raise
            store = cls(place, lock, database, keep=keep, mmap=mmap)
        try:
            store._begin()
        except BaseException:
            store._close_connections()
            raise
        return store

    def _begin(self) -> None:
        """Load the live model, and clean up after a process that was killed."""
        if not self.read_only:
            for entry in self._entries().values():
                if not entry.ready:
                    self._drop_rows(entry.number)
            tokens = {entry.token for entry in self._entries().values()}
            models.remove_snapshots(self._path, tokens)
        self._reload()

    def _reload(self) -> None:
        """Read which generation is live, and load it."""
        self._followed = self._data_version()
        with reading(self._database, self._path) as database:
            facts = tables.facts(database)
            live = facts["live"]
            held = {} if live is None else {live: self._open_model(database, tables.entry(database, live))}
        self._view = _View(held, live, facts["version"])

    def _open_model(self, database: sqlite3.Connection, entry: Entry) -> Model:
        model, current = models.opened(database, self._path, entry, mmap=self._mmap)
        if current:
            self._snapshots[entry.number] = model.version
        return model

    def _hold(self, model: Model) -> None:
        self._view = self._view._replace(models=self._view.models | {model.number: model})

    def _data_version(self) -> int:
        return int(self._database.execute("PRAGMA data_version").fetchone()[0])

    def _entries(self) -> dict[int, Entry]:
        with reading(self._database, self._path) as database:
            return tables.entries(database)

    # What answers

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def read_only(self) -> bool:
        """Whether the store is open for reading only."""
        return self._lock is None

    @property
    def version(self) -> int:
        """How many changes there have been, to all generations; for a reader, when it last followed."""
        return self._view.version

    @property
    def live(self) -> str | None:
        """The name of the live generation; None if nothing has been published yet."""
        view = self._view
        return None if view.live is None else view.models[view.live].name

    @property
    def recommender(self) -> StoredRecommender:
        """The recommender of the live generation. Keep a reference for calls that must use the same generation."""
        return self.model().recommender

    def model(self, generation: str | None = None) -> Model:
        """Return a generation in memory; one that is not live is loaded on first use.

        Parameters
        ----------
        generation : str, default None
            The name of the generation; None is the live one.
        """
        view = self._view
        if generation is None:
            if view.live is None:
                raise EmptyError(f"{self._path} holds no model yet; publish one.")
            return view.models[view.live]
        for model in view.models.values():
            if model.name == generation:
                return model
        return self._loaded(generation)

    def _loaded(self, generation: str) -> Model:
        """Load a generation into memory. Writers are not blocked meanwhile; it catches up with their changes."""
        with self._loading:
            with self._query() as database:
                entry = self._entry(database, generation)
                model = self._view.models.get(entry.number) or self._open_model(database, entry)
            with self._writing, reading(self._database, self._path) as database:
                now = self._entry(database, generation)
                delta = models.changes_since(database, self._path, now, model.version, model.mark)
                if delta is None or now.token != model.token:
                    model = models.of(now, build(database, self._path, now))
                elif delta != Delta():
                    model = model.after(now, models.next_edition(database, self._path, model, now, delta))
                self._hold(model)
        return model

    def _entry(self, database: sqlite3.Connection, generation: str | None) -> Entry:
        """Return the row of a generation, which must exist; None is the live one."""
        if generation is None:
            live = tables.facts(database)["live"]
            if live is None:
                raise EmptyError(f"{self._path} holds no model yet; publish one.")
            return tables.entry(database, live)
        for entry in tables.entries(database).values():
            if entry.name == generation and entry.ready:
                return entry
        raise KeyError(f"there is no generation {generation!r}.")

    def generations(self) -> list[Generation]:
        """Return all generations, oldest first."""
        with self._query() as database:
            live = tables.facts(database)["live"]
            found = [entry for entry in tables.entries(database).values() if entry.ready]
        return [
            Generation(
                entry.name,
                entry.number == live,
                entry.n_items,
                entry.n_users,
                entry.n_factors,
                entry.version,
                entry.created,
                entry.published,
            )
            for entry in found
        ]

    # Rows

    @contextlib.contextmanager
    def _query(self) -> Iterator[sqlite3.Connection]:
        """Lend a read connection from the pool, for one consistent read."""
        if self._closed:
            raise ValueError(f"{self._path} was closed; open the store again.")
        try:
            database = self._queries.get_nowait()
        except queue.Empty:
            database = connect_reader(self._path)
        try:
            with reading(database, self._path):
                yield database
        except BaseException:
            database.close()
            raise
        if self._closed:
            database.close()
        else:
            self._queries.put(database)

    def items(self, ids: Sequence[Id], *, generation: str | None = None) -> list[ItemRow]:
        """Return the rows of items, in the order of `ids`; ids that do not exist are left out.

        Parameters
        ----------
        ids : sequence of ids
            The ids of the items.
        generation : str, default None
            The generation to read; None is the live one.
        """
        with self._query() as database:
            found = rows.some_items(database, self._path, self._entry(database, generation), ids)
        return [found[item] for item in dict.fromkeys(ids) if item in found]

    def users(self, ids: Sequence[Id], *, generation: str | None = None) -> list[UserRow]:
        """Return the rows of users, in the order of `ids`; ids that do not exist are left out.

        Parameters
        ----------
        ids : sequence of ids
            The ids of the users.
        generation : str, default None
            The generation to read; None is the live one.
        """
        with self._query() as database:
            found = rows.some_users(database, self._path, self._entry(database, generation), ids)
        return [found[user] for user in dict.fromkeys(ids) if user in found]

    def list_items(
        self, after: int = -1, limit: int = 50, *, query: str | None = None, generation: str | None = None
    ) -> list[ItemRow]:
        """Return a page of items, in insertion order.

        Parameters
        ----------
        after : int, default -1
            The `place` of the last item of the previous page.
        limit : int, default 50
            The largest number of items to return.
        query : str, default None
            Part of the title, or an id; None finds all items.
        generation : str, default None
            The generation to read; None is the live one.
        """
        with self._query() as database:
            entry = self._entry(database, generation)
            return rows.items_by_place(database, self._path, entry, after, limit, query)

    def list_users(
        self, after: int = -1, limit: int = 50, *, query: str | None = None, generation: str | None = None
    ) -> list[UserRow]:
        """Return a page of users, in insertion order.

        Parameters
        ----------
        after : int, default -1
            The `place` of the last user of the previous page.
        limit : int, default 50
            The largest number of users to return.
        query : str, default None
            The beginning of the id; None finds all users.
        generation : str, default None
            The generation to read; None is the live one.
        """
        with self._query() as database:
            entry = self._entry(database, generation)
            return rows.users_by_place(database, self._path, entry, after, limit, query)

    def payloads(self, ids: Sequence[Id], *, generation: str | None = None) -> dict[Id, Any]:
        """Return the payloads of items by id; items without a payload are left out.

        Parameters
        ----------
        ids : sequence of ids
            The ids of the items.
        generation : str, default None
            The generation to read; None is the live one.
        """
        with self._query() as database:
            return rows.payloads(database, self._entry(database, generation), ids)

    # Changes

    def add_items(
        self,
        item_factors: ArrayLike,
        ids: ArrayLike,
        *,
        attributes: Any = None,
        signals: Any = None,
        payload: Sequence[Any] | None = None,
        generation: str | None = None,
    ) -> int:
        """Add items, all or none, and return the new version of the store. The next search finds them.

        Parameters
        ----------
        item_factors, ids, attributes, signals
            As for `Recommender.add_items`. Attributes that are left out are missing values.
        payload : sequence of n JSON values, default None
            Data to keep with each item. Searches ignore it.
        generation : str, default None
            The generation to change; None is the live one.
        """
        return self._change_items("add", item_factors, ids, attributes, signals, payload, generation)

    def update_items(
        self,
        item_factors: ArrayLike | None,
        ids: ArrayLike,
        *,
        attributes: Any = None,
        signals: Any = None,
        payload: Sequence[Any] | None = None,
        generation: str | None = None,
    ) -> int:
        """Change existing items, all or none, and return the new version of the store.

        What is None stays as it is. The parameters are those of `add_items`.
        """
        return self._change_items("update", item_factors, ids, attributes, signals, payload, generation)

    def _change_items(
        self,
        mode: inputs.Mode,
        item_factors: ArrayLike | None,
        ids: ArrayLike,
        attributes: Any,
        signals: Any,
        payload: Sequence[Any] | None,
        generation: str | None,
    ) -> int:
        with self._writer():
            with reading(self._database, self._path) as database:
                entry = self._entry(database, generation)
            told = inputs.items_by_column(item_factors, ids, entry, attributes, signals, payload)
            return self._one(Change(items=told, mode=mode, generation=generation))

    def remove_items(self, ids: ArrayLike, *, generation: str | None = None) -> int:
        """Remove items, all or none, and return the new version of the store.

        Users' records of having seen them are kept. The parameters are those of `add_items`.
        """
        named = _checks.ids(ids, None).tolist()
        return self._one(Change(remove_items=named, generation=generation))

    def add_users(
        self, user_factors: ArrayLike | None, ids: ArrayLike, *, seen: Any = None, generation: str | None = None
    ) -> int:
        """Add users, all or none, and return the new version of the store.

        Parameters
        ----------
        user_factors : array_like of shape (n, n_factors) or (n, n_interests, n_factors), or None
            Factors of the same model; None if users have no factors.
        ids : array_like of shape (n,)
            New ids, of the same kind as those of the existing users.
        seen : list of n sequences of ids, default None
            The items that each user has seen.
        generation : str, default None
            The generation to change; None is the live one.
        """
        return self._change_users("add", user_factors, ids, seen, generation)

    def update_users(
        self, user_factors: ArrayLike | None, ids: ArrayLike, *, seen: Any = None, generation: str | None = None
    ) -> int:
        """Change existing users, all or none, and return the new version of the store.

        What is None stays as it is. The parameters are those of `add_users`.
        """
        return self._change_users("update", user_factors, ids, seen, generation)

    def _change_users(
        self, mode: inputs.Mode, user_factors: ArrayLike | None, ids: ArrayLike, seen: Any, generation: str | None
    ) -> int:
        named = _checks.ids(ids, None).tolist()
        lists = [None] * len(named) if seen is None else list(seen)
        factors: Any = [None] * len(named) if user_factors is None else _checks.numbers(user_factors, "user_factors")
        for values, name in ((lists, "seen"), (factors, "user_factors")):
            if len(values) != len(named):
                raise ValueError(f"{name} has {len(values)} rows, but there are {len(named)} ids.")
        told = [UserInput(*one) for one in zip(named, factors, lists, strict=True)]
        return self._one(Change(users=told, mode=mode, generation=generation))

    def remove_users(self, ids: ArrayLike, *, generation: str | None = None) -> int:
        """Remove users, all or none, and return the new version of the store. Parameters are those of `add_users`."""
        named = _checks.ids(ids, None).tolist()
        return self._one(Change(remove_users=named, generation=generation))

    def _one(self, change: Change) -> int:
        (outcome,) = self.apply([change])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def apply(self, changes: Sequence[Change]) -> list[int | Exception]:
        """Apply several changes in one commit; return the version after each, or the error that refused it.

        Each change is applied completely or not at all, independently of the others.

        Parameters
        ----------
        changes : sequence of Change
            The changes to apply.
        """
        with self._writer():
            try:
                return self._applied(changes)
            except _Refused as refused:
                if len(changes) == 1:
                    return [refused.__cause__]  # type: ignore[list-item]
            return [outcome for change in changes for outcome in self.apply([change])]

    def _applied(self, changes: Sequence[Change]) -> list[int | Exception]:
        outcomes: list[int | Exception] = []
        with transaction(self._database, self._path) as database:
            pending = Pending(database, self._path)
            for change in changes:
                database.execute("SAVEPOINT one")
                try:
                    with sentences(self._path):
                        outcomes.append(pending.make(change))
                except (*_REFUSED, EmptyError) as error:
                    database.execute("ROLLBACK TO one")
                    outcomes.append(error)
                database.execute("RELEASE one")
            editions: dict[int, Edition | None] = {}
            for number, entry in pending.changed.items():
                model = self._view.models.get(number)
                if model is not None:
                    try:
                        editions[number] = models.next_edition(
                            database, self._path, model, entry, pending.delta(number)
                        )
                    except _REFUSED as error:
                        raise _Refused from error
            version = pending.close()
        held = dict(self._view.models)
        for number, edition in editions.items():
            held[number] = held[number].after(pending.changed[number], edition)
        self._view = self._view._replace(models=held, version=version)
        return outcomes

    @contextlib.contextmanager
    def _writer(self) -> Iterator[None]:
        if self.read_only:
            raise PermissionError(
                f"{self._path} is open for reading only; open it without read_only=True to change it."
            )
        with self._writing:
            if self._closed:
                raise ValueError(f"{self._path} was closed; open the store again.")
            yield

    # Generations

    def load(
        self,
        name: str,
        item_factors: ArrayLike,
        user_factors: ArrayLike | None = None,
        *,
        item_ids: ArrayLike | None = None,
        user_ids: ArrayLike | None = None,
        seen: Any = None,
        attributes: Any = None,
        signals: Any = None,
        payload: Sequence[Any] | None = None,
        method: Literal["auto", "exact", "tiles"] = "auto",
        target_recall: float | None = None,
        k: int = 10,
        progress: bool | None = None,
    ) -> None:
        """Write a new generation while the live one keeps answering; `publish` makes it live.

        If loading is interrupted, the generation is discarded.

        Parameters
        ----------
        name : str
            The name of the generation: letters, digits, dots, dashes and underscores.
        item_factors, user_factors, item_ids, user_ids, seen, attributes, signals, method, target_recall, k
            As for `Recommender.build`.
        payload : sequence of n_items JSON values, default None
            Data to keep with each item.
        progress : bool, default None
            Whether to show a progress bar; None shows it in a terminal.
        """
        bulk = Bulk.of(item_factors, user_factors, item_ids, user_ids, seen, attributes, signals, payload)
        options = {
            "method": _checks.one_of(method, "method", ("auto", "exact", "tiles")),
            "target_recall": target_recall,
            "k": k,
        }
        number = self._make(name, options, bulk.facts)
        try:
            total = len(bulk.ids) + (0 if bulk.user_ids is None else len(bulk.user_ids))
            with bar(total, "Writing", shown=progress) as moved:
                for some in bulk.parts():
                    with self._transaction() as database:
                        moved(bulk.write(database, number, *some))
            self._finish(number)
        except BaseException:
            self._drop_rows(number)
            raise

    def make(
        self,
        name: str,
        n_factors: int | None = None,
        *,
        attributes: Mapping[str, str] | None = None,
        signals: Mapping[str, float | None] | None = None,
        like: str | None = None,
    ) -> None:
        """Create an empty generation, to fill with `add_items` and `add_users` and then publish.

        Parameters
        ----------
        name : str
            The name of the generation: letters, digits, dots, dashes and underscores.
        n_factors : int, default None
            How many coordinates a factor has; None takes the number of `like`.
        attributes : dict, default None
            The kind of each attribute: "category", "several", "several numbers", "number", "date" or "boolean".
        signals : dict, default None
            The half-life of each signal in seconds, or None if it does not decay.
        like : str, default None
            The name of another generation, which supplies every parameter that is None.
        """
        with self._writer():
            columns, lifetimes = inputs.blank_columns(attributes), None
            if signals is not None:
                lifetimes = {
                    str(one): None if half is None else Decaying(np.zeros(1), half_life=half).tau
                    for one, half in signals.items()
                }
            if like is not None:
                with reading(self._database, self._path) as database:
                    other = self._entry(database, like)
                n_factors = other.n_factors if n_factors is None else n_factors
                columns = columns_of(other) if attributes is None else columns
                lifetimes = other.signals if signals is None else lifetimes  # type: ignore[assignment]
            if n_factors is None:
                raise ValueError("n_factors is missing; pass it, or pass like, a generation to take it from.")
            facts = {
                "n_factors": _checks.whole_number(n_factors, "n_factors", 1, 65_536),
                "columns": columns_bytes(columns),
                "signals": as_json(lifetimes),
            }
            self._finish(self._make(name, {}, facts))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._writer(), transaction(self._database, self._path) as database:
            yield database

    def _make(self, name: str, options: dict[str, Any], facts: dict[str, Any]) -> int:
        name = inputs.generation_name(name)
        with self._transaction() as database:
            if any(entry.name == name for entry in tables.entries(database).values()):
                raise FileExistsError(f"generation {name!r} already exists; choose another name, or drop it first.")
            return tables.insert_generation(database, name, options=as_json(options), **facts)

    def _finish(self, number: int) -> None:
        """Index the ids of a generation whose rows are written, and mark it as ready."""
        with self._transaction() as database:
            tables.index_ids(database, number)
        with self._writer():
            with transaction(self._database, self._path) as database:
                version, mark = stamp(database, number, "made", None)
                tables.update_generation(database, number, ready=1, version=version, mark=mark)
                tables.set_facts(database, version=version)
            self._view = self._view._replace(version=version)

    def publish(
        self,
        item_factors: ArrayLike | None = None,
        user_factors: ArrayLike | None = None,
        *,
        name: str,
        **parts: Any,
    ) -> None:
        """Make a generation live, atomically for all readers; earlier generations are kept for `rollback`.

        Parameters
        ----------
        item_factors, user_factors, **parts
            A model to load first, as for `load`. Without them, the generation must exist.
        name : str
            The name of the generation.
        """
        with self._writer():
            pass  # refuse a reader before doing any work
        new = item_factors is not None
        if item_factors is not None:
            self.load(name, item_factors, user_factors, **parts)
        elif parts or user_factors is not None:
            raise ValueError(
                "item_factors is missing; pass the whole model, or only the name of an existing generation."
            )
        try:
            model = self.model(name)
            model.recommender  # noqa: B018 - raises if the generation has no items
        except BaseException:
            if new:
                self.drop(name)
            raise
        with self._writer():
            live = self._view.live
            if live == model.number:
                return
            self._flip(model.number, lambda history: [*history, live] if live is not None else history)
        for old in self._too_old():
            self.drop(old)
        self.snapshot()

    def rollback(self) -> str:
        """Make the previously live generation live again, and return its name."""
        with self._writer():
            with reading(self._database, self._path) as database:
                history, there = tables.facts(database)["history"], tables.entries(database)
            before = next((number for number in reversed(history) if number in there and there[number].ready), None)
            if before is None:
                raise LookupError("there is no earlier generation to roll back to.")
        name = there[before].name
        self.model(name)
        with self._writer():
            self._flip(before, lambda history: history[: len(history) - 1 - history[::-1].index(before)])
        return name

    def _flip(self, number: int, history: Any) -> None:
        with transaction(self._database, self._path) as database:
            version, _ = stamp(database, number, "published", None)
            tables.set_facts(database, live=number, version=version, history=history(tables.facts(database)["history"]))
            tables.update_generation(database, number, published=time.time())
        self._view = self._view._replace(version=version, live=number)

    def _too_old(self) -> list[str]:
        """Return the names of the oldest published generations beyond those to keep."""
        published = [one for one in self.generations() if one.published is not None and not one.live]
        published.sort(key=lambda one: one.published or 0.0)
        return [one.name for one in published[: max(0, len(published) - self._keep + 1)]]

    def drop(self, name: str) -> None:
        """Delete a generation that is not live.

        Parameters
        ----------
        name : str
            The name of the generation.
        """
        with self._writer():
            with reading(self._database, self._path) as database:
                entry = self._entry(database, name)
            if entry.number == self._view.live:
                raise ValueError(f"generation {name!r} is live; publish another one first.")
            with transaction(self._database, self._path) as database:
                version, _ = stamp(database, entry.number, "dropped", None)
                tables.update_generation(database, entry.number, ready=0)
                history = [number for number in tables.facts(database)["history"] if number != entry.number]
                tables.set_facts(database, version=version, history=history)
            left = {number: model for number, model in self._view.models.items() if number != entry.number}
            self._view = self._view._replace(models=left, version=version)
            self._snapshots.pop(entry.number, None)
        self._drop_rows(entry.number)
        with contextlib.suppress(OSError):
            models.snapshot_path(self._path, entry).unlink(missing_ok=True)

    def _drop_rows(self, number: int) -> None:
        """Delete the rows of a generation that is no longer visible, in several transactions."""
        for table in (f"items_{number}", f"users_{number}"):
            with self._transaction() as database:
                last = rows.next_place(database, table)
            for start in range(0, last, ROWS):
                with self._transaction() as database:
                    database.execute(f"DELETE FROM {table} WHERE place < ?", (start + ROWS,))  # noqa: S608
        with self._transaction() as database:
            database.execute(f"DROP TABLE items_{number}")
            database.execute(f"DROP TABLE users_{number}")
            database.execute("DELETE FROM generations WHERE number = ?", (number,))

    # Snapshots, readers, the end

    def snapshot(self) -> None:
        """Write the index of the live model beside the store, so that the next `open` does not have to build it."""
        with self._writer():
            view = self._view
        if view.live is None:
            return
        model = view.models[view.live]
        with self._loading:
            if model.held is None or self._snapshots.get(model.number) == model.version:
                return
            try:
                models.write_snapshot(self._path, model)
            except OSError as error:  # the rows are safe; only the next start is slower
                warnings.warn(
                    f"the snapshot could not be written, so the next start takes longer: {error}", stacklevel=2
                )
                return
            self._snapshots[model.number] = model.version

    def rebuild(self) -> None:
        """Rebuild the index of the live model from its rows, for example after many changes. Searches continue."""
        with self._writer():
            if self._view.live is None:
                return
            model = self._view.models[self._view.live]
            with reading(self._database, self._path) as database:
                entry = tables.entry(database, model.number)
                built = build(database, self._path, entry)
            self._hold(model.after(entry, None if built is None else built._edition))
            self._snapshots.pop(model.number, None)

    def follow(self) -> bool:
        """Catch up with the writer, and return whether anything had changed; for readers.

        A call takes microseconds if nothing has changed. Searches in progress are not affected.
        """
        if not self.read_only:
            return False
        with self._writing:
            if self._closed:
                raise ValueError(f"{self._path} was closed; open the store again.")
            seen = self._data_version()
            if seen == self._followed:
                return False
            with reading(self._database, self._path) as database:
                facts, entries = tables.facts(database), tables.entries(database)
                ready = {number for number, entry in entries.items() if entry.ready}
                held = {number: model for number, model in self._view.models.items() if number in ready}
                pending = {}
                for number, model in held.items():
                    entry = entries[number]
                    if (model.version, model.mark) != (entry.version, entry.mark):
                        delta = models.changes_since(database, self._path, entry, model.version, model.mark)
                        known = model if delta is not None else replace(model, held=None)  # too far behind: rebuild
                        pending[number] = models.next_edition(database, self._path, known, entry, delta or Delta())
                if facts["live"] is not None and facts["live"] not in held:
                    held[facts["live"]] = self._open_model(database, entries[facts["live"]])
            for number, edition in pending.items():
                held[number] = held[number].after(entries[number], edition)
            self._view, self._followed = _View(held, facts["live"], facts["version"]), seen
            return True

    def start_following(self, every: float = FOLLOW_EVERY) -> None:
        """Call `follow` regularly in a background thread, until `close`; for readers.

        Parameters
        ----------
        every : float, default 0.02
            Seconds between two calls. A call takes microseconds if nothing has changed.
        """
        every = _checks.number_at_least(every, "every", 0.0)
        if not self.read_only or self._follower is not None:
            return

        def work() -> None:
            while not self._stop.wait(every):
                try:
                    self.follow()
                except (OSError, ValueError, LookupError, RuntimeError) as error:
                    if self._closed:
                        return
                    warnings.warn(f"changes of {self._path} could not be read: {error}", stacklevel=1)
                    self._stop.wait(1.0)

        self._follower = threading.Thread(target=work, name="tessella follower", daemon=True)
        self._follower.start()

    def close(self) -> None:
        """Write a snapshot if the model has changed, and close the file. Calling it again has no effect."""
        if self._closed:
            return
        self._stop.set()
        if self._follower is not None:
            self._follower.join()
        if not self.read_only:
            self.snapshot()
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._close_connections()

    def _close_connections(self) -> None:
        with self._writing:
            self._closed = True
            with contextlib.suppress(queue.Empty):
                while True:
                    self._queries.get_nowait().close()
            self._database.close()
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed:
            return f"Store({str(self._path)!r}), closed"
        live = "no model yet" if self._view.live is None else f"live: {self.live!r}"
        return f"Store({str(self._path)!r}), version {self.version}, {live}{', read-only' if self.read_only else ''}"
