"""Documents: converts items to and from the documents that OpenSearch stores."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.opensearch import features
from tessella.opensearch.fields import OWN, Values
from tessella.opensearch.layout import FACTOR, LARGEST_NORM, SLOTS, VECTOR, Layout

LONGEST_ID = 512  # bytes
_NOTHING = Values({}, {})


def documents(layout: Layout, factors: NDArray[np.float32], values: Sequence[Values] | None = None) -> list[str]:
    """Return items as JSON, in the order of their factors.

    Factors are stored bit by bit, as base64 of float32. Vectors, which the k-NN plugin reads, have nine digits, enough
    to tell any two float32 numbers apart.
    """
    starts, slots, entries = layout.item_mapper.entries(factors)
    vector = ",".join(["%.9g"] * layout.n_factors)
    made = []
    for number, factor in enumerate(factors):
        here = slice(starts[number], starts[number + 1])
        given = _NOTHING if values is None else values[number]
        own = {
            **given.own,
            FACTOR: base64.b64encode(factor.astype("<f4").tobytes()).decode(),
            SLOTS: features.of_item(slots[here], entries[here]),
        }
        text = json.dumps({OWN: own, **given.fields}, separators=(",", ":"))
        if layout.on_shards:  # inserted at the start of our object, which comes first
            vectored = f'"{VECTOR}":[{vector % tuple(factor.tolist())}],'
            at = len(OWN) + len('{"":{')
            text = text[:at] + vectored + text[at:]
        made.append(text)
    return made


def values_of(source: dict[str, Any]) -> Values:
    """Return the attributes of an item from its stored document."""
    fields = {name: value for name, value in source.items() if name != OWN}
    return Values(fields, {name: value for name, value in source[OWN].items() if name not in (FACTOR, SLOTS, VECTOR)})


def factors_of(sources: Sequence[dict[str, Any]], n_factors: int) -> NDArray[np.float32]:
    """Return the factors of stored documents."""
    together = b"".join(base64.b64decode(source[OWN][FACTOR]) for source in sources)
    return np.frombuffer(together, "<f4").reshape(len(sources), n_factors).astype(np.float32, copy=False)


def short_enough(factors: NDArray[np.float32], name: str) -> NDArray[np.float64]:
    """Return the norms of factors; refuse one so large that its products could overflow float32."""
    norms = _checks.norms_fit(factors, name)
    if norms.max(initial=0) > LARGEST_NORM:
        row = int(np.argmax(norms))
        raise ValueError(
            f"{name} has norm {norms[row]:.3g} in row {row}, but the limit in OpenSearch is {LARGEST_NORM:g}; scale "
            "the factors down."
        )
    return norms


def item_ids(given: Any, count: int | None, layout: Layout) -> NDArray[Any]:
    """Check ids of items: unique, and of the kind that the index has."""
    return _of_kind(_checks.ids(given, count), layout, "ids")


def texts_of(ids: NDArray[Any], layout: Layout, name: str = "ids") -> list[str]:
    """Return ids as strings for OpenSearch; refuse empty and overlong ones."""
    if not len(ids):
        return []
    texts: list[str] = list(map(str, _of_kind(ids, layout, name).tolist()))
    if layout.text_ids:
        for text in texts:
            length = len(text.encode(errors="surrogatepass"))
            if not 0 < length <= LONGEST_ID or any("\ud800" <= letter <= "\udfff" for letter in text):
                raise ValueError(
                    f"{name} holds {text[:40]!r} of {length:,} bytes, but ids in OpenSearch must have 1 to "
                    f"{LONGEST_ID} bytes of UTF-8."
                )
    return texts


def _of_kind(ids: NDArray[Any], layout: Layout, name: str) -> NDArray[Any]:
    if len(ids) and (ids.dtype.kind == "U") != layout.text_ids:
        kinds = {True: "strings", False: "integers"}
        raise TypeError(
            f"{name} are {kinds[not layout.text_ids]}, but those in the index are {kinds[layout.text_ids]}."
        )
    return ids
