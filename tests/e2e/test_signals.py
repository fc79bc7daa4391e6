"""A signal at any moment of a job: the program is gone in 2 s with exit code 75, nothing half done is kept or told as
done, and --resume makes the file that an undisturbed run would have made.

TILERUN_SIGNAL_MOMENTS is how many random moments are tried in all; one of each kind of job if it is not set."""

import concurrent.futures
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import termios
import threading
import time

import h5py
import numpy as np
import pytest

import harness
from harness import INTERRUPTED, OK

SIGNALS = [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT]
if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
    SIGNALS.append(signal.SIGHUP)
LIMIT_S = 2.0


# ---- jobs of several kinds, each of a second or so ------------------------------------------------------------------


def one_tile(folder, rng):
    """Many repeats of one launch; a run that reads the result."""
    return {
        "inputs": {"a": {"random": {"shape": [200, 200], "low": -1}}},
        "operations": [
            {"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], "repeat": 40},
            {"id": "s", "op": "reduce", "inputs": ["p"], "operator": "sum", "axis": 0, "repeat": 20},
        ],
    }


def many_tiles(folder, rng):
    """Thousands of steps a run, since the working set is small."""
    return {
        "memory": "64KiB",
        "inputs": {"a": {"random": {"shape": [600, 700]}}},
        "operations": [
            {"id": "t", "op": "transpose", "inputs": ["a"], "variants": ["cpu"], "checksum": "none"},
            {"id": "p", "op": "matmul", "inputs": ["a", "t"], "variants": ["blocked"], "verify": "none"},
        ],
    }


def slow_kernel(folder, rng):
    """One launch of more time than the program waits for what is in hand."""
    return {
        "inputs": {"a": {"random": {"shape": [800, 800]}}},
        "defaults": {"warmup": 0, "repeat": 1},
        "operations": [
            {"id": "t", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]},
            {"id": "p", "op": "matmul", "inputs": ["t", "a"], "variants": ["cpu"]},
            {"id": "s", "op": "scale", "inputs": ["p"], "alpha": 2},
        ],
    }


def many_runs(folder, rng):
    return {
        "parameters": {"n": list(range(1, 25))},
        "inputs": {"a": {"random": {"shape": ["$n", "$n"]}}},
        "operations": [
            {"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu", "blocked"]},
            {"id": "s", "op": "reduce", "inputs": ["p"], "operator": "max", "axis": "all"},
        ],
    }


def verification(folder, rng):
    """Products that take longer to check than to compute."""
    return {
        "inputs": {"a": {"random": {"shape": [900, 900]}}},
        "defaults": {"warmup": 0, "repeat": 2, "verify": "full"},
        "operations": [
            {"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": ["blocked"]},
            {"id": "q", "op": "matmul", "inputs": ["p", "a"], "transpose_b": True, "variants": ["blocked"]},
        ],
    }


def hashing(folder, rng):
    """Input files that are inflated and hashed; only a band of one is computed with."""
    with h5py.File(folder / "inputs.h5", "w") as file:
        values = rng.integers(0, 1000, (4000, 2000)).astype("f8")
        file["plain"] = values
        file.create_dataset("packed", data=values[::-1], chunks=(250, 250), compression="gzip", shuffle=True)
    return {
        "inputs": {name: {"file": "inputs.h5", "dataset": name} for name in ("plain", "packed")},
        "defaults": {"warmup": 0, "repeat": 3},
        "operations": [
            {"id": f"of_{name}", "op": "reduce", "inputs": [name], "operator": "sum", "axis": 0}
            for name in ("plain", "packed")
        ],
    }


def store_all(folder, rng):
    """Every variant's output is stored, compressed."""
    return {
        "inputs": {"a": {"random": {"shape": [1024, 1500]}}},
        "defaults": {"store": "all", "compression": "gzip", "level": 6, "repeat": 4},
        "operations": [
            {"id": "t", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]},
            {"id": "m", "op": "scale", "inputs": ["t"], "alpha": 3, "variants": ["cpu"]},
        ],
    }


def chain(folder, rng):
    """Each operation reads the one before."""
    operations = [{"id": "o0", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]}]
    for i in range(1, 12):
        op = [{"op": "scale", "alpha": 0.5}, {"op": "transpose"}][i % 2]
        operations.append({"id": f"o{i}", "inputs": [f"o{i - 1}"], **op, "variants": ["cpu"]})
    return {
        "inputs": {"a": {"random": {"shape": [500, 700], "dtype": "float64"}}},
        "defaults": {"repeat": 8},
        "operations": operations,
    }


