"""The paper's claims and our own goals, judged by the numbers of a run."""

from typing import Any, NamedTuple

from tessella.paper.frontiers import BUDGETS
from tessella.paper.methods import BASELINES, METHODS

MINIMAL_LOSS = 0.95  # recovery that we take for "minimal loss of accuracy"; the paper gives no number
HEADLINE_BUDGETS = ("single", "tables", "unlimited")


class Claim(NamedTuple):
    """A claim of the paper, judged on one problem."""

    claim: str
    where: str
    held: bool
    measured: str  # in full
    needed: str  # the number for the claim to hold
    seen: str  # the number that was measured


class Goal(NamedTuple):
    """A goal of ours, judged on one problem."""

    where: str
    goal: str
    seen: str
    met: bool


def interval_words(part: dict[str, float]) -> str:
    """A mean and its interval."""
    return f"{part['mean']:.3f} [{part['low']:.3f}, {part['high']:.3f}]"


def at_target(problem: dict[str, Any], method: str, budget: str = "unlimited") -> dict[str, Any] | None:
    """A method where it discards the target share, or None if it cannot; ours has no budget."""
    parts = problem["methods"][method]["matched"]
    found: dict[str, Any] | None = parts[budget if method in BASELINES else "unlimited"]
    return found


def headline_problems(results: dict[str, Any]) -> list[str]:
    """The names of the problems that a report opens with: the paper's two experiments, as far as there are results.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    names: list[str] = list(results["problems"])
    generated = [name for name in names if name.startswith("synthetic")]
    shown = ["synthetic-20"] if "synthetic-20" in generated else generated[:1]
    return shown + [name for name in names if name == "movielens-100k"]


def headlines(results: dict[str, Any]) -> list[Claim]:
    """The claims that a report opens with.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    return _judged({name: results["problems"][name] for name in headline_problems(results)}, HEADLINE_BUDGETS)


def claims(results: dict[str, Any]) -> list[Claim]:
    """All claims of the paper that a run can judge: claim by claim, then problem by problem.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    problems = results["problems"].items()
    judged = {name: problem for name, problem in problems if name.startswith(("synthetic", "movielens"))}
    return _judged(judged, tuple(BUDGETS))


def _judged(problems: dict[str, dict[str, Any]], budgets: tuple[str, ...]) -> list[Claim]:
    generated = [problem for name, problem in problems.items() if name.startswith("synthetic")]
    learned = [problem for name, problem in problems.items() if not name.startswith("synthetic")]
    found = [_speed("nearly five-fold", problem) for problem in generated]
    found += [_speed("over three-fold", problem) for problem in learned]
    for budget in budgets:
        found += [_higher(problem, budget) for problem in problems.values()]
    found += [_steadier(problem) for problem in generated]
    found += [_spread(problem) for problem in problems.values()]
    return found


def _speed(times: str, problem: dict[str, Any]) -> Claim:
    share = f"{problem['target']:.0%}"
    said = f"{times} speed-up with about {share} of the items discarded and minimal loss of accuracy"
    needed = f"recovery of at least {MINIMAL_LOSS} with {share} discarded"
    ours = at_target(problem, "ours")
    if ours is None:
        return Claim(said, problem["title"], False, "No threshold discards that share.", needed, "not reached")
    fewer = f"{1 / (1 - problem['target']):.1f} times fewer inner products, which is the paper's measure of speed-up"
    kept = f"{interval_words(ours['recovery'])} of the true top 10 recovered"
    held = ours["recovery"]["mean"] >= MINIMAL_LOSS
    text = f"{fewer}; {kept}. The claim holds if that is at least {MINIMAL_LOSS}."
    return Claim(said, problem["title"], held, text, needed, f"{ours['recovery']['mean']:.3f}")


def _higher(problem: dict[str, Any], budget: str) -> Claim:
    """Whether ours is more accurate than every baseline, interval above interval."""
    said = f"higher accuracy than every baseline at the same discard; baselines with {BUDGETS[budget]}"
    ours, best = at_target(problem, "ours"), best_baseline(problem, budget)
    needed = "no baseline discards that much" if best is None else f"more than {best[1]['mean']:.3f} ({best[0]})"
    if ours is None:
        return Claim(said, problem["title"], False, "No threshold discards that share.", needed, "not reached")
    gains, behind = [], []
    for method in BASELINES:
        theirs = at_target(problem, method, budget)
        if theirs is None:
            gains.append(f"{METHODS[method]}: cannot discard that much")
            continue
        gain = ours["recovery"]["mean"] - theirs["recovery"]["mean"]
        gains.append(f"{gain:+.3f} against {METHODS[method]} ({theirs['recovery']['mean']:.3f})")
        if ours["recovery"]["low"] <= theirs["recovery"]["high"]:
            behind.append(METHODS[method])
    text = "; ".join(gains) + "."
    if behind:
        text += f" Not clearly ahead of {', '.join(behind)}."
    return Claim(said, problem["title"], not behind, text, needed, f"{ours['recovery']['mean']:.3f}")


def _spreads(problem: dict[str, Any]) -> tuple[float | None, dict[str, float], str]:
    """Standard deviations of the discarded share over users: ours, the baselines', and both in words."""
    ours = at_target(problem, "ours")
    found = {METHODS[method]: at_target(problem, method, "tables") for method in BASELINES}
    spreads = {name: part["near"]["discarded_sd"] for name, part in found.items() if part}
    mine = None if ours is None else float(ours["near"]["discarded_sd"])
    listed = ", ".join(f"{name} {spread:.3f}" for name, spread in spreads.items())
    return mine, spreads, f"Standard deviation over users: ours {_three(mine)}; {listed or 'no baseline'}."


