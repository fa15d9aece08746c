"""Inputs: checks what callers pass against a generation, and turns it into complete rows."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella.recommend import dates
from tessella.recommend.attributes import Attributes
from tessella.recommend.names import refuse_name
from tessella.recommend.signals import Decaying, Signals
from tessella.recommend.users import user_factors
from tessella.store.building import attributes_of, columns_of
from tessella.store.rows import TEXTS, Id, ItemRow, UserRow, kind_of
from tessella.store.tables import Entry

Mode: TypeAlias = Literal["add", "update", "put"]
KINDS = {
    "category": "x",
    "several": ["x"],
    "several numbers": [1],
    "number": 1,
    "date": np.datetime64("2000-01-01"),
    "boolean": True,
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEEP = object()


class ItemInput(NamedTuple):
    """An item to add or change. A field that is None stays as it is; a new item has no value for it."""

    id: Id
    factors: ArrayLike | None = None
    attributes: Mapping[str, Any] | None = None
    signals: Mapping[str, Any] | None = None
    payload: Any = _KEEP


class UserInput(NamedTuple):
    """A user to add or change. A field that is None stays as it is; a new user has no value for it."""

    id: Id
    factors: ArrayLike | None = None
    seen: Sequence[Id] | None = None
    weights: Sequence[float] | None = None


@dataclass(frozen=True)
class Change:
    """One change, which is applied completely or not at all."""

    items: Sequence[ItemInput] = ()
    remove_items: Sequence[Id] = ()
    users: Sequence[UserInput] = ()
    remove_users: Sequence[Id] = ()
    mode: Mode = "put"
    generation: str | None = None


def generation_name(name: object) -> str:
    """Check the name of a generation."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"name is {name!r}, but must be 1 to 64 letters, digits, dots, dashes and underscores, and start with a "
            "letter or a digit."
        )
    return name


def blank_columns(kinds: Mapping[str, str] | None) -> Attributes | None:
    """Return attributes without entries, from their names and kinds."""
    if kinds is None:
        return None
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise ValueError(f"attributes[{name!r}] is {kind!r}, but must be one of {', '.join(map(repr, KINDS))}.")
    return Attributes.of({name: [KINDS[kind]] for name, kind in kinds.items()}, 1).take([])


def ids_of(values: Iterable[Any], kind: str | None, name: str, *, whose: str) -> NDArray[Any]:
    """Check ids of items or users: unique, and of the kind that the generation has."""
    checked = _checks.ids(values if isinstance(values, np.ndarray) else list(values), None, name=name)
    if kind is not None and len(checked) and kind_of(checked) != kind:
        given, wanted = ("strings" if one == TEXTS else "integers" for one in (kind_of(checked), kind))
        raise TypeError(f"{name} holds {given}, but the ids of {whose} are {wanted}.")
    return checked


def payload_text(payload: Any, item: Id) -> str | None:
    """Return a payload as JSON."""
    if payload is None:
        return None
    try:
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the payload of item {item!r} cannot be written as JSON: {error}.") from None
    return text


def complete_items(change: Change, entry: Entry, before: Mapping[Id, ItemRow]) -> list[ItemRow]:
    """Return items as complete rows; existing items keep their places."""
    given = change.items
    ids = ids_of([one.id for one in given], entry.item_ids, "ids", whose="items").tolist()
    _check_mode(change.mode, ids, before, "item")
    factors = _item_factors(given, ids, entry, before)
    known = _known(given, ids, entry, before)
    signals = _numbers(given, ids, entry, before, factors)
    made = []
    for at, (one, item) in enumerate(zip(given, ids, strict=True)):
        old = before.get(item)
        payload = one.payload
        if payload is _KEEP:
            payload = None if old is None else old.payload
        payload_text(payload, item)
        place = None if old is None else old.place
        made.append(
            ItemRow(
                item,
                factors[at].tobytes(),
                None if known is None else known[at],
                None if signals is None else signals[at],
                payload,
                place,
            )
        )
    return made


def _check_mode(mode: Mode, ids: Sequence[Id], before: Mapping[Id, Any], what: str) -> None:
    for one in ids:
        if mode == "add" and one in before:
            raise ValueError(f"{what} {one!r} already exists; use update_{what}s to change it.")
        if mode == "update" and one not in before:
            raise KeyError(f"there is no {what} with id {one!r}.")


