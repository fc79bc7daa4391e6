"""What lies where a job wants to write: nothing that is not its own is changed or removed unasked. The state of the
world (OUTPUT, OUTPUT.parts, the trace, flags) is drawn at random, and a model says what must become of it."""

import os
import random
import resource
import shutil
import stat
import subprocess
import time

import h5py
import numpy as np
import pytest

import harness
import trace_schema
from harness import IO, OK, USAGE

X = np.arange(12.0, dtype="f4").reshape(4, 3)
FLAGS = [(), ("--resume",), ("--overwrite",), ("--resume", "--overwrite")]


def write_job(folder, alpha=2):
    """`small` is finished and kept where `large` finds no room; X is behind an external link."""
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={
            "x": {"file": "in.h5", "dataset": "x"},
            "r": {"random": {"shape": [200, 300]}},
        },
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "small", "op": "scale", "inputs": ["x"], "alpha": alpha, "variants": ["cpu"]},
            {"id": "large", "op": "scale", "inputs": ["r"], "variants": ["cpu"]},
        ],
    )


def write_inputs(folder):
    with h5py.File(folder / "far.h5", "w") as file:
        file["x"] = X
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = h5py.ExternalLink("far.h5", "x")


def run(folder, *arguments, job="job.yaml", **options):
    return harness.tilerun("run", job, "-o", "out.h5", "--progress", "none", *arguments, cwd=folder, **options)


def without_room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))


@pytest.fixture(scope="module")
def made(memory_folder):
    """Files as earlier runs leave them: complete results of this job and of another, a finished part, a trace."""
    folder = memory_folder / "places"
    folder.mkdir()
    write_inputs(folder)
    write_job(folder, alpha=3)
    assert run(folder).returncode == OK
    (folder / "out.h5").rename(folder / "others.h5")
    write_job(folder)
    assert run(folder, preexec_fn=without_room).returncode == IO
    (folder / "out.h5.parts").rename(folder / "parts")
    assert len(list((folder / "parts").iterdir())) == 1
    assert run(folder, "--trace", "trace.json").returncode == OK
    (folder / "out.h5").rename(folder / "own.h5")
    (folder / "truncated.h5").write_bytes((folder / "own.h5").read_bytes()[:3000])
    (folder / "text.txt").write_text("my thesis\n")
    return folder


