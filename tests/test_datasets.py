"""Data sets: generated factors look like learned ones, and loaders read what is published and refuse the rest."""

import hashlib
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from conftest import DATA, NEEDS_DATA

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
    assert not np.isin(other[0], items).any()
    assert not np.isin(other[1], users).any()


def test_the_number_of_items_changes_no_user_and_the_other_way_round():
    items, users = generated_factors(30, 7)
    np.testing.assert_array_equal(generated_factors(300, 7)[1], users)
    np.testing.assert_array_equal(generated_factors(30, 70)[0], items)


def statistics(items, users):
    """What makes factors easy or hard to search, in a few figures."""
    rng = np.random.default_rng(0)
    users = users[rng.permutation(len(users))[:200]].astype(np.float64)
    items = items.astype(np.float64)
    lengths, user_lengths = np.linalg.norm(items, axis=1), np.linalg.norm(users, axis=1)
    spectrum, axes = np.linalg.eigh(items.T @ items)
    spectrum, axes = np.cumsum(spectrum[::-1]) / spectrum.sum(), axes[:, ::-1]
    scores = users @ items.T
    best = np.argpartition(scores, -10, axis=1)[:, -10:]
    best_scores = np.take_along_axis(scores, best, axis=1)
    tenth = best_scores.min(axis=1, keepdims=True)
    heads, tails = items @ axes[:, :16], np.linalg.norm(items @ axes[:, 16:], axis=1)
    user_heads, user_tails = users @ axes[:, :16], np.linalg.norm(users @ axes[:, 16:], axis=1)
    units = items / lengths[:, None]
    picked = rng.permutation(len(items))[:200]
    cosines = units[picked] @ units.T
    cosines[np.arange(len(picked)), picked] = -1
    return {
        "90% of lengths over their median": np.percentile(lengths, 90) / np.median(lengths),
        "99% of lengths over their median": np.percentile(lengths, 99) / np.median(lengths),
        "10% of lengths over their median": np.percentile(lengths, 10) / np.median(lengths),
        "99% of users' lengths over their median": np.percentile(user_lengths, 99) / np.median(user_lengths),
        "share of squares in 1 axis": spectrum[0],
        "share of squares in 4 axes": spectrum[3],
        "share of squares in 16 axes": spectrum[15],
        "share of items that reach the tenth score by length": np.mean(user_lengths[:, None] * lengths >= tenth),
        "share of items that reach it by 16 axes": np.mean(user_heads @ heads.T + user_tails[:, None] * tails >= tenth),
        "cosine to the nearest item": np.median(cosines.max(axis=1)),
        "cosine to the user of the ten best": np.median(best_scores / user_lengths[:, None] / lengths[best]),
        "tenth score over deviation of scores": np.median(tenth[:, 0] / scores.std(axis=1)),
        "different items among all the ten best": len(np.unique(best)) / best.size,
    }


LEARNED = ["gowalla-als-k64", "gowalla-als-alpha20-k64", "gowalla-bpr-k64"]


@pytest.fixture(scope="module")
def learned():
    missing = [name for name in LEARNED if not (DATA / "factors" / name / "items.npy").exists()]
    if missing:
        pytest.skip(f"there is no {missing[0]} in {DATA / 'factors'}, to compare generated factors with")
    return [statistics(*(np.load(DATA / "factors" / name / f"{side}.npy") for side in ("items", "users")))
            for name in LEARNED]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1])
def test_generated_factors_lie_among_learned_ones(learned, seed):
    generated = statistics(*generated_factors(40_981, 2_000, seed=seed))
    outside = {
        figure: (low, value, high)
        for figure, value in generated.items()
        for low, high in [(min(own[figure] for own in learned), max(own[figure] for own in learned))]
        if not low <= value <= high
    }
    assert not outside


def test_figures_of_generated_factors_stay_where_they_were(factors):
    """The same without learned factors at hand, in wider bounds."""
    found = statistics(*factors)
    assert 5 < found["99% of lengths over their median"] < 8
    assert 0.15 < found["share of squares in 1 axis"] < 0.25
    assert 0.40 < found["share of squares in 16 axes"] < 0.60
    assert 0.90 < found["cosine to the nearest item"] < 0.97
    assert 6 < found["tenth score over deviation of scores"] < 20


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
        ("", "holds no ratings"),
        ("\n \n", "holds no ratings"),
        ("1\t2\t3\n", r"line 1 is '1\\t2\\t3', not four whole numbers for user, item, rating and timestamp\.$"),
        ("1\t2\t3\n" * 4, "cannot be read as ratings: line 1 is"),
        ("1\t2\tgood\t9\n", "cannot be read as ratings: line 1 is"),
        ("1\t2\t3\t9\n1\t2\n", "cannot be read as ratings: line 2 is"),
        ("1\t2\t3\t9\n1\t\t4\t9\n", "cannot be read as ratings: line 2 is"),
        ("1\t2\t3\t" + "9" * 50, "cannot be read as ratings: line 1 is .{,60}, not"),
        ("1\t2\t3\t9\n1\t3\t6\t9\n", "has the rating 6 in row 1, but ratings are from 1 to 5"),
        ("1\t2\t3\t9\n1\t2\t4\t9\n", "rates an item twice"),
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
    with pytest.raises(ValueError, match=r"is damaged or no sparse matrix from scipy\.sparse\.save_npz\.$"):
        movielens(folder, "1m")


def test_missing_files_and_sizes_get_a_sentence(folder):
    with pytest.raises(FileNotFoundError, match=r"holds no ml-1m/ratings.dat; unpack https://files"):
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
    with pytest.raises(ValueError, match="is not the file that was published"):
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
    with pytest.raises(OSError, match=r"no route to host\); where there is no network, pass a folder"):
        movielens()


@NEEDS_DATA
def test_the_published_set_has_its_published_size():
    found = movielens(DATA)
    assert (found.n_users, found.n_items, len(found.ratings)) == (943, 1682, 100_000)
    published = (DATA / "ml-100k" / "u.data").read_bytes()
    assert hashlib.sha256(published).hexdigest().startswith("06416e597f82b734")
