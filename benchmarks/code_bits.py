"""How many of the best items by code contain 99% of the true top 10, for codes of different numbers of bits."""

import numpy as np
import sets

K, N_USERS = 10, 500
LARGEST = {8: 127, 4: 7, 2: 1}
DEPTHS = (10, 11, 12, 15, 20, 25, 30, 50, 75, 100, 150, 200, 400, 1000, 2000)


def coded(rows: np.ndarray, bits: int) -> np.ndarray:
    """Round rows to codes of some number of bits, each with its own step size."""
    steps = np.abs(rows).max(axis=1, keepdims=True) / LARGEST[bits]
    if bits == 2:
        steps = np.abs(rows).mean(axis=1, keepdims=True)
    steps[steps == 0] = 1
    return np.clip(np.rint(rows / steps), -LARGEST[bits], LARGEST[bits]) * steps


def depth(factors: sets.Factors, bits: int) -> int:
    """Return how many of the best items by code are needed; queries are coded with 8 bits."""
    users = factors.users[:N_USERS]
    best = np.argsort(-(users @ factors.items.T), axis=1)[:, :K]
    by_code = np.argsort(-(coded(users, 8) @ coded(factors.items, bits).T), axis=1)[:, : DEPTHS[-1]]
    for deep in DEPTHS:
        held = [len(np.intersect1d(row[:deep], true)) for row, true in zip(by_code, best, strict=True)]
        if np.mean(held) >= 0.99 * K:
            return deep
    return len(factors.items)


def main() -> None:
    """Print a line for each available set."""
    for name in sets.learned_names():
        factors = sets.learned(name).sample(N_USERS, None)
        found = {bits: depth(factors, bits) for bits in LARGEST}
        print(f"{name}: " + ", ".join(f"{bits} bits {deep}" for bits, deep in found.items()))


if __name__ == "__main__":
    main()
