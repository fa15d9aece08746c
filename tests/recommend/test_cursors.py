"""Cursors are read as they were written, or not at all."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella.recommend.cursors import Cursor, following
from tessella.results import SearchResult

NUMBERS = st.one_of(st.integers(-200, 200), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.text(max_size=5).filter(lambda text: not text.endswith("\0"))  # NumPy drops those
LISTS = st.one_of(st.lists(st.lists(kind, max_size=5), max_size=5) for kind in (NUMBERS, TEXTS))


def cursor_of(lists):
    flat = [value for own in lists for value in own]
    shown = np.array(flat, np.str_ if flat and isinstance(flat[0], str) else np.int64)
    return Cursor("model", 3, "asked", shown, np.cumsum([0, *map(len, lists)]))


@given(LISTS)
def test_a_cursor_is_read_as_it_was_written(lists):
    text = cursor_of(lists).encoded()
    assert text.replace("-", "a").replace("_", "a").isalnum()
    read = Cursor.of(text)
    assert (read.generation, read.version, read.asked) == ("model", 3, "asked")
    assert [read.shown_to(query).tolist() for query in range(len(lists))] == lists


@given(LISTS, st.data())
def test_a_damaged_cursor_is_refused(lists, data):
    text = cursor_of(lists).encoded()
    place = data.draw(st.integers(0, len(text) - 2))  # the last letter has bits that stand for nothing
    other = data.draw(st.sampled_from("AZaz09-_").filter(lambda letter: letter != text[place]))
    with pytest.raises(ValueError, match="after is no cursor, or a damaged one"):
        Cursor.of(text[:place] + other + text[place + 1 :])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]\n",
        b'["g",0,"a",[1],1]\n',
        b'["g",0,"a",[-1,1],1]\n',
        b'["g",0,"a",[9223372036854775807,1],1]\n',
        b'["g",0,"a",[1],3]\nabc',
        b'["g",0,"a",[1],4]\nabc',
        b'["g",0,"a",[1.0],1]\na',
        b'["g",0,"a","1",1]\na',
        b'["g",true,"a",[1],1]\na',
        b'[7,0,"a",[1],1]\na',
        b'["g",0,"a",[1],0]\n' + zlib.compress(b"[1]"),
        b'["g",0,"a",[1],0]\n' + zlib.compress(b'["b"]')[:-1],
        b'["g",0,"a",[1],0]\n' + zlib.compress(b'["b"]' + b" " * 2**27),
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_forged_cursor_is_refused(content):
    text = base64.urlsafe_b64encode(zlib.crc32(content).to_bytes(4, "little") + content).decode()
    with pytest.raises(ValueError, match="after is no cursor, or a damaged one"):
        Cursor.of(text)


def page(ids, scores):
    return SearchResult(np.array(ids), np.array(scores, np.float32), np.zeros(len(ids)), np.ones(len(ids)))


def test_the_next_cursor_has_what_was_shown_to_each():
    none = -np.inf
    first = Cursor.of(following(None, "g", 0, "a", page([[5, 6], [7, -1]], [[2, 1], [2, none]])))
    second = Cursor.of(following(first, "g", 1, "a", page([[4, -1], [8, 9]], [[2, none], [2, 1]])))
    assert [second.shown_to(query).tolist() for query in range(2)] == [[5, 6, 4], [7, 8, 9]]
    assert second.version == 1
    one = Cursor.of(following(cursor_of([[3]]), "g", 0, "a", page([1, -1], [1, none])))
    assert one.shown_to(0).tolist() == [3, 1]


def test_ids_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="after is no cursor"):
        cursor_of([["a"]]).excluded(texts=False)
    assert cursor_of([[]]).excluded(texts=True).values.dtype.kind == "U"
