"""Kernels with planted faults (tests/faults): a wrong result is never a result, nor a fast one. And a roof, which is
wrong on purpose: timed, but no result either."""

import json
import os
import random
import re
import shutil
import subprocess

import h5py
import numpy as np
import pytest

import harness
import tree
from harness import OK, RUN

FAULTS = harness.ROOT / "tests/faults"
CASES = int(os.environ.get("TILERUN_CASES", 4))
SIDE = 70  # no multiple of any tile
SANITIZER = shutil.which("compute-sanitizer") or shutil.which(
    "compute-sanitizer", path="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer"
)

pytestmark = pytest.mark.xdist_group("faults")  # they share a build


@pytest.fixture(scope="module")
def program(memory_folder):
    """The program with every planted fault built in; those for CUDA only where they can run."""
    folder = memory_folder / "faults"
    folder.mkdir()
    copy = tree.copy_tree(folder)
    sources = sorted(FAULTS.glob("*.c")) + (sorted(FAULTS.glob("*.cu")) if tree.has_gpu() else [])
    for source in sources:
        op, variant = source.name.split("_", 1)
        shutil.copy(source, copy / "kernels" / op / variant)
    tree.register(copy, [f"{'CPU' if source.suffix == '.c' else 'CUDA'}({source.stem})" for source in sources])
    done = tree.make(copy)
    assert done.returncode == 0, done.stdout[-4000:]
    return copy / "build/tilerun"


def run(folder, program, op, *variants, more=(), expect=RUN, device="auto", **options):
    """One operation by these variants on SIDE x SIDE random floats; `more` operations after it."""
    return harness.run_job(
        folder,
        program=program,
        expect=expect,
        device=device,
        inputs={name: {"random": {"shape": [SIDE, SIDE], "low": -1, "seed": ord(name)}} for name in "ab"},
        defaults={"warmup": 0, "repeat": 3, "store": "all"},
        operations=[
            {
                "id": "y",
                "op": op,
                "inputs": ["a", "b"] if op == "matmul" else ["a"],
                "variants": list(variants),
                **options,
            },
            *more,
        ],
    )


def assert_wrong(results, variant, pattern=r"\[\d+, \d+\] is \S+, should be \S+"):
    row = results.row("y", variant)
    assert row["status"] == "wrong" and re.search(pattern, row["message"]), row
    assert not row["error"] <= row["tolerance"]
    assert all(np.isnan(row[name]) for name in row if name.endswith("_s") or name == "gflops"), row
    with h5py.File(results.path) as file:
        assert file.attrs["status"] == "failed"
        assert f"variants/y/{variant}" not in file and str(row["run"]) not in file["samples"]


WRONG = [
    ("matmul", "edgeless", {}, ["auto", "full", "sampled"]),
    ("reduce", "short", {"operator": "sum", "axis": "all"}, ["auto", "full", "sampled"]),
    ("scale", "nan", {"alpha": 3}, ["auto", "full"]),  # one element of 4900 may escape a sample
]


@pytest.mark.parametrize("first", ["fault", "right"])
@pytest.mark.parametrize("op, fault, options, verify", [(*row[:3], verify) for row in WRONG for verify in row[3]])
def test_wrong_result(folder, program, op, fault, options, verify, first):
    """Before or after a right variant, whose result may still lie in the same memory."""
    variants = [fault, "cpu"] if first == "fault" else ["cpu", fault]
    results = run(folder, program, op, *variants, verify=verify, **options)
    assert_wrong(results, fault, r"\S")
    right = results.row("y", "cpu")
    assert right["status"] == "ok" and right["error"] <= right["tolerance"]
    with h5py.File(results.path) as file:
        assert file["outputs/y"].attrs["run"] == right["run"] and file["outputs/y"].attrs["variant"] == "cpu"


@pytest.mark.parametrize("op, side", [("matmul", 1200), ("scale", 2300)])
@pytest.mark.parametrize("number", range(3))
def test_one_lost_element_of_many(folder, program, monkeypatch, rng, op, side, number):
    """Of a product too large to be compared whole, of a result of five million elements: one in each tile, anywhere."""
    monkeypatch.setenv("SPOILED", str(rng.integers(side * side)))
    options = {"alpha": 2.5, "beta": 100} if op == "scale" else {"verify": "sampled"}
    results = harness.run_job(
        folder,
        program=program,
        expect=RUN,
        device="cpu",
        inputs={"a": {"random": {"shape": [side, side], "low": 0.5, "seed": int(rng.integers(1 << 30))}}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "y", "op": op, "inputs": ["a"] * (2 if op == "matmul" else 1), "variants": ["spoiled"], **options}
        ],
    )
    message = results.row("y")["message"]
    assert re.match(r"\[\d+, \d+\] is 0, should be ", message), message


