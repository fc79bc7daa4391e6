"""`tilerun plan`'s table: a row a run, never wider than asked, with sums that add up; and the limits that its times
follow from: kept, measured once, never a reason to fail."""

import json
import math
import os
import re
import shutil

import h5py
import pytest

import harness
from harness import OK

HEADINGS = ["operation", "parameters", "variant", "shape", "device", "pass", "kernel", "wall", "memory", "of roof"]
ALWAYS = ["operation", "variant", "kernel", "wall"]


def plan(path, *arguments, **environment):
    return harness.quiet("plan", path, *arguments, env={**os.environ, **environment})


@pytest.fixture
def cache(folder, monkeypatch):
    """An empty cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return folder / "cache" / "tilerun"


def small_job(folder, **more):
    return harness.write_job(
        folder / "job.yaml",
        inputs={"A": {"random": {"shape": [30, 20]}}},
        operations=[{"id": "total", "op": "reduce", "inputs": ["A"], "operator": "sum", "axis": "all", **more}],
        device="cpu",
    )


def drawn_job(folder, rng):
    """A job of a few operations, some swept, with names and shapes of any length."""
    operations = []
    names = ["x", "a_rather_long_name_of_an_operation_" + "y" * int(rng.integers(20)), "product", "sums"]
    for name in rng.permutation(names)[: int(rng.integers(1, 5))]:
        op = str(rng.choice(["matmul", "transpose", "reduce"]))
        operation = {"id": str(name), "op": op, "inputs": ["A", "A"] if op == "matmul" else ["A"]}
        if op == "reduce":
            operation.update(operator="sum", axis="all")
        variants = ["cpu", "blocked", "auto", *{"matmul": ["naive", "tiled"], "reduce": ["tree"]}.get(op, ["padded"])]
        operation["variants"] = [str(v) for v in rng.permutation(variants)[: int(rng.integers(1, len(variants) + 1))]]
        operations.append(operation)
    sizes = [int(10 ** rng.uniform(0, 4.2)) for _ in range(int(rng.integers(1, 4)))]
    return harness.write_job(
        folder / "job.yaml",
        parameters={"n": sorted(set(sizes)) if rng.integers(2) else sizes[0]},
        inputs={"A": {"random": {"shape": ["$n", "$n"]}}},
        operations=operations,
        device="cpu",
        defaults={"repeat": {"min": 3, "max": 9, "until": 0.01} if rng.integers(2) else 4},
        output=f"{folder}/out.h5",
    )


def test_no_line_is_wider_than_asked(folder, rng):
    for _ in range(12):
        path = drawn_job(folder, rng)
        rows = [run for run in json.loads(plan(path, "--json"))["runs"] if "skipped" not in run]
        for width in [80, int(rng.integers(50, 200))]:
            lines = plan(path, COLUMNS=str(width)).splitlines()
            assert max(map(len, lines)) <= width, "\n".join(lines)
            text = "\n".join(lines)
            left_out = re.search(r"omitted columns: ([\w ,\n]*?)\n\d", text)
            named = " ".join(left_out[1].split()).split(", ") if left_out else []
            shown = re.split(r"  +", lines[0])  # a heading may be cut, as "de~e"
            empty = [] if any(run["parameters"] for run in rows) else ["parameters"]
            empty += [] if any(run["bound_s"] and run["kernel_s"] for run in rows) else ["of roof"]
            wanted = [heading for heading in HEADINGS if heading not in named + empty]
            assert len(shown) == len(wanted) and set(named) <= set(HEADINGS), text
            assert all(s == w or "~" in s for s, w in zip(shown, wanted)), text
            if width >= 80:
                assert set(ALWAYS) <= set(shown), text
            names = tuple(run["operation"] + " " for run in rows)
            assert sum("~" in line or line.startswith(names) for line in lines[1:]) >= len(rows)


def test_without_a_terminal_nothing_is_left_out(folder, rng):
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    path = drawn_job(folder, rng)
    done = harness.tilerun("plan", path, env=environment)
    assert "not shown" not in done.stdout and "~" not in done.stdout


def test_sums_and_reasons(folder, rng):
    for _ in range(10):
        path = drawn_job(folder, rng)
        planned = json.loads(plan(path, "--json"))
        text = " ".join(plan(path).split())
        runs = [run for run in planned["runs"] if "skipped" not in run]
        reasons = [run["skipped"] for run in planned["runs"] if "skipped" in run]
        assert planned["output"] == f"{folder}/out.h5"
        known = [run for run in runs if run["wall_s"] is not None]
        unknown = len(runs) - len(known)
        assert (f" {unknown} of them not counted: " in text) == (unknown > 0)
        assert text.count(" unknown unknown unknown ") == unknown
        assert math.isclose(planned["wall_s"], math.fsum(run["wall_s"] for run in known), rel_tol=1e-6)
        for run in known:
            assert math.isclose(run["wall_s"], run["pass_s"] + run["repeats_s"] + run["verify_s"], rel_tol=1e-6)
            assert 0 < run["kernel_s"] and run["kernel_s"] <= run["pass_s"] * 1.000001
        assert re.search(rf" {len(runs)} runs?: (at least )?[\d.]+ \w+ \(passes .*, warm-up .*, verification ", text)
        assert re.search(r" disk: \S+ \w+ needed, \S+ \w+ free in ", text)
        for reason in set(reasons):
            count = reasons.count(reason)
            assert text.count(f" {count} run{'s' * (count > 1)} skipped: {reason} (") == 1


def test_the_sum_of_a_small_job(folder):
    """A skipped run adds nothing; whatever room the disk has, this fits."""
    planned = json.loads(plan(small_job(folder, variants=["cpu", "tree", "blocked"]), "--json"))
    times = [run["wall_s"] or 0 for run in planned["runs"] if "skipped" not in run]  # the loop's may be unknown
    assert len(planned["runs"]) == 3 and len(times) == 2 and max(times) > 0
    assert math.isclose(planned["wall_s"], sum(times), rel_tol=1e-6)


def costs(folder, source, **operation):
    """What is predicted of each run of a job of one operation."""
    operations = [{"id": "y"} | operation]
    path = harness.write_job(folder / "job.yaml", device="cpu", inputs={"x": source}, operations=operations)
    return [run for run in json.loads(plan(path, "--json"))["runs"] if "skipped" not in run]


def test_only_the_first_variant_computes_the_truth(folder):
    """The others are compared with what is known by then: a little for each element."""
    others = []
    for n in (100, 200):
        source = {"random": {"shape": [n, n]}}
        first, second = costs(folder, source, op="matmul", inputs=["x", "x"], variants=["naive", "cpu", "blocked"])
        assert 0 < second["verify_s"] < 0.2 * first["verify_s"]
        others.append(second["verify_s"])
    assert math.isclose(others[1], 4 * others[0], rel_tol=1e-6)


def test_what_is_put_in_order_is_read_at_less_than_that_rate(folder):
    """Axes in an order that does not merge are rearranged at 1 GB/s, once they are read. The array
    is one tile, whose reading, computing and writing follow each other."""
    shape, size = [200, 300, 400], 200 * 300 * 400 * 4
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("x", shape, "f4")
    source = {"file": "in.h5", "dataset": "x"}
    options = {"op": "transpose", "inputs": ["x"], "variants": ["blocked"], "repeat": 1, "warmup": 0}
    merged, turned = (costs(folder, source, axes=axes, **options)[0]["pass_s"] for axes in ([1, 2, 0], [2, 1, 0]))
    assert size / 1e9 < turned < size / 1e9 + 2.2 * merged


def test_limits_are_kept(folder, cache):
    path = small_job(folder)
    assumed = "Times are predicted from assumed limits; `tilerun devices --measure` measures them."
    assert assumed in plan(path) and not cache.exists()
    assert "assumed limits" in harness.tilerun("devices").stdout and not cache.exists()
    assert harness.tilerun("check", path).returncode == OK and not cache.exists()
    measured = harness.tilerun("devices", "--measure")
    assert measured.returncode == OK and "measuring the limits of cpu" in measured.stderr
    assert "measured limits" in measured.stdout and len(list(cache.iterdir())) >= 1
    assert "Times are predicted from measured limits" in plan(path)
    said = harness.tilerun("devices")
    assert said.stdout.split("measured limits")[1] == measured.stdout.split("measured limits")[1]
    assert "assumed" not in said.stderr


def row_of(folder, path, *arguments):
    done = harness.tilerun("run", path, "-o", folder / "out.h5", "--overwrite", *arguments, expect=OK)
    return harness.Results(folder / "out.h5").rows[0], done.stderr


def test_a_run_measures_once(folder, cache):
    path = small_job(folder)
    row, said = row_of(folder, path, "--once")
    assert math.isnan(row["bound_s"]) and math.isnan(row["percent_of_bound"]) and row["bound_by"] == ""
    assert "measuring" not in said and not cache.exists()
    row, said = row_of(folder, path)
    assert re.search(r"^tilerun: measuring the limits of cpu, once: about \d\.\d s$", said, re.M)
    assert row["bound_s"] > 0 and row["bound_by"] in ("memory", "compute")
    assert math.isclose(row["percent_of_bound"], 100 * row["bound_s"] / row["kernel_median_s"])
    row, said = row_of(folder, path)
    assert "measuring" not in said and row["bound_s"] > 0


def test_silence_is_kept(folder, cache):
    _, said = row_of(folder, small_job(folder), "--progress", "none")
    said = re.sub("^tilerun: the measured roof .*\n", "", said, flags=re.M)  # of a machine that was busy
    assert said == "" and list(cache.iterdir())


def test_no_cache_is_no_mistake(folder, cache):
    path = small_job(folder)
    row_of(folder, path)
    (file,) = cache.iterdir()
    text = bytearray(file.read_bytes())
    text[len(text) // 2] ^= 4
    for damage in (text[:-9], text, b"", "folder", "no folder"):
        file.unlink(missing_ok=True) if damage != "no folder" else shutil.rmtree(cache.parent)
        if damage == "folder":
            file.mkdir()
        elif damage == "no folder":
            cache.parent.write_text("not a folder")
        else:
            file.write_bytes(damage)
        assert "assumed limits" in plan(path)
        row, said = row_of(folder, path)
        assert "measuring the limits of cpu" in said and row["bound_s"] > 0
        assert ("cannot be stored" in said) == isinstance(damage, str)


@pytest.mark.parametrize("warmup, repeat", [(0, 1), (1, 1), (0, 2)])
def test_only_a_timed_job_measures_limits(folder, cache, warmup, repeat):
    """A job whose one trial is the result has no timing to set beside a limit: it does not wait for one."""
    defaults = {"warmup": warmup, "repeat": repeat}
    path = harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"random": {"shape": [16, 16], "dtype": "float32"}}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"]}],
        defaults=defaults,
    )
    done = harness.tilerun("run", path, "-o", folder / "out.h5", expect=OK)
    timed = defaults != {"warmup": 0, "repeat": 1}
    assert ("measuring the limits of cpu" in done.stderr) == timed
    assert cache.exists() == timed


def test_a_signal_ends_the_measuring(folder, cache):
    process = harness.start("run", small_job(folder), "-o", folder / "out.h5")
    assert process.stderr.read(len("tilerun: measuring")) == "tilerun: measuring"
    process.terminate()
    assert process.wait(timeout=60) == harness.INTERRUPTED
    assert not (folder / "out.h5").exists() and not any(cache.iterdir())
    process.stdout.close()
    process.stderr.close()
