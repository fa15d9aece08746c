"""The constants of rounding errors, from which every certified bound is built.

native/numbers.hpp has the same numbers and explains how they are derived. A test keeps the two equal.
"""

import numpy as np

EXACT, TILES, SLOTS = range(3)  # the engine's numbers for the methods
MAX_FACTORS = 4096

NORM_SPARE = 1e-6
ROTATION_SPARE = 5e-8
LARGEST_SKEW = 1e-11
ROUNDED_ROTATION_SPARE = 3e-7
UNDERFLOW_LOSS = 2.0**-148
LEAST_NORMAL_FLOAT = 2.0**-126
LARGEST_NORM = float(np.finfo(np.float32).max) / 2
LARGEST_PRODUCT = 1e38
LARGEST_BOUND = float(np.float32(3.4e38))

QUERY_OFFSET = 64
LARGEST_ITEM_CODE = 127.0
LARGEST_QUERY_CODE = 63.0
LONGEST_ITEM_CODE = 214.0
LONGEST_QUERY_CODE = 152.0
LEAST_CODE_STEP = float(np.float32(1e-30))
LEAST_SCALE = 2.0**-1000

PARTIAL_PRODUCT_UNITS = 2.0**29
FAINT = 32
PROVABLE_POSITIONS = 2048

BLOCK_ITEMS = 64
GROUP_ITEMS = 16
POSTING_BLOCK = 2**16
STRIDE = 64
FEW_GROUPS = 24

SCORED_LAST = 32

FEW_ALLOWED = 256
FEW_ALLOWED_SHARE = 8
MOST_WITH_REPEATS = 1000


def few_allowed(n_items: int) -> int:
    """Return how many items may be allowed at most for answers to be exact."""
    return max(FEW_ALLOWED, n_items // FEW_ALLOWED_SHARE)


def rounding_share(n_factors: int) -> float:
    """Return the largest error of a float32 score as a share of |u| |v|, including the error of rotation."""
    return n_factors * 2.0**-23 + ROUNDED_ROTATION_SPARE


def tile_width(n_head: int, n_factors: int) -> int:
    """Return how many coordinates tiles code: a sketch's if it is at most a third as wide as a factor, else all."""
    return n_head + 1 if 3 * (n_head + 1) <= n_factors else n_factors
