"""`blas`: this machine's library as a baseline, which is opened at run time and may be missing."""

import os
import re
import subprocess

import h5py
import pytest

import harness
from faults import build_shim

PRODUCT = {"id": "c", "op": "matmul", "inputs": ["a", "b"], "variants": ["blas", "blocked"]}


def inputs(rng, dtype):
    m, k, n = (int(x) for x in rng.integers(1, 300, 3))
    return {"a": {"random": {"shape": [m, k], "dtype": dtype}}, "b": {"random": {"shape": [k, n], "dtype": dtype}}}


def test_it_is_timed_beside_ours(folder, rng):
    if not any(v.name == "blas" and v.runs_here for v in harness.list_variants()):
        pytest.skip("no BLAS is installed here")
    for dtype in ("float32", "float64"):
        alpha = float(rng.choice([1, 0.3, -2]))
        job = {"inputs": inputs(rng, dtype), "operations": [PRODUCT | {"alpha": alpha}]}
        results = harness.run_job(folder, device="cpu", arguments=["--overwrite"], **job)
        assert [row["status"] for row in results.rows] == ["ok", "ok"], results.rows
        shown = harness.tilerun("show", results.path)
        assert re.search("x (reference )?blas", shown.stdout.splitlines()[0]), shown.stdout
        assert re.search(r" blas .* 1\.00x ", shown.stdout), shown.stdout


def test_auto_does_not_take_it(folder, rng):
    job = {"inputs": inputs(rng, "float64"), "operations": [PRODUCT | {"variants": ["auto"]}]}
    results = harness.run_job(folder, device="cpu", **job)
    assert results.rows[0]["variant"] in ("blocked", "cpu")  # cpu where a side is very short


def test_an_empty_name_is_none(monkeypatch):
    plain = harness.tilerun("list", "matmul").stdout
    monkeypatch.setenv("TILERUN_BLAS", "")
    assert harness.tilerun("list", "matmul").stdout == plain


@pytest.mark.parametrize("library", ["/nowhere/libblas.so", "libm.so.6"])
def test_without_a_library_the_others_run(folder, rng, monkeypatch, library):
    monkeypatch.setenv("TILERUN_BLAS", library)
    why = "the library that TILERUN_BLAS names is no BLAS"
    if library.startswith("/nowhere"):
        why = f"TILERUN_BLAS cannot be opened: {library}: cannot open shared object file: No such file or directory"
    listed = harness.tilerun("list", "matmul").stdout
    assert re.search(f"^  blas .*\n.*\n +cannot run here: {why}$", listed, re.M), listed
    results = harness.run_job(folder, device="cpu", inputs=inputs(rng, "float32"), operations=[PRODUCT])
    assert [(row["variant"], row["status"]) for row in results.rows] == [("blas", "skipped"), ("blocked", "ok")]
    assert results.rows[0]["message"] == why


@pytest.mark.parametrize("setter", ["openblas_set_num_threads", "MKL_Set_Num_Threads", "bli_thread_set_num_threads"])
def test_it_is_called_as_fortran_calls_it(folder, rng, monkeypatch, setter):
    """With as many threads as our own variants, whole and in tiles, and each operand as it is and transposed."""
    library = build_shim(folder, "blas_shim", "-DSGEMM", "-DDGEMM", f"-DSETTER={setter}")
    monkeypatch.setenv("TILERUN_BLAS", str(library))
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    processors = len(os.sched_getaffinity(0))
    for dtype in ("float32", "float64"):
        threads = folder / f"threads-{dtype}"
        monkeypatch.setenv("BLAS_THREADS", str(threads))
        monkeypatch.setenv("OMP_NUM_THREADS", str(count := int(rng.integers(1, processors + 1))))
        shapes = {"a": [100, 150], "at": [150, 100], "b": [150, 90], "bt": [90, 150]}
        job = {
            "inputs": {name: {"random": {"shape": shape, "dtype": dtype}} for name, shape in shapes.items()},
            "memory": str(rng.choice(["64KiB", "1GiB"])),
            "operations": [
                {
                    "id": a + b, "op": "matmul", "inputs": [a, b], "variants": ["blas"],
                    "alpha": float(rng.choice([1, 3])), "transpose_a": a == "at", "transpose_b": b == "bt",
                }
                for a in ("a", "at") for b in ("b", "bt")
            ],
        }  # fmt: skip
        results = harness.run_job(folder, device="cpu", arguments=["--overwrite"], **job)
        assert [row["status"] for row in results.rows] == ["ok"] * 4, results.rows
        assert int(threads.read_text()) == count


def test_on_drawn_problems(folder, rng, monkeypatch):
    """As all variants are tried, of which it is one where a library is there."""
    program = harness.TILERUN.parent / "tests/test_kernels_random"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    monkeypatch.setenv("TILERUN_BLAS", str(build_shim(folder, "blas_shim", "-DSGEMM", "-DDGEMM")))
    monkeypatch.setenv("TILERUN_CASE", "cpu/matmul/")
    monkeypatch.setenv("TILERUN_CASES", "100")
    monkeypatch.setenv("TILERUN_SEED", str(rng.integers(1 << 30)))
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0 and "of 3 variants" in done.stdout, done.stdout


@pytest.mark.parametrize("types", [["S"], ["D"], []])
def test_a_library_has_products_of_both_types(folder, monkeypatch, types):
    monkeypatch.setenv("TILERUN_BLAS", str(build_shim(folder, "blas_shim", *(f"-D{letter}GEMM" for letter in types))))
    listed = harness.tilerun("list", "matmul").stdout
    why = "the library that TILERUN_BLAS names is no BLAS"
    assert re.search(f"^  blas .*\n.*\n +cannot run here: {why}$", listed, re.M), listed


def test_the_library_is_named(folder, rng):
    """In `list`, in the results file, and where two files differ in it; never for a job that does not call it."""
    if not any(v.name == "blas" and v.runs_here for v in harness.list_variants()):
        pytest.skip("no BLAS is installed here")
    listed = re.search(r"^  blas .*\n.*\n.*\n +library: (.*)$", harness.tilerun("list", "matmul").stdout, re.M)[1]
    job = {"inputs": inputs(rng, "float64"), "device": "cpu"}
    results = harness.run_job(folder, operations=[PRODUCT], **job)
    with h5py.File(results.path) as file:
        assert file["environment"].attrs["library_blas"] == listed and os.path.exists(listed.split(", ")[-1])
    without = harness.run_job(folder, operations=[PRODUCT | {"variants": ["blocked"]}], arguments=["--overwrite"], **job)
    with h5py.File(without.path) as file:
        assert not any(name.startswith("library") for name in file["environment"].attrs)


def test_a_reference_library_is_called_that(folder, rng, monkeypatch):
    """The shim has no call for its version, as netlib's library has none."""
    library = build_shim(folder, "blas_shim", "-DSGEMM", "-DDGEMM", "-DSETTER=nothing")
    monkeypatch.setenv("TILERUN_BLAS", str(library))
    assert "library: reference BLAS (slow), " in harness.tilerun("list", "matmul").stdout
    results = harness.run_job(folder, device="cpu", inputs=inputs(rng, "float64"), operations=[PRODUCT])
    if results.rows[0]["status"] == "ok":
        assert "x reference blas" in harness.tilerun("show", results.path).stdout.splitlines()[0]
