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
from harness import OK
from shards import plain_environment

CASES = int(os.environ.get("TILERUN_CASES", 5))
SEED = int(os.environ.get("TILERUN_SEED", 0))
SUMS = ["runs", "read_bytes", "write_bytes", "compute_s", "wall_s"]


def planned(path, count, *arguments, **environment):
    done = harness.tilerun("plan", path, "--shards", count, *arguments, env={**os.environ, **environment})
    said = [line for line in done.stderr.splitlines() if "no operation reads" not in line]  # of drawn jobs
    said = [line for line in said if not re.match(r" *\d* \|", line)]
    assert done.returncode == OK and not said, done.stderr
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
    whole = {"shards": list, "runs": int, "read_bytes": int, "write_bytes": int, "compute_s": float, "wall_s": float}
    whole |= {"longest_s": float, "mean_s": float, "longest_over_mean": float, "all_at_once_s": float, "idle": int}
    whole |= {"by": str, "one_process_s": float, "groups": int, "useful_shards": int, "longest_group": dict}
    whole |= {"files_s": float}
    whole |= {"read_bytes_per_s": float, "write_bytes_per_s": float, "files_limit_from": int}
    group = {"operation": str, "parameters": str, "operations": int, "wall_s": float}
    row = {"shard": int, "waits_s": float} | {name: whole[name] for name in SUMS}

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
    assert math.isclose(found["one_process_s"], max(whole["wall_s"], whole["files_s"]), rel_tol=1e-7)
    times = [row["wall_s"] for row in found["shards"]]
    ends = [row["wall_s"] + row["waits_s"] for row in found["shards"]]
    assert math.isclose(found["longest_s"], max(ends), rel_tol=1e-7)
    assert math.isclose(found["longest_over_mean"], max(ends) * count / math.fsum(times), rel_tol=1e-7)
    assert max(ends) <= math.fsum(times) / count + found["longest_group"]["wall_s"]
    assert found["idle"] == sum(row["runs"] == 0 for row in found["shards"]) <= max(0, count - found["groups"])
    assert (found["read_bytes"], found["write_bytes"]) == file_bytes(json.loads(path.read_text()))
    runs = json.loads(harness.tilerun("plan", path, "--json").stdout)["runs"]
    assert found["runs"] == len(runs)
    text = planned(path, count)
    table = re.findall(r"^(\d+|all) +(\d+) ", text, re.M)
    assert any(row["waits_s"] > 0 for row in found["shards"]) == bool(re.search("predicted +waits", text))
    assert table == [(str(row["shard"]), str(row["runs"])) for row in found["shards"]] + [("all", str(len(runs)))]
    for index in range(count):
        done = harness.tilerun("run", path, "-o", folder / "out.h5", "--shard", f"{index}/{count}", "--json", expect=OK)
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
            {"id": "flipped", "op": "transpose", "inputs": ["a"],
             "variants": draw.choice([["cpu"], ["cpu", "blocked"]])},  # fmt: skip
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
    assert found["one_process_s"] == whole["wall_s"]
    for name in SUMS:
        assert math.isclose(found[name], math.fsum(row[name] for row in found["shards"]), rel_tol=1e-7)
    assert found["write_bytes"] == whole["write_bytes"]
    if found["by"] == "tiles":
        assert found["runs"] > whole["runs"] and found["longest_s"] < whole["longest_s"]
    for index in range(count):
        done = harness.tilerun("run", path, "-o", folder / "out.h5", "--shard", f"{index}/{count}", *by, expect=OK)
        expected = found["shards"][index]["runs"]
        said = f"shard {index} of {count} has done {expected} of {found['runs']} runs"
        assert (said if expected else "has nothing to do") in done.stderr
    assert harness.tilerun("merge", folder / "out.h5").returncode == OK


def spread_job(folder, **more):
    """Seventeen groups from 1 MB to 40 MB of a file."""
    harness.write_arrays(folder / "in.h5", x=np.zeros((2500, 2000), dtype="f8"))
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
    harness.tilerun("devices", "--measure", env={**os.environ, "XDG_CACHE_HOME": str(kept)}, expect=OK)
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
    assert f"From {limit} shards on, files take longer" in planned(path, 4, "--bandwidth", rate)
    many = figures(path, 17, "--bandwidth", rate)
    assert many["all_at_once_s"] == max(many["longest_s"], many["files_s"])


