"""What a campaign of faults is: rounds that can be counted, repeated by seed, and that fail with a sentence."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


class Broken(AssertionError):  # noqa: N818
    """A promise did not hold; the text says which, in which round."""


@dataclass(frozen=True)
class Campaign:
    """One kind of attack.

    `play(seed)` plays one chunk, which takes about a second, and returns what it did: a count for each kind of event.
    It raises Broken if a promise did not hold, and depends on nothing but its seed, so that any failure can be replayed.
    `counted` is the kind of event that `--rounds` counts, `short` how many of them a short run plays.
    """

    name: str
    what: str  # one line: what is attacked and what must hold
    counted: str
    play: Callable[[int], Counter[str]]
    short: int = 1
