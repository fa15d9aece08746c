"""Options: the arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

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
    typer.Option(help="Choose this many items by their slots and score only those.", show_default=False),
]
MAX_SLOTS = Annotated[int | None, typer.Option(help="Look through this many slots for each user.", show_default=False)]
EXACT = Annotated[bool, typer.Option("--exact", help="Prove the top k, even where a budget is given.")]


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}
