"""Write the page on the paper from its results, or from a run of `tessella reproduce all` in a folder: `make paper`."""

import json
import sys
from pathlib import Path

from tessella.paper.report import paper_page, summary

DOCS = Path(__file__).parent
RESULTS = DOCS / "paper" / "paper-results.json"
PAGE = DOCS / "paper" / "measured.md"


def main() -> None:
    """Write the page, and the small results if a folder is given."""
    if len(sys.argv) > 1:
        results, times = (json.loads((Path(sys.argv[1]) / f"{name}.json").read_text()) for name in ("results", "times"))
        RESULTS.write_text(json.dumps(summary(results, times), indent=1) + "\n")
    PAGE.write_text(paper_page(json.loads(RESULTS.read_text())))
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
