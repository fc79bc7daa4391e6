"""Every registered variant x every type that it takes x edge shapes x options, against NumPy on fresh data."""

import functools
import os
import re
import warnings

import numpy as np
import pytest

import h5py
import harness
import referee
import suites

VARIANTS = [variant for variant in harness.list_variants() if not variant.limit and variant.op != "map"]  # test_map.py
# The vendor's: they refuse what they have no entry for, and their NaNs follow rules of their own. What they do give is
# verified like everybody's.
BASELINES = {"blas", "cub", "cublas"}
SEED = int.from_bytes(os.urandom(4), "little")


def parameters():
    """One test for each (variant with its choices, reduce operator, type), so that skips are counted honestly."""
    for variant in VARIANTS:
        operators = variant.operators if variant.op == "reduce" else [None]
        for label in harness.variant_labels(variant):
            for operator in operators:
                for dtype in variant.dtypes:
                    words = [variant.op, label, operator, dtype]
                    group = [variant.op, operator, dtype]  # whose results they share
                    mark = pytest.mark.xdist_group("-".join(filter(None, group)))
                    yield pytest.param(variant, label, operator, dtype, id="-".join(filter(None, words)), marks=mark)


def registered_for_cuda():
    text = (harness.ROOT / "kernels/core/registry.def").read_text()
    return re.findall(r"^CUDA\(([a-z]+)_(\w+)\)", text, re.M)


@pytest.fixture(scope="module")
def suite(memory_folder):
    """The cases and results of one operation and type by all its variants, computed once."""

    @functools.cache
    def run(op, operator, dtype):
        able = [v for v in VARIANTS if v.op == op and dtype in v.dtypes and operator in (None, *v.operators)]
        folder = memory_folder / f"{op}-{operator}-{dtype}"
        folder.mkdir()
        rng = np.random.default_rng(SEED)
        return suites.run_suite(folder, op, able, dtype, operator, rng=rng, expect=(harness.OK, harness.RUN))

    return run


@pytest.mark.parametrize("variant, label, operator, dtype", list(parameters()))
def test_agrees_with_numpy(suite, variant, label, operator, dtype):
    cases, results = suite(variant.op, operator, dtype)
    rows = {row["operation"]: row for row in results.rows if row["variant"] == label}
    if not variant.runs_here:
        assert {row["status"] for row in rows.values()} == {"skipped"}
        assert all("GPU" in row["message"] or "compute capability" in row["message"] for row in rows.values())
        pytest.skip("no GPU that can run it")
    refused = [row["message"] for row in rows.values() if row["status"] == "skipped"]
    if len(refused) == len(rows):
        pytest.skip(f"it refuses: {refused[0]}")
    if refused:
        warnings.warn(f"{label} refuses {len(refused)} of {len(rows)} cases: {sorted(set(refused))}", stacklevel=1)
    complaints = []
    for case in cases:
        row = rows[case.id]
        if row["status"] == "skipped":
            continue
        if variant.name in BASELINES and row["status"] in ("failed", "wrong"):
            continue
        if row["status"] != "ok":
            complaints.append(f"{case.id} {case.options}: {row['status']}: {row['message']}")
            continue
        stored = results.read(f"variants/{case.id}/{label}")
        bound = None if variant.name in BASELINES and case.bound is referee.BITS else case.bound
        if variant.accuracy != "full":
            bound = bound + referee.CLASS_ERROR[variant.accuracy] * case.magnitude
        if wrong := referee.difference(stored, case.dtype, case.value, bound):
            complaints.append(f"{case.id} {case.options} {[x.shape for x in case.inputs]}: {wrong}")
    assert any(row["status"] == "ok" for row in rows.values()), f"{variant.name} does nothing of this"
    assert not complaints, f"seed {SEED}\n" + "\n".join(complaints)


@pytest.mark.parametrize("op, name", registered_for_cuda())
def test_is_known_without_cuda(folder, op, name):
    """Every GPU variant is listed; a build without CUDA records it as skipped, and the CPU does the work."""
    if "no CUDA" not in harness.quiet("--version"):
        return
    said = re.search(rf"^  {name} .*\n +types: ([\w ]+)(?:; operators: (\w+))?", harness.quiet("list", op), re.M)
    options = {"operator": said[2] or "sum", "axis": "all"} if op == "reduce" else {}
    options |= {"expression": "x * 2"} if op == "map" else {}
    types = said[1].split()
    dtype = types[0] if types != ["all"] else "float32"
    results = harness.run_job(
        folder,
        inputs={"x": {"random": {"shape": [3, 3], "dtype": dtype}}},
        operations=[
            {"id": "y", "op": op, "inputs": ["x"] * (2 if op == "matmul" else 1), "variants": [name], **options}
        ],
    )
    row = results.row("y", name)
    assert row["status"] == "skipped" and "CUDA" in row["message"]
    assert results.row("y", "cpu" if op in ("scale", "matmul", "map") else "blocked")["status"] == "ok"
    pytest.skip("this build has no CUDA")


