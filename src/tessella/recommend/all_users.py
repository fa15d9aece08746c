"""Lists for all users, one block of users at a time, in memory that does not grow with their number."""

import importlib.metadata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from tessella.jobs.all_users import Job, answer_bytes, method_facts, users_per_block
from tessella.recommend.answering import Wish, answered, filtered, queries_of
from tessella.recommend.asking import Asked, block_of_users
from tessella.recommend.edition import Edition
from tessella.results import SearchResult
from tessella.search.filters import given, same_filter
from tessella.versions.fingerprint import fingerprint, index_fingerprint


def recommended_to_all(
    edition: Edition,
    wish: Wish,
    path: Path | None,
    out: Callable[[int, SearchResult], object] | None,
    *,
    overwrite: bool,
    progress: bool | None,
) -> SearchResult | None:
    """Compute the lists of all users of an edition; write them to a folder, pass them to `out`, or return them."""
    version, users = edition.version, edition.known_users()
    n = len(users)
    wish = replace(
        wish,
        exclude=given(version, wish.exclude, "exclude", n),
        allow=given(version, wish.allow, "allow", n),
    )

    def asked(some: slice) -> tuple[Asked, Wish]:
        return block_of_users(edition, some), wish.of_queries(some, n)

    def answer(some: slice) -> SearchResult:
        return answered(edition, *asked(some))

    def digest(some: slice) -> str:
        block, own = asked(some)
        row_filter = filtered(edition, block, own)
        filters = [] if row_filter is None else same_filter(version, len(block), None, row_filter)
        return fingerprint(queries_of(edition, block, own), *filters)

    none = answer(slice(0, 0))  # refuses bad input before any work is done
    k = none.ids.shape[1]
    seen = 0 if users.seen is None else 48 * users.seen.n_entries // max(1, n)
    a_user = users.n_interests * (12 * version.n_factors + answer_bytes(version, k)) + seen
    job = Job(version, n, users_per_block(a_user), none, answer, digest, users.ids)
    if path is None:
        return job.into_memory(out, progress=progress)
    request = {
        "tessella": importlib.metadata.version("tessella"),
        "model": edition.generation,
        "index": index_fingerprint(version),
        "n_users": n,
        "k": k,
        "method": method_facts(wish.method),
        "interests": wish.interests,
        "variety": None if wish.variety is None else repr(wish.variety),
        "users": fingerprint(np.asarray(users.ids)),
    }
    return job.into_folder(path, request, overwrite=overwrite, progress=progress)
