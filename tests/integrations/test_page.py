"""The pages on other libraries run, each block where its library is."""

import contextlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "start").glob("from-*.md"))
BLOCKS = [block for page in PAGES for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]


def library(block):
    """The library that a block imports beside NumPy and SciPy, or tessella if there is none."""
    names = dict.fromkeys(re.findall(r"^(?:from|import) (\w+)", block, re.MULTILINE))
    found = [name for name in names if name not in ("numpy", "scipy", "tessella")] or ["tessella"]
    (name,) = found
    return name


@contextlib.contextmanager
def one_blas_thread():
    """As implicit advises; without it, it warns."""
    if importlib.util.find_spec("threadpoolctl") is None:
        yield
    else:
        with importlib.import_module("threadpoolctl").threadpool_limits(1, "blas"):
            yield


@pytest.mark.parametrize("block", BLOCKS, ids=library)
def test_python_in_the_pages_runs(block):
    name = library(block)
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed; make test-integrations has it")
    with one_blas_thread():
        exec(compile(block, f"{name} in docs/start", "exec"), {})  # noqa: S102


def test_there_is_a_row_and_a_section_for_every_adapter():
    overview = (ROOT / "docs" / "start" / "from-other-libraries.md").read_text()
    for path in (ROOT / "src" / "tessella" / "integrations").glob("[a-z]*.py"):
        assert f"`tessella.integrations.{path.stem}` |" in overview
        assert any(f"from tessella.integrations.{path.stem} import" in block for block in BLOCKS)


def test_the_notebook_runs():
    if importlib.util.find_spec("implicit") is None:
        pytest.skip("implicit is not installed; make test-integrations has it")
    page = (ROOT / "docs" / "notebooks" / "from-implicit.md").read_text()
    names = {}
    with one_blas_thread():
        for cell in re.findall(r"```\{code-cell\} python\n(?::[^\n]*\n)*(.*?)```", page, re.DOTALL):
            exec(compile(cell, "a cell of the notebook", "exec"), names)  # noqa: S102
    assert np.mean(names["same_ids"] == names["ids"]) > 0.99
    assert names["recommender"].recommend(liked=names["liked"], k=1).titles[0] == "The Brand New Movie"
