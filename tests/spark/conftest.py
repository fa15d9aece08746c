"""A cluster of two executors in processes of their own, which tests share."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

JAVA = "Java 17 or newer is not installed, and Spark needs it"


def why_not():
    """Why Spark cannot run here; None if it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed; make test-spark has it"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if java is None:
        return JAVA
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.search(r'version "(\d+)', said.stderr)
    return None if version and int(version[1]) >= 17 else JAVA


MISSING = why_not()


@pytest.fixture(scope="session")
def spark():
    """A session on a cluster whose two executors are processes of their own."""
    if MISSING is not None:
        pytest.skip(MISSING)
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
    application = session.sparkContext.applicationId
    session.stop()
    work = Path(importlib.util.find_spec("pyspark").origin).parent / "work" / application
    shutil.rmtree(work, ignore_errors=True)
