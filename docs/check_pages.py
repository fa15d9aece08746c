"""Check every page of the repository, part of `make lint`: links and anchors lead somewhere, and code blocks end.

Addresses outside the repository are not asked for. Those inside it, on GitHub, are looked up here.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]
OURS = re.compile(r"https://github\.com/tessella/tessella/(?:blob|tree|raw)/main/")
SKIPPED = {"build", "dist", "demo", "reproduction", "node_modules", "site"}
LINK = re.compile(
    r"""\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|^\[[^\]]+\]:\s+(\S+)|(?:src|href)="([^"]+)\"""", re.MULTILINE
)
FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.MULTILINE)


def pages(root: Path) -> Iterator[Path]:
    """The Markdown files of a folder, without those that were installed or made."""
    for page in sorted(root.rglob("*.md")):
        folders = page.relative_to(root).parts[:-1]
        if not any(folder in SKIPPED or (folder[0] == "." and folder != ".github") for folder in folders):
            yield page


def prose(text: str) -> str:
    """A page without its code."""
    blocks = re.sub(r"^( {0,3})(```+|~~~+).*?^ {0,3}\2[`~]*\s*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", blocks)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page, and those that it sets itself."""
    found: set[str] = set(re.findall(r"""<a (?:id|name)="([^"]+)\"""", text))
    blocks = re.sub(r"^( {0,3})(```+|~~~+).*?^ {0,3}\2[`~]*\s*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", blocks, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        name, count = slug, 0
        while name in found:
            count += 1
            name = f"{slug}-{count}"
        found.add(name)
    return found


def problems(root: Path) -> Iterator[str]:
    """What is wrong with the pages of a folder, in sentences."""
    for page in pages(root):
        text, name = page.read_text(encoding="utf-8"), page.relative_to(root)
        if len(FENCE.findall(text)) % 2:
            yield f"{name} has a code block that does not end."
        for match in LINK.finditer(prose(text)):
            link = next(group for group in match.groups() if group)
            inside = OURS.sub(f"{root}/", link)
            if re.match(r"[a-z][a-z0-9+.-]*:", inside):
                continue
            path, _, anchor = inside.partition("#")
            target = (page.parent / unquote(path)).resolve() if path else page
            if not target.exists():
                yield f"{name} links to {link}, which is not there."
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
                yield f"{name} links to {link}, but {target.name} has no such heading."


def main() -> None:
    """Print what is wrong, and end with 1 if anything is."""
    found = list(problems(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT))
    print("\n".join(found) or f"Links of {len(list(pages(ROOT)))} pages lead somewhere.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