@pytest.mark.parametrize("operator", ["argmin", "argmax", "min", "max"])
def test_extreme_of_nothing_is_refused(folder, operator):
    job = harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"random": {"shape": [0, 4]}}},
        operations=[{"id": "y", "op": "reduce", "inputs": ["x"], "operator": operator, "axis": 0}],
    )
    done = harness.tilerun("check", job, expect=harness.USAGE)
    assert re.search(rf"job.yaml:\d+:\d+: y: .*{operator}.*(empty|nothing|zero|0)", done.stderr), done.stderr


def stored(folder, x):
    """The entry of an input that is stored in data.h5."""
    harness.write_arrays(folder / "data.h5", x=x)
    return {"file": "data.h5", "dataset": "x"}


@pytest.mark.parametrize("operator", ["argmin", "argmax"])
def test_all_axes_of_a_position_may_be_listed(folder, rng, operator):
    x = rng.normal(size=(4, 5))
    results = harness.run_job(
        folder, inputs={"x": stored(folder, x)},
        operations=[{"id": "y", "op": "reduce", "inputs": ["x"], "operator": operator, "axis": [1, 0]}],
    )  # fmt: skip
    assert results.output("y") == getattr(np, operator)(x)


@pytest.mark.parametrize("operator", ["var", "std"])
def test_panels_have_the_bits_of_the_whole(folder, rng, operator):
    """Of narrow panels and short rows, too."""
    operations = [{"id": f"axis{axis}", "op": "reduce", "inputs": ["x"], "operator": operator, "axis": axis,
                   "variants": ["blocked"]} for axis in (0, 1)]  # fmt: skip
    inputs, found = {"x": stored(folder, rng.normal(size=(300, 130)))}, []
    for tiles in ("always", "never"):
        results = harness.run_job(folder, inputs=inputs, operations=operations, device="cpu",
                                  defaults={"warmup": 0, "repeat": 1, "keep_tiles": tiles})  # fmt: skip
        found.append({name: value.tobytes() for name, value in results.everything().items()})
        results.path.unlink()
    assert found[0] == found[1]


def test_referee_notices_a_wrong_element(rng):
    """The referee itself: one wrong element, a NaN, an infinity and a wrong type are all noticed."""
    x = referee.random_values(rng, (9, 9), "float32")
    value, bound = referee.matmul(x, x, "float32")
    right = referee.round_to(value, "float32")
    assert referee.difference(right, "float32", value, bound) is None
    for wrong in (right[4, 4] + np.float32(1e-4), np.nan, np.inf):
        hurt = right.copy()
        hurt[4, 4] = wrong
        assert "[4, 4]" in referee.difference(hurt, "float32", value, bound)
    assert "type" in referee.difference(right.astype("float64"), "float32", value, bound)
    assert "shape" in referee.difference(right[:8], "float32", value, bound)


@pytest.mark.parametrize("store", ["all", "first", "none"])
@pytest.mark.parametrize("op", ["matmul", "reduce", "transpose", "scale"])
def test_auto_beside_what_it_becomes(folder, op, store):
    """Two runs of one variant: each has a name, a part and a row of its own, also when the job is resumed."""
    able = [it for it in harness.list_variants() if it.op == op and it.runs_here and not it.limit]
    names = [it.name for it in able if "float32" in it.dtypes and (op != "reduce" or "sum" in it.operators)]
    job = {
        "inputs": {"x": {"random": {"shape": [9, 9]}}},
        "operations": [
            {
                "id": "y", "op": op, "inputs": ["x"] * (2 if op == "matmul" else 1), "variants": ["auto", *names],
                "store": store, **({"operator": "sum", "axis": 1} if op == "reduce" else {}),
            }
        ],
        "defaults": {"repeat": 1, "warmup": 0},
    }  # fmt: skip
    results = harness.run_job(folder, **job)
    labels = [row["variant"] for row in results.rows]
    chosen = [label.removeprefix("auto=") for label in labels if label not in names]
    assert len(labels) == len(set(labels)) == len(names) + 1 and len(chosen) == 1 and chosen[0] in names
    with h5py.File(results.path) as file:
        stored = list(file["variants/y"]) if store == "all" else []
        assert sorted(stored) == (sorted(labels) if store == "all" else [])
        assert ("outputs/y" in file) == (store != "none")
    again = harness.tilerun("run", folder / "job.yaml", "-o", results.path, "--resume")
    assert again.returncode == harness.OK and "nothing to do" in again.stderr


def test_a_parameter_that_a_source_does_not_use_is_named(tmp_path):
    """A mistyped one has no effect: its values would be compared with themselves. A comment is no use."""
    harness.tilerun("new-kernel", "transpose", tmp_path / "mine.c", expect=harness.OK)
    (tmp_path / "mine.c").open("a").write("/* TIEL */\nconst int tile = TILE;\n")
    mine = {"source": "mine.c", "tile": 8, "tiel": [8, 16], "threads": [1]}
    job = harness.write_job(
        tmp_path / "job.yaml",
        inputs={"x": {"random": {"shape": [4, 3]}}},
        operations=[{"id": "t", "op": "transpose", "inputs": ["x"], "variants": [mine]}],
    )
    done = harness.tilerun("run", job, "--once", "--allow-source", cwd=tmp_path, expect=harness.OK)
    lines = [line for line in done.stderr.splitlines() if "does not use" in line]
    assert len(lines) == 1 and "'tiel'" in lines[0], done.stderr
