"""Working sets larger than `memory`: the same results, whatever the budget, the shape and the variant."""

import re

import h5py
import numpy as np
import pytest

import harness
import referee
from suites import run_suite

VARIANTS = harness.list_variants()
BUDGETS = ["64KiB", "100kB", "1MiB"]


def able(op, dtype, operator=None):
    """But for CUB, which takes an array whole or not at all."""
    return [
        v
        for v in VARIANTS
        if v.op == op and v.runs_here and dtype in v.dtypes and operator in (None, *v.operators)
        if v.accuracy == "full" and not v.limit and v.name != "cub"
    ]


class Job:
    """One job with big and ragged inputs, run in memory and under budgets."""

    def __init__(self, folder, rng, dtype="float32"):
        self.folder, self.rng, self.dtype = folder, rng, dtype
        self.inputs, self.operations, self.truth = {}, [], {}

    def input(self, name, *shape):
        values = referee.random_values(self.rng, shape, self.dtype)
        with h5py.File(self.folder / "inputs.h5", "a") as file:
            referee.write_dataset(file, name, values, self.dtype)
        self.inputs[name] = {"file": "inputs.h5", "dataset": name}
        return values

    def operation(self, name, op, inputs, truth, dtype=None, **options):
        variants = harness.variant_entries(able(op, self.dtype, options.get("operator")))
        self.operations.append({"id": name, "op": op, "inputs": inputs, "variants": variants, **options})
        self.truth[name] = (dtype or self.dtype, *truth)

    def run(self, budget=None):
        (self.folder / "results.h5").unlink(missing_ok=True)
        return harness.run_job(
            self.folder,
            arguments=["--memory", budget] if budget else [],
            sync=False,
            inputs=self.inputs,
            defaults={"warmup": 0, "repeat": 1, "store": "all"},
            operations=self.operations,
        )

    def check(self, results):
        assert {row["status"] for row in results.rows} - {"skipped"} == {"ok"}  # skipped: a shape it refuses
        for name in harness.dataset_names(h5py.File(results.path), "variants"):
            wrong = referee.difference(results.read(name), *self.truth[name.split("/")[1]])
            assert wrong is None, f"{name}: {wrong}"


def steps(job, budget):
    """How many steps each run takes, as `tilerun plan --detail` says."""
    done = harness.tilerun("plan", "--detail", job.folder / "job.yaml", "--memory", budget, expect=harness.OK)
    return [int(n) for n in re.findall(r"(\d+) steps?$", done.stdout, re.M)]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_matmul(folder, rng, budget, dtype):
    job = Job(folder, rng, dtype)
    a, b = job.input("a", 211, 503), job.input("b", 503, 157)
    s, t = job.input("s", 3, 101, 307), job.input("t", 3, 89, 307)
    row, column = job.input("row", 1, 50021), job.input("column", 50021, 1)
    job.operation("product", "matmul", ["a", "b"], referee.matmul(a, b, dtype))
    job.operation(
        "flipped",
        "matmul",
        ["b", "a"],
        referee.matmul(b, a, dtype, True, True, -2.0),
        transpose_a=True,
        transpose_b=True,
        alpha=-2,
    )
    job.operation("stack", "matmul", ["s", "t"], referee.matmul(s, t, dtype, False, True), transpose_b=True)
    job.operation("dot", "matmul", ["row", "column"], referee.matmul(row, column, dtype))
    job.check(job.run(budget))
    if budget != "1MiB":
        assert min(steps(job, budget)) > 1, "everything fits: the budget tests nothing"


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("operator", referee.OPERATORS)
def test_reduce(folder, rng, budget, operator):
    dtype = "float32"
    job = Job(folder, rng, dtype)
    arrays = {
        name: job.input(name, *shape)
        for name, shape in {
            "m": (607, 523),
            "v": (300007,),
            "s": (5, 211, 307),
            "tall": (100003, 3),
            "wide": (3, 100003),
        }.items()
    }
    for name, x in arrays.items():
        for axis in [*range(x.ndim), "all"]:
            truth = referee.reduce(x, dtype, operator, axis)
            job.operation(
                f"{name}_{axis}",
                "reduce",
                [name],
                truth,
                referee.result_type(operator, dtype),
                operator=operator,
                axis=axis,
            )
    job.check(job.run(budget))
    if budget != "1MiB":
        assert min(steps(job, budget)) > 1, "everything fits: the budget tests nothing"


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
def test_transpose_and_scale(folder, rng, budget, dtype):
    job = Job(folder, rng, dtype)
    for name, shape in {"m": (607, 523), "s": (5, 211, 307), "tall": (100003, 3), "wide": (2, 150001)}.items():
        x = job.input(name, *shape)
        job.operation(f"{name}_t", "transpose", [name], (x.swapaxes(-1, -2), referee.BITS))
        job.operation(f"{name}_s", "scale", [name], referee.scale(x, dtype, 3, -2), alpha=3, beta=-2)
    job.check(job.run(budget))


