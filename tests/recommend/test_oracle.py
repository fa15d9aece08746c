"""Everything a recommender does, held to a brute-force oracle in plain Python, in exact mode."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts

GENRES = ["comedy", "drama", "crime", None]
TAGS = ["a", "b", "c"]

# Conditions, and what they mean for an item's attributes; a comparison with a missing value is not true.
CONDITIONS = [
    (None, lambda _: True),
    ({"genre": "comedy"}, lambda item: item["genre"] == "comedy"),
    ({"genre": {"any": ["comedy", "drama"]}}, lambda item: item["genre"] in ("comedy", "drama")),
    ({"not": {"genre": "comedy"}}, lambda item: item["genre"] not in ("comedy", None)),
    ({"year": {"from": 3}, "tags": {"any": ["a"]}}, lambda item: item["year"] >= 3 and "a" in item["tags"]),
    ({"or": [{"year": {"below": 2}}, {"tags": {"all": ["a", "b"]}}]}, lambda item: item["year"] < 2 or {"a", "b"} <= set(item["tags"])),
    ({"year": {"above": 100}}, lambda _: False),
]  # fmt: skip


class World:
    """Items, users and all that is known of them, as plain Python."""

    def __init__(self, rng, n_items, n_users, n_interests, text_ids, signals):
        self.rng, self.n_factors, self.text_ids = rng, 3, text_ids
        self.order = []  # ids, in the order in which items came
        self.items = {}
        self.has_signals = signals
        first = self.new_items(n_items)
        shape = (n_users, n_interests, self.n_factors) if n_interests > 1 else (n_users, self.n_factors)
        self.users = rng.integers(-2, 3, shape).astype(np.float32)
        self.user_ids = [f"u{number}" for number in range(n_users)]
        self.seen = [self.some(self.order) for _ in range(n_users)]
        self.model = ts.Recommender.build(
            self.vectors(first),
            self.users,
            item_ids=first,
            user_ids=self.user_ids,
            seen=self.seen,
            attributes=self.attributes(first),
            signals=self.signals(first),
            method="exact",
        )

    def some(self, values):
        return [value for value in values if self.rng.random() < 0.25]

    def new_items(self, n):
        names = [f"i{number}" if self.text_ids else number for number in self.rng.permutation(1000)[:n].tolist()]
        names = [name for name in names if name not in self.items]
        for name in names:
            self.items[name] = self.item()
        self.order += names
        return names

    def item(self):
        rng = self.rng
        return {
            "vector": rng.integers(-2, 3, self.n_factors).astype(np.float32),
            "genre": GENRES[rng.integers(len(GENRES))],
            "tags": self.some(TAGS),
            "year": int(rng.integers(6)),
            "fresh": float(rng.integers(-2, 3)),
            "margin": float(rng.integers(4)),
        }

    def vectors(self, names):
        return np.array([self.items[name]["vector"] for name in names]).reshape(-1, self.n_factors)

    def attributes(self, names):
        return {column: [self.items[name][column] for name in names] for column in ("genre", "tags", "year")}

    def signals(self, names):
        return (
            {column: [self.items[name][column] for name in names] for column in ("fresh", "margin")}
            if self.has_signals
            else None
        )

    def change(self):
        """One change of the items, here and in the model."""
        kind = self.rng.integers(3)
        if kind == 0:
            names = self.new_items(2)
            if names:
                self.model.add_items(
                    self.vectors(names), names, attributes=self.attributes(names), signals=self.signals(names)
                )
        elif kind == 1 and self.order:
            names = self.some(self.order)
            kept = self.some(["genre", "tags", "year", "fresh", "margin"])  # which stay as they are, and are not given
            for name in names:
                self.items[name] = self.item() | {column: self.items[name][column] for column in kept}
            if names:
                attributes, signals = (
                    None if known is None else {column: own for column, own in known.items() if column not in kept}
                    for known in (self.attributes(names), self.signals(names))
                )
                self.model.update_items(self.vectors(names), names, attributes=attributes, signals=signals)
        elif kind == 2 and len(self.order) > 1:
            names = self.some(self.order)[:-1]
            self.order = [name for name in self.order if name not in names]
            if names:
                self.model.remove_items(names)
                for name in names:
                    del self.items[name]

    def scores(self, user, interests, boosts):
        """Every item's score for a user."""
        vectors = np.atleast_2d(self.users[user]).astype(np.float64)
        if interests == "best":
            vectors = vectors[vectors.any(axis=1)] if vectors.any() else vectors[:1]
        else:
            vectors = vectors.sum(axis=0, keepdims=True)
        found = {}
        for name in self.order:
            item = self.items[name]
            found[name] = max(float(vector @ item["vector"]) for vector in vectors)
            found[name] += sum(weight * item[signal] for signal, weight in boosts.items())
        return found


