"""Jobs whose operations read each other's results, spread over shards: a shard waits for what it reads of another."""

import json
import os
import random
import resource
import signal
import time

import h5py
import numpy as np
import pytest

import harness
from harness import INTERRUPTED, IO, OK, RUN
from shards import arguments, assert_equals_unsharded, merge, plain_environment, shard
from test_panels import Inputs

CASES = int(os.environ.get("TILERUN_CASES", 6))
SEED = int(os.environ.get("TILERUN_SEED", 0))


# ---- drawn jobs ----------------------------------------------------------------------------------------------------


class Chain:
    """Operations that each read at least one earlier result, but for the first ones, which are long."""

    def __init__(self, folder, draw):
        self.draw, self.inputs, self.operations, self.shapes = draw, Inputs(folder, draw), [], {}
        self.dtype = draw.choice(["float32", "float64", "float16"])

    def add(self, op, reads, shape, **more):
        draw, name = self.draw, f"o{len(self.operations)}"
        variants = draw.choice([["cpu"], ["blocked", "cpu"]]) if op in ("matmul", "transpose") else ["cpu"]
        variants = draw.choice([[], [], ["tiled"]]) + variants if op == "transpose" else variants
        storage = draw.choice([{}, {}, {"compression": "gzip", "level": 1}, {"checksum": "none"}])
        operation = {"id": name, "op": op, "inputs": reads, "variants": variants} | more | storage
        if draw.random() < 0.2 and storage == {}:
            operation["chunks"] = [draw.randint(1, size) for size in shape]
        self.operations.append(operation | {"store": draw.choice(["first", "none", "all"])})
        self.shapes[name] = shape
        return name

    def add_first(self):
        m, n, k = (self.draw.choice([33, 64, 100, self.draw.randint(32, 150)]) for _ in range(3))
        stack = [self.draw.randint(2, 5)] if self.draw.random() < 0.3 else []
        reads = [self.inputs.add(stack + [m, k], self.dtype), self.inputs.add(stack + [k, n], self.dtype)]
        repeat = self.draw.choice([1, 1, 30])
        return self.add("matmul", reads, stack + [m, n], repeat=repeat)

    def add_next(self, read):
        shape = self.shapes[read]
        kinds = ["scale", "reduce"] + (["transpose", "gram"] if len(shape) > 1 else [])
        kind = self.draw.choice(kinds)
        if kind == "scale":
            return self.add("scale", [read], shape, alpha=0.5, beta=1)
        if kind == "transpose":
            return self.add("transpose", [read], [*shape[:-2], shape[-1], shape[-2]])
        if kind == "gram":
            return self.add("matmul", [read, read], [*shape[:-2], shape[-2], shape[-2]], transpose_b=True, alpha=0.01)
        axis = self.draw.randrange(len(shape))
        rest = [size for number, size in enumerate(shape) if number != axis]
        if not rest:
            return read
        return self.add("reduce", [read], rest, axis=axis, operator=self.draw.choice(["max", "mean", "min"]))


def draw_job(folder, draw):
    chain = Chain(folder, draw)
    for _ in range(draw.randint(1, 2)):
        chain.add_first()
    for _ in range(draw.randint(1, 5)):
        chain.add_next(draw.choice(list(chain.shapes)))  # of the last one a chain, of an earlier one a fork
    same = [(one, other) for one in chain.shapes for other in chain.shapes if chain.shapes[one] == chain.shapes[other]]
    one, other = draw.choice(same)
    if len(chain.shapes[one]) > 1:  # a diamond, perhaps
        chain.add("matmul", [one, other], [], transpose_b=True, alpha=0.001)
        chain.operations[-1].pop("chunks", None)
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        memory=draw.choice(["64KiB", "200KiB", "1GiB"]),
        inputs=chain.inputs.of,
        defaults={"warmup": 0, "repeat": 1},
        operations=chain.operations,
    )


def start(folder, index, count, *more):
    return harness.start(*arguments(folder, index, count, *more), env=plain_environment())


def end(process, expect=OK):
    _, said = process.communicate(timeout=90)
    assert process.returncode == expect, said
    return said


def at_once(folder, draw, count, *more):
    processes = []
    for index in draw.sample(range(count), count):
        processes.append(start(folder, index, count, *more))
        time.sleep(draw.choice([0, 0, 0.2]))
    for process in processes:
        end(process)


def one_after_another(folder, draw, count, *more):
    """Nothing is ever missing: each reads of lower numbers alone."""
    for index in range(count):
        shard(folder, index, count, "--wait", 0, *more)


def two_at_a_time(folder, draw, count, *more):
    """As an array with a limit: whenever one ends, the next begins."""
    waiting, running = list(range(count)), []
    while waiting or running:
        while waiting and len(running) < 2:
            running.append(start(folder, waiting.pop(0), count, *more))
        ended = [process for process in running if process.poll() is not None]
        running = [process for process in running if process not in ended]
        for process in ended:
            end(process)
        time.sleep(0.01)


