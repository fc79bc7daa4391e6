"""`tilerun plan --shards N`: what it says of each shard is what `run --shard` then does, its sums are those of the
whole job, and the two numbers of shards that it names are those from which on more do not help."""

import json
import math
import os
import random
import re

import h5py
import numpy as np
import pytest

import drawn_jobs
import harness
from harness import OK, USAGE
from shards import plain_environment

CASES = int(os.environ.get("TILERUN_CASES", 8))
SEED = int(os.environ.get("TILERUN_SEED", 0))
SUMS = ["runs", "read_bytes", "write_bytes", "compute_s", "total_s"]


def planned(path, count, *arguments, **environment):
    done = harness.tilerun("plan", path, "--shards", count, *arguments, env={**os.environ, **environment})
    assert done.returncode == OK and done.stderr == "", done.stderr
    return done.stdout


def figures(path, count, *arguments, **environment):
    return json.loads(planned(path, count, "--json", *arguments, **environment))


def longest(path, count, column, *arguments):
    return max(row[column] for row in figures(path, count, *arguments)["shards"])


# ---- drawn jobs ----------------------------------------------------------------------------------------------------


def file_bytes(job):
    """What the passes of a drawn job read of files and write: each operand once a run, for each fits one tile."""
    sizes = {"a": 0, "b": 24 * 24 * 4}
    swept = len(job.get("parameters", {}).get("factor", [0]))
    read = written = 0
    times = {"a": 1, "b": 1}
    for operation in job["operations"]:
        name = operation["id"]
        sizes[name] = 24 * 4 if operation["op"] == "reduce" else 24 * 24 * 4
        own = swept if operation.get("alpha") == "$factor" else 1
        times[name] = max(own, *(times[i] for i in operation["inputs"]))
        runs = times[name] * len(operation["variants"])
        read += runs * sum(sizes[i] for i in operation["inputs"])
        written += runs * sizes[name]
    return read, written


def assert_schema(found, count):
    whole = {"shards": list, "runs": int, "read_bytes": int, "write_bytes": int, "compute_s": float, "total_s": float}
    whole |= {"longest_s": float, "mean_s": float, "longest_over_mean": float, "all_at_once_s": float, "idle": int}
    whole |= {"by": str, "one_process_s": float, "groups": int, "useful_shards": int, "longest_group": dict, "files_s": float}
    whole |= {"read_bytes_per_s": float, "write_bytes_per_s": float, "files_limit_from": int}
    group = {"operation": str, "parameters": str, "operations": int, "total_s": float}
    row = {"shard": int} | {name: whole[name] for name in SUMS}

    def check(what, kinds):
        assert list(sorted(what)) == sorted(kinds)
        for name, kind in kinds.items():
            allowed = (int, float) if kind is float else (int, type(None)) if name == "files_limit_from" else kind
            assert isinstance(what[name], allowed), name

    check(found, whole)
    check(found["longest_group"], group)
    for number, shard in enumerate(found["shards"]):
        check(shard, row)
        assert shard["shard"] == number
    assert len(found["shards"]) == count


