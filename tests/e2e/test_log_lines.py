"""A log that gets both stdout and stderr (`> log 2>&1`) holds whole lines in the order in which they were printed, and
begins with a line about the program, the time and the place."""

import collections
import os
import random
import re
import shutil
import subprocess

import pytest

import harness

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
FIRST = rf"tilerun \d+\.\d+\.\d+ \(\w+(-dirty)?\), {TIME}, node \S+, .* with \d+ cores"
SEED = int(os.environ.get("TILERUN_SEED", 1))


def logged(folder, kind, *arguments):
    """The lines of a command whose stdout and stderr are one file, pipe or terminal."""
    command = [str(word) for word in (harness.TILERUN, *arguments)]
    if kind == "pipe":
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        return done.stdout.decode().splitlines()
    log = folder / "log"
    with open(log, "wb") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=120)
    return log.read_text().splitlines()


@pytest.mark.parametrize("kind", ["file", "pipe"])
@pytest.mark.parametrize("case", range(3))
def test_run(tmp_path, kind, case):
    rng = random.Random(SEED * 100 + case)
    count = rng.choice([30, 100, 400])  # a table of several buffers
    operations = [
        {"id": f"long_{'x' * rng.randint(0, 45)}{i}", "op": "scale", "inputs": ["a"], "variants": ["cpu", "simple"]}
        for i in range(count)
    ]
    job = harness.write_job(
        tmp_path / "job.yaml", operations=operations, inputs={"a": {"random": {"shape": [8, 8]}}}
    )
    lines = logged(tmp_path, kind, "run", job, "-o", tmp_path / "out.h5", "--once")
    assert re.fullmatch(FIRST, lines[0]), lines[0]
    heading = next(number for number, line in enumerate(lines) if line.startswith("operation "))
    assert [line for line in lines if line.startswith("tilerun: wrote ")] == lines[-1:]
    progress = [line for line in lines if re.match(r"\[\d+/\d+\] ", line)]
    assert len(progress) == count and lines.index(progress[-1]) == heading - 1
    rows = lines[heading + 1 : heading + 1 + count]
    assert [row.split()[0] for row in rows] == [operation["id"] for operation in operations]
    assert all(row.endswith("ok") for row in rows)


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_long_commands(tmp_path, kind):
    """merge and reproduce begin a log as run does, once; --progress none leaves the line out."""
    job = harness.write_job(
        tmp_path / "job.yaml",
        inputs={"a": {"random": {"shape": [8, 8]}}},
        operations=[{"id": f"o{i}", "op": "scale", "inputs": ["a"]} for i in range(2)],
        output=str(tmp_path / "job.h5"),
    )
    for shard in range(2):
        lines = logged(tmp_path, kind, "run", job, "--shard", f"{shard}/2", "--once")
        assert re.fullmatch(FIRST + f", shard {shard} of 2", lines[0])
    for command in ("merge", "merge", "reproduce"):  # the second merge has nothing to do
        lines = logged(tmp_path, kind, command, tmp_path / "job.h5")
        assert [bool(re.fullmatch(FIRST, line)) for line in lines] == [True] + [False] * (len(lines) - 1), lines
        quiet = logged(tmp_path, kind, command, tmp_path / "job.h5", "--progress", "none")
        assert not any(re.match(FIRST, line) for line in quiet)


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_shown_and_refused(tmp_path, kind):
    lines = logged(tmp_path, kind, "show", harness.ROOT / "configs/seeds/results/s1-cpu.h5", "--where", "op=scale")
    assert lines and lines[-1] == "no run matches --where"
    lines = logged(tmp_path, kind, "run", tmp_path / "nowhere.yaml")
    assert len(lines) == 1 and "nowhere.yaml" in lines[0]


def test_separate_streams_have_no_first_line(tmp_path):
    inputs = {"a": {"random": {"shape": [8, 8]}}}
    operations = [{"id": "o", "op": "scale", "inputs": ["a"]}]
    job = harness.write_job(tmp_path / "job.yaml", inputs=inputs, operations=operations)
    done = harness.tilerun("run", job, "-o", tmp_path / "out.h5", "--once")
    assert done.stderr.startswith("[1/1] o ") and done.stdout.startswith("operation ")


