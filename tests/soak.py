#!/usr/bin/env python3
"""Random jobs, one after another, with all checks on, for as long as asked: `make soak HOURS=2 SEED=7`.

    soak.py TILERUN HOURS [SEED [ROUND]]      ROUND: that one alone, as a failure names it

A round is one of four, each comes at least once: a drawn job, on the GPU where there is one; variants on drawn shapes
(test_kernels_random, if it lies in tests/ beside TILERUN); a job that is interrupted and continued until it is done;
and a job of hundreds to thousands of runs alike in one process that is watched: its memory, its open files, its
temporary files, the memory of the GPU. What it needs it has after a third of the runs; a leak is what is higher in each
quarter of the rest than in the one before, and grows by more than a run may keep. After each round nothing may lie
where it does not belong. Exits with 1 where something failed or grew."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TILERUN"] = sys.argv[1]
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.insert(0, str(Path(__file__).parent / "e2e"))
import drawn_jobs  # noqa: E402 (it and harness read TILERUN)
import h5py  # noqa: E402
import harness  # noqa: E402
import numpy as np  # noqa: E402
from harness import INTERRUPTED, OK  # noqa: E402

SECONDS, SEED = 3600 * float(sys.argv[2]), int((sys.argv[3:] or ["1"])[0])
HAS_GPU = any(line.startswith("cuda:") for line in harness.tilerun("devices").stdout.splitlines())
# What a run may leave behind: its row and names stay until the end, 140 bytes, on pages that nobody had touched; 1,200
# bytes a run were seen.
KEPT = {"memory": 4096, "handles": 0, "temporary files": 0, "GPU memory": 0}
SIDE = 64


class Failure(Exception):
    pass


def expect(good, *words):
    if not good:
        raise Failure(" ".join(map(str, words)))


# ---- the jobs ------------------------------------------------------------------------------------------------------


def run_of(folder, *more):
    return ["run", folder / "job.yaml", "-o", folder / "out.h5", *more]


def check_results(folder):
    """Everything is there and right, and nothing else."""
    rows = harness.Results(folder / "out.h5").rows
    expect(all(row["status"] == "ok" for row in rows), [row for row in rows if row["status"] != "ok"][:3])
    left = [str(path) for path in folder.rglob("*") if path.suffix == ".tmp" or ".parts" in str(path)]
    expect(not left, "left behind:", left[:5])
    return len(rows)


def use_gpu(job):
    """A job for the CPU becomes one for the GPU."""
    for operation in job["operations"]:
        operation.pop("variants", None)
    return {**job, "device": "cuda"}


def drawn(folder, draw, left):
    path = drawn_jobs.write(folder, draw, huge=draw.randrange(20) == 0, to=draw.randrange(3) == 0)
    if HAS_GPU and draw.randrange(4):
        job = harness.json.loads(path.read_text())
        del job["version"]
        harness.write_job(path, **use_gpu(job))
    for command in (run_of(folder), run_of(folder, "--resume"), ["show", folder / "out.h5"]):
        done = harness.tilerun(*command)
        expect(done.returncode == OK, command[0], done.stderr[-2000:])
    return check_results(folder)


def kernels(folder, draw, left):
    program = Path(sys.argv[1]).parent / "tests/test_kernels_random"
    if not program.exists():
        return 0
    terms = {"TILERUN_SEED": str(draw.randrange(1 << 30)), "TILERUN_CASES": "20" if left < 60 else "200"}
    done = subprocess.run([program], capture_output=True, text=True, env=os.environ | terms)
    expect(done.returncode == 0, terms, done.stdout[-2000:], done.stderr[-2000:])
    return sum(map(int, re.findall(r"(\d+) runs of", done.stdout)))


def alike(folder, draw, count):
    """A job of so many runs, each like the others: a sweep, or a chain."""
    with h5py.File(folder / "in.h5", "w") as file:
        values = np.random.default_rng(1).random((SIDE, SIDE))
        file.create_dataset("x", data=values, chunks=(16, SIDE), compression="gzip")
    inputs = {"x": draw.choice([{"random": {"shape": [SIDE, SIDE]}}, {"file": "in.h5", "dataset": "x"}])}
    kind = draw.choice(["scale", "matmul", "chain"])
    options = {"store": draw.choice(["none", "first", "all"]), "variants": ["cpu"]}
    options |= draw.choice([{}, {"compression": "gzip"}]) if options["store"] != "none" else {}
    job = {"device": "cpu", "sync": False, "memory": "1MiB", "inputs": inputs}
    job["defaults"] = {"warmup": 0, "repeat": draw.choice([1, 3])}
    if kind == "chain":
        names = ["x", *(f"y{number}" for number in range(count))]
        job["operations"] = [
            {"id": name, "op": "transpose", "inputs": [before], **options} for before, name in zip(names, names[1:])
        ]
    else:
        operands = ["x"] * (2 if kind == "matmul" else 1)
        job["parameters"] = {"a": list(range(1, count + 1))}
        job["operations"] = [{"id": "y", "op": kind, "inputs": operands, "alpha": "$a", **options}]
    harness.write_job(folder / "job.yaml", **(use_gpu(job) if HAS_GPU and draw.randrange(4) else job))


def resumed(folder, draw, left):
    alike(folder, draw, 100 if left < 60 else 1000)
    for _ in range(8):
        process = harness.start(*run_of(folder, "--resume", "--progress", "none"))
        for _ in range(4):
            time.sleep(draw.uniform(0, 0.3))
            process.send_signal(signal.SIGTERM)
            if draw.randrange(2):
                break
        said, code = process.communicate()[1], process.returncode
        expect(code in (OK, INTERRUPTED, -signal.SIGTERM), said[-2000:])  # the last: before it could listen
        unfinished = list(folder.rglob("*.tmp"))
        expect(not unfinished, "left behind:", unfinished[:5])
        if code == OK:
            break
    done = harness.tilerun(*run_of(folder, "--resume", "--progress", "none"), timeout=600)
    expect(done.returncode == OK, done.stderr[-2000:])
    return check_results(folder)


# ---- the job that is watched ---------------------------------------------------------------------------------------


def look(process, folder):
    """What the process holds now; None: it is about to end."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
        handles = len(os.listdir(f"/proc/{process.pid}/fd"))
        temporary = sum(name.endswith(".tmp") for name in os.listdir(folder / "out.h5.parts"))
    except OSError:
        return None
    memory = re.search(r"RssAnon:\s+(\d+)", status)
    found = {"memory": int(memory[1]) << 10, "handles": handles, "temporary files": temporary} if memory else None
    if found and HAS_GPU:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # others may use the other GPUs
        asked = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits",
                                *([f"--id={visible}"] if visible else [])], capture_output=True, text=True)  # fmt: skip
        found["GPU memory"] = sum(map(int, asked.stdout.split())) << 20
    return found


