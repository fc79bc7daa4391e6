"""`tilerun profile`: one launch under a profiler, which a script stands in for; the report and its hash are recorded."""

import hashlib
import os
import stat
import sys

import h5py
import pytest

from harness import OK, RUN, USAGE, Results, tilerun, write_job

# Does what perf does with its options: switched on and off by a pipe, it answers, and leaves a report of its orders.
PERF = """import os, re, subprocess, sys
words = sys.argv[1:]
orders, answers = map(int, re.search(r"--control=fd:(\\d+),(\\d+)", " ".join(words)).groups())
assert words[0] == "record" and "--delay=-1" in words
report, begin = words[words.index("-o") + 1], words.index("-o") + 2
pid = os.fork()
if pid == 0:
    os.execv(words[begin], words[begin:])
seen = []
while len(seen) < 2:
    seen.append(os.read(orders, 100).decode())
    os.write(answers, b"ack\\n")
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
open(report, "w").write("".join(seen) + str(code))
"""
NCU = """import subprocess, sys
words = sys.argv[1:]
begin = words.index("-o") + 2
code = subprocess.run(words[begin:]).returncode
open(words[begin - 1], "w").write(" ".join(words[:begin]) + str(code))
"""


def install(folder, name, text):
    tool = folder / "bin" / name
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(f"#!{sys.executable}\n{text}")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}


def job(folder, **more):
    return write_job(
        folder / "job.yaml",
        parameters={"n": [200, 300]},
        inputs={"x": {"random": {"shape": ["$n", 70]}}},
        operations=[
            {"id": "s", "op": "scale", "inputs": ["x"], "alpha": 2, "variants": ["cpu"]},
            {"id": "t", "op": "transpose", "inputs": ["s"], "variants": ["cpu", "naive", "blocked"], "repeat": 5} | more,
        ],
    )


def check_record(folder, report, name="t.blocked.profile.h5"):
    results = folder / name
    with h5py.File(results) as file:
        assert file.attrs["profile"] == str(report.resolve())
        assert file.attrs["profile_sha256"] == hashlib.sha256(report.read_bytes()).hexdigest()
        assert file.attrs["status"] == "complete"
    rows = Results(results).rows
    assert [(row["operation"], row["status"], row["repeats"]) for row in rows] == [("s", "ok", 1), ("t", "ok", 1)]
    assert not list(folder.glob("*.running*"))


def test_one_launch_on_the_cpu(tmp_path):
    path, environment = job(tmp_path), install(tmp_path, "perf", PERF)
    words = ["profile", path, "t:blocked", "--set", "n=200"]
    done = tilerun(*words, env=environment, cwd=tmp_path, expect=OK)
    report = tmp_path / "t.blocked.profile.perf.data"
    assert report.read_text() == "enable\ndisable\n0"
    assert hashlib.sha256(report.read_bytes()).hexdigest() in done.stdout
    check_record(tmp_path, report)
    again = tilerun(*words, env=environment, cwd=tmp_path)
    assert again.returncode == USAGE and "--overwrite" in again.stderr
    assert tilerun(*words, "--overwrite", env=environment, cwd=tmp_path).returncode == OK
    tilerun(*words, "-o", "named.h5", env=environment, cwd=tmp_path, expect=OK)
    check_record(tmp_path, tmp_path / "named.perf.data", "named.h5")


@pytest.mark.gpu
def test_one_launch_on_a_gpu(tmp_path):
    path, environment = job(tmp_path), install(tmp_path, "ncu", NCU)
    tilerun("profile", path, "t:naive", "--set", "n=200", env=environment, cwd=tmp_path, expect=OK)
    report = tmp_path / "t.naive.profile.ncu-rep"
    assert "--profile-from-start off" in report.read_text() and report.read_text().endswith("0")
    check_record(tmp_path, report, "t.naive.profile.h5")


def test_without_a_profiler(tmp_path):
    done = tilerun(
        "profile", job(tmp_path), "t:cpu", "--set", "n=200", env={"PATH": str(tmp_path)}, cwd=tmp_path, expect=OK
    )
    assert "no perf in PATH" in done.stderr and "profile" in done.stderr and "--here" in done.stderr
    assert not list(tmp_path.glob("*.h5"))


@pytest.mark.parametrize(
    "name, words",
    [
        ("t", "is not a run"),
        (":cpu", "is not a run"),
        ("t:cpu", "matches 2 runs"),
        ("t:none", "no such variant"),
        ("none:cpu", "none"),
    ],
)
def test_what_is_no_run(tmp_path, name, words):
    done = tilerun("profile", job(tmp_path), name, env=install(tmp_path, "perf", PERF), cwd=tmp_path)
    assert done.returncode == USAGE and words in done.stderr
    assert not list(tmp_path.glob("*.h5"))


def test_a_gpu_variant_without_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = tilerun("profile", job(tmp_path), "t:naive", "--set", "n=200", cwd=tmp_path)
    assert done.returncode == USAGE and "cannot run here" in done.stderr


def test_a_wrong_run_is_not_recorded(tmp_path):
    (tmp_path / "mine.c").write_text('#include "tilerun.h"\nint mine(const struct launch *launch) { return 0; }\n')
    path, environment = job(tmp_path, variants=["cpu", {"source": "mine.c"}]), install(tmp_path, "perf", PERF)
    words = ["profile", path, "t:mine", "--set", "n=200"]
    refused = tilerun(*words, env=environment, cwd=tmp_path)
    assert refused.returncode == USAGE and "--allow-source" in refused.stderr
    done = tilerun(*words, "--allow-source", env=environment, cwd=tmp_path)
    assert done.returncode == RUN and "is wrong" in done.stderr
    assert not (tmp_path / "t.mine.profile.h5").exists()


@pytest.mark.parametrize("where", ["job.yaml", "taken.h5"])
def test_places(tmp_path, where):
    path = job(tmp_path)
    (tmp_path / "taken.h5").write_text("mine")
    before = (tmp_path / where).read_text()
    done = tilerun("profile", path, "t:cpu", "--set", "n=200", "-o", where, cwd=tmp_path)
    assert done.returncode == USAGE and (tmp_path / where).read_text() == before
