"""Outputs take their names whole or not at all, take the place of nothing else, and fit the file system."""

import contextlib
import errno
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tessella as ts
from tessella import _files

LONG = ["x" * 255, "é" * 127, "日" * 85, ".".join("abcdef" * 21), "x" * 250 + ".csv"]


@pytest.fixture
def index():
    return ts.Index.build(np.eye(3))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def make_socket(path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(os.path.relpath(path))  # the whole path may be too long for a socket


def make_device(kind, *numbers):
    def make(path):
        try:
            os.mknod(path, kind | 0o666, os.makedev(*numbers))
        except PermissionError:
            pytest.skip("only root may make devices, and not everywhere")

    return make


SPECIAL = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": make_socket,
    "a device": make_device(stat.S_IFCHR, 1, 3),  # like /dev/null
    "a device of blocks": make_device(stat.S_IFBLK, 7, 200),
}
OUTPUTS = {
    "an index": lambda index, path, overwrite: index.save(path, overwrite=overwrite),
    "any file": lambda _, path, overwrite: write(path, overwrite=overwrite),
}
FOLDERS = {
    "answers": lambda index, path, overwrite: index.search_all(np.eye(3), 2, out=path, overwrite=overwrite),
    "any folder": lambda _, path, overwrite: fill(path, overwrite=overwrite),
}


def write(path, text="new", *, overwrite):
    with _files.replacing(path, overwrite=overwrite) as temporary:
        temporary.write_text(text)