def test_message_names_the_place(folder, program):
    results = run(folder, program, "matmul", "edgeless", "cpu", verify="full")
    place = re.match(r"\[(\d+), (\d+)\] is (\S+), should be (\S+)", results.row("y", "edgeless")["message"])
    i, j = int(place[1]), int(place[2])
    assert max(i, j) >= 64 and float(place[4]) == pytest.approx(results.output("y")[i, j], rel=1e-4)


def test_message_counts_what_is_wrong(folder, program):
    """How many of how many, the box that holds them, and the largest error, as the stored outputs show them."""
    results = run(folder, program, "matmul", "edgeless", "cpu", verify="full")
    row = results.row("y", "edgeless")
    found = re.search(
        r"\((\d+) of (\d+) elements are wrong, in \[(\d+):(\d+), (\d+):(\d+)\], largest error (\S+)\)$", row["message"]
    )
    wrong, all_, *box = map(int, found.groups()[:6])
    assert all_ == SIDE * SIDE and 0 < wrong <= (box[1] - box[0]) * (box[3] - box[2])
    assert wrong >= SIDE * SIDE - 64 * 64 - 5 and box[1] == box[3] == SIDE  # all beyond the whole tiles, but for luck
    assert float(found[7]) == pytest.approx(row["error"], rel=0.1)


def test_later_operations_read_the_right_one(folder, program):
    more = [{"id": "total", "op": "reduce", "inputs": ["y"], "operator": "sum", "axis": "all", "variants": ["cpu"]}]
    results = run(folder, program, "matmul", "edgeless", "cpu", more=more)
    assert results.row("total")["status"] == "ok"
    assert results.output("total") == pytest.approx(results.output("y").sum(dtype=np.float64), rel=1e-4)


def test_nothing_reads_a_wrong_result(folder, program):
    more = [
        {"id": "total", "op": "reduce", "inputs": ["y"], "operator": "sum", "axis": "all", "variants": ["cpu"]},
        {"id": "other", "op": "scale", "inputs": ["a"], "variants": ["cpu"]},
    ]
    results = run(folder, program, "matmul", "edgeless", more=more)
    assert results.row("total")["status"] == "skipped" and "'y' has no result" in results.row("total")["message"]
    assert results.row("other")["status"] == "ok"
    assert harness.dataset_names(h5py.File(results.path), "outputs") == ["outputs/other"]


def test_on_error_stop(folder, program):
    more = [{"id": "other", "op": "scale", "inputs": ["a"], "variants": ["cpu"]}]
    results = run(folder, program, "matmul", "edgeless", more=more, on_error="stop")
    assert results.row("other")["status"] == "skipped" and "on_error: stop" in results.row("other")["message"]


def test_table_gives_no_time_or_ratio(folder, program):
    results = run(folder, program, "matmul", "edgeless", "cpu", "blocked", device="cpu")
    shown = harness.tilerun("show", results.path).stdout.splitlines()
    assert shown[0].startswith("unfinished: 2 of 3 runs are done; ")
    wrong, cpu, blocked = shown[2:5]
    assert re.fullmatch(r"y +edgeless +70x70x70 +\S+ +wrong: \[.*\] is .*, should be .*", wrong), wrong
    assert " - " in cpu and " - " in blocked and "no ratio for y: its baseline, edgeless, has no time there" in shown[5]
    wrong, cpu, blocked = harness.tilerun("show", results.path, "--baseline", "cpu").stdout.splitlines()[2:5]
    assert "x " not in wrong and " 1.00x " in cpu and re.search(r" \d+\.\d+x ", blocked)


def test_failing_launch(folder, program):
    results = run(folder, program, "scale", "refusing", "cpu")
    row = results.row("y", "refusing")
    assert row["status"] == "failed" and row["message"], row
    assert results.row("y", "cpu")["status"] == "ok"


