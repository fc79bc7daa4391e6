"""The unit of a result follows from those of what it was made of, or is not stated."""

import h5py
import numpy as np
import pytest

import harness
from harness import OK

SEED = 20268
PLAIN = ["sum", "mean", "min", "max", "norm2"]


def string_attribute(file, value, kind):
    """The attribute `units` of /x, as other programs may have written it."""
    if kind == "variable utf-8":
        file["x"].attrs["units"] = value
        return
    data = value.encode()
    attribute_type = h5py.h5t.C_S1.copy()
    space = h5py.h5s.create(h5py.h5s.SCALAR)
    if kind == "variable ascii":
        file["x"].attrs.create("units", value, dtype=h5py.string_dtype("ascii"))
        return
    if kind == "array of one":
        file["x"].attrs.create("units", [value], dtype=h5py.string_dtype())
        return
    attribute_type.set_size(len(data) + (kind == "null terminated") + 3 * (kind == "padded with blanks"))
    padding = {"null terminated": h5py.h5t.STR_NULLTERM, "padded with blanks": h5py.h5t.STR_SPACEPAD}
    attribute_type.set_strpad(padding.get(kind, h5py.h5t.STR_NULLPAD))
    attribute_type.set_cset(h5py.h5t.CSET_UTF8)
    attribute = h5py.h5a.create(file["x"].id, b"units", attribute_type, space)
    room = data + (b"   " if kind == "padded with blanks" else b"\0" if kind == "null terminated" else b"")
    attribute.write(np.frombuffer(room, dtype=f"S{len(room)}").reshape(()), mtype=attribute_type)


def units_after(folder, write, operations, arguments=()):
    """Runs operations on /x and /t (a matrix of the same shape), and returns the units of the outputs; None: none."""
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = np.arange(1.0, 10).reshape(3, 3)
        file["t"] = np.ones((3, 3))
        write(file)
    results = harness.run_job(
        folder, device="cpu", arguments=arguments, defaults={"warmup": 0, "repeat": 1},
        inputs={n: {"file": "x.h5", "dataset": n} for n in "xt"} | {"r": {"random": {"shape": [3, 3], "dtype": "float64"}}},
        operations=[{**o, "inputs": o.get("inputs", ["x"])} for o in operations],
    )  # fmt: skip
    with h5py.File(results.path) as file:
        return {name: item.attrs.get("units") for name, item in file["outputs"].items()}