def large_outputs(folder, rng):
    """The largest of them becomes the results file, the other is copied."""
    return {
        "inputs": {"a": {"random": {"shape": [3000, 3000], "dtype": "float64"}}},
        "defaults": {"warmup": 0, "repeat": 1, "checksum": "none"},
        "operations": [
            {"id": "x", "op": "scale", "inputs": ["a"], "alpha": 2},
            {"id": "y", "op": "transpose", "inputs": ["x"], "variants": ["blocked"]},
        ],
    }


def on_a_gpu(folder, rng):
    """Opening the device, loading kernels, copies, repeats of milliseconds and steps in small memory."""
    return {
        "device": "cuda",
        "memory": "24MiB",
        "inputs": {"a": {"random": {"shape": [3000, 3000]}}, "b": {"random": {"shape": [900, 900]}}},
        "operations": [
            {"id": "t", "op": "transpose", "inputs": ["a"], "variants": ["naive", "padded"]},
            {"id": "p", "op": "matmul", "inputs": ["t", "a"], "variants": ["naive", "tiled"]},
            {"id": "q", "op": "matmul", "inputs": ["b", "b"], "variants": ["naive", "tiled"], "repeat": 300},
            {"id": "s", "op": "reduce", "inputs": ["q"], "operator": "max", "axis": 1, "variants": ["tree"]},
        ],
    }


KINDS = [
    one_tile, many_tiles, slow_kernel, many_runs, verification, hashing, store_all, chain, large_outputs, on_a_gpu,
]  # fmt: skip
WHERE_IT_RUNS = [pytest.param(kind, marks=[pytest.mark.gpu] if kind is on_a_gpu else []) for kind in KINDS]
MOMENTS = int(os.environ.get("TILERUN_SIGNAL_MOMENTS", len(KINDS)))  # in all


# ---- what is in a file, but for what is different each time ---------------------------------------------------------

TIMES = {
    "kernel_median_s", "kernel_min_s", "kernel_max_s", "kernel_mad_s", "read_s", "h2d_s", "d2h_s", "write_s", "total_s",
    "gflops", "gbytes_per_s", "kernel_ci_low_s", "kernel_ci_high_s", "bound_s", "bound_by", "percent_of_bound", "flags",
    "file_bytes",  # a result that is still on the device is not read again
}  # fmt: skip


def value_of(item, name):
    """Bytes of a data set; of samples, which are times, only how many there are."""
    if name.startswith("samples/"):
        return item.shape
    if name == "runs":
        rows = item[:]
        return [[row[field].tobytes() for field in rows.dtype.names if field not in TIMES] for row in rows]
    return item.dtype.str, item.shape, item[()].tobytes() if item.dtype.kind != "O" else item[()]


def contents(path):
    """Every object of a results file by its name: its attributes and its value."""
    found = {}

    def visit(name, item):
        if name == "environment":
            return
        attributes = {key: np.asarray(value).tobytes() for key, value in item.attrs.items()}
        found[name] = attributes, value_of(item, name) if isinstance(item, h5py.Dataset) else None

    with h5py.File(path) as file:
        file.visititems(visit)
        attributes = dict(file.attrs)
    for key in ("created", "finished", "command_line"):
        del attributes[key]
    return {**found, "/": attributes}


# ---- a job and a signal ---------------------------------------------------------------------------------------------


class Job:
    def __init__(self, folder, kind, rng):
        self.output = folder / "out.h5"
        self.parts = folder / "out.h5.parts"
        self.path = harness.write_job(folder / "job.yaml", **{"device": "cpu", "output": "out.h5", **kind(folder, rng)})
        began = time.monotonic()
        done = self.run()
        self.seconds = time.monotonic() - began
        assert done.returncode == OK, done.stderr
        self.expected = contents(self.output)
        self.repeats = [row["repeats"] for row in harness.Results(self.output).rows]
        self.output.unlink()

    def run(self, *arguments):
        return harness.tilerun("run", self.path, "-o", self.output, *arguments)

    def start(self, **options):
        process = harness.start("run", self.path, "-o", self.output, "--json", "--progress", "plain", **options)
        wait_until_heeded(process)
        return process

    def resume(self):
        done = self.run("--resume")
        assert done.returncode == OK, done.stderr
        assert not self.parts.exists()
        found = contents(self.output)
        assert found.keys() == self.expected.keys()
        for name, expected in self.expected.items():
            assert found[name] == expected, name
        self.output.unlink()