@pytest.mark.parametrize("side, taken", [(SIDE, "blocked"), (10, "choosy")])
def test_refusing_variant(folder, program, side, taken):
    """What a variant refuses is skipped with the reason, and no failure; `auto` goes on to the next one."""
    results = harness.run_job(
        folder,
        program=program,
        device="cpu",
        inputs={"a": {"random": {"shape": [side, side]}}},
        operations=[
            {"id": "named", "op": "transpose", "inputs": ["a"], "variants": ["choosy"]},
            {"id": "chosen", "op": "transpose", "inputs": ["a"], "variants": ["auto"]},
        ],
    )
    assert results.row("chosen")["variant"] == taken and results.row("chosen")["status"] == "ok"
    assert np.array_equal(results.output("named"), results.output("chosen"))
    row = results.row("named", "choosy")
    if side == SIDE:
        assert row["status"] == "skipped" and row["message"] == "more than 100 elements are too much"
        assert results.row("named", "blocked")["status"] == "ok"
    else:
        assert row["status"] == "ok"


def test_wrong_run_is_tried_again_on_resume(folder, program):
    """A part is kept only of what was right."""
    run(folder, program, "matmul", "edgeless", "cpu")
    again = ["run", folder / "job.yaml", "-o", folder / "results.h5", "--resume"]
    done = harness.tilerun(*again, program=program)
    assert done.returncode == RUN and "should be" in done.stdout


# ---- what a failed job has finished ----------------------------------------------------------------------------------


def moody_job(draw, path):
    """Operations of which some have a variant that is wrong while MOODY names their rows, and what reads them."""
    tasks = draw.randrange(2, 6)
    inputs, operations = {}, []
    for i in range(tasks):
        terms = {"distribution": "integer", "low": -99, "high": 99, "dtype": "int32", "seed": i}
        inputs[f"a{i}"] = {"random": {"shape": [41 + i, 20], **terms}}
        variants = draw.choice([["moody"], ["moody", "cpu"], ["cpu", "moody"], ["cpu", "moody", "blocked"], ["cpu"]])
        for name, op, read in ((f"y{i}", "transpose", f"a{i}"), (f"z{i}", "scale", f"y{i}")):
            store = draw.choice(["first", "first", "all", "none"])
            entry = {"id": name, "op": op, "inputs": [read], "store": store}
            operations.append({**entry, "variants": variants if op == "transpose" else ["cpu"]})
    harness.write_job(path, device="cpu", inputs=inputs, operations=operations, defaults={"warmup": 0, "repeat": 2})
    return operations


def contents(path):
    """Everything but times and load: names, attributes, values, and how many samples there are."""
    timed = re.compile(r".*_s$|load_average|gflops|bound_by|percent_of_bound|flags|created|finished|command_line|sha256|path")
    with h5py.File(path) as file:
        found = {f"/{name}": value for name, value in file.attrs.items() if not timed.match(name)}

        def visit(name, item):
            for key, value in item.attrs.items():
                if not timed.match(key):
                    found[f"{name}@{key}"] = np.asarray(value).tolist()
            if isinstance(item, h5py.Dataset) and name.startswith("samples/"):
                found[name] = item.shape
            elif isinstance(item, h5py.Dataset) and name == "runs":
                columns = [column for column in item.dtype.names if not timed.match(column)]
                found[name] = repr(item[:][[c for c in columns if c != "gbytes_per_s"]])
            elif isinstance(item, h5py.Dataset):
                found[name] = (item.dtype, item.chunks, item.fletcher32, np.asarray(item[()]).tobytes())

        file.visititems(visit)
    return found


