"""run.sbatch and array.sbatch: a plain job, jobs whose time runs out, jobs that are cancelled, jobs that cannot be."""

import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from slurm import PATIENCE, ROOT, SCRIPTS, assert_same, outputs

JOB = ROOT / "configs/quickstart.yaml"

# Slurm looks at time limits every 30 s, and warns at the first look that finds no more than the lead and 30 s left:
# under a limit of one minute with a lead of 20 s that is 10 to 40 s after the start.
LIMIT = ("--time=1", "--signal=B:USR2@20")
WARNED_AFTER = 40  # s, at most
WORK = 50  # s of kernels that the warning is sure to find unfinished
NAP = 0.02  # s

# y = x, after a nap: tests beside it want the cores.
KERNEL = f"""#include "tilerun.h"
#include <string.h>
#include <unistd.h>
int nap(const struct launch *launch) {{
    const struct scale_args *args = &launch->args.scale;
    usleep({NAP * 1e6:.0f});
    memcpy(args->y, args->x, sizeof(T) * args->count);
    return 0;
}}
"""


def two_chains(cluster):
    """A job of two shards, as operations that read each other stay together. Shard 0, the longest by prediction, is
    done in seconds. Shard 1, whose task has the array's own number, takes `most` naps in each link but its first; its
    samples are predicted by what every `until` takes at least."""

    def chain(name, variant, *repeats):
        links = [{"id": f"{name}{i}", "op": "scale", "variants": [variant], "repeat": r} for i, r in enumerate(repeats)]
        return [{**link, "inputs": [f"{name}{i - 1}" if i else "a"]} for i, link in enumerate(links)]

    (cluster.folder / "nap.c").write_text(KERNEL)
    quick, slow = ({"min": 1, "max": most, "until": until} for most, until in ((1000000, "80%"), ("$most", 1e-9)))
    return cluster.write_job(
        "chains",
        chain("quick", "cpu", *[quick] * 6) + chain("slow", {"source": "nap.c"}, 1, *[slow] * 4),
        parameters={"most": 10000000},
        inputs={"a": {"random": {"shape": [96, 96], "low": -1}}},
        defaults={"warmup": 0},
    )


@pytest.fixture(scope="module")
def warned(cluster):
    """A job and an array with its merge, as they were when Slurm had warned both and they were back in the queue. From
    there they go on."""
    output, joined, plain = (cluster.folder / name for name in ("warned.h5", "joined.h5", "chains.h5"))
    chains, most = two_chains(cluster), WORK / 4 / NAP
    cluster.plain(chains, plain, "--set", "most=1")

    job = cluster.submit("run.sbatch", chains, "-o", output, "--set", f"most={most:.0f}", options=LIMIT)
    options = ("--array=0-1", "--output=%A_%a.out", *LIMIT)
    array = cluster.submit("array.sbatch", chains, "-o", joined, "--set", f"most={most:.0f}", options=options)
    merge = cluster.submit("merge.sbatch", joined, options=[f"--dependency=afterany:{array}"])

    def back(facts):
        return facts["Restarts"] == "1" and facts["JobState"] == "PENDING"

    cluster.wait(job, back, WARNED_AFTER + PATIENCE)
    cluster.until(lambda: back(cluster.tasks(array)[1]), array)
    cluster.idle()
    tasks, said = cluster.tasks(array), cluster.log(job)
    kept = {part: part.stat().st_mtime_ns for part in Path(f"{output}.parts").glob("*.h5")}
    assert not output.exists() and not joined.exists()
    for number in (job, f"{array}_1"):  # the second turn is given time enough to finish
        cluster.release(number, "TimeLimit=60")
    return SimpleNamespace(**locals())


def test_runs_to_completion(cluster):
    output = cluster.folder / "plain.h5"
    cluster.complete(cluster.submit("run.sbatch", JOB, "-o", output))
    assert {"gram", "means"} <= set(outputs(output))


def test_time_limit_requeues_and_resumes(cluster, warned):
    assert "back into the queue" in warned.said
    assert warned.kept, "nothing was finished before the warning"

    cluster.wait(warned.job, lambda facts: facts["JobState"] != "PENDING")
    time.sleep(2)
    again = [part.name for part, then in warned.kept.items() if part.exists() and part.stat().st_mtime_ns != then]
    assert not again, "the second turn did finished work again"

    cluster.complete(warned.job)
    assert_same(warned.output, warned.plain)


