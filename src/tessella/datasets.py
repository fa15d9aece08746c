"""Datasets to experiment with: generated factors, and loaders for published ratings. No data ships with the library."""

import contextlib
import hashlib
import io
import os
import re
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

DATA_VARIABLE = "TESSELLA_DATA"
_PUBLISHER = "https://files.grouplens.org/datasets/movielens/"
_LARGEST_ZIP = 2**24


Kind = Literal["als", "als-heavy", "bpr", "flat"]


@dataclass(frozen=True)
class _Recipe:
    """The parameters from which factors of one kind are generated; see `generated_factors`.

    Tastes are cluster centres. A taste has several styles, and every style has a popularity. An item is one style plus
    an individual part. A user is two styles, drawn by popularity, plus an individual part. `item_decay` and
    `user_decay` are pairs (p, t): the n-th of 64 axes has the spread n^-p exp(-n / 2t).
    """

    n_tastes: int
    n_styles: int  # per taste
    style: float  # length of a style, relative to its taste
    own: float  # length of an item's individual part
    item_decay: tuple[float, float]
    common: float  # length of the part that all items share, relative to the rest
    spread: tuple[float, float]  # of the log lengths of items: factors of a normal variable and of its square
    famous: float  # correlation of an item's length with the popularity of its style
    user_decay: tuple[float, float]
    user_style: float
    user_own: float
    second: float  # length of a user's second style
    pull: float  # how strongly users prefer popular styles
    user_common: float | None  # cosine between users and the part that all items share; None leaves it to chance
    user_spread: float


_RECIPES: dict[str, _Recipe] = {
    "als": _Recipe(
        n_tastes=606,
        n_styles=19,
        style=0.5,
        own=0.36,
        item_decay=(0.0, 150.0),
        common=0.46,
        spread=(0.37, 0.05),
        famous=0.98,
        user_decay=(0.0, 1900.0),
        user_style=0.34,
        user_own=0.38,
        second=0.33,
        pull=0.6,
        user_common=0.05,
        user_spread=0.42,
    ),
    "als-heavy": _Recipe(
        n_tastes=157,
        n_styles=22,
        style=0.68,
        own=0.31,
        item_decay=(0.01, 104.0),
        common=0.34,
        spread=(0.92, 0.01),
        famous=0.98,
        user_decay=(0.06, 1600.0),
        user_style=0.46,
        user_own=0.43,
        second=0.18,
        pull=1.35,
        user_common=0.05,
        user_spread=0.8,
    ),
    "bpr": _Recipe(
        n_tastes=58,
        n_styles=5,
        style=0.04,
        own=0.51,
        item_decay=(0.02, 17.5),
        common=0.28,
        spread=(0.058, 0.0),
        famous=0.84,
        user_decay=(0.08, 13.8),
        user_style=0.38,
        user_own=0.44,
        second=0.34,
        pull=0.52,
        user_common=None,
        user_spread=0.08,
    ),
    "flat": _Recipe(
        n_tastes=1420,
        n_styles=11,
        style=0.53,
        own=1.0,
        item_decay=(0.1, 60.0),
        common=0.07,
        spread=(0.08, 0.0),
        famous=0.33,
        user_decay=(0.0, 222.0),
        user_style=0.33,
        user_own=1.54,
        second=0.46,
        pull=0.65,
        user_common=None,
        user_spread=0.07,
    ),
}


@dataclass(frozen=True)
class _Published:
    """Where the publisher's archive holds a set of ratings, and the archive's checksum."""

    folder: str
    file: str
    separator: str
    sha256: str  # of the .zip file; TensorFlow Datasets and Keras pin the same one


_MOVIELENS = {
    "100k": _Published("ml-100k", "u.data", "\t", "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229"),
    "1m": _Published("ml-1m", "ratings.dat", "::", "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"),
}


class Ratings(NamedTuple):
    """Ratings, one per row. Users and items are numbered from 0.

    Attributes
    ----------
    users, items : ndarray of int64, shape (n_ratings,)
        Numbers from 0, in the order of the published ids.
    ratings : ndarray of float64, shape (n_ratings,)
        From 1 to 5 stars.
    timestamps : ndarray of int64, shape (n_ratings,), or None
        Seconds since 1970; None if the file has no timestamps.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float64]
    timestamps: NDArray[np.int64] | None

    @property
    def n_users(self) -> int:
        """The number of users."""
        return int(self.users.max()) + 1

    @property
    def n_items(self) -> int:
        """The number of items."""
        return int(self.items.max()) + 1


def movielens(path: str | os.PathLike[str] | None = None, size: Literal["100k", "1m"] = "100k") -> Ratings:
    """Load the MovieLens ratings of GroupLens. Their licence does not allow tessella to include them.

    Parameters
    ----------
    path : str or path, default None
        A folder that holds `ml-100k/u.data` or `ml-1m/ratings.dat` as published, or `ml-1m/ratings.npz`, a users x
        movies matrix written by scipy.sparse.save_npz. None uses the folder named in the environment variable
        TESSELLA_DATA. If that is not set, the archive is downloaded once, verified, and kept in ~/.cache/tessella (or
        under XDG_CACHE_HOME).
    size : {"100k", "1m"}, default "100k"
        Which dataset to load.
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
            f"{folder} does not contain {published.folder}/{published.file}; unpack "
            f"{_PUBLISHER}{published.folder}.zip there."
        )
    return _parsed(file.read_bytes(), published, str(file))


