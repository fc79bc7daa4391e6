"""`search` of a variant: the fastest right combination wins, what lost is recorded; budgets, resuming, shards, --pin."""

import json
import os
import random
import signal
import time

import numpy as np
import pytest

from harness import OK, RUN, USAGE, Results, start, tilerun, write_job

CASES = int(os.environ.get("TILERUN_CASES", 6))
SEED = int(os.environ.get("TILERUN_SEED", 1))

# y = 2x, after DELAY microseconds of sleep, which others on the machine prolong least; what DEFECT does to it is drawn.
KERNEL = """#include "tilerun.h"
#include <unistd.h>
int slow(const struct launch *launch) {
    const struct scale_args *args = &launch->args.scale;
    usleep(DELAY);
    for (int64_t i = 0; i < args->count; i++) ((T *)args->y)[i] = 2 * ((const T *)args->x)[i] + (DEFECT == 1);
    return DEFECT == 2 ? 7 : 0;
}
#if DEFECT == 3
#error "this combination does not compile"
#endif
"""


def search_job(folder, search, variants=(), **parameters):
    (folder / "slow.c").write_text(KERNEL)
    slow = {"source": "slow.c", "search": search} | parameters
    return write_job(
        folder / "job.yaml",
        inputs={"x": {"random": {"shape": [500]}}},
        operations=[
            {"id": "s", "op": "scale", "inputs": ["x"], "alpha": 2, "repeat": 5, "warmup": 1}
            | {"variants": [*variants, slow]},
            {"id": "t", "op": "scale", "inputs": ["s"], "alpha": 3, "variants": ["cpu"], "repeat": 1, "warmup": 0},
        ],
    )


def run(path, *more, expect=OK):
    return tilerun("run", path, "-o", path.parent / "out.h5", "--allow-source", *more, expect=expect)


def results(path):
    return Results(path.parent / "out.h5")


def winner(path, operation="s"):
    (row,) = [row for row in results(path).rows if row["operation"] == operation and row["status"] == "ok"]
    return row


@pytest.mark.parametrize("case", range(CASES))
def test_the_fastest_right_combination_wins(tmp_path, case):
    draw = random.Random(f"{SEED} search {case}")
    delays = draw.sample([1, 10000, 40000, 160000], draw.randint(2, 4))
    defects = [0] + draw.sample([1, 2, 3], draw.randint(0, 2))
    excluded = draw.choice([0, draw.choice(delays)])
    if set(delays) == {excluded}:
        excluded = 0
    where = f"$delay != {excluded} and ($defect == 0 or $delay < 20000)"
    right = [delay for delay in delays if delay != excluded]
    tried = [(delay, defect) for delay in right for defect in defects if defect == 0 or delay < 20000]
    path = search_job(
        tmp_path, {"budget": "60s", "seed": draw.randint(0, 99)}, delay=delays, defect=defects, where=where
    )
    wrong = [one for one in tried if one[1]]
    done = run(path, expect=RUN if wrong else OK)
    rows = [row for row in results(path).rows if row["operation"] == "s"]
    assert len(rows) == len(tried)
    assert winner(path)["variant"] == f"slow,delay={min(right)},defect=0"
    for row in rows:
        delay, defect = (int(part.split("=")[1]) for part in row["variant"].split(",")[1:])
        if defect:
            assert row["status"] == {1: "wrong", 2: "failed", 3: "failed"}[defect]
        elif row is not winner(path) and delay != min(right):
            assert row["status"] == "skipped" and row["message"] == "search: slower"
            assert row["kernel_median_s"] >= 1e-6 * delay and row["repeats"] >= 3
    assert f"search of {len(tried)} of {len(tried)} combinations" in done.stderr
    values = results(path)
    np.testing.assert_array_equal(values.output("t"), 3 * values.output("s"))


def test_the_first_combination_must_compile(tmp_path):
    path = search_job(tmp_path, {"budget": "9s"}, delay=1, defect=[3, 0])
    done = tilerun("run", path, "-o", tmp_path / "out.h5", "--allow-source")
    assert done.returncode == USAGE and "slow.c:" in done.stderr


