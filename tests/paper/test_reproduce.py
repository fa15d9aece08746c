"""The experiments from end to end, on little: what the report says is what its numbers say."""

import csv
import html
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from conftest import DATA, NEEDS_DATA
from typer.testing import CliRunner

from tessella.commands import app as cli
from tessella.datasets import Ratings, movielens
from tessella.paper import candidate_recovery, discarded, document, methods, plots, problems, report
from tessella.paper.claims import HEADLINE_BUDGETS, claims, goals, headline_problems, headlines
from tessella.paper.experiments import run
from tessella.paper.factorise import factorise, factorise_implicit
from tessella.paper.frontiers import BUDGETS, allowed, frontier, matched, mean_gain
from tessella.paper.methods import BASELINES, METHODS, Point
from tessella.paper.problems import QUICK, synthetic_problems
from tessella.paper.reproduce import reproduce

pytest.importorskip("matplotlib", reason="figures need matplotlib, the plots extra")

TINY = replace(QUICK, n_items=300, n_users=25, widths=(20,), bits=(1, 2, 4), ranks=(2, 8), tables=(1, 2, 4))


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
    return Point({"at": discarded}, np.full(100, discarded), hits, 2.0, 0.0, 1.0)


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
    assert allowed([cheap, dear], "tables", 2.2, 10) == [cheap]
    assert allowed([cheap, dear], "tables", 3.2, 10) == [cheap, dear]
    assert allowed([cheap, dear], "work", 3.2, 10) == [cheap]
    assert allowed([cheap, dear], "single", 3.2, 10) == []
    assert allowed([cheap, dear], "unlimited", 1, 10) == [cheap, dear]


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
    moved = problems.bias_on_items(found)
    np.testing.assert_allclose(found.users @ found.items.T, moved.users @ moved.items.T, atol=1e-4)


