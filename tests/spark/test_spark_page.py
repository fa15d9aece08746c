"""The page on Spark runs, from its first block to its last."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed; make test-spark has it")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"


@pytest.mark.short
@pytest.mark.usefixtures("spark")
def test_python_in_the_page_runs_and_prints_what_it_says(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names, n_said = {}, 0
    for block, said in re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102
        out = capsys.readouterr().out
        assert not said or out == said
        n_said += bool(said)
    assert n_said
