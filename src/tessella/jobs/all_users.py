"""Search for all users, block by block, in memory that does not grow with the number of users."""

import functools
import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks, _files
from tessella._threads import cut
from tessella.jobs import answer_folder
from tessella.jobs.progress import bar
from tessella.jobs.stored_texts import StoredTexts, numbers_in
from tessella.results import SearchResult
from tessella.retrieval.plan import METHODS, Method
from tessella.search.filters import Given, given, same_filter
from tessella.search.route import search
from tessella.versions.fingerprint import fingerprint, index_fingerprint
from tessella.versions.version import Version

USERS_PER_BLOCK = 8192  # enough for many threads, few enough for a progress bar that moves
BYTES_PER_BLOCK = 2**26  # the approximate memory limit of a block, answers included

Output = Callable[[int, SearchResult], object] | str | os.PathLike[str] | None


@dataclass(frozen=True)
class Users:
    """The factors and filters of all users, checked once and read block by block."""

    factors: NDArray[Any]  # (n_users, n_factors), of any dtype and order, perhaps in a file
    exclude: Given | None
    allow: Given | None
    name: str  # what error messages call the factors
    ids: answer_folder.Listed | None = None

    @classmethod
    def of(
        cls, version: Version, user_factors: Any, exclude: Any, allow: Any, ids: answer_folder.Listed | None
    ) -> "Users":
        """Read users as the caller passed them; checks that read every row are left to `check`."""
        name = "user_factors"
        if isinstance(user_factors, str | os.PathLike):
            user_factors, name = _mapped(user_factors), os.fspath(user_factors)
        factors = _checks.factors(user_factors, name, version.fitted.n_factors)
        n = len(factors)
        if ids is not None and len(ids) != n:
            raise ValueError(f"user_ids has {len(ids)} entries, but there are {n} users.")
        return cls(factors, given(version, exclude, "exclude", n), given(version, allow, "allow", n), name, ids)

    def __len__(self) -> int:
        return len(self.factors)

    def block(self, some: slice) -> NDArray[np.float32]:
        """Return the checked factors of some users."""
        return _checks.block(self.factors, some, self.name)

    def filters(self, some: slice) -> tuple[Given | None, Given | None]:
        """Return `exclude` and `allow` for some users, as `search` takes them."""
        exclude = None if self.exclude is None else self.exclude.of_queries(some)
        return exclude, None if self.allow is None else self.allow.of_queries(some)

    def check(self, version: Version, some: slice) -> None:
        """Refuse bad factors and filters of some users."""
        _checks.products_fit(self.block(some), version.longest, self.name, some.start)
        for part in self.filters(some):
            if part is not None:
                part.check(version)

    def digest(self, version: Version, some: slice) -> str:
        """Return the digest of the request for some users; filters with the same effect have the same digest."""
        ids = [] if self.ids is None else [self.ids[some]]
        return fingerprint(self.block(some), *same_filter(version, some.stop - some.start, *self.filters(some)), *ids)

    def per_block(self, version: Version, k: int) -> int:
        """Return how many users a block holds: the more memory a user takes, the fewer."""
        a_user = self.factors.shape[1] * (self.factors.itemsize + 8) + answer_bytes(version, k)
        if self.exclude is not None and self.exclude.n_queries is not None:
            a_user += 48 * self.exclude.n_entries // max(1, len(self))
        return users_per_block(a_user)


def answer_bytes(version: Version, k: int) -> int:
    """Estimate the memory of one user's answers while they are computed."""
    an_id = 8 + (8 * _text_kind(version).itemsize + 64 if version.text_ids else 0)  # a string is copied once or twice
    return k * (24 + an_id)