def ranked(world, scores, may_answer):
    """Items that may answer, best first, and of equals the one that came first."""
    return sorted(
        (name for name in world.order if may_answer(name)),
        key=lambda name: (-round(scores[name], 4), world.order.index(name)),
    )


def at_most(world, names, n, per):
    kept, counts = [], {}
    for name in names:
        value = world.items[name][per]
        values = [] if value is None else value if isinstance(value, list) else [value]
        if all(counts.get(each, 0) < n for each in values):
            kept.append(name)
            for each in values:
                counts[each] = counts.get(each, 0) + 1
    return kept


def same(found, wanted, scores, k):
    """The answers are the wanted list: ids equal where scores differ, and scores equal."""
    ids = [name for name in found.ids.tolist() if name not in (None, -1)]
    assert len(ids) == len(set(ids)) == min(k, len(wanted))
    np.testing.assert_allclose([scores[name] for name in ids], [scores[name] for name in wanted[:k]], atol=1e-4)
    np.testing.assert_allclose(found.scores[: len(ids)], [scores[name] for name in ids], atol=1e-4)
    assert (found.scores[len(ids) :] == -np.inf).all()
    assert bool(found.certified)


@settings(max_examples=600)
@given(st.data())
def test_recommend_is_brute_force(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    signals = data.draw(st.booleans())
    world = World(
        rng,
        data.draw(st.integers(1, 25)),
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(1, 2)),
        data.draw(st.booleans()),
        signals,
    )
    for _ in range(data.draw(st.integers(0, 3))):
        world.change()
    model = world.model
    where, meaning = data.draw(st.sampled_from(CONDITIONS))
    boosts = (
        {"fresh": float(data.draw(st.integers(-2, 2))), "margin": 0.5} if signals and data.draw(st.booleans()) else {}
    )
    exclude_seen, interests = data.draw(st.booleans()), data.draw(st.sampled_from(["best", "sum"]))
    exclude = world.some(world.order) if data.draw(st.booleans()) else None
    allow = world.some(world.order) if data.draw(st.booleans()) else None
    per = data.draw(st.sampled_from([None, "genre", "tags"]))
    k, n_pages = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    options = {
        "exclude_seen": exclude_seen, "where": where, "boosts": boosts or None, "exclude": exclude, "allow": allow,
        "interests": interests, "variety": None if per is None else ts.at_most(1, per=per), "exact": True, "threads": 1,
    }  # fmt: skip
    together = model.recommend(world.user_ids, k, **options)
    everybody = model.recommend_all(k, progress=False, **options)
    np.testing.assert_array_equal(everybody.ids, together.ids)
    np.testing.assert_array_equal(everybody.scores, together.scores)
    for number, user in enumerate(world.user_ids):
        scores = world.scores(number, interests, boosts)

        def may_answer(name, number=number):
            return (
                meaning(world.items[name])
                and not (exclude_seen and name in world.seen[number])
                and (exclude is None or name not in exclude)
                and (allow is None or name in allow)
            )

        wanted = ranked(world, scores, may_answer)
        wanted = wanted if per is None else at_most(world, wanted, 1, per)
        found = model.recommend(user, k, **options)
        np.testing.assert_array_equal(found.ids, together.ids[number])
        np.testing.assert_array_equal(found.scores, together.scores[number])
        same(found, wanted, scores, k)
        if not boosts:  # then scores are whole numbers, and ties are ties
            assert found.ids.tolist()[: len(wanted)] == wanted[:k]
        long = model.recommend(user, k * n_pages, **options)
        joined, page = found.ids.tolist(), found
        for _ in range(n_pages - 1):
            page = model.recommend(user, k, after=page.next, **options)
            joined += page.ids.tolist()
        assert joined == long.ids.tolist()


