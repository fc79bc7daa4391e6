"""What stays in device memory between operations: an input is read again only where memory had to be given up, and
what is given up is what was unused longest, never what the operation itself reads."""

import h5py
import numpy as np
import pytest

import harness

SIDE = 256
UNIT = SIDE * SIDE * 4  # bytes of a matrix
SLACK = UNIT // 2  # for small results and workspaces


def drawn_operations(rng, names):
    """Sums of a matrix, and products of two or of one by itself."""
    for number in range(int(rng.integers(10, 24))):
        if rng.integers(3) < 2:
            yield {"op": "reduce", "operator": "sum", "axis": 0, "inputs": [str(rng.choice(names))]}
        else:
            yield {"op": "matmul", "inputs": [str(name) for name in rng.choice(names, 2)]}


def expected_reads(operations, room):
    """Matrices that each operation reads, where `room` of them fit."""
    last = {name: number for number, of in enumerate(operations) for name in of["inputs"]}
    kept, reads = [], []  # the longest unused is the last of `kept`
    for number, of in enumerate(operations):
        kept = [name for name in kept if last[name] >= number]
        inputs = list(dict.fromkeys(of["inputs"]))
        missing = [name for name in inputs if name not in kept]
        for name in inputs:
            if name in kept:
                kept.remove(name)
                kept.insert(0, name)
        own = set(inputs) - set(missing)
        for name in [*missing, *(["result"] if of["op"] == "matmul" else [])]:
            while len(kept) >= room:
                kept.remove([other for other in kept if other not in own][-1])
            kept.insert(0, name)
            own.add(name)
        kept = [name for name in kept if name != "result"]
        reads.append(len(missing))
    return reads


def check(folder, rng, operations, room):
    names = {name for of in operations for name in of["inputs"]}
    with h5py.File(folder / "in.h5", "w") as file:
        for name in names:
            file[name] = rng.standard_normal((SIDE, SIDE), dtype=np.float32)
    results = harness.run_job(
        folder,
        arguments=["--memory", str(room * UNIT + SLACK)],
        device="cpu",
        inputs={name: {"file": "in.h5", "dataset": name} for name in sorted(names)},
        defaults={"warmup": 0, "repeat": 1, "store": "none", "verify": "full"},
        operations=[{"id": f"y{number}", "variants": ["cpu"], **of} for number, of in enumerate(operations)],
    )
    assert [row["status"] for row in results.rows] == ["ok"] * len(operations)
    assert [row["file_bytes"] / UNIT for row in results.rows] == expected_reads(operations, room), (room, operations)


@pytest.mark.parametrize("case", range(12))
def test_reads_again_only_what_had_to_go(folder, rng, case):
    names = list("abcdefg")[: int(rng.integers(3, 8))]
    check(folder, rng, list(drawn_operations(rng, names)), int(rng.integers(3, 6)))


def test_what_an_operation_reads_stays(folder, rng):
    """The product needs room for d while a, which it reads too, is what was unused longest."""

    def total(name):
        return {"op": "reduce", "operator": "sum", "axis": 0, "inputs": [name]}

    product = {"op": "matmul", "inputs": ["d", "a"]}
    operations = [*map(total, "abc"), product, *map(total, "dcba")]
    assert expected_reads(operations, 3)[3] == 1
    check(folder, rng, operations, 3)
