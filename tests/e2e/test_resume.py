"""Nothing is lost, and nothing is half done: signals, kills, damage, and what --resume makes of them."""

import hashlib
import os
import re
import shlex
import shutil
import signal
import time

import h5py
import numpy as np
import pytest

import harness
from harness import INTERRUPTED, OK, USAGE
from test_signals import processor_seconds, wait_for_end

SLOW = 160  # side of the slow product: some ms a repeat with the triple loop


def job(folder, repeat=120, seed=1, last=1):
    """Two quick runs, one of a second or so, and two that read the others' results; the last as long as is wished."""
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
            {"id": "back", "op": "transpose", "inputs": ["product"], "variants": ["cpu"], "repeat": last},
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


def interrupt(folder, number, run=2, options=(), **terms):
    """Runs the job until `run` is finished, then sends a signal. Returns the exit code and stderr."""
    process = harness.start("run", job(folder, **terms), "-o", folder / "out.h5", "--progress", "plain", *options)
    said = wait_for_outcome(process, run)
    process.send_signal(number)
    _, rest = finish(process)
    return process.returncode, said + rest


def parts(folder):
    return sorted((folder / "out.h5.parts").glob("*.h5"))


def resume(folder, expect=OK, *arguments):
    return harness.run_folder(folder, "--resume", *arguments, expect=expect)


def kept(stderr):
    """The runs that were not done again."""
    return [line.split(": ")[0].split("] ")[1] for line in stderr.splitlines() if line.endswith("(kept from before)")]


def assert_equals_undisturbed(folder, **terms):
    resumed = harness.Results(folder / "out.h5")
    assert [row["status"] for row in resumed.rows] == ["ok"] * 5
    assert not (folder / "out.h5.parts").exists()
    job(folder, **terms | {"repeat": 1, "last": 1})
    harness.tilerun("run", folder / "job.yaml", "-o", folder / "plain.h5", expect=OK)
    expected, found = harness.Results(folder / "plain.h5").everything(), resumed.everything()
    assert expected.keys() == found.keys() and len(found) == 4
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])  # the others: test_signals.py
def test_signal_then_resume(folder, number):
    code, said = interrupt(folder, number)
    assert code == INTERRUPTED, said
    assert "of 5 runs are done; `tilerun run --resume " in said
    assert not (folder / "out.h5").exists()
    before = {path: path.stat().st_mtime_ns for path in parts(folder)}
    assert 2 <= len(before) < 5
    done = resume(folder)
    assert len(kept(done.stderr)) == len(before)
    assert {"flipped cpu", "flipped blocked"} <= set(kept(done.stderr))
    assert_equals_undisturbed(folder)


def test_a_signal_while_another_output_is_replaced(folder):
    """The command that the message names continues, though OUTPUT holds the results of another job."""
    other = [{"id": "y", "op": "scale", "inputs": ["x"]}]
    harness.run_job(folder, inputs={"x": {"random": {"shape": [2]}}}, operations=other)
    (folder / "results.h5").rename(folder / "out.h5")
    code, said = interrupt(folder, signal.SIGTERM, options=["--overwrite"])
    assert code == INTERRUPTED, said
    words = shlex.split(re.search("are done; `tilerun (run --resume .* --overwrite)` continues", said)[1])
    assert "`--resume --overwrite` replaces them" in resume(folder, harness.USAGE).stderr
    assert {"flipped cpu", "flipped blocked"} <= set(kept(harness.tilerun(*words, expect=OK).stderr))
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
    interrupt(folder, signal.SIGTERM, run=3, last=50000)
    assert len(parts(folder)) >= 3
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
        harness.write_arrays(folder / "x.h5", x=np.arange(12.0).reshape(3, 4) + [[first], [0], [0]])

    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": "x.h5", "dataset": "x"}, "r": {"random": {"shape": [SLOW, SLOW]}}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "y", "op": "scale", "inputs": ["x"], "alpha": 2, "variants": ["cpu"]},
            {"id": "slow", "op": "matmul", "inputs": ["r", "r"], "variants": ["cpu"], "repeat": 120},
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
    done = harness.tilerun("run", path, "-o", output, "--set", "alpha=3", expect=USAGE)
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


