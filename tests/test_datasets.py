"""Data sets: generated factors look like learned ones, and loaders read what is published and refuse the rest."""

import hashlib
import itertools
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import scipy.sparse
from conftest import DATA, NEEDS_DATA

import tessella as ts
from tessella import datasets
from tessella.datasets import generated_factors, movielens


@pytest.fixture(scope="module")
def factors():
    return generated_factors(20_000, 2_000)


def test_shapes_and_types():
    items, users = generated_factors(30, 7, 5)
    assert items.shape == (30, 5)
    assert users.shape == (7, 5)
    assert items.dtype == users.dtype == np.float32
    assert [part.shape for part in generated_factors(0, 1, 1)] == [(0, 1), (1, 1)]


def test_factors_go_by_the_seed():
    items, users = generated_factors(30, 7, seed=3)
    again = generated_factors(30, 7, seed=3)
    np.testing.assert_array_equal(items, again[0])
    np.testing.assert_array_equal(users, again[1])
    other = generated_factors(30, 7, seed=4)
    assert not (other[0] == items).any()
    assert not (other[1] == users).any()


def test_the_number_of_items_changes_no_user_and_the_other_way_round():
    items, users = generated_factors(30, 7)
    np.testing.assert_array_equal(generated_factors(300, 7)[1], users)
    np.testing.assert_array_equal(generated_factors(30, 70)[0], items)


# A kind, the model it is like, and how far a figure may be from the model's, up or down.
LIKE = {"als": "gowalla-als-alpha20-k64", "als-heavy": "gowalla-als-k64", "bpr": "gowalla-bpr-k64"}
CLOSE = {
    "effective rank of items": 1.1,
    "effective rank of users": 1.25,
    "10% of lengths over their median": 1.25,
    "90% of lengths over their median": 1.25,
    "99% of lengths over their median": 1.4,
    "cosine of the ten best": 1.5,
    "tenth score above the mean": 1.7,
    "500th score over the tenth": 1.6,
    "slots that 100 items win": 1.6,
    "items scored by exact search": 2.5,
}


def statistics(items, users):
    """What makes factors easy or hard to search, in a few figures."""
    users = np.ascontiguousarray(users[np.random.default_rng(0).permutation(len(users))[:500]])
    lengths, user_lengths = np.linalg.norm(items, axis=1), np.linalg.norm(users, axis=1)
    found, deep = (ts.Index.build(items, method="exact").search(users, k) for k in (10, 500))
    scores = users[:100] @ items.T
    slots = np.sort(np.bincount(found.ids.ravel()))[::-1]
    tenth = found.scores[:, -1]
    return {
        "effective rank of items": effective_rank(items),
        "effective rank of users": effective_rank(users),
        "10% of lengths over their median": np.percentile(lengths, 10) / np.median(lengths),
        "90% of lengths over their median": np.percentile(lengths, 90) / np.median(lengths),
        "99% of lengths over their median": np.percentile(lengths, 99) / np.median(lengths),
        "cosine of the ten best": np.median(found.scores / user_lengths[:, None] / lengths[found.ids]),
        "tenth score above the mean": np.median((tenth[:100] - scores.mean(axis=1)) / scores.std(axis=1)),
        "500th score over the tenth": np.median(deep.scores[:, -1] / tenth),
        "slots that 100 items win": slots[:100].sum() / slots.sum(),
        "items scored by exact search": found.n_scored.mean(),
    }


def effective_rank(factors):
    spectrum = np.linalg.eigvalsh(factors.T.astype(np.float64) @ factors)
    shares = spectrum / spectrum.sum()
    return np.exp(-np.sum(shares * np.log(shares)))


@pytest.mark.parametrize(("kind", "seed"), [("als", 0), ("als", 1), ("als-heavy", 0), ("bpr", 0)])
def test_every_kind_is_like_the_model_it_is_named_after(kind, seed):
    folder = DATA / "factors" / LIKE[kind]
    if not (folder / "items.npy").exists():
        pytest.skip(f"there is no {folder}, to compare generated factors with")
    learned = statistics(*(np.load(folder / f"{side}.npy") for side in ("items", "users")))
    generated = statistics(*generated_factors(40_981, 2_000, kind=kind, seed=seed))
    far = {figure: (value, learned[figure]) for figure, value in generated.items()
           if not 1 / CLOSE[figure] <= value / learned[figure] <= CLOSE[figure]}  # fmt: skip
    assert not far


def test_figures_of_generated_factors_stay_where_they_were(factors):
    """Without learned factors at hand, in wider bounds."""
    found = statistics(*factors)
    assert 38 < found["effective rank of items"] < 48
    assert 2.5 < found["99% of lengths over their median"] < 4
    assert 7 < found["tenth score above the mean"] < 16
    flat = statistics(*generated_factors(20_000, 2_000, kind="flat"))
    assert flat["effective rank of items"] > 50
    assert flat["99% of lengths over their median"] < 1.5
    assert flat["items scored by exact search"] > found["items scored by exact search"]


