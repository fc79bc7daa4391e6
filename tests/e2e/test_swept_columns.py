"""Each swept parameter is a column of its own in /runs, in CSV and in JSON, with a type of its own."""

import csv
import io
import json

import h5py
import numpy as np
import pytest

import harness

SEED = 20271
INTEGERS = ["0", "7", "-3", "+5", "007", "4096", "-9223372036854775808", "9007199254740993"]
DRAWS = {
    "integer": lambda rng: str(rng.choice(INTEGERS)),
    "real": lambda rng: str(rng.choice(["0.5", "1e3", "-2.25", ".5", "3.", "9223372036854775808"])),
    "text": lambda rng: str(rng.choice(["float32", "µ-größe", "a b", "0x10", "nan", "yes", "1_0", "x" * 40, 'q"uote'])),
}


def as_read(out):
    """The rows three times: as HDF5, as JSON and as CSV have them."""
    with h5py.File(out) as file:
        table = file["runs"][:]
    rows = json.loads(harness.tilerun("show", "--json", out).stdout)
    lines = list(csv.DictReader(io.StringIO(harness.tilerun("show", "--csv", out).stdout)))
    assert len(table) == len(rows) == len(lines)
    assert list(table.dtype.names) == list(rows[0]) == list(lines[0])
    return table, rows, lines


def value_of(text):
    """What a label's value is as a number; None: a text."""
    try:
        if text.lstrip("+-").isdigit() and text.isascii():
            return int(text)
        return float(text) if set(text) <= set("0123456789.eE+-") else None
    except ValueError:
        return None


@pytest.mark.parametrize("trial", range(8))
def test_drawn(folder, trial):
    """Files come from which parameters have which values, and which operations depend on which of them."""
    rng = np.random.default_rng([SEED, trial])
    names = [str(n) for n in rng.permutation(["n", "dtype", "run", "p_n", "_x", "status"])[: rng.integers(1, 5)]]
    parameters, order = {}, []
    for name in names:
        kind = str(rng.choice(list(DRAWS)))
        parameters[name] = sorted({DRAWS[kind](rng) for _ in range(rng.integers(1, 4))})
        order.append(name)
    everywhere = rng.random() < 0.4
    with h5py.File(folder / "x.h5", "w") as file:
        for values in parameters.values():
            for value in values:
                if value not in file:
                    file[value] = np.zeros(2)
    inputs = {f"I{i}": {"file": "x.h5", "dataset": f"${{{name}}}"} for i, name in enumerate(order)}
    operations = [
        {"id": f"o{i}", "op": "scale", "inputs": [f"I{i}"], "variants": ["cpu"], "repeat": 1, "warmup": 0}
        for i in range(1 if everywhere else len(order))
    ]
    if everywhere:  # one operation, which depends on one parameter alone: no row is without it
        parameters = {order[0]: parameters[order[0]]}
        inputs, order = {"I0": inputs["I0"]}, order[:1]
    elif rng.random() < 0.5:
        inputs["R"] = {"random": {"shape": [2]}}
        operations.append({"id": "plain", "op": "scale", "inputs": ["R"], "repeat": 1, "warmup": 0})
    entries = {"parameters": parameters, "inputs": inputs, "operations": operations}
    job = harness.write_job(folder / "job.yaml", device="cpu", **entries)
    harness.tilerun("run", job, "-o", folder / "results.h5", expect=harness.OK)
    table, rows, lines = as_read(folder / "results.h5")

    at = table.dtype.names.index("parameters") + 1
    assert [n for n in table.dtype.names if n.startswith("p_")] == [f"p_{n}" for n in order]
    assert list(table.dtype.names[at : at + len(order)]) == [f"p_{n}" for n in order]
    for name in order:
        numbers = [value_of(v) for v in parameters[name]]
        integral = all(isinstance(n, int) and -(2**63) <= n < 2**63 for n in numbers)
        dtype = table.dtype[f"p_{name}"]
        in_all = all(name in dict(p.split("=", 1) for p in r["parameters"].split(",") if p) for r in rows)
        told = all(integral and in_all or isinstance(n, float) or int(float(n)) == n for n in numbers if n is not None)
        if None in numbers or not told:  # float64 would round an integer
            assert dtype.kind == "S" and h5py.check_string_dtype(dtype).encoding == "utf-8"
        else:
            assert dtype == (np.int64 if integral and in_all else np.float64), (name, numbers, dtype)
        for row, from_json, line in zip(table, rows, lines):
            label = dict(p.split("=", 1) for p in row["parameters"].decode().split(",") if p)
            stored, value = row[f"p_{name}"], from_json[f"p_{name}"]
            if name not in label:
                assert value is None and line[f"p_{name}"] == ""
                assert stored == b"" if dtype.kind == "S" else np.isnan(stored)
            elif dtype.kind == "S":
                assert stored.decode() == value == line[f"p_{name}"] == label[name]
            else:
                exact = int if integral else float
                assert value == exact(line[f"p_{name}"]) == exact(value_of(label[name]))
                assert stored == (value if dtype == np.int64 else float(value))