@pytest.mark.parametrize("case", range(CASES))
def test_sums_and_what_is_then_done(folder, case):
    draw = random.Random(SEED * 1000 + case)
    path = drawn_jobs.write(folder, draw, sides=(24,))
    count = draw.randint(1, 6)
    found, whole = figures(path, count), figures(path, 1)
    assert_schema(found, count)
    for name in SUMS:
        assert math.isclose(found[name], math.fsum(row[name] for row in found["shards"]), rel_tol=1e-7)
        assert math.isclose(found[name], whole[name], rel_tol=1e-7)
    assert math.isclose(found["one_process_s"], max(whole["total_s"], whole["files_s"]), rel_tol=1e-7)
    times = [row["total_s"] for row in found["shards"]]
    assert math.isclose(found["longest_s"], max(times), rel_tol=1e-7)
    assert math.isclose(found["longest_over_mean"], max(times) * count / math.fsum(times), rel_tol=1e-7)
    assert max(times) <= math.fsum(times) / count + found["longest_group"]["total_s"]
    assert found["idle"] == max(0, count - found["groups"])
    assert (found["read_bytes"], found["write_bytes"]) == file_bytes(json.loads(path.read_text()))
    runs = json.loads(harness.tilerun("plan", path, "--json").stdout)["runs"]
    assert found["runs"] == len(runs)
    table = re.findall(r"^(\d+|all) +(\d+) ", planned(path, count), re.M)
    assert table == [(str(row["shard"]), str(row["runs"])) for row in found["shards"]] + [("all", str(len(runs)))]
    for index in range(count):
        done = harness.tilerun("run", path, "-o", folder / "out.h5", "--shard", f"{index}/{count}", "--json")
        assert done.returncode == OK, done.stderr
        expected = found["shards"][index]["runs"]
        said = f"shard {index} of {count} has done {expected} of {len(runs)} runs"
        assert (said if expected else "has nothing to do") in done.stderr
        assert len(json.loads(done.stdout) if expected else []) == expected


def panels_job(folder, draw):
    size = draw.randint(150, 400)
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [size, size]}}},
        defaults={"warmup": 0, "repeat": draw.randint(1, 3)},
        operations=[
            {"id": "product", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"]},
            {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": draw.choice([["cpu"], ["cpu", "blocked"]])},
        ],
    )


@pytest.mark.parametrize("case", range(CASES))
def test_panels_and_what_is_then_done(folder, case):
    """A job of fewer operations than shards, or `--by tiles`: the rows are those of the panels."""
    draw = random.Random(SEED * 1000 + case)
    path = panels_job(folder, draw)
    count, by = draw.randint(3, 7), draw.choice([[], ["--by", "tiles"], ["--by", "runs"]])
    found, whole = figures(path, count, *by), figures(path, 1)
    assert found["by"] == ("runs" if by == ["--by", "runs"] else "tiles")
    assert found["one_process_s"] == whole["total_s"]
    for name in SUMS:
        assert math.isclose(found[name], math.fsum(row[name] for row in found["shards"]), rel_tol=1e-7)
    assert found["write_bytes"] == whole["write_bytes"]
    if found["by"] == "tiles":
        assert found["runs"] > whole["runs"] and found["longest_s"] < whole["longest_s"]
    for index in range(count):
        done = harness.tilerun("run", path, "-o", folder / "out.h5", "--shard", f"{index}/{count}", *by)
        assert done.returncode == OK, done.stderr
        expected = found["shards"][index]["runs"]
        said = f"shard {index} of {count} has done {expected} of {found['runs']} runs"
        assert (said if expected else "has nothing to do") in done.stderr
    assert harness.tilerun("merge", folder / "out.h5").returncode == OK


def spread_job(folder, **more):
    """Seventeen groups from 1 MB to 40 MB of a file."""
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.zeros((2500, 2000), dtype="f8")
    counts = [62 + 143 * i for i in range(17)]
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"rows": counts},
        inputs={"x": {"file": "in.h5", "dataset": "x", "rows": [0, "$rows"]}},
        operations=[{"id": "flipped", "op": "transpose", "inputs": ["x"], "variants": ["cpu"]} | more],
    )


@pytest.mark.parametrize("memory, threads", [("64MB", 1), ("100MB", 2), ("90%", 16)])
def test_the_machine_does_not_matter(folder, memory, threads):
    path = spread_job(folder)
    expected = planned(path, 5, "--json")
    kept = folder / "cache"  # with limits measured and without
    measured = harness.tilerun("devices", "--measure", env={**os.environ, "XDG_CACHE_HOME": str(kept)})
    assert measured.returncode == OK
    for cache in [kept, folder / "none"]:
        environment = {"OMP_NUM_THREADS": str(threads), "XDG_CACHE_HOME": str(cache)}
        assert planned(path, 5, "--json", "--memory", memory, **environment) == expected


