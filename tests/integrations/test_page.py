"""The page on integrations runs, each block where its library is."""

import contextlib
import importlib.util
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def library(block):
    """What a block imports beside tessella, NumPy and SciPy."""
    names = dict.fromkeys(re.findall(r"^(?:from|import) (\w+)", block, re.MULTILINE))
    (found,) = [name for name in names if name not in ("numpy", "scipy", "tessella")]
    return found


@contextlib.contextmanager
def one_blas_thread():
    """As implicit advises; without it, it warns."""
    if importlib.util.find_spec("threadpoolctl") is None:
        yield
    else:
        with importlib.import_module("threadpoolctl").threadpool_limits(1, "blas"):
            yield


@pytest.mark.parametrize("block", BLOCKS, ids=library)
def test_python_in_the_page_runs(block):
    name = library(block)
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed; make test-integrations has it")
    with one_blas_thread():
        exec(compile(block, str(PAGE), "exec"), {})  # noqa: S102


def test_the_page_has_a_row_and_a_section_for_every_adapter():
    folder = PAGE.parents[1] / "src" / "tessella" / "integrations"
    for path in folder.glob("[a-z]*.py"):
        assert f"`tessella.integrations.{path.stem}` |" in PAGE.read_text()
        assert any(f"from tessella.integrations.{path.stem} import" in block for block in BLOCKS)
