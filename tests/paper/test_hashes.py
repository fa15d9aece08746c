"""The hashes of P16 against their definitions, written out plainly."""

import dataclasses
import math

import numpy as np
import pytest
from conftest import factor_matrices, plain_floats
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.paper.baselines import Baseline, ConcomitantRank, PCATree, SignRandomProjection, Superbit

HASHES = [
    SignRandomProjection(3, 4),
    SignRandomProjection(62, 2),
    Superbit(3, 4, depth=2),
    ConcomitantRank(4, 3),
    ConcomitantRank(2, 2, length=62),
    ConcomitantRank(3, 2, seed=5, length=2),
]


def pair_at(angle, n_factors=6):
    """Two factors of different lengths with that angle between them."""
    first, second = np.zeros(n_factors), np.zeros(n_factors)
    first[0], second[0], second[1] = 3, math.cos(angle) / 2, math.sin(angle) / 2
    return np.stack([first, second])


def collisions(hashes, angle):
    """In which tables factors at that angle collide."""
    first, second = hashes.codes(pair_at(angle))
    return first == second


def assert_share(outcomes, probability):
    """The share of what happened is within five standard errors of its probability."""
    assert abs(outcomes.mean() - probability) <= 5 * math.sqrt(probability * (1 - probability) / outcomes.size)


@pytest.mark.parametrize("bits", [1, 2, 5])
@pytest.mark.parametrize("angle", [0.2, 1.0, math.pi / 2, 2.5])
def test_signs_agree_as_charikar_says(bits, angle):
    outcomes = np.concatenate([collisions(SignRandomProjection(bits, 1024, seed), angle) for seed in range(4)])
    assert_share(outcomes, (1 - angle / math.pi) ** bits)


def agreeing_bits(kind, angle):
    """How many of 6 bits agree, table by table."""
    codes = np.concatenate([kind(seed).codes(pair_at(angle)) for seed in range(4)], axis=1)
    return 6 - np.array([number.bit_count() for number in (codes[0] ^ codes[1]).tolist()])


@pytest.mark.parametrize("angle", [0.5, 1.0, 1.5])
def test_superbits_agree_as_often_and_vary_less(angle):
    plain = agreeing_bits(lambda seed: SignRandomProjection(6, 1024, seed), angle)
    batched = agreeing_bits(lambda seed: Superbit(6, 1024, 6, seed), angle)
    share = 1 - angle / math.pi
    variance = 6 * share * (1 - share)
    error = 5 * math.sqrt(2 / len(plain))  # of a variance, in five standard errors
    for agreeing in (plain, batched):
        assert abs(agreeing.mean() - 6 * share) < 5 * math.sqrt(variance / len(agreeing))
    assert abs(plain.var() / variance - 1) < error
    assert batched.var() / variance < 1 - error


@pytest.mark.parametrize("n_factors", [5, 9])
@pytest.mark.parametrize(("bits", "depth"), [(1, 1), (5, 5), (7, 3), (62, 4)])
def test_superbits_are_orthonormal_in_batches(bits, depth, n_factors):
    hashes = Superbit(bits, 3, depth)
    drawn = SignRandomProjection(bits, 3).directions(n_factors)
    for table, vectors in zip(drawn, hashes.directions(n_factors), strict=True):
        for first in range(0, bits, depth):
            batch, given = vectors[first : first + depth], table[first : first + depth]
            np.testing.assert_allclose(batch @ batch.T, np.eye(len(batch)), atol=1e-12)
            # Gram and Schmidt: a vector lies in the span of those drawn so far, on the side of its own.
            products = given @ batch.T
            np.testing.assert_allclose(np.triu(products, 1), 0, atol=1e-12)
            assert (np.diag(products) > 0).all()


@given(factors=factor_matrices(), bits=st.integers(1, 62), seed=st.integers(0, 99))
def test_superbits_of_depth_one_are_signs(factors, bits, seed):
    signs, superbits = SignRandomProjection(bits, 2, seed), Superbit(bits, 2, 1, seed)
    np.testing.assert_array_equal(superbits.codes(factors), signs.codes(factors))


def test_sign_codes_by_definition(rng):
    factors = rng.standard_normal((50, 7)).astype(np.float32)
    hashes = SignRandomProjection(62, 3, seed=1)
    directions = hashes.directions(7)
    codes = hashes.codes(factors)
    for row, factor in enumerate(factors.astype(np.float64)):
        for table in range(3):
            bits = [int(directions[table, bit] @ factor >= 0) for bit in range(62)]
            assert codes[row, table] == sum(value << bit for bit, value in enumerate(bits))


