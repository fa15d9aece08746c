"""The code keeps to docs/how-it-works/architecture.md: imports go one way, a query has one route, words have one meaning."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tessella

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tessella"
NATIVE_FILES = sorted((ROOT / "native").glob("*.[ch]pp"))
PAGE = (ROOT / "docs" / "how-it-works" / "architecture.md").read_text()
PYTHON_FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in PYTHON_FILES}

OLD_WORDS = ("asker", "filed", "hope", "nears", "served", "terse", "turned")
ALLOWED = {("filed", "paper")}  # how often a method files an item there: a key of docs/paper/paper-results.json


def stated_lines():
    """The rooms of the page, line by line."""
    (block,) = re.findall(r"```rooms\n(.*?)```", PAGE, re.DOTALL)
    return [re.split(r" {2,}", line)[0].split() for line in block.splitlines()]


LINE_OF = {room: number for number, rooms in enumerate(stated_lines()) for room in rooms}


def module_of(path):
    """The dotted name of a file; that of a folder for its __init__.py."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in PYTHON_FILES}


def room_of(module):
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path):
    """The modules of tessella that a file imports, anywhere in it, with their lines."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} imports relatively"
            names = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            if module.split(".")[0] == "tessella":
                whole = f"{module}.{name}"
                yield (whole if whole in MODULES or whole == "tessella._native" else module), node.lineno


def shown(path, line):
    return f"{path.relative_to(ROOT)}:{line}"


def words_of(identifier):
    """An identifier in lower-case words, without the s of a plural."""
    words = re.findall(r"[A-Z]?[a-z]+", identifier)
    return {form for word in words for form in (word.lower(), word.lower().removesuffix("s"))}


def identifiers_of(path):
    """Every name in a Python file, with its line."""
    for node in ast.walk(TREES[path]):
        for field in ("id", "attr", "name", "arg", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield value, getattr(node, "lineno", 0)


def native_code(path):
    """A native file's lines without comments and strings."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        yield re.sub(r'"(\\.|[^"\\])*"', '""', line.split("//")[0]), number


def test_the_page_lists_every_room():
    assert {room_of(module) for module in MODULES} == set(LINE_OF)


@pytest.mark.parametrize("room", list(LINE_OF))
def test_a_room_imports_from_the_lines_above_its_own(room):
    wrong = [
        f"{shown(path, line)} imports {module}"
        for path in PYTHON_FILES
        if room_of(module_of(path)) == room
        for module, line in imports_of(path)
        if module != "tessella._native" and room_of(module) != room and LINE_OF[room_of(module)] >= LINE_OF[room]
    ]
    assert not wrong


def test_only_the_border_imports_the_native_core():
    assert {
        module_of(path) for path in PYTHON_FILES for module, _ in imports_of(path) if module == "tessella._native"
    } == {"tessella._kernels"}


def test_no_two_modules_import_each_other_even_by_detours():
    graph = {name: {module for module, _ in imports_of(path)} - {name} for name, path in MODULES.items()}
    list(TopologicalSorter(graph).static_order())


def test_types_need_no_imports_of_their_own():
    assert not [shown(path, 0) for path in PYTHON_FILES if "TYPE_CHECKING" in path.read_text()]


def test_what_users_import_is_what_the_page_says():
    (sentence,) = re.findall(r"Users import (.*?)\.\s", PAGE, re.DOTALL)
    public = set(re.findall(r"`([\w.]+)`", sentence))
    assert public <= set(MODULES)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    imported = {
        module
        for page in pages
        for module in re.findall(r"^(?:from|import) (tessella[\w.]*)", page.read_text(), re.MULTILINE)
    }
    assert imported <= public
    assert {name for name in tessella.__all__ if f"tessella.{name}" in MODULES} == {"datasets"}


def test_a_query_has_one_route():
    """Only the route calls `Engine.search`, and only retrieval/engine.py makes an engine of the core."""
    searching, making = set(), set()
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = node.func.value
            name = getattr(owner, "attr", None) or getattr(owner, "id", "")
            if node.func.attr == "search" and name in ("engine", "_engine"):
                searching.add(module_of(path))
            if node.func.attr == "Engine" and name == "kernels":
                making.add(module_of(path))
    assert searching == {"tessella.search.route"}
    assert making == {"tessella.retrieval.engine"}


@pytest.mark.parametrize("word", OLD_WORDS)
def test_words_of_our_own_are_gone_from_names(word):
    found = [
        shown(path, line)
        for path in PYTHON_FILES
        for name, line in identifiers_of(path)
        if word in words_of(name) and (word, room_of(module_of(path))) not in ALLOWED
    ]
    found += [
        shown(path, line)
        for path in NATIVE_FILES
        for code, line in native_code(path)
        if any(word in words_of(name) for name in re.findall(r"\w+", code))
    ]
    assert not found


def test_versions_are_no_states_and_the_reference_is_no_reference():
    for path in [*PYTHON_FILES, *NATIVE_FILES, ROOT / "native" / "README.md"]:
        text = path.read_text()
        assert not re.search(r"\b_state\b|\btwins?\b", text), path.name


def test_only_the_bindings_know_python():
    knowing = {path.name for path in NATIVE_FILES if re.search(r"nanobind|\bnb::|Python\.h|PyObject", path.read_text())}
    assert knowing == {"bindings.cpp", "arrays.hpp"}
