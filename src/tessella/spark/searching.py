"""Searching: answers batches of users in Python workers. A worker process opens an index once and keeps it."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from tessella import Index, Recommender
from tessella._threads import cut
from tessella.jobs.all_users import answer_bytes, users_per_block
from tessella.spark.arrow import FEATURES, ID, excluded_ids, factor_matrix, id_array, refuse_long, refuse_nulls
from tessella.spark.files import Shipped
from tessella.spark.results import Shape

Held = TypeVar("Held", Index, Recommender)


@functools.lru_cache(maxsize=1)  # one at a time, so that memory does not grow with the number of blocks
def opened(kind: type[Held], path: str) -> Held:
    """Load a memory-mapped index or recommender; the process keeps it for later batches and jobs."""
    return kind.load(path, mmap=True)


@dataclass(frozen=True)
class TopK:
    """Searches with the vectors of batches of users."""

    file: Shipped
    k: int
    shape: Shape
    threads: int
    quiet: bool  # whether to ignore unknown ids to exclude, which may belong to another block

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield batches of answers until all users are answered."""
        index = opened(Index, self.file.path())
        version = index._version
        at_once = users_per_block(8 * version.n_factors + answer_bytes(version, self.k))
        for users in in_parts(batches, at_once):
            ids = users.column(ID)
            refuse_nulls(ids, "user_factors")
            factors = factor_matrix(users.column(FEATURES), ids, "user_factors", version.n_factors)
            refuse_long(factors, ids, "user_factors", version.longest)
            exclude = excluded_ids(users, quiet=self.quiet)
            yield self.shape.batch(ids, index.search(factors, self.k, exclude=exclude, threads=self.threads))


@dataclass(frozen=True)
class Recommend:
    """Recommends to batches of users, given by id."""

    file: Shipped
    k: int
    shape: Shape
    threads: int
    options: dict[str, Any]  # of `Recommender.recommend`

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield batches of answers until all users are answered."""
        model = opened(Recommender, self.file.path())
        version = model._edition.version
        at_once = users_per_block(8 * version.n_factors + answer_bytes(version, self.k))
        for users in in_parts(batches, at_once):
            ids = users.column(ID)
            exclude = excluded_ids(users, quiet=False)
            named = id_array(ids, "users")
            found = model.recommend(named, self.k, exclude=exclude, threads=self.threads, **self.options)
            yield self.shape.batch(ids, found)


@dataclass(frozen=True)
class UserIds:
    """Turns row numbers of users into their ids."""

    file: Shipped

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield a batch of ids for each batch of row numbers."""
        ids = opened(Recommender, self.file.path()).user_ids
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.array(ids[batch.column(ID).to_numpy()])], [ID])


def in_parts(batches: Iterable[Any], at_once: int) -> Iterator[Any]:
    """Split batches into parts of at most `at_once` users."""
    for batch in batches:
        for some in cut(batch.num_rows, at_once):
            yield batch.slice(some.start, some.stop - some.start)