@settings(max_examples=100)
@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.sampled_from([None, ts.at_most(2, per="genre"), ts.diversify(0.5, candidates=12)]),
)
def test_nothing_comes_twice_while_items_change(seed, text_ids, variety):
    rng = np.random.default_rng(seed)
    world = World(rng, 20, 2, 1, text_ids, signals=False)
    shown, after = [], None
    for _ in range(4):
        page = world.model.recommend("u1", 3, after=after, variety=variety)
        items = [item for item, _, _ in page.lists()]
        assert not set(items) & set(shown)
        assert set(items) <= set(world.order) - set(world.seen[1])
        if variety is None:
            scores = world.scores(1, "best", {})
            same(
                page,
                ranked(world, scores, lambda name, shown=tuple(shown): name not in [*shown, *world.seen[1]]),
                scores,
                3,
            )
        shown += items
        after = page.next
        world.change()


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 1.0]))
def test_pages_of_a_diversified_list_are_its_parts(seed, weight):
    world = World(np.random.default_rng(seed), 20, 2, 1, text_ids=True, signals=False)
    rule = ts.diversify(weight, candidates=9)
    long = world.model.recommend(world.user_ids, 9, variety=rule, exact=True)
    first = world.model.recommend(world.user_ids, 4, variety=rule, exact=True)
    second = world.model.recommend(world.user_ids, 5, variety=rule, exact=True, after=first.next)
    np.testing.assert_array_equal(np.hstack([first.ids, second.ids]), long.ids)
    if not weight:
        np.testing.assert_array_equal(long.ids, world.model.recommend(world.user_ids, 9, exact=True).ids)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("method", [None, ts.Exact()])
def test_threads_blocks_and_planned_mode(threads, method, fastest):
    fastest("tiles")
    items, users = ts.datasets.generated_factors(6_000, 700)
    rng = np.random.default_rng(0)
    seen = [rng.integers(0, 6_000, rng.integers(0, 40)) for _ in range(700)]
    genre = np.array(["x", "y", "z"])[rng.integers(0, 3, 6_000)]
    model = ts.Recommender.build(
        items, users, seen=seen, attributes={"genre": genre}, signals={"fresh": rng.random(6_000)}, target_recall=0.9
    )
    options = {"where": {"genre": ["x", "y"]}, "boosts": {"fresh": 0.3}, "method": method}
    one = model.recommend(np.arange(700), 10, threads=1, **options)
    many = model.recommend_all(10, threads=threads, progress=False, **options)
    np.testing.assert_array_equal(one.ids, many.ids)
    np.testing.assert_array_equal(one.scores, many.scores)
    for user in (0, 17, 699):
        alone = model.recommend(user, 10, **options)
        np.testing.assert_array_equal(alone.ids, one.ids[user])
        assert not np.isin(alone.ids, seen[user]).any()
        assert (genre[alone.ids] != "z").all()


