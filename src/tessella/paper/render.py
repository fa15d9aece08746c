"""A document as one HTML page or as Markdown."""

import base64
import html
from collections.abc import Iterable
from pathlib import Path

from tessella.paper.document import Block, Code, Figure, Heading, Items, Table, Text

_STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --page: #ffffff; --line: #d0d0d0; --good: #00694c; --bad: #a33c00; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --page: #15181b; --line: #444a50; --good: #4fd1a5; --bad: #ff9d5c; }
}
body { color: var(--text); background: var(--page); font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem;
  margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; }
h2 { margin-top: 2.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
.wide:not(.prose) td { white-space: nowrap; }
img { width: 100%; height: auto; background: #fff; border-radius: 6px; }
figure { margin: 1.5rem 0; max-width: 50rem; }
figcaption { font-size: 0.85rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.held { color: var(--good); font-weight: bold; white-space: nowrap; }
.missed { color: var(--bad); font-weight: bold; white-space: nowrap; }
@media (max-width: 40rem) {
  .prose thead { display: none; }
  .prose tr { display: block; border-bottom: 1px solid var(--line); padding: 0.5rem 0; }
  .prose td { display: block; border: 0; padding: 0.1rem 0; }
  .prose td:empty { display: none; }
  .prose td[data-name]::before { content: attr(data-name) ": "; opacity: 0.7; }
}
"""
_VERDICTS = {"met": "held", "held": "held", "missed": "missed", "did not hold": "missed"}


def as_html(blocks: Iterable[Block], figures: Path) -> str:
    """One HTML page that needs no other file.

    Parameters
    ----------
    blocks : iterable of Block
        The document; its first heading is the title of the page.
    figures : Path
        The folder of the pictures.
    """
    listed = list(blocks)
    title = next(block.text for block in listed if isinstance(block, Heading))
    return "\n".join(
        [
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width, initial-scale=1'>",
            f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
            *(_html(block, figures) for block in listed),
            "</body></html>\n",
        ]
    )


def _html(block: Block, figures: Path) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{html.escape(text)}</h{level}>"
        case Text(text):
            return f"<p>{html.escape(text)}</p>"
        case Code(text):
            return f"<pre><code>{html.escape(text)}</code></pre>"
        case Items(lines):
            return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>"
        case Table():
            return _html_table(block)
        case Figure(name, caption):
            image = base64.b64encode((figures / f"{name}.png").read_bytes()).decode()
            picture = f"<img alt='{html.escape(_alternative(caption))}' src='data:image/png;base64,{image}'>"
            return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.head)
    body = "".join(f"<tr>{''.join(map(_html_cell, row, table.head))}</tr>" for row in table.rows)
    kind = "wide prose" if table.prose else "wide"
    return f"<div class='{kind}'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _html_cell(text: str, name: str) -> str:
    """A cell, with the name of its column for where there is no room for a head."""
    mark = f" class='{_VERDICTS[text]}'" if text in _VERDICTS else ""
    named = f" data-name='{html.escape(name)}'" if name else ""
    return f"<td{mark}{named}>{html.escape(text)}</td>"


def _alternative(caption: str) -> str:
    """The first sentence of a caption, to stand for the picture."""
    return caption.partition(". ")[0].rstrip(".")


def as_markdown(blocks: Iterable[Block], images: str) -> str:
    """A document as Markdown, with links to its figures.

    Parameters
    ----------
    blocks : iterable of Block
        The document.
    images : str
        Where the figures are, as seen from the page.
    """
    return "\n\n".join(_markdown(block, images) for block in blocks) + "\n"


def _markdown(block: Block, images: str) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Code(text):
            return f"```\n{text}\n```"
        case Items(lines):
            return "\n".join(f"- {line}" for line in lines)
        case Table(head, rows, _):
            cells = [head, ("---",) * len(head), *rows]
            return "\n".join(f"| {' | '.join(row)} |" for row in cells)
        case Figure(name, caption):
            return f"![{_alternative(caption)}]({images}/{name}.png)\n\n{caption}"
        case Text(text):
            return text