def test_files_that_stop_nothing_or_everything(folder):
    path = spread_job(folder)
    assert figures(path, 3, "--bandwidth", "100TB")["files_limit_from"] is None
    assert "they do not limit the job" in planned(path, 3, "--bandwidth", "100TB")
    assert figures(path, 3, "--bandwidth", "100kB")["files_limit_from"] == 1
    assert "files take longer than one shard computes" in planned(path, 3, "--bandwidth", "100kB")
    assert "reads 3 GB/s and writes 1.5 GB/s for all shards together (--bandwidth)" in planned(path, 3)


def test_one_group_that_dominates(folder):
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"n": [200, 300, 400, 3000]},
        inputs={"a": {"random": {"shape": ["$n", "$n"]}}},
        operations=[{"id": "product", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"]}],
    )
    found = figures(path, 4, "--by", "runs")
    useful = found["useful_shards"]
    assert found["longest_group"] | {"wall_s": 0} == {
        "operation": "product", "parameters": "n=3000", "operations": 1, "wall_s": 0,
    }  # fmt: skip
    share = 100 * found["longest_group"]["wall_s"] / found["wall_s"]
    said = re.search(r"^'product n=3000' alone takes (.*) % of the time; "
                     r"more than (\d) shards do not help; --by tiles divides it$",
                     planned(path, 4, "--by", "runs"), re.M)  # fmt: skip
    assert figures(path, 4, "--by", "tiles")["longest_s"] < 0.9 * found["longest_s"]
    assert figures(path, 4) == figures(path, 4, "--by", "tiles")  # as many operations as shards, but uneven ones
    assert math.isclose(float(said[1]), share, abs_tol=0.5) and int(said[2]) == useful == 2
    assert math.isclose(
        figures(path, useful, "--by", "runs")["longest_s"], found["longest_group"]["wall_s"], rel_tol=1e-6
    )
    assert figures(path, useful - 1, "--by", "runs")["longest_s"] > found["longest_group"]["wall_s"] * 1.0001
    document = json.loads(path.read_text())
    document["operations"].append(
        {"id": "total", "op": "reduce", "inputs": ["product"], "operator": "sum", "axis": 0, "variants": ["cpu"]}
    )
    path.write_text(json.dumps(document))
    whole = planned(path, 4, "--by", "runs")
    assert re.search("^'product n=3000' and the 1 operation connected with it take ", whole, re.M)
    assert "do not help" not in planned(path, 1)
    assert "--by tiles divides it" in whole  # a result that is read too
    assert figures(path, 4)["longest_s"] < 0.9 * figures(path, 4, "--by", "runs")["longest_s"]


def mixed_job(folder, draw, ops, sizes):
    """Operations that divide, with one variant or two, each on a matrix of its own."""
    inputs, operations = {}, []
    for i in range(draw.randint(4, 14)):
        op = draw.choice(ops)
        shape = [draw.randint(*sizes)] * 2
        inputs[f"x{i}"] = {"random": {"shape": shape, "dtype": draw.choice(["float32", "float16"])}}
        more = {"operator": draw.choice(["sum", "argmax"]), "axis": draw.randint(0, 1)} if op == "reduce" else {}
        names = ["cpu"] if op == "scale" else draw.choice([["cpu"], ["blocked"], ["blocked", "cpu"]])
        operands = [f"x{i}"] * (1 + (op == "matmul"))
        operations.append({"id": f"o{i}", "op": op, "inputs": operands, "variants": names} | more)
    return harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=operations,
                             defaults={"repeat": draw.randint(1, 9)}), operations  # fmt: skip


@pytest.mark.parametrize("case", range(CASES))
def test_mixed_jobs_are_dealt_evenly(folder, case):
    """No shard has more than 1.25 times the mean; and where all operations are long, each shard has a panel of each, so
    that this holds whatever they take on other machines."""
    draw = random.Random(f"even {SEED} {case}")
    shards = draw.randint(2, 12)
    path, _ = mixed_job(folder, draw, ["matmul", "transpose", "reduce", "scale"], (2000, 9000))
    found = figures(path, shards)
    assert found["longest_s"] <= 1.25 * found["mean_s"]
    path, operations = mixed_job(folder, draw, ["transpose", "reduce", "scale"], (9000, 12000))
    runs = sum(len(operation["variants"]) for operation in operations)
    assert [shard["runs"] for shard in figures(path, shards, "--by", "tiles")["shards"]] == [runs] * shards