@pytest.mark.parametrize("seed", range(CASES))
def test_resume_of_a_failed_job_does_the_rest(folder, program, seed):
    """Only what is not ok is done again; what comes of it is as if nothing had failed."""
    draw = random.Random(seed)
    operations = moody_job(draw, folder / "job.yaml")
    rows = [41 + i for i in range(len(operations) // 2)]
    stored = {operation["id"] for operation in operations if operation["store"] != "none"}
    ok_before, wrong = set(), rows
    for turn in range(draw.randrange(1, 4)):
        wrong = [n for n in wrong if draw.random() < 0.7]
        moods = "".join(f"{n}," for n in wrong)
        resume = ["--resume"] if turn else []
        arguments = ["run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "plain", *resume]
        done = harness.tilerun(*arguments, program=program, env={**os.environ, "MOODY": moods})
        assert done.returncode in (OK, RUN), done.stderr
        # The parts stay as long as some are missing.
        assert (folder / "out.h5.parts").exists() == (done.returncode == RUN)
        assert kept_runs(done.stderr, ok_before, stored), done.stderr
        results = harness.Results(folder / "out.h5")
        ok_before = {f"{row['operation']} {row['variant']}" for row in results.rows if row["status"] == "ok"}
        failed = {row["operation"] for row in results.rows if row["status"] != "ok"}
        assert bool(failed) == (done.returncode == RUN)
    again = ["run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "plain", "--resume"]
    done = harness.tilerun(*again, program=program)
    assert done.returncode == OK and kept_runs(done.stderr, ok_before, stored), done.stderr
    resumed = contents(folder / "out.h5")
    (folder / "out.h5").unlink()
    done = harness.tilerun(*again, program=program)
    assert done.returncode == OK and resumed == contents(folder / "out.h5")


@pytest.mark.parametrize("seed", range(CASES))
def test_shards_of_a_failing_job(folder, program, seed):
    """Rows of runs that were wrong, or read nothing, reach the merged file; resumed shards then do them again."""
    draw = random.Random(seed)
    moody_job(draw, folder / "job.yaml")
    count, environment = draw.randint(1, 4), {**os.environ, "MOODY": draw.choice(["41,", "41,43,", "42,44,45,"])}

    def compare(environment, *more):
        codes = []
        for index in range(count):
            command = ["run", folder / "job.yaml", "-o", folder / "out.h5", "--shard", f"{index}/{count}", *more]
            command += ["--by", "runs"]  # the moods are about whole matrices
            codes.append(harness.tilerun(*command, program=program, env=environment).returncode)
        merged = harness.tilerun("merge", folder / "out.h5", program=program)
        command = ["run", folder / "job.yaml", "-o", folder / "plain.h5", "--overwrite"]
        plain = harness.tilerun(*command, program=program, env=environment)
        assert merged.returncode == plain.returncode == max(codes), merged.stderr
        found, expected = contents(folder / "out.h5"), contents(folder / "plain.h5")
        assert found.pop("job_resolved") != expected.pop("job_resolved")  # it names the output
        assert {name: value for name, value in found.items() if not name.startswith("shards/")} == expected

    compare(environment)
    compare(os.environ, "--resume")


def test_the_first_variant_that_all_panels_have_made_is_read(folder, program):
    """One panel by the first variant is wrong, so the reader, in another shard, reads all panels by the second."""
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"random": {"shape": [65, 90], "dtype": "int32", "distribution": "index"}}},
        operations=[
            {"id": "flipped", "op": "transpose", "inputs": ["x"], "variants": ["moody", "cpu"], "store": "none"},
            {"id": "twice", "op": "scale", "inputs": ["flipped"], "alpha": 2, "variants": ["cpu"]},
        ],
        defaults={"warmup": 0, "repeat": 1, "verify": "full"},
    )
    environment = {**os.environ, "MOODY": "32,"}
    options = ["-o", folder / "out.h5", "--by", "tiles", "--wait", "0"]
    done = [
        harness.tilerun("run", folder / "job.yaml", "--shard", f"{index}/2", *options, program=program, env=environment)
        for index in range(2)
    ]
    assert [it.returncode for it in done] == [RUN, OK], [it.stderr for it in done]
    assert "flipped moody, columns 0 to 31 of 65: wrong" in done[0].stderr
    assert "twice cpu: ok" in done[1].stderr and "flipped moody, columns 32 to 64 of 65: ok" in done[1].stderr
    assert harness.tilerun("merge", folder / "out.h5", program=program).returncode == RUN
    plain = harness.run_job(folder, program=program, **json.loads((folder / "job.yaml").read_text()))
    merged = harness.Results(folder / "out.h5")
    assert [row["status"] for row in merged.rows] == ["wrong", "ok", "ok"]
    assert (merged.output("twice") == plain.output("twice")).all()


def kept_runs(stderr, ok_before, stored):
    """Were all runs that had been ok kept, but for those whose output is not in the results file and had to be read?"""
    if "nothing to do" in stderr:
        return True
    kept = {line.split(": ")[0].split("] ")[1] for line in stderr.splitlines() if line.endswith("(kept from before)")}
    return {run for run in ok_before if run.split()[0] in stored or run.startswith("z")} <= kept <= ok_before


@pytest.mark.parametrize("unknown", [False, True], ids=["this build", "of unknown sources"])
def test_builds_of_one_commit(folder, program, unknown):
    """Builds of the same sources are one program, whatever their bytes; where the commit does not say what was built
    (outside a checkout, or in a changed one), the sources do: other ones do not take up its results."""
    first, other = (program, harness.TILERUN) if unknown else (harness.TILERUN, program)
    shutil.copy(first, folder / "same")
    with open(folder / "same", "ab") as file:
        file.write(b"for another processor")
    path = harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"a": {"random": {"shape": [4, 5]}}},
        operations=[{"id": "y", "op": "scale", "inputs": ["a"], "variants": ["cpu"], "repeat": 1}],
    )
    again = ["run", path, "-o", folder / "out.h5", "--resume"]
    assert harness.tilerun(*again, program=first).returncode == OK
    assert "nothing to do" in harness.tilerun(*again, program=folder / "same").stderr
    done = harness.tilerun(*again, program=other)
    assert done.returncode == harness.USAGE and "which was made by tilerun" in done.stderr, done.stderr


