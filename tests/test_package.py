"""What is released agrees with itself: one version everywhere, a light import, pages whose links lead somewhere."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from conftest import load

import tessella as ts

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HEAVY = ("matplotlib", "pandas", "polars", "pyarrow", "rich", "scipy.linalg", "sklearn", "starlette", "typer")


def test_there_is_one_version():
    version = PROJECT["project"]["version"]
    assert ts.__version__ == importlib.metadata.version("tessella") == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version


@pytest.mark.skipif(not (ROOT / "packaging").exists(), reason="the sdist has no recipe")
def test_the_recipe_asks_for_what_the_package_asks_for():
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    plain = {re.sub(r"\s", "", wanted) for wanted in recipe["requirements"]["run"]}
    assert plain == {"python", *PROJECT["project"]["dependencies"]}
    assert recipe["context"]["version"] == PROJECT["project"]["version"]
    host = {re.sub(r"\s", "", wanted) for wanted in recipe["requirements"]["host"]}
    assert host == {"python", "pip", *PROJECT["build-system"]["requires"]}


def test_every_supported_python_is_named():
    minors = {int(found) for found in re.findall(r"Python :: 3\.(\d+)", str(PROJECT["project"]["classifiers"]))}
    assert minors == {11, 12, 13, 14}
    assert PROJECT["project"]["requires-python"] == f">=3.{min(minors)}"


def test_import_leaves_what_few_need():
    code = (
        "import sys, numpy, scipy.sparse; known = {*sys.modules}; "
        f"import tessella; print(*({{*sys.modules}} - known) & {{*{HEAVY!r}}})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert not ran.stdout.split()


def test_links_in_pages_lead_somewhere():
    checker = load(ROOT / "docs" / "check_pages.py")
    skipped = "docs/images/" if not (ROOT / "docs" / "images").exists() else None  # the sdist has no pictures
    assert not [found for found in checker.problems(ROOT) if skipped is None or skipped not in found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "[there](other.md) [part](other.md#a-part-of-it) [own](#top) [out](https://example.org/x) `[no](link)`\n\n# Top",
            None,
        ),
        ("```\n[no](link)\n```", None),
        ("[gone](gone.md)", "page.md links to gone.md, which is not there."),
        ("[part](other.md#a-part)", "page.md links to other.md#a-part, but other.md has no such heading."),
        ('<img src="gone.png">', "page.md links to gone.png, which is not there."),
        ("![gone](gone.png)", "page.md links to gone.png, which is not there."),
        (
            "[ours](https://github.com/tessella/tessella/blob/main/gone.md)",
            "page.md links to https://github.com/tessella/tessella/blob/main/gone.md, which is not there.",
        ),
        ("```\nnever ends", "page.md has a code block that does not end."),
    ],
)
def test_the_checker_of_pages_finds_what_is_wrong(tmp_path, text, found):
    checker = load(ROOT / "docs" / "check_pages.py")
    (tmp_path / "other.md").write_text("# Other\n\n## A part, of `it`\n")
    (tmp_path / "page.md").write_text(text)
    assert list(checker.problems(tmp_path)) == ([] if found is None else [found])
