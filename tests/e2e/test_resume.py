"""Nothing is lost, and nothing is half done: signals, kills, damage, and what --resume makes of them."""

import hashlib
import os
import signal
import time

import h5py
import numpy as np
import pytest

import harness
from harness import INTERRUPTED, OK, USAGE

SLOW = 160  # side of the slow product: some ms a repeat with the triple loop


def job(folder, repeat=200, seed=1):
    """Two quick runs, one of a second or so, and two that read the others' results."""
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={
            "a": {"random": {"shape": [SLOW, SLOW], "low": -1, "seed": seed}},
            "b": {"random": {"shape": [SLOW, SLOW], "low": -1, "seed": 2}},
        },
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]},
            {"id": "product", "op": "matmul", "inputs": ["flipped", "b"], "variants": ["cpu"], "repeat": repeat},
            {"id": "total", "op": "reduce", "inputs": ["product"], "operator": "sum", "axis": 0, "variants": ["cpu"]},
            {"id": "back", "op": "transpose", "inputs": ["product"], "variants": ["cpu"]},
        ],
    )


def wait_for_outcome(process, run):
    """Reads progress until run number `run` (from 1) is finished; returns what was said."""
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith(f"[{run}/"):
            return said
    raise AssertionError(f"ended early: {said}")


def finish(process):
    """Waits for the end. Returns stdout and the rest of stderr (communicate would lose what is buffered)."""
    rest, stdout = process.stderr.read(), process.stdout.read()
    process.wait(timeout=60)
    return stdout, rest


def interrupt(folder, number, run=2, **terms):
    """Runs the job until `run` is finished, then sends a signal. Returns the exit code and stderr."""
    process = harness.start("run", job(folder, **terms), "-o", folder / "out.h5", "--progress", "plain")
    said = wait_for_outcome(process, run)
    process.send_signal(number)
    _, rest = finish(process)
    return process.returncode, said + rest


def parts(folder):
    return sorted((folder / "out.h5.parts").glob("*.h5"))


def resume(folder, expect=OK, *arguments):
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume", *arguments)
    assert done.returncode == expect, done.stderr
    return done


def kept(stderr):
    """The runs that were not done again."""
    return [line.split(": ")[0].split("] ")[1] for line in stderr.splitlines() if line.endswith("(kept from before)")]


def assert_equals_undisturbed(folder, **terms):
    resumed = harness.Results(folder / "out.h5")
    assert [row["status"] for row in resumed.rows] == ["ok"] * 5
    assert not (folder / "out.h5.parts").exists()
    job(folder, **terms)
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "plain.h5")
    assert done.returncode == OK, done.stderr
    expected, found = harness.Results(folder / "plain.h5").everything(), resumed.everything()
    assert expected.keys() == found.keys() and len(found) == 4
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT])
def test_signal_then_resume(folder, number):
    code, said = interrupt(folder, number)
    assert code == INTERRUPTED, said
    assert f"interrupted by signal {int(number)} with" in said and "--resume" in said
    assert not (folder / "out.h5").exists()
    before = {path: path.stat().st_mtime_ns for path in parts(folder)}
    assert 2 <= len(before) < 5
    done = resume(folder)
    assert len(kept(done.stderr)) == len(before)
    assert {"flipped cpu", "flipped blocked"} <= set(kept(done.stderr))
    assert_equals_undisturbed(folder)


def test_kill_then_resume(folder):
    code, said = interrupt(folder, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not (folder / "out.h5").exists() and len(parts(folder)) == 2, said
    done = resume(folder)
    assert kept(done.stderr) == ["flipped cpu", "flipped blocked"]
    assert_equals_undisturbed(folder)


def test_killed_file_of_parts_is_readable(folder):
    interrupt(folder, signal.SIGKILL)
    for part in parts(folder):
        assert harness.Results(part).rows[0]["status"] == "ok"


@pytest.mark.parametrize("where", [0.02, 0.5, 0.999], ids=["begin", "middle", "end"])
def test_damaged_part_is_redone(folder, where):
    interrupt(folder, signal.SIGTERM)
    before = parts(folder)
    with open(before[0], "r+b") as file:
        place = int(where * before[0].stat().st_size)
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 0x40]))
    done = resume(folder)
    assert len(kept(done.stderr)) == len(before) - 1
    assert_equals_undisturbed(folder)