def test_time_limit_requeues_one_task_of_an_array(cluster, warned):
    first, last = warned.tasks[0], warned.tasks[1]
    assert last["JobId"] == warned.array, "the last task has a number of its own, so this tests less than it should"
    assert (first["JobState"], first["Restarts"], last["Restarts"]) == ("COMPLETED", "0", "1")
    assert Path(last["StdOut"]).read_text().count("back into the queue") == 1

    cluster.complete(warned.array)
    turns = Path(last["StdOut"]).read_text().split("back into the queue")
    done = [re.findall(r"^\[.*\] (\w+) nap: ok, (?!.*kept)", turn, re.M) for turn in turns]
    assert done[0] and done[1] and done[0] + done[1] == [f"slow{i}" for i in range(5)], done
    cluster.complete(warned.merge)
    assert_same(warned.joined, warned.plain)


def test_cancelled_stays_cancelled(cluster):
    output = cluster.folder / "cancelled.h5"
    job = cluster.submit("run.sbatch", two_chains(cluster), "-o", output)
    parts = Path(f"{output}.parts")
    cluster.until(lambda: any(parts.glob("*.h5")), job)
    cluster.call("scancel", job)
    assert cluster.ends(job) == "CANCELLED", cluster.story(job)
    time.sleep(1)
    assert cluster.records(job)[0]["JobState"] == "CANCELLED"
    assert not output.exists() and any(parts.glob("*.h5"))


def test_a_turn_without_progress_is_the_last(cluster):
    job = two_chains(cluster).rename(cluster.folder / "nothing.yaml")
    number = cluster.submit("run.sbatch", job, "--only", "slow0,slow1")
    parts = cluster.folder / "nothing.h5.parts"  # whose name the job does not say
    cluster.until(lambda: list(parts.glob("**/*.h5")), number)  # slow0 is done, slow1 takes minutes
    cluster.call("scancel", "--batch", "--signal=USR2", number)
    cluster.wait(number, lambda facts: facts["Restarts"] == "1" and facts["JobState"] == "PENDING")
    cluster.idle()
    cluster.release(number)
    cluster.wait(number, lambda facts: facts["JobState"] == "RUNNING")
    cluster.until(lambda: "kept" in cluster.log(number), number)
    cluster.call("scancel", "--batch", "--signal=USR2", number)
    assert cluster.ends(number) == "FAILED" and cluster.records(number)[0]["ExitCode"] == "75:0"
    assert "interrupted in turn 2, not requeued: no run was finished in this turn" in cluster.log(number)
    assert list(parts.glob("**/*.h5"))


def test_the_last_turn_is_named(cluster):
    output = cluster.folder / "turns.h5"
    options = ("--export=ALL,TILERUN_TURNS=0",)
    number = cluster.submit("run.sbatch", two_chains(cluster), "-o", output, options=options)
    cluster.until(lambda: list(Path(f"{output}.parts").glob("**/*.h5")), number)
    cluster.call("scancel", "--batch", "--signal=USR2", number)
    assert cluster.ends(number) == "FAILED" and cluster.records(number)[0]["ExitCode"] == "75:0"
    assert "not requeued: this was turn 1, and TILERUN_TURNS allows 0" in cluster.log(number)


def test_a_module_that_cannot_be_loaded(cluster, tmp_path):
    for script in SCRIPTS.iterdir():
        text = script.read_text().replace("modules=() ", "modules=(nowhere/1.0) ")
        (tmp_path / script.name).write_text(text)
    tmp_path.chmod(0o755)
    (tmp_path / "bashrc").write_text("module() { echo \"module: $2 is unknown\" >&2; return 1; }; export -f module")
    number = cluster.submit(tmp_path / "run.sbatch", JOB, options=(f"--export=ALL,BASH_ENV={tmp_path}/bashrc",))
    assert cluster.ends(number) == "FAILED" and cluster.records(number)[0]["ExitCode"] == "2:0", cluster.story(number)
    assert cluster.log(number) == "module: nowhere/1.0 is unknown\n"


@pytest.mark.parametrize("script", ["run", "array", "merge", "node", "multinode"])
def test_script_without_arguments_fails(cluster, script):
    options = ("--array=0",) if script == "array" else ()
    resources = ("--nodes=1", "--ntasks-per-node=1") if script == "multinode" else ()
    job = cluster.submit(f"{script}.sbatch", options=(*options, *resources))
    assert set(cluster.ends(job)) in ({"FAILED"}, set("FAILED"))
    assert cluster.records(job)[0]["ExitCode"] == "2:0"
    assert f"{script}.sbatch " in cluster.log(job) and "usage: sbatch" in cluster.log(job)
