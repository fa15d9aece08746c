"""The native server of a version: its arrays, checked once, to answer queries in one call."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tessella import _kernels
from tessella.retrieval.codes import LARGEST_QUERY_CODE, LONGEST_QUERY_CODE

if TYPE_CHECKING:
    from tessella.versions.version import State


def server_for(state: "State") -> Any:
    """The native server of a version, or None where the twins run or there is nothing to serve."""
    running = _kernels.core()
    if running.simd == _kernels.TWINS or not state.n_live:
        return None
    fitted = state.fitted
    server = _kernels.native().Server(
        fitted.n_factors, state.longest, fitted.axes.head, LARGEST_QUERY_CODE, LONGEST_QUERY_CODE, running.level
    )
    if fitted.tiling is not None:
        server.learn(fitted.tiling.coded.codes, fitted.tiling.coded.offsets, fitted.tiling.coded.scales)
    for segment, base in state.parts():
        ids = np.arange(base, base + len(segment)) if state.text_ids else segment.ids
        codes = segment.codes
        server.add(
            segment.factors, segment.rows, segment.dead, base, ids, codes.codes, codes.offsets, codes.block_terms
        )
        filed = segment.filed
        if filed is not None:
            coded = filed.coded
            server.file(filed.places, filed.starts, coded.codes, coded.offsets, coded.scales, state.radii)
    return server
