"""Run in an environment whose install found no working compiler: everything works, with one loud warning."""

import warnings

import numpy as np

import tessella as ts
from tessella import _kernels


def main() -> None:
    """Map some factors and search an index through the references."""
    if _kernels._native is not None:
        raise SystemExit("the native core was built after all")
    factors = np.random.default_rng(0).standard_normal((500, 24))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        phi = ts.SparseMap(ts.Schema(ts.DAry(2), ts.CounterTree(), threshold=0.8)).fit_transform(factors)
        ts.SparseMap().transform(factors)
    if len(caught) != 1 or "WITHOUT its native core" not in str(caught[0].message):
        raise SystemExit(f"expected one loud warning, got {[str(warning.message) for warning in caught]}")
    index = ts.Index.build(factors)
    index.add(2 * factors[:1], [1000])
    users = np.random.default_rng(1).standard_normal((5, 24))
    exact, slots = index.search(users, 3), index.search(users, 3, method=ts.Slots(100))
    if not (exact.certified.all() and (slots.scores <= exact.scores).all() and (exact.ids >= 0).all()):
        raise SystemExit(f"searches went wrong: {exact}, {slots}")
    ts.show_config()
    print(f"mapped {phi.shape[0]} factors to {phi.shape[1]} slots, {phi.nnz} entries, with one warning")  # noqa: T201


if __name__ == "__main__":
    main()
