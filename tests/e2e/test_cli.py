"""The command line: help, hints, what goes to stdout and what to stderr, sweeps, and machine-readable output."""

import csv
import io
import json
import math
import os
import re
import resource
import subprocess
import time

import h5py
import numpy as np
import pytest

import harness
import tree
from harness import OK, USAGE, quiet

COMMANDS = ["run", "check", "plan", "list", "devices", "show", "report"]

JOB = """\
version: 1
name: small
device: cpu
parameters: {n: [4, 9], factor: 2}
inputs: {A: {random: {shape: [$n, 3]}}}
defaults: {repeat: 2, warmup: 0}
operations:
  - {id: gram, op: matmul, inputs: [A, A], transpose_b: true, variants: [cpu, blocked]}
  - {id: twice, op: scale, inputs: [gram], alpha: $factor}
  - {id: flipped, op: transpose, inputs: [A]}
"""


@pytest.fixture
def place(folder):
    (folder / "job.yaml").write_text(JOB)
    return folder


# ---- help and mistakes ---------------------------------------------------------------------------------------------


def test_help():
    said = quiet("--help")
    assert said == quiet("-h") and said.startswith("usage: tilerun COMMAND")
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\S", said, re.M)
    assert "75" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_commands(command):
    said = quiet(command, "--help")
    assert said.startswith(f"usage: tilerun {command}") and said == quiet(command, "-h") == quiet("help", command)


def test_version():
    assert re.fullmatch(r"tilerun \S+ \(\S+\)\n(no CUDA|CUDA \d+\.\d+), HDF5 \d+\.\d+\.\d+\n", quiet("--version"))


def test_nothing_asked():
    done = harness.tilerun()
    assert done.returncode == USAGE and done.stdout == "" and done.stderr == quiet("--help")


def test_double_dash(place):
    (place / "--overwrite").write_text(JOB)
    assert quiet("check", "--", "--overwrite", cwd=place) == ""
    done = harness.tilerun("run", "-o", "out.h5", "--", "--overwrite", cwd=place)
    assert done.returncode == OK and (place / "out.h5").exists()
    done = harness.tilerun("check", "--", "--help", cwd=place)
    assert done.returncode == USAGE and "--help: cannot be opened" in done.stderr


def test_options_after_operands(place, monkeypatch):
    monkeypatch.setenv("POSIXLY_CORRECT", "1")
    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", cwd=place)
    assert done.returncode == OK and (place / "out.h5").exists(), done.stderr


# ---- looking -------------------------------------------------------------------------------------------------------


def test_check(place):
    assert quiet("check", place / "job.yaml", place / "job.yaml") == ""
    (place / "bad.yaml").write_text(JOB.replace("transpose_b", "transposeb"))
    done = harness.tilerun("check", "job.yaml", "bad.yaml", cwd=place)
    assert done.returncode == USAGE and done.stdout == ""
    assert re.match(r"bad\.yaml:8:44: .*'transposeb'.*did you mean 'transpose_b'", done.stderr)
    assert list(place.glob("*.h5*")) == []


def test_plan(place):
    said = quiet("plan", "--detail", "job.yaml", cwd=place)
    assert re.search(r"^run 0  gram \(n=4\)  matmul cpu  4x4x3  on cpu$", said, re.M)
    assert said.count("\nrun ") + 1 == 8
    assert re.search(r"work +\S+ flop", said) and re.search(r"bound +\S+ s, by \w+", said)
    assert list(place.glob("*.h5*")) == []


def test_plan_of_a_job_for_other_gpus(place):
    """It can be looked at where there are none."""
    if tree.has_gpu():
        pytest.skip("there are some here")
    assert "twice" in quiet("plan", "--device", "cuda:99", "job.yaml", cwd=place)