def test_large_integers_are_compared_as_such(folder, rng):
    base = int(rng.integers(2**54, 2**62))
    seeds = [base + int(n) for n in rng.permutation(40)[:6]]
    results = harness.run_job(
        folder, device="cpu", parameters={"seed": seeds}, defaults={"repeat": 1, "warmup": 0},
        inputs={"A": {"random": {"shape": [2], "seed": "$seed"}}},
        operations=[{"id": "o", "op": "scale", "inputs": ["A"]}],
    )  # fmt: skip

    def shown(*arguments):
        done = harness.tilerun("show", "--json", results.path, *arguments)
        return [row["p_seed"] for row in json.loads(done.stdout)]

    assert shown("--sort", "seed") == sorted(seeds) and shown("--sort", "-seed") == sorted(seeds, reverse=True)
    for at in seeds[0], seeds[1] + 1:
        for sign, holds in {"=": int.__eq__, "!=": int.__ne__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__}.items():
            assert shown("--where", f"seed{sign}{at}") == [seed for seed in seeds if holds(seed, at)], (seeds, sign, at)


def test_values_are_found_as_the_job_has_them(folder, rng):
    """Labels have other characters in place of some; both forms are found."""
    values = ["d" + "".join(rng.choice(list("ab/,_-"), 6)) + end for end in ["x", "µ", "集", "行列"]]
    with h5py.File(folder / "x.h5", "w") as file:
        for value in values:
            file[value] = np.zeros(2)
    results = harness.run_job(
        folder, device="cpu", parameters={"u": values}, defaults={"repeat": 1, "warmup": 0},
        inputs={"A": {"file": "x.h5", "dataset": "$u"}}, operations=[{"id": "o", "op": "scale", "inputs": ["A"]}],
    )  # fmt: skip
    for value in values:
        label = value.replace("/", "_").replace(",", "_")
        for wanted in {value, label}:
            done = harness.tilerun("show", "--json", results.path, "--where", f"u={wanted}")
            assert [row["p_u"] for row in json.loads(done.stdout)] == [label], done.stderr


def test_no_sweep_no_columns(folder):
    results = harness.run_job(
        folder, device="cpu", parameters={"n": 3}, inputs={"A": {"random": {"shape": ["$n"]}}},
        operations=[{"id": "o", "op": "scale", "inputs": ["A"], "repeat": 1}],
    )  # fmt: skip
    assert not [name for name in results.rows[0] if name.startswith("p_")]


def test_rows_that_did_not_run_and_rows_kept(folder):
    """Skipped rows have their columns, and a resumed job has the same ones as one that went through."""
    job = {"device": "cpu", "parameters": {"n": [3, 5], "s": [1, 2]},
           "inputs": {"A": {"random": {"shape": ["$n", "$n"]}}},
           "defaults": {"repeat": 1, "warmup": 0}, "operations": [
               {"id": "p", "op": "matmul", "inputs": ["A", "A"], "variants": ["cpu", "naive"]},
               {"id": "q", "op": "scale", "inputs": ["p"], "alpha": "$s"}]}  # fmt: skip
    path, out = harness.write_job(folder / "job.yaml", **job), folder / "out.h5"
    assert harness.tilerun("run", path, "-o", out, "--only", "p").returncode == harness.OK
    with h5py.File(out) as file:
        assert [n for n in file["runs"].dtype.names if n.startswith("p_")] == ["p_n"]
    done = harness.tilerun("run", path, "-o", out, "--resume")
    assert done.returncode == harness.OK and "(kept from before)" in done.stderr
    with h5py.File(out) as file:
        table = file["runs"][:]
    assert [int(n) for n in table["p_n"][table["operation"] == b"p"]] == [3, 3, 5, 5]
    assert table.dtype["p_n"] == np.int64 and table.dtype["p_s"] == np.float64
    assert sorted(table["p_s"][table["operation"] == b"q"]) == [1, 1, 2, 2] and np.isnan(table["p_s"][0])
