"""Checks of single values."""

import operator
from typing import SupportsIndex

import numpy as np


def whole_number(value: SupportsIndex, name: str, low: int, high: int | None = None) -> int:
    """Return `value` as an int within [low, high]."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}.") from None
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}.")
    if number < low or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} is {number}, but must be {limits}.")
    return number


def _number(value: float, name: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError:
        return float(np.inf)


def number_at_least(value: float, name: str, low: float) -> float:
    """Return `value` as a finite float of at least `low`."""
    number = _number(value, name)
    if not (np.isfinite(number) and number >= low):
        raise ValueError(f"{name} is {number}, but must be finite and at least {low:g}.")
    return number


def number_between(value: float, name: str, low: float, high: float) -> float:
    """Return `value` as a float within [low, high]."""
    number = _number(value, name)
    if not low <= number <= high:
        raise ValueError(f"{name} is {number:g}, but must be from {low:g} to {high:g}.")
    return number


def true_or_false(value: object, name: str) -> None:
    """Refuse anything but a bool."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, not {type(value).__name__}.")


def one_of(value: object, name: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}, but must be one of {', '.join(map(repr, choices))}.")
    return value
