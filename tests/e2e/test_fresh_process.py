"""Whatever works only because something else ran first: each command, with each compression, size of an output and kind of
input, is the first thing that its process does."""

import h5py
import numpy as np
import pytest

import harness
from harness import OK

COMPRESSIONS = {
    "none": {},
    "gzip": {"compression": "gzip"},
    "lzf": {"compression": "lzf"},
    "zstd": {"compression": "zstd"},
    "all": {"compression": "zstd", "shuffle": True, "checksum": "fletcher32"},
}
SIZES = {"scalar": ((2, 3), None), "tiny": ((1, 3), None), "chunk": ((32, 32), [32, 32]), "chunks": ((50, 40), [16, 16])}
KINDS = ["random", "packed", "result", "file", "pattern"]


@pytest.fixture(scope="module")
def lacking():
    """The compressions that this machine has no library for."""
    job = {"device": "cpu", "inputs": {"x": {"random": {"shape": [2, 2]}}}}
    return {name for name in COMPRESSIONS if b"needs" in check_alone(job, name)}


def check_alone(job, name):
    operation = {"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"], **COMPRESSIONS[name]}
    done = harness.subprocess.run(
        [harness.TILERUN, "check", "/dev/stdin"],
        input=harness.json.dumps({"version": 1, **job, "operations": [operation]}).encode(), capture_output=True,
    )  # fmt: skip
    return done.stderr


def make_input(folder, kind, shape):
    """The input of a job, and its values; None: only tilerun knows them."""
    values = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    if kind == "random":
        return {"random": {"shape": list(shape), "distribution": "index"}}, None
    if kind == "pattern":
        for i, rows in enumerate(np.array_split(values, min(2, len(values)))):
            write(folder / f"part-{i}.h5", rows)
        return {"file": "part-*.h5", "dataset": "/g/x", "concatenate": 0}, values
    if kind == "result":
        harness.write_job(folder / "first.yaml", **job_of({"random": {"shape": list(shape), "distribution": "index"}}, {}))
        harness.quiet("run", folder / "first.yaml", "-o", folder / "in.h5", "--progress", "none")
        return {"file": "in.h5", "dataset": "/outputs/y"}, None
    write(folder / "in.h5", values, **({"compression": "lzf", "chunks": True} if kind == "packed" else {}))
    return {"file": "in.h5", "dataset": "/g/x"}, values


def write(path, values, **layout):
    with h5py.File(path, "w") as file:
        file.create_dataset("g/x", data=values, **layout)


def job_of(entry, layout, scalar=False):
    operation = {"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"], **layout}
    if scalar:
        operation.update(op="reduce", operator="sum", axis="all")
        operation.pop("chunks", None)
    return {
        "device": "cpu", "inputs": {"x": entry}, "defaults": {"warmup": 0, "repeat": 1}, "operations": [operation],
    }  # fmt: skip


def run_first(folder, compression, size, kind):
    shape, chunks = SIZES[size]
    entry, values = make_input(folder, kind, shape)
    layout = COMPRESSIONS[compression] | ({"chunks": chunks} if chunks else {})
    path = harness.write_job(folder / "job.yaml", **job_of(entry, layout, size == "scalar"))
    harness.quiet("run", path, "-o", folder / "out.h5", "--progress", "none")
    if values is not None and compression != "zstd" and compression != "all":
        with h5py.File(folder / "out.h5") as file:
            expected = values.sum() if size == "scalar" else values
            np.testing.assert_array_equal(file["outputs/y"][()], expected)
    return path


@pytest.mark.parametrize(
    "size, kind", [(size, kind) for size in SIZES for kind in KINDS if kind in KINDS[:3] or size == "chunks"]
)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_run(folder, lacking, compression, size, kind):
    if compression in lacking:
        pytest.skip(f"no library for {compression}")
    run_first(folder, compression, size, kind)
    harness.tilerun("compare", folder / "out.h5", folder / "out.h5", expect=OK)  # reads the output


@pytest.mark.parametrize("kind", ["random", "packed"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_all_others(folder, lacking, compression, kind):
    if compression in lacking:
        pytest.skip(f"no library for {compression}")
    path, out = run_first(folder, compression, "chunks", kind), folder / "out.h5"
    for command in (
        ("check", path), ("plan", path), ("plan", path, "--resolved"), ("inspect", out), ("inspect", "--job", out),
        ("show", out), ("show", "--json", out), ("report", out, "-o", folder / "page.html"), ("reproduce", out, "--threshold", "1000%"),
        ("run", path, "-o", out, "--resume", "--progress", "none"),
    ):  # fmt: skip
        done = harness.tilerun(*command)
        assert done.returncode == OK, (command, done.stdout, done.stderr)
    out.unlink()
    for shard in ("0/2", "1/2"):
        by = ("run", path, "-o", out, "--progress", "none", "--shard", shard, "--by", "tiles")
        for more in ((), ("--resume",)):
            harness.tilerun(*by, *more, expect=OK)
    for more in (("--link",), ("--overwrite",)):
        assert harness.tilerun("merge", out, *more).returncode == OK
        harness.tilerun("inspect", out, "/outputs/y", expect=OK)