def test_plan_adds_up(folder):
    """Tiles are the steps, buffers the memory, and the slowest stage is the bound."""
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        memory="1MiB",
        inputs={name: {"random": {"shape": [600, 600], "dtype": "bfloat16"}} for name in "ab"},
        operations=[
            {"id": "p", "op": "matmul", "inputs": ["a", "b"], "variants": ["cpu", "blocked"]},
            {"id": "s", "op": "reduce", "inputs": ["a"], "axis": 0, "operator": "sum"},
        ],
    )
    runs = re.split(r"^run \d+  ", quiet("plan", "--detail", path), flags=re.M)[1:]
    for run, size in zip(runs, ["600x600x600", "600x600x600", "600x600"], strict=True):
        title, tiles, work, memory, stages, bound = run.splitlines()
        assert f" {size}  on cpu" in title
        pieces = [math.ceil(int(whole) / int(tile)) for tile, whole in re.findall(r"(\d+)/(\d+)", tiles)]
        assert re.search(r", (\d+) steps?$", tiles)[1] == str(math.prod(pieces))
        flops = 2 * 600**3 if "matmul" in title else 600**2
        assert f" {flops:.3g} flop, " in work
        used, budget, *buffers = [float(number) * (1024 if unit == "MiB" else 1) for number, unit in
                                 re.findall(r"([\d.]+) ([KM])iB", memory.replace(" 1.0 MiB", " 1024 KiB"))]
        counts = [float(count) for count in re.findall(r"(\d+) x ", memory)] + [1, 1]
        assert used == pytest.approx(sum(map(math.prod, zip(counts, buffers))), abs=0.5) and used <= budget == 1024
        seconds = {name: float(number) for name, number in re.findall(r"(\w+) ([\d.e-]+) s", stages)}
        slowest = max(seconds, key=seconds.get)
        assert list(seconds) == ["read", "copy", "compute", "write"]
        assert re.match(rf" +bound +{seconds[slowest]:.3g} s, by {slowest}; predicted ", bound)
        assert float(bound.split()[-2]) >= seconds[slowest]


def test_plan_of_what_cannot_run(folder):
    operations = [{"id": "t", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "tiled"]}]
    path = harness.write_job(folder / "job.yaml", inputs={"a": {"random": {"shape": [8, 8]}}}, operations=operations)
    said = quiet("plan", "--detail", path, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
    assert re.search(r"^run 1  t  transpose tiled.*  on nothing\n    skipped   \S.*$", said, re.M), said
    assert said.count("skipped") == 1


def test_plan_resolved_is_a_job_that_gives_the_same(place):
    resolved = quiet("plan", "--resolved", "--set", "factor=5", place / "job.yaml")
    assert "factor: 5" in resolved and "defaults:" not in resolved and resolved.count("repeat: 2") == 3
    (place / "resolved.yaml").write_text(resolved)
    for job in ("job", "resolved"):
        arguments = ["--set", "factor=5"] if job == "job" else []
        harness.tilerun("run", f"{job}.yaml", "-o", f"{job}.h5", *arguments, cwd=place, expect=OK)
    first, second = (harness.Results(place / f"{job}.h5").everything() for job in ("job", "resolved"))
    assert [v.tobytes() for v in first.values()] == [v.tobytes() for v in second.values()]


# ---- running -------------------------------------------------------------------------------------------------------


def test_default_output_is_in_the_current_directory(place):
    (place / "here").mkdir()
    done = harness.tilerun("run", "../job.yaml", cwd=place / "here")
    assert done.returncode == OK and (place / "here/small.h5").exists() and not (place / "small.h5").exists()


def test_output_of_a_job_is_beside_the_job(place):
    (place / "sub").mkdir()
    (place / "sub/job.yaml").write_text(JOB + "output: ../result.h5\n")
    assert harness.tilerun("run", "sub/job.yaml", cwd=place).returncode == OK
    assert (place / "result.h5").exists()


def test_table(place):
    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", cwd=place)
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["operation", "parameters", "variant", "shape"]
    gram = r"gram +n=4 +cpu +4x4x3 +\S+ [um]s( (±|\+-)\S+%)? +\S+ GFLOP/s( +[\d.]+%)? +1\.00x "
    gram += r"+\S+ [um]?s +\S+ +([a-z]+ +)?ok"
    assert re.fullmatch(gram, lines[1]), lines[1]
    assert len([line for line in lines if line.endswith("ok")]) == 8 and " GB/s " in lines[8]
    assert done.stdout == quiet("show", "out.h5", cwd=place)


def test_progress_goes_to_stderr(place):
    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", cwd=place)
    lines = done.stderr.splitlines()
    assert len(lines) == 9 and re.match(r"\[1/8\] gram cpu n=4: ok, \S+ ms, error \S+", lines[0])
    assert lines[8] == f"tilerun: wrote out.h5 ({(place / 'out.h5').stat().st_size / 1024:.1f} KiB)"
    assert "[" not in done.stdout.splitlines()[0]
    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", "--overwrite", "--progress", "none", cwd=place)
    assert done.stderr == ""


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "xterm-256color"}])
def test_no_colour_without_a_terminal(place, environment):
    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", cwd=place, env={**os.environ, **environment})
    assert done.returncode == OK and "\033" not in done.stdout + done.stderr


