"""A cached property without a lock: a forked child could inherit a lock that nobody releases."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class cached(Generic[Value]):  # noqa: N801
    """A property of an immutable object, computed on first access. Two threads may both compute it."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "cached[Value]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> "Value | cached[Value]":
        if instance is None:
            return self
        value = vars(instance)[self.name] = self.compute(instance)
        return value


def carry_over(names: tuple[str, ...], before: object, after: object) -> None:
    """Give an object the cached properties of another one, which are equal for both."""
    held = vars(before)
    vars(after).update({name: held[name] for name in names if name in held})