def fill(path, text="new", *, overwrite):
    with _files.replacing_folder(path, overwrite=overwrite) as temporary:
        (temporary / "file").write_text(text)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_file_replaces_nothing_but_a_regular_file(index, tmp_path, monkeypatch, output, kind, linked, overwrite):
    monkeypatch.chdir(tmp_path)
    SPECIAL[kind](tmp_path / "special")
    path = tmp_path / "special"
    if linked:
        path = tmp_path / "link"
        path.symlink_to("special")
    before = os.lstat(tmp_path / "special"), names(tmp_path)
    word = kind.removesuffix(" of blocks")
    sentence = f"^{re.escape(str(path))} is {word}, but only a regular file can be replaced\\.$"
    with pytest.raises(IsADirectoryError if kind == "a folder" else FileExistsError, match=sentence):
        OUTPUTS[output](index, path, overwrite)
    assert (os.lstat(tmp_path / "special"), names(tmp_path)) == before


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in SPECIAL if kind != "a folder"])
@pytest.mark.parametrize("output", FOLDERS)
def test_a_folder_replaces_nothing_but_a_folder(index, tmp_path, monkeypatch, output, kind, overwrite):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "special"
    SPECIAL[kind](path)
    before = os.lstat(path), names(tmp_path)
    word = kind.removesuffix(" of blocks")
    sentence = f"^{re.escape(str(path))} is {word}, but only a folder can be replaced\\.$"
    with pytest.raises(FileExistsError, match=sentence):
        FOLDERS[output](index, path, overwrite)
    assert (os.lstat(path), names(tmp_path)) == before


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("kind", SPECIAL)
def test_only_a_regular_file_is_loaded(tmp_path, monkeypatch, kind, mmap):
    """At once: nobody writes into the pipe."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "special"
    SPECIAL[kind](path)
    word = kind.removesuffix(" of blocks")
    with pytest.raises(OSError, match=f"special is {word}, but only a regular file can be read\\.$"):
        ts.Index.load(path, mmap=mmap)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/dev/tty"])
def test_devices_are_not_loaded(path):
    with pytest.raises(OSError, match=f"^{path} is a device, but only a regular file can be read\\.$"):
        ts.Index.load(path)


@pytest.mark.parametrize("chain", [1, 3])
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_link_to_a_file_stays(index, tmp_path, output, chain):
    """The file it leads to is replaced, where that file is."""
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "target"
    links = [tmp_path / f"link{number}" for number in range(chain)]
    for link, to in zip(links, [*links[1:], Path("far", "target")], strict=True):
        link.symlink_to(to)
    OUTPUTS[output](index, links[0], False)  # it leads nowhere, so the target is made
    made = target.read_bytes()
    with pytest.raises(FileExistsError, match=r"link0 already exists; pass overwrite=True to replace it\.$"):
        OUTPUTS[output](index, links[0], False)
    target.write_text("old")
    target.chmod(0o640)
    OUTPUTS[output](index, links[0], True)
    assert target.read_bytes() == made
    assert target.stat().st_mode & 0o777 == 0o640
    assert all(link.is_symlink() for link in links)
    assert names(tmp_path) == ["far", *(link.name for link in links)]
    assert names(tmp_path / "far") == ["target"]


@pytest.mark.parametrize("output", FOLDERS)
def test_a_link_to_a_folder_stays(index, tmp_path, output):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(Path("far", "target"))
    FOLDERS[output](index, tmp_path / "link", False)
    made = names(tmp_path / "far" / "target")
    before = (tmp_path / "far" / "target").stat()
    with pytest.raises(FileExistsError, match=r"link already exists; pass overwrite=True to replace it\.$"):
        FOLDERS[output](index, tmp_path / "link", False)
    FOLDERS[output](index, tmp_path / "link", True)
    assert names(tmp_path / "link") == made
    assert not os.path.samestat(before, (tmp_path / "far" / "target").stat())
    assert (tmp_path / "link").is_symlink()
    assert (names(tmp_path), names(tmp_path / "far")) == (["far", "link"], ["target"])


@pytest.mark.parametrize("output", OUTPUTS | FOLDERS)
def test_places_that_cannot_be_written(index, tmp_path, output):
    make = (OUTPUTS | FOLDERS)[output]
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "astray").symlink_to(Path("no", "target"))
    for name, error, sentence in (
        ("no/x", FileNotFoundError, f"no/x cannot be written: there is no folder {tmp_path}/no."),
        ("file/x", FileNotFoundError, f"file/x cannot be written: there is no folder {tmp_path}/file."),
        ("loop", OSError, "loop cannot be written: Too many levels of symbolic links."),
        ("astray", FileNotFoundError, f"astray cannot be written: there is no folder {tmp_path}/no."),
        ("y" * 256, OSError, f"{'y' * 256} cannot be written: File name too long."),
    ):
        for overwrite in (False, True):
            with pytest.raises(error, match=f"^{re.escape(f'{tmp_path}/{sentence}')}$"):
                make(index, tmp_path / name, overwrite)
    assert names(tmp_path) == ["astray", "file", "loop"]


@pytest.mark.parametrize("name", LONG, ids=lambda name: name[:3])
@pytest.mark.parametrize("output", OUTPUTS | FOLDERS)
def test_names_may_be_as_long_as_the_file_system_allows(index, tmp_path, output, name):
    make = (OUTPUTS | FOLDERS)[output]
    make(index, tmp_path / name, False)
    make(index, tmp_path / name, True)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["recs", *LONG], ids=lambda name: name[:3])
@pytest.mark.parametrize(("prefix", "suffix"), [("", ".partial"), (".", f".{'0' * 12}.tmp")])
def test_names_made_from_others_fit_and_differ(tmp_path, name, prefix, suffix):
    made = _files.beside(tmp_path / name, prefix, suffix)
    made.touch()
    assert made == _files.beside(tmp_path / name, prefix, suffix)
    assert made.name.startswith(prefix + name[:50])
    assert made.name.endswith(suffix)
    assert made != _files.beside(tmp_path / f"{name[:-1]}z", prefix, suffix)
    if len(name) < 50:
        assert made.name == f"{prefix}{name}{suffix}"


def test_bytes_that_are_no_text_may_be_a_name(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + b"\xff\xfe" * 127))
    write(path, overwrite=False)
    write(path, "newer", overwrite=True)
    assert path.read_text() == "newer"
    assert list(tmp_path.iterdir()) == [path]


def test_until_it_is_whole_what_was_there_stays(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(0o444)
    with _files.replacing(path, overwrite=True) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.stat().st_mode & 0o777 == 0o600
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o444)
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("making", [_files.replacing, _files.replacing_folder])
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_what_was_there(tmp_path, making, there, error):
    path = tmp_path / "x"
    if there:
        (write if making is _files.replacing else fill)(path, "old", overwrite=False)
    with pytest.raises(error), making(path, overwrite=True):
        raise error
    assert names(tmp_path) == ["x"] * there


@pytest.mark.parametrize("there", [False, True])
def test_an_error_of_the_system_is_one_sentence(tmp_path, there):
    path = tmp_path / "x"
    if there:
        path.touch()
    more = " The existing file is unchanged." if there else ""
    sentence = f"^{re.escape(str(path))} could not be written: No space left on device\\.{more}$"
    with pytest.raises(OSError, match=sentence), _files.replacing(path, overwrite=True):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a temporary name")
    assert names(tmp_path) == ["x"] * there


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_appears_meanwhile_is_not_replaced(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(OSError, match=r"x is .*, but only a regular file can be replaced\.$"),
        _files.replacing(tmp_path / "x", overwrite=True),
    ):
        SPECIAL[kind](tmp_path / "x")
    assert not (tmp_path / "x").is_file()
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("links", [True, False])
def test_whoever_takes_a_name_first_keeps_it(tmp_path, monkeypatch, links):
    path, link = tmp_path / "x", os.link
    sentence = r"x already exists; pass overwrite=True to replace it\.$"

    def late(*arguments):
        path.write_text("theirs")
        if not links:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        link(*arguments)

    with pytest.raises(FileExistsError, match=sentence), _files.replacing(path, overwrite=False):
        path.write_text("theirs")
    path.unlink()
    monkeypatch.setattr(os, "link", late)
    with pytest.raises(FileExistsError, match=sentence), _files.replacing(path, overwrite=False) as temporary:
        temporary.write_text("mine")
    assert path.read_text() == "theirs"
    assert names(tmp_path) == ["x"]


def test_leftovers_are_those_of_one_file(tmp_path):
    for name in ("a[b]*", "a", "x" * 255):
        with _files.replacing(tmp_path / name, overwrite=False) as temporary:
            assert _files.leftovers(tmp_path / name) == [temporary]
            for other in ("a", "a[b]*", "x" * 255, "x" * 254):
                assert other == name or not _files.leftovers(tmp_path / other)
    for strange in (".a.tmp", ".a.0123456789abc.tmp", ".a.0123456789ag.tmp", "a.0123456789ab.tmp"):
        (tmp_path / strange).touch()
    assert not _files.leftovers(tmp_path / "a")


def test_a_folder_that_cannot_take_the_name_gives_it_back(tmp_path, monkeypatch):
    fill(tmp_path / "x", "old", overwrite=False)
    rename = Path.rename

    def refuse(path, to):
        if path.name.endswith(".tmp"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, to)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(OSError, match=r"x could not be written: Input/output error\.$"):
            fill(tmp_path / "x", overwrite=True)
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x" / "file").read_text() == "old"


@pytest.mark.parametrize("name", ["x", "x" * 255])
def test_a_rename_that_was_cut_off_is_undone_or_finished(tmp_path, name):
    path = tmp_path / name
    old = _files._old(path)
    fill(old, "old", overwrite=False)
    _files.settle(path)
    assert (path / "file").read_text() == "old"
    fill(old, "older", overwrite=False)
    _files.settle(path)
    assert (path / "file").read_text() == "old"
    assert names(tmp_path) == [name]
    shutil.copytree(path, old)
    fill(path, "new", overwrite=True)
    assert (path / "file").read_text() == "new"
    assert names(tmp_path) == [name]


KILLED = """
import sys
from pathlib import Path
from tessella import _files
number = 0
while True:
    with _files.replacing_folder(Path(sys.argv[1]), overwrite=True) as temporary:
        for name in "abc":
            (temporary / name).write_text(str(number))
    number += 1
"""


def test_a_folder_is_whole_whenever_the_process_is_killed(tmp_path):
    path = tmp_path / "x"
    fill(path, overwrite=False)
    for delay in (0.01, 0.02, 0.03, 0.05):
        before = path.stat().st_ino
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)])  # noqa: S603
        while not path.exists() or path.stat().st_ino == before:
            time.sleep(0.01)
        time.sleep(delay)
        process.kill()
        process.wait()
        _files.settle(path)
        assert len({file.read_text() for file in path.iterdir()}) == 1
        assert names(path) == ["a", "b", "c"]
        assert not [name for name in names(tmp_path) if "replaced" in name]
