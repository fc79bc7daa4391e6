"""Signals in the first milliseconds of a process, HUP, and a home that is missing."""

import os
import random
import re
import signal
import subprocess
import time

import pytest

import harness
from harness import INTERRUPTED, OK
from test_signals import wait_until_begun

SIGNALS = [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP]


def block(number, send):
    """As a scheduler's child: the signal waits from before exec, when no program can have handlers yet."""
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    if send:
        os.kill(os.getpid(), number)


def write_job(folder, repeat=1, size=200):
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        sync=False,
        inputs={"a": {"random": {"shape": [size, size]}}},
        operations=[{"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], "repeat": repeat}],
    )


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", ["run", "merge", "reproduce"])
def test_signals_at_the_start(tmp_path, command, number):
    """Drawn delays of 0 to 50 ms: the code is 75, or 0 if the work was done by then; a new try goes through."""
    job = write_job(tmp_path, repeat=20)
    words = ["run", job, "-o", "out.h5", "--resume"]
    if command == "reproduce":
        assert harness.tilerun("run", job, "-o", "base.h5", cwd=tmp_path).returncode == OK
        before = (tmp_path / "base.h5").read_bytes()
        words = ["reproduce", "base.h5"]
    if command == "merge":
        harness.tilerun("run", job, "-o", "out.h5", "--shard", "0/1", cwd=tmp_path, expect=OK)
        words = ["merge", "out.h5"]
    codes = []
    for delay in [None, *sorted(random.uniform(0, 0.05) for _ in range(3))]:
        process = harness.start(*words, cwd=tmp_path, preexec_fn=lambda: block(number, delay is None))
        if delay is not None:
            time.sleep(delay)
            process.send_signal(number)
        _, said = process.communicate(timeout=60)
        codes.append(process.returncode)
        assert process.returncode in (INTERRUPTED, OK), (delay, process.returncode, said)
        if process.returncode == INTERRUPTED:
            assert "interrupted" in said or signal.Signals(number).name in said, said
    if command != "merge":  # which may be done before its watcher sees the first signal
        assert codes[0] == INTERRUPTED
    done = harness.tilerun(*words, cwd=tmp_path)
    if command == "reproduce":  # times may differ
        assert done.returncode in (OK, harness.RUN), done.stderr
        assert (tmp_path / "base.h5").read_bytes() == before
        return
    assert done.returncode == OK, done.stderr
    assert [row["status"] for row in harness.Results(tmp_path / "out.h5").rows] == ["ok"]


def test_a_signal_ends_a_command_that_has_no_watcher(tmp_path):
    process = harness.start("check", "/dev/stdin", stdin=subprocess.PIPE, cwd=tmp_path)
    process.terminate()
    assert process.wait(timeout=60) == -signal.SIGTERM


def test_nohup(tmp_path):
    """HUP interrupts, unless it was ignored at the start: then TERM still does."""
    job = write_job(tmp_path, 1000, 900)
    for ignored in (True, False):
        process = harness.start(
            "run", job, "-o", f"{ignored}.h5", "--progress", "plain", cwd=tmp_path,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL),
        )  # fmt: skip
        wait_until_begun(process, tmp_path / f"{ignored}.h5.parts")
        process.send_signal(signal.SIGHUP)
        if ignored:  # it is gone as soon as it is sent
            process.terminate()
        _, said = process.communicate(timeout=60)
        assert process.returncode == INTERRUPTED and bool(re.search(r"SIGHUP|signal 1\b", said)) != ignored, said


@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME"])
def test_a_missing_home_stays_missing(tmp_path, name):
    environment = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    environment |= {"HOME": str(tmp_path / "gone"), "CUDA_VISIBLE_DEVICES": ""}
    if name == "XDG_CACHE_HOME":
        environment[name] = str(tmp_path / "gone/cache")
    done = harness.tilerun("devices", "--measure", env=environment)
    assert done.returncode == OK and f"cannot be stored in {tmp_path}/gone/" in done.stderr, done.stderr
    assert not (tmp_path / "gone").exists()
    done = harness.tilerun("devices", "--measure", env={"CUDA_VISIBLE_DEVICES": ""}, expect=OK)
    assert "cannot be stored: neither XDG_CACHE_HOME nor HOME is set" in done.stderr
