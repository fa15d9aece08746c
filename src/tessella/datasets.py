"""Data to try things on: generated factors, and loaders of published ratings; nothing is packed with the library."""

import contextlib
import hashlib
import io
import os
import re
import urllib.error
import urllib.request
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import _checks, _files
from tessella._numbers import MAX_FACTORS

N_TASTES = 300
DECAY = 0.12  # the n-th axis has a spread of n to the power of -DECAY
ITEM_TASTES, USER_TASTES = (1.0,), (1.0, 0.4)  # lengths of the tastes that one has
NOISE = 0.35  # length of what is nobody else's
POPULAR = 0.5  # length of what all items have in common
ITEM_SPREAD, USER_SPREAD = 0.8, 0.7  # standard deviations of the logarithms of lengths
DATA_VARIABLE = "TESSELLA_DATA"
_PUBLISHER = "https://files.grouplens.org/datasets/movielens/"
_LARGEST_ZIP = 2**24


@dataclass(frozen=True)
class _Published:
    """Where a set of ratings is in its publisher's archive, and the archive's checksum."""

    folder: str
    file: str
    separator: str
    sha256: str  # of the .zip, as TensorFlow Datasets and Keras pin it too


_MOVIELENS = {
    "100k": _Published("ml-100k", "u.data", "\t", "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229"),
    "1m": _Published("ml-1m", "ratings.dat", "::", "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"),
}


class Ratings(NamedTuple):
    """Who rated what, a row a rating; users and items are numbered from 0.

    Attributes
    ----------
    users, items : ndarray of int64, shape (n_ratings,)
        Numbers in the order of the published ids.
    ratings : ndarray of float64, shape (n_ratings,)
        From 1 to 5 stars.
    timestamps : ndarray of int64, shape (n_ratings,), or None
        Seconds since 1970; None where the file keeps none.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float64]
    timestamps: NDArray[np.int64] | None

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return int(self.users.max()) + 1

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return int(self.items.max()) + 1


def movielens(path: str | os.PathLike[str] | None = None, size: Literal["100k", "1m"] = "100k") -> Ratings:
    """The MovieLens ratings of GroupLens, whose licence forbids to pass them on.

    Parameters
    ----------
    path : str or path, default None
        A folder that holds `ml-100k/u.data` or `ml-1m/ratings.dat` as published, or `ml-1m/ratings.npz`, users x movies
        from scipy.sparse.save_npz. None is the folder that the environment variable TESSELLA_DATA names; where it is
        not set, the archive is downloaded once, checked and kept in ~/.cache/tessella (or XDG_CACHE_HOME).
    size : {"100k", "1m"}, default "100k"
        Which set.
    """
    published = _MOVIELENS[_checks.one_of(size, "size", tuple(_MOVIELENS))]
    named = os.environ.get(DATA_VARIABLE) if path is None else path
    if not named:
        return _parsed(_downloaded(published), published, f"{published.folder}.zip")
    folder = Path(named)
    file = folder / published.folder / published.file
    packed = file.with_name("ratings.npz")
    if not file.exists() and packed.exists():
        return _unpacked(packed)
    if not file.is_file():
        raise FileNotFoundError(
            f"{folder} holds no {published.folder}/{published.file}; unpack {_PUBLISHER}{published.folder}.zip there."
        )
    return _parsed(file.read_bytes(), published, str(file))


def _parsed(text: bytes, published: _Published, name: str) -> Ratings:
    """Ratings from lines of user, item, rating and timestamp."""
    lines = text.decode("latin-1")
    if not lines.strip():
        raise ValueError(f"{name} holds no ratings.")
    spaced = io.StringIO(lines.replace(published.separator, " "))
    try:
        columns = np.loadtxt(spaced, dtype=np.int64, ndmin=2, comments=None)
    except ValueError:
        columns = np.empty((0, 0), np.int64)
    if columns.shape[1] != 4:
        raise ValueError(f"{name} cannot be read as ratings: {_wrong_line(lines, published.separator)}.")
    return _numbered(columns[:, 0], columns[:, 1], columns[:, 2].astype(np.float64), columns[:, 3], name)


def _wrong_line(lines: str, separator: str) -> str:
    """The first line that is no rating, in words."""
    whole = re.compile(r"\s*-?\d{1,18}\s*", re.ASCII)
    for number, line in enumerate(lines.split("\n"), 1):
        cells = line.split(separator)
        if line.strip() and (len(cells) != 4 or not all(map(whole.fullmatch, cells))):
            shown = line if len(line) <= 40 else f"{line[:40]}..."
            return f"line {number} is {shown!r}, not four whole numbers for user, item, rating and timestamp"
    return "a line is not four whole numbers for user, item, rating and timestamp"


def _unpacked(path: Path) -> Ratings:
    """Ratings from a sparse matrix of users x items."""
    try:
        matrix = scipy.sparse.coo_array(scipy.sparse.load_npz(path))
    except (ValueError, OSError, KeyError, zipfile.BadZipFile, zlib.error):
        raise ValueError(f"{path} is damaged or no sparse matrix from scipy.sparse.save_npz.") from None
    if not matrix.nnz:
        raise ValueError(f"{path} holds no ratings.")
    users, items = (part.astype(np.int64) for part in matrix.coords)
    return _numbered(users, items, matrix.data.astype(np.float64), None, str(path))


def _numbered(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    ratings: NDArray[np.float64],
    timestamps: NDArray[np.int64] | None,
    name: str,
) -> Ratings:
    """Ratings with users and items numbered from 0, if they are what they should be."""
    wrong = np.flatnonzero(~((ratings >= 1) & (ratings <= 5)))
    if wrong.size:
        raise ValueError(f"{name} has the rating {ratings[wrong[0]]:g} in row {wrong[0]}, but ratings are from 1 to 5.")
    user_numbers = np.unique(users, return_inverse=True)[1]
    item_numbers = np.unique(items, return_inverse=True)[1]
    pairs = user_numbers * (int(item_numbers.max()) + 1) + item_numbers
    if len(np.unique(pairs)) < len(pairs):
        raise ValueError(f"{name} has a user who rates an item twice.")
    return Ratings(user_numbers, item_numbers, ratings, timestamps)


def _downloaded(published: _Published) -> bytes:
    """The file of ratings from the publisher's archive, which is kept."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tessella" / f"{published.folder}.zip"
    if not kept.is_file() or _sha256(kept.read_bytes()) != published.sha256:
        archive = _fetched(f"{_PUBLISHER}{published.folder}.zip", published)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with _files.replacing(kept, overwrite=True) as temporary:
            temporary.write_bytes(archive)
    with zipfile.ZipFile(kept) as opened:
        return opened.read(f"{published.folder}/{published.file}")


