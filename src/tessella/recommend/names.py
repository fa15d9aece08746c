"""Names: the error for an unknown name, with a suggestion."""

import difflib
from collections.abc import Iterable
from typing import NoReturn


def refuse_name(name: object, known: Iterable[str], begin: str, end: str) -> NoReturn:
    """Refuse an unknown name; suggest a similar one, or list the known ones."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    if near:
        hint = f"did you mean {near[0]!r}?"
    else:
        hint = f"there are {', '.join(map(repr, names))}." if names else "there are none."
    raise ValueError(f"{begin} {name!r}, but {end}; {hint}")
