"""Every HDF5 function that the program calls crashes once, wherever it is called: within it, or in what it calls. The
process ends with a sentence and exit code 3, never by a signal. What reads files stands behind fences that name them
(storage/untrusted/fence.h); the rest the handler of the signal tells by its callers."""

import os
import random
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import crashes
import harness
import hostile
from harness import IO, OK, RUN, USAGE

SEED = int(os.environ.get("TILERUN_SEED", "20261125"))
CASES = int(os.environ.get("TILERUN_CASES", "1"))  # of each function

# What no command here calls.
UNREACHED = {
    "H5Eget_current_stack": "asked why an object cannot be copied out of a part, whose hash was right before",
    "H5Eset_current_stack": "the same",
    "H5Pset_virtual_printf_gap": "only where numbered sources lack some, as in test_missing_sources.py",
    **dict.fromkeys(("H5Fget_create_plist", "H5Pget_userblock"), "only where files need a later HDF5 than this"),
}


def write_inputs(folder):
    rng = np.random.default_rng(1)
    with h5py.File(folder / "in.h5", "w") as file:
        x = file.create_dataset("x", data=rng.normal(size=(24, 16)).astype("f4"))
        x.attrs.update({"units": "K", "fixed": np.bytes_(b"text"), "valid": [1.0, 2.0], "scale": 2})
        for axis, (name, size) in enumerate([("time", 24), ("level", 16)]):
            file[name] = np.arange(float(size))
            file[name].make_scale(name)
            file[name].attrs["units"] = "s"
            x.dims[axis].attach_scale(file[name])
            x.dims[axis].label = name
        file.create_dataset("packed", data=rng.normal(size=(24, 16)), chunks=(8, 16), compression="gzip", shuffle=True,
                            fletcher32=True)  # fmt: skip
        file.create_dataset("scaled", data=np.arange(384).reshape(24, 16), chunks=(8, 16), scaleoffset=0)
        file["g/big"] = np.arange(48, dtype=">i2").reshape(3, 16)
        file["g/half"] = np.ones((3, 16), "f2")
        file.create_dataset("sparse", (24, 16), "i4", chunks=(8, 16), compression="gzip")[:8] = 1
        labelled = file.create_dataset("labelled", data=np.ones((3, 2)))
        for name in ("single", "deleted"):
            file[name] = 1.0
            file[name].make_scale(name)
            labelled.dims[1].attach_scale(file[name])
        file["table"] = np.zeros(4, [("a", "i4"), ("b", "f8"), ("c", "f8", (2,))])
        file["complex"] = np.ones(3, complex)
        file["flag"] = np.array([True, False])
        file.create_dataset("text", data=["a", "b"], dtype=h5py.string_dtype())
        file["soft"] = h5py.SoftLink("/x")
        file["away"] = h5py.ExternalLink("other.h5", "/x")
        file["nowhere"] = h5py.ExternalLink("gone.h5", "/x")
        file["scalar"] = 3.0
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((8, 16))
        creation.set_filter(40000, h5py.h5z.FLAG_OPTIONAL, ())
        h5py.h5d.create(file.id, b"skipped", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((24, 16)), creation)
        file["skipped"][...] = 1
        narrow = h5py.h5t.STD_I32BE.copy()
        narrow.set_precision(20)
        h5py.h5d.create(file.id, b"narrow", narrow, h5py.h5s.create_simple((24, 16))).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.ones((24, 16), "i4")
        )
        layout = h5py.VirtualLayout((24, 16), "f4")
        layout[:12] = h5py.VirtualSource("other.h5", "x", (24, 16))[:12]
        layout[12:] = h5py.VirtualSource(file["x"])[12:]
        file.create_virtual_dataset("virtual", layout)
        layout = h5py.VirtualLayout((24, 16), "f4")
        layout[:12] = h5py.VirtualSource("missing.h5", "x", (12, 16))
        layout[12] = h5py.VirtualSource("other.h5", "x", (20,))[2:18]
        layout[13:] = h5py.VirtualSource("other.h5", "g/half", (11, 16))
        file.create_virtual_dataset("lacking", layout)
        file.create_dataset("outside", (3,), "f8", external=[("raw.bin", 0, 24)])
        file.create_dataset("after", data=np.zeros(4096))
        del file["deleted"]
    (folder / "raw.bin").write_bytes(np.arange(3.0).tobytes())
    shutil.copy(folder / "in.h5", folder / "other.h5")
    for i in range(2):
        harness.write_arrays(folder / f"part-{i}.h5", x=np.ones((3, 16), "f4"))
    hostile.make_driver(folder / "driver.h5", 0, 1 << 30, 0)
    hostile.make_groups(folder)
    shutil.copy(Path(__file__).parent / "newer/filtered.h5", folder / "newer.h5")


def job(folder, name, inputs, operations, **more):
    harness.write_job(
        folder / name, device="cpu", inputs=inputs, defaults={"warmup": 0, "repeat": 2}, operations=operations, **more
    )


def reduce(name, of, **more):
    return {"id": name, "op": "reduce", "inputs": [of], "operator": "mean", "axis": 0, "variants": ["cpu"], **more}


