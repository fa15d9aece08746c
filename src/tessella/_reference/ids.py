"""Where items are, by their ids."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def find_ids(
    ids: NDArray[Any],
    by_id: NDArray[np.int32],
    removed: NDArray[np.uint8] | None,
    base: int,
    wanted: NDArray[Any],
    positions: NDArray[np.int64],
) -> None:
    """Fill in the positions, with the base added, of those ids that are there. Here ids may be texts, too."""
    found = by_id[np.minimum(np.searchsorted(ids, wanted, sorter=by_id), len(ids) - 1)]
    there = ids[found] == wanted
    if removed is not None:
        there &= removed[found >> 3] >> (found & 7) & 1 == 0
    positions[there] = base + found[there]