# ---- a roof --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", ["auto", "full", "none"])
@pytest.mark.parametrize("first", ["limit", "right"])
def test_limit_is_timed_and_no_result(folder, program, first, verify):
    variants = ["lightspeed", "cpu"] if first == "limit" else ["cpu", "lightspeed"]
    results = run(folder, program, "transpose", *variants, expect=OK, verify=verify)
    row = results.row("y", "lightspeed")
    assert row["status"] == "unchecked" and row["message"] == "a roof, not a transpose" and row["kernel_median_s"] > 0
    assert np.isnan(row["error"]) and np.isnan(row["tolerance"]) and row["verify"] == "none"
    assert results.row("y", "cpu")["status"] == ("unchecked" if verify == "none" else "ok")
    with h5py.File(results.path) as file:
        assert file["outputs/y"].attrs["variant"] == "cpu" and list(file["variants/y"]) == ["cpu"]
        np.testing.assert_array_equal(file["outputs/y"][:], results.read("variants/y/cpu"))
        assert len(file[f"samples/{row['run']}"]) == row["repeats"] == 3


def test_limit_is_never_chosen(folder, program):
    """It stands last in the CPU's registry, where `auto` looks first."""
    results = run(folder, program, "transpose", "auto", expect=OK, device="cpu")
    assert results.row("y")["variant"] != "lightspeed" and results.row("y")["error"] == 0


def test_limit_alone_leaves_no_result(folder, program):
    more = [{"id": "z", "op": "scale", "inputs": ["y"], "variants": ["cpu"]}]
    results = run(folder, program, "transpose", "lightspeed", more=more)
    assert [row["status"] for row in results.rows] == ["unchecked", "skipped"]
    assert "'y' has no result" in results.row("z")["message"]


def test_limit_is_listed_as_one(program):
    listed = harness.tilerun("list", "transpose", program=program).stdout
    assert re.search(r"^  lightspeed .*\n +types: all; a roof: ", listed, re.M) and listed.count("a roof") >= 1


# ---- on a GPU ------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("first", ["fault", "right"])
@pytest.mark.parametrize(
    "op, fault, right",
    [
        ("matmul", "racy", "tiled"),
        ("transpose", "boundless", "tiled"),
        ("scale", "unchecked", "simple"),
        ("scale", "oversized", "simple"),
    ],
)
def test_fault_is_caught(folder, program, op, fault, right, first):
    """By verification, or as a launch that failed; the right variant is not hurt by its neighbour."""
    options = {"alpha": 3} if op == "scale" else {}
    results = run(folder, program, op, *([fault, right] if first == "fault" else [right, fault]), **options)
    row = results.row("y", fault)
    assert row["status"] in ("wrong", "failed") and row["message"], row
    if fault == "oversized":
        assert row["status"] == "failed" and "invalid" in row["message"], row
    assert results.row("y", right)["status"] == "ok"


@pytest.mark.gpu
@pytest.mark.skipif(not SANITIZER, reason="no compute-sanitizer")
@pytest.mark.parametrize(
    "op, fault, tool, pattern",
    [
        ("matmul", "racy", "racecheck", r"hazard|Race reported"),
        ("transpose", "divergent", "synccheck", r"[Dd]ivergent"),
        ("transpose", "boundless", "memcheck", r"Invalid __global__"),
        ("scale", "unchecked", "memcheck", r"invalid configuration|cudaErrorInvalid"),
    ],
)
def test_sanitizer_catches(folder, program, op, fault, tool, pattern):
    job = harness.write_job(
        folder / "job.yaml",
        device="cuda",
        inputs={name: {"random": {"shape": [SIDE, SIDE], "low": -1, "seed": ord(name)}} for name in "ab"},
        operations=[
            {
                "id": "y",
                "op": op,
                "inputs": ["a", "b"][: 2 if op == "matmul" else 1],
                "variants": [fault],
                "warmup": 0,
                "repeat": 1,
            }
        ],
    )
    command = [SANITIZER, "--tool", tool, "--error-exitcode", "99", program, "run", job, "-o", folder / "out.h5"]
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    assert done.returncode == 99 and re.search(pattern, done.stdout), done.stdout[-4000:]