def growth(samples, name):
    """Of (run, what is held): how much a run adds, and whether that never ends."""
    first, last = samples[0][0], samples[-1][0]
    warm = [(run, held[name]) for run, held in samples if run >= first + (last - first) / 3]
    begin, length = warm[0][0], (last - warm[0][0]) / 4
    quarters = [[held for run, held in warm if begin + q * length <= run <= begin + (q + 1) * length] for q in range(4)]
    expect(all(quarters), "too few samples:", len(warm))
    peaks = [max(quarter) for quarter in quarters]
    slope = (peaks[3] - peaks[0]) / (3 * length)
    return slope, slope > KEPT[name] and all(later > earlier for earlier, later in zip(peaks, peaks[1:]))


slopes = {}  # the steepest of each that was seen


def watched(folder, draw, left):
    alike(folder, draw, max(4000 if HAS_GPU else 500, min(4096, int(left * 50))))
    command = [sys.argv[1], *run_of(folder, "--progress", "plain")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    samples, said, pause, due = [], "", 0.1 if HAS_GPU else 0.005, 0
    for line in process.stderr:
        number = re.match(r"\[(\d+)/", line)
        said += "" if number else line
        if number and time.monotonic() >= due and (held := look(process, folder)):
            samples.append((int(number[1]), held))
            due = time.monotonic() + pause
    expect(process.wait() == OK, said[-2000:])
    runs = check_results(folder)
    for name in samples[0][1] if len(samples) > 20 else []:
        slope, grows = growth(samples, name)
        slopes[name] = max(slope, slopes.get(name, slope))
        expect(not grows, f"{name} grows by {slope:.3g} a run")
    return runs


# ---- all of it -----------------------------------------------------------------------------------------------------

ROUNDS = [watched, resumed, kernels, drawn]


def play(number, left):
    """Returns how many runs there were; -1: it failed, and said why."""
    draw = random.Random(f"{SEED}/{number}")
    kind = ROUNDS[number] if number < len(ROUNDS) else draw.choice([*ROUNDS, drawn, drawn, drawn])
    scratch = Path(tempfile.mkdtemp(prefix="tilerun-soak-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    os.environ["TMPDIR"] = str(scratch / "tmp")
    folder = scratch / "job"
    for path in (folder, scratch / "tmp"):
        path.mkdir()
    try:
        runs = kind(folder, draw, left)
        expect(not os.listdir(scratch / "tmp"), "left in TMPDIR:", os.listdir(scratch / "tmp"))
        return runs
    except (Failure, AssertionError, OSError, subprocess.TimeoutExpired) as why:
        print(f"soak: SEED={SEED} ROUND={number} ({kind.__name__}): {why}", flush=True)
        return -1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main():
    begin, number, runs, failures = time.monotonic(), 0, 0, 0
    alone = int(sys.argv[4]) if len(sys.argv) > 4 else None
    while (left := begin + SECONDS - time.monotonic()) > 0 or number < len(ROUNDS):
        done = play(number if alone is None else alone, left)
        failures, runs, number = failures + (done < 0), runs + max(0, done), number + 1
        if alone is not None:
            break
    units = {name: " bytes" if "memory" in name else "" for name in KEPT}
    added = ", ".join(f"{name} {value:+.2g}{units[name]}" for name, value in slopes.items()) or "not watched"
    seconds = time.monotonic() - begin
    print(f"soak: {number} jobs, {runs} runs, {failures} failures in {seconds:.0f} s; most that a run added: {added}")
    return failures > 0


sys.exit(main())
