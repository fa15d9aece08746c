"""All users: a search for every one of them, a block at a time, in memory that does not grow with their number."""

import functools
import importlib.metadata
import inspect
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella.jobs import answer_folder
from tessella.jobs.progress import bar
from tessella.results import SearchResult
from tessella.retrieval.found import QUERIES_PER_BATCH
from tessella.versions.fingerprint import fingerprint, index_fingerprint
from tessella.versions.version import State

USERS_PER_BLOCK = 8192  # enough for many threads, few enough for a bar that moves
BYTES_PER_BLOCK = 2**26  # about what a block may take, answers included
_BY_USER = ("exclude", "allow")  # options of a search that may have a part for each user

Search = Callable[..., SearchResult]
Output = Callable[[int, SearchResult], object] | str | os.PathLike[str] | None


@dataclass(frozen=True)
class Users:
    """Everybody's factors and filters, checked once and given out by the block."""

    factors: NDArray[Any]  # (n_users, n_factors), of any type and order, perhaps in a file
    exclude: Any  # a CSR matrix, a sequence for each user, or None
    allow: Any  # ids for all, a sequence for each user, or None
    allow_by_user: bool
    name: str  # what sentences call the factors

    @classmethod
    def of(cls, state: State, user_factors: Any, exclude: Any, allow: Any) -> "Users":
        """Users as they were given; what cannot be seen without a look at every row is left to `check`."""
        name = "user_factors"
        if isinstance(user_factors, str | os.PathLike):
            user_factors, name = _mapped(user_factors), os.fspath(user_factors)
        factors = _checks.factors(user_factors, name, state.fitted.n_factors)
        n = len(factors)
        by_user = _checks.is_list_of_lists(allow)
        if _checks.is_sparse(exclude):
            _checks.excluding_shape(exclude.shape, n, state.n_live)
            exclude = exclude if exclude.format == "csr" else scipy.sparse.csr_array(exclude)
        elif exclude is not None and not (isinstance(exclude, list | tuple | np.ndarray) and len(exclude) == n):
            _checks.id_lists(exclude, "exclude", n)  # has the sentence
        if by_user and len(allow) != n:
            _checks.id_lists(allow, "allow", n)
        return cls(factors, exclude, allow, by_user, name)

    def __len__(self) -> int:
        return len(self.factors)

    def block(self, rows: slice) -> NDArray[np.float32]:
        """Checked factors of some users."""
        return _checks.block(self.factors, rows, self.name)

    def filters(self, rows: slice) -> dict[str, Any]:
        """What is excluded and allowed for some users, as a search takes it."""
        exclude = None if self.exclude is None else self.exclude[rows]
        return {"exclude": exclude, "allow": self.allow[rows] if self.allow_by_user else self.allow}

    def check(self, state: State, rows: slice) -> None:
        """Refuse bad factors and filters of some users."""
        _checks.products_fit(self.block(rows), state.longest, self.name, rows.start)
        for name, lists in self._listed(rows).items():
            for ids in _checks.id_lists(lists, name, len(lists)):
                state.same_kind(ids)

    def digest(self, rows: slice) -> str:
        """The digest of what is asked for some users."""
        parts: list[Any] = [self.block(rows)]
        if _checks.is_sparse(self.exclude):
            seen = self.exclude[rows]
            parts += [seen.indptr.astype(np.int64), seen.indices.astype(np.int64), seen.data != 0]
        for name, lists in self._listed(rows).items():
            parts += [name, *map(np.unique, _checks.id_lists(lists, name, len(lists)))]
        return fingerprint(*parts)

    def _listed(self, rows: slice) -> dict[str, Any]:
        """Filters that are a sequence of ids for each of some users."""
        listed = {}
        if self.exclude is not None and not _checks.is_sparse(self.exclude):
            listed["exclude"] = self.exclude[rows]
        if self.allow_by_user:
            listed["allow"] = self.allow[rows]
        return listed

    def per_block(self, state: State, k: int) -> int:
        """How many users a block holds: fewer where each takes more memory."""
        n_factors = self.factors.shape[1]
        an_id = 8 + (8 * _text_kind(state).itemsize + 64 if state.text_ids else 0)  # a text is copied once or twice
        a_user = n_factors * (self.factors.itemsize + 8) + k * (24 + an_id)
        if _checks.is_sparse(self.exclude):
            a_user += 48 * self.exclude.nnz // max(1, len(self))
        if self.allow_by_user:
            a_user += state.next_row // 8  # a bit for each item
        users: int = max(1, min(USERS_PER_BLOCK, BYTES_PER_BLOCK // a_user))
        return users if users < QUERIES_PER_BATCH else users - users % QUERIES_PER_BATCH


def search_all(
    search: Search,
    state: State,
    user_factors: ArrayLike | str | os.PathLike[str],
    k: int,
    *,
    exclude: Any,
    allow: Any,
    out: Output,
    overwrite: bool,
    progress: bool | None,
    options: Mapping[str, Any],
) -> SearchResult | None:
    """`Index.search_all`, where `search` answers from `state` and no other version."""
    known = _known(search, options)
    path = _path(out, overwrite, progress)
    users = Users.of(state, user_factors, exclude, allow)
    nobody = slice(0, 0)
    none = search(users.block(nobody), k, **users.filters(nobody), **options)  # refuses what it would refuse later
    per_block = users.per_block(state, none.ids.shape[1])
    blocks = answer_folder.blocks(0, len(users), per_block)
    for rows in blocks:
        users.check(state, rows)

    def answer(rows: slice) -> SearchResult:
        return search(users.block(rows), k, **users.filters(rows), **options)

    if path is not None:
        request = _request(state, users, none.ids.shape[1], known)
        if state.text_ids:
            none = none._replace(ids=none.ids.astype(_text_kind(state)))
        asked = users.digest
        with answer_folder.opened(path, request, none, asked, per_block=per_block, overwrite=overwrite) as folder:
            with bar(len(users), begun=folder.done.n_users, shown=progress) as advance:
                for rows in folder.left():
                    folder.put(rows, asked(rows), answer(rows))
                    advance(rows.stop - rows.start)
            return folder.finish(overwrite=overwrite)
    result = SearchResult(*(_room(part, 0 if callable(out) else len(users)) for part in none))
    take = out if callable(out) else functools.partial(_fill, result)
    with bar(len(users), shown=progress) as advance:
        for rows in blocks:
            take(rows.start, answer(rows))
            advance(rows.stop - rows.start)
    return None if callable(out) else result


def _path(out: Output, overwrite: bool, progress: bool | None) -> Path | None:
    """Where answers are to be written, if they are, and can be."""
    _checks.true_or_false(overwrite, "overwrite")
    if progress is not None:
        _checks.true_or_false(progress, "progress")
    if isinstance(out, str | os.PathLike):
        answer_folder.check_place(Path(out), overwrite=overwrite)
        return Path(out)
    if out is not None and not callable(out):
        raise TypeError(f"out is a {type(out).__name__}, but must be a path, a function or None.")
    if overwrite:
        raise ValueError("overwrite=True replaces a folder of answers, but out is no path.")
    return None


def _request(state: State, users: Users, k: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked, but for users' own factors and filters: the same for two jobs whose answers are the same."""
    own = {"exclude": "none", "allow": "none"}
    if users.exclude is not None:
        own["exclude"] = "matrix" if _checks.is_sparse(users.exclude) else "lists"
    if users.allow is not None:
        own["allow"] = "lists" if users.allow_by_user else fingerprint(_sorted_ids(users.allow))
    return {
        "tessella": importlib.metadata.version("tessella"),
        "index": index_fingerprint(state),
        "n_users": len(users),
        "k": k,
        "options": {name: _plain(value) for name, value in options.items() if name != "threads"},
        **own,
    }


def _fill(result: SearchResult, first: int, found: SearchResult) -> None:
    """Put the answers to a block where they belong."""
    pairs: Iterator[tuple[NDArray[Any], NDArray[Any]]] = zip(result, found, strict=True)
    for mine, theirs in pairs:
        mine[first : first + len(theirs)] = theirs


def _mapped(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array in a .npy file, left there."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} cannot be read: it is no .npy file of numbers, or is damaged.") from error


def _text_kind(state: State) -> np.dtype[Any]:
    """The type of arrays that hold any text id of the index."""
    return np.result_type("<U1", *(segment.ids.dtype for segment in state.segments))


def _room(part: NDArray[Any], n: int) -> NDArray[Any]:
    return np.empty((n, *part.shape[1:]), part.dtype)


def _sorted_ids(ids: Any) -> NDArray[Any]:
    return np.unique(_checks.id_lists([ids], "allow", 1)[0])


def _known(search: Search, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option of a search, as given or by default."""
    known = {
        name: option.default
        for name, option in inspect.signature(search).parameters.items()
        if option.kind is option.KEYWORD_ONLY and name not in _BY_USER
    }
    strange = [name for name in given if name not in known]
    if strange:
        raise TypeError(f"{strange[0]!r} is no option of a search; there are {', '.join(sorted(known))}.")
    return known | dict(given)


def _plain(value: Any) -> Any:
    """A value as JSON holds it, the same for equal ones; of anything large, its digest."""
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, np.bool_ | np.floating):
        return value.item()
    try:
        return operator.index(value)
    except TypeError:
        return fingerprint(value)
