"""Attack the product, counted and repeatable: `make test-faults`.

Each module beside this one that has a `CAMPAIGN` is one kind of attack. Campaigns take turns, a chunk at a time, until
the time is up or each has played its rounds. Every chunk has a seed of its own; one that fails is printed with the
command that replays it.
"""

import argparse
import importlib
import pkgutil
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from campaign import Campaign  # noqa: E402


@dataclass
class Played:
    """What a campaign has done so far."""

    campaign: Campaign
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    failed: int | None = None  # the seed of the chunk that failed

    def play(self, seed: int) -> None:
        started = time.monotonic()
        try:
            self.counts += self.campaign.play(seed)
        except Exception:  # noqa: BLE001
            self.failed = seed
            print(
                f"\n{self.campaign.name}: a promise was broken with seed {seed}\n{traceback.format_exc()}", flush=True
            )
            print(
                f"replay with: make test-faults ARGS='--only {self.campaign.name} --seed {seed} --chunks 1'", flush=True
            )
        self.seconds += time.monotonic() - started

    def line(self) -> str:
        counts = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        end = f"FAILED with seed {self.failed}" if self.failed is not None else "none wrong"
        return f"{self.campaign.name:14s} {counts or 'nothing played'}; {end} ({self.seconds:.0f} s)"


def campaigns() -> dict[str, Campaign]:
    modules = (importlib.import_module(found.name) for found in pkgutil.iter_modules([str(HERE)]))
    found = [module.CAMPAIGN for module in modules if hasattr(module, "CAMPAIGN")]
    return {campaign.name: campaign for campaign in sorted(found, key=lambda campaign: campaign.name)}


def is_done(played: Played, options: argparse.Namespace, chunks: int) -> bool:
    if played.failed is not None:
        return True
    if options.chunks is not None:
        return chunks >= options.chunks
    wanted = played.campaign.short if options.short else options.rounds
    return wanted is not None and played.counts[played.campaign.counted] >= wanted


def main() -> int:
    known = campaigns()
    parser = argparse.ArgumentParser(prog="make test-faults ARGS=...", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=None, help="how long, over all campaigns (default 5)")
    parser.add_argument("--rounds", type=int, help="how many of each campaign's rounds, however long it takes")
    parser.add_argument("--chunks", type=int, help="how many seeds of each campaign")
    parser.add_argument("--short", action="store_true", help="a short run of each campaign")
    parser.add_argument("--seed", type=int, help="the first seed (default: drawn from the clock, and printed)")
    parser.add_argument("--only", help="names of campaigns, separated by commas: " + ", ".join(known))
    options = parser.parse_args()
    names = list(known) if options.only is None else options.only.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"there is no campaign {unknown[0]!r}; there are: {', '.join(known)}")
    seed = time.time_ns() // 1000 % 10**9 if options.seed is None else options.seed
    counted = options.rounds is not None or options.chunks is not None or options.short
    minutes = options.minutes if options.minutes is not None else (float("inf") if counted else 5.0)
    print(f"seed {seed}")
    for name in names:
        print(f"{name:14s} {known[name].what}")
    end = time.monotonic() + 60 * minutes
    state = {name: Played(known[name]) for name in names}
    chunks = 0
    while True:
        left = [played for played in state.values() if not is_done(played, options, chunks)]
        if not left or (chunks and time.monotonic() >= end):
            break
        least = min(left, key=lambda played: played.seconds)  # so that each has the same share of the time
        for played in [least] if options.chunks is None else left:
            played.play(seed + chunks)
        chunks += 1
    print()
    for played in state.values():
        print(played.line())
    broken = sum(played.failed is not None for played in state.values())
    print(f"{len(state) - broken} passed, {broken} failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
