"""Options: the arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tessella.retrieval.plan import Exact, Method, Slots, Tiles

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
        "index or of --columns, from scipy.sparse.save_npz.",
        show_default=False,
    ),
]
COLUMNS = Annotated[
    Path | None,
    typer.Option(
        help="Ids of the items that the columns of --exclude are, one a line; needed once items were removed.",
        show_default=False,
    ),
]
USER_IDS = Annotated[
    Path | None,
    typer.Option(
        help="Ids of the users, one a line, in the order of their factors. Without, ids are those beside the factors, "
        "or row numbers from 0.",
        show_default=False,
    ),
]
ALLOW = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Recommend only these items: a file of ids, one a line.", show_default=False),
]
REACH = Annotated[
    float | None,
    typer.Option(
        help="Search by tiles, for an index with tiles. How far their bounds are trusted, 0 to 1: more finds more and "
        "takes longer; 1 certifies the top k.",
        show_default=False,
    ),
]
BUDGET = Annotated[
    int | None,
    typer.Option(help="Search by slots: score only the best so many items by them.", show_default=False),
]
MAX_SLOTS = Annotated[
    int | None, typer.Option(help="Search by slots: look through this many for each user.", show_default=False)
]
EXACT = Annotated[bool, typer.Option("--exact", help="Find the true top k, certified.")]


def method_of(*, reach: float | None, budget: int | None, max_slots: int | None, exact: bool) -> Method | None:
    """The method that options name, or None for the plan's."""
    named = {
        "--exact": exact,
        "--reach": reach is not None,
        "--budget or --max-slots": budget is not None or max_slots is not None,
    }
    chosen = [name for name, is_named in named.items() if is_named]
    if len(chosen) > 1:
        raise ValueError(f"{' and '.join(chosen)} name different methods; pass one of them.")
    if exact:
        return Exact()
    if reach is not None:
        return Tiles(reach)
    return Slots(budget, max_slots) if chosen else None


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}
