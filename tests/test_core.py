"""The border to the native core."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import NATIVE

import tessella as ts
from tessella import _kernels, _threads


def run_python(code, **environment):
    command = [sys.executable, "-W", "default", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})  # noqa: S603


def test_show_config(capsys):
    ts.show_config()
    printed = capsys.readouterr().out
    assert ts.__version__ in printed
    for word in ("native core", "SIMD level", "threads"):
        assert word in printed


@pytest.mark.parametrize("level", _kernels.simd_levels())
def test_a_simd_level_can_be_forced(level, monkeypatch, capsys):
    monkeypatch.setenv("TESSELLA_SIMD", level)
    assert _kernels.core().simd == level
    ts.show_config()
    assert f"SIMD level   {level} " in capsys.readouterr().out


@NATIVE
def test_the_best_level_is_the_default(monkeypatch):
    monkeypatch.delenv("TESSELLA_SIMD", raising=False)
    assert _kernels.core().simd == _kernels.simd_levels()[-1]


def test_an_unknown_level_is_refused(monkeypatch):
    monkeypatch.setenv("TESSELLA_SIMD", "mmx")
    with pytest.raises(ValueError, match="TESSELLA_SIMD is 'mmx', but must be one of 'numpy'"):
        ts.Ternary().tiles([[1.0, 2.0]])


HIDE_NATIVE = "import sys; sys.modules['tessella._native'] = None; import tessella as ts; "


def test_without_the_core_one_loud_warning():
    ran = run_python(HIDE_NATIVE + "[print(ts.Ternary().tiles([[3.0, 0.1]])) for _ in range(3)]", TESSELLA_SIMD="")
    assert ran.returncode == 0
    assert ran.stdout == "[[1 0]]\n" * 3
    assert ran.stderr.count("WITHOUT its native core") == 1
    assert "<string>:1: RuntimeWarning" in ran.stderr  # the caller's line, not one of ours


def test_importing_does_not_warn_or_print():
    ran = run_python(HIDE_NATIVE, TESSELLA_SIMD="")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_references_can_be_asked_for_without_a_warning():
    ran = run_python(HIDE_NATIVE + "ts.Ternary().tiles([[3.0, 0.1]])", TESSELLA_SIMD="numpy")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_threads_default_to_the_cpus_of_this_process():
    assert _threads.thread_count(None) == (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    assert _threads.thread_count(np.int64(3)) == 3


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_every_block_is_done_once(threads):
    done = []
    blocks = [slice(i, i + 1) for i in range(100)]
    _threads.run_blocks(done.append, blocks, threads)
    assert sorted(block.start for block in done) == list(range(100))
    assert threading.active_count() == 1
    _threads.run_blocks(done.append, [], threads)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_an_error_stops_the_work_and_is_that_of_the_first_block(threads):
    done = []

    def work(block):
        if block.start in (30, 31, 32, 90):
            raise KeyError(block.start)
        done.append(block.start)

    with pytest.raises(KeyError, match="30"):
        _threads.run_blocks(work, [slice(i, i + 1) for i in range(100)], threads)
    assert set(range(30)) <= set(done)
    assert 90 + threads > len(done)
    assert threading.active_count() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_children_work(rng):
    factors = rng.standard_normal((80_000, 20))  # several blocks, so several threads
    expected = ts.SparseMap().transform(factors, threads=4).data.sum()
    child = os.fork()
    if child == 0:
        found = ts.SparseMap().transform(factors, threads=4).data.sum()
        os._exit(int(found != expected))
    assert os.waitpid(child, 0)[1] == 0


def test_version_is_that_of_the_package():
    stated = re.search(r'^version = "(.*)"$', (Path(__file__).parents[1] / "pyproject.toml").read_text(), re.MULTILINE)
    assert ts.__version__ == stated[1]


def test_a_thread_that_cannot_be_had_leaves_no_other_running(monkeypatch):
    start = threading.Thread.start
    started = []

    def limited(thread):
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RuntimeError, match="can't start"):
        _threads.run_blocks(lambda block: None, [slice(i, i + 1) for i in range(100)], 7)  # noqa: ARG005
    assert len(started) == 3
    assert threading.active_count() == 1