@pytest.mark.parametrize(("l", "length"), [(2, 1), (7, 1), (5, 3)])
def test_concomitant_codes_by_definition(l, length, rng):  # noqa: E741
    factors = rng.standard_normal((50, 6)).astype(np.float32)
    hashes = ConcomitantRank(l, 3, seed=2, length=length)
    directions = hashes.directions(6).reshape(3, length, l, 6)
    codes = hashes.codes(factors)
    for row, factor in enumerate(factors.astype(np.float64)):
        for table in range(3):
            largest = [max(range(l), key=lambda i, group=group: group[i] @ factor) for group in directions[table]]
            assert codes[row, table] == sum(value * l**place for place, value in enumerate(largest))


@pytest.mark.parametrize("angle", [0.2, 1.0, 2.5])
def test_the_larger_of_two_projections_is_a_sign(angle):
    outcomes = np.concatenate([collisions(ConcomitantRank(2, 1024, seed), angle) for seed in range(4)])
    assert_share(outcomes, 1 - angle / math.pi)


@pytest.mark.parametrize("angle", [0.3, 1.0])
def test_concomitants_by_simulation(angle, rng):
    """The largest of 8 pairs of correlated Gaussians has the same number in both with this probability."""
    first, second = rng.standard_normal((2, 200_000, 8))
    second = math.cos(angle) * first + math.sin(angle) * second
    probability = (first.argmax(axis=1) == second.argmax(axis=1)).mean()
    outcomes = np.concatenate([collisions(ConcomitantRank(8, 1024, seed), angle) for seed in range(4)])
    assert_share(outcomes, probability)


@pytest.mark.parametrize("hashes", HASHES, ids=repr)
@given(data=st.data())
def test_candidates_are_equal_codes(hashes, data):
    items = data.draw(factor_matrices().filter(lambda matrix: len(matrix) and matrix.shape[1] >= 2))
    queries = data.draw(factor_matrices(max_factors=1)).repeat(items.shape[1], axis=1)
    queries = np.concatenate([queries, items[::2], 2 * np.sign(items)])
    expected = np.zeros((len(queries), len(items)), np.int32)
    for query, asked in enumerate(hashes.codes(queries)):
        for item, filed in enumerate(hashes.codes(items)):
            expected[query, item] = sum(a == b != -1 for a, b in zip(asked, filed, strict=True))
    found = hashes.fit(items).candidates(queries)
    assert found.dtype == np.int32
    assert found.has_canonical_format
    assert (found.data > 0).all()
    np.testing.assert_array_equal(found.toarray(), expected)


@pytest.mark.parametrize("hashes", HASHES, ids=repr)
@given(
    factors=factor_matrices(elements=plain_floats()).filter(lambda matrix: matrix.shape[1] > 1),
    power=st.integers(-40, 40),
)
def test_only_the_direction_counts(hashes, factors, power):
    np.testing.assert_array_equal(hashes.codes(factors * 2.0**power), hashes.codes(factors))