def _parsed(text: bytes, published: _Published, name: str) -> Ratings:
    """Parse lines of user, item, rating and timestamp."""
    lines = text.decode("latin-1")
    if not lines.strip():
        raise ValueError(f"{name} contains no ratings.")
    spaced = io.StringIO(lines.replace(published.separator, " "))
    try:
        columns = np.loadtxt(spaced, dtype=np.int64, ndmin=2, comments=None)
    except ValueError:
        columns = np.empty((0, 0), np.int64)
    if columns.shape[1] != 4:
        raise ValueError(f"{name} cannot be read as ratings: {_wrong_line(lines, published.separator)}.")
    return _numbered(columns[:, 0], columns[:, 1], columns[:, 2].astype(np.float64), columns[:, 3], name)


def _wrong_line(lines: str, separator: str) -> str:
    """Describe the first line that is not a rating."""
    whole = re.compile(r"\s*-?\d{1,18}\s*", re.ASCII)
    for number, line in enumerate(lines.split("\n"), 1):
        cells = line.split(separator)
        if line.strip() and (len(cells) != 4 or not all(map(whole.fullmatch, cells))):
            shown = line if len(line) <= 40 else f"{line[:40]}..."
            return f"line {number} is {shown!r}, not four integers for user, item, rating and timestamp"
    return "a line is not four integers for user, item, rating and timestamp"


def _unpacked(path: Path) -> Ratings:
    """Read ratings from a sparse matrix of users x items."""
    try:
        matrix = scipy.sparse.coo_array(scipy.sparse.load_npz(path))
    except (ValueError, OSError, KeyError, zipfile.BadZipFile, zlib.error):
        raise ValueError(f"{path} is damaged, or is not a sparse matrix from scipy.sparse.save_npz.") from None
    if not matrix.nnz:
        raise ValueError(f"{path} contains no ratings.")
    users, items = (part.astype(np.int64) for part in matrix.coords)
    return _numbered(users, items, matrix.data.astype(np.float64), None, str(path))


def _numbered(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    ratings: NDArray[np.float64],
    timestamps: NDArray[np.int64] | None,
    name: str,
) -> Ratings:
    """Check ratings, and number users and items from 0."""
    wrong = np.flatnonzero(~((ratings >= 1) & (ratings <= 5)))
    if wrong.size:
        raise ValueError(f"{name} has the rating {ratings[wrong[0]]:g} in row {wrong[0]}, but ratings are from 1 to 5.")
    user_numbers = np.unique(users, return_inverse=True)[1]
    item_numbers = np.unique(items, return_inverse=True)[1]
    pairs = user_numbers * (int(item_numbers.max()) + 1) + item_numbers
    if len(np.unique(pairs)) < len(pairs):
        raise ValueError(f"{name} has a user who rated the same item twice.")
    return Ratings(user_numbers, item_numbers, ratings, timestamps)


