"""`tilerun reproduce`: the same job on the same inputs; what has changed is named. Where times would matter the
original's samples are edited, so that no verdict depends on how busy the machine is."""

import os
import shutil
import signal
import time

import h5py
import numpy as np
import pytest

import harness
import results_edit as edit
from harness import DEVICE, INTERRUPTED, IO, OK, RUN, USAGE

ENVIRONMENT = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
SLOW, FAST = np.full(10, 1e25), np.full(10, 1e-25)  # what no busy machine reaches, whatever its samples' spread


@pytest.fixture(scope="module")
def made(memory_folder):
    """A folder with jobs/job.yaml, data/x.h5 and results/run.h5, whose samples say that all was slow."""
    folder = memory_folder / "reproduce"
    for name in ["jobs", "data", "results"]:
        (folder / name).mkdir(parents=True)
    harness.write_arrays(folder / "data/x.h5", x=np.random.default_rng(1).normal(size=(150, 150)).astype("f4"))
    path = harness.write_job(
        folder / "jobs/job.yaml",
        device="cpu",
        parameters={"n": [16, 24], "beta": 0.5},
        inputs={"X": {"file": "../data/x.h5", "dataset": "/x"}, "R": {"random": {"shape": ["$n", "$n"], "seed": 3}}},
        defaults={"warmup": 0, "repeat": 6},
        operations=[
            {"id": "big", "op": "matmul", "inputs": ["X", "X"], "variants": ["cpu", "naive"], "repeat": 20},
            {"id": "product", "op": "matmul", "inputs": ["R", "R"], "variants": ["cpu"]},
            {"id": "y", "op": "scale", "inputs": ["product"], "beta": "$beta", "variants": ["cpu"]},
        ],
    )
    harness.tilerun("run", path, "-o", folder / "results/run.h5", "--set", "beta=2", env=ENVIRONMENT, expect=OK)
    edit.set_all_samples(folder / "results/run.h5", lambda run: SLOW)
    return folder


@pytest.fixture
def there(made, folder):
    """A copy, at another place. The original's inputs stay where they are recorded."""
    shutil.copytree(made, folder / "copy")
    return folder / "copy"


@pytest.fixture
def run(there):
    return there / "results/run.h5"


@pytest.fixture
def moved(there, run):
    """The same, with inputs that are not where they are recorded."""
    edit.set_attribute(run, "inputs/X", "file", "/absent/data/x.h5")
    return there


def reproduce(*arguments, expect=OK, **options):
    options.setdefault("env", ENVIRONMENT)
    return harness.tilerun("reproduce", *arguments, expect=expect, **options)


def last_line(done):
    return done.stdout.splitlines()[-1]


def test_passes(run):
    before, bytes_before = sorted(run.parent.iterdir()), run.read_bytes()
    done = reproduce(run)
    assert last_line(done) == "outputs: 5 of 5 identical; times: 0 same, 0 slower, 5 faster"
    assert "no difference is recorded" in done.stdout and "1 run skipped in both: " in done.stdout
    assert sorted(run.parent.iterdir()) == before and run.read_bytes() == bytes_before


def test_keeps_what_was_set(run, folder):
    """The sweep, and beta from the command line."""
    reproduce(run, "-o", folder / "kept.h5")
    kept, original = harness.Results(folder / "kept.h5"), harness.Results(run)
    names = [[(row["operation"], row["variant"], row["parameters"]) for row in of.rows] for of in (kept, original)]
    assert names[0] == names[1]
    assert all(np.array_equal(kept.everything()[name], value) for name, value in original.everything().items())
    compared = harness.tilerun("compare", run, folder / "kept.h5")
    assert compared.returncode == OK and "5 faster" in compared.stdout
    edit.set_all_samples(folder / "kept.h5", lambda run: SLOW)
    again = reproduce(folder / "kept.h5")
    assert "outputs: 5 of 5 identical" in last_line(again)


def test_only_what_ran(there, folder):
    harness.tilerun("run", there / "jobs/job.yaml", "-o", folder / "only.h5", "--only", "y", "--set", "n=16",
                    "--repeat", "7", "--device", "cpu", env=ENVIRONMENT)  # fmt: skip
    edit.set_all_samples(folder / "only.h5", lambda run: SLOW)
    reproduce(folder / "only.h5", "-o", folder / "kept.h5")
    rows = harness.Results(folder / "kept.h5").rows
    assert [row["operation"] for row in rows] == ["product", "y"] and rows[0]["repeats"] == 7
    harness.tilerun("run", there / "jobs/job.yaml", "-o", folder / "one.h5", "--only", "big:cpu", env=ENVIRONMENT)
    edit.set_all_samples(folder / "one.h5", lambda run: SLOW)
    reproduce(folder / "one.h5", "-o", folder / "kept_one.h5")
    assert [row["variant"] for row in harness.Results(folder / "kept_one.h5").rows] == ["cpu"]


