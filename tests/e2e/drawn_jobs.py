"""Jobs drawn at random: chains and operations by themselves, swept or not, all ways of storing results."""

import h5py
import numpy as np

import harness

HUGE = [4096, 2050]  # float64: a part of more than SPACE_ADOPT_BYTES becomes the results file itself


def draw_operations(draw):
    """Up to five operations; each reads an input or an earlier result of the same square shape."""
    squares, operations = ["a", "b"], []
    for number in range(draw.randint(1, 5)):
        name = f"o{number}"
        kind = draw.choice(["transpose", "matmul", "scale", "reduce"])
        operation = {"id": name, "op": kind, "inputs": [draw.choice(squares)]}
        if kind == "matmul":
            operation |= {"inputs": [draw.choice(squares), draw.choice(squares)], "variants": ["cpu"]}
        elif kind == "reduce":
            operation |= {"operator": draw.choice(["sum", "max"]), "axis": draw.choice([0, 1]), "variants": ["cpu"]}
        elif kind == "transpose":
            operation |= {"variants": draw.choice([["cpu"], ["cpu", "blocked"]])}
        else:
            operation |= {"alpha": 1.5, "variants": ["cpu"]}
        operation["store"] = draw.choice(["first", "first", "all"])
        operations.append(operation | draw.choice([{}, {}, {"compression": "gzip"}, {"checksum": "none"}]))
        if kind != "reduce":
            squares.append(name)
    return operations


def draw_huge(draw):
    """One large output, and perhaps what reads it."""
    huge = {"id": "huge", "op": draw.choice(["scale", "transpose"]), "inputs": ["h"], "variants": ["blocked"]}
    if huge["op"] == "scale":
        huge |= {"beta": 1, "variants": ["cpu"]}
    huge |= {"store": draw.choice(["first", "all"]), "checksum": draw.choice(["none", "fletcher32"])}
    reads = {"id": "reads", "op": "reduce", "inputs": ["huge"], "operator": "max", "axis": 0, "variants": ["cpu"]}
    return draw.choice([[huge], [huge, reads]])


def write(folder, draw, huge=False, to=False, sides=(24, 24, 200)):
    """Writes in.h5 and job.yaml; `huge`: with an output of 64 MiB; `to`: some results go to files of their own, if
    nothing is swept."""
    side = draw.choice(sides)
    with h5py.File(folder / "in.h5", "w") as file:
        file["b"] = np.random.default_rng(draw.randrange(1000)).random((side, side), dtype="f4")
    swept = draw.choice([None, [0.5], [0.5, 2, 3]])
    operations = draw_operations(draw)
    for operation in operations:
        if swept and operation["op"] == "scale":
            operation["alpha"] = "$factor"
    sweeps = any(operation.get("alpha") == "$factor" for operation in operations)
    inputs = {
        "a": {"random": {"shape": [side, side], "low": -1, "seed": draw.randrange(1000)}},
        "b": {"file": "in.h5", "dataset": "b"},
    }
    if huge:
        inputs["h"] = {"random": {"shape": HUGE, "dtype": "float64", "seed": draw.randrange(1000)}}
        at = draw.randint(0, len(operations))
        operations[at:at] = draw_huge(draw)
    for operation in operations:
        if to and not sweeps and draw.randrange(2):
            operation["to"] = f"{draw.choice(['made', 'more'])}.h5:/{operation['id']}"
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        **({"parameters": {"factor": swept}} if sweeps else {}),
        inputs=inputs,
        defaults={"warmup": 0, "repeat": 1},
        operations=operations,
    )
