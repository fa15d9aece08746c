"""The experiments from end to end, on little: what the report says is what its numbers say."""

import csv
import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from conftest import DATA, NEEDS_DATA
from typer.testing import CliRunner

from tessella import cli
from tessella.baselines import SignRandomProjection
from tessella.datasets import Ratings, movielens
from tessella.evaluation import candidate_recovery, discarded, experiments, report
from tessella.evaluation.experiments import BASELINES, QUICK, Point, frontier, matched
from tessella.evaluation.factorise import factorise, factorise_implicit
from tessella.evaluation.reproduce import reproduce

pytest.importorskip("matplotlib", reason="figures need matplotlib, the plots extra")

TINY = replace(QUICK, n_items=300, n_users=25, synthetic=(20,), bits=(1, 2, 4), ranks=(2, 8), tables=(1, 2, 4))


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run on generated factors: its folder and numbers."""
    out = tmp_path_factory.mktemp("runs") / "report"
    return out, reproduce("synthetic", out, quick=True, scale=TINY)


def made_up_ratings():
    rng = np.random.default_rng(3)
    users, items = (part.ravel() for part in np.mgrid[:60, :40])
    tastes = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 40))
    stars = np.clip(np.round(3 + tastes + rng.normal(0, 0.3, (60, 40))), 1, 5).ravel()
    seen = rng.random(len(users)) < 0.5
    return Ratings(users[seen], items[seen], stars[seen], None)


def point(discarded, recovery):
    hits = np.zeros((100, 10), np.bool_)
    hits[: round(100 * recovery)] = True
    return Point({"at": discarded}, np.full(100, discarded), hits, 2.0, 0.0)


def test_a_frontier_leaves_out_what_is_beaten():
    points = [point(0.5, 0.9), point(0.6, 0.95), point(0.9, 0.2), point(0.8, 0.2)]
    assert [each.settings["at"] for each in frontier(points)] == [0.6, 0.9]
    below, above = point(0.75, 0.4), point(0.75, 0.7)
    assert [each.settings["at"] for each in frontier([*points, below])] == [0.6, 0.9]
    assert [each.settings["at"] for each in frontier([*points, below, above])] == [0.6, 0.75, 0.9]


def test_methods_are_matched_between_points_and_never_beyond_them():
    points = [point(0.5, 0.9), point(0.75, 0.5)]
    assert matched(points, 0.625).recovery.mean() == pytest.approx(0.7)
    assert matched(points, 0.75).recovery.mean() == pytest.approx(0.5)
    assert matched(points, 0.4).recovery.mean() == pytest.approx(0.9)
    assert matched(points, 0.76) is None
    assert matched([], 0.5) is None


def test_a_budget_bounds_look_ups_and_projections():
    cheap, dear = (
        replace(point(0.5, 0.9), lookups=3, projections=9),
        replace(point(0.5, 0.9), lookups=4, projections=40),
    )
    assert experiments.allowed([cheap, dear], "tables", 2.2, 10) == [cheap]
    assert experiments.allowed([cheap, dear], "tables", 3.2, 10) == [cheap, dear]
    assert experiments.allowed([cheap, dear], "work", 3.2, 10) == [cheap]
    assert experiments.allowed([cheap, dear], "single", 3.2, 10) == []
    assert experiments.allowed([cheap, dear], "unlimited", 1, 10) == [cheap, dear]


def test_least_squares_lower_the_error_and_repeat_themselves():
    ratings = made_up_ratings()
    first, again = factorise(ratings, n_factors=6), factorise(ratings, n_factors=6)
    assert first.rmse[-1] < 0.6 * first.rmse[0]
    np.testing.assert_array_equal(first.users, again.users)
    np.testing.assert_array_equal(first.items, again.items)
    assert (first.users[:, -1] == first.users[0, -1]).all()
    assert factorise(ratings, n_factors=6, held_out=0).rmse.size == 0


def test_products_rank_as_the_model_does():
    ratings = made_up_ratings()
    found = factorise(ratings, n_factors=6, held_out=0)
    guess = np.einsum("ij,ij->i", found.users[ratings.users], found.items[ratings.items])
    means = np.bincount(ratings.users, guess) / np.bincount(ratings.users)
    stars = np.bincount(ratings.users, ratings.ratings) / np.bincount(ratings.users)
    error = (guess - means[ratings.users]) - (ratings.ratings - stars[ratings.users])
    assert np.sqrt(np.mean(error**2)) < 0.5


def test_moving_the_bias_keeps_every_product():
    found = factorise(made_up_ratings(), n_factors=6)
    moved = experiments._bias_on_items(found)
    np.testing.assert_allclose(found.users @ found.items.T, moved.users @ moved.items.T, atol=1e-4)


@pytest.mark.skipif(importlib.util.find_spec("implicit") is None, reason="implicit, an extra, is not installed")
def test_implicit_factors():
    code = (
        "import numpy as np; from tessella.datasets import Ratings; from tessella.evaluation import factorise as f\n"
        "users, items = np.nonzero(np.random.default_rng(0).random((30, 20)) < 0.4)\n"
        "print(f.factorise_implicit(Ratings(users, items, users + 1.0, None), n_factors=4).items.shape)"
    )  # in a process of its own, because implicit leaves a thread behind
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert (ran.stdout, ran.stderr) == ("(20, 4)\n", "")


def test_without_implicit_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    with pytest.raises(ImportError, match=r"pip install 'tessella\[experiments\]'"):
        factorise_implicit(made_up_ratings())


def test_the_same_seed_gives_the_same_numbers(ran):
    first = ran[1]["problems"]["synthetic-20"]
    again, other = (experiments.run(experiments.synthetic_problems(TINY, seed)[0], TINY, int) for seed in (0, 1))
    assert again == first
    assert other["methods"] != first["methods"]


def test_candidates_of_growing_tables_are_those_of_the_baselines():
    draw = experiments.synthetic_problems(TINY, 0)[0].draws[0]
    draw.items[7] = draw.users[3] = 0  # no direction, no code
    best = experiments.true_best(draw.users, draw.items)
    for point in experiments._srp(draw, best, TINY):
        hashes = SignRandomProjection(point.settings["bits"], point.settings["tables"], draw.seed)
        candidates = hashes.fit(draw.items).candidates(draw.users)
        np.testing.assert_allclose(point.discarded, discarded(candidates))
        np.testing.assert_allclose(point.recovery, candidate_recovery(candidates, best))


def test_points_are_what_the_library_measures(ran):
    problem = experiments.synthetic_problems(TINY, 0)[0]
    users, items, _ = problem.draws[0]
    best = np.argsort(-(users @ items.T), axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(np.sort(experiments.true_best(users, items)), np.sort(best))
    exact = ran[1]["problems"]["synthetic-20"]["methods"]["exact"]["points"][0]
    assert exact["recovery"]["mean"] == 1.0


def test_the_report_claims_what_its_numbers_say(ran):
    folder, results = ran
    assert json.loads((folder / "results.json").read_text()) == json.loads(json.dumps(results))
    page = (folder / "report.html").read_text()
    assert "prefers-color-scheme: dark" in page
    assert "<link" not in page
    assert not re.search(r"(src|href)=['\"](?!data:)", page)
    judged = iter(report.claims(results))
    for problem in results["problems"].values():
        ours = problem["methods"]["ours"]["matched"]["unlimited"]["recovery"]
        assert next(judged).held == (ours["mean"] >= 0.95)
        for budget in experiments.BUDGETS:
            claim = next(judged)
            parts = [problem["methods"][method]["matched"][budget] for method in BASELINES]
            assert claim.held == all(ours["low"] > part["recovery"]["high"] for part in parts if part)
            for part in filter(None, parts):
                assert f"({part['recovery']['mean']:.3f})" in claim.measured
        next(judged)
    assert next(judged, None) is None
    for goal, row in zip(results["goals"], report.goal_rows(results), strict=True):
        assert row[-1] == (("met" if goal["met"] else "MISSED") if goal["asked"] else row[-1])
        assert row[2] in page


def test_every_point_is_in_the_table_and_every_figure_is_there(ran):
    folder, results = ran
    with (folder / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    counted = sum(
        len(parts["points"]) for problem in results["problems"].values() for parts in problem["methods"].values()
    )
    assert len(rows) == counted
    assert all(0 <= float(row["discarded"]) <= 1 for row in rows)
    for kind in ("curve", "bars", "histogram", "mean", "time"):
        assert (folder / "figures" / f"synthetic-20-{kind}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / "figures" / f"synthetic-20-{kind}.svg").read_text()


def test_the_page_for_the_docs_comes_from_the_summary(ran):
    short = report.summary(ran[1])
    page = report.paper_page(short)
    assert page.count("| held |") + page.count("| did not hold |") == len(report.claims(short))
    assert short["command"] in page


def test_what_stands_there_is_not_overwritten_unasked(ran, tmp_path):
    with pytest.raises(FileExistsError, match="pass --overwrite"):
        reproduce("synthetic", ran[0], scale=TINY)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match="something other than a report"):
        reproduce("synthetic", tmp_path / "mine", scale=TINY, overwrite=True)


def test_an_interrupted_run_leaves_nothing_behind(tmp_path):
    def started(_total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce("synthetic", tmp_path / "report", scale=TINY, started=started)
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_is_missing(tmp_path, monkeypatch):
    def said(*arguments):
        result = CliRunner().invoke(cli.app, ["reproduce", *map(str, arguments)], prog_name="tessella")
        assert result.exit_code == 1
        return result.stderr

    out = tmp_path / "report"
    assert "holds no ml-100k/u.data" in said("movielens", "--out", out, "--data", tmp_path)
    assert "there is no folder" in said("synthetic", "--out", tmp_path / "no" / "report")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'tessella[plots]'" in said("synthetic", "--out", out)
    assert list(tmp_path.iterdir()) == []


@NEEDS_DATA
def test_movielens_factors_predict_held_out_ratings(tmp_path):
    assert factorise(movielens(DATA)).rmse[-1] < 0.95
    tiny = replace(TINY, n_seeds=1)
    results = reproduce("movielens", tmp_path / "report", quick=True, data=DATA, scale=tiny)
    found = results["problems"]["movielens-100k"]
    assert found["rmse"] < 0.95
    assert found["methods"]["ours"]["matched"]["unlimited"]["by_popularity"]
    assert (tmp_path / "report" / "figures" / "movielens-100k-popularity.png").exists()
