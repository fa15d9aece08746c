"""The paper's claims and our goals, judged by the numbers of a run."""

from typing import Any, NamedTuple

from tessella.paper.frontiers import BUDGETS
from tessella.paper.methods import BASELINES, METHODS

MINIMAL_LOSS = 0.95  # the recovery that counts as a minimal loss of accuracy; the paper gives no number


class Claim(NamedTuple):
    """A claim of the paper, where it was measured, and the result."""

    claim: str
    where: str
    held: bool
    measured: str


class Goal(NamedTuple):
    """A goal, and what was measured."""

    where: str
    goal: str
    seen: str
    met: bool


def interval_words(part: dict[str, float]) -> str:
    """Format a mean and its interval."""
    return f"{part['mean']:.3f} [{part['low']:.3f}, {part['high']:.3f}]"


def at_target(problem: dict[str, Any], method: str, budget: str = "unlimited") -> dict[str, Any] | None:
    """Return a method's numbers where it discards the target share; ours has no budget."""
    parts = problem["methods"][method]["matched"]
    found: dict[str, Any] | None = parts[budget if method in BASELINES else "unlimited"]
    return found


def claims(results: dict[str, Any]) -> list[Claim]:
    """Judge the paper's claims that a run can test, claim by claim, and within a claim problem by problem.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    problems = {
        name: problem for name, problem in results["problems"].items() if name.startswith(("synthetic", "movielens"))
    }
    generated = {name: problem for name, problem in problems.items() if name.startswith("synthetic")}
    learned = {name: problem for name, problem in problems.items() if name not in generated}
    found = [_speed("nearly five-fold", problem) for problem in generated.values()]
    found += [_speed("over three-fold", problem) for problem in learned.values()]
    for budget in BUDGETS:
        found += [_higher(problem, budget) for problem in problems.values()]
    found += [_steadier(problem) for problem in generated.values()]
    found += [_spread(problem) for problem in problems.values()]
    return found


def _speed(times: str, problem: dict[str, Any]) -> Claim:
    said = f"{times} speed-up with about {problem['target']:.0%} of the items discarded, and minimal loss of accuracy"
    ours = at_target(problem, "ours")
    if ours is None:
        return Claim(said, problem["title"], False, "No threshold discards that share.")
    fewer = f"{1 / (1 - problem['target']):.1f} times fewer products, which is what the paper counts"
    kept = f"{interval_words(ours['recovery'])} of the true top 10 recovered"
    text = f"{fewer}, and {kept}. Held means at least {MINIMAL_LOSS}."
    return Claim(said, problem["title"], ours["recovery"]["mean"] >= MINIMAL_LOSS, text)


def _higher(problem: dict[str, Any], budget: str) -> Claim:
    """Judge whether ours is more accurate than every baseline, with intervals that do not overlap."""
    said = f"higher accuracy than every baseline at the same discard; baselines with {BUDGETS[budget]}"
    ours = at_target(problem, "ours")
    if ours is None:
        return Claim(said, problem["title"], False, "No threshold discards that share.")
    gains, behind = [], []
    for method in BASELINES:
        theirs = at_target(problem, method, budget)
        if theirs is None:
            gains.append(f"{METHODS[method]} cannot discard that much")
            continue
        gain = ours["recovery"]["mean"] - theirs["recovery"]["mean"]
        gains.append(f"{gain:+.3f} against {METHODS[method]} ({theirs['recovery']['mean']:.3f})")
        if ours["recovery"]["low"] <= theirs["recovery"]["high"]:
            behind.append(METHODS[method])
    text = "; ".join(gains) + "."
    if behind:
        text += f" Not clearly ahead of {', '.join(behind)}."
    return Claim(said, problem["title"], not behind, text)


def _spreads(problem: dict[str, Any]) -> tuple[float | None, dict[str, float], str]:
    """Return how much the discarded share varies over users: for ours, for the baselines, and in words."""
    ours = at_target(problem, "ours")
    found = {METHODS[method]: at_target(problem, method, "tables") for method in BASELINES}
    spreads = {name: part["near"]["discarded_sd"] for name, part in found.items() if part}
    mine = None if ours is None else float(ours["near"]["discarded_sd"])
    listed = ", ".join(f"{name} {spread:.3f}" for name, spread in spreads.items())
    shown = "not reached" if mine is None else f"{mine:.3f}"
    return mine, spreads, f"Standard deviation over users: ours {shown}; {listed}."


def _steadier(problem: dict[str, Any]) -> Claim:
    mine, spreads, text = _spreads(problem)
    said = "the discarded share varies less over users than with the baselines"
    held = mine is not None and bool(spreads) and all(mine < spread for spread in spreads.values())
    return Claim(said, problem["title"], held, f"{text} Held means that every baseline varies more than ours.")


def _spread(problem: dict[str, Any]) -> Claim:
    mine, spreads, text = _spreads(problem)
    said = "the discarded share varies a lot over users for some of the baselines"
    held = mine is not None and any(spread > mine for spread in spreads.values())
    return Claim(said, problem["title"], held, f"{text} Held means that at least one varies more than ours.")


def goals(results: dict[str, Any]) -> list[Goal]:
    """Judge our goals, as far as a run can tell.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    problems = results["problems"]
    found = [_ahead(problems[name]) for name in ("synthetic-20", "synthetic-50", "movielens-100k") if name in problems]
    for name, least, discarded in (("synthetic-20", 0.95, 0.98), ("movielens-100k", 0.95, 0.9)):
        if name in problems:
            found.append(_weighted(problems[name], least, discarded))
    return found


def best_baseline(problem: dict[str, Any], budget: str) -> tuple[str, dict[str, float]] | None:
    """Return the baseline that recovers most at the target, and its recovery; None if none discards that much."""
    found = {METHODS[method]: at_target(problem, method, budget) for method in BASELINES}
    reached = {name: part["recovery"] for name, part in found.items() if part}
    best = max(reached, key=lambda name: reached[name]["mean"], default=None)
    return None if best is None else (best, reached[best])


def _ahead(problem: dict[str, Any]) -> Goal:
    goal = f"ours, as in the paper, beats all four at {problem['target']:.0%} discarded; they get {BUDGETS['tables']}"
    ours, best = at_target(problem, "ours"), best_baseline(problem, "tables")
    if ours is None or best is None:
        return Goal(problem["title"], goal, "not reached", False)
    name, theirs = best
    seen = f"{interval_words(ours['recovery'])} against {interval_words(theirs)} ({name})"
    return Goal(problem["title"], goal, seen, _higher(problem, "tables").held)


def _weighted(problem: dict[str, Any], least: float, discarded: float) -> Goal:
    points = problem["methods"]["weighted"]["points"]
    enough = [point for point in points if point["discarded"] >= discarded - 5e-4]  # a budget is an integer
    best = max(enough, key=lambda point: point["recovery"]["mean"], default=None)
    goal = f"ours, weighted, recovers at least {least:.2f} with at least {discarded:.0%} discarded"
    if best is None:
        return Goal(problem["title"], goal, "not reached", False)
    seen = f"{interval_words(best['recovery'])} at {best['discarded']:.1%} discarded, of {problem['n_items']:,} items"
    return Goal(problem["title"], goal, seen, best["recovery"]["mean"] >= least)
