"""What lies where a job wants to write: nothing that is not its own is changed or removed unasked. The state of the
world (OUTPUT, OUTPUT.parts, the trace, flags) is drawn at random, and a model says what must become of it."""

import os
import random
import shutil

import numpy as np

import harness
import trace_schema
from harness import OK, USAGE
from places import FLAGS, X, run, snapshot, two_names, write_job

ALWAYS, NEVER = (lambda flags: True), (lambda flags: False)
IF_OVERWRITTEN = lambda flags: "--overwrite" in flags
IF_ASKED = lambda flags: bool(flags)


def copy(name):
    return lambda made, path: shutil.copy(made / name, path)


def link(target, **files):
    """A symbolic link, and the files that it may lead to."""

    def make(made, path):
        for name, source in files.items():
            shutil.copy(made / source, path.parent / f"{name}.x")
        path.symlink_to(target)

    return make


def hard_link(target):
    return lambda made, path: os.link(path.parent / target, path)


def read_only(made, path):
    shutil.copy(made / "text.txt", path)
    path.chmod(0o440)


def foreign_hdf5(made, path):
    harness.write_arrays(path, mine=[1, 2, 3])


NEVER_WRITTEN = {
    "directory": (lambda made, path: path.mkdir(), NEVER),
    "fifo": (lambda made, path: os.mkfifo(path), NEVER),
    "link loop": (lambda made, path: path.symlink_to(path.name), NEVER),
    "link to no folder": (link("no/such/file"), NEVER),
    "link to the job": (link("job.yaml"), NEVER),
    "hard link to the job": (hard_link("job.yaml"), NEVER),
    "link to an input": (link("in.h5"), NEVER),
    "hard link to an input": (hard_link("in.h5"), NEVER),
    "link to what an input links to": (link("far.h5"), NEVER),
    "hard link to what an input links to": (hard_link("far.h5"), NEVER),
}

# How it is made, and with which flags it may be replaced.
OUTPUTS = {
    **NEVER_WRITTEN,
    "nothing": (lambda made, path: None, ALWAYS),
    "dangling link": (link("new.x"), ALWAYS),
    "dangling link to a link": (lambda made, path: (link("b.x")(made, path), (path.parent / "b.x").symlink_to("c.x")), ALWAYS),
    "text": (copy("text.txt"), IF_OVERWRITTEN),
    "read-only text": (read_only, IF_OVERWRITTEN),
    "empty": (lambda made, path: path.touch(), IF_OVERWRITTEN),
    "foreign HDF5": (foreign_hdf5, IF_OVERWRITTEN),
    "truncated results": (copy("truncated.h5"), IF_OVERWRITTEN),
    "results of another job": (copy("others.h5"), IF_OVERWRITTEN),
    "text of two names": (two_names, IF_OVERWRITTEN),
    "link to text": (link("text.x", text="text.txt"), IF_OVERWRITTEN),
    "its results": (copy("own.h5"), IF_ASKED),
    "link to its results": (link("own.x", own="own.h5"), IF_ASKED),
    "link to others' results": (link("others.x", others="others.h5"), IF_OVERWRITTEN),
}


def folder_of(*names, parts=False):
    def make(made, path):
        if parts:
            shutil.copytree(made / "parts", path)
        else:
            path.mkdir()
        for name in names:
            (path / name).write_text(f"the user's {name}\n")

    return make


def with_link(name):
    def make(made, path):
        shutil.copytree(made / "parts", path)
        shutil.copy(made / "text.txt", path.parent / "precious.txt")
        (path / name).symlink_to("../precious.txt")

    return make


def folder_link(made, path):
    shutil.copytree(made / "parts", path.parent / "elsewhere")
    path.symlink_to("elsewhere")


USERS = ["notes.txt", "data.h5", "x.tmp", "run-a.tmp", "run-.tmp", "0123456789abcdef.h5", "A" * 32 + ".h5", ".hidden"]
PARTS = {
    "nothing": (lambda made, path: None, ALWAYS),
    "empty": (folder_of(), ALWAYS),
    "ours": (folder_of(parts=True), IF_ASKED),
    "ours and the user's": (folder_of(*USERS, parts=True), IF_ASKED),
    "the user's": (folder_of(*USERS), ALWAYS),
    "what a kill left": (folder_of("run-3.tmp", "assembled.tmp"), ALWAYS),
    "text": (copy("text.txt"), NEVER),
    "link": (folder_link, NEVER),
    "dangling link": (link("nowhere"), NEVER),
    "a link of our name": (with_link("run-0.tmp"), NEVER),
    "a link as the lock": (with_link("lock"), NEVER),
    "a link as a part": (with_link("0" * 32 + ".h5"), NEVER),
    "a link as the end": (with_link("assembled.tmp"), NEVER),
    "a lock that is not one": (folder_of("lock"), NEVER),
}

