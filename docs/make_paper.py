"""Write the page on the paper from its results, or from a run of `tessella reproduce all` in a folder: `make paper`."""

import json
import sys
from pathlib import Path

from tessella.paper.plots import draw_opening
from tessella.paper.report import paper_page, summary

DOCS = Path(__file__).parent
RESULTS = DOCS / "paper" / "paper-results.json"
PAGE = DOCS / "paper" / "measured.md"


def main() -> None:
    """Write the page and its figure, and first the results if a folder is given."""
    if len(sys.argv) > 1:
        results, times = (json.loads((Path(sys.argv[1]) / f"{name}.json").read_text()) for name in ("results", "times"))
        RESULTS.write_text(json.dumps(summary(results, times), indent=1) + "\n")
    results = json.loads(RESULTS.read_text())
    figure = draw_opening(results, DOCS / "images")
    PAGE.write_text(paper_page(results))
    print(f"wrote {PAGE.name} and images/{figure.name}.png")


if __name__ == "__main__":
    main()