@settings(max_examples=150)
@given(
    st.integers(0, 2**32),
    st.sampled_from([None, ts.at_most(1, per="genre"), ts.at_most(2, per="tags"), ts.diversify(0.4, candidates=8)]),
    st.booleans(),
    st.sampled_from([None, {"year": {"from": 2}}]),
    st.integers(1, 2),
)
def test_lists_for_each_user_give_what_each_alone_gets(seed, variety, text_ids, where, n_interests):
    rng = np.random.default_rng(seed)
    world = World(rng, 20, 4, n_interests, text_ids, signals=True)
    world.change()
    exclude, allow = ([world.some(world.order) for _ in world.user_ids] for _ in range(2))
    weights = rng.integers(-2, 3, 4).astype(float)
    filters = [{"exclude": exclude}, {"allow": allow}, {"exclude": exclude, "allow": allow}][rng.integers(3)]
    options = {"variety": variety, "where": where, "exact": True}
    together = world.model.recommend(world.user_ids, 3, boosts={"fresh": weights}, **filters, **options)
    everybody = world.model.recommend_all(3, boosts={"fresh": weights}, progress=False, **filters, **options)
    np.testing.assert_array_equal(everybody.ids, together.ids)
    second = world.model.recommend(
        world.user_ids, 3, boosts={"fresh": weights}, after=together.next, **filters, **options
    )
    for number, user in enumerate(world.user_ids):
        own = {name: lists[number] for name, lists in filters.items()} | {"boosts": {"fresh": weights[number]}}
        alone = world.model.recommend(user, 3, **own, **options)
        np.testing.assert_array_equal(alone.ids, together.ids[number])
        np.testing.assert_array_equal(alone.scores, together.scores[number])
        following = world.model.recommend(user, 3, after=alone.next, **own, **options)
        np.testing.assert_array_equal(following.ids, second.ids[number])


RULES = [None, ts.at_most(1, per="genre"), ts.at_most(2, per="tags"), ts.diversify(0.4, candidates=8)]


@settings(max_examples=150)
@given(
    st.integers(0, 2**32),
    st.sampled_from(RULES),
    st.booleans(),
    st.sampled_from([None, {"year": {"from": 2}}]),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
)
def test_explanations_agree_with_lists(seed, variety, text_ids, where, n_interests, boosted, paged):
    world = World(np.random.default_rng(seed), 15, 1, n_interests, text_ids, signals=True)
    world.change()
    options = {"where": where, "variety": variety, "boosts": {"fresh": 0.5} if boosted else None, "exact": True}
    shown = []
    if paged:
        page = world.model.recommend("u0", 2, **options)
        shown = [item for item, _, _ in page.lists()]
        options["after"] = page.next
    found = world.model.recommend("u0", 3, **options)
    most = 8 if isinstance(variety, ts.recommend.variety.Diversify) else len(world.order)  # its candidates
    everything = world.model.recommend("u0", most, **options)
    plain = world.model.recommend("u0", len(world.order), **options | {"variety": None})
    for item in world.order:
        reason = world.model.explain("u0", item, 3, **options)
        places = {name: place for place, name in enumerate(found.ids.tolist(), 1)}
        assert reason.place == places.get(item)
        assert reason.recommended == (item in places)
        assert reason.score == pytest.approx(world.scores(0, "best", {"fresh": 0.5 * boosted})[item], abs=1e-4)
        assert (item in shown) == ("after" in reason.left_out_by)
        standing = reason.standing
        if reason.left_out_by or (variety is None and n_interests == 1):
            assert standing is None
            continue
        assert str(reason)
        allowed, ranked_items = everything.ids.tolist(), plain.ids.tolist()
        assert standing.number == (allowed.index(item) + 1 if item in allowed else None)
        if standing.by_score is not None:
            assert standing.by_score == ranked_items.index(item) + 1
        if isinstance(variety, ts.recommend.variety.AtMost) and standing.number is None:
            assert len(standing.rivals) >= variety.n
            ahead = shown + ranked_items[: standing.by_score]
            for rival, _ in standing.rivals:
                assert rival in ahead
                assert standing.value in np.atleast_1d(world.items[rival][variety.per])
            assert standing.value in np.atleast_1d(world.items[item][variety.per])