def test_no_colour_on_a_terminal_when_asked(place):
    terminal = harness.Terminal(80)
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    ends = {"stderr": terminal.follower, "stdout": subprocess.DEVNULL}
    process = harness.start("run", "job.yaml", "-o", "out.h5", cwd=place, env=environment, **ends)
    shown = terminal.read(process)
    assert process.wait() == OK
    assert b"[1/8]" in shown or b"gram" in shown
    assert not re.search(rb"\033\[[0-9;]*m", shown)


def test_json_and_csv(place):
    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", "--json", cwd=place)
    rows = json.loads(done.stdout)
    assert rows == json.loads(quiet("show", "--json", "out.h5", cwd=place))
    table = list(csv.DictReader(io.StringIO(quiet("show", "--csv", "out.h5", cwd=place))))
    stored = harness.Results(place / "out.h5").rows
    assert len(rows) == len(table) == len(stored) == 8
    for from_json, from_csv, row in zip(rows, table, stored):
        assert list(from_json) == list(from_csv) == list(row)
        for name, value in row.items():
            if isinstance(value, float) and np.isnan(value):  # unknown: null in JSON and nothing in CSV
                assert from_json[name] is None and from_csv[name] == ""
                continue
            assert from_json[name] == value, name
            assert from_csv[name] == value if isinstance(value, str) else float(from_csv[name]) == value, name


def test_set_sweeps(place):
    harness.tilerun("run", "job.yaml", "-o", "out.h5", "--set", "factor=2,3,4", "--set", "n=5", cwd=place, expect=OK)
    results = harness.Results(place / "out.h5")
    factors = [f"n=5,factor={factor}" for factor in (2, 3, 4)]
    assert [r["parameters"] for r in results.rows] == ["n=5", "n=5", *factors, "n=5"]
    gram = results.output("n=5/gram")
    assert gram.shape == (5, 5)
    np.testing.assert_array_equal(results.output("n=5,factor=3/twice"), 3 * gram)
    with h5py.File(results.path) as file:
        outputs = [file[name].attrs for name in harness.dataset_names(file, "outputs")]
        labels = {(harness.text(o["operation"]), harness.text(o["parameters"])) for o in outputs if "run" in o}
    assert labels == {(row["operation"], row["parameters"]) for row in results.rows}


@pytest.mark.parametrize(
    "text, swept",
    [("2,3", True), ("[2, 3]", True), ("[2,3]", True), (" 2 , 3 ", True), ("[2]", True), ("2", False), (" 2", False)],
)
def test_lists_of_set(place, text, swept):
    """As a shell likes them, and as the job file has them; a list of one is a list."""
    values = re.findall(r"\d", text)
    said = quiet("plan", "--detail", "--set", f"factor={text}", place / "job.yaml")
    runs = re.findall(r"^run \d+  twice (.*?) ", said, re.M)
    labels = [re.search(r"factor=(\d)", run)[1] if "factor" in run else "" for run in runs]
    assert sorted(set(labels)) == (values if swept else [""])