@pytest.mark.parametrize("case", range(CASES))
def test_waits_of_a_fork(folder, case):
    """Two branches of one operation, whose times are drawn: the second shard waits for the stem, and the last operation
    for the longer branch."""
    draw = random.Random(SEED * 1000 + case)
    sources = {"stem": ["a"], "left": ["stem"], "right": ["stem"], "last": ["left", "right"]}
    repeats = {"stem": draw.randint(1, 30), "left": draw.randint(40, 90), "right": draw.randint(40, 90), "last": 1}
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [900, 900]}}},
        operations=[
            {"id": name, "op": "matmul", "inputs": (reads * 2)[:2], "variants": ["cpu"], "repeat": repeats[name]}
            for name, reads in sources.items()
        ],
    )
    found, one = figures(path, 2, "--by", "runs"), figures(path, 1)
    assert [row["runs"] for row in found["shards"]] == [2, 2]
    shares = [row["wall_s"] for row in found["shards"]]
    assert math.isclose(sum(shares), one["wall_s"], rel_tol=1e-7)
    ends = [row["wall_s"] + row["waits_s"] for row in found["shards"]]
    assert found["shards"][0]["waits_s"] == 0 < found["shards"][1]["waits_s"]
    assert math.isclose(found["longest_s"], max(ends), rel_tol=1e-7) and found["longest_s"] < 0.9 * one["wall_s"]
    assert math.isclose(found["longest_s"], figures(path, 5, "--by", "runs")["longest_s"], rel_tol=1e-7)  # the path
    assert found["useful_shards"] == 2


@pytest.mark.parametrize("rate", ["200MB", "2GB"])
def test_where_files_stop_panels(folder, rate):
    """The number is that of the real divisions, each of which has other panels."""
    harness.write_arrays(folder / "in.h5", x=np.zeros((2048, 2048), dtype="f4"))
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


@pytest.mark.parametrize("by", ["runs", "tiles", "auto"])
def test_where_files_stop_each_way_of_dividing(folder, by):
    """Thirteen alike: three shards of whole runs are even enough, and yet those of panels are done sooner."""
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("x", (9000, 9000), "f4")
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": "in.h5", "dataset": "x"}},
        defaults={"verify": "none"},
        operations=[{"id": f"t{i}", "op": "transpose", "inputs": ["x"], "variants": ["blocked"]} for i in range(13)],
    )
    one = figures(path, 1)
    rate = int((one["read_bytes"] + one["write_bytes"]) / (0.35 * one["compute_s"]))
    arguments = ["--bandwidth", rate, *(["--by", by] if by != "auto" else [])]
    limit = figures(path, 3, *arguments)["files_limit_from"]
    assert limit == (3 if by == "tiles" else 4)
    with_it, before = (figures(path, number, *arguments) for number in (limit, limit - 1))
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


@pytest.mark.parametrize("count, said", [
    (16, ""), (17, ""), (18, "1 shard has nothing to do: the job divides into 17\n"),
    (19, "2 shards have nothing to do: the job divides into 17\n"),
])  # fmt: skip
def test_idle_shards_are_told(folder, count, said):
    text = planned(spread_job(folder), count, "--by", "runs")
    assert "".join(line + "\n" for line in text.splitlines() if "nothing to do" in line) == said


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
        words = ["run", path, "-o", folder / "out.h5", "--shard", f"{index}/8", "--json"]
        done = harness.tilerun(*words, env=plain_environment(), expect=OK)
        rows = json.loads(done.stdout)
        assert len(rows) == found["shards"][index]["runs"]
        measured.append(sum(row["total_s"] + row["repeats"] * row["kernel_median_s"] for row in rows))
    ratio = max(measured) / (sum(measured) / 8)
    print(f"longest / mean: predicted {found['longest_over_mean']:.2f}, measured {ratio:.2f}", measured)


def test_short_operations_whose_panels_cost_much_stay_whole(folder):
    """Each panel of a product of few rows reads all of its second operand."""
    shapes = {"x": [30000, 30000], "flat": [128, 6000], "square": [6000, 6000]}
    once = {"repeat": 1, "warmup": 0}
    product = {"op": "matmul", "inputs": ["flat", "square"], "variants": ["blocked"]} | once
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={name: {"random": {"shape": shape}} for name, shape in shapes.items()},
        operations=[
            {"id": "long", "op": "transpose", "inputs": ["x"], "variants": ["blocked"]},
            *({"id": f"short{i}"} | product for i in range(3)),
        ],
    )
    assert sum(shard["runs"] for shard in figures(path, 8, "--by", "tiles")["shards"]) == 8 + 3