def _three(number: float | None) -> str:
    return "not reached" if number is None else f"{number:.3f}"


def _steadier(problem: dict[str, Any]) -> Claim:
    mine, spreads, text = _spreads(problem)
    said = "the share discarded varies less over users than with the baselines"
    least = min(spreads, key=lambda name: spreads[name], default=None)
    needed = "no baseline to compare with" if least is None else f"s.d. below {spreads[least]:.3f} ({least})"
    held = mine is not None and least is not None and mine < spreads[least]
    text += " The claim holds if every baseline varies more than ours."
    return Claim(said, problem["title"], held, text, needed, _three(mine))


def _spread(problem: dict[str, Any]) -> Claim:
    mine, spreads, text = _spreads(problem)
    said = "the share discarded varies a great deal over users for some baselines"
    most = max(spreads, key=lambda name: spreads[name], default=None)
    held = mine is not None and most is not None and spreads[most] > mine
    seen = "not reached" if most is None else f"{spreads[most]:.3f} ({most})"
    text += " The claim holds if at least one baseline varies more than ours."
    return Claim(said, problem["title"], held, text, f"s.d. above {_three(mine)} (ours)", seen)


def goals(results: dict[str, Any]) -> list[Goal]:
    """Our own goals, as far as a run can judge them.

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
    """The baseline that recovers most at the target, and how much; None if no baseline discards that much."""
    found = {METHODS[method]: at_target(problem, method, budget) for method in BASELINES}
    reached = {name: part["recovery"] for name, part in found.items() if part}
    best = max(reached, key=lambda name: reached[name]["mean"], default=None)
    return None if best is None else (best, reached[best])


def _ahead(problem: dict[str, Any]) -> Goal:
    goal = (
        f"with {problem['target']:.0%} discarded, ours as in the paper recovers more than all four baselines with "
        f"{BUDGETS['tables']}"
    )
    ours, best = at_target(problem, "ours"), best_baseline(problem, "tables")
    if ours is None or best is None:
        return Goal(problem["title"], goal, "not reached", False)
    name, theirs = best
    seen = f"{interval_words(ours['recovery'])} against {interval_words(theirs)} ({name})"
    return Goal(problem["title"], goal, seen, _higher(problem, "tables").held)


def _weighted(problem: dict[str, Any], least: float, discarded: float) -> Goal:
    points = problem["methods"]["weighted"]["points"]
    enough = [point for point in points if point["discarded"] >= discarded - 5e-4]  # a budget is a whole number
    best = max(enough, key=lambda point: point["recovery"]["mean"], default=None)
    goal = f"ours weighted recovers at least {least:.2f} with at least {discarded:.0%} discarded"
    if best is None:
        return Goal(problem["title"], goal, "not reached", False)
    seen = f"{interval_words(best['recovery'])} at {best['discarded']:.1%} discarded, of {problem['n_items']:,} items"
    return Goal(problem["title"], goal, seen, best["recovery"]["mean"] >= least)
