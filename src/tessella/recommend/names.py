"""Names: the sentence for one that is unknown, with those near it."""

import difflib
from collections.abc import Iterable
from typing import NoReturn


def refuse_name(name: object, known: Iterable[str], begin: str, end: str) -> NoReturn:
    """Refuse a name, and say which one may have been meant, or which there are."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    if near:
        hint = f"did you mean {near[0]!r}?"
    else:
        hint = f"there are {', '.join(map(repr, names))}." if names else "there are none."
    raise ValueError(f"{begin} {name!r}, but {end}; {hint}")