@pytest.mark.parametrize("only", ["b:blocked", "b:blas", "b:blas,threads=1", "b:blas,c", "b"])
def test_variants_that_a_sweep_does_not_serve(folder, only):
    """The parameters of the variants that --only leaves out stay in the labels; a variant's `where` stays, too."""
    variants = [{"name": "tiled", "tile": "$t"}, "blocked"]
    variants += [{"name": "blas", "threads": [1, 2], "where": "$threads * 40 < $n + 20"}]
    harness.write_job(folder / "job.yaml", device="cpu", parameters={"t": [8, 16], "n": [32, 80]},
                      defaults={"warmup": 0, "repeat": 1},
                      inputs={"A": {"random": {"shape": ["$n", 32]}}, "B": {"random": {"shape": [32, 8]}}},
                      operations=[{"id": "b", "op": "matmul", "inputs": ["A", "B"], "variants": variants},
                                  {"id": "c", "op": "transpose", "inputs": ["b"]}])  # fmt: skip
    harness.run_folder(folder, "--only", only)
    edit.set_all_samples(folder / "out.h5", lambda run: SLOW)
    reproduce(folder / "out.h5", "-o", folder / "kept.h5")
    names = [[(row["operation"], row["variant"], row["parameters"]) for row in harness.Results(folder / name).rows]
             for name in ("out.h5", "kept.h5")]  # fmt: skip
    assert names[0] == names[1] and "t=8,n=32" in names[0][0]


@pytest.mark.parametrize("arguments, name", [(["-o", "kept.h5"], "kept.h5"), (["--keep"], "run.reproduced.h5")])
def test_keeps_the_new_results(run, arguments, name):
    assert f"tilerun: wrote {name} (" in reproduce(run.name, *arguments, cwd=run.parent).stderr
    assert len(harness.Results(run.parent / name).rows) == 6
    again = reproduce(run.name, *arguments, cwd=run.parent, expect=USAGE)
    assert "--overwrite" in again.stderr and "--resume" not in again.stderr
    reproduce(run.name, *arguments, "--overwrite", cwd=run.parent)


def test_never_replaces_the_original(run):
    before = run.read_bytes()
    reproduce(run, "-o", run, expect=USAGE)
    reproduce(run, "-o", run, "--overwrite", expect=USAGE)
    assert run.read_bytes() == before


# ---- inputs --------------------------------------------------------------------------------------------------------


def test_a_changed_input_is_named(moved, run):
    edit.set_values(moved / "data/x.h5", "x", lambda x: x + (np.arange(x.size).reshape(x.shape) == 4711))
    with h5py.File(run) as file:
        recorded = file["inputs/X"].attrs["xxh3"]
    done = reproduce(run, "--inputs", moved / "data", expect=RUN)
    assert f"input 'X' ({moved}/data/x.h5, /x): its values have changed: xxh3 was {recorded}, is " in done.stderr
    assert "[1/" not in done.stderr and done.stdout == ""
    assert sorted(path.name for path in run.parent.iterdir()) == ["run.h5"]


def test_an_input_that_is_elsewhere(moved, run):
    done = reproduce(run, expect=USAGE)
    assert "input 'X' was not found; tried: /absent/data/x.h5\n--inputs DIR" in done.stderr
    done = reproduce(run, "--inputs", moved / "jobs", expect=USAGE)
    assert f"tried: {moved}/jobs/data/x.h5, {moved}/jobs/x.h5, /absent/data/x.h5" in done.stderr
    for found in [moved, moved / "data"]:
        assert "5 of 5 identical" in last_line(reproduce(run, "--inputs", found))


def test_many_missing_inputs(folder):
    inputs = {}
    for i in range(40):
        harness.write_arrays(folder / f"{i}.h5", x=np.zeros((2, 2), "f4"))
        inputs[f"X{i}"] = {"file": f"{i}.h5", "dataset": "/x"}
    results = harness.run_job(
        folder, device="cpu", inputs=inputs, defaults={"repeat": 1},
        operations=[{"id": f"y{i}", "op": "scale", "inputs": [f"X{i}"], "variants": ["cpu"]} for i in range(40)],
    )  # fmt: skip
    for i in range(40):
        (folder / f"{i}.h5").unlink()
    done = reproduce(results.path, "--inputs", folder / "nowhere", expect=USAGE)
    assert "input 'X0'" in done.stderr and "--inputs DIR sets" in done.stderr


def test_an_input_of_another_shape(moved, run):
    (moved / "data/x.h5").unlink()
    harness.write_arrays(moved / "data/x.h5", x=np.zeros((150, 149), "f4"))
    reproduce(run, "--inputs", moved / "data", expect=USAGE)


def test_an_input_without_a_hash(run):
    with h5py.File(run, "r+") as file:
        del file["inputs/X"].attrs["xxh3"]
    assert "no hash of input 'X' is recorded" in reproduce(run).stderr


# ---- outputs -------------------------------------------------------------------------------------------------------


def next_after(values):
    values[3, 4] = np.nextafter(values[3, 4], np.float32(1e9))
    return values


