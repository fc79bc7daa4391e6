"""`timeout` and `retries`: a run that takes too long ends, by itself or with its process, and the others are done; a
run whose files fail is tried again; neither changes what is right."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import faults
import harness
from harness import INTERRUPTED, IO, OK, RUN, USAGE

CASES = int(os.environ.get("TILERUN_CASES", "6"))
SEED = int(os.environ.get("TILERUN_SEED", 0)) or random.randrange(1 << 30)

VECTOR = {"v": {"random": {"shape": [4000]}}}
shim = faults.shim
needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


def reduce(name, **options):
    return {"id": name, "op": "reduce", "inputs": ["v"], "operator": "sum", "axis": "all", **options}


def run(folder, *arguments, operations, inputs=VECTOR, expect=OK, env=None, **job):
    path = harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=operations, **job)
    return harness.tilerun("run", path, "-o", folder / "out.h5", *arguments, env=env, expect=expect)


def statuses(folder):
    return {row["operation"]: row["status"] for row in harness.Results(folder / "out.h5").rows}


def test_endless_repeats(tmp_path):
    """The run's row has the status, no times and no samples; the others are done; all commands know it."""
    endless = reduce("endless", repeat=1000000000, timeout="300ms")
    run(tmp_path, operations=[endless, reduce("after", timeout="none")], defaults={"timeout": "1h"}, expect=RUN)
    results = harness.Results(tmp_path / "out.h5")
    assert statuses(tmp_path) == {"endless": "timeout", "after": "ok"}
    row = results.row("endless")
    assert row["timeout_s"] == 0.3 and row["tries"] == 1 and row["kernel_median_s"] != row["kernel_median_s"]
    assert results.row("after")["timeout_s"] != results.row("after")["timeout_s"]
    out = tmp_path / "out.h5"
    shown = json.loads(harness.tilerun("show", out, "--where", "status=timeout", "--json").stdout)
    assert [row["operation"] for row in shown] == ["endless"]
    assert harness.tilerun("compare", out, out).returncode == OK
    assert harness.tilerun("report", out, "-o", tmp_path / "page.html").returncode == OK
    assert "timeout" in (tmp_path / "page.html").read_text()


def test_a_longer_timeout_is_tried_again(tmp_path):
    def with_timeout(text, expect):
        operations = [reduce("before"), reduce("long", repeat=400, timeout=text)]
        return run(tmp_path, "--resume", operations=operations, expect=expect)

    with_timeout("20ms", RUN)
    assert statuses(tmp_path) == {"before": "ok", "long": "timeout"}
    for text in ("20ms", "10ms"):
        assert with_timeout(text, RUN).stderr.count("kept from before") == 2
    assert "kept from before" in with_timeout("1h", OK).stderr
    assert statuses(tmp_path) == {"before": "ok", "long": "ok"}


HANG = """#include "tilerun.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static int launches;
static void note(void) {
    FILE *pids = fopen("pids", "a");
    fprintf(pids, "%%d\\n", getpid());
    fclose(pids);
}
int hang(const struct launch *launch) {
    const struct scale_args *args = &launch->args.scale;
    for (int64_t i = 0; i < args->count; i++) ((T *)args->y)[i] = ((const T *)args->x)[i];
    %s
    return 0;
}
"""
LATER = HANG % "while (launches++ > 0) pause();"
ENDLESS = ["for (;;) note(), pause();", "for (;;) note(), raise(SIGSTOP);", "fork(), note(); for (;;) continue;"]
FIRST, LAST = reduce("first"), reduce("last")
HUNG = {"id": "hung", "op": "scale", "inputs": ["v"], "variants": [{"source": "hang.c"}], "timeout": "500ms"}


def run_hung(folder, *arguments, **options):
    return run(folder, *arguments, "--allow-source", operations=[FIRST, HUNG, LAST], **options)


@needs_compiler
@pytest.mark.parametrize("body", ENDLESS)
def test_a_first_launch_that_does_not_end(tmp_path, monkeypatch, body):
    """It ends alone, with what it forked."""
    (tmp_path / "hang.c").write_text(HANG % body)
    monkeypatch.chdir(tmp_path)
    run_hung(tmp_path, expect=RUN)
    assert statuses(tmp_path) == {"first": "ok", "hung": "timeout", "last": "ok"}
    assert_ended(tmp_path / "pids")


MINUTE = """#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) { /* twenty times as fast */
    int code = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_MONOTONIC) now->tv_sec = now->tv_sec * 20 + now->tv_nsec / 50000000, now->tv_nsec = 0;
    return code;
}
"""