def users_per_block(a_user: int) -> int:
    """Return how many users a block holds if each takes `a_user` bytes."""
    most = max(method.queries_per_call for method in METHODS)
    users: int = max(1, min(USERS_PER_BLOCK, BYTES_PER_BLOCK // a_user))
    return users if users < most else users - users % most


def search_all(
    version: Version,
    user_factors: ArrayLike | str | os.PathLike[str],
    k: int,
    *,
    method: Method | None,
    exclude: Any,
    allow: Any,
    user_ids: answer_folder.Listed | None,
    out: Output,
    overwrite: bool,
    progress: bool | None,
    threads: int | None,
) -> SearchResult | None:
    """Run `Index.search_all` over one version of the index."""
    path = checked_path(out, overwrite, progress)
    users = Users.of(version, user_factors, exclude, allow, user_ids)

    def answer(some: slice) -> SearchResult:
        return search(version, users.block(some), k, method, *users.filters(some), threads)

    none = answer(slice(0, 0))  # raises now what a later block would raise
    k = none.ids.shape[1]
    per_block = users.per_block(version, k)
    for some in cut(len(users), per_block):
        users.check(version, some)
    digest = functools.partial(users.digest, version)
    job = Job(version, len(users), per_block, none, answer, digest, users.ids)
    if path is not None:
        return job.into_folder(path, _request(version, users, k, method), overwrite=overwrite, progress=progress)
    return job.into_memory(out if callable(out) else None, progress=progress)


@dataclass(frozen=True)
class Job:
    """Answers many users block by block."""

    version: Version
    n_users: int
    per_block: int
    kinds: SearchResult  # an empty result with the right dtypes and widths
    answer: Callable[[slice], SearchResult]  # answers some users
    digest: Callable[[slice], str]  # digests the request for some users
    user_ids: answer_folder.Listed | None

    def into_folder(
        self, path: Path, request: dict[str, Any], *, overwrite: bool, progress: bool | None
    ) -> SearchResult:
        """Write the answers to a folder, or resume an interrupted job; return them memory-mapped."""
        lists = {} if self.user_ids is None else {"users": self.user_ids}
        texts = self.version.ids if self.version.text_ids else None
        numbered = _as_they_are if texts is None else numbers_in(texts)
        if texts is not None:
            lists["items"] = texts
        with answer_folder.opened(
            path, request, numbered(self.kinds), self.digest, per_block=self.per_block, overwrite=overwrite
        ) as folder:
            with bar(self.n_users, begun=folder.done.n_users, shown=progress) as advance:
                for some in folder.left():
                    folder.put(some, self.digest(some), numbered(self.answer(some)))
                    advance(some.stop - some.start)
            found = folder.finish(lists, overwrite=overwrite)
        if texts is not None:
            found.ids = cast("NDArray[Any]", StoredTexts(found.ids, texts))
        return found

    def into_memory(
        self, out: Callable[[int, SearchResult], object] | None, *, progress: bool | None
    ) -> SearchResult | None:
        """Pass the answers to `out` block by block, or return them all."""
        n_kept = 0 if out is not None else self.n_users
        empty = (np.empty((n_kept, *part.shape[1:]), part.dtype) for part in self.kinds.arrays().values())
        result = SearchResult(*empty)
        take = functools.partial(_fill, result) if out is None else out
        with bar(self.n_users, shown=progress) as advance:
            for some in cut(self.n_users, self.per_block):
                take(some.start, self.answer(some))
                advance(some.stop - some.start)
        return result if out is None else None


def checked_path(out: Output, overwrite: bool, progress: bool | None) -> Path | None:
    """Return the path to write answers to, if there is one; refuse a path that cannot be written."""
    _checks.true_or_false(overwrite, "overwrite")
    if progress is not None:
        _checks.true_or_false(progress, "progress")
    if isinstance(out, str | os.PathLike):
        answer_folder.check_place(Path(out), overwrite=overwrite)
        return Path(out)
    if out is not None and not callable(out):
        raise TypeError(f"out is a {type(out).__name__}, but must be a path, a function or None.")
    if overwrite:
        raise ValueError("overwrite=True replaces a folder of answers, but out is not a path.")
    return None


def _request(version: Version, users: Users, k: int, method: Method | None) -> dict[str, Any]:
    """Describe the request, without the users' factors and filters; jobs with equal answers have equal requests."""
    own = {
        name: "none" if filtered is None else "all" if filtered.n_queries is None else "each"
        for name, filtered in (("exclude", users.exclude), ("allow", users.allow))
    }
    return {
        "tessella": importlib.metadata.version("tessella"),
        "index": index_fingerprint(version),
        "n_users": len(users),
        "k": k,
        "method": method_facts(method),
        **own,
    }


def method_facts(method: Method | None) -> dict[str, Any] | None:
    """Describe a method in plain values."""
    return None if method is None else {"name": method.name, **asdict(method)}


def _as_they_are(found: SearchResult) -> SearchResult:
    return found


def _fill(result: SearchResult, first: int, found: SearchResult) -> None:
    """Copy the answers of a block into the result."""
    for name, theirs in found.arrays().items():
        getattr(result, name)[first : first + len(theirs)] = theirs


def _mapped(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Map the array of a .npy file into memory."""
    _files.check_readable(Path(path))
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        raise ValueError(
            f"{os.fspath(path)} cannot be read: it is not a .npy file of numbers, or is damaged."
        ) from error


def _text_kind(version: Version) -> np.dtype[Any]:
    """Return a dtype wide enough for every string id of the index."""
    return np.result_type("<U1", *(segment.ids.dtype for segment in version.segments))
