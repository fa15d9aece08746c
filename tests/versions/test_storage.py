"""Files: what is saved comes back, and no damage goes unnoticed."""

import json
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import tessella as ts
from tessella.retrieval.codes import ExactCodes
from tessella.retrieval.plan import plan_to_json
from tessella.versions import storage
from tessella.versions.snapshot import snapshot


@pytest.fixture
def index(rng):
    index = ts.Index.build(rng.standard_normal((300, 20)), rng.permutation(1000)[:300])
    index.add(rng.standard_normal((50, 20)), 2000 + np.arange(50))
    index.remove(index.ids[::7])
    return index


def assert_same(one, two, rng):
    users = rng.standard_normal((30, one._version.fitted.n_factors))
    np.testing.assert_array_equal(one.ids, two.ids)
    if len(one):
        np.testing.assert_array_equal(one[one.ids], two[two.ids])
    for found, expected in zip(one.search(users, 9)[:2], two.search(users, 9)[:2], strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mmap", [False, True])
def test_save_and_load(index, rng, tmp_path, mmap):
    path = tmp_path / "items.tessella"
    index.save(path)
    loaded = ts.Index.load(path, mmap=mmap)
    assert_same(loaded, index, rng)
    loaded.add(rng.standard_normal((40, 20)), 5000 + np.arange(40))
    loaded.remove([5001, int(loaded.ids[0])])
    assert len(loaded) == len(index) + 38
    assert list(tmp_path.iterdir()) == [path]


def test_pickle(index, rng):
    assert_same(pickle.loads(pickle.dumps(index)), index, rng)  # noqa: S301


def test_text_ids_and_an_empty_index(rng, tmp_path):
    names = ["", "a", "ä", "日本", "x" * 300, "\ud800"]
    index = ts.Index.build(rng.standard_normal((6, 4)), names)
    index.save(tmp_path / "texts")
    loaded = ts.Index.load(str(tmp_path / "texts"))
    assert loaded.ids.tolist() == names
    assert_same(loaded, index, rng)
    index.remove(names)
    index.save(tmp_path / "texts", overwrite=True)
    empty = ts.Index.load(tmp_path / "texts")
    assert len(empty) == 0
    assert empty.search(np.ones(4), 2).scores.tolist() == [-np.inf] * 2


def test_the_file_is_safetensors(index, tmp_path):
    index.save(tmp_path / "items")
    arrays = safetensors.numpy.load_file(tmp_path / "items")
    assert arrays["factors"].shape == (len(index), 20)


@pytest.mark.parametrize(
    "forge",
    [
        lambda arrays, facts: facts.pop("n_items"),  # noqa: ARG005
        lambda arrays, facts: facts.update(n_factors=10**9),  # noqa: ARG005
        lambda arrays, facts: arrays.pop("rows"),  # noqa: ARG005
        lambda arrays, facts: arrays.update(factors=arrays["factors"].astype(np.float64)),  # noqa: ARG005
        lambda arrays, facts: arrays.update(factors=arrays["factors"] * np.float32(np.nan)),  # noqa: ARG005
        lambda arrays, facts: arrays.update(rows=arrays["rows"] + 1),  # noqa: ARG005
        lambda arrays, facts: arrays.update(codes=arrays["codes"][:-2]),  # noqa: ARG005
        lambda arrays, facts: arrays.update(ids=np.zeros_like(arrays["ids"])),  # noqa: ARG005
        lambda arrays, facts: arrays.update(basis=arrays["basis"][:3]),  # noqa: ARG005
        lambda arrays, facts: arrays.update(basis=arrays["basis"] * (1 + 1e-8)),  # noqa: ARG005
        lambda arrays, facts: arrays.update(spectrum=arrays["spectrum"][:3]),  # noqa: ARG005
        lambda arrays, facts: arrays.update(rotation=arrays["basis"] * 2),  # noqa: ARG005
        lambda arrays, facts: arrays.update(positions=np.full_like(arrays["positions"], 65535)),  # noqa: ARG005
        lambda arrays, facts: arrays.update(impacts=np.full_like(arrays["impacts"], -128)),  # noqa: ARG005
        lambda arrays, facts: arrays.update(starts=arrays["starts"][::-1].copy()),  # noqa: ARG005
        lambda arrays, facts: arrays.update(starts=arrays["starts"] + 1),  # noqa: ARG005
        lambda arrays, facts: arrays.update(block_lists=arrays["block_lists"] * 2),  # noqa: ARG005
        lambda arrays, facts: arrays.update(slots=-1 - arrays["slots"]),  # noqa: ARG005
        lambda arrays, facts: arrays.update(scales=arrays["scales"] * np.float32(np.inf)),  # noqa: ARG005
        lambda arrays, facts: arrays.update(scales=arrays["scales"] * np.float32(1e9)),  # noqa: ARG005
        lambda arrays, facts: arrays.update(is_new=arrays["is_new"][1:]),  # noqa: ARG005
        lambda arrays, facts: arrays.update(block_terms=arrays["block_terms"] * np.nan),  # noqa: ARG005
        lambda arrays, facts: arrays.update(block_terms=arrays["block_terms"] * 0.9),  # noqa: ARG005
        lambda arrays, facts: arrays.update(block_terms=arrays["block_terms"] * [1, 1, 1, 0.5, 1]),  # noqa: ARG005
        lambda arrays, facts: arrays.update(block_terms=arrays["block_terms"] - [0, 0, 0, 0, 1]),  # noqa: ARG005
        lambda arrays, facts: arrays.update(codes=arrays["codes"] // 2),  # noqa: ARG005
        lambda arrays, facts: arrays.update(offsets=arrays["offsets"] - np.int16(64)),  # noqa: ARG005
        lambda arrays, facts: facts.update(schema="{}"),  # noqa: ARG005
        lambda arrays, facts: facts.update(scale="nan"),  # noqa: ARG005
        lambda arrays, facts: facts.update(n_items=-1),  # noqa: ARG005
        lambda arrays, facts: facts.update(n_items="many"),  # noqa: ARG005
        lambda arrays, facts: facts.update(n_items=0),  # noqa: ARG005
        lambda arrays, facts: facts.update(scale="0x1p99999"),  # noqa: ARG005
        lambda arrays, facts: facts.update(version=-1),  # noqa: ARG005
        lambda arrays, facts: facts.update(text_ids=1),  # noqa: ARG005
        lambda arrays, facts: arrays.update(more=arrays["ids"]),  # noqa: ARG005
    ],
)
def test_forged_files_are_refused(index, tmp_path, forge):
    arrays, facts = snapshot(index._version)
    forge(arrays, facts)
    storage.write(tmp_path / "forged", arrays, facts, overwrite=False)
    with pytest.raises(ValueError, match="forged cannot be used: its arrays do not belong together"):
        ts.Index.load(tmp_path / "forged")


def test_items_out_of_order_are_refused(rng, tmp_path):
    """A scan ends at the first block that is too short, so a later block may not be longer."""
    items = rng.standard_normal((300, 5)).astype(np.float32)
    items = items[np.argsort(np.linalg.norm(items, axis=1))]
    version = ts.Index.build(items, method="exact")._version
    codes = ExactCodes.empty(300, version.fitted.axes)
    codes.fill(slice(0, 300), items, version.fitted.rotate(items), version.fitted.axes)
    arrays, facts = snapshot(version)
    arrays |= {"factors": items, "codes": codes.codes, "offsets": codes.offsets, "block_terms": codes.block_terms}
    storage.write(tmp_path / "forged", arrays, facts, overwrite=False)
    with pytest.raises(ValueError, match="items are not sorted by falling norm"):
        ts.Index.load(tmp_path / "forged")


@pytest.fixture
def tiled(rng):
    return ts.Index.build(rng.standard_normal((300, 5)), method=ts.LearnedTiles(n_tiles=20, spill=2))


def plan_with(facts, **changed):
    return json.dumps(json.loads(facts["plan"]) | changed)


FORGED_TILES = [
    *(
        lambda arrays, facts, name=name: arrays.pop(name)  # noqa: ARG005
        for name in (
            "centres", "tile_members", "tile_starts", "tile_radii", "tile_codes", "tile_offsets", "tile_scales",
            "group_codes", "group_offsets", "group_scales", "group_radii",
        )
    ),
    *(
        lambda arrays, facts, name=name: arrays.update({name: arrays[name][:-1]})  # noqa: ARG005
        for name in (
            "centres", "tile_members", "tile_starts", "tile_radii", "tile_codes", "tile_offsets", "tile_scales",
            "group_codes", "group_offsets", "group_scales", "group_radii",
        )
    ),
    lambda arrays, facts: arrays.update(tile_members=arrays["tile_members"] + np.int32(1)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_members=-1 - arrays["tile_members"]),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_members=np.zeros_like(arrays["tile_members"])),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_members=arrays["tile_members"].astype(np.int64)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_starts=arrays["tile_starts"][::-1].copy()),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_starts=arrays["tile_starts"] + np.int32(1)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_starts=arrays["tile_starts"] * (np.arange(22) % 2).astype(np.int32)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_radii=arrays["tile_radii"] * np.float32(np.nan)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_radii=arrays["tile_radii"] + np.float32(np.inf)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_radii=-arrays["tile_radii"]),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_scales=arrays["tile_scales"] * np.float32(np.nan)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_scales=-arrays["tile_scales"]),  # noqa: ARG005
    lambda arrays, facts: arrays.update(centres=arrays["centres"] * np.float32(np.inf)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(centres=arrays["centres"][:0]),  # noqa: ARG005
    lambda arrays, facts: arrays.update(centres=np.zeros(20, np.float32)),  # noqa: ARG005
    lambda arrays, facts: facts.update(tiles="{}"),  # noqa: ARG005
    lambda arrays, facts: facts.update(tiles=json.dumps({"n_tiles": 20, "spill": 1, "seed": 0, "code_bits": 4})),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_radii=arrays["tile_radii"] * np.float32(0.9)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_scales=arrays["tile_scales"] * np.float32(0.9)),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_codes=arrays["tile_codes"] // 2),  # noqa: ARG005
    lambda arrays, facts: arrays.update(tile_offsets=arrays["tile_offsets"] - np.int16(64)),  # noqa: ARG005
    lambda arrays, facts: facts.pop("tiles"),  # noqa: ARG005
    lambda arrays, facts: facts.pop("long_norm"),  # noqa: ARG005
    lambda arrays, facts: facts.update(long_norm="nan"),  # noqa: ARG005
    lambda arrays, facts: facts.update(long_norm="-0x1p0"),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan="[]"),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan="{}"),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, method={"method": "guesses"})),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, method={"method": "tiles", "reach": 1.5})),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, method={"method": "tiles", "reach": "far"})),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, method={"method": "slots", "max_slots": 0})),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, method={"method": "slots", "budget": 2.5})),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, recall=[1.0])),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, recall="all")),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, trials=[[{"method": "exact"}, "a", "b", "c"]])),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, trials=[[{"method": "exact"}]])),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, more=1)),  # noqa: ARG005
    lambda arrays, facts: facts.update(plan=plan_with(facts, way="exact")),  # noqa: ARG005
]  # fmt: skip