def some_killed(folder, draw, count, *more):
    processes = {index: start(folder, index, count, "--resume", *more) for index in draw.sample(range(count), count)}
    for index in draw.sample(range(count), draw.randint(1, count)):
        time.sleep(draw.choice([0, 0.05, 0.2]))
        processes[index].kill()
        processes[index].communicate()
        processes[index] = start(folder, index, count, "--resume", *more)
    for process in processes.values():
        end(process)


@pytest.mark.parametrize("way", [at_once, one_after_another, two_at_a_time, some_killed])
@pytest.mark.parametrize("case", range(CASES))
def test_drawn_chains(folder, case, way):
    draw = random.Random(SEED * 1000 + case)
    draw_job(folder, draw)
    way(folder, draw, draw.randint(2, 5), "--by", draw.choice(["tiles", "tiles", "runs"]))
    merge(folder)
    assert_equals_unsharded(folder)


# ---- one chain -----------------------------------------------------------------------------------------------------


def chain(folder, size=96, repeat=1, **more):
    """Of two shards both make half of the product, and the second the rest."""
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [size, size], "low": -1, "seed": 1}}},
        operations=[
            {"id": "product", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], "repeat": repeat} | more,
            {"id": "flipped", "op": "transpose", "inputs": ["product"], "variants": ["cpu"]},
            {"id": "total", "op": "reduce", "inputs": ["flipped"], "operator": "sum", "axis": 0, "variants": ["cpu"]},
        ],
        defaults={"warmup": 0, "repeat": 1},
    )


FIRST = "'product, rows 0 to 47 of 96'"


def waiting(folder, *more):
    """The second of two shards, once it says that it waits for the first."""
    process = start(folder, 1, 2, "--progress", "plain", *more)
    said = ""
    while "waits for" not in said:
        said += (line := process.stderr.readline())
        assert line, said
    return process, said


def test_a_wait_is_said(folder):
    chain(folder)
    process, said = waiting(folder)
    assert f"[2/3] waits for {FIRST} of shard 0 of 2, which has not begun" in said
    shard(folder, 0, 2)
    assert "[2/3] flipped cpu: ok" in end(process)
    merge(folder)
    assert_equals_unsharded(folder)


def test_a_wait_names_the_place(folder):
    chain(folder)
    first = harness.start(*arguments(folder, 0, 2), env=plain_environment(SLURM_JOB_ID="13", SLURM_ARRAY_JOB_ID="12",
                                                                         SLURM_ARRAY_TASK_ID="0"))  # fmt: skip
    end(first)
    (part,) = (path for path in (folder / "out.h5.parts/shard-0-of-2").glob("*.h5") if path.name != "shard.h5")
    part.unlink()
    process, said = waiting(folder)
    assert f"of shard 0 of 2 (node {os.uname().nodename}, job 12_0), which seems to have stopped" in said
    chain(folder, repeat=1)
    shard(folder, 0, 2, "--resume")
    end(process)


@pytest.mark.parametrize("seconds", [0, 1])
def test_the_limit_of_a_wait(folder, seconds):
    chain(folder)
    begun = time.monotonic()
    said = shard(folder, 1, 2, "--wait", seconds, expect=INTERRUPTED).stderr
    assert seconds <= time.monotonic() - begun
    assert (
        f"tilerun: shard 1 of 2 has waited {seconds} s (--wait) for {FIRST} of shard 0 of 2, which has not begun. "
        "Run that shard, then run shard 1 again with --resume\n"
    ) in said
    assert "interrupted: 1 of 3 runs are done" in said and "2 runs remain, from 'flipped cpu' on" in said
    shard(folder, 0, 2)
    assert "(kept from before)" in shard(folder, 1, 2, "--resume").stderr
    merge(folder)
    assert_equals_unsharded(folder)


def test_the_limit_while_the_producer_is_at_work(folder):
    chain(folder, repeat=300)
    first = start(folder, 0, 2)
    while not (folder / "out.h5.parts/shard-0-of-2/shard.h5").exists():
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    said = shard(folder, 1, 2, "--wait", 0, expect=INTERRUPTED).stderr
    node = os.uname().nodename
    assert f"which is running (node {node}). Let that shard end, then run shard 1 again" in said
    first.kill()
    first.communicate()
    said = shard(folder, 1, 2, "--resume", "--wait", 0, expect=INTERRUPTED).stderr
    assert f"which seems to have stopped (node {node}). Run that shard with --resume, then" in said