def test_nothing_right(tmp_path):
    path = search_job(tmp_path, {"budget": "60s"}, delay=[1, 2], defect=1)
    done = run(path, expect=RUN)
    assert "none gave a result" in done.stderr
    assert [row["status"] for row in results(path).rows] == ["wrong", "wrong", "skipped"]


def test_a_budget_is_kept(tmp_path):
    path = search_job(tmp_path, {"budget": "1s"}, delay=list(range(60000, 60040)), defect=0)
    run(path)
    messages = [row["message"] for row in results(path).rows if row["status"] == "skipped"]
    assert "search: not tried" in messages and len(messages) == 39
    assert winner(path)["repeats"] == 5


def test_an_order_has_a_seed(tmp_path):
    first = {}
    for seed in (1, 1, 2, 3, 4):
        path = search_job(tmp_path, {"budget": "1ms", "seed": seed}, delay=list(range(1, 30)), defect=0)
        run(path, "--overwrite")
        first.setdefault(seed, set()).add(winner(path)["variant"])  # only one is tried
    assert all(len(one) == 1 for one in first.values()) and len(set.union(*first.values())) > 1


def test_built_in_variants(tmp_path):
    path = write_job(
        tmp_path / "job.yaml",
        parameters={"n": [64, 96]},
        inputs={"x": {"random": {"shape": ["$n", 80]}}},
        operations=[
            {"id": "p", "op": "transpose", "inputs": ["x"], "repeat": 4}
            | {"variants": ["cpu", {"name": "blocked", "threads": [1, 2], "search": {"budget": "10s"}}]}
        ],
    )
    run(path)
    for n in (64, 96):
        rows = [row for row in results(path).rows if row["parameters"] == f"n={n}"]
        assert rows[0]["status"] == "ok" and sorted(row["status"] for row in rows[1:]) == ["ok", "skipped"]


def test_once_takes_the_first(tmp_path):
    path = search_job(tmp_path, {"budget": "9s"}, delay=[9, 1], defect=0)
    assert "to search" not in run(path, "--once").stderr
    assert winner(path)["variant"] == "slow,delay=9,defect=0"
    assert [row["message"] for row in results(path).rows if row["status"] == "skipped"] == ["search: not tried"]


def test_an_interrupted_search_goes_on(tmp_path):
    path = search_job(tmp_path, {"budget": "100s"}, delay=list(range(40000, 40012)), defect=0)
    process = start("run", path, "-o", tmp_path / "out.h5", "--allow-source")
    parts = tmp_path / "out.h5.parts"
    while len(list(parts.glob("*.h5"))) < 4:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 75
    kept = {file.name: file.stat().st_mtime_ns for file in parts.glob("*.h5")}
    done = run(path, "--resume")
    assert "search of 12 of 12 combinations" in done.stderr and winner(path)["repeats"] == 5
    assert kept
    again = run(path, "--resume")
    assert "nothing to do" in again.stderr


def test_a_resumed_search_tries_what_is_new(tmp_path):
    path = search_job(tmp_path, {"budget": "60s"}, delay=[20000, 100000], defect=0)
    run(path)
    assert winner(path)["variant"] == "slow,delay=20000,defect=0"
    path = search_job(tmp_path, {"budget": "60s"}, delay=[20000, 100000, 1], defect=0)
    done = run(path, "--resume")
    assert "search of 3 of 3 combinations" in done.stderr and "slow,delay=1,defect=0 is the fastest" in done.stderr


def test_shards(tmp_path):
    path = search_job(tmp_path, {"budget": "60s"}, delay=[1, 90000, 30000], defect=0, variants=["cpu"])
    for shard in ("0/2", "1/2"):
        run(path, "--shard", shard)
    tilerun("merge", tmp_path / "out.h5", "--allow-source", expect=OK)
    statuses = {row["variant"]: row["status"] for row in results(path).rows if row["operation"] == "s"}
    assert statuses == {
        "cpu": "ok",
        "slow,delay=1,defect=0": "ok",
        "slow,delay=90000,defect=0": "skipped",
        "slow,delay=30000,defect=0": "skipped",
    }