def _downloaded(published: _Published) -> bytes:
    """Return the file of ratings from the publisher's archive, which is downloaded once and kept."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tessella" / f"{published.folder}.zip"
    if not kept.is_file() or _sha256(kept.read_bytes()) != published.sha256:
        archive = _download(f"{_PUBLISHER}{published.folder}.zip", published)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with _files.replacing(kept, overwrite=True) as temporary:
            temporary.write_bytes(archive)
    with zipfile.ZipFile(kept) as opened:
        return opened.read(f"{published.folder}/{published.file}")


def _download(address: str, published: _Published) -> bytes:
    """Download an archive and verify its checksum."""
    import urllib.request  # noqa: PLC0415 - few programs download

    try:
        with contextlib.closing(urllib.request.urlopen(address, timeout=30)) as answer:  # noqa: S310 - https, fixed
            archive: bytes = answer.read(_LARGEST_ZIP)
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise OSError(
            f"{address} cannot be downloaded ({reason}); without a network, pass a folder that contains "
            f"{published.folder}/{published.file}, or set {DATA_VARIABLE} to it."
        ) from None
    if _sha256(archive) != published.sha256:
        raise ValueError(
            f"{address} is not the published file: its SHA-256 is {_sha256(archive)} instead of {published.sha256}."
        )
    return archive


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def generated_factors(
    n_items: int, n_users: int, n_factors: int = 64, *, kind: Kind = "als", seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Generate factors of items and users that resemble those of a learned model.

    Items cluster around tastes, and within these around styles. Users combine two styles and prefer popular ones.
    Norms, spectra and search behaviour were fitted to implicit's ALS and BPR, trained on check-ins at 40,981 places
    (Gowalla), and to BPR of a million items. docs/paper/generated-factors.md compares the figures.

    =============  ==========================================================================================
    kind           resembles
    =============  ==========================================================================================
    ``als``        ALS with a large weight on observed items (alpha 20): moderately skewed norms
    ``als-heavy``  ALS with a small weight (alpha 1): a few items have very large norms
    ``bpr``        BPR: almost equal norms, and a spectrum that decays fast
    ``flat``       BPR of many items: almost equal norms, a flat spectrum, few near neighbours; hard to search
    =============  ==========================================================================================

    Parameters
    ----------
    n_items, n_users : int
        How many items and users. Changing one number does not change the other's factors.
    n_factors : int, default 64
        The number of coordinates of a factor, 1 to 4096.
    kind : {"als", "als-heavy", "bpr", "flat"}, default "als"
        The kind of model to resemble.
    seed : int, default 0
        The random seed, at least 0.

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
    >>> for kind in ("als", "als-heavy", "bpr"):
    ...     lengths = np.linalg.norm(generated_factors(10_000, 20, kind=kind)[0], axis=1)
    ...     print(f"{kind:9} {np.percentile(lengths, 99) / np.median(lengths):.0f}")
    als       3
    als-heavy 9
    bpr       1
    """
    sizes = [_checks.whole_number(n_items, "n_items", 0), _checks.whole_number(n_users, "n_users", 0)]
    width = _checks.whole_number(n_factors, "n_factors", 1, MAX_FACTORS)
    generators = np.random.default_rng(_checks.whole_number(seed, "seed", 0)).spawn(3)
    return _generate(_RECIPES[_checks.one_of(kind, "kind", tuple(_RECIPES))], sizes, width, generators)


def _generate(
    recipe: _Recipe, sizes: list[int], width: int, generators: list[np.random.Generator]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Generate factors from a recipe. The three generators are for shared parts, items and users."""
    shared, of_items, of_users = generators
    axes = np.linalg.qr(shared.standard_normal((width, width)))[0]
    tastes = np.repeat(shared.standard_normal((recipe.n_tastes, width), dtype=np.float32), recipe.n_styles, axis=0)
    styles = shared.standard_normal(tastes.shape, dtype=np.float32)
    fame = shared.standard_normal(len(tastes))
    common = np.full(width, 1 / np.sqrt(width), np.float32)

    liked = of_items.integers(len(tastes), size=sizes[0])
    items = of_items.standard_normal((sizes[0], width), dtype=np.float32)
    items *= np.float32(recipe.own)
    items += (tastes + np.float32(recipe.style) * styles)[liked]
    items = _units(items @ _scaled(axes, *recipe.item_decay))
    items += np.float32(recipe.common) * common
    normal = np.sqrt(1 - recipe.famous**2) * of_items.standard_normal(sizes[0]) + recipe.famous * fame[liked]
    items *= np.exp(recipe.spread[0] * normal + recipe.spread[1] * normal**2).astype(np.float32)[:, None]

    users = of_users.standard_normal((sizes[1], width), dtype=np.float32)
    users *= np.float32(recipe.user_own)
    likely = np.cumsum(np.exp(recipe.pull * fame))
    mixed = tastes + np.float32(recipe.user_style) * styles
    for weight in (1.0, recipe.second):
        users += np.float32(weight) * mixed[np.searchsorted(likely[:-1], likely[-1] * of_users.random(sizes[1]))]
    users = _units(users @ _scaled(axes, *recipe.user_decay))
    if recipe.user_common is not None:
        users += (np.float32(recipe.user_common) - users @ common)[:, None] * common
    users *= np.exp(recipe.user_spread * of_users.standard_normal((sizes[1], 1))).astype(np.float32)
    return items, users


def _scaled(axes: NDArray[np.float64], power: float, time: float) -> NDArray[np.float32]:
    """Scale axes so that their spread decays."""
    numbers = np.arange(1, len(axes) + 1)
    spread = numbers**-power * np.exp(-numbers * 32 / (time * len(axes)))
    scaled: NDArray[np.float32] = (axes * spread[:, None]).astype(np.float32)
    return scaled


def _units(factors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Normalise factors to length 1, in place."""
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    return factors
