"""Sphinx's settings for the documentation site: `make site`."""

import os
import re
from importlib.metadata import version as installed_version
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import _MockObject
from sphinx.util import logging

DOCS = Path(__file__).parent
REPOSITORY = "https://github.com/tessella/tessella"

project = "tessella"
author = "The tessella authors"
version = release = installed_version("tessella")
copyright = author  # noqa: A001

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]

# Pages are plain Markdown, which GitHub shows as well. So their order stands here, and not in the pages.
PARTS = {
    "index": (
        "start/index guides/index how-it-works/index paper/index performance reference/index "
        "decisions/index changelog glossary"
    ),
    "start/index": (
        "install five-minutes ../notebooks/from-implicit from-implicit from-lightfm from-spark from-pytorch "
        "from-other-libraries"
    ),
    "guides/index": (
        "recommend filters attributes live-changes all-users tuning serving scale spark opensearch files command-line"
    ),
    "how-it-works/index": (
        "../notebooks/what-the-tessellation-does paper-in-pictures exact-search tiles certificates architecture"
    ),
    "paper/index": "measured pieces generated-factors",
    "reference/index": "search recommend mapping datasets integrations store spark opensearch paper",
    "decisions/index": "0*",
}

myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS.parent / "build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

highlight_language = "text"
default_role = "code"
autosummary_generate = True
autodoc_mock_imports = ["py4j", "pyspark"]  # 400 MB, to read two docstrings
_MockObject.__or__ = lambda self, _: self  # in annotations such as DataFrame | None
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "tessella"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/tiles.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "tessella", "image_light": "_static/tiles.svg", "image_dark": "_static/tiles.svg"},
    "icon_links": [{"name": "Repository", "url": REPOSITORY, "icon": "fa-brands fa-github"}],
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"performance": [], "changelog": [], "glossary": []}


def with_order(_: Sphinx, name: str, source: list[str]) -> None:
    """Append the order of its pages to the page of a part, and lead links out of docs to the repository."""
    if name in PARTS:
        options = ":glob:\n:maxdepth: 1" if "*" in PARTS[name] else ":hidden:\n:maxdepth: 2"
        order = "\n".join(PARTS[name].split())
        source[0] += f"\n```{{toctree}}\n{options}\n\n{order}\n```\n"
    folder = (DOCS / name).parent
    source[0] = re.sub(r"(\]\()((?:\.\./)+[^)#\s]+)", lambda found: found[1] + outside(folder, found[2]), source[0])


def outside(folder: Path, link: str) -> str:
    """A link as it is, or if it leads out of docs, the address of what it leads to."""
    target = Path(os.path.normpath(folder / link))
    if target.is_relative_to(DOCS):
        return link
    kind = "tree" if target.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{target.relative_to(DOCS.parent).as_posix()}"


def without_outside_hosts(app: Sphinx, error: Exception | None) -> None:
    """Warn of pages that load anything from another host."""
    if error is not None:
        return
    loads = re.compile(
        r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s\"'>]*"
        r"|<link\b(?![^>]*rel=[\"']?(?:canonical|license|author))[^>]*\bhref=[\"']?(?:https?:)?//[^\s\"'>]*"
        r"|(?:@import\s+|url\()[\"']?(?:https?:)?//[^\s\"')]*"
    )
    for path in sorted(Path(app.outdir).rglob("*")):
        if path.suffix in (".html", ".css"):
            for found in loads.findall(path.read_text()):
                logging.getLogger(__name__).warning("%s loads %s", path.relative_to(app.outdir), found)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add what Sphinx does not do by itself."""
    app.add_lexer("rooms", TextLexer)
    app.connect("source-read", with_order)
    app.connect("build-finished", without_outside_hosts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