def test_pin_and_reproduce(tmp_path, monkeypatch):
    path = search_job(tmp_path, {"budget": "60s"}, delay=[1, 90000, 30000], defect=[0, 1], variants=["cpu"])
    pinned = tmp_path / "pinned.yaml"
    done = run(path, "--pin", pinned, expect=RUN)
    assert "wrote" in done.stderr and "search" not in pinned.read_text().split("\n", 1)[1]
    checked = tilerun("check", pinned)
    assert (checked.returncode, checked.stderr) == (OK, "")
    assert tilerun("run", pinned, "-o", tmp_path / "pinned.h5", "--allow-source").returncode == OK
    rows = Results(tmp_path / "pinned.h5").rows
    assert [row["variant"] for row in rows] == ["cpu", "slow,delay=1,defect=0", "cpu"]
    monkeypatch.setenv("TILERUN_ALLOW_SOURCE", "1")
    tilerun("reproduce", tmp_path / "out.h5", "-o", tmp_path / "again.h5", "--threshold", "1000%", expect=OK)
    assert len(Results(tmp_path / "again.h5").rows) == 3
    assert run(path, "--overwrite", "--pin", pinned, expect=RUN)  # what --pin wrote is replaced


def test_pin_and_reproduce_where_combinations_differ(tmp_path, monkeypatch):
    """The winner of one combination need not exist in the others."""
    monkeypatch.setenv("TILERUN_ALLOW_SOURCE", "1")
    path = search_job(tmp_path, {"budget": "60s"}, delay=["$d", 20000], defect=0)
    write_job(path, **json.loads(path.read_text()) | {"parameters": {"d": [1, 2]}})
    pinned = tmp_path / "pinned.yaml"
    run(path, "--pin", pinned)
    assert "$d" in pinned.read_text() and tilerun("check", pinned).returncode == OK
    again = tmp_path / "again.h5"
    tilerun("reproduce", tmp_path / "out.h5", "-o", again, "--threshold", "90%", expect=(OK, RUN))
    assert sorted(row["variant"] for row in Results(again).rows if row["operation"] == "s") == [
        "slow,delay=1,defect=0",
        "slow,delay=2,defect=0",
    ]


@pytest.mark.parametrize("where", ["job.yaml", "out.h5", "other/pinned.yaml", "slow.c", "taken"])
def test_places_that_pin_refuses(tmp_path, where):
    path = search_job(tmp_path, {"budget": "1s"}, delay=[1, 2], defect=0)
    (tmp_path / "other").mkdir()
    (tmp_path / "taken").write_text("mine\n")
    done = run(path, "--pin", tmp_path / where, expect=USAGE)
    assert "pinned job" in done.stderr and not (tmp_path / "out.h5").exists()


def test_only_runs_what_it_names(tmp_path):
    path = search_job(tmp_path, {"budget": "9s"}, delay=[9, 1], defect=0)
    run(path, "--only", "s:slow,delay=9,defect=0")
    assert [row["variant"] for row in results(path).rows] == ["slow,delay=9,defect=0"]


@pytest.mark.parametrize(
    "search, place",
    [
        ({}, "'budget' is missing"),
        ({"budget": 60}, "has no unit"),
        ({"budget": "60s", "tries": 3}, "unknown key 'tries'"),
        ("60s", "'search' must be a map"),
        ({"budget": "60s", "seed": -1}, "seed"),
    ],
)
def test_mistakes(tmp_path, search, place):
    path = search_job(tmp_path, search, delay=[1, 2], defect=0)
    done = tilerun("check", path)
    assert done.returncode == USAGE and place in done.stderr and "job.yaml:" in done.stderr


def test_nothing_to_choose_from(tmp_path):
    done = tilerun("check", search_job(tmp_path, {"budget": "1s"}, delay=1, defect=0))
    assert done.returncode == USAGE and "nothing to choose from" in done.stderr


def test_check_and_plan_count(tmp_path):
    for budget, limit in (("60s", ", in 60.0 s at most\n"), ("none", "\n")):
        path = search_job(tmp_path, {"budget": budget}, delay=[1, 2, 3], defect=[0, 1], where="$delay + $defect < 4")
        for command in ("check", "plan"):
            said = tilerun(command, path, expect=OK).stderr
            assert f"s: 5 combinations of 'slow' to search{limit}" in said, said