def test_a_shard_does_not_wait_for_another_job(folder):
    chain(folder, size=384)
    process, _ = waiting(folder)
    harness.tilerun(*arguments(folder, 0, 2), "--repeat", "7", expect=OK, env=plain_environment())
    assert "because that shard stopped (it does another job: `repeat: 7` there, `repeat: 1` here)" in end(process, IO)


def test_a_shard_that_stopped_ends_the_waits_for_it(folder):
    """It was refused room, which is no signal: it does not come back by itself. What reads nothing of it is done."""
    document = json.loads(chain(folder, size=384).read_text())
    document["operations"] += [{"id": f"own{i}", "op": "scale", "inputs": ["a"], "alpha": 2, "variants": ["cpu"]} for i in range(4)]
    (folder / "job.yaml").write_text(json.dumps(document))
    limited = {"env": plain_environment(), "expect": IO, "preexec_fn": lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (200_000, 200_000))}  # fmt: skip
    process, _ = waiting(folder)
    harness.tilerun(*arguments(folder, 0, 2), **limited)
    said = end(process, IO)
    lost = "tilerun: 'product, rows 0 to 191 of 384' of shard 0 of 2 is missing, because that shard stopped (/"
    assert lost in said and "size limit of 200000 bytes (`ulimit -f`)); run it with --resume, then shard 1: " in said
    assert "own3 cpu, rows 192 to 383 of 384: ok" in said and "2 of 6 runs are missing, the others are kept" in said, said
    process, said = waiting(folder, "--resume")  # both may begin again, this one first
    assert "shard 0 of 2 (node " in said and "which has stopped and may begin again within a minute" in said
    shard(folder, 0, 2, "--resume")
    end(process)
    merge(folder)
    assert_equals_unsharded(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_ends_a_wait(folder, number):
    chain(folder)
    process, _ = waiting(folder)
    process.send_signal(number)
    said = end(process, INTERRUPTED)
    assert f"while it waits for {FIRST}" in said and "interrupted: 1 of 3 runs are done" in said
    shard(folder, 0, 2), shard(folder, 1, 2, "--resume")
    merge(folder)
    assert_equals_unsharded(folder)


def half_wrong(folder, half=0):
    """A chain whose product is wrong in the rows that one of two shards makes: the tolerance is none."""
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.ones((96, 96), dtype="f4")
        file["y"] = np.ones((96, 96), dtype="f4")
        file["x"][48 * half : 48 * half + 48] = np.random.default_rng(1).random((48, 96), dtype="f4")
    path = chain(folder, tolerance=1e-12, verify="full", inputs=["x", "y"])
    document = json.loads(path.read_text())
    document["inputs"] = {name: {"file": "in.h5", "dataset": name} for name in ("x", "y")}
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("together", [True, False])
def test_a_producer_without_result(folder, together):
    """What reads it is skipped at once, whichever shard does it."""
    half_wrong(folder)
    if together:
        process, _ = waiting(folder)
        shard(folder, 0, 2, expect=RUN)
        said = end(process, RUN)
    else:
        shard(folder, 0, 2, expect=RUN)
        said = shard(folder, 1, 2, "--wait", 0, expect=RUN).stderr
    assert "flipped cpu: skipped: its input 'product' has no result" in said
    assert "total cpu: skipped: its input 'flipped' has no result" in said
    merge(folder, expect=RUN)
    rows = harness.Results(folder / "out.h5").rows
    assert [row["status"] for row in rows] == ["wrong", "skipped", "skipped"]
    assert rows[1]["message"] == "its input 'product' has no result"


@pytest.mark.parametrize("half", [0, 1])
def test_a_producer_of_which_one_panel_is_wrong(folder, half):
    """A shard that has made both panels reads the product no more than the others do."""
    half_wrong(folder, half)
    document = json.loads((folder / "job.yaml").read_text())
    read = {"op": "matmul", "inputs": ["product", "y"], "variants": ["cpu"], "repeat": 3}
    document["operations"][1:] = [{"id": "left"} | read, {"id": "right"} | read]
    (folder / "job.yaml").write_text(json.dumps(document))
    said = "".join(shard(folder, i, 2, "--by", "tiles", expect=RUN).stderr for i in range(2))
    for name in ("left", "right"):
        assert f"{name} cpu: skipped: its input 'product' has no result" in said
    merge(folder, expect=RUN)
    assert [row["status"] for row in harness.Results(folder / "out.h5").rows] == ["wrong", "skipped", "skipped"]


def test_what_failed_before_is_awaited_once_its_shard_runs_again(folder):
    half_wrong(folder)
    shard(folder, 0, 2, expect=RUN)
    note = folder / "out.h5.parts/shard-0-of-2/shard.h5"
    later = time.time() + 1
    os.utime(note, (later, later))  # as if it had just begun anew
    said = shard(folder, 1, 2, "--wait", 0, expect=INTERRUPTED).stderr
    assert f"for {FIRST}" in said and "skipped" not in said


def test_a_damaged_part_is_awaited(folder):
    chain(folder)
    shard(folder, 0, 2)
    (part,) = (path for path in (folder / "out.h5.parts/shard-0-of-2").glob("*.h5") if path.name != "shard.h5")
    with open(part, "r+b") as file:
        file.seek(part.stat().st_size // 2)
        file.write(b"damaged")
    process, said = waiting(folder)
    assert FIRST in said
    shard(folder, 0, 2, "--resume")
    end(process)
    merge(folder)
    assert_equals_unsharded(folder)


@pytest.mark.parametrize("by", ["tiles", "runs"])
def test_results_of_other_inputs_are_not_read(folder, by):
    """A key has the values of all inputs that a result was made from."""
    fork(folder)
    harness.write_arrays(folder / "in.h5", a=np.random.default_rng(1).random((64, 64), dtype="f4"))
    document = json.loads((folder / "job.yaml").read_text())
    document["inputs"]["a"] = {"file": "in.h5", "dataset": "a"}
    (folder / "job.yaml").write_text(json.dumps(document))
    shard(folder, 0, 2, "--by", by)
    with h5py.File(folder / "in.h5", "r+") as file:
        file["a"][0, 0] += 1
    said = shard(folder, 1, 2, "--by", by, "--wait", 0, expect=INTERRUPTED).stderr
    assert "has waited 0 s" in said
    shard(folder, 0, 2, "--by", by, "--resume"), shard(folder, 1, 2, "--by", by, "--resume", "--wait", 0)
    merge(folder)
    assert_equals_unsharded(folder)


def test_a_deep_chain(folder):
    """A key is made from those before it, each of which is made once: not twice for each that reads it twice."""
    square = {"op": "matmul", "variants": ["cpu"], "store": "none", "alpha": 0.5}
    names = ["a", *(f"o{number}" for number in range(40))]
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [2, 2]}}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[{"id": own, "inputs": [read, read], **square} for read, own in zip(names, names[1:])],
    )
    shard(folder, 0, 1)
    merge(folder)