def wait_until_heeded(process):
    """While it is being loaded a program dies of a signal as any other does: its first statements block or catch it. The
    C library blocks all signals for a moment where it makes a thread, so twice in a row counts."""
    wanted, seen = sum(1 << (number - 1) for number in SIGNALS), 0
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status") as file:
            blocked, caught = (int(mask, 16) for mask in re.findall(r"Sig(?:Blk|Cgt):\s*(\w+)", file.read()))
        seen = seen + 1 if (blocked | caught) & wanted == wanted else 0
        if seen == 2:
            return
        time.sleep(seen * 0.005)


def wait_until_begun(process, parts, finished=0):
    """Until the first run has opened its part, or so many are finished."""
    while not (len(list(parts.glob("*.h5"))) >= finished if finished else (parts / "run-0.tmp").exists()):
        assert process.poll() is None
        time.sleep(0.002)


def wait_until_taken(process, number):
    """A signal that comes again before the program has taken the first is lost."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status") as file:
            if not int(re.search(r"ShdPnd:\s*(\w+)", file.read())[1], 16) >> (number - 1) & 1:
                return
        time.sleep(0.002)


def processor_seconds(process):
    """Of all its threads, so far; 0 once it has been waited for."""
    if process.returncode is not None:
        return 0
    with open(f"/proc/{process.pid}/stat") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def read_all(process):
    """Begins to read its stdout and stderr; their results are the texts."""
    pool = concurrent.futures.ThreadPoolExecutor()
    return [pool.submit(each.read if each else str) for each in (process.stdout, process.stderr)]


def wait_for_end(process, limit=LIMIT_S, texts=None):
    """Returns stdout and stderr of a process that has just got its signal; `texts`: of read_all, called before. The limit
    holds for the seconds of its cores, which other processes do not take away."""
    before, killer = processor_seconds(process), threading.Timer(60, process.kill)
    killer.start()
    stdout, stderr = [text.result() for text in texts or read_all(process)]
    if process.returncode is None:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    seconds = processor_seconds(process) - before
    killer.cancel()
    process.communicate()
    assert seconds <= limit * len(os.sched_getaffinity(0)), f"gone after {seconds:.2f} s of its cores\n{stderr}"
    return stdout, stderr


def check_what_is_left(job, stdout, stderr, at_once=False):
    """After exit code 75: no output, whole parts, and rows that say what was done. A process that ended at once had no
    time to remove the part that it was writing, which --resume does."""
    if stderr == "tilerun: interrupted before the first run\n":
        assert not stdout and not job.output.exists() and not job.parts.exists()
        return
    said = re.search(r"tilerun: interrupted: (\d+) of (\d+) runs are done; `tilerun run --resume .*` continues", stderr)
    assert said and stderr.count("interrupted") == 1, stderr
    rows = json.loads(stdout)
    done = [row for row in rows if row["status"] == "ok"]
    assert {row["status"] for row in rows} <= {"ok", "interrupted"}
    assert len(rows) == len(job.repeats) == int(said[2]) and len(done) == int(said[1])
    for row in rows:
        assert row["repeats"] == (job.repeats[row["run"]] if row["status"] == "ok" else 0)
    assert not job.output.exists()
    left = sorted(os.listdir(job.parts)) if job.parts.exists() else []
    left = [name for name in left if not (at_once and re.fullmatch(r"run-\d+\.tmp", name))]
    assert all(re.fullmatch(r"[0-9a-f]{32}\.h5", name) for name in left), left
    assert bool(left) == job.parts.exists() or at_once
    assert len(done) <= len(left) <= len(done) + 1  # one may have been finished without being told
    for name in left:
        (row,) = harness.Results(job.parts / name).rows
        assert row["status"] == "ok" and row["repeats"] == job.repeats[row["run"]]
        with h5py.File(job.parts / name) as file:
            assert len(file["seconds"]) == row["repeats"]


@pytest.mark.parametrize("kind", WHERE_IT_RUNS, ids=lambda kind: kind.__name__)
def test_a_signal_at_any_moment(folder, rng, kind):
    job = Job(folder, kind, rng)
    share = KINDS.index(kind)
    for _ in range((MOMENTS + len(KINDS) - 1 - share) // len(KINDS)):
        number, moment = SIGNALS[rng.integers(4)], rng.uniform(0, 1.02) * job.seconds
        print(f"{signal.Signals(number).name} after {moment:.3f} of {job.seconds:.3f} s")
        process = job.start()
        texts = read_all(process)
        try:
            process.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        stdout, stderr = wait_for_end(process, texts=texts)
        if process.returncode == INTERRUPTED:
            if job.output.exists():  # it had its name already, only parts were to be removed
                assert harness.Results(job.output).rows[-1]["status"] == "ok"
            else:
                check_what_is_left(job, stdout, stderr)
        else:
            assert process.returncode == OK, stderr
            assert [row["repeats"] for row in json.loads(stdout)] == job.repeats
        job.resume()


def test_a_second_interrupt_ends_at_once(folder, rng):
    """So soon that the work in hand had no time to end by itself."""
    job = Job(folder, store_all, rng)
    process = job.start()
    wait_until_begun(process, job.parts, rng.integers(1, len(job.repeats) // 2 + 1))
    process.send_signal(signal.SIGINT)
    wait_until_taken(process, signal.SIGINT)
    process.send_signal(signal.SIGINT)
    stdout, stderr = wait_for_end(process, 0.5)
    assert process.returncode == INTERRUPTED
    check_what_is_left(job, stdout, stderr, at_once=True)
    job.resume()


@pytest.mark.parametrize(
    "device, variant, side, wait_s",
    [("cpu", "cpu", 2048, 0), pytest.param("cuda", "naive", 32768, 8, marks=pytest.mark.gpu)],
)
def test_a_launch_is_not_waited_for(folder, rng, device, variant, side, wait_s):
    """Many seconds of a kernel; the signal waits a moment for its end. Nothing was finished, so nothing is left."""
    path = harness.write_job(
        folder / "job.yaml",
        device=device,
        inputs={"a": {"random": {"shape": [side, side]}}},
        operations=[{"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": [variant], "verify": "none"}],
    )
    for number in rng.permutation(SIGNALS)[:2]:
        process = harness.start("run", path, "-o", folder / "out.h5")
        wait_until_begun(process, folder / "out.h5.parts")
        while device == "cpu" and processor_seconds(process) < 1:  # more than all before the launch takes
            time.sleep(0.01)
        time.sleep(wait_s)
        sent = time.monotonic()
        process.send_signal(number)
        stdout, stderr = wait_for_end(process)
        assert time.monotonic() - sent >= 0.6
        assert process.returncode == INTERRUPTED
        assert "interrupted: 0 of 1 runs are done" in stderr and re.search("interrupted: .*a signal came first", stdout)
        assert sorted(path.name for path in folder.iterdir()) == ["job.yaml"]


def test_interrupted_repeats_are_no_result(folder):
    """A run whose repeats are not all there is not one of fewer repeats."""
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [64, 64]}}},
        operations=[
            {"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], "repeat": 10**6},
            {"id": "s", "op": "scale", "inputs": ["p"]},
        ],
    )
    process = harness.start("run", path, "-o", folder / "out.h5", "--json")
    wait_until_begun(process, folder / "out.h5.parts")
    process.send_signal(signal.SIGTERM)
    stdout, stderr = wait_for_end(process, 0.6)  # without the watch: repeats are short
    assert process.returncode == INTERRUPTED
    assert [row["status"] for row in json.loads(stdout)] == ["interrupted"] * 2
    assert "interrupted: 0 of 2 runs are done" in stderr
    assert sorted(path.name for path in folder.iterdir()) == ["job.yaml"]


def test_a_job_file_that_does_not_come(folder):
    """A signal while the job is still being read."""
    process = harness.start("run", "/dev/stdin", "-o", folder / "out.h5", stdin=subprocess.PIPE)
    wait_until_heeded(process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert process.returncode == INTERRUPTED
    assert process.communicate()[1] == "tilerun: interrupted before the first run\n"
    assert not list(folder.iterdir())


def test_readers_that_do_not_read(folder, rng):
    """Pipes that are full hold up the job, not its end."""
    job = many_runs(folder, rng) | {"parameters": {"n": list(range(1, 99))}}
    path = harness.write_job(folder / "job.yaml", device="cpu", **job)
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    command = [harness.TILERUN, "run", path, "-o", folder / "out.h5", "--progress", "plain"]
    process = subprocess.Popen(command, stdout=write, stderr=write)
    wait_until_heeded(process)
    held, still = 0, 0
    while still < 20:  # lines are shorter than what is left of the pipe
        time.sleep(0.02)
        before, held = held, struct.unpack("i", fcntl.ioctl(read, termios.FIONREAD, b"    "))[0]
        still = still + 1 if held == before > 3500 else 0
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    wait_for_end(process)
    assert process.returncode == INTERRUPTED
    assert "interrupted" not in os.read(read, 10**6).decode()  # the pipe was full
    os.close(read)
    os.close(write)
