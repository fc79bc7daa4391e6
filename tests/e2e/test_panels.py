"""Operations divided into panels: `run --shard I/N --by tiles`, and `merge`, which puts the panels together."""

import os
import random
import re
import signal
import time

import h5py
import numpy as np
import pytest

import harness
from harness import INTERRUPTED, IO, OK, RUN
from shards import arguments, assert_equals_unsharded, merge, plain_environment, shard

CASES = int(os.environ.get("TILERUN_CASES", 6))
SEED = int(os.environ.get("TILERUN_SEED", 0))
FLOATS = ["float32", "float64", "float16", "bfloat16"]
TYPES = [*FLOATS, "int8", "int32", "int64", "uint16", "uint64"]


# ---- drawn jobs ----------------------------------------------------------------------------------------------------


def draw_extent(draw):
    return draw.choice([1, 15, 16, 31, 32, 33, 47, 64, draw.randint(1, 150)])


class Inputs:
    """Inputs of a job as they are drawn: generated, or in a file, a band of it, chunked and encoded or not."""

    def __init__(self, folder, draw):
        self.folder, self.draw, self.of = folder, draw, {}

    def add(self, shape, dtype):
        name = f"x{len(self.of)}"
        if dtype == "bfloat16" or self.draw.random() < 0.5:
            low = -1 if dtype in FLOATS else 0
            high = 1 if dtype in FLOATS else 100
            terms = {"shape": shape, "dtype": dtype, "low": low, "high": high, "seed": self.draw.randrange(1000)}
            self.of[name] = {"random": terms | ({} if dtype in FLOATS else {"distribution": "integer"})}
            return name
        before, after = (self.draw.randint(0, 5), self.draw.randint(0, 5)) if self.draw.random() < 0.5 else (0, 0)
        rng = np.random.default_rng(self.draw.randrange(1000))
        values = rng.uniform(-50 if dtype in FLOATS else 0, 50, (shape[0] + before + after, *shape[1:]))
        chunks = tuple(self.draw.randint(1, size) for size in values.shape) if self.draw.random() < 0.6 else None
        with h5py.File(self.folder / "in.h5", "a") as file:
            gzip = "gzip" if chunks and self.draw.random() < 0.5 else None
            file.create_dataset(name, data=values.astype(dtype), chunks=chunks, compression=gzip)
        self.of[name] = {"file": "in.h5", "dataset": name}
        if before or after:
            self.of[name]["rows"] = [before, shape[0]]
        return name


def draw_operation(draw, inputs, number):
    op = draw.choice(["matmul", "transpose", "reduce", "scale"])
    operation = {"id": f"o{number}", "op": op, "variants": draw.choice([["cpu"], ["blocked"], ["blocked", "cpu"]])}
    stack = [draw.randint(1, 5)] if draw.random() < 0.3 else []
    m, n, k = draw_extent(draw), draw_extent(draw), draw_extent(draw)
    if op == "matmul":
        dtype, ta, tb = draw.choice(FLOATS), draw.random() < 0.5, draw.random() < 0.5
        operation |= {"transpose_a": ta, "transpose_b": tb, "alpha": draw.choice([1, -0.5])}
        a, b = ([k, m] if ta else [m, k]), ([n, k] if tb else [k, n])
        operation["inputs"] = [inputs.add(stack + a, dtype), inputs.add(draw.choice([stack, []]) + b, dtype)]
        return operation
    shape = draw.choice([[m], [m, n]]) if op != "transpose" and not stack else [*stack, m, n]
    operation["inputs"] = [inputs.add(shape, draw.choice(TYPES))]
    if op == "scale":
        operation |= {"variants": ["cpu"], "alpha": 3, "beta": 1}
    if op == "reduce":
        operation["axis"] = draw.choice(["all", *range(len(shape))])
        operation["operator"] = draw.choice(["sum", "mean", "norm2", "min", "argmax", "prod"])
    return operation


def draw_job(folder, draw):
    inputs = Inputs(folder, draw)
    operations = [draw_operation(draw, inputs, number) for number in range(draw.randint(1, 4))]
    for operation in operations:
        operation["store"] = draw.choice(["first", "first", "all"])
        if draw.random() < 0.3:
            operation |= {"compression": "gzip", "level": 1}
        if draw.random() < 0.3:
            operation["checksum"] = "none"
    if draw.random() < 0.3:
        operations.append({"id": "after", "op": "scale", "inputs": ["o0"], "alpha": 2, "variants": ["cpu"]})
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        memory=draw.choice(["64KiB", "200KiB", "1GiB"]),
        inputs=inputs.of,
        defaults={"warmup": 0, "repeat": draw.choice([1, 1, 3])},
        operations=operations,
    )


@pytest.mark.parametrize("case", range(CASES))
def test_drawn_jobs(folder, case):
    """The panels' bits are those of the whole, whatever operation, type, layout and number of shards."""
    draw = random.Random(SEED * 1000 + case)
    draw_job(folder, draw)
    count = draw.choice([2, 3, 4, 7])
    for index in range(count):
        shard(folder, index, count, "--by", "tiles")
    merge(folder)
    assert_equals_unsharded(folder)


