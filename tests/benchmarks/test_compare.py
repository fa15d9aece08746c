"""Two commits are compared by their ratios in the same turns, and a worker measures what it says."""

import compare_commits
import compare_worker
import numpy as np
import pytest
import sets


@pytest.fixture
def side(tmp_path, monkeypatch):
    for name, value in {"N_NEW": 200, "NEW_BATCH": 50, "N_SINGLE": 20, "BATCH_SECONDS": 1e-9, "CHURN_SECONDS": 0.05,
                        "READ_BATCH": 20}.items():  # fmt: skip
        monkeypatch.setattr(compare_worker, name, value)
    paths = [str(tmp_path / f"{part}.npy") for part in ("items", "users")]
    for path, array in zip(paths, sets.generated(1500, 8, 60), strict=True):
        np.save(path, array)
    return compare_worker.Side(*paths)


def test_a_worker_measures_everything_with_its_recall(side):
    figures = {}
    for command in compare_commits.BUILDS:
        figures |= side.answer(command)
    reaches = side.answer("sweep")["reaches"]
    assert 0 <= reaches["0.95"] <= reaches["0.99"] <= 1
    for command in compare_commits.SEARCHES:
        figures |= side.answer(command)
    assert all(figure["rate"] > 0 for figure in figures.values())
    assert figures["batch, exact"]["recall"] == figures["single, exact"]["recall"] == 1.0
    assert figures["batch, tiles at 0.95"]["recall"] >= 0.95
    assert figures["batch, tiles at 0.99"]["recall"] >= 0.99
    assert min(figures[title]["recall"] for title in ("add", "remove", "churn, searches")) > 0.8
    assert figures["build for tiles"]["recall"] is None
    assert figures["k = 500, exact"]["recall"] == 1.0
    assert (
        min(figures[title]["recall"] for title in ("50 excluded, lists", "own lists of 0.1%", "own lists of 50.0%"))
        > 0.8
    )
    assert figures["50 excluded, lists"]["recall"] == figures["50 excluded, csr"]["recall"]


def test_what_is_measured_leaves_the_index_as_it_was(side):
    side.build("tiles")
    side.sweep()
    side.changes()
    side.churn()
    assert len(side.index) == 1500
    assert side.index.version == 0


def test_the_ratio_is_the_median_of_turns_and_times_are_shown_as_times():
    def figure(rate):
        return compare_worker.figure("us", rate, 0.95)

    pairs = [(figure(1e3), figure(2e3)), (figure(1e4), figure(5e3)), (figure(1e3), figure(3e3))]
    found = compare_commits.summary(pairs)
    assert found["ratio"] == 2.0
    assert found["base"] == figure(1e3)
    row = compare_commits.line("single, exact", found)
    assert " ".join(row.split()) == "single, exact 2.00 1.25 to 2.50 1,000.0 us 0.9500 333.3 us 0.9500"
    assert len(row) == len(compare_commits.HEADING)
    assert "-" in compare_commits.shown(compare_worker.figure("s", 0.5))
