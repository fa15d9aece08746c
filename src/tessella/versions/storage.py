"""Snapshots in one file: arrays and JSON in the safetensors format, with a checksum for every part.

A safetensors file consists of eight bytes with the length of a JSON header, the header, and the arrays. Its metadata is
one string: a digest, followed by the JSON that it is the digest of, which lists type, shape and digest of every array.
A header that is not exactly the serialisation of its content is refused, so no byte of the file can change unnoticed.
"""

import contextlib
import errno
import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from tessella import _files

FORMAT = 5
READABLE = (1, 2, 3, 4, 5)
_KEY = "tessella"
_DIGEST_LENGTH = 32
_TYPES = {"F32": "<f4", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "<u1", "U16": "<u2"}


def _digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_LENGTH // 2).hexdigest()


def _metadata(arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, object]) -> dict[str, str]:
    described = {
        name: {"type": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "digest": _digest(array.data)}
        for name, array in arrays.items()
    }
    text = json.dumps({"format": FORMAT, "facts": facts, "arrays": described})
    return {_KEY: _digest(text.encode()) + text}


def to_bytes(arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, object]) -> bytes:
    """Serialise a snapshot in memory."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return safetensors.numpy.save(contiguous, _metadata(contiguous, facts))


def write(path: Path, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, object], *, overwrite: bool) -> None:
    """Write a snapshot to a file, atomically."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with _files.replacing(path, overwrite=overwrite) as temporary:
        try:
            safetensors.numpy.save_file(contiguous, temporary, _metadata(contiguous, facts))
        except safetensors.SafetensorError as error:  # raised when the disk is full, for instance
            raise OSError(errno.EIO, str(error)) from error


def read(path: Path, *, mmap: bool) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read the arrays and metadata of a snapshot; with `mmap`, the arrays stay in the file."""
    return from_buffer(_bytes_of(path, mmap=mmap), str(path))


def from_buffer(data: NDArray[np.uint8], name: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and metadata of a snapshot after verifying every byte."""
    arrays, facts, found = _examined(data)
    if found:
        raise ValueError(f"{name} cannot be used: {found[0]}.")
    return arrays, facts


def damages(path: Path) -> list[str]:
    """List everything that is wrong with a file, array by array; the list is empty if every byte is as written."""
    return _examined(_bytes_of(path, mmap=True))[2]


def format_of(path: Path) -> int:
    """Return the format number of a file; its arrays are not read."""
    try:
        with _reading_header():
            return int(_described(_bytes_of(path, mmap=True))[1]["format"])
    except _Damage as damage:
        raise ValueError(f"{path} cannot be used: {damage}.") from None


def _bytes_of(path: Path, *, mmap: bool) -> NDArray[np.uint8]:
    _files.check_readable(path)
    if mmap and path.stat().st_size:
        return np.memmap(path, np.uint8, "r")
    return np.fromfile(path, np.uint8)


class _Damage(Exception):  # noqa: N818
    """What is wrong with a file."""


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise _Damage(what)


def _examined(data: NDArray[np.uint8]) -> tuple[dict[str, NDArray[Any]], dict[str, Any], list[str]]:
    """Return the intact arrays and the metadata of a snapshot, and what is wrong with it."""
    try:
        with _reading_header():
            return _parse(data)
    except _Damage as damage:
        return {}, {}, [str(damage)]


@contextlib.contextmanager
def _reading_header() -> Iterator[None]:
    """Turn the errors of reading a header into damage."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise _Damage("its header is damaged") from None


def _described(data: NDArray[np.uint8]) -> tuple[dict[str, Any], dict[str, Any], NDArray[np.uint8]]:
    """Return the entries of the header, the description in its metadata, and the bytes that follow."""
    _require(len(data) >= 8, "it is too short for an index")
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    _require(length <= len(data) - 8, "it is not a tessella index, or is truncated")
    header = _json_object(data[8 : 8 + length].tobytes(), "its header")
    metadata = header.pop("__metadata__", None)
    _require(isinstance(metadata, dict) and set(metadata) == {_KEY}, "it is not a tessella index")
    text = str(metadata[_KEY])
    digest, body = text[:_DIGEST_LENGTH], text[_DIGEST_LENGTH:]
    _require(_digest(body.encode()) == digest, "its description is damaged")
    content = json.loads(body)
    _require(
        content["format"] in READABLE,
        f"it has format {content['format']}, but this version of tessella reads formats {READABLE[0]} to "
        f"{READABLE[-1]}",
    )
    return header, content, data[8 + length :]


def _parse(data: NDArray[np.uint8]) -> tuple[dict[str, NDArray[Any]], dict[str, Any], list[str]]:
    header, content, stored = _described(data)
    described = content["arrays"]
    _require(set(header) == set(described), "its header does not list the arrays it should")
    arrays: dict[str, NDArray[Any]] = {}
    found, end = [], 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"][0]):
        wanted = described[name]
        size = math.prod(wanted["shape"]) * np.dtype(wanted["type"]).itemsize
        start, end = end, end + size
        part = stored[start:end]
        same = _TYPES.get(entry["dtype"]) == wanted["type"].replace("|", "<") and entry["shape"] == wanted["shape"]
        if not same or entry["data_offsets"] != [start, end]:
            found.append(f"its header is damaged at {name}")
        elif len(part) < size:
            found.append(f"its array {name} is truncated")
        elif _digest(np.ascontiguousarray(part).data) != wanted["digest"]:
            found.append(f"its array {name} is damaged")
        else:
            arrays[name] = part.view(wanted["type"]).reshape(wanted["shape"])
    if len(stored) > end:
        found.append("bytes follow its last array")
    return arrays, content["facts"] | {"format": content["format"]}, found


def _json_object(raw: bytes, what: str) -> dict[str, Any]:
    """Parse JSON that must be exactly the serialisation of its content, padded with spaces."""
    try:
        parsed = json.loads(raw)
    except ValueError:
        raise _Damage(f"{what} is damaged") from None
    plain = json.dumps(parsed, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    padded = plain + b" " * (-len(plain) % 8)
    _require(isinstance(parsed, dict) and raw == padded, f"{what} is damaged")
    return dict(parsed)


def texts_to_arrays(texts: NDArray[np.str_]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode strings as consecutive UTF-8 bytes, and where each ends."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts.tolist()]
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(text) for text in encoded], dtype=np.int64)


def texts_from_arrays(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.str_]:
    """Decode the strings that `texts_to_arrays` encoded."""
    raw = data.tobytes()
    starts = [0, *ends.tolist()][:-1]
    texts = [raw[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends.tolist(), strict=True)]
    return np.array(texts, np.str_)