def test_resume_of_another_job_is_refused(folder):
    """A finished job's results are not this one's to replace, if it differs by one number. Both flags: it may."""
    path, output = quick_job(folder), folder / "out.h5"
    assert harness.tilerun("run", path, "-o", output).returncode == OK
    before, values = digest(output), harness.Results(output).output("y")
    done = resume(folder, USAGE, "--set", "alpha=3")
    assert f"output {output}: holds the complete results of job 'job', which is another job, or an" in done.stderr
    assert "(`alpha: 2` there, `alpha: 3` here)" in done.stderr
    assert "(`repeat: 1` there, `repeat: 4` here)" in resume(folder, USAGE, "--repeat", "4").stderr
    many = ",".join(map(str, range(100)))
    assert "(`alpha` differs)" in resume(folder, USAGE, "--set", f"alpha={many}").stderr
    assert "--overwrite" in done.stderr and digest(output) == before and not (folder / "out.h5.parts").exists()
    resume(folder, OK, "--set", "alpha=3", "--overwrite")
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
    """The first waits a moment for the work in hand, here one launch of seconds; the second does not."""
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
    while processor_seconds(process) < 0.7:  # more than all before the launch takes
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert "stopping within a second" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    stdout, _ = wait_for_end(process, 0.5)
    assert process.returncode == INTERRUPTED and "interrupted: product cpu: a signal came first" in stdout
    assert len(parts(folder)) == 1 and not (folder / "out.h5").exists()


def test_finished_runs_are_not_thrown_away_unasked(folder):
    code, _ = interrupt(folder, signal.SIGTERM)
    assert code == INTERRUPTED
    before = {part.name: digest(part) for part in parts(folder)}
    done = harness.run_folder(folder, expect=USAGE)
    assert f"out.h5.parts holds {len(before)} finished runs of a job that was not completed" in done.stderr
    assert "--resume continues it, --overwrite throws them away" in done.stderr
    assert {part.name: digest(part) for part in parts(folder)} == before and not (folder / "out.h5").exists()
    job(folder, repeat=1)
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--overwrite")
    assert done.returncode == OK and kept(done.stderr) == []
    assert_equals_undisturbed(folder, repeat=1)


def test_a_kill_before_the_first_run_is_done_leaves_nothing_to_ask_about(folder):
    (folder / "out.h5.parts").mkdir()
    for name in ("lock", "run-0.tmp", "assembled.tmp"):
        (folder / "out.h5.parts" / name).touch()
    assert harness.tilerun("run", quick_job(folder), "-o", folder / "out.h5").returncode == OK
    assert sorted(path.name for path in folder.iterdir()) == ["job.yaml", "out.h5"]


@pytest.mark.parametrize("gone", [False, True], ids=["output", "no output"])
def test_kill_between_rename_and_clean_up(folder, gone):
    """The parts of a complete file go with the next --resume; should it have been moved away, they make it anew."""
    interrupt(folder, signal.SIGTERM)
    shutil.copytree(folder / "out.h5.parts", folder / "copy")
    resume(folder)
    (folder / "copy").rename(folder / "out.h5.parts")
    if gone:
        (folder / "out.h5").unlink()
    done = resume(folder)
    assert ("is complete: nothing to do" in done.stderr) == (not gone)
    assert_equals_undisturbed(folder)


def test_parts_of_another_job_are_told_of(folder):
    interrupt(folder, signal.SIGTERM, run=2)
    count = len(parts(folder))
    job(folder, seed=9, repeat=2)
    done = resume(folder)
    assert f"holds {count} finished runs of another version of the job, its inputs or tilerun" in done.stderr
    assert_equals_undisturbed(folder, seed=9, repeat=2)


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "JSON"])
def test_what_is_complete_is_shown_as_it_was(folder, form):
    path, output = job(folder, repeat=2, last=3), folder / "out.h5"
    first = harness.quiet("run", path, "-o", output, "--progress", "none", *form)
    again = resume(folder, OK, *form)
    assert "is complete: nothing to do" in again.stderr
    assert again.stdout == first and "flipped" in first


def test_what_is_left_out_or_added_is_all_that_is_done(folder):
    """--only leaves operations out; a job may get more of them. The runs that are there are copied, not done again."""
    path = job(folder, repeat=2)
    both = ["run", path, "-o", folder / "out.h5", "--progress", "plain", "--resume"]
    assert harness.tilerun(*both, "--only", "flipped").returncode == OK
    assert "nothing to do" in harness.tilerun(*both, "--only", "flipped").stderr
    done = harness.tilerun(*both, "--only", "total")
    assert done.returncode == OK and kept(done.stderr) == ["flipped cpu", "flipped blocked"], done.stderr
    before = digest(folder / "out.h5")
    done = harness.tilerun(*both, "--only", "flipped")  # would lose runs
    assert done.returncode == USAGE and digest(folder / "out.h5") == before
    assert "holds the partial results of job 'job'" in done.stderr
    done = harness.tilerun(*both, expect=OK)
    assert kept(done.stderr) == ["flipped cpu", "flipped blocked", "product cpu", "total cpu"]
    assert_equals_undisturbed(folder, repeat=2)