def _fetched(address: str, published: _Published) -> bytes:
    """The archive at an address, if it is the one that was published."""
    try:
        with contextlib.closing(urllib.request.urlopen(address, timeout=30)) as answer:  # noqa: S310 - https, fixed
            archive: bytes = answer.read(_LARGEST_ZIP)
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise OSError(
            f"{address} cannot be downloaded ({reason}); where there is no network, pass a folder that holds "
            f"{published.folder}/{published.file}, or name it in {DATA_VARIABLE}."
        ) from None
    if _sha256(archive) != published.sha256:
        raise ValueError(f"{address} is not the file that was published: its SHA-256 is {_sha256(archive)}.")
    return archive


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def generated_factors(
    n_items: int, n_users: int, n_factors: int = 64, *, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Factors of items and users that resemble those of implicit ALS.

    Lengths are skewed, directions are clustered around tastes, items lean to a common side, and the spectrum decays
    slowly. The constants were chosen by three models of check-ins at 40,981 places (Gowalla), two of ALS (alpha 1 and
    alpha 20) and one of BPR, and a test holds each figure of this table between the lowest and the highest of theirs:

    ===================================================  ===========  ===========  ===========  ===========
    64 factors, 40,981 items                             alpha 1      alpha 20     BPR          generated
    ===================================================  ===========  ===========  ===========  ===========
    lengths of items over their median, 10%, 90%, 99%    .3 3.0 8.9   .7 1.7 3.2   .9 1.1 1.2   .4 2.8 6.5
    share of squares in 1, 4, 16 principal axes          .23 .30 .47  .21 .28 .46  .12 .35 .74  .20 .28 .53
    share of items that may be among a user's ten best:
    by their length alone                                .04          .08          .94          .10
    by 16 principal axes and the length of the rest      .015         .017         .024         .020
    cosine to the nearest item, median                   .96          .94          .93          .94
    cosine to the user of the ten best, median           .60          .62          .82          .71
    a user's tenth best score over the standard
    deviation of the user's scores, median               19           13           3.9          12
    ===================================================  ===========  ===========  ===========  ===========

    With more items they lie closer together, since the number of tastes stays.

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
    sizes = [_checks.whole_number(n_items, "n_items", 0), _checks.whole_number(n_users, "n_users", 0)]
    width = _checks.whole_number(n_factors, "n_factors", 1, MAX_FACTORS)
    common, of_items, of_users = np.random.default_rng(_checks.whole_number(seed, "seed", 0)).spawn(3)
    spread = np.arange(1, width + 1) ** -DECAY
    axes = np.linalg.qr(common.standard_normal((width, width)))[0] * (spread / np.linalg.norm(spread))[:, None]
    tastes = common.standard_normal((N_TASTES, width), dtype=np.float32)

    def drawn(
        n: int, rng: np.random.Generator, weights: tuple[float, ...], popular: float, lengths: float
    ) -> NDArray[np.float32]:
        factors = rng.standard_normal((n, width), dtype=np.float32)
        factors *= NOISE
        for weight in weights:
            factors += (np.float32(weight) * tastes)[rng.integers(N_TASTES, size=n)]
        factors = factors @ axes.astype(np.float32)
        factors += np.float32(popular / np.sqrt(width))
        factors *= rng.lognormal(0, lengths, (n, 1)).astype(np.float32)
        return factors

    item_factors = drawn(sizes[0], of_items, ITEM_TASTES, POPULAR, ITEM_SPREAD)
    return item_factors, drawn(sizes[1], of_users, USER_TASTES, 0, USER_SPREAD)