# ---- every command, on files, pipes and terminals ------------------------------------------------------------------


def taken(folder, kind, width, apart, command):
    """The lines of stdout and those of stderr; `apart` false: of both together, as one list."""
    ends = []
    for name in ("out", "err") if apart else ("both",):
        if kind == "file":
            ends.append((open(folder / name, "wb"), lambda name=name: (folder / name).read_bytes()))
        elif kind == "pipe":
            reader, writer = os.pipe()
            ends.append((os.fdopen(writer, "wb"), os.fdopen(reader, "rb").read))
        else:
            terminal = harness.Terminal(width)
            follower = os.fdopen(os.dup(terminal.follower), "wb")
            ends.append((follower, lambda terminal=terminal: terminal.read(process)))
    streams = {"stdin": subprocess.DEVNULL, "stdout": ends[0][0], "stderr": ends[-1][0]}
    process = harness.start(*command, cwd=folder, **streams)
    for end, _ in ends:
        end.close()
    texts = [read() for _, read in ends] if kind != "file" else None  # while it runs: pipes are small
    process.wait(timeout=120)
    texts = texts or [read() for _, read in ends]
    return [text.replace(b"\r\n", b"\n").decode().splitlines() for text in texts]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A results file of many runs, and a job with a mistake."""
    folder = tmp_path_factory.mktemp("lines")
    rng = random.Random(SEED)
    operations = [
        {"id": f"o{i}_{'y' * rng.randint(0, 40)}", "op": "scale", "inputs": ["a"], "variants": ["cpu", "simple"]}
        for i in range(rng.choice([20, 90, 250]))
    ]
    inputs = {"a": {"random": {"shape": [8, 8]}}, "unread": {"random": {"shape": [8, 8]}}}
    harness.write_job(folder / "job.yaml", operations=operations, inputs=inputs)
    harness.write_job(folder / "bad.yaml", operations=[o | {"inputs": ["b"]} for o in operations], inputs=inputs)
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    harness.tilerun("run", "job.yaml", "-o", "out.h5", "--once", cwd=folder, env=environment, expect=harness.OK)
    shutil.copy(folder / "out.h5", folder / "other.h5")
    return folder


COMMANDS = ["show out.h5", "show out.h5 --md", "show out.h5 --json", "show out.h5 --csv", "compare out.h5 other.h5",
            "compare out.h5 other.h5 --csv", "compare out.h5 other.h5 --json", "check bad.yaml", "check job.yaml",
            "plan job.yaml --resolved", "plan bad.yaml", "list", "list matmul", "inspect out.h5", "show missing.h5",
            "show out.h5 --where op=none", "--help", "run --help", "compare", "run bad.yaml"]  # fmt: skip


@pytest.mark.parametrize("kind", ["file", "pipe", "pty"])
@pytest.mark.parametrize("command", COMMANDS)
def test_whole_lines(written, kind, command):
    """Both streams in one place have the lines that each has alone, whole and in their order."""
    width = random.Random(f"{SEED} {command}").randint(30, 300)
    out, err = taken(written, kind, width, True, command.split())
    (both,) = taken(written, kind, width, False, command.split())
    assert collections.Counter(both) == collections.Counter(out + err)
    for lines in (out, err):
        rest = iter(both)
        assert all(line in rest for line in lines)


def test_a_note_of_a_sweep_is_printed_once(tmp_path):
    operations = [{"id": name, "op": "transpose", "inputs": ["a"], "variants": ["tiled"]} for name in ("t", "u")]
    job = harness.write_job(tmp_path / "job.yaml", parameters={"n": [4, 5, 6]}, operations=operations,
                            inputs={"a": {"random": {"shape": ["$n", 3]}}})  # fmt: skip
    lines = logged(tmp_path, "file", "run", job, "-o", tmp_path / "out.h5", "--once", "--device", "cpu")
    notes = [line.split(":")[1] for line in lines if line.startswith("tilerun: ") and "runs on the" in line]
    assert notes == [" t", " u"], lines
