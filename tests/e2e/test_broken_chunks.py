"""A damaged chunk of an input costs the runs that need it and no other, in one process and in shards: what else there
is is kept, can be published, and is not made again when the file is whole. Drawn jobs; TILERUN_SEED repeats one."""

import json
import os
import random
import shutil

import h5py
import numpy as np
import pytest

import harness
import shards
from harness import IO, OK

SEED = int(os.environ.get("TILERUN_SEED") or random.Random(harness.SAMPLE_SEED).randrange(2**31))
CASES = int(os.environ.get("TILERUN_CASES") or 3)


def damage(path):
    """Overwrites the stored bytes of a drawn chunk."""
    with h5py.File(path) as file:
        data = file["x"].id
        chunk = data.get_chunk_info(random.Random(f"{SEED} {path.name}").randrange(data.get_num_chunks()))
    with open(path, "r+b") as file:
        file.seek(chunk.byte_offset)
        file.write(b"\xff" * chunk.size)


def draw_job(folder, draw):
    """Inputs in files, one of them damaged; operations that read inputs or earlier results. Returns the ids of all
    operations, and of those that the damage spares."""
    names = [f"in{i}" for i in range(draw.randint(2, 4))]
    rng = np.random.default_rng(draw.randrange(2**31))
    for name in names:
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file.create_dataset("x", data=rng.normal(size=(60, 40)).astype("f4"), chunks=(7, 40), compression="gzip")
    operations, whole = [], set(names[1:])
    for number in range(draw.randint(5, 9)):
        reads = names[number] if number < len(names) else draw.choice(names + [o["id"] for o in operations])
        operations.append({"id": f"o{number}", "op": "transpose", "inputs": [reads],
                           "variants": draw.choice([["cpu"], ["cpu", "blocked"]])})  # fmt: skip
        if reads in whole:
            whole.add(f"o{number}")
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={name: {"file": f"{name}.h5", "dataset": "/x"} for name in names},
        defaults={"warmup": 0, "repeat": 1},
        operations=operations,
    )
    ids = [operation["id"] for operation in operations]
    shutil.copy(folder / "in0.h5", folder / "whole.h5")
    damage(folder / "in0.h5")
    return ids, [name for name in ids if name in whole]


def mend(folder):
    shutil.copy(folder / "whole.h5", folder / "in0.h5")


def done_of(results):
    """The operations that have a result, as `show` reads them from the parts or the results file."""
    rows = json.loads(harness.tilerun("show", "--json", results).stdout)
    return {row["operation"] for row in rows if row["status"] == "ok"}


@pytest.mark.parametrize("case", range(CASES))
def test_one_process(folder, case):
    print(f"seed {SEED}")
    ids, spared = draw_job(folder, random.Random(f"one {SEED} {case}"))
    run = ["run", folder / "job.yaml", "-o", folder / "out.h5"]
    done = harness.tilerun(*run)
    assert done.returncode == IO and not (folder / "out.h5").exists(), done.stderr
    assert done_of(folder / "out.h5") == set(spared)
    only = f"--resume --only {','.join(spared)}"
    assert f"`{only}`" in done.stderr and "'/x' in" in done.stderr, done.stderr
    again = harness.tilerun(*run, *only.split())
    assert again.returncode == OK and again.stderr.count("kept from before") >= len(spared), again.stderr
    assert set(harness.Results(folder / "out.h5").everything()) == {f"outputs/{name}" for name in spared}
    assert harness.tilerun(*run, "--resume").returncode == IO
    mend(folder)
    harness.tilerun(*run, "--resume", expect=OK)
    shards.assert_equals_unsharded(folder)


@pytest.mark.parametrize("case", range(CASES))
def test_shards(folder, case):
    """Each shard does what it can; a shard that could do nothing leaves its reason; merge names it."""
    print(f"seed {SEED}")
    draw = random.Random(f"shards {SEED} {case}")
    ids, spared = draw_job(folder, draw)
    count = draw.randint(2, 5)
    environment = shards.plain_environment()
    ends = [
        harness.tilerun(*shards.arguments(folder, i, count, "--by", "runs", "--wait", "20"), env=environment)
        for i in range(count)
    ]
    assert {end.returncode for end in ends} <= {OK, IO} and any(end.returncode == IO for end in ends)
    assert done_of(folder / "out.h5") == set(spared)
    said = shards.merge(folder, expect=IO).stderr
    for index, end in enumerate(ends):
        assert (f"shard {index} of {count} has" in said) == (end.returncode == IO), said
    lines = [line for line in said.splitlines() if " of " in line and "it ran on" in line]
    assert lines and all("it stopped: '/x' in" in line for line in lines), said
    assert "it stopped: '/x' in" in harness.tilerun("show", folder / "out.h5").stdout
    shards.merge(folder, "--partial")
    assert set(harness.Results(folder / "out.h5").everything()) == {f"outputs/{name}" for name in spared}
    mend(folder)
    for index, end in enumerate(ends):
        if end.returncode == IO:
            shards.shard(folder, index, count, "--by", "runs", "--resume", "--overwrite")
    shards.merge(folder, "--overwrite")
    shards.assert_equals_unsharded(folder)