# ---- whole operations ----------------------------------------------------------------------------------------------


def fork(folder, **more):
    """Two long operations that read a short one, and one that reads both."""
    long = {"op": "matmul", "variants": ["cpu"], "repeat": 20}
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [64, 64], "low": -1, "seed": 1}}},
        operations=[
            {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]} | more,
            {"id": "left", "inputs": ["flipped", "a"]} | long,
            {"id": "right", "inputs": ["a", "flipped"]} | long,
            {"id": "both", "op": "transpose", "inputs": ["left"], "variants": ["cpu"]},
            {"id": "last", "op": "matmul", "inputs": ["both", "right"], "variants": ["cpu"]},
        ],
        defaults={"warmup": 0, "repeat": 1},
    )


@pytest.mark.parametrize("store", ["first", "none", "all"])
def test_a_fork_is_spread(folder, store):
    fork(folder, store=store)
    found = json.loads(harness.tilerun("plan", folder / "job.yaml", "--shards", 2, "--by", "runs", "--json").stdout)
    assert [row["runs"] for row in found["shards"]] == [4, 2] and found["longest_over_mean"] < 1.25
    assert found["shards"][0]["waits_s"] == 0 < found["shards"][1]["waits_s"]
    second = start(folder, 1, 2, "--by", "runs")
    end(start(folder, 0, 2, "--by", "runs")), end(second)
    merge(folder)
    assert_equals_unsharded(folder)


def test_a_chain_stays_together(folder):
    """Of which nothing can be done at the same time."""
    chain(folder, repeat=5)
    assert "has nothing to do" in shard(folder, 1, 2, "--by", "runs").stderr


def test_a_part_without_output_is_not_enough(folder):
    """Made when nothing read it: its shard does the run once more."""
    fork(folder, store="none")
    shard(folder, 0, 2, "--by", "runs", "--only", "flipped")
    said = shard(folder, 1, 2, "--by", "runs", "--wait", 0, expect=INTERRUPTED).stderr
    assert "for 'flipped' of shard 0 of 2, which" in said
    shard(folder, 0, 2, "--by", "runs", "--resume"), shard(folder, 1, 2, "--by", "runs", "--resume")
    merge(folder)
    assert_equals_unsharded(folder)


def test_what_a_job_that_goes_on_has_of_before(folder):
    """Shards find runs in the former results file, and so do those that wait for them."""
    fork(folder)
    document = json.loads((folder / "job.yaml").read_text())
    document["operations"][2] |= {"tolerance": 1e-12, "verify": "full"}
    (folder / "job.yaml").write_text(json.dumps(document))
    harness.run_folder(folder, expect=RUN)
    said = end(start(folder, 1, 2, "--by", "runs", "--resume", "--wait", "0"), RUN)
    assert "right cpu: wrong" in said