def test_runs_are_renumbered_when_operations_are_added(folder):
    x = {"x": {"random": {"shape": [40, 30]}}}
    scale = [{"id": name, "op": "scale", "inputs": ["x"], "alpha": i, "repeat": 2, "store": "all"} for i, name in enumerate("abcd")]
    for chosen in ("bd", "abd", "abcd"):
        operations = [entry for entry in scale if entry["id"] in chosen]
        harness.write_job(folder / "job.yaml", device="cpu", inputs=x, operations=operations)
        done = resume(folder)
        assert len(kept(done.stderr)) == {"bd": 0, "abd": 2, "abcd": 3}[chosen], done.stderr
    results = harness.Results(folder / "out.h5")
    with h5py.File(folder / "out.h5") as file:
        assert [row["run"] for row in results.rows] == [0, 1, 2, 3] and sorted(name for name in file["samples"] if "_" not in name) == list("0123")
        for number, name in enumerate("abcd"):
            assert file[f"outputs/{name}"].attrs["run"] == number
            assert file[f"outputs/{name}"] == file[f"variants/{name}/cpu"]
            assert file[f"samples/{number}"][()].min() == results.rows[number]["kernel_min_s"]


def test_turns_with_both_flags(folder):
    """As configs/slurm/run.sbatch gives them, over another job's results: each turn keeps what the last one finished."""
    assert harness.tilerun("run", quick_job(folder), "-o", folder / "out.h5").returncode == OK
    before, flags = digest(folder / "out.h5"), ("--resume", "--overwrite")
    process = harness.start("run", job(folder), "-o", folder / "out.h5", "--progress", "plain", *flags)
    wait_for_outcome(process, 2)
    process.send_signal(signal.SIGUSR2)
    finish(process)
    assert process.returncode == INTERRUPTED and digest(folder / "out.h5") == before
    done = resume(folder, OK, "--overwrite")
    assert {"flipped cpu", "flipped blocked"} <= set(kept(done.stderr))
    assert "nothing to do" in resume(folder, OK, "--overwrite").stderr
    assert_equals_undisturbed(folder)


def test_a_variant_is_added(folder):
    """--resume runs only what was added: variants after the first, and operations; what was there is kept."""
    inputs = {"a": {"random": {"shape": [40, 30], "seed": 1}}}
    product = {"id": "p", "op": "matmul", "inputs": ["a", "a"], "transpose_b": True, "variants": ["cpu"], "repeat": 3}
    total = {"id": "s", "op": "reduce", "operator": "sum", "axis": 0, "inputs": ["p"], "variants": ["cpu"], "repeat": 3}
    path, out = folder / "job.yaml", folder / "out.h5"

    def resume(*operations):
        harness.write_job(path, inputs=inputs, operations=list(operations))
        done = harness.tilerun("run", path, "-o", out, "--resume")
        with h5py.File(out) as file:
            columns = [file["runs"][name] for name in ("operation", "variant", "kernel_median_s")]
            rows = [(operation.decode(), variant.decode(), time) for operation, variant, time in zip(*columns)]
        return done.returncode, rows

    code, first = resume(product, total)
    assert code == harness.OK and [row[:2] for row in first] == [("p", "cpu"), ("s", "cpu")]
    more = {**product, "variants": ["cpu", "blocked"]}
    code, second = resume(more, total)
    assert code == harness.OK and [row[:2] for row in second] == [("p", "cpu"), ("p", "blocked"), ("s", "cpu")]
    assert [second[0], second[2]] == first
    last = {**total, "id": "z", "inputs": ["a"], "variants": ["blocked", "cpu"]}
    code, third = resume(more, total, last)
    assert code == harness.OK and third[:3] == second
    assert [row[:2] for row in third[3:]] == [("z", "blocked"), ("z", "cpu")]
    for changed in (
        [{**more, "variants": ["blocked", "cpu"]}, total, last],  # another variant would give the result
        [more, last],  # a row would be lost
        [{**more, "alpha": 2}, total, last],
        [{**more, "variants": ["cpu"]}, total, last],
    ):
        code, rows = resume(*changed)
        assert code == harness.USAGE and rows == third
