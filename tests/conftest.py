"""Fixtures and strategies shared by the tests."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tessella as ts
from tessella import _kernels

if _kernels._native is None:
    os.environ.setdefault("TESSELLA_SIMD", "numpy")  # without the core the reference is tested, and need not warn

settings.register_profile("tessella", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tessella")

NATIVE = pytest.mark.skipif(_kernels._native is None, reason="the native core was not built: no C++ compiler worked")


# Published data is not packed with the project: a folder of it is named by TESSELLA_DATA, or stands beside the project.
DATA = Path(os.environ.get("TESSELLA_DATA", Path(__file__).parents[2] / "shared" / "data"))
NEEDS_DATA = pytest.mark.skipif(
    not (DATA / "ml-100k" / "u.data").exists(), reason=f"there is no ml-100k/u.data in {DATA}"
)


def whole_floats(low=-4, high=4):
    """Small whole numbers: many ties and zeros."""
    return st.integers(low, high).map(float)


def plain_floats():
    """Floats of every ordinary size, with no subnormals, so that scaling by powers of two is exact."""
    return st.floats(2.0**-40, 2.0**40, width=32).flatmap(lambda x: st.sampled_from([x, -x, 0.0]))


@st.composite
def factor_matrices(draw, max_rows=12, max_factors=20, elements=None):
    """Matrices with ties, zeros, zero rows, spikes and every float32 there is."""
    shape = (draw(st.integers(0, max_rows)), draw(st.integers(1, max_factors)))
    kinds = [whole_floats(), st.floats(allow_nan=False, allow_infinity=False, width=32), plain_floats()]
    matrix = draw(
        hnp.arrays(np.float32, shape, elements=draw(st.sampled_from(kinds)) if elements is None else elements)
    )
    zeroed = draw(hnp.arrays(np.bool_, shape[0]))
    matrix[zeroed & (np.arange(shape[0]) % 3 == 0)] = 0
    return matrix


def at_level(index, level, patch):
    """The same index, searched at another SIMD level from now on."""
    patch.setenv("TESSELLA_SIMD", level)
    version = replace(index._version, fitted=replace(index._version.fitted))
    is_reference = type(version.engine._handle).__module__.startswith("tessella._reference")
    assert is_reference == (level == "numpy")
    assert is_reference or version.engine._level == _kernels.simd_levels().index(level) - 1
    return ts.Index(version)


@pytest.fixture
def rng():
    return np.random.default_rng(20_160_509)


@pytest.fixture
def fastest(monkeypatch):
    """Make a method the fastest there is, whatever the clock says."""

    def make(name):
        def seconds(methods, *_):
            return {method: 1.0 if method.name == name else 2.0 for method in methods}

        monkeypatch.setattr("tessella.search.tuning.seconds_of", seconds)

    return make


def java_version():
    """The number of the Java that Spark would run on; 0 if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if java is None:
        return 0
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r'version "(\d+)', said.stderr)
    return int(found[1]) if found else 0


@pytest.fixture(scope="session")
def spark():
    """A session on a cluster whose two executors are processes of their own."""
    if java_version() < 17:
        pytest.skip("Java 17 or newer is not installed, and Spark needs it")
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    session = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    work = Path(importlib.util.find_spec("pyspark").origin).parent / "work" / session.sparkContext.applicationId
    session.stop()
    shutil.rmtree(work, ignore_errors=True)  # what executors left


def load(path):
    """A script of the repository, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
