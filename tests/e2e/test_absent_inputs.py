"""An input whose file is gone, or is no HDF5 file, when shards begin: they do what does not need it, and end with its
name and exit code 3; merge names it too, and `--partial` publishes the rest. Without shards nothing runs, exit code 2.
Drawn jobs; TILERUN_SEED repeats one."""

import json
import os
import random
import shutil

import h5py
import numpy as np
import pytest

import harness
import shards
from harness import IO, OK, USAGE

SEED = int(os.environ.get("TILERUN_SEED") or random.Random(harness.SAMPLE_SEED).randrange(2**31))
CASES = int(os.environ.get("TILERUN_CASES") or 4)


def take_away(path, draw):
    """Puts what an input's path holds aside, and nothing or something else in its place."""
    path.rename(path.with_suffix(".aside"))
    kind = draw.choice(["gone", "empty", "text", "folder"])
    if kind == "folder":
        path.mkdir()
    elif kind != "gone":
        path.write_text("" if kind == "empty" else "1,2\n3,4\n")


def put_back(path):
    if path.is_dir():
        path.rmdir()
    path.with_suffix(".aside").replace(path)


def draw_job(folder, draw):
    """Swept inputs in files, and operations on them and on earlier results. Returns the files that are taken away, and
    the outputs that do not need them."""
    files = draw.randint(2, 4)
    rng = np.random.default_rng(draw.randrange(2**31))
    for i in range(files):
        harness.write_arrays(folder / f"in{i}.h5", x=rng.normal(size=(60, 40)).astype("f4"))
    gone = draw.sample(range(files), draw.randint(1, files - 1))
    shutil.copy(folder / "in0.h5", folder / "alone.h5")
    operations, swept = [], {}
    for number in range(draw.randint(3, 6)):
        reads = draw.choice(["swept", "alone"] + [o["id"] for o in operations])
        operation = {"id": f"o{number}", "op": "transpose", "inputs": [reads], "variants": draw.choice([["cpu"], ["cpu", "blocked"]])}  # fmt: skip
        if reads == "alone" and draw.random() < 0.5:
            operation |= {"op": "matmul", "inputs": ["swept", "alone"], "transpose_b": True, "variants": ["cpu"]}
            reads = "swept"
        operations.append(operation)
        swept[f"o{number}"] = reads == "swept" or swept.get(reads, False)
    operations.append({"id": "last", "op": "scale", "alpha": 2, "inputs": ["swept"], "variants": ["cpu"]})
    swept["last"] = True
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"i": list(range(files))},
        inputs={"swept": {"file": "in${i}.h5", "dataset": "/x"}, "alone": {"file": "alone.h5", "dataset": "/x"}},
        defaults={"warmup": 0, "repeat": 1},
        operations=operations,
    )
    spared = [f"i={i}/{name}" for name in swept if swept[name] for i in range(files) if i not in gone]
    spared += [name for name in swept if not swept[name]]
    return [folder / f"in{i}.h5" for i in gone], {f"outputs/{name}" for name in spared}


def stored(results):
    return {name for name in harness.Results(results).everything()}


@pytest.mark.parametrize("case", range(CASES))
def test_shards(folder, case):
    print(f"seed {SEED}")
    draw = random.Random(f"{SEED} {case}")
    gone, spared = draw_job(folder, draw)
    for path in gone:
        take_away(path, draw)
    whole = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5")
    assert whole.returncode == USAGE and "job.yaml:" in whole.stderr and not list(folder.glob("out.h5*"))

    count = draw.randint(2, 4)
    by = draw.choice(["runs", "tiles"])
    for i in range(count):
        done = shards.shard(folder, i, count, "--by", by, expect=IO)
        for path in gone:
            assert f"{path.name}: " in done.stderr and "need input 'swept' i=" in done.stderr, done.stderr
    said = shards.merge(folder, expect=IO).stderr
    assert any(path.name in said for path in gone) and "--partial" in said and not (folder / "out.h5").exists(), said
    assert "it stopped: " in harness.tilerun("show", folder / "out.h5").stdout
    shards.merge(folder, "--partial")
    with h5py.File(folder / "out.h5") as file:
        assert file.attrs["status"] == "partial"
    assert stored(folder / "out.h5") == spared

    for path in gone:
        put_back(path)
    kept = 0
    for i in range(count):
        kept += shards.shard(folder, i, count, "--by", by, "--resume", "--overwrite").stderr.count("kept from before")
    assert kept > 0 or by == "tiles"
    shards.merge(folder, "--overwrite")
    shards.assert_equals_unsharded(folder)


@pytest.mark.parametrize("case", range(CASES))
def test_one_shard_does_not_see_them(folder, case):
    """As on a node whose file system is not mounted: the array once more completes the job."""
    print(f"seed {SEED}")
    draw = random.Random(f"node {SEED} {case}")
    gone, _ = draw_job(folder, draw)
    count = draw.randint(2, 4)
    blind = draw.randrange(count)
    for i in range(count):
        if i == blind:
            for path in gone:
                take_away(path, draw)
        done = harness.tilerun(*shards.arguments(folder, i, count, "--wait", "1"), env=shards.plain_environment())
        assert done.returncode in ((IO, 75) if i == blind else (OK, 75)), done.stderr
        if i == blind:
            for path in gone:
                put_back(path)
    for i in range(count):
        shards.shard(folder, i, count, "--resume")
    shards.merge(folder)
    shards.assert_equals_unsharded(folder)


def test_nothing_is_left(folder):
    """Every operation needs it: a mistake at its place, as without shards."""
    harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"file": "gone.h5", "dataset": "/x"}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"]}],
    )
    done = shards.shard(folder, 0, 2, expect=USAGE)
    assert "job.yaml:" in done.stderr and "gone.h5" in done.stderr and not list(folder.glob("out.h5*"))


def test_beside_another_mistake(folder):
    """All mistakes at once, as without shards."""
    harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"file": "gone.h5", "dataset": "/x"}, "r": {"random": {"shape": [3, 4]}}},
        operations=[
            {"id": "y", "op": "transpose", "inputs": ["x"]},
            {"id": "z", "op": "reduce", "operator": "sum", "axis": 5, "inputs": ["r"]},
        ],
    )
    done = shards.shard(folder, 0, 2, expect=USAGE)
    assert "gone.h5" in done.stderr and "no axis 5" in done.stderr and "2 mistakes in" in done.stderr


def test_merge_after_the_inputs_are_gone(folder):
    """The results that need it are not joined without a word."""
    draw = random.Random(f"after {SEED}")
    gone, spared = draw_job(folder, draw)
    for i in range(2):
        shards.shard(folder, i, 2)
    for path in gone:
        take_away(path, draw)
    said = shards.merge(folder, expect=IO).stderr
    assert "--partial" in said and not (folder / "out.h5").exists(), said
    for path in gone:
        put_back(path)
    shards.merge(folder)
    shards.assert_equals_unsharded(folder)
    rows = json.loads(harness.tilerun("show", "--json", folder / "out.h5").stdout)
    assert all(row["status"] == "ok" for row in rows)
