"""The command line: each command reads files, asks the index, and writes what it says."""

import enum
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from tessella import __version__, answer_folder, storage, tables
from tessella.index import Index
from tessella.progress import bar, steps
from tessella.results import SearchResult
from tessella.retrieval.tiles import LearnedTiles

USERS_PER_BATCH = 8192  # enough for many threads, few enough for a bar that moves
ROWS_ON_SCREEN = 50
USERS_COMPARED = 200  # with exact answers, where not all are proven
INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143  # as shells number what a signal ended


class Experiments(enum.StrEnum):
    """What `tessella reproduce` can run."""

    SYNTHETIC = "synthetic"
    MOVIELENS = "movielens"
    ALL = "all"


class Ways(enum.StrEnum):
    """How `tessella build` makes an index answer."""

    AUTO = "auto"
    EXACT = "exact"
    TILES = "tiles"


class _Commands(TyperGroup):
    """The commands, which turn errors into one sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt as error:
            code, sentence = INTERRUPTED, str(error) or "interrupted."
        except BrokenPipeError:
            code, sentence = PIPE_CLOSED, ""
        except (ImportError, KeyError, MemoryError, OSError, TypeError, ValueError) as error:
            code, sentence = 1, _sentence(error)
        else:
            return result
        _drop_output()
        if sentence:
            typer.echo(f"tessella: {sentence}", err=True)
        raise typer.Exit(code)


def _sentence(error: Exception) -> str:
    """What an error says, on one line."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename or 'the output'} cannot be used: {error.strerror.lower()}."
    elif isinstance(error, KeyError):
        text = str(error.args[0])  # on its own it would be quoted
    else:
        text = str(error) or "there is not enough memory."
    return " ".join(text.replace("overwrite=True", "--overwrite").split())


def _drop_output() -> None:
    """If output cannot be written, let it go, or Python would try again at exit and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _examples(*lines: str) -> str:
    """The foot of a help page; the backspace keeps its lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

INDEX = Annotated[Path, typer.Argument(metavar="INDEX", help="The index file.", show_default=False)]
USERS = Annotated[
    Path, typer.Argument(metavar="USERS", help="Factors of users, in a file like that of items.", show_default=False)
]
ITEMS = Annotated[
    Path,
    typer.Argument(
        metavar="ITEMS",
        help="Factors of items, a row each: .npy; .npz (one array, or `factors`, and perhaps `ids`); .csv (with column "
        "names or without, and ids first if the first name is `id`); .parquet (columns of numbers or one of lists, and "
        "perhaps `id`).",
        show_default=False,
    ),
]
THREADS = Annotated[
    int | None, typer.Option(help="Threads to use, if not one for each CPU. Changes no answer.", show_default=False)
]
NEW_IDS = Annotated[
    Path | None,
    typer.Option(
        help="Ids of the items, one a line, taken as whole numbers or as texts, as those in the index are. Without, "
        "ids are those beside the factors.",
        show_default=False,
    ),
]
OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]


