"""Signals: item values that are added to scores with weights chosen per query. Each is stored as a coordinate."""

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks

TIMES = 3.0  # spread of a single signal, relative to an ordinary coordinate of the items: see decision 33
MOST_GROWN = 40.0  # by how many lifetimes an item may be newer than the newest at fitting, within float32's precision
_LARGEST_VALUE = 1e30
_LARGEST = 1e15  # largest coordinate, so that products are well within float32

Moment: TypeAlias = float | str | datetime.datetime | datetime.date | np.datetime64
Duration: TypeAlias = float | datetime.timedelta | np.timedelta64
Boosts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Decaying:
    """A freshness signal: it halves with every `half_life` of an item's age.

    At the time `now` of a query, the signal is 0.5 ** ((now - time) / half_life): 1 for an item dated now, and more
    than 1 for an item dated in the future. Items need no updates as time passes; the weight decays instead.

    Parameters
    ----------
    times : array_like of shape (n_items,)
        The date of each item: dates and times (NumPy, pandas or Python; UTC unless they have a time zone), or seconds
        since 1970.
    half_life : float, timedelta or timedelta64, default None
        The age at which the signal has fallen to 1/2; a number is in seconds. Fixed once the recommender is built.
    tau : float, timedelta or timedelta64, default None
        The age at which the signal has fallen to 1/e, as an alternative to `half_life`; pass one of the two.

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
        """Check the numbers, and convert times to seconds since 1970."""
        if (self.half_life is None) == (self.tau is None):
            raise ValueError("a decaying signal needs either half_life or tau; pass exactly one of them.")
        if self.tau is None:
            lifetime = _duration(self.half_life, "half_life") / np.log(2)
        else:
            lifetime = _duration(self.tau, "tau")
        object.__setattr__(self, "tau", float(lifetime))
        object.__setattr__(self, "half_life", float(lifetime * np.log(2)))
        object.__setattr__(self, "times", _seconds(self.times, "times"))

    def at(self, now: Moment) -> NDArray[np.float64]:
        """Return the signal of every item at a given time."""
        values: NDArray[np.float64] = np.exp((self.times - _moment(now)) / self.tau)
        return values


@dataclass(frozen=True)
class Signal:
    """How the values of one signal become a coordinate: (value - centre) / scale.

    Attributes
    ----------
    centre : float
        The mean when the signal was fitted. It shifts all scores of a query alike, so it is added to them afterwards.
    scale : float
        The change in value that moves the coordinate by 1.
    tau : float or None
        The lifetime in seconds of a decaying signal; None for others.
    origin : float
        The time at which the weight of a decaying signal equals the requested weight, in seconds since 1970.
    """

    centre: float
    scale: float
    tau: float | None = None
    origin: float = 0.0

    @classmethod
    def fit(cls, values: NDArray[np.float64], tau: float | None, spread: float) -> Self:
        """Fit a signal so that its coordinate has the given spread."""
        origin = 0.0 if tau is None or not len(values) else float(values.max())
        taken = values if tau is None else np.exp((values - origin) / tau)
        centre = float(taken.mean()) if len(taken) else 0.0
        own = float(taken.std()) if len(taken) else 0.0
        if own <= 1e-12 * abs(centre):  # all values are equal
            own = abs(centre) or 1.0
        return cls(centre, own / spread, tau, origin)

    def coordinate(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coordinates of items, given their values or times."""
        taken = values if self.tau is None else np.exp((values - self.origin) / self.tau)
        coordinate: NDArray[np.float64] = (taken - self.centre) / self.scale
        return coordinate

    def weight(self, weight: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """Return the weight for the stored value, given the requested `weight` of the signal at the time `now`."""
        return weight if self.tau is None else weight * np.exp((self.origin - now) / self.tau)


class Signals:
    """Named signals of items, each stored as one more coordinate, so that boosted searches can be exact.

    With boosts, ``score = u . v + sum of weight x signal(item)``. An item's factor is extended by its signals, and a
    query by their weights. Signals without a weight get zeros in the query, so scores are the same as without signals.
    Immutable: a change of the items makes a new object, as with `Attributes`.

    Signals are centred and scaled: a single one is spread three times as far as an ordinary coordinate of the items,
    and each of several somewhat less. This does not change exact results; it makes boosted searches fast. Centre and
    scale stay as fitted until the next `fit`.

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
        self._columns = columns  # (n_items, n_signals): values, or times of decaying signals
        self._columns.flags.writeable = False

    @classmethod
    def fit(cls, data: Any, item_factors: NDArray[np.floating], what: str = "signals") -> Self:
        """Fit signals to items with these factors.

        Parameters
        ----------
        data : mapping or frame
            Columns by name: finite numbers, or a `Decaying`, with one value for each item. Missing values are refused,
            because whether they should count as 0 or as the mean depends on the signal.
        item_factors : ndarray of shape (n_items, n_factors)
            The factors that signals are scaled to.
        what : str, default "signals"
            What error messages call the data.
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
        """Fit centre, scale and origin again, to the current items."""
        data = {
            name: self._columns[:, at] if one.tau is None else Decaying(self._columns[:, at], tau=one.tau)
            for at, (name, one) in enumerate(self._fitted.items())
        }
        return type(self).fit(data, item_factors)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the signals, in the order of their coordinates."""
        return tuple(self._fitted)

    @property
    def nbytes(self) -> int:
        """The size of the values in bytes."""
        return self._columns.nbytes

    @property
    def worn(self) -> bool:
        """Whether some items are so much newer than those at `fit` that a decaying signal should be fitted again.

        Their coordinates grow exponentially with the number of lifetimes. Exact results stay right, but searches slow
        down.
        """
        return any(
            one.tau is not None and len(self) > 0 and self._columns[:, at].max() > one.origin + 2 * one.tau
            for at, one in enumerate(self._fitted.values())
        )

    def coordinates(self, entries: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.float32]:
        """Return the coordinates of all or some items."""
        columns = self._columns[entries]
        parts = [one.coordinate(columns[:, at]) for at, one in enumerate(self._fitted.values())]
        return np.stack(parts, axis=1).astype(np.float32) if parts else np.zeros((len(columns), 0), np.float32)

    def extend(
        self, item_factors: NDArray[np.floating], entries: NDArray[np.int64] | slice = slice(None)
    ) -> NDArray[np.float32]:
        """Append the signals of all or some items to their factors, as further coordinates."""
        return np.hstack([item_factors.astype(np.float32, copy=False), self.coordinates(entries)])

    def query_part(self, boosts: Boosts | None, n: int, now: Moment | None = None) -> NDArray[np.float32]:
        """Return the signal coordinates of n queries.

        Parameters
        ----------
        boosts : mapping, or None
            Weights by signal, each one number for all queries or one for each; signals not named have weight 0.
        n : int
            The number of queries.
        now : float, datetime or datetime64, default None
            The time at which decaying signals are evaluated; a number is seconds since 1970, and None is the current
            time.
        """
        part = np.zeros((n, len(self._fitted)))
        for at, (name, one, weights) in enumerate(self._weights(boosts, n, now)):
            part[:, at] = weights * one.scale
            if np.abs(part[:, at]).max(initial=0) > _LARGEST:
                raise ValueError(
                    f"boosts[{name!r}] is {np.abs(weights).max():.3g}, which is too large for float32; use a smaller "
                    "weight."
                )
        return part.astype(np.float32)

    def offset(self, boosts: Boosts | None, n: int, now: Moment | None = None) -> NDArray[np.float64]:
        """Return what must be added to the scores of n queries because signals are centred."""
        total = np.zeros(n)
        for _, one, weights in self._weights(boosts, n, now):
            total += weights * one.centre
        return total

    def boost(
        self, boosts: Boosts | None, n: int, now: Moment | None = None, entries: NDArray[np.int64] | slice = slice(None)
    ) -> NDArray[np.float64]:
        """Compute directly what boosts add to the scores of all or some items for n queries: (n, n_items)."""
        columns, moment = self._columns[entries], _now(now)
        total = np.zeros((n, len(columns)))
        for at, (one, weights) in enumerate(zip(self._fitted.values(), self._asked(boosts, n), strict=True)):
            values = columns[:, at] if one.tau is None else np.exp((columns[:, at] - moment) / one.tau)
            total += weights[:, None] * values
        return total

    def joined(self, data: Any, n: int, what: str = "signals") -> Self:
        """Append the signals of n more items."""
        given = self._same(data, n, what)
        missing = [name for name in self._fitted if name not in given]
        if missing:
            raise ValueError(f"{what} has no {missing[0]!r}, but must have {', '.join(map(repr, self._fitted))}.")
        added = _together({name: given[name] for name in self._fitted}, n)
        return type(self)(self._fitted, np.concatenate([self._columns, added]))._checked(what)

    def replaced(self, entries: NDArray[np.int64], data: Any, what: str = "signals") -> Self:
        """Replace the signals of some items; signals not given keep their values."""
        columns, names = self._columns.copy(), list(self._fitted)
        for name, (values, _) in self._same(data, len(entries), what).items():
            columns[entries, names.index(name)] = values
        return type(self)(self._fitted, columns)._checked(what)

    def take(self, entries: NDArray[np.int64]) -> Self:
        """Return the signals of some items, in the given order."""
        return type(self)(self._fitted, self._columns[entries])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store in a file."""
        return {"signals": self._columns}

    def facts(self) -> dict[str, Any]:
        """Return what a file must hold besides the arrays, as plain values."""
        return {
            name: {"centre": one.centre.hex(), "scale": one.scale.hex(), "origin": one.origin.hex()}
            | ({} if one.tau is None else {"tau": one.tau.hex()})
            for name, one in self._fitted.items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Restore signals from the results of `to_arrays` and `facts`."""
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
        """Return the weights of n queries for every signal."""
        asked = {} if boosts is None else boosts
        if not isinstance(asked, Mapping):
            raise TypeError(f"boosts must be a dict of weights by signal name, not {type(asked).__name__}.")
        unknown = [name for name in asked if name not in self._fitted]
        if unknown:
            known = f"there are {', '.join(map(repr, self._fitted))}" if self._fitted else "there are none"
            raise ValueError(f"boosts names {unknown[0]!r}, which is not a signal; {known}.")
        return [_weight(asked.get(name, 0.0), name, n) for name in self._fitted]

    def _weights(
        self, boosts: Boosts | None, n: int, now: Moment | None
    ) -> list[tuple[str, Signal, NDArray[np.float64]]]:
        """Return every signal with the decayed weights of n queries."""
        moment = _now(now)
        return [
            (name, one, one.weight(weights, moment))
            for (name, one), weights in zip(self._fitted.items(), self._asked(boosts, n), strict=True)
        ]

    def _same(self, data: Any, n: int, what: str) -> dict[str, tuple[NDArray[np.float64], float | None]]:
        """Read columns for n items; refuse names that are not existing signals."""
        given = _columns(data, n, what, {name: one.tau for name, one in self._fitted.items()})
        other = next((name for name in given if name not in self._fitted), None)
        if other is not None:
            raise ValueError(f"{what} has {other!r}, but the signals are {', '.join(map(repr, self._fitted))}.")
        return given

    def _checked(self, what: str) -> Self:
        """Return these signals; refuse coordinates that do not fit float32."""
        for at, (name, one) in enumerate(self._fitted.items()):
            column = self._columns[:, at]
            if one.tau is not None and len(column) and column.max() > one.origin + MOST_GROWN * one.tau:
                raise ValueError(
                    f"{what}[{name!r}] has an item {(column.max() - one.origin) / one.tau:.3g} lifetimes newer than "
                    f"the newest at the last fit, but the limit is {MOST_GROWN:g}; call rebuild() to fit again."
                )
            if np.abs(one.coordinate(column)).max(initial=0) > _LARGEST:
                raise ValueError(
                    f"{what}[{name!r}] holds numbers too far from the others for float32; scale them down."
                )
        return self


def _columns(
    data: Any, n: int, what: str, lifetimes: Mapping[str, float | None]
) -> dict[str, tuple[NDArray[np.float64], float | None]]:
    """Read columns by name: values without a lifetime, or times with one."""
    names = next((getattr(data, part) for part in ("column_names", "columns", "keys") if hasattr(data, part)), None)
    if names is None:
        raise TypeError(f"{what} must be a dict or a frame of columns, not {type(data).__name__}.")
    found = {}
    for name in names() if callable(names) else names:
        if not isinstance(name, str):
            raise TypeError(f"{what} has a column named {name!r}, but column names must be strings.")
        column, called = data[name], f"{what}[{name!r}]"
        tau = lifetimes.get(name)
        if isinstance(column, Decaying):
            values, own = column.times, float(column.tau)  # type: ignore[arg-type]
            if name in lifetimes and tau != own:
                raise ValueError(f"{called} has a lifetime of {own:g} s, but was built with {tau or 0:g} s.")
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
    """Read a column of finite numbers; True and False count as 1 and 0."""
    array = np.asarray(values)
    array = _checks.numbers(array.astype(np.int8) if array.dtype.kind == "b" else array, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions, but must have 1.")
    taken: NDArray[np.float64] = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(taken))
    if bad.size:
        raise ValueError(f"{name} holds {taken[bad[0]]} in row {bad[0]}, but must be finite; fill missing values.")
    if np.abs(taken).max(initial=0) > _LARGEST_VALUE:
        raise ValueError(
            f"{name} holds {taken[np.abs(taken).argmax()]:g}, which is too large for float32; scale it down."
        )
    return taken


def _seconds(values: Any, name: str) -> NDArray[np.float64]:
    """Convert times to seconds since 1970."""
    array = np.asarray(values)
    if array.dtype.kind == "O" and array.ndim == 1 and len(array):
        array = np.array([_plain(value) for value in array.tolist()])
    if array.dtype.kind != "M":
        if array.dtype.kind not in "fiu":
            held = "strings" if array.dtype.kind == "U" else array.dtype
            raise TypeError(f"{name} holds {held}, but must hold dates, times or seconds since 1970.")
        return _finite(array, name)
    missing = np.flatnonzero(np.isnat(array))
    if missing.size:
        raise ValueError(f"{name} holds NaT in row {missing[0]}, but must have a time for every item.")
    seconds: NDArray[np.float64] = array.astype("datetime64[us]").astype(np.int64) / 1e6
    return _finite(seconds, name)


def _plain(value: Any) -> Any:
    """Convert a Python date or datetime to a datetime64 in UTC."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return np.datetime64(value.astimezone(datetime.UTC).replace(tzinfo=None), "us")
    return np.datetime64(value, "us") if isinstance(value, datetime.date) else value


def _moment(value: Moment) -> float:
    """Convert a time to seconds since 1970."""
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
    """Convert a duration to seconds."""
    if isinstance(value, np.timedelta64):
        value = value / np.timedelta64(1, "us") / 1e6
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    seconds = _checks.number_at_least(value, name, 0.0)  # type: ignore[arg-type]
    if not seconds > 0:
        raise ValueError(f"{name} is 0, but must be above 0.")
    return seconds


def _weight(value: ArrayLike, name: str, n: int) -> NDArray[np.float64]:
    """Read the weights of n queries for one signal."""
    array = _checks.numbers(value, f"boosts[{name!r}]")
    if array.shape not in ((), (n,)):
        raise ValueError(
            f"boosts[{name!r}] has shape {array.shape}, but must be one weight, or one for each of the {n} queries."
        )
    weights: NDArray[np.float64] = np.broadcast_to(array.astype(np.float64), (n,))
    bad = np.flatnonzero(~np.isfinite(weights))
    if bad.size:
        raise ValueError(f"boosts[{name!r}] is {weights[bad[0]]}, but weights must be finite.")
    return weights
