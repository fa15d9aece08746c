"""Factors to try things on, made up to resemble learned ones."""

import numpy as np
from numpy.typing import NDArray

from tessella import _check

N_TASTES = 500
DECAY = 0.1  # the n-th axis has a spread of n to the power of -DECAY
ITEM_TASTES, USER_TASTES = (1.0,), (1.0, 0.4)  # lengths of the tastes that one has
NOISE = 0.4  # length of what is nobody else's
POPULAR = 0.5  # length of what all items have in common
LENGTHS_SPREAD = 0.75  # standard deviation of the logarithms of lengths


def generated_factors(
    n_items: int, n_users: int, n_factors: int = 64, *, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Factors of items and users that resemble those of implicit ALS.

    Lengths are skewed, directions are clustered around tastes, items lean to a common side, and the spectrum decays
    slowly. The constants were chosen by two models of check-ins at 40,981 places (Gowalla), with alpha 1 and alpha 20:

    ============================================  ==============  ==============  ==============
    64 factors                                    alpha 1         alpha 20        generated
    ============================================  ==============  ==============  ==============
    lengths of items over root mean square:
    median, 90%, 99%, longest                     .4 1.2 3.6 24   .8 1.4 2.6 7    .6 1.5 3.3 11
    share of squares in 1, 4, 16 principal axes   .23 .30 .47     .21 .28 .46     .20 .27 .50
    a user's tenth best score over the standard
    deviation of the user's scores, median        19              13              11
    cosine to the user of the ten best, median    .60             .61             .61
    cosine to the nearest item, median            .96             .94             .93
    ============================================  ==============  ==============  ==============

    Parameters
    ----------
    n_items, n_users : int
        How many of each. Neither changes the other's factors.
    n_factors : int, default 64
        How many coordinates a factor has, 1 to 4096.
    seed : int, default 0
        Another seed draws other factors, at least 0.

    Returns
    -------
    item_factors : ndarray of float32, shape (n_items, n_factors)
    user_factors : ndarray of float32, shape (n_users, n_factors)

    Examples
    --------
    >>> import numpy as np
    >>> from tessella.datasets import generated_factors
    >>> item_factors, user_factors = generated_factors(10_000, 20)
    >>> item_factors.shape, user_factors.shape
    ((10000, 64), (20, 64))
    >>> lengths = np.linalg.norm(item_factors, axis=1)
    >>> bool(np.percentile(lengths, 99) > 5 * np.median(lengths))
    True
    """
    sizes = [_check.whole_number(n_items, "n_items", 0), _check.whole_number(n_users, "n_users", 0)]
    width = _check.whole_number(n_factors, "n_factors", 1, _check.MAX_FACTORS)
    common, of_items, of_users = np.random.default_rng(_check.whole_number(seed, "seed", 0)).spawn(3)
    spread = np.arange(1, width + 1) ** -DECAY
    axes = np.linalg.qr(common.standard_normal((width, width)))[0] * (spread / np.linalg.norm(spread))[:, None]
    tastes = common.standard_normal((N_TASTES, width), dtype=np.float32)

    def drawn(n: int, rng: np.random.Generator, weights: tuple[float, ...], popular: float) -> NDArray[np.float32]:
        factors = rng.standard_normal((n, width), dtype=np.float32)
        factors *= NOISE
        for weight in weights:
            factors += (np.float32(weight) * tastes)[rng.integers(N_TASTES, size=n)]
        factors = factors @ axes.astype(np.float32)
        factors += np.float32(popular / np.sqrt(width))
        factors *= rng.lognormal(0, LENGTHS_SPREAD, (n, 1)).astype(np.float32)
        return factors

    return drawn(sizes[0], of_items, ITEM_TASTES, POPULAR), drawn(sizes[1], of_users, USER_TASTES, 0)
