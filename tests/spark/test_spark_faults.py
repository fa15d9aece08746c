"""An executor that dies in mid-job changes nothing in the result."""

import importlib
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from spark_tables import expected, found, pairs, vectors

pytest.importorskip("pyspark", reason="pyspark is not installed; make test-spark has it")
recommend_all = importlib.import_module("tessella.spark").recommend_all


def executors(application):
    """Processes of an application's executors."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if application.encode() in command and any(part.endswith(b"CoarseGrainedExecutorBackend") for part in command):
            found.append(int(entry.parent.name))
    return found


def both_executors(application):
    """Processes of the two executors, once both are there: one that was killed is replaced."""
    deadline = time.monotonic() + 120
    while len(found := executors(application)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(found) == 2
    return found


def slowly(frame):
    """A frame whose batches take a while, so that there is time to interfere."""

    def wait(batches):
        for batch in batches:
            time.sleep(0.4)
            yield batch

    return frame.mapInArrow(wait, frame.schema)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("block_rows", [None, pytest.param(600, marks=pytest.mark.short)], ids=["one index", "blocks"])
def test_an_executor_killed_in_mid_job_changes_nothing(spark, block_rows):
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((n, 12)).astype(np.float32) for n in (600, 1_500))
    exclude = {user: rng.choice(1_500, 30, replace=False) for user in range(0, 600, 3)}
    frame, context = vectors(spark, range(600), users, partitions=24), spark.sparkContext
    answers = recommend_all(
        slowly(frame), vectors(spark, range(1_500), items), 10, exact=True, item_block_rows=block_rows,
        exclude=pairs(spark, exclude),
    )  # fmt: skip
    done, results = threading.Event(), []

    def work():
        context.setJobGroup("killed", "answers while an executor dies")
        try:
            results.append(found(answers))
        finally:
            done.set()

    before = both_executors(context.applicationId)
    thread = threading.Thread(target=work)
    thread.start()
    tracker, failed = context.statusTracker(), 0
    killed = None
    while not done.wait(0.02):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None and stage.numTasks >= 24]
        if killed is None and any(stage.numCompletedTasks >= 4 and stage.numActiveTasks >= 2 for stage in running):
            killed = before[0]
            os.kill(killed, signal.SIGKILL)
        failed = max([failed, *(stage.numFailedTasks for stage in stages if stage is not None)])
    thread.join()
    assert killed is not None
    assert killed not in executors(context.applicationId)
    assert failed > 0
    assert results == [expected(range(600), users, range(1_500), items, 10, exclude)]
    both_executors(context.applicationId)  # for the tests to come