def test_factors_of_zeros_meet_nothing():
    hashes = SignRandomProjection(1, 3).fit([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    assert hashes.codes([[0.0, -0.0]]).tolist() == [[-1, -1, -1]]
    assert hashes.candidates([[0.0, 0.0]]).nnz == 0
    assert hashes.candidates([[1.0, 0.0], [-1.0, 0.0]]).toarray()[:, 0].tolist() == [0, 0]
    assert SignRandomProjection(1, 3).fit([[0.0]]).candidates([[1.0]]).shape == (1, 1)


@pytest.mark.parametrize(
    "kind", [SignRandomProjection(4, 3, 7), Superbit(4, 3, 2, 7), ConcomitantRank(4, 3, 7)], ids=repr
)
def test_seeds_reproduce_and_more_tables_find_more(kind, rng):
    items, queries = rng.standard_normal((300, 5)), rng.standard_normal((20, 5))
    found = kind.fit(items).candidates(queries).toarray()
    again = dataclasses.replace(kind)
    assert again == kind
    np.testing.assert_array_equal(again.fit(items).candidates(queries).toarray(), found)
    other = dataclasses.replace(kind, seed=8).fit(items).candidates(queries).toarray()
    assert (other != found).any()
    more = dataclasses.replace(kind, tables=6).fit(items).candidates(queries).toarray()
    assert (more >= found).all()
    assert more.sum() > found.sum()


def test_fitting_again_forgets(rng):
    hashes = SignRandomProjection(2, 2).fit(rng.standard_normal((50, 4)))
    items = rng.standard_normal((30, 6))
    np.testing.assert_array_equal(
        hashes.fit(items).candidates(items).toarray(), SignRandomProjection(2, 2).fit(items).candidates(items).toarray()
    )
    assert hashes.candidates(np.zeros((0, 6))).shape == (0, 30)


def test_blocks_change_nothing(rng, monkeypatch):
    items = rng.standard_normal((200, 5)).astype(np.float32)
    expected = [hashes.codes(items) for hashes in HASHES]
    monkeypatch.setattr("tessella._checks._factors._ELEMENTS_PER_BLOCK", 5 * 17)
    for hashes, codes in zip(HASHES, expected, strict=True):
        np.testing.assert_array_equal(hashes.codes(items), codes)


def test_parameters_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SignRandomProjection(2, 2).bits = 3


GOOD = np.arange(12.0).reshape(4, 3) - 5
NAN = np.where(GOOD == 2, np.nan, GOOD)
BASELINES = [SignRandomProjection(2, 2), Superbit(2, 2, 2), ConcomitantRank(3, 2), PCATree(1)]


@pytest.mark.parametrize("baseline", BASELINES, ids=repr)
def test_bad_factors(baseline):
    assert isinstance(baseline, Baseline)
    fresh = dataclasses.replace(baseline)
    name = type(baseline).__name__
    with pytest.raises(ValueError, match=rf"^this {name} is not fitted; call fit\(item_factors\) first\.$"):
        fresh.candidates(GOOD)
    fresh.fit(GOOD)
    expected = fresh.candidates(GOOD).toarray()
    for values, sentence in [
        (GOOD[:0], "item_factors has 0 rows, but at least 1 is needed to fit."),
        (NAN, "item_factors holds nan in row 2, column 1; factors must be finite."),
        (GOOD[0], "item_factors has 1 dimensions, but must have 2"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            fresh.fit(values)
    with pytest.raises(ValueError, match=r"^queries has 2 columns, but 3 are expected\.$"):
        fresh.candidates(GOOD[:, :2])
    with pytest.raises(ValueError, match=r"^queries holds nan in row 2, column 1; factors must be finite\.$"):
        fresh.candidates(NAN)
    with pytest.raises(TypeError, match=r"^queries holds <U1, but must hold real numbers"):
        fresh.candidates([["a", "b", "c"]])
    np.testing.assert_array_equal(fresh.candidates(GOOD).toarray(), expected)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: SignRandomProjection(0, 1), ValueError, "bits is 0, but must be from 1 to 62."),
        (lambda: SignRandomProjection(63, 1), ValueError, "bits is 63, but must be from 1 to 62."),
        (lambda: SignRandomProjection(2.0, 1), TypeError, "bits must be an integer, not float."),
        (lambda: SignRandomProjection(2, 0), ValueError, "tables is 0, but must be from 1 to 1024."),
        (lambda: SignRandomProjection(2, 1, -1), ValueError, "seed is -1, but must be at least 0."),
        (lambda: SignRandomProjection(2, 1).directions(0), ValueError, "n_factors is 0, but must be from 1 to 4096."),
        (lambda: SignRandomProjection(2, 1).codes(NAN), ValueError, "factors holds nan in row 2, column 1;"),
        (lambda: Superbit(4, 1, 5), ValueError, "depth is 5, but must be from 1 to 4."),
        (lambda: Superbit(4, 1, 4).fit(GOOD), ValueError, "depth is 4, but factors have 3 coordinates; use at most that depth."),
        (lambda: ConcomitantRank(1, 1), ValueError, "l is 1, but must be from 2 to 4096."),
        (lambda: ConcomitantRank(4, 2000), ValueError, "tables is 2000, but must be from 1 to 1024."),
        (lambda: ConcomitantRank(4, 1, length=0), ValueError, "length is 0, but must be from 1 to 62."),
        (lambda: ConcomitantRank(4, 1, length=32), ValueError, "length is 32, but 4 to that power exceeds 2^62; use a smaller length."),
        (lambda: PCATree(0), ValueError, "depth is 0, but must be from 1 to 24."),
        (lambda: PCATree(3).fit(GOOD), ValueError, "depth is 3, which makes 8 leaves, but there are 4 items; use a smaller depth."),
        (lambda: PCATree(2, spill=0.6), ValueError, "spill is 0.6, but must be from 0 to 0.5."),
        (lambda: PCATree(2, spill=-0.1), ValueError, "spill is -0.1, but must be from 0 to 0.5."),
        (lambda: PCATree(2, spill="0"), TypeError, "spill must be a number, not str."),
    ],
)  # fmt: skip
def test_bad_parameters(call, error, sentence):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize("baseline", BASELINES, ids=repr)
def test_an_index_gives_the_same_kind_of_matrix(baseline, rng):
    items, queries = rng.standard_normal((40, 4)), rng.standard_normal((3, 4))
    ours, theirs = ts.Index.build(items).candidates(queries), baseline.fit(items).candidates(queries)
    assert type(ours) is type(theirs)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
