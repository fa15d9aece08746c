"""Signals: numbers of items that are added to scores, with weights chosen at each query. Each is a coordinate."""

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks

TIMES = 3.0  # as far spread as an ordinary coordinate of the items, if it is the only signal: see decision 33
MOST_GROWN = 40.0  # lifetimes by which an item may be newer than the newest at fitting, before float32 suffers
_LARGEST_VALUE = 1e30
_LARGEST = 1e15  # coordinate, so that products are well within float32

Moment: TypeAlias = float | str | datetime.datetime | datetime.date | np.datetime64
Duration: TypeAlias = float | datetime.timedelta | np.timedelta64
Boosts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Decaying:
    """A signal that halves with every `half_life` of an item's age: freshness.

    At the moment `now` of a query it is 0.5 ** ((now - time) / half_life): 1 for an item of this moment, and more than
    1 for one whose time is still to come. Items need no updates as time goes by; the weight decays instead.

    Parameters
    ----------
    times : array_like of shape (n_items,)
        When each item came: dates and times (NumPy, pandas or Python; without a zone they are UTC), or seconds since
        1970.
    half_life : float, timedelta or timedelta64, default None
        The age at which the signal is a half; as a number, in seconds. Fixed once the recommender is built.
    tau : float, timedelta or timedelta64, default None
        The age at which it is 1/e, for those who think so; pass one of the two.

    Examples
    --------
    >>> import datetime
    >>> import numpy as np
    >>> from tessella.recommend.signals import Decaying
    >>> fresh = Decaying(np.array(["2024-01-01", "2024-01-31"], "datetime64[D]"), half_life=datetime.timedelta(days=30))
    >>> fresh.at(np.datetime64("2024-01-31"))
    array([0.5, 1. ])
    """

    times: Any
    half_life: Duration | None = None
    tau: Duration | None = None

    def __post_init__(self) -> None:
        """Check the numbers, and keep times in seconds since 1970."""
        if (self.half_life is None) == (self.tau is None):
            raise ValueError("a decaying signal needs half_life or tau, and not both.")
        if self.tau is None:
            lifetime = _duration(self.half_life, "half_life") / np.log(2)
        else:
            lifetime = _duration(self.tau, "tau")
        object.__setattr__(self, "tau", float(lifetime))
        object.__setattr__(self, "half_life", float(lifetime * np.log(2)))
        object.__setattr__(self, "times", _seconds(self.times, "times"))

    def at(self, now: Moment) -> NDArray[np.float64]:
        """The signal of every item at a moment."""
        values: NDArray[np.float64] = np.exp((self.times - _moment(now)) / self.tau)
        return values