@pytest.mark.skipif(importlib.util.find_spec("implicit") is None, reason="implicit, an extra, is not installed")
def test_implicit_factors():
    code = (
        "import numpy as np; from tessella.datasets import Ratings; from tessella.paper import factorise as f\n"
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
    again, other = (run(synthetic_problems(TINY, seed)[0], TINY) for seed in (0, 1))
    assert again == {name: part for name, part in first.items() if name != "lists"}
    assert other["methods"] != first["methods"]


@pytest.mark.parametrize("method", BASELINES)
def test_points_are_what_candidates_give(method):
    draw = synthetic_problems(TINY, 0)[0].draws[0]
    draw.items[7] = draw.users[3] = 0  # no direction, no code
    best = methods.true_best(draw)
    for point in methods.sweep(method, (draw,), [best], TINY):
        candidates = methods.candidates(method, point.settings, draw)(draw.users)
        np.testing.assert_allclose(point.discarded, discarded(candidates))
        np.testing.assert_allclose(point.recovery, candidate_recovery(candidates, best))


def test_the_truth_is_found_by_brute_force(ran):
    draw = synthetic_problems(TINY, 0)[0].draws[0]
    best = np.argsort(-(draw.users @ draw.items.T), axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(methods.true_best(draw), best)
    assert ran[1]["problems"]["synthetic-20"]["methods"]["exact"]["points"][0]["recovery"]["mean"] == 1.0


def test_each_user_of_learned_factors_is_in_one_draw_with_vectors_of_its_own():
    users = np.arange(20, dtype=np.float32)[:, None]
    draws = problems.shared_out(users, users, 11, 3, seed=5)
    assert [draw.seed for draw in draws] == [5, 6, 7]
    asked = np.concatenate([draw.users.ravel() for draw in draws])
    assert len(set(asked.tolist())) == len(asked) == 11
    assert len(problems.shared_out(users, users, 2, 3, seed=0)) == 2


def test_mean_gain_is_the_height_between_frontiers():
    ours, theirs = [point(0.5, 0.9), point(0.9, 0.5)], [point(0.3, 0.8), point(0.9, 0.2)]
    assert mean_gain(ours, theirs) == pytest.approx(0.3)
    assert mean_gain(ours, theirs[:1]) is None
    assert mean_gain(ours, []) is None


def test_final_lists_are_measured_in_every_way(ran):
    folder, results = ran
    problem = results["problems"]["synthetic-20"]
    timed = json.loads((folder / "times.json").read_text())["synthetic-20"]
    assert {row["method"] for row in problem["lists"]} == {*METHODS, "brute-force"}
    for row, times in zip(problem["lists"], timed, strict=True):
        assert row["implied_speed_up"] == pytest.approx(1 / (1 - row["discarded"]))
        assert times["seconds"] > 0
        if row["method"] in ("brute-force", "exact"):
            assert (row["tie_aware_recall"], row["ndcg"]) == pytest.approx((1, 1))
    assert timed[0]["measured_speed_up"] == 1


def test_the_report_claims_what_its_numbers_say(ran):
    folder, results = ran
    assert json.loads((folder / "results.json").read_text()) == json.loads(json.dumps(results))
    page = (folder / "report.html").read_text()
    assert "prefers-color-scheme: dark" in page
    assert "<link" not in page
    assert not re.search(r"(src|href)=['\"](?!data:)", page)
    by_words = {(claim.claim, claim.where): claim for claim in claims(results)}
    for problem in results["problems"].values():
        ours = problem["methods"]["ours"]["matched"]["unlimited"]
        assert by_words[_speed_claim(), problem["title"]].held == (ours["recovery"]["mean"] >= 0.95)
        for budget, words in BUDGETS.items():
            claim = by_words[
                f"higher accuracy than every baseline at the same discard; baselines with {words}", problem["title"]
            ]
            parts = [problem["methods"][method]["matched"][budget] for method in BASELINES]
            assert claim.held == all(ours["recovery"]["low"] > part["recovery"]["high"] for part in parts if part)
            for part in filter(None, parts):
                assert f"({part['recovery']['mean']:.3f})" in claim.measured
        spreads = [problem["methods"][method]["matched"]["tables"]["near"]["discarded_sd"] for method in BASELINES]
        mine = ours["near"]["discarded_sd"]
        steadier = by_words["the share discarded varies less over users than with the baselines", problem["title"]]
        spread = by_words["the share discarded varies a great deal over users for some baselines", problem["title"]]
        assert (steadier.held, spread.held) == (mine < min(spreads), mine < max(spreads))
    assert len(by_words) == 7 * len(results["problems"])
    for goal, row in zip(goals(results), document.goal_rows(results), strict=True):
        assert row == (goal.where, goal.goal, goal.seen, "met" if goal.met else "missed")
        assert html.escape(goal.seen) in page
    for claim in by_words.values():
        assert html.escape(claim.measured) in page
    assert "This was a quick run" in page


def _speed_claim():
    return "nearly five-fold speed-up with about 80% of the items discarded and minimal loss of accuracy"


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
    short = report.summary(ran[1], json.loads((ran[0] / "times.json").read_text()))
    page = report.paper_page(short)
    judged = [*headlines(short), *claims(short)]
    assert page.count("| held |") == sum(claim.held for claim in judged)
    assert page.count("| did not hold |") == sum(not claim.held for claim in judged)
    assert short["command"] in page


def test_the_report_opens_with_a_figure_and_a_table(ran, tmp_path):
    folder, results = ran
    page = (folder / "report.html").read_text()
    assert page.index("<img") < page.index("<table") < page.index("<h2")
    short = report.summary(results, json.loads((folder / "times.json").read_text()))
    lines = report.paper_page(short).splitlines()
    (picture,) = [number for number, line in enumerate(lines) if line.startswith("![")]
    table = next(number for number, line in enumerate(lines) if line.startswith("|"))
    assert picture < table < next(number for number, line in enumerate(lines) if line.startswith("## "))
    assert lines[picture].endswith(f"(../images/{document.OPENING_FIGURE.name}.png)")
    drawn = plots.draw_opening(json.loads(json.dumps(short)), tmp_path)
    assert (tmp_path / f"{drawn.name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_headline_shows_the_number_needed_and_the_number_measured(ran):
    results = ran[1]
    (problem,) = results["problems"].values()
    rows = document.headline_rows(results)
    assert len(rows) == len(headlines(results)) == 6
    ours = problem["methods"]["ours"]["matched"]["unlimited"]
    assert rows[0][2:4] == ("recovery of at least 0.95 with 80% discarded", f"{ours['recovery']['mean']:.3f}")
    for row, budget in zip(rows[1:4], HEADLINE_BUDGETS, strict=True):
        parts = {METHODS[method]: problem["methods"][method]["matched"][budget] for method in BASELINES}
        best = max((part["recovery"]["mean"], name) for name, part in parts.items() if part)
        assert row[2].startswith(f"more than {best[0]:.3f} (")
        assert row[3] == f"{ours['recovery']['mean']:.3f}"
    spreads = [problem["methods"][method]["matched"]["tables"]["near"]["discarded_sd"] for method in BASELINES]
    assert rows[4][2].startswith(f"s.d. below {min(spreads):.3f} (")
    assert rows[5][3].startswith(f"{max(spreads):.3f} (")
    assert rows[4][3] in rows[5][2]


def test_a_report_opens_with_the_papers_two_experiments():
    named = {"problems": dict.fromkeys(["synthetic-10", "synthetic-20", "movielens-100k", "movielens-1m"])}
    assert headline_problems(named) == ["synthetic-20", "movielens-100k"]
    assert headline_problems({"problems": {"synthetic-3": None}}) == ["synthetic-3"]
    assert headline_problems({"problems": {"movielens-100k": None}}) == ["movielens-100k"]


def test_the_command_says_what_was_asked_for(tmp_path):
    scale = problems.resized(TINY, n_items=50, n_users=4, n_draws=1, widths=(3, 2, 3))
    results = reproduce("synthetic", tmp_path / "report", quick=True, seed=7, scale=scale)
    assert list(results["problems"]) == ["synthetic-2", "synthetic-3"]
    assert results["command"] == (
        "tessella reproduce synthetic --quick --seed 7 --items 50 --users 4 --factors 2 --factors 3 --draws 1"
    )


@pytest.mark.parametrize("width", [1, 2])
def test_small_problems_do_not_fail(tmp_path, width):
    scale = problems.resized(TINY, n_items=20, n_users=1, n_draws=1, widths=(width,))
    reproduce("synthetic", tmp_path / "report", scale=scale)
    assert (tmp_path / "report" / "report.html").exists()


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"n_items": 5}, "items is 5, but must be at least 20"),
        ({"n_users": 0}, "users is 0, but must be at least 1"),
        ({"n_draws": 0}, "draws is 0, but must be at least 1"),
        ({"widths": (20, 0)}, "factors is 0, but must be from 1 to 4096"),
    ],
)
def test_impossible_sizes_get_a_sentence(sizes, sentence):
    with pytest.raises(ValueError, match=sentence):
        problems.resized(QUICK, **sizes)