def test_an_output_that_was_changed(run):
    """By one bit: the variant promises the same ones."""
    edit.set_values(run, "outputs/n=24/product", next_after)
    done = reproduce(run, expect=RUN)
    assert "this variant promises the same bits every run" in done.stdout
    assert "Inputs, program and device are the same" in done.stdout
    assert last_line(done).startswith("outputs: 4 of 5 identical, 1 differ; times: 0 same, 0 slower, ")


def test_another_program_may_differ_within_tolerance(run):
    edit.set_values(run, "outputs/n=24/product", next_after)
    edit.set_attribute(run, "/", "git_commit", "0123456789ab")
    done = reproduce(run)
    assert "git_commit: 0123456789ab -> " in done.stdout.split("operation ")[0]
    assert "outputs: 4 of 5 identical, 1 within tolerance" in last_line(done)


def test_another_program_that_is_wrong(run):
    edit.set_values(run, "outputs/n=24/product", lambda values: values + 1)
    edit.set_attribute(run, "/", "tool_version", "0.0.1")
    done = reproduce(run, expect=RUN)
    assert "Likely cause: another build of the program" in done.stdout and "1 differ" in last_line(done)


def test_other_threads_may_differ_within_tolerance(run):
    edit.set_values(run, "outputs/n=24/product", next_after)
    table = edit.rows(run)
    table["threads"] += 1
    edit.set_rows(run, table)
    assert "outputs: 4 of 5 identical, 1 within tolerance" in last_line(reproduce(run))


def test_another_device(run):
    table = edit.rows(run)
    table["device_name"] = b"Another CPU"
    edit.set_rows(run, table)
    edit.set_all_samples(run, lambda _: FAST)
    done = reproduce(run)
    assert last_line(done) == "outputs: 5 of 5 identical; times: not compared, because the device is another one"
    edit.set_values(run, "outputs/n=24/product", lambda values: values + 1)
    assert "another device ('Another CPU' then, " in reproduce(run, expect=RUN).stdout


def test_a_slower_run(run):
    with h5py.File(run) as file:
        big = int(file["runs"]["run"][file["runs"]["operation"] == b"big"][0])
    edit.set_samples(run, big, FAST)
    done = reproduce(run, expect=RUN)
    assert last_line(done) == "outputs: 5 of 5 identical; times: 0 same, 1 slower, 4 faster"


def test_what_made_no_result_before_does_not_count(run):
    edit.set_row(run, 0, status=b"failed", message=b"then")
    done = reproduce(run)
    assert "was failed, is ok" in done.stdout and "outputs: 4 of 4 identical" in last_line(done)


def test_what_makes_no_result_now_counts(run):
    """A variant that this machine cannot run, but another one could."""
    edit.set_row(run, 1, status=b"ok", message=b"")
    done = reproduce(run, expect=RUN)
    assert "WORSE" in done.stdout and "was ok, is skipped" in done.stdout


# ---- files and devices ---------------------------------------------------------------------------------------------


def test_files_that_hold_no_job(run, folder):
    with h5py.File(run, "r+") as file:
        del file["job_resolved"]
    assert "holds no job to run again" in reproduce(run, expect=USAGE).stderr
    (folder / "job.yaml").write_text("version: 1\n")
    reproduce(folder / "job.yaml", expect=USAGE)
    reproduce(folder / "absent.h5", expect=USAGE)
    reproduce(expect=USAGE)
    assert sorted(path.name for path in run.parent.iterdir()) == ["run.h5"]


def test_no_gpu(run):
    assert "CUDA GPU" in reproduce(run, "--device", "cuda", expect=DEVICE).stderr
    assert sorted(path.name for path in run.parent.iterdir()) == ["run.h5"]


def test_a_job_that_is_hurt(run):
    with h5py.File(run, "r+") as file:
        text = file["job_resolved"][()].decode()
        del file["job_resolved"]
        file["job_resolved"] = np.bytes_(text.replace("matmul", "matmil").encode())
    done = reproduce(run, expect=USAGE)
    assert "did you mean 'matmul'" in done.stderr and f"{run}:" in done.stderr


def test_results_in_a_read_only_folder(run):
    """Whoever may write there all the same (root) does."""
    run.parent.chmod(0o555)
    try:
        assert "5 of 5 identical" in last_line(reproduce(run))
    finally:
        run.parent.chmod(0o755)
    assert sorted(path.name for path in run.parent.iterdir()) == ["run.h5"]


def test_a_full_disk(run):
    def limit():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    harness.tilerun("reproduce", run, env=ENVIRONMENT, preexec_fn=limit, expect=IO)
    assert sorted(path.name for path in run.parent.iterdir()) == ["run.h5"]


def test_a_signal(run):
    """The job would take hours."""
    with h5py.File(run, "r+") as file:
        text = file["job_resolved"][()].decode()
        del file["job_resolved"]
        file["job_resolved"] = np.bytes_(text.replace("repeat: 20", "repeat: 1000000").encode())
    process = harness.start("reproduce", run, env=ENVIRONMENT)
    until = time.monotonic() + 60
    while not list(run.parent.glob(".tilerun-reproduce-*/out.h5.parts")) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED and "interrupted: " in said and "--resume" not in said
    assert sorted(path.name for path in run.parent.iterdir()) == ["run.h5"]
