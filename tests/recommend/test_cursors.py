"""Cursors are read as they were written, or not at all."""

import binascii
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella.recommend.cursors import _HEAD, _TEXTS, Cursor, following
from tessella.results import SearchResult

NUMBERS = st.one_of(st.integers(-200, 200), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.text(max_size=5).filter(lambda text: not text.endswith("\0"))  # NumPy drops those
LISTS = st.one_of(st.lists(st.lists(kind, max_size=5), max_size=5) for kind in (NUMBERS, TEXTS))


def cursor_of(lists):
    flat = [value for own in lists for value in own]
    shown = np.array(flat, np.str_ if flat and isinstance(flat[0], str) else np.int64)
    return Cursor("twelve chars", 3, "sixteen of chars", shown, np.cumsum([0, *map(len, lists)]))


@given(LISTS)
def test_a_cursor_is_read_as_it_was_written(lists):
    text = cursor_of(lists).encoded()
    assert text.replace("-", "a").replace("_", "a").isalnum()
    read = Cursor.of(text)
    assert (read.generation, read.version, read.asked) == ("twelve chars", 3, "sixteen of chars")
    assert [read.shown[a:b].tolist() for a, b in zip(read.starts, read.starts[1:], strict=False)] == lists


@given(LISTS, st.data())
def test_a_damaged_cursor_is_refused(lists, data):
    text = cursor_of(lists).encoded()
    place = data.draw(st.integers(0, len(text) - 2))  # the last letter has bits that stand for nothing
    other = data.draw(st.sampled_from("AZaz09-_").filter(lambda letter: letter != text[place]))
    with pytest.raises(ValueError, match="after is not a valid cursor"):
        Cursor.of(text[:place] + other + text[place + 1 :])


@pytest.mark.parametrize(
    ("kind", "lengths", "ids"),
    [
        (0, [2], b"ab"),
        (0, [1], b"abc"),
        (0, [-1, 2], b"ab"),
        (9, [1], b"ab"),
        (_TEXTS, [1], b"[1"),
        (_TEXTS, [1], b'"a"'),
        (_TEXTS, [1], b"7"),
        (_TEXTS, [1], b"[7]"),
        (_TEXTS, [2], b'[["a"],["b"]]'),
        (_TEXTS, [1], b"[" * 100_000),
    ],
)
def test_a_forged_cursor_is_refused(kind, lengths, ids):
    head = _HEAD.pack(0, b"twelve chars", b"sixteen of chars", 3, kind, len(lengths))[4:]
    rest = head + np.array(lengths, "<i4").tobytes() + ids
    raw = zlib.crc32(rest).to_bytes(4, "little") + rest
    text = binascii.b2a_base64(raw, newline=False).decode().translate(str.maketrans("+/", "-_")).rstrip("=")
    with pytest.raises(ValueError, match="after is not a valid cursor"):
        Cursor.of(text)


def page(ids, scores):
    return SearchResult(np.array(ids), np.array(scores, np.float32), np.zeros(len(ids)), np.ones(len(ids)))


def test_the_next_cursor_has_what_was_shown_to_each():
    none = -np.inf
    names = "twelve chars", 0, "sixteen of chars"
    first = Cursor.of(following(None, *names, page([[5, 6], [7, -1]], [[2, 1], [2, none]])))
    second = Cursor.of(following(first, *names, page([[4, -1], [8, 9]], [[2, none], [2, 1]])))
    assert [own.tolist() for own in second.lists()] == [[5, 6, 4], [7, 8, 9]]
    one = Cursor.of(following(cursor_of([[3]]), *names, page([1, -1], [1, none])))
    assert one.lists()[0].tolist() == [3, 1]