def preload_minute(folder):
    (folder / "minute.c").write_text(MINUTE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "minute.so", "minute.c"], cwd=folder, check=True)
    return os.environ | {"LD_PRELOAD": str(folder / "minute.so")}


@needs_compiler
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_constructor_that_does_not_return(tmp_path, interrupted):
    """Nothing runs: after a minute, or a signal, the message names the source."""
    begin = "__attribute__((constructor)) static void begin(void) { note(), pause(); }\n"
    (tmp_path / "hang.c").write_text((HANG % "").replace("int hang(", begin + "int hang("))
    path = harness.write_job(tmp_path / "job.yaml", device="cpu", inputs=VECTOR, operations=[FIRST, HUNG])
    env = os.environ if interrupted else preload_minute(tmp_path)
    process = harness.start("run", path, "-o", tmp_path / "out.h5", "--allow-source", cwd=tmp_path, env=env)
    while interrupted and not (tmp_path / "pids").exists():
        assert process.poll() is None
        time.sleep(0.01)
    if interrupted:
        process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    why = "interrupted while its code was loaded" if interrupted else "did not load in 60 s: a constructor does not"
    assert process.returncode == (INTERRUPTED if interrupted else USAGE) and f"{why}" in said and "hang.c:" in said, said
    assert_ended(tmp_path / "pids")


@needs_compiler
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("body", ENDLESS)
def test_a_first_launch_without_a_timeout(tmp_path, body, number):
    """After a minute a line says so; a signal ends the job, and leaves no process."""
    (tmp_path / "hang.c").write_text(HANG % body)
    operations = [FIRST, HUNG | {"timeout": "none"}]
    path = harness.write_job(tmp_path / "job.yaml", device="cpu", inputs=VECTOR, operations=operations)
    env = preload_minute(tmp_path)
    process = harness.start("run", path, "-o", tmp_path / "out.h5", "--allow-source", cwd=tmp_path, env=env)
    line = next(line for line in process.stderr if "has not returned from its first launch for 1 min" in line)
    assert line.startswith("tilerun: kernel 'hang'") and "`timeout: 30s`" in line
    process.send_signal(number)
    assert process.communicate(timeout=10) and process.returncode == INTERRUPTED
    assert_ended(tmp_path / "pids")


def assert_ended(pids):
    """None of these processes is there any more, unless as a zombie that nobody has waited for."""
    stats = [Path(f"/proc/{pid}/stat") for pid in pids.read_text().split()]
    deadline = time.monotonic() + 5
    while left := [stat for stat in stats if stat.exists() and stat.read_text().split()[2] != "Z"]:
        assert time.monotonic() < deadline, left


@needs_compiler
def test_a_later_launch_that_does_not_end(tmp_path):
    """It ends with its process; --resume does the rest, and does not begin it again before its source is mended."""
    (tmp_path / "hang.c").write_text(LATER)
    run_hung(tmp_path, "--only", "first")
    done = run_hung(tmp_path, "--resume", "--json", expect=INTERRUPTED)
    assert [row["status"] for row in json.loads(done.stdout)] == ["ok", "timeout", "interrupted"]
    assert "--resume continues with the others" in done.stderr
    for _ in range(2):
        run_hung(tmp_path, "--resume", expect=RUN)
        assert statuses(tmp_path) == {"first": "ok", "hung": "timeout", "last": "ok"}
    (tmp_path / "hang.c").unlink()
    harness.quiet("new-kernel", "scale", "hang.c", cwd=tmp_path)
    run_hung(tmp_path, "--resume", "--overwrite")
    assert statuses(tmp_path) == {"first": "ok", "hung": "ok", "last": "ok"}


@needs_compiler
def test_a_shard_that_hangs(tmp_path):
    (tmp_path / "hang.c").write_text(LATER)
    arguments = ("--shard", "0/1", "--by", "runs")
    run_hung(tmp_path, *arguments, expect=INTERRUPTED)
    run_hung(tmp_path, *arguments, "--resume", expect=RUN)
    assert harness.tilerun("merge", tmp_path / "out.h5", "--allow-source").returncode == RUN
    assert statuses(tmp_path) == {"first": "ok", "hung": "timeout", "last": "ok"}


def test_what_depends_on_it_is_skipped(tmp_path):
    late = reduce("late", repeat=1000000000, timeout="50ms")
    reads = {"id": "reads", "op": "scale", "inputs": ["late"]}
    run(tmp_path, operations=[late | {"axis": 0}, reads], expect=RUN)
    assert statuses(tmp_path) == {"late": "timeout", "reads": "skipped"}


