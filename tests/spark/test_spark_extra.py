"""Without pyspark, tessella works, and one sentence says how to get it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.short


def ran(code):
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def test_a_missing_extra_gets_one_sentence():
    said = ran("import sys; sys.modules['pyspark'] = None; import tessella; import tessella.spark")
    assert said.stderr.splitlines()[-1] == (
        "ImportError: tessella.spark needs pyspark; install it with: pip install 'tessella[spark]'"
    )


def test_an_old_pyspark_gets_one_sentence():
    old = "sql = types.SimpleNamespace(DataFrame=object); old = types.SimpleNamespace(__version__='3.5.1', sql=sql)"
    said = ran(
        f"import sys, types; {old}; sys.modules |= {{'pyarrow': old, 'pyspark': old, 'pyspark.sql': sql}}; "
        "import tessella.spark"
    )
    assert said.stderr.splitlines()[-1] == (
        "ImportError: tessella.spark needs PySpark 4, but 3.5.1 is installed; run: pip install 'tessella[spark]'"
    )


def test_import_tessella_imports_no_pyspark():
    said = ran("import sys, tessella; print([name for name in sys.modules if name.startswith('pyspark')])")
    assert said.stdout == "[]\n", said.stderr