# ---- one product -----------------------------------------------------------------------------------------------------


def product(folder, size=96, repeat=1, **more):
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={
            "a": {"random": {"shape": [size, size], "low": -1, "seed": 1}},
            "b": {"random": {"shape": [size, size], "low": -1, "seed": 2}},
        },
        operations=[{"id": "product", "op": "matmul", "inputs": ["a", "b"], "variants": ["cpu"], "repeat": repeat} | more],
        defaults={"warmup": 0},
    )


@pytest.mark.parametrize(
    "operation, shape, words",
    [
        ("matmul", [96, 96], "rows 32 to 63 of 96"),
        ("transpose", [3, 40, 50], "matrix 1 of 3"),
        ("transpose", [6, 40, 50], "matrices 2 to 3 of 6"),
        ("sum", [96, 50], "elements 32 to 63 of 96"),
    ],
)
def test_words_for_a_panel(folder, operation, shape, words):
    options = {"op": "reduce", "operator": "sum", "axis": 1} if operation == "sum" else {"op": operation}
    inputs = ["a", "a"] if operation == "matmul" else ["a"]
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"a": {"random": {"shape": shape}}},
        operations=[{"id": "one", "inputs": inputs, "variants": ["cpu"], "warmup": 0, "repeat": 1} | options],
    )  # fmt: skip
    assert f"one cpu, {words}: ok" in shard(folder, 1, 3, "--by", "tiles").stderr


def test_more_shards_than_operations_divide_by_themselves(folder):
    product(folder)
    for index in range(3):
        assert f"product cpu, rows {32 * index} to {32 * index + 31} of 96: ok" in shard(folder, index, 3).stderr
    merge(folder)
    assert_equals_unsharded(folder)
    (row,) = harness.Results(folder / "out.h5").rows
    assert row["message"] == "computed in 3 panels (table /panels); each time is the sum over the panels"
    with h5py.File(folder / "out.h5") as file:
        panels = file["panels"][()]
        words = [f"rows {32 * index} to {32 * index + 31} of 96; shard-{index}-of-3" for index in range(3)]
        assert [message.decode() for message in panels["message"]] == words
        assert set(panels["run"]) == {0} and set(panels["status"]) == {b"ok"}
        assert file["samples/0"][()] == pytest.approx([panels["kernel_median_s"].sum()])
        for name in ("kernel_median_s", "total_s", "read_s"):
            assert row[name] == pytest.approx(panels[name].sum())
        assert [file[f"shards/{index}-of-3/runs"][()].tolist() for index in range(3)] == [[0]] * 3


def test_by_runs_leaves_operations_whole(folder):
    product(folder)
    said = [shard(folder, index, 3, "--by", "runs").stderr for index in range(3)]
    assert ["has nothing to do" in text for text in said] == [False, True, True]
    merge(folder)
    assert_equals_unsharded(folder)


def test_missing_panel_is_named(folder):
    product(folder)
    shard(folder, 0, 3), shard(folder, 2, 3)
    said = merge(folder, expect=IO).stderr
    assert "shard 1 of 3 has 0 of 1 runs; it has not begun; first missing: 'product cpu', rows 32 to 63 of 96" in said
    assert "refused" not in said and "of another version" not in said and not (folder / "out.h5").exists()
    shard(folder, 1, 3)
    merge(folder)
    assert_equals_unsharded(folder)


def test_resume_keeps_panels(folder):
    product(folder, repeat=3000)
    process = harness.start(*arguments(folder, 1, 3, "--progress", "plain"), env=plain_environment())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode in (INTERRUPTED, -signal.SIGTERM)
    product(folder, repeat=1)
    for index in range(3):
        shard(folder, index, 3, "--resume")
    assert "(kept from before)" in shard(folder, 1, 3, "--resume").stderr
    merge(folder)
    assert "is complete: nothing to do" in shard(folder, 1, 3, "--resume").stderr
    assert "nothing to do" in merge(folder).stderr
    assert_equals_unsharded(folder)