KINDS = [
    "variable utf-8", "variable ascii", "array of one", "null terminated", "padded with zeros", "padded with blanks",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", ["m", "K s-1", "µm", "°C"])
def test_every_kind_of_string(folder, kind, units):
    if kind == "variable ascii" and not units.isascii():
        pytest.skip("not ASCII")
    found = units_after(folder, lambda f: string_attribute(f, units, kind), [{"id": "y", "op": "transpose"}])
    assert found == {"y": units}


@pytest.mark.parametrize(
    "value", [7, 2.5, np.array(["m", "s"], dtype="S1"), np.bool_(True), h5py.Empty("S4"), "", "  ", np.bytes_(b"\xb5m")]
)
def test_what_is_no_unit_is_left_out(folder, value):
    def write(file):
        file["x"].attrs["units"] = value

    assert units_after(folder, write, [{"id": "y", "op": "scale"}]) == {"y": None}


def test_no_unit_in_none_out(folder):
    operations = [{"id": n, "op": "reduce", "operator": n, "axis": 0} for n in [*PLAIN, "prod"]]
    operations += [{"id": "p", "op": "matmul", "inputs": ["x", "t"]}, {"id": "g", "op": "scale", "inputs": ["r"]}]
    assert set(units_after(folder, lambda file: None, operations).values()) == {None}


def test_rules(folder):
    def write(file):
        file["x"].attrs["units"], file["t"].attrs["units"] = "m", "s"

    operations = [
        *({"id": n, "op": "reduce", "operator": n, "axis": "all"} for n in [*PLAIN, "prod", "argmin", "argmax"]),
        {"id": "flipped", "op": "transpose"},
        {"id": "twice", "op": "scale", "alpha": 2},
        {"id": "shifted", "op": "scale", "alpha": 2, "beta": 1},
        {"id": "product", "op": "matmul", "inputs": ["x", "t"], "transpose_b": True},
        {"id": "half_known", "op": "matmul", "inputs": ["x", "r"]},
    ]
    expected = {n: "m" for n in [*PLAIN, "flipped", "twice"]} | {"argmin": "1", "argmax": "1", "product": "m s"}
    assert units_after(folder, write, operations) == expected | dict.fromkeys(["prod", "half_known", "shifted"])


def test_a_plain_number_leaves_the_other_unit(folder):
    def write(file):
        file["x"].attrs["units"], file["t"].attrs["units"] = "1", "kg"

    pairs = {"xt": "kg", "tx": "kg", "xx": "1", "tt": "kg kg"}
    products = [{"id": pair, "op": "matmul", "inputs": list(pair)} for pair in pairs]
    assert units_after(folder, write, products) == pairs


@pytest.mark.parametrize("trial", range(10))
def test_random_chains(folder, trial):
    """Through results that are stored and results that are not, and through --only."""
    rng = np.random.default_rng([SEED, trial])
    known, operations = {"x": "m", "t": "s", "r": None}, []
    for i in range(25):
        op = rng.choice(["scale", "transpose", "matmul", "reduce"])
        inputs = [str(n) for n in rng.choice(list(known), 2 if op == "matmul" else 1)]
        units = [known[n] for n in inputs]
        entry = {"id": f"y{i}", "op": str(op), "inputs": inputs, "store": str(rng.choice(["first", "all", "none"]))}
        unit = units[0]
        if op == "matmul":
            entry |= {"alpha": 0.01}
            joined = None if None in units else " ".join(u for u in units if u != "1") or "1"
            unit = joined if joined and len(joined) < 128 else None
        if op == "reduce":
            entry |= {"operator": str(rng.choice([*PLAIN, "prod", "argmin"])), "axis": 0}
            unit = {"prod": None, "argmin": "1"}.get(entry["operator"], unit)
        else:
            known[entry["id"]] = unit
        operations.append((entry, unit))

    def write(file):
        file["x"].attrs["units"], file["t"].attrs["units"] = "m", "s"

    found = units_after(folder, write, [entry for entry, _ in operations])
    assert found == {entry["id"]: unit for entry, unit in operations if entry["store"] != "none"}


def test_resumed_run_has_the_units_of_now(folder):
    """Values make a run's key, units do not: what is kept gets what the input says at last."""
    job = {"device": "cpu", "inputs": {"x": {"file": "x.h5", "dataset": "x"}},
           "defaults": {"warmup": 0, "repeat": 1},
           "operations": [{"id": "y", "op": "scale", "inputs": ["x"]},
                          {"id": "z", "op": "matmul", "inputs": ["y", "y"], "variants": ["cpu"], "repeat": 100}]}  # fmt: skip
    harness.write_arrays(folder / "x.h5", x=np.ones((160, 160), "f4"))
    path = harness.write_job(folder / "job.yaml", **job)
    process = harness.start("run", path, "-o", folder / "out.h5", "--progress", "plain")
    process.stderr.readline()
    process.kill()
    process.communicate()
    with h5py.File(folder / "x.h5", "r+") as file:
        file["x"].attrs["units"] = "m"
    done = harness.tilerun("run", path, "-o", folder / "out.h5", "--resume")
    assert done.returncode == OK and "(kept from before)" in done.stderr, done.stderr
    with h5py.File(folder / "out.h5") as file:
        assert file["outputs/y"].attrs["units"] == "m" and file["outputs/z"].attrs["units"] == "m m"