def test_truncated_part_is_redone(folder):
    interrupt(folder, signal.SIGTERM)
    before = parts(folder)
    os.truncate(before[0], before[0].stat().st_size // 2)
    os.truncate(before[1], 0)
    done = resume(folder)
    assert len(kept(done.stderr)) == len(before) - 2
    assert_equals_undisturbed(folder)


def test_changed_operation_is_redone(folder):
    """Only what changed, and what reads it, is done again."""
    interrupt(folder, signal.SIGTERM, run=3)
    job(folder, repeat=2)
    done = resume(folder)
    assert kept(done.stderr) == ["flipped cpu", "flipped blocked"]
    assert_equals_undisturbed(folder, repeat=2)


def test_changed_input_is_redone(folder):
    interrupt(folder, signal.SIGTERM)
    job(folder, seed=9, repeat=2)
    done = resume(folder)
    assert kept(done.stderr) == []
    assert_equals_undisturbed(folder, seed=9, repeat=2)


def test_changed_values_in_a_file_are_redone(folder):
    """The hash is of an input's values, not of its name or date."""

    def write(first):
        with h5py.File(folder / "x.h5", "w") as file:
            file["x"] = np.arange(12.0).reshape(3, 4) + [[first], [0], [0]]

    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": "x.h5", "dataset": "x"}, "r": {"random": {"shape": [SLOW, SLOW]}}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "y", "op": "scale", "inputs": ["x"], "alpha": 2, "variants": ["cpu"]},
            {"id": "slow", "op": "matmul", "inputs": ["r", "r"], "variants": ["cpu"], "repeat": 200},
            {"id": "more", "op": "scale", "inputs": ["slow"], "variants": ["cpu"]},
        ],
    )
    for first, again in ((0, True), (0, False), (1, True)):
        write(first)
        process = harness.start("run", path, "-o", folder / "out.h5", "--resume", "--progress", "plain")
        said = wait_for_outcome(process, 1)
        process.send_signal(signal.SIGKILL)
        finish(process)
        assert ("kept from before" not in said) == again, said


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def quick_job(folder):
    return harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"random": {"shape": [4, 5]}}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "alpha": "$alpha", "repeat": 1}],
        parameters={"alpha": 2},
    )


def test_existing_output_is_refused(folder):
    path, output = quick_job(folder), folder / "out.h5"
    assert harness.tilerun("run", path, "-o", output).returncode == OK
    before = digest(output)
    done = harness.tilerun("run", path, "-o", output, "--set", "alpha=3")
    assert done.returncode == USAGE
    assert f"output {output}: exists; --overwrite replaces it, --resume continues its job" in done.stderr
    assert digest(output) == before and sorted(p.name for p in folder.iterdir()) == ["job.yaml", "out.h5"]

    factor = harness.Results(output).output("y")[1, 1]
    assert harness.tilerun("run", path, "-o", output, "--set", "alpha=3", "--overwrite").returncode == OK
    assert harness.Results(output).output("y")[1, 1] == pytest.approx(factor * 3 / 2)


def test_resume_of_a_finished_job_changes_nothing(folder):
    path, output = quick_job(folder), folder / "out.h5"
    assert harness.tilerun("run", path, "-o", output).returncode == OK
    values = harness.Results(output).output("y")
    resume(folder)
    np.testing.assert_array_equal(harness.Results(output).output("y"), values)
    resume(folder, OK, "--set", "alpha=3")
    np.testing.assert_allclose(harness.Results(output).output("y"), values * 1.5, rtol=1e-6)


def test_second_writer_is_refused(folder):
    process = harness.start("run", job(folder), "-o", folder / "out.h5", "--progress", "plain")
    wait_for_outcome(process, 1)
    for mode in ("--overwrite", "--resume"):
        done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", mode)
        assert done.returncode == USAGE and "another tilerun is writing it" in done.stderr
    finish(process)
    assert process.returncode == OK
    assert_equals_undisturbed(folder)


def test_second_interrupt_aborts_at_once(folder):
    """The first waits for the run in hand, here one repeat of seconds; the second does not."""
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [1600, 1600]}}},
        operations=[
            {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": ["cpu"], "repeat": 1},
            {"id": "product", "op": "matmul", "inputs": ["flipped", "a"], "variants": ["cpu"], "repeat": 1},
        ],
    )
    process = harness.start("run", path, "-o", folder / "out.h5", "--progress", "plain")
    wait_for_outcome(process, 1)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None, "the first interrupt did not wait for the run in hand"
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    stdout, _ = finish(process)
    assert time.monotonic() - began < 0.5
    assert process.returncode == INTERRUPTED and stdout == ""
    assert len(parts(folder)) == 1 and not (folder / "out.h5").exists()


def test_overwrite_forgets_old_parts(folder):
    interrupt(folder, signal.SIGTERM)
    job(folder, repeat=1)
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5")
    assert done.returncode == OK and kept(done.stderr) == []
    assert_equals_undisturbed(folder, repeat=1)