def _item_factors(
    given: Sequence[ItemInput], ids: Sequence[Id], entry: Entry, before: Mapping[Id, ItemRow]
) -> NDArray[np.float32]:
    made = np.empty((len(given), entry.n_factors), np.float32)
    for at, (one, item) in enumerate(zip(given, ids, strict=True)):
        if one.factors is not None:
            numbers = _checks.numbers(one.factors, f"factors of item {item!r}")
            if numbers.shape != (entry.n_factors,):
                raise ValueError(
                    f"factors of item {item!r} have shape {numbers.shape}, but the model has {entry.n_factors} factors."
                )
            with np.errstate(over="ignore"):
                made[at] = numbers
        elif item in before:
            made[at] = before[item].vector
        else:
            raise ValueError(f"item {item!r} is new, but has no factors; pass them.")
    return _checks.item_factors(made, entry.n_factors) if len(made) else made


def _known(
    given: Sequence[ItemInput], ids: Sequence[Id], entry: Entry, before: Mapping[Id, ItemRow]
) -> list[dict[str, Any]] | None:
    """Return the attributes of each item as JSON values."""
    like = columns_of(entry)
    if like is None:
        if any(one.attributes for one in given):
            raise ValueError(f"attributes are given, but generation {entry.name!r} has none; leave them out.")
        return None
    told = []
    for one, item in zip(given, ids, strict=True):
        old = before.get(item)
        told.append((old.attributes or {} if old is not None else {}) | dict(one.attributes or {}))
    return by_row(attributes_of(like, told)) if told else []


def by_row(attributes: Attributes) -> list[dict[str, Any]]:
    """Turn columns into one dict of JSON values per item; missing values are left out."""
    return [{name: value for name, value in row.items() if value is not None} for row in _told(attributes)]


def _told(attributes: Attributes) -> list[dict[str, Any]]:
    """Turn columns into one dict of JSON values per item; missing values are None."""
    names = attributes.names
    columns = [attributes.values(name) for name in names]
    whole = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return whole or [{} for _ in range(len(attributes))]


def _numbers(
    given: Sequence[ItemInput],
    ids: Sequence[Id],
    entry: Entry,
    before: Mapping[Id, ItemRow],
    factors: NDArray[np.float32],
) -> list[dict[str, float]] | None:
    """Return the signals of each item as numbers."""
    if entry.signals is None:
        if any(one.signals for one in given):
            raise ValueError(f"signals are given, but generation {entry.name!r} has none; leave them out.")
        return None
    told = []
    for one, item in zip(given, ids, strict=True):
        old = before.get(item)
        own = (old.signals or {} if old is not None else {}) | dict(one.signals or {})
        for name in own:
            if name not in entry.signals:
                refuse_name(name, entry.signals, f"signals of item {item!r} names", "there is no such signal")
        missing = next((name for name in entry.signals if own.get(name) is None), None)
        if missing is not None:
            raise ValueError(
                f"item {item!r} has no signal {missing!r}, but every item needs a number for every signal."
            )
        told.append(own)
    columns = {
        name: np.array(
            [
                _number(own[name], tau, f"signals[{name!r}] of item {item!r}")
                for own, item in zip(told, ids, strict=True)
            ]
        )
        for name, tau in entry.signals.items()
    }
    values, _ = signal_columns(columns, entry.signals, factors)
    return [dict(zip(entry.signals, row, strict=True)) for row in values.tolist()]


def _number(value: Any, tau: float | None, name: str) -> float:
    """Return the value of a signal; for a decaying signal, seconds since 1970."""
    if tau is not None and not isinstance(value, int | float | np.number):
        text = dates.written(value)
        if text is None:
            raise ValueError(f"{name} is {value!r}, but must be a date or seconds since 1970.")
        return dates.span(text).first / 1e6
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} is {value!r}, but must be a number.")
    return float(value)


def signal_columns(
    data: Any, lifetimes: Mapping[str, float | None] | None, factors: NDArray[np.float32]
) -> tuple[NDArray[np.float64], dict[str, float | None]]:
    """Return columns of signals as numbers, and their lifetimes; None for signals that do not decay.

    With `lifetimes`, those of an existing model, `data` may hold only some of its signals.
    """
    if lifetimes is not None:
        names = list(
            data.keys() if isinstance(data, Mapping) else getattr(data, "column_names", getattr(data, "columns", ()))
        )
        for name in names:
            if name not in lifetimes:
                refuse_name(name, lifetimes, "signals names", "there is no such signal")
        lifetimes = {name: tau for name, tau in lifetimes.items() if name in names}
        data = {
            name: data[name] if tau is None or isinstance(data[name], Decaying) else Decaying(data[name], tau=tau)
            for name, tau in lifetimes.items()
        }
    fitted = Signals.fit(data, factors)
    found = {name: None if "tau" not in own else float.fromhex(own["tau"]) for name, own in fitted.facts().items()}
    if lifetimes is not None and found != dict(lifetimes):
        raise ValueError("signals have other half-lives than those of the model; pass the same ones.")
    return fitted.to_arrays()["signals"], found


