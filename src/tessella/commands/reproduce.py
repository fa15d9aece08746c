"""Reproduce: the command that runs the paper's experiments again."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from tessella.commands.options import OVERWRITE
from tessella.jobs.progress import steps


class Experiments(enum.StrEnum):
    """The experiments that `tessella reproduce` can run."""

    SYNTHETIC = "synthetic"
    MOVIELENS = "movielens"
    ALL = "all"


def reproduce(
    what: Annotated[
        Experiments, typer.Argument(metavar="[synthetic|movielens|all]", help="Which experiments to run.")
    ] = (Experiments.ALL),
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write the report to.")] = Path(
        "reproduction"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Finish in about a minute, with smaller and coarser experiments.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder with ml-100k/u.data and optionally ml-1m/ratings.dat and factors/*/. By default, the folder "
            "that TESSELLA_DATA names; if that is not set, MovieLens is downloaded once.",
            show_default=False,
        ),
    ] = None,
    items: Annotated[
        int | None, typer.Option(help="The number of items in a synthetic draw.", show_default=False)
    ] = None,
    users: Annotated[
        int | None, typer.Option(help="The number of users in a synthetic draw.", show_default=False)
    ] = None,
    factors: Annotated[
        list[int] | None,
        typer.Option(metavar="K", help="The width of synthetic factors. Can be repeated.", show_default=False),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="The number of draws of factors and of random vectors.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers, except times.")] = 0,
    overwrite: OVERWRITE = False,
) -> None:
    """Run the paper's experiments again and write a report."""
    from tessella.paper import document, problems  # noqa: PLC0415 - no other command needs them
    from tessella.paper.claims import claims  # noqa: PLC0415
    from tessella.paper.reproduce import reproduce as reproduced  # noqa: PLC0415

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