@pytest.mark.parametrize("forge", FORGED_TILES)
def test_forged_tiles_are_refused(tiled, tmp_path, forge):
    arrays, facts = snapshot(tiled._version)
    forge(arrays, facts)
    storage.write(tmp_path / "forged", arrays, facts, overwrite=False)
    for mmap in (False, True):
        with pytest.raises(ValueError, match="forged cannot be used: its arrays do not belong together") as raised:
            ts.Index.load(tmp_path / "forged", mmap=mmap)
        assert "\n" not in str(raised.value)


def test_a_plan_that_needs_tiles_is_refused_where_there_are_none(index, tiled, tmp_path):
    arrays, facts = snapshot(index._version)
    storage.write(tmp_path / "forged", arrays, facts | {"plan": snapshot(tiled._version)[1]["plan"]}, overwrite=False)
    with pytest.raises(ValueError, match="the plan uses tiles, but the index has none"):
        ts.Index.load(tmp_path / "forged")


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("size", [1.0, 1e-40, 1e20, 1e37])
def test_tiles_come_back(rng, tmp_path, mmap, size):
    items, users = (rng.standard_normal((400, 5)) * size).astype(np.float32), rng.standard_normal((20, 5)) / 9
    index = ts.Index.build(items, method=ts.LearnedTiles())
    index.save(tmp_path / "items")
    loaded = ts.Index.load(tmp_path / "items", mmap=mmap)
    assert loaded.tiles == index.tiles
    assert loaded.plan == index.plan
    assert loaded.memory == index.memory
    for method in (None, ts.Exact(), ts.Tiles(0.0), ts.Tiles(0.3), ts.Tiles(1.0)):
        for found, expected in zip(
            loaded.search(users, method=method), index.search(users, method=method), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
        one = loaded.search(users[0].astype(np.float32), method=method)
        np.testing.assert_array_equal(one.ids, index.search(users[:1], method=method).ids[0])


def test_a_header_of_many_brackets_is_refused(tmp_path):
    path = tmp_path / "deep"
    path.write_bytes(struct.pack("<Q", 200_000) + b"[" * 200_000)
    with pytest.raises(ValueError, match="its header is damaged"):
        ts.Index.load(path)


def test_saves_to_one_path_at_once(index, tmp_path):
    path, problems = tmp_path / "items", []

    def save():
        try:
            for _ in range(8):
                index.save(path, overwrite=True)
        except OSError as error:
            problems.append(error)

    threads = [threading.Thread(target=save) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(ts.Index.load(path)) == len(index)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_saved_where_there_are_no_hard_links(index, tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    index.save(tmp_path / "items")
    assert len(ts.Index.load(tmp_path / "items")) == len(index)
    with pytest.raises(FileExistsError):
        index.save(tmp_path / "items")


def test_a_file_is_not_replaced_unasked(index, tmp_path):
    path = tmp_path / "items"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="already exists; pass overwrite=True"):
        index.save(path)
    assert path.read_text() == "mine"
    index.save(path, overwrite=True)
    assert len(ts.Index.load(path)) == len(index)


def small_file(tmp_path):
    path = tmp_path / "small"
    ts.Index.build(np.eye(2), ["a", "b"]).save(path)
    return path


def test_every_flipped_byte_is_refused(tmp_path):
    path = small_file(tmp_path)
    data = path.read_bytes()
    for at in range(len(data)):
        for change in (0x01, 0x80, 0x2A):
            path.write_bytes(data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])
            with pytest.raises(ValueError, match=f"^{path} cannot be used: "):
                ts.Index.load(path)


def test_every_truncation_is_refused(tmp_path):
    path = small_file(tmp_path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        for mmap in (False, True):
            with pytest.raises(ValueError, match="cannot be used: "):
                ts.Index.load(path, mmap=mmap)
    path.write_bytes(data + b"\0")
    with pytest.raises(ValueError, match="bytes follow its last array"):
        ts.Index.load(path)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "other"
    safetensors.numpy.save_file({"weights": np.eye(3)}, path)
    with pytest.raises(ValueError, match="it is not a tessella index"):
        ts.Index.load(path)
    with pytest.raises(FileNotFoundError):
        ts.Index.load(tmp_path / "nowhere")


FULL_DISK = """
import resource, sys
import numpy as np
import tessella as ts
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    ts.Index.build(np.ones((500, 20))).save(sys.argv[1], overwrite=True)
except OSError as error:
    print(error)
"""


def test_a_failed_save_leaves_what_was_there(index, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"items cannot be written: there is no folder .*no folder\.$"):
        index.save(tmp_path / "no folder" / "items")
    path = tmp_path / "items"
    path.write_text("mine")
    command = [sys.executable, "-c", FULL_DISK, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert "could not be written" in ran.stdout
    assert "The existing file is unchanged." in ran.stdout
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import numpy as np, sys
import tessella as ts
index = ts.Index.build(np.random.default_rng(0).standard_normal((20_000, 64)))
print("ready", flush=True)
while True:
    index.save(sys.argv[1], overwrite=True)
"""


def test_kill_during_save_leaves_a_whole_file(index, tmp_path):
    path = tmp_path / "items"
    index.save(path)
    for delay in (0.01, 0.03, 0.08, 0.15):
        saving = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)  # noqa: S603
        saving.stdout.readline()
        time.sleep(delay)
        saving.send_signal(signal.SIGKILL)
        saving.wait()
        saving.stdout.close()
        assert len(ts.Index.load(path)) in (len(index), 20_000)


def test_every_damage_is_listed(index, tmp_path):
    path = tmp_path / "items"
    index.save(path)
    assert storage.damages(path) == []
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    starts = {name: entry["data_offsets"][0] for name, entry in header.items() if name != "__metadata__"}
    in_order = sorted(starts, key=starts.get)
    for name in (in_order[0], in_order[2]):
        data[8 + length + starts[name]] ^= 1
    path.write_bytes(data + b"more")
    damaged = [f"its array {in_order[0]} is damaged", f"its array {in_order[2]} is damaged"]
    assert storage.damages(path) == [*damaged, "bytes follow its last array"]
    with pytest.raises(ValueError, match=f"items cannot be used: {damaged[0]}"):
        ts.Index.load(path)
    path.write_bytes(data[: 8 + length + starts[in_order[3]] + 1])
    assert storage.damages(path) == [*damaged, *(f"its array {name} is truncated" for name in in_order[3:])]
    path.write_bytes(b"")
    assert storage.damages(path) == ["it is too short for an index"]
    with pytest.raises(FileNotFoundError):
        storage.damages(tmp_path / "nowhere")


def test_a_damaged_header_hides_no_damaged_array(tmp_path):
    path = small_file(tmp_path)
    data = path.read_bytes()
    changed = bytearray(data.replace(b'"basis":{"dtype":"F64","shape":[2,2]', b'"basis":{"dtype":"F64","shape":[4,1]'))
    changed[-1] ^= 1
    path.write_bytes(changed)
    assert storage.damages(path)[0] == "its header is damaged at basis"
    assert len(storage.damages(path)) == 2


def test_the_format_of_a_damaged_file_is_not_told(tmp_path):
    path = small_file(tmp_path)
    data = path.read_bytes()
    assert storage.format_of(path) == storage.FORMAT
    for damaged in (b"", data[:100], data.replace(b"format", b"farmot"), b"\x01" + data[1:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"^{path} cannot be used: it"):
            storage.format_of(path)


@pytest.mark.parametrize("name", ["numbers", "texts"])
@pytest.mark.parametrize("mmap", [False, True])
def test_files_of_format_1_are_read_for_ever(name, mmap):
    """Files and answers of the first version to write this format; never made anew."""
    folder = Path(__file__).parents[1] / "data"
    answers = json.loads((folder / "format-1.json").read_text())
    expected = answers["files"][name]
    index = ts.Index.load(folder / f"format-1-{name}.tessella", mmap=mmap)
    found = index.search(answers["users"], 4)
    assert index.ids.tolist() == expected["ids"]
    assert found.ids.tolist() == expected["found"]
    assert found.scores.tolist() == expected["scores"]
    assert index.search(answers["users"], 4, method=ts.Slots(10)).ids.tolist() == expected["by_slots"]
    assert index.drift().n_new == expected["n_new"]


@pytest.mark.parametrize("name", ["auto", "spilled"])
@pytest.mark.parametrize("mmap", [False, True])
def test_files_of_format_2_are_read_for_ever(name, mmap):
    """Files and answers of the first version to write this format; never made anew."""
    folder = Path(__file__).parents[1] / "data"
    answers = json.loads((folder / "format-2.json").read_text())
    expected = answers["files"][name]
    users = np.array(answers["users"], np.float32)
    index = ts.Index.load(folder / f"format-2-{name}.tessella", mmap=mmap)
    assert index.ids.tolist() == expected["ids"]
    (reach,) = re.findall(r"tiles search with a reach of ([\d.]+)", expected["plan"])
    assert index.plan.method == ts.Tiles(float(reach))
    assert index.plan.reason in expected["plan"]
    assert index.plan.trials == ()  # what was measured is not kept
    assert json.loads(index.tiles.to_json()) | {"code_bits": 8} == json.loads(expected["tiles"])
    assert index.drift().n_new == expected["n_new"]
    for reach, wanted in expected["found"].items():
        options = {} if reach == "planned" else {"method": ts.Tiles(float(reach))}
        found = index.search(users, 4, **options)
        assert found.ids.tolist() == wanted["ids"]
        assert found.scores.tolist() == wanted["scores"]
        assert index.search(users[0], 4, **options).ids.tolist() == wanted["ids"][0]
    np.testing.assert_array_equal(index.search(users, 4, exact=True).ids, expected["found"]["1.0"]["ids"])


@pytest.mark.parametrize("name", ["tiles", "slots"])
@pytest.mark.parametrize("mmap", [False, True])
def test_files_of_format_3_are_read_for_ever(name, mmap):
    """Files and answers of the first version to write this format; never made anew."""
    folder = Path(__file__).parents[1] / "data"
    answers = json.loads((folder / "format-3.json").read_text())
    expected = answers["files"][name]
    users = np.array(answers["users"], np.float32)
    index = ts.Index.load(folder / f"format-3-{name}.tessella", mmap=mmap)
    assert index.ids.tolist() == expected["ids"]
    plan, kept = json.loads(plan_to_json(index.plan)), json.loads(expected["plan"])
    assert [trial[:4] for trial in plan.pop("trials")] == kept.pop("trials")
    assert {name: plan[name] for name in kept} == kept
    assert index.plan.steps == ()  # what was measured is for one k
    assert {trial.k for trial in index.plan.trials} <= {index.plan.k}
    assert index.plan.method_for(1, 5).name == index.plan.method.name
    assert index.schema.to_json() == expected["schema"]
    assert (None if index.tiles is None else index.tiles.to_json()) == expected["tiles"]
    assert index.drift().n_new == expected["n_new"]
    for method, wanted in ((None, "planned"), (ts.Exact(), "exact"), (ts.Slots(10), "slots")):
        found = index.search(users, 4, method=method)
        for part, value in expected[wanted].items():
            assert getattr(found, part).tolist() == value


@pytest.mark.parametrize("name", ["tiles", "texts"])
@pytest.mark.parametrize("mmap", [False, True])
def test_files_of_format_4_are_read_for_ever(name, mmap):
    """Files and answers of the first version to write this format; never made anew."""
    folder = Path(__file__).parents[1] / "data"
    answers = json.loads((folder / "format-4.json").read_text())
    expected = answers["files"][name]
    users = np.array(answers["users"], np.float32)
    index = ts.Index.load(folder / f"format-4-{name}.tessella", mmap=mmap)
    assert index.ids.tolist() == expected["ids"]
    assert json.loads(plan_to_json(index.plan)) == json.loads(expected["plan"])
    assert (None if index.tiles is None else index.tiles.to_json()) == expected["tiles"]
    assert index.drift().n_new == expected["n_new"]
    assert index._version.moved == expected["moved"]
    for method, wanted in ((None, "planned"), (None, "many"), (ts.Exact(), "exact"), (ts.Slots(10), "slots")):
        found = index.search(users, expected[wanted]["k"], method=method)
        for part in ("ids", "scores", "certified"):
            assert getattr(found, part).tolist() == expected[wanted][part]


@pytest.mark.parametrize("mmap", [False, True])
def test_files_of_format_5_are_read_for_ever(mmap):
    """A file whose tiles are of sketches, and answers of the first version to write this format; never made anew."""
    folder = Path(__file__).parents[1] / "data"
    answers = json.loads((folder / "format-5.json").read_text())
    expected, users = answers["files"]["steep"], np.array(answers["users"], np.float32)
    index = ts.Index.load(folder / "format-5-steep.tessella", mmap=mmap)
    assert index._version.fitted.tiling.centres.shape[1] < index.n_factors
    assert index.ids.tolist() == expected["ids"]
    assert json.loads(plan_to_json(index.plan)) == json.loads(expected["plan"])
    assert index.tiles.to_json() == expected["tiles"]
    assert index.drift().n_new == expected["n_new"]
    methods = {"planned": None, "many": None, "exact": ts.Exact(), "slots": ts.Slots(10), "certain": ts.Tiles(1.0)}
    for name, method in methods.items():
        found = index.search(users, expected[name]["k"], method=method)
        for part in ("ids", "scores", "certified"):
            assert getattr(found, part).tolist() == expected[name][part]


def test_tiles_of_factors_become_tiles_of_sketches():
    """A file of format 4, in which no tiles were of sketches."""
    folder = Path(__file__).parents[1] / "data"
    answers = json.loads((folder / "format-4-steep.json").read_text())
    expected, users = answers["files"]["steep"], np.array(answers["users"], np.float32)
    index = ts.Index.load(folder / "format-4-steep.tessella")
    assert index._version.fitted.tiling.centres.shape[1] < index.n_factors
    for name, method in (("exact", ts.Exact()), ("certain", ts.Tiles(1.0))):
        found = index.search(users, expected[name]["k"], method=method)
        for part in ("ids", "scores", "certified"):
            assert getattr(found, part).tolist() == expected[name][part]


@pytest.mark.parametrize("rotation", [None, "random", "principal", np.eye(6)[::-1]])
def test_every_rotation_survives_a_file(rotation, rng, tmp_path):
    items, users = rng.standard_normal((90, 6)), rng.standard_normal((5, 6))
    index = ts.Index.build(items, schema=ts.Schema(ts.DAry(2), ts.CounterTree(), threshold=0.7, rotation=rotation))
    index.save(tmp_path / "items")
    loaded = ts.Index.load(tmp_path / "items")
    assert loaded.schema == index.schema
    for one in (index, loaded):
        one.add(items[:5] * 2, 100 + np.arange(5))
    np.testing.assert_array_equal(loaded.candidates(users).toarray(), index.candidates(users).toarray())
    for found, expected in zip(
        loaded.search(users, 4, method=ts.Slots(12)), index.search(users, 4, method=ts.Slots(12)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_slot_map_of_ones_own_cannot_be_saved(rng, tmp_path):
    class Mine(ts.OneHot):
        pass

    index = ts.Index.build(rng.standard_normal((9, 3)), schema=ts.Schema(ts.Ternary(), Mine()))
    with pytest.raises(TypeError, match="slot_map is a Mine, which cannot be written as JSON"):
        index.save(tmp_path / "items")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_file_has_the_mode_of_other_new_files_or_of_the_one_it_replaces(index, tmp_path):
    (tmp_path / "other").touch()
    index.save(tmp_path / "items")
    assert (tmp_path / "items").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "items").chmod(0o640)
    index.save(tmp_path / "items", overwrite=True)
    assert (tmp_path / "items").stat().st_mode & 0o777 == 0o640