def test_what_a_panel_reads(folder):
    """Of the input that has the divided loop a shard reads its band alone: the rest may be damaged."""
    product(folder)
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("x", data=np.ones((64, 64)), chunks=(16, 64), fletcher32=True)
        offset = file["x"].id.get_chunk_info(3).byte_offset
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": "in.h5", "dataset": "x"}},
        operations=[{"id": "sum", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": 1, "variants": ["cpu"]}],
    )
    with open(folder / "in.h5", "r+b") as file:
        file.seek(offset)
        file.write(b"damaged!")
    for index in range(4):
        done = harness.tilerun(*arguments(folder, index, 4, "--by", "tiles", "--once"), env=plain_environment())
        assert (done.returncode == OK) == (index < 3), done.stderr


def test_a_wrong_panel_makes_the_run_wrong(folder, monkeypatch):
    """And names the panel. The tolerance is one that not every panel keeps."""
    with h5py.File(folder / "in.h5", "w") as file:
        values = np.ones((64, 64), dtype="f4")
        values[40:] = np.random.default_rng(1).random((24, 64))
        file["x"] = values
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": "in.h5", "dataset": "x"}},
        operations=[
            {"id": "gram", "op": "matmul", "inputs": ["x", "x"], "variants": ["cpu"], "tolerance": 1e-12, "verify": "full"}
        ],
        defaults={"warmup": 0, "repeat": 1},
    )
    codes = [harness.tilerun(*arguments(folder, index, 4), env=plain_environment()).returncode for index in range(4)]
    assert 1 in codes, codes
    merge(folder, expect=1)
    (row,) = harness.Results(folder / "out.h5").rows
    assert row["status"] == "wrong" and row["message"].startswith(f"rows {16 * codes.index(1)} to ")


# ---- panels of one process, kept when it is interrupted -------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_finished_panels_are_kept(folder, number):
    """Of one long run: a signal in its fourth panel costs that panel alone."""
    product(folder, size=256, repeat=60, keep_tiles="always")
    command = ["run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "plain"]
    process = harness.start(*command, env=plain_environment())
    lines = [process.stderr.readline() for _ in range(3)]
    assert lines[2].startswith("[3/8] product cpu, rows 64 to 95 of 256: ok"), lines
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (INTERRUPTED if number == signal.SIGTERM else -signal.SIGKILL)
    assert number == signal.SIGKILL or "3 of 8 runs are done" in said and "--resume" in said, said
    shown = harness.tilerun("show", folder / "out.h5")
    assert "3 of 8 runs" in shown.stdout + shown.stderr
    again = harness.tilerun(*command, "--resume")
    assert again.returncode == OK and again.stderr.count("(kept from before)") == 3, again.stderr
    assert again.stdout.count("product") == 1 and "computed in 8 panels" in again.stdout
    assert "nothing to do" in harness.tilerun(*command, "--resume").stderr
    product(folder, size=256, repeat=60, keep_tiles="never")
    assert_equals_unsharded(folder)


def test_merge_joins_kept_panels(folder):
    """Killed before it joined them: merge can."""
    product(folder, keep_tiles="always")
    assert shard(folder, 0, 1).returncode == OK  # by runs: another division
    harness.run_folder(folder, "--resume")
    product(folder, keep_tiles="never")
    assert_equals_unsharded(folder)


def test_short_operations_are_not_divided(folder):
    product(folder)
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5")
    assert "panel" not in done.stdout + done.stderr and "panels" not in h5py.File(folder / "out.h5")


@pytest.mark.parametrize(
    "size, repeat, keep, panels",
    [
        (100_000, 1, "auto", True),  # 2,000 s on the nominal machine
        (100_000, 1, "never", False),
        (512, 10_000_000, "auto", False),  # as long, by its repeats: it is timed whole
    ],
)
def test_long_operations_are_divided_by_themselves(folder, size, repeat, keep, panels):
    product(folder, size=size, repeat=repeat, keep_tiles=keep, variants=["blocked"], store="none", verify="none")
    process = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5", "--memory", "1GiB")
    while not (folder / "out.h5.parts/lock").exists():
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED and "'product blocked" in said, said
    assert (": 0 of 1 runs" not in said) == panels, said


@pytest.mark.parametrize("wrong", [False, True], ids=["all right", "beside a wrong one"])
@pytest.mark.parametrize("read", [False, True], ids=["alone", "read"])
def test_what_was_done_in_panels_is_kept(folder, wrong, read):
    """--resume takes an operation that is in OUTPUT as a whole, and does not do its panels again."""
    product = {"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], "keep_tiles": "always"}
    operations = [product, {"id": "flipped", "op": "transpose", "inputs": ["a"], "keep_tiles": "always"}]
    operations += [{"id": "reader", "op": "scale", "inputs": ["flipped"], "alpha": 2}] * read
    operations += [product | {"id": "bad", "tolerance": 1e-30}] * wrong
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [96, 96], "low": -1, "seed": 1}}},
        defaults={"warmup": 0, "repeat": 2},
        operations=operations,
    )
    command = ["run", folder / "job.yaml", "-o", folder / "out.h5"]
    first = harness.tilerun(*command, *([] if wrong else ["--only", "p"]))
    assert first.returncode == (RUN if wrong else OK), first.stderr
    before = harness.Results(folder / "out.h5")
    times = {row["operation"]: row["kernel_median_s"] for row in before.rows if row["status"] == "ok"}
    values = before.output("p")
    done = harness.tilerun(*command, "--resume")
    assert done.returncode == (RUN if wrong else OK), done.stderr
    after = harness.Results(folder / "out.h5")
    assert {name: row["kernel_median_s"] for row in after.rows if (name := row["operation"]) in times} == times
    assert (after.output("p") == values).all()
    assert len(re.findall(r"p cpu, rows .*\(kept from before\)", done.stderr)) == 6