def snapshot(folder):
    """Every name below a folder: what it is, its mode, what it holds or leads to."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        kind = stat.S_IFMT(about.st_mode)
        holds = path.read_bytes() if kind == stat.S_IFREG else os.readlink(path) if kind == stat.S_IFLNK else None
        found[str(path.relative_to(folder))] = (kind, about.st_mode & 0o7777, holds)
    return found


# ---- the world, and the model of what becomes of it ----------------------------------------------------------------

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


def two_names(made, path):
    shutil.copy(made / "text.txt", path.parent / "other-name.txt")
    os.link(path.parent / "other-name.txt", path)


def read_only(made, path):
    shutil.copy(made / "text.txt", path)
    path.chmod(0o440)


def foreign_hdf5(made, path):
    with h5py.File(path, "w") as file:
        file["mine"] = [1, 2, 3]


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
    write_inputs(folder)
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


# ---- inputs that are read from elsewhere ---------------------------------------------------------------------------


def stored_outside(folder, name):
    """A data set whose bytes are in NAME.bin."""
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file.create_dataset("x", data=X, external=[(f"{name}.bin", 0, h5py.h5f.UNLIMITED)])
    return [f"{name}.bin"]


def virtual(folder, name, sources, dataset="x"):
    layout = h5py.VirtualLayout((4 * len(sources), 3), "f4")
    for i, source in enumerate(sources):
        layout[4 * i : 4 * i + 4] = h5py.VirtualSource(source, dataset, (4, 3))
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file.create_virtual_dataset("x", layout)


def through_links(folder):
    with h5py.File(folder / "c.h5", "w") as file:
        file["deep/x"] = X
    with h5py.File(folder / "b.h5", "w") as file:
        file["group"] = h5py.ExternalLink("c.h5", "/deep")
        file["soft"] = h5py.SoftLink("/group/x")
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = h5py.ExternalLink("b.h5", "/soft")
    return ["b.h5", "c.h5"]


def through_mappings(folder):
    """A virtual data set of a file, of a virtual one, and of an external link."""
    for name in ("plain", "inner", "linked"):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["x"] = X
    virtual(folder, "outer", ["inner.h5"])
    with h5py.File(folder / "link.h5", "w") as file:
        file["x"] = h5py.ExternalLink("linked.h5", "x")
    virtual(folder, "in", ["plain.h5", "outer.h5", "link.h5"])
    return ["plain.h5", "outer.h5", "inner.h5", "link.h5", "linked.h5"]


def through_numbered_files(folder):
    """block-%b.h5: as many as there are."""
    for i in range(3):
        with h5py.File(folder / f"block-{i}.h5", "w") as file:
            file["x"] = X
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    space = h5py.h5s.create_simple((0, 3), (h5py.h5s.UNLIMITED, 3))
    space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (4, 3), (4, 3))
    source = h5py.h5s.create_simple((4, 3))
    creation.set_virtual(space, b"block-%b.h5", b"x", source)
    with h5py.File(folder / "in.h5", "w") as file:
        h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((12, 3)), creation)
    return [f"block-{i}.h5" for i in range(3)]


def in_another_folder(folder):
    """HDF5 looks beside the file that the name stands in; for the raw file, in the current folder."""
    (folder / "data").mkdir()
    with h5py.File(folder / "data/far.h5", "w") as file:
        file["x"] = X
    with h5py.File(folder / "data/near.h5", "w") as file:
        file["x"] = h5py.ExternalLink("far.h5", "x")
    (folder / "in.h5").symlink_to("data/near.h5")
    return ["data/near.h5", "data/far.h5"]


SOURCES = {
    "links": through_links,
    "mappings": through_mappings,
    "numbered": through_numbered_files,
    "outside": lambda folder: stored_outside(folder, "in"),
    "folder": in_another_folder,
}


@pytest.mark.parametrize("way", SOURCES)
def test_no_file_that_an_input_reads_is_written(folder, way, monkeypatch):
    monkeypatch.chdir(folder)  # where h5py finds the file of external storage
    sources = SOURCES[way](folder)
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"x": {"file": "in.h5", "dataset": "x"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"], "repeat": 1}],
    )
    (folder / "sub").mkdir()
    before = snapshot(folder)
    for source in sources:
        assert (folder / source).exists()
        (folder / "alias.h5").symlink_to(source)
        for name in (source, "alias.h5"):
            for flag in ("--overwrite", "--resume"):
                done = harness.tilerun("run", "job.yaml", "-o", name, flag, cwd=folder)
                assert done.returncode == USAGE and "the job's input 'x'" in done.stderr, done.stderr
            done = harness.tilerun("run", "job.yaml", "-o", "out.h5", "--trace", name, "--overwrite", cwd=folder)
            assert done.returncode == USAGE and "the job's input 'x'" in done.stderr, done.stderr
        (folder / "job2.yaml").write_text((folder / "job.yaml").read_text().replace("{", f'{{"output": "{source}",', 1))
        done = harness.tilerun("check", "job2.yaml", cwd=folder)
        assert done.returncode == USAGE
        assert done.stderr.startswith("job2.yaml: output ") and "the job's input 'x'" in done.stderr, done.stderr
        (folder / "job2.yaml").unlink()
        (folder / "alias.h5").unlink()
    assert snapshot(folder) == before
    assert harness.tilerun("run", "job.yaml", "-o", "out.h5", cwd=folder).returncode == OK


def test_check_says_that_an_output_is_read(folder):
    write_inputs(folder)
    write_job(folder)
    text = (folder / "job.yaml").read_text()
    for output, words in (("in.h5", "is the job's input 'x'"), ("job.yaml", "is the job file itself")):
        (folder / "job.yaml").write_text(text.replace("{", f'{{"output": "{output}",', 1))
        done = harness.tilerun("check", "job.yaml", cwd=folder)
        assert (done.returncode, done.stdout) == (USAGE, "")
        assert done.stderr == f"job.yaml: output {output}: {words}\n"
    for output in ("new.h5", "no/such/folder/new.h5"):  # which may be there by the time that it runs
        (folder / "job.yaml").write_text(text.replace("{", f'{{"output": "{output}",', 1))
        done = harness.tilerun("check", "job.yaml", cwd=folder)
        assert (done.returncode, done.stdout, done.stderr) == (OK, "", "")


# ---- links and mounts ----------------------------------------------------------------------------------------------


def test_two_names_share_one_lock(folder):
    """Parts lie beside the file, not beside a link to it: whoever writes through either name meets the other."""
    write_inputs(folder)
    write_job(folder)
    (folder / "far").mkdir()
    (folder / "out.h5").symlink_to("far/real.h5")
    assert run(folder, preexec_fn=without_room).returncode == IO
    assert len(list((folder / "far/real.h5.parts").glob("*.h5"))) == 1
    done = harness.tilerun("run", "job.yaml", "-o", "far/real.h5", cwd=folder)
    assert done.returncode == USAGE and "far/real.h5.parts holds 1 finished run of" in done.stderr
    done = run(folder, "--resume")
    assert done.returncode == OK
    assert (folder / "out.h5").is_symlink() and os.listdir(folder / "far") == ["real.h5"]


@pytest.fixture
def mount(folder):
    mounted = []

    def do(*arguments):
        command = ["mount", *map(str, arguments)]
        if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("nothing can be mounted here")
        mounted.append(arguments[-1])

    yield do
    for path in reversed(mounted):
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_parts_on_another_mount(folder, mount, kind):
    """A rename does not go from one mount to another, be they of one file system: said at the start."""
    write_inputs(folder)
    write_job(folder)
    (folder / "out.h5.parts").mkdir()
    if kind == "tmpfs":
        mount("-t", "tmpfs", "-o", "size=8m", "tilerun-test", folder / "out.h5.parts")
    else:
        (folder / "elsewhere").mkdir()
        mount("--bind", folder / "elsewhere", folder / "out.h5.parts")
    before = snapshot(folder)
    for flags in FLAGS:
        done = run(folder, *flags)
        assert done.returncode == USAGE, done.stderr
        assert "out.h5.parts: is on another file system than out.h5" in done.stderr
    assert snapshot(folder) == before


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o444])
def test_mode_is_kept(folder, made, mode):
    write_inputs(folder)
    write_job(folder)
    for name in ("out.h5", "run.json"):
        shutil.copy(made / "text.txt", folder / name)
        (folder / name).chmod(mode)
    assert run(folder, "--overwrite", "--trace", "run.json").returncode == OK
    for name in ("out.h5", "run.json"):
        assert (folder / name).stat().st_mode & 0o7777 == mode


def test_hard_links_are_told_of(folder, made):
    write_inputs(folder)
    write_job(folder)
    two_names(made, folder / "out.h5")
    done = run(folder, "--overwrite")
    assert done.returncode == OK
    assert "output out.h5: has 2 names (hard links); the others keep what is there now" in done.stderr
    assert (folder / "other-name.txt").read_text() == "my thesis\n"


def test_an_input_among_the_parts(folder, made):
    """A part of an interrupted job is a good input, but not of the job that would remove it."""
    write_inputs(folder)
    shutil.copytree(made / "parts", folder / "out.h5.parts")
    (part,) = (folder / "out.h5.parts").iterdir()
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"x": {"file": str(part), "dataset": "output"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"], "repeat": 1}],
    )
    before = snapshot(folder)
    for flags in FLAGS:
        done = run(folder, *flags)
        assert done.returncode == USAGE and "the job's input 'x' lies in out.h5.parts" in done.stderr, done.stderr
    assert snapshot(folder) == before


# ---- traces --------------------------------------------------------------------------------------------------------


def test_trace_goes_where_standard_output_goes(folder):
    """Into the file that a shell opened, behind what is in it; the table comes after."""
    write_inputs(folder)
    write_job(folder)
    for name in ("/dev/stdout", "said.txt"):
        with open(folder / "said.txt", "w") as said:
            said.write("before\n")
            said.flush()
            command = [str(harness.TILERUN), "run", "job.yaml", "-o", "out.h5", "--overwrite", "--trace", name]
            assert subprocess.run(command, stdout=said, stderr=subprocess.PIPE, cwd=folder).returncode == OK
        before, trace, table = (folder / "said.txt").read_text().partition("]}\n")
        assert before.startswith('before\n{"displayTimeUnit"') and trace and table.startswith("operation")
    done = run(folder, "--overwrite", "--trace", "/dev/stdout")  # a pipe
    assert done.returncode == OK and done.stdout.startswith('{"displayTimeUnit"') and "operation" in done.stdout


def test_trace_into_a_pipe(folder):
    write_inputs(folder)
    write_job(folder)
    os.mkfifo(folder / "pipe")
    done = run(folder, "--trace", "pipe")
    assert done.returncode == USAGE and "trace pipe: cannot be written: nobody reads from this pipe" in done.stderr
    assert not (folder / "out.h5").exists()
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run(folder, "--trace", "pipe").returncode == OK
    assert os.read(reader, 1 << 16).startswith(b'{"displayTimeUnit"')
    os.close(reader)


def test_trace_of_another_name_of_the_output(folder, made):
    write_inputs(folder)
    write_job(folder)
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("out.h5")
    (folder / "here").symlink_to(".")
    for name in ("./out.h5", "sub/../out.h5", "link", "here/out.h5", folder / "out.h5"):
        done = run(folder, "--trace", name)  # neither is there yet
        assert done.returncode == USAGE and f"trace {name}: is the output itself" in done.stderr, done.stderr
    shutil.copy(made / "own.h5", folder / "out.h5")
    os.link(folder / "out.h5", folder / "hard")
    done = run(folder, "--overwrite", "--trace", "hard")
    assert done.returncode == USAGE and "trace hard: is the output itself" in done.stderr
    assert (folder / "out.h5").read_bytes() == (made / "own.h5").read_bytes()


def test_a_refused_run_leaves_the_trace_alone(folder, made):
    """Of whatever is refused, and where there is nothing to do."""
    write_inputs(folder)
    write_job(folder)
    shutil.copy(made / "trace.json", folder / "run.json")
    shutil.copy(made / "own.h5", folder / "out.h5")
    before = snapshot(folder)
    assert run(folder, "--trace", "run.json").returncode == USAGE
    assert run(folder, "--trace", "run.json", "--resume").returncode == OK
    assert snapshot(folder) == before
    (folder / "in.h5").unlink()
    assert run(folder, "--trace", "run.json", "--overwrite").returncode == USAGE
    assert (folder / "run.json").read_bytes() == (made / "trace.json").read_bytes()


# ---- many at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--resume",), ("--overwrite",)], ids=["new", "resume", "overwrite"])
def test_many_start_at_once(folder, flags):
    """One runs at a time, and the others say why they do not: never that something cannot be made."""
    write_inputs(folder)
    write_job(folder)
    for _ in range(8):
        command = [str(harness.TILERUN), "run", "job.yaml", "-o", "out.h5", "--progress", "none", *flags]
        options = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started = [subprocess.Popen(command, **options) for _ in range(12)]
        ends = [(*process.communicate(timeout=60), process.returncode) for process in started]
        done = [stderr for _, stderr, code in ends if code == OK]
        worked = [stderr for stderr in done if "nothing to do" not in stderr]
        assert len(worked) == 1 or (worked and "--overwrite" in flags), ends
        for _, stderr, code in ends:
            late = "exists; --overwrite replaces it" in stderr and not flags
            assert code == OK or (code == USAGE and ("another tilerun is writing it" in stderr or late)), stderr
        assert sorted(path.name for path in folder.iterdir()) == ["far.h5", "in.h5", "job.yaml", "out.h5"]
        (folder / "out.h5").unlink()