# None: no --trace at all. The output's own name is drawn as a trace below.
TRACES = {
    **NEVER_WRITTEN,
    "none": (None, ALWAYS),
    "nothing": (lambda made, path: None, ALWAYS),
    "empty": (lambda made, path: path.touch(), ALWAYS),
    "a trace": (copy("trace.json"), ALWAYS),
    "link to a trace": (link("t.x", t="trace.json"), ALWAYS),
    "dangling link": (link("newtrace.x"), ALWAYS),
    "text": (copy("text.txt"), IF_OVERWRITTEN),
    "foreign HDF5": (foreign_hdf5, IF_OVERWRITTEN),
    "results": (copy("own.h5"), IF_OVERWRITTEN),
    "link to text": (link("tt.x", tt="text.txt"), IF_OVERWRITTEN),
}
TRACE_NAMES = {"the output": "out.h5", "the parts": "out.h5.parts", "a part": "out.h5.parts/run-9.tmp", "null": "/dev/null"}


def real(path):
    """Where the links lead, relative to the folder that all is in."""
    return os.path.relpath(os.path.realpath(path), os.path.realpath(path.parent))


def check_case(folder, made, seed):
    draw = random.Random(seed)
    write_job(folder)
    flags = draw.choice(FLAGS)
    # Each of the three is what it mostly is, or anything.
    output = draw.choice(sorted(OUTPUTS)) if draw.random() < 0.7 else "nothing"
    parts = draw.choice(sorted(PARTS)) if draw.random() < 0.5 else "nothing"
    trace = draw.choice(sorted(TRACES) + sorted(TRACE_NAMES)) if draw.random() < 0.5 else "none"
    OUTPUTS[output][0](made, folder / "out.h5")
    target = real(folder / "out.h5") if OUTPUTS[output][1] != NEVER else "out.h5"
    PARTS[parts][0](made, folder / f"{target}.parts")
    good = OUTPUTS[output][1](flags) and PARTS[parts][1](flags)
    arguments = list(flags)
    if trace in TRACE_NAMES:
        good = good and trace == "null"
        arguments += ["--trace", TRACE_NAMES[trace].replace("out.h5.parts", f"{target}.parts")]
    elif trace != "none":
        TRACES[trace][0](made, folder / "run.json")
        good = good and TRACES[trace][1](flags)
        arguments += ["--trace", "run.json"]
    nothing_to_do = good and "--resume" in flags and output in ("its results", "link to its results")
    told = f"seed {seed}: {output=} {parts=} {trace=} {flags=}"

    before = snapshot(folder)
    done = run(folder, *arguments)
    after = snapshot(folder)
    told += f"\n{done.stderr}"
    assert done.returncode == (OK if good else USAGE), told
    assert ("nothing to do" in done.stderr) == nothing_to_do, told

    ours = lambda name: name.startswith(f"{target}.parts/") and name.split("/")[1] in OURS | set(os.listdir(made / "parts"))
    written = set()
    if good and not nothing_to_do:
        written = {target} | ({real(folder / "run.json")} if trace in TRACES and trace != "none" else set())
    for name in before.keys() | after.keys():
        if name in written or ours(name):
            continue
        if name == f"{target}.parts" and (parts in ("nothing", "empty") or not any(map(ours, after))):
            continue
        assert before.get(name) == after.get(name), f"{name}\n{told}"
    if not good:
        assert done.stdout == "" and done.stderr.startswith("tilerun: "), told
        nobodys = {f"{target}.parts"} if parts in ("empty", "what a kill left") else set()
        kept = {name: value for name, value in before.items() if not name.endswith(".tmp") and name not in nobodys}
        assert kept.items() <= after.items(), told
        return "refused"
    np.testing.assert_array_equal(harness.Results(folder / "out.h5").output("small"), X * 2, told)
    assert not any(map(ours, after)), told
    assert (f"{target}.parts" in after) == ("the user's" in parts), told
    if "the user's" in parts and not nothing_to_do:
        assert f"{target}.parts stays: it holds {len(USERS)} files that are not tilerun's" in done.stderr, told
    if target in before and target in after:
        assert before[target][1] == after[target][1], f"its mode\n{told}"
    if written - {target}:
        trace_schema.load(folder / "run.json")
    return "nothing to do" if nothing_to_do else "done"


OURS = {"lock", "run-3.tmp", "assembled.tmp"}
CASES = int(os.environ.get("TILERUN_CASES", 200))


def test_any_state_of_the_world(memory_folder, made):
    first = int(os.environ.get("TILERUN_SEED", random.SystemRandom().randrange(10**9)))
    outcomes = {}
    for seed in range(first, first + CASES):
        folder = memory_folder / f"world-{seed}"
        folder.mkdir()
        outcome = check_case(folder, made, seed)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        shutil.rmtree(folder)
    assert outcomes["refused"] > CASES / 10 and outcomes["done"] > CASES / 10, outcomes