def test_what_stands_there_is_not_overwritten_unasked(ran, tmp_path):
    with pytest.raises(FileExistsError, match="already exists; pass overwrite=True to replace it"):
        reproduce("synthetic", ran[0], scale=TINY)
    mine = tmp_path / "mine"
    shutil.copytree(ran[0], mine)
    (mine / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match=r"contains thesis\.tex, which is not part of a report"):
        reproduce("synthetic", mine, scale=TINY, overwrite=True)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match=r"file is a file, but only a folder can be replaced\.$"):
        reproduce("synthetic", tmp_path / "file", scale=TINY, overwrite=True)
    with pytest.raises(ValueError, match="kind is 'gowalla'"):
        reproduce("gowalla", tmp_path / "new", scale=TINY)


def test_a_report_is_replaced_whole(ran, tmp_path, monkeypatch):
    out = tmp_path / "report"
    shutil.copytree(ran[0], out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    def interrupted(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(report, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reproduce("synthetic", out, scale=TINY, overwrite=True)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    link = tmp_path / "link"
    link.symlink_to("report")
    reproduce("synthetic", link, quick=True, scale=replace(TINY, widths=(3,)), overwrite=True)
    assert not (out / "figures" / "synthetic-20-bars.png").exists()
    assert (out / "figures" / "synthetic-3-bars.png").exists()
    assert {*tmp_path.iterdir()} == {out, link}
    assert link.is_symlink()


def test_what_comes_into_a_folder_meanwhile_is_kept(ran, tmp_path, monkeypatch):
    out = tmp_path / "report"
    shutil.copytree(ran[0], out)
    write = report.write

    def writes(*arguments):
        (out / "thesis.tex").touch()
        write(*arguments)

    monkeypatch.setattr(report, "write", writes)
    with pytest.raises(FileExistsError, match=r"contains thesis\.tex, which is not part of a report"):
        reproduce("synthetic", out, quick=True, scale=replace(TINY, widths=(3,)), overwrite=True)
    assert (out / "figures" / "synthetic-20-bars.png").exists()
    assert list(tmp_path.iterdir()) == [out]


def test_an_interrupted_run_leaves_nothing_behind(tmp_path):
    def interrupted(_doing, done, _total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce("synthetic", tmp_path / "report", scale=TINY, tell=interrupted)
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_is_missing(tmp_path, monkeypatch):
    def said(*arguments):
        result = CliRunner().invoke(cli.app, ["reproduce", *map(str, arguments)], prog_name="tessella")
        assert result.exit_code == 1
        return result.stderr

    out = tmp_path / "report"
    assert "does not contain ml-100k/u.data" in said("movielens", "--out", out, "--data", tmp_path)
    assert "there is no folder" in said("synthetic", "--out", tmp_path / "no" / "report")
    assert "items is 5, but must be at least 20" in said("synthetic", "--out", out, "--items", 5)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'tessella[plots]'" in said("synthetic", "--out", out)
    assert list(tmp_path.iterdir()) == []


def write_ratings(folder, ratings):
    (folder / "ml-100k").mkdir()
    rows = zip(ratings.users, ratings.items, ratings.ratings.astype(int), strict=True)
    text = "".join(f"{user}\t{item}\t{stars}\t0\n" for user, item, stars in rows)
    (folder / "ml-100k" / "u.data").write_text(text)


def test_further_sets_are_taken_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    write_ratings(tmp_path, made_up_ratings())
    folder = tmp_path / "factors" / "mine"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    np.save(folder / "users.npy", rng.standard_normal((5, 4), dtype=np.float32))
    np.save(folder / "items.npy", rng.standard_normal((30, 4), dtype=np.float32))
    found, left_out = problems.movielens_problems(tmp_path, TINY, 0, more=True)
    assert [problem.name for problem in found] == ["movielens-100k", "movielens-100k-bias", "mine"]
    assert [sentence.partition(":")[0] for sentence in left_out] == ["MovieLens 1M", "implicit factors"]
    assert found[0].facts["seeds"] == [0, 1]
    monkeypatch.setenv("TESSELLA_DATA", str(tmp_path))
    assert len(problems.ready_made_problems(None, TINY, 0, 0.7)) == 1
    for array, sentence in (
        (np.zeros((30, 3), np.float32), "items.npy has 3 columns, but 4 are expected"),
        (np.full((30, 4), np.nan, np.float32), "items.npy holds nan in row 0"),
        (np.zeros((5, 4), np.float32), "factors of 5 users and 5 items, but at least 1 user and 20 items are needed"),
        (np.array([None]), "items.npy"),
    ):
        np.save(folder / "items.npy", array)
        with pytest.raises(ValueError, match=sentence):
            problems.movielens_problems(tmp_path, TINY, 0, more=True)


def test_too_few_items_get_a_sentence(tmp_path):
    write_ratings(tmp_path, Ratings(np.arange(9), np.arange(9), np.full(9, 3.0), None))
    with pytest.raises(ValueError, match="has ratings of 9 items, but at least 20 are needed"):
        problems.movielens_problems(tmp_path, TINY, 0, more=False)


@NEEDS_DATA
def test_movielens_factors_predict_held_out_ratings(tmp_path):
    assert factorise(movielens(DATA)).rmse[-1] < 0.95
    tiny = replace(TINY, n_asked=60)
    results = reproduce("movielens", tmp_path / "report", quick=True, data=DATA, scale=tiny)
    found = results["problems"]["movielens-100k"]
    assert found["rmse"] < 0.95
    assert found["methods"]["ours"]["matched"]["unlimited"]["by_popularity"]
    assert (tmp_path / "report" / "figures" / "movielens-100k-popularity.png").exists()


@pytest.mark.parametrize("method", METHODS)
def test_draws_of_the_same_items_may_be_swept_together(method):
    users, items, _ = synthetic_problems(TINY, 0)[0].draws[0]
    draws = problems.shared_out(users, items, 20, 2, seed=3)
    best = [methods.true_best(draw) for draw in draws]
    apart = tuple(draw._replace(items=draw.items.copy()) for draw in draws)
    pairs = zip(methods.sweep(method, draws, best, TINY), methods.sweep(method, apart, best, TINY), strict=True)
    for together, each in pairs:
        np.testing.assert_array_equal(together.discarded, each.discarded)
        np.testing.assert_array_equal(together.hits, each.hits)
        assert (together.settings, together.filed) == (each.settings, each.filed)
        assert together.lookups == pytest.approx(each.lookups)