@pytest.mark.parametrize("retries", [0, 1])
def test_a_write_that_fails_once(tmp_path, shim, retries):
    """Of some drawn writes one fails. A run that was under way is done again, with the same bits."""
    print("seed", SEED)
    draw = random.Random(SEED + retries)
    job = {
        "operations": [reduce("total"), {"id": "twice", "op": "scale", "inputs": ["v"], "alpha": 2}],
        "defaults": {"retries": retries, "repeat": 2},
    }
    whole = tmp_path / "whole"
    whole.mkdir()
    run(whole, **job)
    wanted = harness.Results(whole / "out.h5").everything()
    repeated = 0
    for case in range(CASES):
        folder = tmp_path / str(case)
        folder.mkdir()
        env = faults.environment(shim, folder / "count", "write", draw.randrange(1, 9), "once", errno.EIO)
        path = harness.write_job(folder / "job.yaml", device="cpu", inputs=VECTOR, **job)
        done = harness.tilerun("run", path, "-o", folder / "out.h5", env=env)
        tried = done.stderr.count("try 1 of 2 failed")
        repeated += tried > 0
        if done.returncode == OK:
            rows = harness.Results(folder / "out.h5").rows
            assert sum(row["tries"] - 1 for row in rows) == tried
            found = harness.Results(folder / "out.h5").everything()
            assert all((found[name] == wanted[name]).all() for name in wanted)
        else:
            assert done.returncode == IO and not tried, done.stderr
    assert (repeated > 0) == (retries > 0)


def test_a_read_that_fails_once(tmp_path, shim):
    """Any of the reads of an input, which is packed in chunks."""
    print("seed", SEED)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        values = np.random.default_rng(SEED).normal(size=(600, 300))
        file.create_dataset("x", data=values, chunks=(50, 300), compression="gzip")
    inputs = {"v": {"file": "x.h5", "dataset": "/x"}}
    job = {"inputs": inputs, "operations": [reduce("total")], "defaults": {"retries": 1, "repeat": 1, "warmup": 0}}
    path = harness.write_job(tmp_path / "job.yaml", device="cpu", **job)

    def attempt(nth):
        env = faults.environment(shim, tmp_path / "count", "read", nth, "once", errno.EIO) | {"FAULT_PATH": "x.h5"}
        done = harness.tilerun("run", path, "-o", tmp_path / "out.h5", "--overwrite", env=env)
        return done, harness.Results(tmp_path / "out.h5").row("total") if done.returncode == OK else None

    attempt(0)
    count = int((tmp_path / "count").read_text())
    wanted = harness.Results(tmp_path / "out.h5").output("total")
    repeated = 0
    for nth in sorted(random.Random(SEED).sample(range(1, count + 1), min(count, 2 * CASES))):
        done, row = attempt(nth)
        tried = "try 1 of 2 failed" in done.stderr
        repeated += tried
        assert not tried or (row and row["tries"] == 2), done.stderr
        assert not row or harness.Results(tmp_path / "out.h5").output("total") == wanted
    assert repeated


def test_retries_end(tmp_path, shim):
    env = faults.environment(shim, tmp_path / "count", "write", 4, "all", errno.EIO)
    done = run(tmp_path, operations=[reduce("total")], defaults={"retries": 2}, expect=IO, env=env)
    assert [f"try {n} of 3 failed" in done.stderr for n in (1, 2, 3)] == [True, True, False]


def test_a_wrong_result_is_not_tried_again(tmp_path):
    inputs = {"A": {"random": {"shape": [100, 100], "distribution": "normal"}}}
    wrong = {"id": "wrong", "op": "matmul", "inputs": ["A", "A"], "tolerance": 0, "verify": "full"}
    done = run(tmp_path, operations=[wrong], inputs=inputs, defaults={"retries": 3}, expect=RUN)
    assert "try 1" not in done.stderr
    assert harness.Results(tmp_path / "out.h5").row("wrong")["tries"] == 1


@pytest.mark.parametrize("value", ["10", "0s", "-1s", "1h30min", "5sec", "10m", "[1s]", "soon", "1e400s", ".s"])
def test_durations_that_are_none(tmp_path, value):
    job = tmp_path / "job.yaml"
    job.write_text(
        "version: 1\ninputs: {v: {random: {shape: [4]}}}\noperations:\n"
        f"  - {{id: a, op: scale, inputs: [v], timeout: {value}}}\n"
    )
    done = harness.tilerun("check", job)
    assert done.returncode == USAGE and f"{job}:4:" in done.stderr + done.stdout