# ---- what stops the gain from more shards --------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.13, 0.2, 0.55])
def test_where_files_stop_it(folder, share):
    path = spread_job(folder)
    one = figures(path, 1)
    rate = int((one["read_bytes"] + one["write_bytes"]) / (share * one["compute_s"]))
    found = figures(path, 4, "--bandwidth", rate)
    assert math.isclose(found["files_s"], share * one["compute_s"], rel_tol=1e-6)
    limit = found["files_limit_from"]
    assert 1 / share <= limit <= 17
    assert longest(path, limit, "compute_s") <= found["files_s"] < longest(path, limit - 1, "compute_s")
    assert f"From {limit} shards on files take longer" in planned(path, 4, "--bandwidth", rate)
    many = figures(path, 17, "--bandwidth", rate)
    assert many["all_at_once_s"] == max(many["longest_s"], many["files_s"])


def test_files_that_stop_nothing_or_everything(folder):
    path = spread_job(folder)
    assert figures(path, 3, "--bandwidth", "100TB")["files_limit_from"] is None
    assert "files never limit it" in planned(path, 3, "--bandwidth", "100TB")
    assert figures(path, 3, "--bandwidth", "100kB")["files_limit_from"] == 1
    assert "files limit any number of shards" in planned(path, 3, "--bandwidth", "100kB")
    assert "reads 3 GB/s and writes 1.5 GB/s for all of them together (--bandwidth)" in planned(path, 3)


def test_one_group_that_dominates(folder):
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"n": [200, 300, 400, 3000]},
        inputs={"a": {"random": {"shape": ["$n", "$n"]}}},
        operations=[{"id": "product", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"]}],
    )
    found, useful = figures(path, 4), figures(path, 4)["useful_shards"]
    assert found["longest_group"] | {"total_s": 0} == {
        "operation": "product", "parameters": "n=3000", "operations": 1, "total_s": 0,
    }  # fmt: skip
    share = 100 * found["longest_group"]["total_s"] / found["total_s"]
    said = re.search(r"^'product n=3000' alone takes (.*) % of the time; more than (\d) shards do not help; --by tiles divides it$",
                     planned(path, 4), re.M)  # fmt: skip
    assert figures(path, 4, "--by", "tiles")["longest_s"] < 0.9 * found["longest_s"]
    assert math.isclose(float(said[1]), share, abs_tol=0.5) and int(said[2]) == useful == 2
    assert math.isclose(figures(path, useful)["longest_s"], found["longest_group"]["total_s"], rel_tol=1e-6)
    assert figures(path, useful - 1)["longest_s"] > found["longest_group"]["total_s"] * 1.0001
    document = json.loads(path.read_text())
    document["operations"].append(
        {"id": "total", "op": "reduce", "inputs": ["product"], "operator": "sum", "axis": 0, "variants": ["cpu"]}
    )
    path.write_text(json.dumps(document))
    assert re.search("^'product n=3000' and the 1 operation connected with it take ", planned(path, 4), re.M)
    assert "do not help" not in planned(path, 1)
    assert "--by tiles" not in planned(path, 4)  # a result that is read stays whole


@pytest.mark.parametrize("rate", ["200MB", "2GB"])
def test_where_files_stop_panels(folder, rate):
    """The number is that of the real divisions, each of which has other panels."""
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.zeros((2048, 2048), dtype="f4")
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": "in.h5", "dataset": "x"}},
        defaults={"verify": "none"},
        operations=[{"id": "product", "op": "matmul", "inputs": ["x", "x"], "variants": ["cpu"]}],
    )
    limit = figures(path, 4, "--bandwidth", rate)["files_limit_from"]
    with_it, before = (figures(path, number, "--bandwidth", rate) for number in (limit, limit - 1))
    assert max(row["compute_s"] for row in with_it["shards"]) <= with_it["files_s"]
    assert max(row["compute_s"] for row in before["shards"]) > before["files_s"]


