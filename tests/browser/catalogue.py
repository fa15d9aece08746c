"""Catalogues with generated titles and genres, whose factors know the genres: two generations in a store."""

from pathlib import Path

import numpy as np

import tessella as ts
from tessella.store import Store

GENRES = ("Adventure", "Comedy", "Crime", "Documentary", "Drama", "Family", "Mystery", "Science fiction")
FIRST = ("Amber", "Broken", "Crystal", "Distant", "Electric", "Forgotten", "Golden", "Hidden", "Iron", "Last", "Midnight",
         "Northern", "Paper", "Quiet", "Scarlet", "Silver", "Stolen", "Velvet", "Wandering", "Winter")  # fmt: skip
SECOND = ("Archive", "Bridge", "Castle", "Detective", "Engine", "Fountain", "Garden", "Harbour", "Island", "Journey",
          "Kingdom", "Lantern", "Mountain", "Orchard", "Painter", "River", "Station", "Theatre", "Voyage", "Watchmaker")  # fmt: skip
LARGE = 2**60  # ids beyond what a browser's numbers hold


def title(number):
    """A title for each number; after 400, a part of a series."""
    series, at = divmod(number, len(FIRST) * len(SECOND))
    name = f"The {FIRST[at % len(FIRST)]} {SECOND[(at // len(FIRST) + at) % len(SECOND)]}"
    return name if not series else f"{name}, part {series + 1}"


def fill(path: Path, n_items=3000, n_users=600, *, large_ids=False, generations=("spring", "autumn"), method="auto"):
    """Make a store whose last generation is live; the one before it knows the users less well."""
    random = np.random.default_rng(7)
    width = 32
    directions = random.normal(size=(len(GENRES), width)) / np.sqrt(width)
    kinds = [
        sorted(random.choice(len(GENRES), size=1 + int(random.random() < 0.4), replace=False)) for _ in range(n_items)
    ]
    popularity = random.gamma(2.0, 1.0, n_items).astype(np.float32)
    own = random.normal(size=(n_items, width)) / np.sqrt(width)
    items = np.stack([directions[kind].sum(axis=0) for kind in kinds]) * (0.7 + 0.1 * popularity[:, None]) + 0.5 * own
    tastes = random.dirichlet(np.full(len(GENRES), 0.4), n_users)
    users = tastes @ directions * 2 + 0.3 * random.normal(size=(n_users, width)) / np.sqrt(width)
    first = LARGE if large_ids else 1
    item_ids = first + np.arange(n_items)
    seen = [random.choice(item_ids, size=int(random.integers(3, 25)), replace=False) for _ in range(n_users)]
    year = random.integers(1950, 2027, n_items)
    years = np.array(year.astype(str), "datetime64[Y]")
    parts = {
        "method": method,
        "item_ids": item_ids,
        "user_ids": first + np.arange(n_users),
        "seen": [row.tolist() for row in seen],
        "attributes": {
            "title": [title(number) for number in range(n_items)],
            "genres": [[GENRES[one] for one in kind] for kind in kinds],
            "year": year,
            "in_stock": (random.random(n_items) < 0.9).tolist(),
        },
        "signals": {"popularity": popularity, "fresh": ts.Decaying(years, half_life=np.timedelta64(3652, "D"))},
        "payload": [{"poster": f"{number}.jpg"} for number in range(n_items)],
    }
    with Store.open(path) as store:
        for age, name in enumerate(reversed(generations)):
            noise = 0.35 * age
            moved = items + noise * random.normal(size=items.shape) / np.sqrt(width)
            store.load(name, moved.astype(np.float32), users.astype(np.float32), progress=False, **parts)
        for name in generations:
            store.publish(name=name)