def test_budget_does_not_change_bits(folder, rng):
    """Where no sum is split, tiles must not show: integers, transposes and scales are the same to the last bit."""
    job = Job(folder, rng, "int64")
    x = job.input("x", 401, 777)
    job.operation("t", "transpose", ["x"], (x.T, referee.BITS))
    job.operation("total", "reduce", ["t"], referee.reduce(x, "int64", "sum", "all"), operator="sum", axis="all")
    job.operation("last", "reduce", ["x"], referee.reduce(x, "int64", "argmax", 1), operator="argmax", axis=1)
    results = [job.run(budget).everything() for budget in [None, *BUDGETS]]
    for other in results[1:]:
        stored = [{name for name in result if name.startswith("outputs")} for result in (other, results[0])]
        assert stored[0] == stored[1]
        for name in other.keys() & results[0].keys():  # some variants take parts alone, or the whole alone
            np.testing.assert_array_equal(other[name], results[0][name], err_msg=name)


def test_chain(folder, rng):
    """Results much larger than memory, read by what follows."""
    job = Job(folder, rng)
    a, b = job.input("a", 301, 257), job.input("b", 257, 409)
    product, bound = referee.matmul(a, b, "float32")
    job.operation("product", "matmul", ["a", "b"], (product, bound))
    job.operation("flipped", "transpose", ["product"], (product.T, bound.T))
    job.operation("double", "scale", ["flipped"], (2 * product.T, 2 * bound.T), alpha=2)
    sums, more = referee.reduce(product.T.astype(np.float32), "float32", "sum", 0)
    job.operation("sums", "reduce", ["flipped"], (sums, more + bound.T.sum(axis=0) * 2), operator="sum", axis=0)
    for budget in BUDGETS:
        job.check(job.run(budget))


def test_one_pass_hands_on_its_output(folder, rng):
    """Where a run is one pass, its tiles may take turns in one output buffer, which then is no copy of the output for
    the next operation to read."""
    inputs, operations = {}, []
    shapes = [(512, 64), (256, 32), (320, 32), (512, 65), *rng.integers(1, 700, (4, 2)).tolist()]
    for i, (m, n) in enumerate(shapes):
        whole = {"distribution": "integer", "low": -4, "high": 4}  # sums of such numbers are exact
        inputs[f"a{i}"] = {"random": {"shape": [m, m], "seed": i, **whole}}
        inputs[f"b{i}"] = {"random": {"shape": [m, n], "seed": i, **whole}}
        operations += [
            {"id": f"product{i}", "op": "matmul", "inputs": [f"a{i}", f"b{i}"]},
            {"id": f"flipped{i}", "op": "transpose", "inputs": [f"product{i}"]},
            {"id": f"sums{i}", "op": "reduce", "inputs": [f"flipped{i}"], "operator": "sum", "axis": 1},
        ]
    defaults = {"warmup": 0, "repeat": 1, "verify": "none"}  # what was stored is looked at here
    for device in ("cpu", "auto"):
        job = {"device": device, "inputs": inputs, "defaults": defaults, "operations": operations}
        results = harness.run_job(folder, arguments=["--overwrite"], **job)
        for i in range(len(shapes)):
            product = results.output(f"product{i}")
            assert product.any() or product.size < 10
            assert np.array_equal(results.output(f"flipped{i}"), product.T), f"{device}: {shapes[i]}"
            assert np.array_equal(results.output(f"sums{i}"), product.sum(axis=0)), f"{device}: {shapes[i]}"


@pytest.mark.parametrize("op, dtype", [("matmul", "float32"), ("transpose", "uint16"), ("scale", "float16")])
def test_edge_shapes_under_the_least_memory(folder, rng, op, dtype):
    cases, results = run_suite(folder, op, able(op, dtype), dtype, arguments=["--memory", "64KiB"], rng=rng)
    for case in cases:
        for row in (row for row in results.rows if row["operation"] == case.id):
            assert row["status"] in ("ok", "skipped"), row
            if row["status"] == "skipped":
                continue
            stored = results.read(f"variants/{case.id}/{row['variant']}")
            assert referee.difference(stored, case.dtype, case.value, case.bound) is None, case.id


def test_random_input_larger_than_memory(folder):
    job = {
        "inputs": {"x": {"random": {"shape": [1000, 2000], "distribution": "index", "dtype": "int64"}}},
        "operations": [{"id": "y", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": 0, "repeat": 1}],
    }
    results = harness.run_job(folder, arguments=["--memory", "64KiB"], **job)
    expected = np.arange(2_000_000).reshape(1000, 2000).sum(axis=0)
    np.testing.assert_array_equal(results.output("y"), expected)


@pytest.mark.parametrize("repeat", [1, 2])
def test_runs_read_an_input_once(folder, rng, repeat):
    """The runs of a job share what the first of them has read, whether they are timed or not."""
    x = referee.random_values(rng, (int(rng.integers(40, 90)), int(rng.integers(40, 90))), "float64")
    harness.write_arrays(folder / "x.h5", x=x)
    names = [f"y{i}" for i in range(3)]
    results = harness.run_job(
        folder,
        inputs={"x": {"file": "x.h5", "dataset": "x"}},
        operations=[
            {"id": name, "op": "scale", "inputs": ["x"], "alpha": i + 2.0, "variants": ["cpu"]}
            for i, name in enumerate(names)
        ],
        defaults={"warmup": 0, "repeat": repeat},
    )
    for i, name in enumerate(names):
        assert np.array_equal(results.output(name), (i + 2) * x)
    assert [results.row(name)["file_bytes"] for name in names] == [x.nbytes, 0, 0]