# ---- many shards ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [24, 25, 100, 1000, 100000])
def test_many_shards_stay_readable(folder, count):
    path = spread_job(folder)
    text = planned(path, count, "--by", "runs", COLUMNS="80")
    assert len(text.splitlines()) < 40 and max(map(len, text.splitlines())) <= 80
    rows = [re.split(r"  +", line) for line in text.split("\nall ")[0].splitlines()[1:]]
    shards = runs = 0
    for name, own, *_ in rows:
        first, last = re.match(r"(\d+)(?: to (\d+))?", name).groups()
        alike = int(last) - int(first) + 1 if last else 1
        if more := re.match(r"\d+ and (\d+) others, each", name):
            alike += int(more[1])
        together = name.endswith("others, together")
        shards += int(first) if together else alike
        runs += int(own) * (1 if together else alike)
    assert (shards, runs) == (count, 17)
    assert f"{count - 17} shards have nothing to do: the job divides into 17" in " ".join(text.split())


def test_eight_shards_of_a_mixed_job(folder):
    """Predicted, no shard takes more than 1.25 times the mean; what was measured is printed, since it depends on what
    else this machine does."""
    sizes = [96, 128, 160, 192, 224, 256, 288, 320]
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"n": sizes, "m": [400, 700, 1000, 1300]},
        inputs={
            "a": {"random": {"shape": ["$n", "$n"]}},
            "b": {"random": {"shape": ["$m", "$m"], "seed": 2}},
        },
        defaults={"repeat": 3, "warmup": 1},
        operations=[
            {"id": "product", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"]},
            {"id": "norms", "op": "reduce", "inputs": ["product"], "operator": "norm2", "axis": 0, "variants": ["cpu"]},
            {"id": "flipped", "op": "transpose", "inputs": ["b"], "variants": ["cpu", "blocked"]},
            {"id": "most", "op": "reduce", "inputs": ["b"], "operator": "max", "axis": 1, "variants": ["cpu"]},
            {"id": "twice", "op": "scale", "inputs": ["b"], "alpha": 2, "variants": ["cpu"]},
        ],
    )
    found = figures(path, 8)
    assert found["longest_over_mean"] <= 1.25
    measured = []
    for index in range(8):
        done = harness.tilerun("run", path, "-o", folder / "out.h5", "--shard", f"{index}/8", "--json",
                               env=plain_environment())  # fmt: skip
        assert done.returncode == OK, done.stderr
        rows = json.loads(done.stdout)
        assert len(rows) == found["shards"][index]["runs"]
        measured.append(sum(row["total_s"] + row["repeats"] * row["kernel_median_s"] for row in rows))
    ratio = max(measured) / (sum(measured) / 8)
    print(f"longest / mean: predicted {found['longest_over_mean']:.2f}, measured {ratio:.2f}", measured)


# ---- the command line ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--shards", "x"], "plan: --shards is a number of shards, such as 8, not 'x'"),
        (["--shards", ""], "plan: --shards is a number of shards, such as 8, not ''"),
        (["--shards", "-3"], "plan: --shards is a number of shards, such as 8, not '-3'"),
        (["--shards", "1/8"], "plan: --shards is a number of shards, such as 8, not '1/8'"),
        (["--shards", "0"], "plan: --shards 0: the number of shards is from 1 to 100000"),
        (["--shards", "100001"], "plan: --shards 100001: the number of shards is from 1 to 100000"),
        (["--shards", "8", "--detail"], "plan: --shards goes with --json, not with --detail"),
        (["--resolved", "--shards", "8"], "plan: --shards goes with --json, not with --resolved"),
        (["--shards", "8", "--bandwidth", "5%"], "plan: --bandwidth is bytes a second, such as 40GB, not '5%'"),
        (["--shards", "8", "--bandwidth", "fast"], "plan: --bandwidth is bytes a second, such as 40GB, not 'fast'"),
        (["--by", "tiles"], "plan: --by goes with --shards"),
        (["--shards", "8", "--by", "halves"], "plan: --by is runs or tiles, not 'halves'"),
        (["--bandwidth", "40GB"], "plan: --bandwidth goes with --shards"),
    ],
)
def test_bad_values(folder, arguments, words):
    done = harness.tilerun("plan", spread_job(folder), *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (USAGE, "", f"tilerun: {words}\n")