def test_another_kind_has_other_factors():
    kinds = [generated_factors(30, 7, kind=kind) for kind in get_args(datasets.Kind)]
    for first, second in itertools.combinations(kinds, 2):
        assert not (first[0] == second[0]).any()
        assert not (first[1] == second[1]).any()


LINES = "7\t30\t4\t881250949\n2\t10\t1\t891717742\n7\t10\t5\t878887116\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("TESSELLA_DATA", raising=False)
    (tmp_path / "ml-100k").mkdir()
    (tmp_path / "ml-100k" / "u.data").write_text(LINES)
    return tmp_path


def test_ratings_are_numbered_from_0(folder):
    found = movielens(folder)
    assert found.users.tolist() == [1, 0, 1]
    assert found.items.tolist() == [1, 0, 0]
    assert found.ratings.tolist() == [4, 1, 5]
    assert found.timestamps.tolist() == [881250949, 891717742, 878887116]
    assert (found.n_users, found.n_items) == (2, 2)


def test_the_folder_may_be_named_in_the_environment(folder, monkeypatch):
    monkeypatch.setenv("TESSELLA_DATA", str(folder))
    np.testing.assert_array_equal(movielens().users, movielens(folder).users)


def test_both_forms_of_the_larger_set_are_read(folder):
    (folder / "ml-1m").mkdir()
    scipy.sparse.save_npz(folder / "ml-1m" / "ratings.npz", scipy.sparse.csr_array([[0, 3], [5, 1]]))
    packed = movielens(folder, "1m")
    assert packed.timestamps is None
    assert sorted(zip(packed.users, packed.items, packed.ratings, strict=True)) == [(0, 1, 3), (1, 0, 5), (1, 1, 1)]
    (folder / "ml-1m" / "ratings.dat").write_text("1::2::3::9\n1::1::4::9\n")
    assert movielens(folder, "1m").ratings.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "contains no ratings"),
        ("\n \n", "contains no ratings"),
        ("1\t2\t3\n", r"line 1 is '1\\t2\\t3', not four integers for user, item, rating and timestamp\.$"),
        ("1\t2\t3\n" * 4, "cannot be read as ratings: line 1 is"),
        ("1\t2\tgood\t9\n", "cannot be read as ratings: line 1 is"),
        ("1\t2\t3\t9\n1\t2\n", "cannot be read as ratings: line 2 is"),
        ("1\t2\t3\t9\n1\t\t4\t9\n", "cannot be read as ratings: line 2 is"),
        ("1\t2\t3\t" + "9" * 50, "cannot be read as ratings: line 1 is .{,60}, not"),
        ("1\t2\t3\t9\n1\t3\t6\t9\n", "has the rating 6 in row 1, but ratings are from 1 to 5"),
        ("1\t2\t3\t9\n1\t2\t4\t9\n", "rated the same item twice"),
        ("\x00\xff", "cannot be read as ratings"),
    ],
)
def test_a_bad_file_gets_a_sentence(folder, text, sentence):
    (folder / "ml-100k" / "u.data").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        movielens(folder)


def test_a_bad_matrix_gets_a_sentence(folder):
    (folder / "ml-1m").mkdir()
    (folder / "ml-1m" / "ratings.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"is damaged, or is not a sparse matrix from scipy\.sparse\.save_npz\.$"):
        movielens(folder, "1m")


def test_missing_files_and_sizes_get_a_sentence(folder):
    with pytest.raises(FileNotFoundError, match=r"does not contain ml-1m/ratings.dat; unpack https://files"):
        movielens(folder, "1m")
    with pytest.raises(ValueError, match="size is '10m'"):
        movielens(folder, "10m")


def test_a_download_is_checked_and_kept(folder, monkeypatch):
    archive = folder / "published.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("ml-100k/u.data", LINES)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    asked = []

    def opened(address, timeout):
        asked.append((address, timeout))
        return archive.open("rb")

    monkeypatch.setattr(urllib.request, "urlopen", opened)
    with pytest.raises(ValueError, match="is not the published file"):
        movielens()
    assert not (folder / "cache").exists()
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    monkeypatch.setitem(datasets._MOVIELENS, "100k", replace(datasets._MOVIELENS["100k"], sha256=checksum))
    first = movielens()
    again = movielens()
    assert first.ratings.tolist() == again.ratings.tolist() == [4, 1, 5]
    assert len(asked) == 2
    assert asked[0][0] == "https://files.grouplens.org/datasets/movielens/ml-100k.zip"


def test_without_a_network_the_sentence_says_what_to_do(folder, monkeypatch):
    def refused(*_arguments, **_options):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(urllib.request, "urlopen", refused)
    with pytest.raises(OSError, match=r"no route to host\); without a network, pass a folder"):
        movielens()


@NEEDS_DATA
def test_the_published_set_has_its_published_size():
    found = movielens(DATA)
    assert (found.n_users, found.n_items, len(found.ratings)) == (943, 1682, 100_000)
    published = (DATA / "ml-100k" / "u.data").read_bytes()
    assert hashlib.sha256(published).hexdigest().startswith("06416e597f82b734")
