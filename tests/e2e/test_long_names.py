"""The long_name of a result follows from those of what it was made of, or is not stated."""

import h5py
import numpy as np

import harness


def test_long_names(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        for name, words in (("x", "temperature"), ("t", " Größe\n"), ("none", None), ("number", 7), ("bad", b"\xb5")):
            file[name] = np.ones((3, 3))
            if words is not None:
                file[name].attrs["long_name"] = words
    inputs = {n: {"file": "x.h5", "dataset": n} for n in ("x", "t", "none", "number", "bad")}
    inputs["r"] = {"random": {"shape": [3, 3], "dtype": "float64"}}
    expected, operations = {}, []

    def add(name, words, op, *reads, **options):
        operations.append({"id": name, "op": op, "inputs": list(reads), **options})
        expected[name] = words

    for operator in "sum prod min max mean norm2 argmin argmax".split():
        add(f"{operator}_all", f"{operator} of temperature", "reduce", "x", operator=operator, axis="all")
    add("rows", "sum of temperature over axis 1", "reduce", "x", operator="sum", axis=-1)
    add("again", "max of sum of temperature over axis 1 over axis 0", "reduce", "rows", operator="max", axis=0)
    add("flipped", "temperature", "transpose", "x", store="all")
    add("scaled", "Größe", "scale", "t", alpha=2, beta=1)
    add("product", "temperature times Größe", "matmul", "x", "t")
    add("gram", "temperature times temperature transposed", "matmul", "x", "x", transpose_b=True)
    for other in ("none", "number", "bad", "r"):
        add(f"with_{other}", None, "matmul", "x", other)
        add(f"of_{other}", None, "scale", other)
    wide = "flipped"
    for i in range(4):  # twice as many factors each time, until there is no room
        words = " times ".join(["temperature"] * 2 ** (i + 1))
        add(f"p{i}", words if len(words) < 256 else None, "matmul", wide, wide, alpha=0.1)
        wide = f"p{i}"
    assert expected["p2"] and not expected["p3"]
    results = harness.run_job(
        folder, device="cpu", inputs=inputs, defaults={"warmup": 0, "repeat": 1}, operations=operations
    )
    with h5py.File(results.path) as file:
        assert {name: item.attrs.get("long_name") for name, item in file["outputs"].items()} == expected