def write_jobs(folder):
    names = ["x", "packed", "scaled", "g/big", "g/half", "virtual", "away", "sparse", "labelled", "narrow", "skipped",
             "outside"]  # fmt: skip
    inputs = {name.replace("/", "_"): {"file": "in.h5", "dataset": f"/{name}"} for name in names}
    inputs["field"] = {"file": "in.h5", "dataset": "/table", "field": "c"}
    inputs["lacking"] = {"file": "in.h5", "dataset": "/lacking", "sources": "fill"}
    inputs["joined"] = {"file": "part-*.h5", "dataset": "/x", "concatenate": 0}
    operations = [reduce(f"mean_{name}", name) for name in inputs if name != "outside"]
    operations.append({"id": "copy", "op": "scale", "inputs": ["outside"], "variants": ["cpu"]})
    operations.append(reduce("half", "x", dtype="float16", store="all", variants=["cpu", "blocked"]))
    operations.append({"id": "zip", "op": "scale", "inputs": ["x"], "compression": "lzf", "chunks": [8, 8], "shuffle": True,
                       "variants": ["cpu"]})  # fmt: skip
    operations.append({"id": "all", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": "all", "variants": ["cpu"]})
    job(folder, "job.yaml", inputs, operations, external="allow")
    to = [reduce("mean", "x", to="made.h5:/g/mean"), reduce("most", "x", to="made.h5:/most", compression="gzip")]
    job(folder, "to.yaml", {"x": inputs["x"]}, to + [reduce("here", "x", chunks=[8], compression="gzip")])
    job(folder, "small.yaml", {"x": inputs["x"]}, [reduce("mean", "x"), {"id": "flip", "op": "transpose", "inputs": ["x"]}])
    job(folder, "large.yaml", {"r": {"random": {"shape": [4200, 4096]}}},
        [{"id": "y", "op": "scale", "inputs": ["r"], "variants": ["cpu"]}])  # fmt: skip
    job(folder, "bad.yaml", {"a": {"file": "in.h5", "dataset": "/tabel"}, "b": {"file": "in.h5", "dataset": "/table"},
                             "c": {"file": "in.h5", "dataset": "/text"}, "d": {"file": "in.h5", "dataset": "/nowhere"}},
        [reduce("y", name) for name in "a"])  # fmt: skip


@pytest.fixture(scope="module")
def left(memory_folder):
    """Inputs, jobs, and results of all kinds."""
    folder = memory_folder / "crashes"
    folder.mkdir()
    write_inputs(folder)
    write_jobs(folder)

    def call(*arguments, expect=OK):
        done = harness.tilerun(*arguments, "--progress", "none", cwd=folder)
        assert done.returncode == expect, (arguments, done.stderr)

    call("run", "job.yaml", "-o", "whole.h5")
    call("run", "job.yaml", "-o", "some.h5", "--only", "mean_x")
    call("run", "to.yaml", "-o", "to.h5")
    for i in range(2):
        call("run", "small.yaml", "-o", "shards.h5", "--shard", f"{i}/2")
        call("run", "small.yaml", "-o", "tiles.h5", "--shard", f"{i}/2", "--by", "tiles")
        call("run", "small.yaml", "-o", "linked.h5", "--shard", f"{i}/2", "--by", "tiles")
    harness.tilerun("merge", "linked.h5", "--link", cwd=folder)
    call("run", "small.yaml", "-o", "begun.h5", "--shard", "0/2")
    return folder


COMMANDS = {
    "version": "--version", "run": "run job.yaml -o new.h5", "to": "run to.yaml -o to2.h5 --overwrite",
    "large": "run large.yaml -o large.h5 --once", "check": "check job.yaml", "bad": "check bad.yaml",
    "plan": "plan job.yaml", "inspect": "inspect in.h5", "one": "inspect in.h5 /x", "driver": "inspect driver.h5",
    "deep": "inspect deep.h5", "newer": "inspect newer.h5 /x", "proposal": "inspect --job in.h5",
    "resume some": "run job.yaml -o some.h5 --resume", "resume whole": "run job.yaml -o whole.h5 --resume",
    "resume to": "run to.yaml -o to.h5 --resume", "resume shard": "run small.yaml -o begun.h5 --shard 0/2 --resume",
    "shard": "run small.yaml -o begun.h5 --shard 1/2", "merge": "merge shards.h5", "tiles": "merge tiles.h5",
    "link": "merge shards.h5 --link", "copied": "merge linked.h5 --overwrite", "show": "show whole.h5",
    "show parts": "show begun.h5", "compare": "compare whole.h5 whole.h5", "compare linked": "compare linked.h5 linked.h5",
    "report": "report whole.h5 -o new.html", "reproduce": "reproduce to.h5 --threshold 1000%",
}  # fmt: skip


def run(left, folder, shim, command, **crash):
    place = folder / "place"
    shutil.copytree(left, place)
    words = COMMANDS[command].split() + (["--progress", "none"] if COMMANDS[command].startswith("run") else [])
    done = harness.tilerun(*words, cwd=place, env=crashes.environment(shim, folder / "count", **crash))
    shutil.rmtree(place)
    return done


def test_every_function(left, folder):
    shim = crashes.build_shim(folder)
    reached = {}
    for command in COMMANDS:
        done = run(left, folder, shim, command)
        assert done.returncode in (OK, RUN, USAGE), (command, done.stderr)
        for name, number in crashes.counts(folder / "count").items():
            reached.setdefault(name, {})[command] = number
    missing = set(crashes.imported()) - set(reached)
    assert missing <= set(UNREACHED), f"no command calls {sorted(missing - set(UNREACHED))}"
    for name, commands in reached.items():
        draw = random.Random(f"{SEED} {name}")
        for _ in range(CASES):
            command = draw.choice(sorted(commands))
            nth, how = draw.randint(1, commands[command]), draw.choice(["here", "memset", "inside"])
            done = run(left, folder, shim, command, call=name, nth=nth, how=how)
            case = f"{name} {nth} of {commands[command]}, {how}, in {command}"
            assert done.returncode == IO, (case, done.returncode, done.stderr)
            last = done.stderr.splitlines()[-1]
            assert last.startswith("tilerun: ") and "the HDF5 library crashed" in last, (case, done.stderr)