def complete_users(change: Change, entry: Entry, before: Mapping[Id, UserRow]) -> tuple[list[UserRow], int]:
    """Return users as complete rows, and how many vectors each has."""
    given = change.users
    ids = ids_of([one.id for one in given], entry.user_ids, "ids", whose="users").tolist()
    _check_mode(change.mode, ids, before, "user")
    interests = entry.interests if entry.n_users else None
    made = []
    for one, user in zip(given, ids, strict=True):
        old = before.get(user)
        factors = old.factors if old is not None and one.factors is None else None
        if one.factors is not None:
            numbers = _checks.numbers(one.factors, f"factors of user {user!r}")
            if numbers.ndim not in (1, 2) or numbers.shape[-1] != entry.n_factors or not numbers.size:
                raise ValueError(
                    f"factors of user {user!r} have shape {numbers.shape}, but the model has {entry.n_factors} factors."
                )
            factors = user_factors(numbers[None], entry.n_factors).astype("<f4").tobytes()
        own = 0 if factors is None else len(factors) // (4 * entry.n_factors)
        if interests is not None and own != interests:
            raise ValueError(f"user {user!r} has {own} vectors, but the other users have {interests}.")
        interests = own
        seen, weights = _seen(one, old, user, entry)
        made.append(UserRow(user, factors, seen, weights, None if old is None else old.place))
    return made, interests or 0


def _seen(
    one: UserInput, old: UserRow | None, user: Id, entry: Entry
) -> tuple[tuple[Id, ...] | None, tuple[float, ...] | None]:
    if one.seen is None:
        if one.weights is not None:
            raise ValueError(f"user {user!r} has weights, but no seen items; pass seen with weights.")
        return (None, None) if old is None else (old.seen, old.weights)
    seen = ids_of(one.seen, entry.item_ids, f"seen of user {user!r}", whose="items")
    if entry.item_ids == TEXTS and not len(seen):
        seen = np.zeros(0, np.str_)
    if one.weights is None:
        return tuple(seen.tolist()), None
    weights = np.asarray(_checks.numbers(one.weights, f"weights of user {user!r}"), np.float32)
    if weights.shape != seen.shape or not np.isfinite(weights).all():
        raise ValueError(
            f"user {user!r} has {weights.size} weights, but needs a finite weight for each of {len(seen)} seen items."
        )
    return tuple(seen.tolist()), tuple(weights.tolist())


def items_by_column(
    item_factors: ArrayLike | None, ids: ArrayLike, entry: Entry, attributes: Any, signals: Any, payload: Any
) -> list[ItemInput]:
    """Turn arrays and tables into one input per item."""
    named = _checks.ids(ids, None)
    n = len(named)
    factors: Any = [None] * n
    if item_factors is not None:
        factors = _checks.item_factors(item_factors, entry.n_factors)
        if len(factors) != n:
            raise ValueError(f"ids has {n} entries, but there are {len(factors)} items.")
    known: Sequence[Any] = [None] * n
    if attributes is not None:
        like = columns_of(entry)
        if like is None:
            raise ValueError(f"attributes are given, but generation {entry.name!r} has none; leave them out.")
        known = _told(Attributes.of(attributes, n, like=like, some=True))
    numbers: Sequence[Any] = [None] * n
    if signals is not None:
        if entry.signals is None:
            raise ValueError(f"signals are given, but generation {entry.name!r} has none; leave them out.")
        like_factors = np.ones((n, 1), np.float32) if item_factors is None else factors
        values, given = signal_columns(signals, entry.signals, like_factors)
        numbers = [dict(zip(given, row, strict=True)) for row in values.tolist()]
    payloads = [_KEEP] * n if payload is None else list(payload)
    if len(payloads) != n:
        raise ValueError(f"payload has {len(payloads)} entries, but there are {n} items.")
    return [ItemInput(*one) for one in zip(named.tolist(), factors, known, numbers, payloads, strict=True)]
