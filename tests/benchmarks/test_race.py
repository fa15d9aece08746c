"""How a race is decided: recall, sweeps, operating points, tables and curves."""

import json
from dataclasses import replace

import draw_curves
import measure
import numpy as np
import ours
import peers
import pytest
import race
import sets
from methods import Built, Family, Method, augmented, widened
from race import Course, Point, Sweep

BUILT = Built(0.0, lambda: 0, "arrays")


def point(family, setting, recall, speed):
    method = Method(family, setting, BUILT, lambda _queries, _k, _threads: None, lambda _query, _k: None)
    return Point(method, recall, speed, 1)


@pytest.fixture
def sweep():
    return Sweep(
        [
            point("a", "low", 0.80, 900.0),
            point("a", "middle", 0.95, 500.0),
            point("a", "high", 0.97, 600.0),
            point("b", "only", 0.93, 700.0),
            point("c", "", 0.50, 5000.0),
        ]
    )


def some_of_the_best(n_found):
    """A method that scores every item and returns only so many of the best, padded."""

    def search(items, queries, k):
        found = np.argsort(-queries @ items.T, axis=1)[:, :k]
        found[:, n_found:] = -1
        return found

    return search


def ladder_of(items, steps, asked):
    def method(n_found):
        def search(queries, k, _threads):
            asked.append(n_found)
            return some_of_the_best(n_found)(items, queries, k)

        return Method("partial", f"{n_found} found", BUILT, search, lambda query, k: search(query[None], k, 1))

    return [method(step) for step in steps]


@pytest.fixture
def course(rng):
    return Course.over("small", sets.Factors(*(rng.standard_normal((n, 6)).astype(np.float32) for n in (300, 40))))


def test_recall_counts_ties_and_every_item_once():
    items = np.array([[3.0], [2.0], [2.0], [1.0]], np.float32)
    users = np.array([[1.0], [1.0], [1.0]], np.float32)
    true = np.array([[0, 1]] * 3)
    found = np.array([[0, 2], [0, 0], [0, -1]])
    assert measure.recall(found, true, items, users) == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert measure.recall(np.array([[3, 0]]), true[:1], items, users[:1]) == 0.5


def test_a_goal_says_whether_it_was_missed():
    assert measure.goal(2.0) == ""
    assert measure.goal(2.0, least=1.5) == "  (goal: at least 1.5)"
    assert measure.goal(1.4, least=1.5) == "  (goal: at least 1.5; MISSED)"
    assert measure.goal(2.0, most=1.5) == "  (goal: at most 1.5; MISSED)"


def test_brute_force_gives_the_true_answers(course):
    exact = ours.build_exact(course.factors.items).search(course.factors.users, race.K)
    assert course.recall(exact.ids) == 1.0
    np.testing.assert_allclose(course.true_scores, exact.scores, rtol=1e-5)


def test_recall_of_a_course_is_that_of_all_scores(course):
    rng = np.random.default_rng(0)
    found = np.stack([rng.permutation(60) for _ in range(40)])[:, : race.K]
    found = np.where(rng.random(found.shape) < 0.5, course.true_ids, found)
    found[::3, 4] = -1
    found[::5, 2] = found[::5, 3]
    assert course.recall(found) == pytest.approx(measure.recall(found, course.true_ids, *course.factors))
    assert course.recall(found[:7]) == pytest.approx(
        measure.recall(found[:7], course.true_ids[:7], course.factors.items, course.factors.users[:7])
    )


def test_courses_of_fewer_answers_are_those_of_their_own(course):
    deep = Course.over("small", course.factors, 50)
    np.testing.assert_array_equal(deep.of(race.K).true_scores, course.true_scores)
    assert deep.k == 50
    assert "k = 50" in deep.title


def test_a_sweep_builds_once_and_asks_every_course_what_fits_it(course):
    built = []

    def ladders(items, _threads):
        built.append(len(items))
        methods = ladder_of(items, (2, 60), [])
        yield [replace(method, fits=lambda k, method=method: k == 10 or method is methods[1]) for method in methods]

    courses = [Course.over("small", course.factors, 50), course]
    deep, usual = race.sweep(courses, [Family("partial", "numpy", ladders)], 1, 1)
    assert built == [300]
    assert [point.method.setting for point in usual.points] == ["2 found", "60 found"]
    assert len(deep.points) <= 2
    assert usual.points[-1].recall == deep.points[-1].recall == 1.0


def test_auto_plans_for_every_k(course):
    ladders = list(ours.auto_for(10, 50).ladders(course.factors.items, 1))
    assert [[method.fits(k) for k in (10, 50)] for (method,) in ladders] == [[True, False], [False, True]]


def test_the_fastest_that_reaches_a_recall_is_its_operating_point(sweep):
    assert sweep.best(0.90).method.family == "b"
    assert sweep.best(0.95).method.setting == "high"
    assert sweep.best(0.90, "a").speed == 600.0
    assert sweep.best(0.99) is None
    assert [p.speed for p in sweep.fastest(0.9)] == [700.0, 600.0, 500.0]
    assert sweep.only(["b", "c"]).families() == ["b", "c"]