def test_one_value_of_a_sweep_keeps_its_place(place):
    """In the job file, and where --set leaves one of several; a parameter that is no list stays none."""
    (place / "one.yaml").write_text(JOB.replace("n: [4, 9]", "n: [4]"))
    stored = []
    ways = ("one.yaml",), ("job.yaml", "--set", "n=4"), ("job.yaml", "--set", "n=[4]", "--set", "factor=2")
    for job, *options in ways:
        harness.tilerun("run", job, "-o", "out.h5", "--overwrite", *options, cwd=place, expect=OK)
        with h5py.File(place / "out.h5") as file:
            stored.append(harness.dataset_names(file, "inputs", "outputs", "variants"))
    assert stored[0] == stored[1] == stored[2] and "outputs/n=4/gram" in stored[0]
    resolved = quiet("plan", "--resolved", "--set", "n=4", place / "job.yaml")
    assert "n: [4]" in resolved and "factor: 2" in resolved


def test_set_mistakes(place):
    for value, message in [
        ("fctor=3", r"--set fctor=3: the job has no parameter 'fctor' \(did you mean 'factor'\?\)"),
        ("factor", r"--set factor: write NAME=VALUE"),
        ("q=3", r"--set q=3: the job has no parameter 'q'\n"),
        ("factor=", r"--set: parameter 'factor' has an empty value"),
        ("factor=[]", r"parameter 'factor' is an empty list"),
        ("factor=[1,,2]", r"--set: the value of 'factor' is not"),
        ("factor={from: 1}", r"'to' of a range"),
        ("factor=abc", r"job\.yaml:9:\d+: .*'abc'"),
    ]:
        done = harness.tilerun("run", "job.yaml", "--set", value, cwd=place)
        assert done.returncode == USAGE and re.search(message, done.stderr), done.stderr
    assert list(place.glob("*.h5*")) == []


RUNS = """
version: 1
parameters: {r: [3, 4]}
inputs: {x: {random: {shape: [64, 16]}}}
defaults: {repeat: $r, warmup: 2}
operations:
  - {id: y, op: scale, inputs: [x], repeat: {min: 2, max: 5}, variants: [cpu]}
  - {id: z, op: transpose, inputs: [y], variants: [cpu], verify: none}
"""


@pytest.mark.parametrize(
    "options, expected",
    [
        ((), {("y", ""): None, ("z", "r=3"): 3, ("z", "r=4"): 4}),
        (("--repeat", "7"), {("y", ""): 7, ("z", ""): 7}),
        (("--once",), {("y", ""): 1, ("z", ""): 1}),
        (("--once", "--repeat", "2"), {("y", ""): 2, ("z", ""): 2}),
        (("--warmup", "0", "--verify", "full"), {("y", ""): None, ("z", "r=3"): 3, ("z", "r=4"): 4}),
    ],
)
def test_run_options_of_the_command_line(place, options, expected):
    """They count for every operation, whatever it or `defaults` says; the resolved job has them and loads again."""
    (place / "runs.yaml").write_text(RUNS)
    harness.tilerun("run", "runs.yaml", "-o", "out.h5", *options, cwd=place, expect=OK)
    rows = harness.Results(place / "out.h5").rows
    assert [(row["operation"], row["parameters"]) for row in rows] == list(expected)
    for row, repeats in zip(rows, expected.values()):
        assert row["repeats"] == repeats or (repeats is None and 2 <= row["repeats"] <= 5)
    checked = [np.isnan(row["error"]) for row in rows if row["operation"] == "z"]
    assert checked == [not {"--once", "--verify"} & set(options)] * len(checked)
    (place / "again.yaml").write_text(quiet("plan", "--resolved", *options, place / "runs.yaml"))
    assert quiet("check", place / "again.yaml") == ""


@pytest.mark.parametrize(
    "option, value, message",
    [("--repeat", "often", "'repeat' must be an integer"), ("--verify", "often", "unknown value of 'verify': 'often' .*sampled")],
)
def test_run_options_that_cannot_be(place, option, value, message):
    done = harness.tilerun("run", "job.yaml", option, value, cwd=place)
    assert done.returncode == USAGE and re.search(message, done.stderr), done.stderr