EXCLUDE = Annotated[
    Path | None,
    typer.Option(
        help="Items not to recommend, such as those seen: a sparse matrix of users x items, in the order of the "
        "index, from scipy.sparse.save_npz.",
        show_default=False,
    ),
]
REACH = Annotated[
    float | None,
    typer.Option(
        help="How much of the bounds of tiles to believe, 0 to 1, for an index with tiles: more finds more and takes "
        "longer; 1 proves the top k.",
        show_default=False,
    ),
]
BUDGET = Annotated[
    int | None,
    typer.Option(help="Score this many items for each user, rather than prove the top k.", show_default=False),
]
MAX_SLOTS = Annotated[int | None, typer.Option(help="Look through this many slots for each user.", show_default=False)]
EXACT = Annotated[bool, typer.Option("--exact", help="Prove the top k, even where a budget is given.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tessella {__version__}")
        raise typer.Exit


@app.callback(
    epilog=_examples(
        "tessella build items.npy -o items.tessella",
        "tessella search items.tessella users.npy -k 10 -o recs.csv",
        "tessella add items.tessella more.npy --ids more-ids.txt",
    )
)
def commands(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Top-k recommendations from matrix-factorisation factors.

    Build an index from the factors of items, search it with those of users, and change it as items come and go.
    """


@app.command(
    epilog=_examples(
        "tessella build items.npy -o items.tessella",
        "tessella build items.csv -o items.tessella --ids ids.txt --overwrite",
        "tessella build items.npy -o items.tessella --queries users.npy",
        "tessella build items.npy -o items.tessella --schema exact",
    )
)
def build(
    items: ITEMS,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="INDEX", help="Where the index goes.", show_default=False)
    ],
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Ids of the items, one a line: whole numbers if every line is one, without leading zeros, and texts "
            "otherwise. Without, ids are those beside the factors, or row numbers from 0.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        Ways,
        typer.Option(
            help="How searches answer: by the fastest way that reaches the recall, exactly, or by learned tiles."
        ),
    ] = Ways.AUTO,
    target_recall: Annotated[
        float | None,
        typer.Option(
            help="The share of the true top 10 to find, 0 to 1; for auto 0.95 if not given. With tiles, their reach is "
            "chosen for it.",
            show_default=False,
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Factors of users to measure recall with, in a file like that of items. Without, some are made from "
            "the items.",
            show_default=False,
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    threads: THREADS = None,
) -> None:
    """Build an index from the factors of items."""
    if schema is Ways.EXACT and (target_recall is not None or queries is not None):
        raise typer.BadParameter("--target-recall and --queries are not for --schema exact, which finds all.")
    _check_place(output, overwrite)
    factors, listed = _items(items, ids)
    users = None if queries is None else tables.read_factors(queries, factors.shape[1]).factors
    measured = _given(target_recall=target_recall, queries=users)
    if schema is Ways.TILES:
        index = Index.build(factors, listed, schema=LearnedTiles(), **_given(threads=threads))
        if measured:
            index.tune(**measured)
    else:
        measured = {"target_recall": 1.0} if schema is Ways.EXACT else measured
        index = Index.build(factors, listed, **measured, **_given(threads=threads))
    index.save(output, overwrite=overwrite)
    typer.echo(f"{output}: {index}")


@app.command(
    epilog=_examples(
        "tessella search items.tessella users.npy -k 10 -o recs.parquet",
        "tessella search items.tessella users.npy --exclude seen.npz -o recs.csv",
        "tessella search items.tessella users.npy | head",
    )
)
def search(
    index: INDEX,
    users: USERS,
    k: Annotated[int, typer.Option("-k", help="How many items to recommend to each user.")] = 10,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where answers go: .parquet, .csv or .jsonl (user, rank, item, score), or .npz (ids, scores, scored, "
            "certified). Without, the first are shown, and a pipe gets all of them, separated by tabs.",
            show_default=False,
        ),
    ] = None,
    exclude: EXCLUDE = None,
    reach: REACH = None,
    budget: BUDGET = None,
    max_slots: MAX_SLOTS = None,
    exact: EXACT = False,
    overwrite: OVERWRITE = False,
    threads: THREADS = None,
) -> None:
    """Recommend items to users: the k with the largest inner products."""
    if output is not None:
        tables.writer(output)  # before the work, not after it
        _check_place(output, overwrite)
    loaded = Index.load(index)
    table = tables.read_factors(users, loaded.n_factors)
    names = _names(table)
    seen = None if exclude is None else tables.read_seen(exclude, (len(names), len(loaded)))
    options = _given(reach=reach, budget=budget, max_slots=max_slots, exact=exact, threads=threads)

    def answers(n_users: int) -> Iterator[tables.Answers]:
        for first in range(0, max(1, n_users), USERS_PER_BATCH):  # where there are no users, k is still looked at
            batch = slice(first, min(first + USERS_PER_BATCH, n_users))
            excluded = None if seen is None else seen[batch]
            yield tables.Answers(names[batch], loaded.search(table.factors[batch], k, exclude=excluded, **options))

    if output is not None:
        proven = _write(output, answers(len(names)), len(names), overwrite)
        typer.echo(f"{output}: the top {k} for {len(names):,} users, {proven:,} of them proven")
    elif sys.stdout.isatty():
        shown = min(len(names), max(1, ROWS_ON_SCREEN // max(1, k)))
        _show(next(answers(shown)), len(names))
    else:
        tables.write_rows(sys.stdout, answers(len(names)), "\t")


@app.command(
    name="search-all",
    epilog=_examples(
        "tessella search-all items.tessella users.npy --out recs",
        "tessella search-all items.tessella users.npy --out recs --exclude seen.npz",
    ),
)
def search_all(
    index: INDEX,
    users: USERS,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Where answers go: ids.npy, scores.npy, scored.npy and certified.npy, a row for each user. Until all "
            "are there, its name ends in .partial, and the same command goes on where it stopped.",
            show_default=False,
        ),
    ],
    k: Annotated[int, typer.Option("-k", "--k", help="How many items to recommend to each user.")] = 10,
    exclude: EXCLUDE = None,
    reach: REACH = None,
    budget: BUDGET = None,
    max_slots: MAX_SLOTS = None,
    exact: EXACT = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a folder of answers, or one that is partial and does not fit.")
    ] = False,
    threads: THREADS = None,
) -> None:
    """Recommend items to all users, in little memory, and go on after an interruption."""
    answer_folder.check_place(out, overwrite=overwrite)
    loaded = Index.load(index)
    options = _given(reach=reach, budget=budget, max_slots=max_slots, exact=exact, threads=threads)
    factors = tables.open_factors(users, loaded.n_factors)
    seen = None if exclude is None else tables.read_seen(exclude, (len(factors), len(loaded)))
    before, start = answer_folder.users_done(out), time.perf_counter()
    try:
        source = users if users.suffix.lower() == ".npy" else factors  # the path names it in sentences
        found = loaded.search_all(source, k, exclude=seen, out=out, overwrite=overwrite, **options)
    except KeyboardInterrupt:
        done = answer_folder.users_done(out)
        kept = f"{done:,} of {len(factors):,} users are done and kept; the same command goes on from there."
        raise KeyboardInterrupt(f"interrupted. {kept}" if done else "interrupted.") from None
    seconds, n_now = time.perf_counter() - start, len(factors) - before
    now = f", {before:,} of them before" if before else ""
    speed = f", {n_now / seconds:,.0f} users a second" if n_now else ""
    typer.echo(f"{out}: the top {k} for {len(factors):,} users{now}, {_quality(loaded, factors, seen, found)}{speed}")


@app.command(epilog=_examples("tessella add items.tessella more.npy --ids more-ids.txt"))
def add(index: INDEX, items: ITEMS, ids: NEW_IDS = None) -> None:
    """Add items to an index, all or none."""
    loaded = Index.load(index)
    loaded.add(*_items_for(loaded, items, ids))
    _replace(index, loaded)


@app.command(epilog=_examples("tessella update items.tessella changed.npy --ids changed-ids.txt"))
def update(index: INDEX, items: ITEMS, ids: NEW_IDS = None) -> None:
    """Give items of an index new factors, all or none."""
    loaded = Index.load(index)
    loaded.update(*_items_for(loaded, items, ids))
    _replace(index, loaded)


@app.command(
    epilog=_examples(
        "tessella remove items.tessella 17 23",
        "tessella remove items.tessella --ids old-ids.txt",
    )
)
def remove(
    index: INDEX,
    items: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids.", show_default=False)] = None,
    ids: Annotated[Path | None, typer.Option(help="A file of ids, one a line.", show_default=False)] = None,
) -> None:
    """Remove items from an index, all or none."""
    named = [*(items or []), *(tables.read_ids(ids) if ids is not None else [])]
    if not named:
        raise typer.BadParameter("name the items to remove, one by one or with --ids.")
    loaded = Index.load(index)
    loaded.remove(tables.as_ids(named, texts=_has_texts(loaded)))
    _replace(index, loaded)


@app.command(epilog=_examples("tessella info items.tessella"))
def info(index: INDEX) -> None:
    """Show what an index holds."""
    loaded = Index.load(index)
    lines: dict[str, object] = {
        "items": f"{len(loaded):,}",
        "factors": loaded.n_factors,
        "ids": "texts" if _has_texts(loaded) else "whole numbers",
        "schema": f"{loaded.schema.tessellation}, {loaded.schema.slot_map}, threshold {loaded.schema.threshold:g}",
        "tiles": "none" if loaded.tiles is None else loaded.tiles,
        "memory": f"{loaded.nbytes / 2**20:,.1f} MiB: "
        + ", ".join(f"{name} {part / 2**20:,.1f}" for name, part in loaded.memory.items()),
        "file": f"{index.stat().st_size / 2**20:,.1f} MiB",
        "format": storage.FORMAT,
        "tessella": __version__,
    }
    lines["search"] = str(loaded.plan).replace("\n", f"\n{'':<9} ")
    for name, value in lines.items():
        typer.echo(f"{name:<9} {value}")


@app.command(epilog=_examples("tessella explain items.tessella users.npy --user 3 --item 17"))
def explain(
    index: INDEX,
    users: USERS,
    user: Annotated[
        str, typer.Option(help="The user's row number, or id if the file of users has ids.", show_default=False)
    ],
    item: Annotated[str, typer.Option(help="The item's id.", show_default=False)],
) -> None:
    """Show why an item is, or is not, recommended to a user."""
    loaded = Index.load(index)
    table = tables.read_factors(users, loaded.n_factors)
    names = [str(name) for name in _names(table)]
    if user not in names:
        rows = f"row {user}; its rows are 0 to {len(names) - 1}." if table.ids is None else f"user with id {user!r}."
        raise ValueError(f"{users} has no {rows}")
    query = table.factors[names.index(user)]
    typer.echo(loaded.explain(query, tables.as_ids([item], texts=_has_texts(loaded))[0].item()))


@app.command(epilog=_examples("tessella verify items.tessella && echo sound"))
def verify(index: INDEX) -> None:
    """Look at every byte of an index file and list all that is damaged."""
    damages = storage.damages(index)
    for damage in damages:
        typer.echo(f"{index}: {damage}")
    if damages:
        raise ValueError(f"{index} is damaged; build it again or take a copy.")
    typer.echo(f"{index} is sound: {Index.load(index)}")


@app.command(
    epilog=_examples(
        "tessella reproduce synthetic --out report --quick",
        "tessella reproduce all --out report --data folder-with-ml-100k",
    )
)
def reproduce(
    what: Annotated[Experiments, typer.Argument(metavar="[synthetic|movielens|all]", help="Which experiments.")] = (
        Experiments.ALL
    ),
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the report goes.")] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Be done in a minute or so: smaller and coarser.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder that holds ml-100k/u.data and perhaps ml-1m/ratings.dat and factors/*/. Without, the one "
            "that TESSELLA_DATA names; without that, MovieLens is downloaded once.",
            show_default=False,
        ),
    ] = None,
    items: Annotated[int | None, typer.Option(help="Items of a synthetic draw.", show_default=False)] = None,
    users: Annotated[int | None, typer.Option(help="Users of a synthetic draw.", show_default=False)] = None,
    factors: Annotated[
        list[int] | None,
        typer.Option(metavar="K", help="Width of synthetic factors; may be given again.", show_default=False),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="Draws of factors and of random vectors.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers, times aside.")] = 0,
    overwrite: OVERWRITE = False,
) -> None:
    """Run the paper's experiments again, and write a report."""
    from tessella.evaluation import document, problems  # noqa: PLC0415 - no other command needs them
    from tessella.evaluation.claims import claims  # noqa: PLC0415
    from tessella.evaluation.reproduce import reproduce as reproduced  # noqa: PLC0415

    if not out.parent.is_dir():
        raise FileNotFoundError(f"{out} cannot be written: there is no folder {out.parent}.")
    usual = problems.QUICK if quick else problems.FULL
    scale = problems.resized(usual, n_items=items, n_users=users, n_draws=draws, widths=tuple(factors or ()))
    with steps() as tell:
        results = reproduced(
            what.value, out, quick=quick, data=data, seed=seed, overwrite=overwrite, scale=scale, tell=tell
        )
    for where, goal, seen, verdict in document.goal_rows(results):
        typer.echo(f"{verdict:<10} {where}: {goal}: {seen}")
    for problem in results["problems"].values():
        if "rmse" in problem:
            typer.echo(f"{'':<10} {problem['title']}: held-out RMSE {problem['rmse']:.3f}")
    for reason in results["left_out"]:
        typer.echo(f"left out   {reason}")
    typer.echo(f"{out / 'report.html'}: {len(results['problems'])} problems, {len(claims(results))} claims judged")


def _check_place(path: Path, overwrite: bool) -> None:
    """Refuse, before the work, an output that could not be written after it."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but the output is a file.")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already; pass --overwrite to replace it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: the folder {path.parent} is read-only.")


def _items(path: Path, ids: Path | None, index: Index | None = None) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
    """Factors and ids of items, from two files or from one; for an index, of its width and kind of ids."""
    table = tables.read_factors(path, None if index is None else index.n_factors)
    listed = table.ids if ids is None else tables.read_ids(ids)
    texts = index is not None and _has_texts(index)
    return table.factors, None if listed is None else tables.as_ids(listed, texts=texts)


def _items_for(index: Index, path: Path, ids: Path | None) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """The same where there must be ids."""
    factors, listed = _items(path, ids, index)
    if listed is None:
        raise ValueError(f"{path} holds no ids; pass them with --ids.")
    return factors, listed


def _has_texts(index: Index) -> bool:
    return index.ids.dtype.kind == "U"


def _names(table: tables.Table) -> NDArray[Any]:
    """What users are called: their ids, or their rows."""
    return np.arange(len(table.factors)) if table.ids is None else tables.as_ids(table.ids)


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def _replace(path: Path, index: Index) -> None:
    index.save(path, overwrite=True)
    typer.echo(f"{path}: {index}")


def _write(path: Path, answers: Iterator[tables.Answers], n_users: int, overwrite: bool) -> int:
    """Write answers, whole or not at all; how many are proven."""
    proven = 0

    def watched() -> Iterator[tables.Answers]:
        nonlocal proven
        for part in answers:
            yield part
            proven += int(part.found.certified.sum())
            advance(len(part.users))

    with bar(n_users) as advance, storage.replacing(path, overwrite=overwrite) as temporary:
        tables.writer(path)(temporary, watched())
    return proven


def _quality(index: Index, users: NDArray[Any], seen: Any, found: SearchResult) -> str:
    """How good answers are: all are proven, or what share of the true top k a sample of users got."""
    n_proven = int(np.count_nonzero(found.certified))
    if n_proven == len(users):
        return "all proven"
    from tessella.evaluation import tie_aware_recall  # noqa: PLC0415 - most searches prove their answers

    chosen = np.unique(np.linspace(0, len(users) - 1, USERS_COMPARED).astype(np.int64))
    k = found.scores.shape[1]
    true = index.search(users[chosen], k, exclude=None if seen is None else seen[chosen], exact=True)
    ranks = np.where(found.scores[chosen] > -np.inf, np.arange(k), -1)  # no item is there twice
    recall = tie_aware_recall(ranks, found.scores[chosen], true.scores).mean()
    return f"{n_proven:,} of them proven, recall {recall:.3f} for {len(chosen):,} that were compared"


def _show(answers: tables.Answers, n_users: int) -> None:
    """A table of a few answers, for people."""
    shown = Table(*tables.COLUMNS, box=SIMPLE)
    for _, rows in itertools.groupby(tables.rows(answers), key=lambda row: row[0]):
        for row in rows:
            shown.add_row(*map(str, row))
        shown.add_section()
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(shown)
    console.print(f"The first {len(answers.users):,} of {n_users:,} users; -o writes the answers to all.")


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _terminated)
    app(prog_name="tessella")


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(TERMINATED)  # not at once, so that no temporary file is left