def test_a_table_has_a_dash_where_a_recall_is_never_reached(sweep):
    heading, *rows = race.table(sweep, ["a", "b", "c", "absent"])
    assert heading.split()[-6:] == [">=", "0.90", ">=", "0.95", ">=", "0.99"]
    assert rows[0].split(maxsplit=4) == ["a", "600", "600", "-", "at 0.95: high, recall 0.9700"]
    assert rows[1].split(maxsplit=4) == ["b", "700", "-", "-", "at 0.90: only, recall 0.9300"]
    assert rows[2].split(maxsplit=4) == ["c", "-", "-", "-", "recall at most 0.5000"]
    assert rows[3].split(maxsplit=4) == ["absent", "-", "-", "-", "not measured"]


def test_a_sweep_ends_once_recall_is_enough(course):
    points = race.climb(course, ladder_of(course.factors.items, (2, 5, 10, 10), []), 1, repeats=1)
    assert [p.recall for p in points] == pytest.approx([0.2, 0.5, 1.0])
    assert all(p.speed > 0 for p in points)


def test_a_sweep_ends_where_recall_no_longer_grows(course):
    points = race.climb(course, ladder_of(course.factors.items, (2, 5, 5, 5, 5, 9), []), 1, repeats=1)
    assert [p.recall for p in points] == pytest.approx([0.2, 0.5, 0.5, 0.5])


def test_a_sweep_ends_below_a_bar(course):
    points = race.climb(course, ladder_of(course.factors.items, (2, 5, 9), []), 1, repeats=1, bar=1e9)
    assert [p.recall for p in points] == pytest.approx([0.2])


def test_more_threads_ask_only_the_fastest_settings_again(course):
    asked = []
    steps = ladder_of(course.factors.items, (2, 9, 10), asked)
    one = Sweep(race.climb(course, steps, 1, repeats=1))
    asked.clear()
    two = race.again(course, one, 2, repeats=1)
    assert {(p.method.setting, p.threads) for p in two.points} == {("9 found", 2), ("10 found", 2)}
    assert set(asked) == {9, 10}


def test_a_family_that_reaches_no_level_shows_its_highest_recall_on_more_threads(course):
    one = Sweep(race.climb(course, ladder_of(course.factors.items, (2, 5), []), 1, repeats=1))
    two = race.again(course, one, 2, repeats=1)
    assert [p.method.setting for p in two.points] == ["5 found"]
    assert race.table(two, ["partial"])[1].endswith("recall at most 0.5000")


def test_finalists_meet_in_turns(course):
    family = Family("partial", "numpy", lambda items, _threads: iter([ladder_of(items, (2, 10), [])]))
    (swept,) = race.sweep([course], [ours.EXACT], 1, 1)
    own = Sweep(swept.points[:1])
    (theirs,) = race.sweep([course], [family], 1, 1)
    final = race.final(course, own, theirs, 0.95, repeats=2, auto=own.points[0])
    assert final.ours.method.family == "tessella exact"
    assert final.peer.method.setting == "10 found"
    assert final.ratio == final.auto_ratio > 0
    assert race.final(course, own, Sweep(), 0.95, repeats=2) is None


@pytest.mark.parametrize("family", ours.FAMILIES, ids=lambda family: family.name)
def test_our_families_answer_singly_and_in_batches(course, family):
    for ladder in family.ladders(course.factors.items, 1):
        method = ladder[-1]
        batch = method.search(course.factors.users, race.K, 1)
        assert batch.shape == (40, race.K)
        np.testing.assert_array_equal(method.single(course.factors.users[0], race.K).ids, batch[0])
        assert method.built.n_bytes() > course.factors.items.nbytes


@pytest.mark.parametrize("family", peers.FAMILIES, ids=lambda family: family.name)
def test_installed_peers_find_what_we_find(course, family):
    if not family.installed or (family.package == "faiss" and not Family("", "threadpoolctl", None).installed):
        pytest.skip(f"{family.package} is not installed")
    for ladder in family.ladders(course.factors.items, 1):
        method = ladder[-1]
        assert course.recall(method.search(course.factors.users, race.K, 1)) > 0.5
        method.single(course.factors.users[0], race.K)


def test_augmented_items_are_equally_long_and_keep_their_order(rng):
    items, users = rng.standard_normal((50, 4)).astype(np.float32), rng.standard_normal((3, 4)).astype(np.float32)
    wide = augmented(items)
    np.testing.assert_allclose(np.linalg.norm(wide, axis=1), np.linalg.norm(items, axis=1).max(), rtol=1e-5)
    np.testing.assert_allclose(widened(users, 5) @ wide.T, users @ items.T, rtol=1e-5, atol=1e-5)
    assert widened(users, 4) is users


def test_a_frontier_leaves_out_what_is_beaten():
    points = [(0.9, 10.0), (0.95, 20.0), (0.99, 5.0), (0.8, 15.0), (0.99, 4.0)]
    assert draw_curves.frontier(points) == [(0.95, 20.0), (0.99, 5.0)]
    assert draw_curves.frontier([]) == []


def test_the_latest_race_of_each_set_is_drawn(tmp_path, sweep):
    for name, threads in (("a set", 1), ("a set", 1), ("another", 2)):
        figures = {"part": "race", "set": name, "threads": threads, "points": [p.figures() for p in sweep.points]}
        measure.record("peers", figures, tmp_path)
    measure.record("peers", {"part": "memory"}, tmp_path)
    drawn = draw_curves.draw(tmp_path)
    assert [path.name for path in drawn] == ["a-set-1-threads.png", "a-set-1-threads.svg",
                                             "another-2-threads.png", "another-2-threads.svg"]  # fmt: skip
    assert all(path.stat().st_size > 1000 for path in drawn)
    assert json.loads((tmp_path / "peers.jsonl").read_text().splitlines()[0])["machine"]["cpu"]