@dataclass(frozen=True)
class Signal:
    """How the values of one signal become a coordinate: (value - centre) / scale.

    Attributes
    ----------
    centre : float
        The mean when the signal was fitted. It moves all scores alike, so it is left out and added to them afterwards.
    scale : float
        What one step of the coordinate stands for.
    tau : float or None
        The lifetime in seconds of a decaying signal; None for others.
    origin : float
        The moment at which a decaying signal's weight is the one asked for, in seconds since 1970.
    """

    centre: float
    scale: float
    tau: float | None = None
    origin: float = 0.0

    @classmethod
    def fit(cls, values: NDArray[np.float64], tau: float | None, spread: float) -> Self:
        """The signal whose coordinate has that spread."""
        origin = 0.0 if tau is None or not len(values) else float(values.max())
        taken = values if tau is None else np.exp((values - origin) / tau)
        centre = float(taken.mean()) if len(taken) else 0.0
        own = float(taken.std()) if len(taken) else 0.0
        if own <= 1e-12 * abs(centre):  # all alike
            own = abs(centre) or 1.0
        return cls(centre, own / spread, tau, origin)

    def coordinate(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coordinate of items with some values, or times."""
        taken = values if self.tau is None else np.exp((values - self.origin) / self.tau)
        coordinate: NDArray[np.float64] = (taken - self.centre) / self.scale
        return coordinate

    def weight(self, weight: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """The weight of the stored value, where that of the signal is `weight` at the moment `now`."""
        return weight if self.tau is None else weight * np.exp((self.origin - now) / self.tau)


class Signals:
    """Named signals of items: each is one more coordinate of the items, so boosted searches stay exact.

    With boosts, ``score = u . v + sum of weight x signal(item)``. An item's factor is extended by its signals, and a
    query's by their weights; where no weight is asked for, the query has zeros there and scores are as without signals.
    Unchanging: changes of the items make a new one, as with `Attributes`.

    Signals are centred and scaled: one is spread three times as far as an ordinary coordinate of the items, and each of
    several somewhat less. That changes no true answer; it makes boosted searches fast. Centre and scale are those of
    `fit`, until the next.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> from tessella.recommend.signals import Signals
    >>> item_factors = np.float32([[1, 0], [0, 1], [1, 1]])
    >>> signals = Signals.fit({"popularity": [5.0, 1.0, 3.0]}, item_factors)
    >>> index = ts.Index.build(signals.extend(item_factors))
    >>> query = np.float32([[2, 1]])
    >>> index.search(np.hstack([query, signals.query_part(None, 1)]), k=3).ids
    array([[2, 0, 1]])
    >>> found = index.search(np.hstack([query, signals.query_part({"popularity": 1.0}, 1)]), k=3)
    >>> found.ids, found.scores + signals.offset({"popularity": 1.0}, 1)[:, None]
    (array([[0, 2, 1]]), array([[7., 6., 2.]]))
    """

    def __init__(self, fitted: dict[str, Signal], columns: NDArray[np.float64]) -> None:
        self._fitted = fitted
        self._columns = columns  # (n_items, n_signals): values, and times of what decays
        self._columns.flags.writeable = False

    @classmethod
    def fit(cls, data: Any, item_factors: NDArray[np.floating], what: str = "signals") -> Self:
        """The signals of items with these factors.

        Parameters
        ----------
        data : mapping or frame
            By name, finite numbers or a `Decaying`, one for each item. A missing value is refused, since whether it
            should count as nothing or as the mean depends on the signal.
        item_factors : ndarray of shape (n_items, n_factors)
            What signals are scaled to.
        what : str, default "signals"
            What sentences call the data.
        """
        n = len(item_factors)
        given = _columns(data, n, what, {})
        mean_square = float(
            np.mean(
                [np.mean(np.square(item_factors[rows], dtype=np.float64)) for rows in _checks.row_blocks(item_factors)]
                or [0.0]
            )
        )
        spread = TIMES * (np.sqrt(mean_square) or 1.0) / max(1, len(given)) ** 0.25
        fitted = {name: Signal.fit(values, tau, spread) for name, (values, tau) in given.items()}
        return cls(fitted, _together(given, n))._checked(what)

    def refitted(self, item_factors: NDArray[np.floating]) -> Self:
        """The same signals with centre, scale and origin of the items there are now."""
        data = {
            name: self._columns[:, at] if one.tau is None else Decaying(self._columns[:, at], tau=one.tau)
            for at, (name, one) in enumerate(self._fitted.items())
        }
        return type(self).fit(data, item_factors)

    @property
    def names(self) -> tuple[str, ...]:
        """What the signals are called, in the order of their coordinates."""
        return tuple(self._fitted)

    @property
    def nbytes(self) -> int:
        """Memory of the values."""
        return self._columns.nbytes

    @property
    def worn(self) -> bool:
        """Whether items have come so long after those of `fit` that a decaying signal should be fitted again.

        Their coordinates grow as e to the number of lifetimes. Answers stay right; searches become slower.
        """
        return any(
            one.tau is not None and len(self) > 0 and self._columns[:, at].max() > one.origin + 2 * one.tau
            for at, one in enumerate(self._fitted.values())
        )

    def coordinates(self, entries: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.float32]:
        """The coordinates of items, all or some."""
        columns = self._columns[entries]
        parts = [one.coordinate(columns[:, at]) for at, one in enumerate(self._fitted.values())]
        return np.stack(parts, axis=1).astype(np.float32) if parts else np.zeros((len(columns), 0), np.float32)

    def extend(
        self, item_factors: NDArray[np.floating], entries: NDArray[np.int64] | slice = slice(None)
    ) -> NDArray[np.float32]:
        """Factors of items, all or some, with their signals as further coordinates."""
        return np.hstack([item_factors.astype(np.float32, copy=False), self.coordinates(entries)])

    def query_part(self, boosts: Boosts | None, n: int, now: Moment | None = None) -> NDArray[np.float32]:
        """The further coordinates of n queries.

        Parameters
        ----------
        boosts : mapping, or None
            Weights by name, each one number for all queries or one for each; those that are not named are 0.
        n : int
            How many queries there are.
        now : float, datetime or datetime64, default None
            The moment for which decaying signals count, in seconds since 1970 if a number; None is now.
        """
        part = np.zeros((n, len(self._fitted)))
        for at, (name, one, weights) in enumerate(self._weights(boosts, n, now)):
            part[:, at] = weights * one.scale
            if np.abs(part[:, at]).max(initial=0) > _LARGEST:
                raise ValueError(f"boosts[{name!r}] is {np.abs(weights).max():.3g}, too large for float32.")
        return part.astype(np.float32)

    def offset(self, boosts: Boosts | None, n: int, now: Moment | None = None) -> NDArray[np.float64]:
        """What is to be added to the scores of n queries, since signals are centred."""
        total = np.zeros(n)
        for _, one, weights in self._weights(boosts, n, now):
            total += weights * one.centre
        return total

    def boost(
        self, boosts: Boosts | None, n: int, now: Moment | None = None, entries: NDArray[np.int64] | slice = slice(None)
    ) -> NDArray[np.float64]:
        """What boosts add to the scores of items, all or some, for n queries: (n, n_items), by the definition."""
        columns, moment = self._columns[entries], _now(now)
        total = np.zeros((n, len(columns)))
        for at, (one, weights) in enumerate(zip(self._fitted.values(), self._asked(boosts, n), strict=True)):
            values = columns[:, at] if one.tau is None else np.exp((columns[:, at] - moment) / one.tau)
            total += weights[:, None] * values
        return total

    def joined(self, data: Any, n: int, what: str = "signals") -> Self:
        """The signals with those of n more items."""
        given = self._same(data, n, what)
        missing = [name for name in self._fitted if name not in given]
        if missing:
            raise ValueError(f"{what} lacks {missing[0]!r}, but must have {', '.join(map(repr, self._fitted))}.")
        added = _together({name: given[name] for name in self._fitted}, n)
        return type(self)(self._fitted, np.concatenate([self._columns, added]))._checked(what)

    def replaced(self, entries: NDArray[np.int64], data: Any, what: str = "signals") -> Self:
        """The signals with others for some items; those that are not given stay as they are."""
        columns, names = self._columns.copy(), list(self._fitted)
        for name, (values, _) in self._same(data, len(entries), what).items():
            columns[entries, names.index(name)] = values
        return type(self)(self._fitted, columns)._checked(what)

    def take(self, entries: NDArray[np.int64]) -> Self:
        """The signals of some items, in this order."""
        return type(self)(self._fitted, self._columns[entries])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays for a file."""
        return {"signals": self._columns}

    def facts(self) -> dict[str, Any]:
        """What a file tells beside the arrays, as plain values."""
        return {
            name: {"centre": one.centre.hex(), "scale": one.scale.hex(), "origin": one.origin.hex()}
            | ({} if one.tau is None else {"tau": one.tau.hex()})
            for name, one in self._fitted.items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """The signals that `to_arrays` and `facts` told of."""
        fitted = {
            str(name): Signal(**{part: float.fromhex(number) for part, number in numbers.items()})
            for name, numbers in facts.items()
        }
        columns = arrays["signals"]
        _checks.expect(columns, "signals", np.float64, (len(columns), len(fitted)))
        if not np.isfinite(columns).all() or not all(one.scale > 0 for one in fitted.values()):
            raise ValueError("the signals are not finite numbers with scales above 0")
        return cls(fitted, columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        names = ", ".join(
            name if one.tau is None else f"{name} (half-life {datetime.timedelta(seconds=one.tau * np.log(2))})"
            for name, one in self._fitted.items()
        )
        return f"Signals of {len(self):,} items: {names}"

    def _asked(self, boosts: Boosts | None, n: int) -> list[NDArray[np.float64]]:
        """The weights of n queries for every signal."""
        asked = {} if boosts is None else boosts
        if not isinstance(asked, Mapping):
            raise TypeError(f"boosts is a {type(asked).__name__}, but must be a dict of weights by the signal's name.")
        unknown = [name for name in asked if name not in self._fitted]
        if unknown:
            known = f"there are {', '.join(map(repr, self._fitted))}" if self._fitted else "there are none"
            raise ValueError(f"boosts names {unknown[0]!r}, which is no signal; {known}.")
        return [_weight(asked.get(name, 0.0), name, n) for name in self._fitted]

    def _weights(
        self, boosts: Boosts | None, n: int, now: Moment | None
    ) -> list[tuple[str, Signal, NDArray[np.float64]]]:
        """Every signal with the weights of n queries, decayed."""
        moment = _now(now)
        return [
            (name, one, one.weight(weights, moment))
            for (name, one), weights in zip(self._fitted.items(), self._asked(boosts, n), strict=True)
        ]

    def _same(self, data: Any, n: int, what: str) -> dict[str, tuple[NDArray[np.float64], float | None]]:
        """Columns of n items, of signals that there are."""
        given = _columns(data, n, what, {name: one.tau for name, one in self._fitted.items()})
        other = next((name for name in given if name not in self._fitted), None)
        if other is not None:
            raise ValueError(f"{what} has {other!r}, but must have {', '.join(map(repr, self._fitted))}.")
        return given

    def _checked(self, what: str) -> Self:
        """The signals, if their coordinates fit float32."""
        for at, (name, one) in enumerate(self._fitted.items()):
            column = self._columns[:, at]
            if one.tau is not None and len(column) and column.max() > one.origin + MOST_GROWN * one.tau:
                raise ValueError(
                    f"{what}[{name!r}] has an item that is {(column.max() - one.origin) / one.tau:.3g} lifetimes newer "
                    f"than the newest when it was fitted, but {MOST_GROWN:g} is the most; fit it anew with rebuild()."
                )
            if np.abs(one.coordinate(column)).max(initial=0) > _LARGEST:
                raise ValueError(
                    f"{what}[{name!r}] holds numbers too large for float32 beside the others; scale it down."
                )
        return self


def _columns(
    data: Any, n: int, what: str, lifetimes: Mapping[str, float | None]
) -> dict[str, tuple[NDArray[np.float64], float | None]]:
    """By name, values and no lifetime, or times and theirs."""
    names = next((getattr(data, part) for part in ("column_names", "columns", "keys") if hasattr(data, part)), None)
    if names is None:
        raise TypeError(f"{what} is a {type(data).__name__}, but must be a dict or a frame of columns.")
    found = {}
    for name in names() if callable(names) else names:
        if not isinstance(name, str):
            raise TypeError(f"{what} has a column {name!r}, but names must be texts.")
        column, called = data[name], f"{what}[{name!r}]"
        tau = lifetimes.get(name)
        if isinstance(column, Decaying):
            values, own = column.times, float(column.tau)  # type: ignore[arg-type]
            if name in lifetimes and tau != own:
                raise ValueError(f"{called} has the lifetime {own:g} s, but it was built with {tau or 0:g} s.")
            tau = own
        elif tau is not None:
            values = _seconds(column, called)
        else:
            values = _finite(column, called)
        if values.shape != (n,):
            raise ValueError(f"{called} has {len(values)} values, but there are {n} items.")
        found[name] = values, tau
    return found


def _together(given: Mapping[str, tuple[NDArray[np.float64], float | None]], n: int) -> NDArray[np.float64]:
    return np.stack([values for values, _ in given.values()], axis=1) if given else np.zeros((n, 0))


def _finite(values: Any, name: str) -> NDArray[np.float64]:
    """A column of finite numbers; True and False count as 1 and 0."""
    array = np.asarray(values)
    array = _checks.numbers(array.astype(np.int8) if array.dtype.kind == "b" else array, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions, but must have 1.")
    taken: NDArray[np.float64] = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(taken))
    if bad.size:
        raise ValueError(f"{name} holds {taken[bad[0]]} in row {bad[0]}, but must be finite; fill what is missing.")
    if np.abs(taken).max(initial=0) > _LARGEST_VALUE:
        raise ValueError(f"{name} holds {taken[np.abs(taken).argmax()]:g}, too large for float32; scale it down.")
    return taken


def _seconds(values: Any, name: str) -> NDArray[np.float64]:
    """Moments as seconds since 1970."""
    array = np.asarray(values)
    if array.dtype.kind == "O" and array.ndim == 1 and len(array):
        array = np.array([_plain(value) for value in array.tolist()])
    if array.dtype.kind != "M":
        if array.dtype.kind not in "fiu":
            held = "texts" if array.dtype.kind == "U" else array.dtype
            raise TypeError(f"{name} holds {held}, but must hold dates, times or seconds since 1970.")
        return _finite(array, name)
    missing = np.flatnonzero(np.isnat(array))
    if missing.size:
        raise ValueError(f"{name} holds NaT in row {missing[0]}, but must have a time for every item.")
    seconds: NDArray[np.float64] = array.astype("datetime64[us]").astype(np.int64) / 1e6
    return _finite(seconds, name)


def _plain(value: Any) -> Any:
    """A moment of Python without its zone, in UTC."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return np.datetime64(value.astimezone(datetime.UTC).replace(tzinfo=None), "us")
    return np.datetime64(value, "us") if isinstance(value, datetime.date) else value


def _moment(value: Moment) -> float:
    """A moment in seconds since 1970."""
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"now is {value!r}, but must be a time such as 2030-12-31T12:00.") from None
    seconds = _seconds([value] if isinstance(value, np.datetime64) else np.array([value], object), "now")
    return float(seconds[0])


def _now(value: Moment | None) -> float:
    return time.time() if value is None else _moment(value)


def _duration(value: Duration | None, name: str) -> float:
    """A length of time in seconds."""
    if isinstance(value, np.timedelta64):
        value = value / np.timedelta64(1, "us") / 1e6
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    seconds = _checks.number_at_least(value, name, 0.0)  # type: ignore[arg-type]
    if not seconds > 0:
        raise ValueError(f"{name} is 0, but must be above 0.")
    return seconds


def _weight(value: ArrayLike, name: str, n: int) -> NDArray[np.float64]:
    """The weights of n queries."""
    array = _checks.numbers(value, f"boosts[{name!r}]")
    if array.shape not in ((), (n,)):
        raise ValueError(
            f"boosts[{name!r}] has shape {array.shape}, but must be one weight or one for each of {n} queries."
        )
    weights: NDArray[np.float64] = np.broadcast_to(array.astype(np.float64), (n,))
    bad = np.flatnonzero(~np.isfinite(weights))
    if bad.size:
        raise ValueError(f"boosts[{name!r}] is {weights[bad[0]]}, but weights must be finite.")
    return weights