def test_only(place):
    harness.tilerun("run", "job.yaml", "-o", "out.h5", "--only", "twice", "--set", "n=4", cwd=place, expect=OK)
    with h5py.File(place / "out.h5") as file:
        assert file.attrs["status"] == "partial"
        assert [row.decode() for row in file["runs"]["operation"]] == ["gram", "gram", "twice"]
    done = harness.tilerun("run", "job.yaml", "--only", "twise", cwd=place)
    assert done.returncode == USAGE and "--only: no operation 'twise' (did you mean 'twice'?)" in done.stderr


@pytest.mark.parametrize(
    "only, ran",
    [
        ("gram:cpu", ["gram cpu"]),
        ("gram:blocked,flipped", ["gram blocked", "flipped"]),
        ("gram:blocked,twice", ["gram blocked", "twice"]),
        ("twice", ["gram cpu", "gram blocked", "twice"]),
        ("gram:blocked,gram:cpu", ["gram cpu", "gram blocked"]),
    ],
)
def test_only_a_variant(place, only, ran):
    """For run and plan; what the operation reads is still run by all its variants."""
    options = ["--only", only, "--set", "n=4"]
    planned = re.findall(r"^run \d+  (\w+) ", quiet("plan", "--detail", *options, place / "job.yaml"), re.M)
    assert planned == [run.split()[0] for run in ran]
    harness.tilerun("run", "job.yaml", "-o", "out.h5", *options, cwd=place, expect=OK)
    rows = harness.Results(place / "out.h5").rows
    assert [f"{r['operation']} {r['variant']}" if r["operation"] == "gram" else r["operation"] for r in rows] == ran
    with h5py.File(place / "out.h5") as file:
        assert file.attrs["status"] == "partial"
        (place / "resolved.yaml").write_text(file["job_resolved"][()].decode())
    assert re.findall(r"^run \d+  (\w+) ", quiet("plan", "--detail", place / "resolved.yaml"), re.M) == planned
    assert "nothing to do" in harness.tilerun("run", "job.yaml", "-o", "out.h5", "--resume", *options, cwd=place).stderr


@pytest.mark.parametrize("command", ["run", "plan"])
def test_only_mistakes(place, command):
    for only, message in [
        ("gram:blokked", r"--only gram:blokked: no such variant in the job \(did you mean 'blocked'\?\)"),
        ("gram:tensor_cores", r"--only gram:tensor_cores: no such variant in the job; it has cpu, blocked$"),
        ("gram:cpu,tile=16", r"--only gram:cpu,tile=16: no such variant in the job"),
        ("gramm:cpu", r"--only: no operation 'gramm' \(did you mean 'gram'\?\)"),
        ("gram:", r"--only gram: names no variant: write gram:VARIANT, or gram for all"),
        ("flipped:cpu", r"--only flipped:cpu: no such variant in the job; it has auto$"),
    ]:
        done = harness.tilerun(command, "job.yaml", "--only", only, cwd=place)
        assert done.returncode == USAGE and re.search(message, done.stderr, re.M), done.stderr
        assert done.stderr.count("--only") == 1
    assert list(place.glob("*.h5*")) == []


def test_show_refuses_other_files(place):
    harness.write_arrays(place / "other.h5", x=1)
    done = harness.tilerun("show", "other.h5", cwd=place)
    assert done.returncode == USAGE and "other.h5: is an HDF5 file, but not a results file of tilerun" in done.stderr
    done = harness.tilerun("show", "job.yaml", cwd=place)
    assert done.returncode == USAGE and "job.yaml: is not an HDF5 file" in done.stderr


def test_as_many_files_as_the_system_allows():
    """The limit of open files is raised as far as it may be."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))

    with harness.start("check", "/dev/stdin", stdin=subprocess.PIPE, preexec_fn=lower) as process:
        until = time.monotonic() + 10
        while resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] < most and time.monotonic() < until:
            time.sleep(0.01)
        raised = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0]
        process.stdin.close()
    assert raised == most
