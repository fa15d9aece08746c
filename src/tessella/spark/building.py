"""Building: builds an index of all items, or one per block of items, in files that workers can open."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tessella import Index, __version__, _files
from tessella._threads import cut
from tessella.spark.arrow import ID, Items, in_id_order
from tessella.spark.files import Depot, Shipped
from tessella.spark.frames import Vectors, described
from tessella.versions.fingerprint import fingerprint

NAME = "item_factors"
_BUILT = pa.schema([("name", pa.string()), ("n_factors", pa.int32()), ("data", pa.binary()), ("problem", pa.string())])
_BUILT_IN_SPARK = "name string, n_factors int, data binary, problem string"
_CHUNK = 2**22  # bytes of a file per row


@dataclass(frozen=True)
class Recipe:
    """How to build an index."""

    k: int
    target_recall: float | None  # None is for exact search
    threads: int | None

    def file(self, items: Items, folder: Path) -> str:
        """Return the name of the index file for some items; build the file if the folder does not have it."""
        ids, factors = items
        how = None if self.target_recall is None else (self.k, self.target_recall)
        name = f"tessella-{fingerprint(__version__, how, ids, factors)}"
        if not (folder / name).exists():
            with suppress(FileExistsError):  # another process was faster
                self._index(items).save(folder / name)
        return name

    def _index(self, items: Items) -> Index:
        ids, factors = items
        if self.target_recall is None:
            return Index.build(factors, ids, method="exact", threads=self.threads)
        return Index.build(factors, ids, target_recall=self.target_recall, k=self.k, threads=self.threads)


def built_on_driver(items: Vectors, recipe: Recipe, block_rows: int | None, depot: Depot) -> list[Shipped]:
    """Build the indexes on the driver, which holds all items."""
    with (
        described(items.frame.sparkSession, "collects the items"),
        _fitting_the_driver(NAME, "pass build_on='executor'"),
    ):
        table = items.frame.toArrow()
    ids, factors = in_id_order(table.to_batches(), NAME)
    del table
    blocks = cut(len(ids), block_rows or len(ids))
    return [depot.ship(recipe.file((ids[some], factors[some]), depot.folder)) for some in blocks]


def built_on_executors(items: Vectors, recipe: Recipe, block_rows: int | None, depot: Depot) -> list[Shipped]:
    """Build the indexes on executors, each of which holds one block of items at a time; the driver holds none."""
    frame, spark = items.frame, items.frame.sparkSession
    n_blocks = 1
    if block_rows is not None:
        with described(spark, "counts the items"):
            n_blocks = max(1, -(-frame.count() // block_rows))
    ranges = frame.repartition(1) if n_blocks == 1 else frame.repartitionByRange(n_blocks, ID)
    build = Blocks(recipe, block_rows, depot.shared)
    built = ranges.sortWithinPartitions(ID).mapInArrow(build, _BUILT_IN_SPARK)
    what = "builds the index" if n_blocks == 1 else f"builds indexes of {n_blocks:,} blocks of items"
    way_out = "pass a shared_folder or a smaller item_block_rows"
    with described(spark, what), _fitting_the_driver(f"an index of {NAME}", way_out):
        rows = built.toLocalIterator() if depot.shared is None else built.collect()
        names = _written(rows, depot.folder)
    return [depot.ship(name) for name in names]


@dataclass(frozen=True)
class Blocks:
    """Builds indexes on an executor, from batches of items sorted by id.

    The rows it yields name the index files. Without a shared folder, they also carry the contents of the files.
    """

    recipe: Recipe
    block_rows: int | None
    folder: str | None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows; if the items are bad, end with a row that says why."""
        try:
            with tempfile.TemporaryDirectory() as temporary:
                for items in in_blocks(batches, self.block_rows):
                    yield from self._rows(items, Path(self.folder or temporary))
        except (TypeError, ValueError) as problem:
            yield _row(problem=str(problem))

    def _rows(self, items: Items, folder: Path) -> Iterator[Any]:
        name, n_factors = self.recipe.file(items, folder), items[1].shape[1]
        if self.folder is not None:
            yield _row(name=name, n_factors=n_factors)
            return
        with (folder / name).open("rb") as file:
            while data := file.read(_CHUNK):
                yield _row(name=name, n_factors=n_factors, data=data)
        (folder / name).unlink()


@contextmanager
def _fitting_the_driver(what: str, way_out: str) -> Iterator[None]:
    """Turn Spark's error about a result too large for the driver into one sentence."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if "spark.driver.maxResultSize" not in str(error):
            raise
        raise ValueError(f"{what} is larger than spark.driver.maxResultSize; raise that limit, or {way_out}.") from None


def in_blocks(batches: Iterable[Any], block_rows: int | None) -> Iterator[Items]:
    """Regroup batches of items sorted by id into blocks of at most `block_rows` items."""
    kept: list[Any] = []
    n, last = 0, None

    def taken(parts: list[Any]) -> Items:
        nonlocal last
        items = in_id_order(parts, NAME)
        if items[0][0] == last:
            raise ValueError(f"{NAME} holds id {last!r} more than once.")
        last = items[0][-1].item()
        return items

    for batch in batches:
        rest = batch
        while block_rows is not None and n + rest.num_rows > block_rows:
            yield taken([*kept, rest.slice(0, block_rows - n)])
            rest, kept, n = rest.slice(block_rows - n), [], 0
        kept.append(rest)
        n += rest.num_rows
    if n:
        yield taken(kept)


def _row(**values: Any) -> Any:
    return pa.RecordBatch.from_pylist([dict.fromkeys(_BUILT.names) | values], _BUILT)


def _written(rows: Iterable[Any], folder: Path) -> list[str]:
    """Return the names of the files that executors built, after writing the contents they sent to the folder."""
    widths: dict[str, int] = {}
    with ExitStack() as opened:
        files: dict[str, Any] = {}
        for row in rows:
            if row.problem is not None:
                raise ValueError(row.problem)
            widths[row.name] = row.n_factors
            if row.data is not None:
                if row.name not in files:
                    temporary = opened.enter_context(_files.replacing(folder / row.name, overwrite=True))
                    files[row.name] = opened.enter_context(temporary.open("wb"))
                files[row.name].write(row.data)
        if not widths:
            raise ValueError(f"{NAME} has 0 rows, but at least 1 item is needed.")
        if len(set(widths.values())) > 1:
            lengths = f"{min(widths.values())} and {max(widths.values())}"
            raise ValueError(f"{NAME} has vectors of {lengths} numbers, but all must have the same length.")
    return list(widths)
