"""The disk's side of a job: any system call may fail, any place be full, any part vanish. Every failure ends with the
documented exit code and a message that names the file, leaves nothing unreadable, and loses nothing that was finished:
--resume then gives the bits of an undisturbed run."""

import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess

import h5py
import numpy as np
import pytest

import faults
import harness
from harness import IO, OK, USAGE

CASES = int(os.environ.get("TILERUN_CASES", "5"))
SEED = int(os.environ.get("TILERUN_SEED", "20261"))
STEP = max(1, 40 // CASES)  # where each case writes 64 MiB


def run(folder, *arguments, job="job.yaml", **options):
    return harness.tilerun("run", folder / job, "-o", folder / "out.h5", "--progress", "none", *arguments, **options)


def faulty(folder, shim, call, nth, *arguments, number=errno.ENOSPC, mode="once", **options):
    """A run in which the nth such call on the output or its parts fails; and how many calls there were."""
    count = folder / "count"
    done = run(folder, *arguments, env=faults.environment(shim, count, call, nth, mode, number), **options)
    return done, int(count.read_text())


def four_operations(folder, large=False):
    """All operations, each kind of storage; `large`: one part becomes the results file."""
    rows = 4096 if large else 150
    harness.write_arrays(folder / "x.h5", x=np.random.default_rng(SEED).normal(size=(rows, rows)).astype("f4"))
    operations = [
        {"id": "twice", "op": "scale", "inputs": ["x"], "alpha": 2, "checksum": "none"},
        {"id": "sums", "op": "reduce", "inputs": ["twice"], "operator": "sum", "axis": 0, "store": "all"},
        {"id": "packed", "op": "scale", "inputs": ["sums"], "beta": 1, "compression": "gzip"},
    ]
    if not large:
        operations += [
            {"id": "flipped", "op": "transpose", "inputs": ["twice"]},
            {"id": "product", "op": "matmul", "inputs": ["x", "flipped"], "chunks": [70, 64], "checksum": "none"},
            {"id": "total", "op": "reduce", "inputs": ["product"], "operator": "max", "axis": "all"},
        ]
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"x": {"file": "x.h5", "dataset": "x"}},
        defaults={"warmup": 0, "repeat": 1}, operations=operations,
    )  # fmt: skip


def outputs(folder):
    return {name: values.tobytes() for name, values in harness.Results(folder / "out.h5").everything().items()}


def parts(folder):
    return {path.name: path.read_bytes() for path in (folder / "out.h5.parts").glob("*.h5")}


def forget(folder):
    (folder / "out.h5").unlink(missing_ok=True)
    shutil.rmtree(folder / "out.h5.parts", ignore_errors=True)


CALLS = [
    ("write", errno.ENOSPC, "full"), ("write", errno.EIO, "once"), ("write", errno.EDQUOT, "all"),
    ("fsync", errno.EIO, "once"), ("rename", errno.EACCES, "once"), ("fallocate", errno.ENOSPC, "once"),
    ("fallocate", errno.EOPNOTSUPP, "all"), ("fallocate", errno.EINTR, "once"), ("mmap", errno.ENODEV, "once"),
    ("open", errno.EMFILE, "once"),
]  # fmt: skip


@pytest.mark.parametrize("call, number, mode", CALLS, ids=[f"{c[0]}-{errno.errorcode[c[1]]}-{c[2]}" for c in CALLS])
def test_any_call_may_fail(folder, shim, call, number, mode):
    """Those at the ends, and some between drawn at random (all of them: TILERUN_CASES=1000)."""
    four_operations(folder)
    done, count = faulty(folder, shim, call, 0)
    assert done.returncode == OK and count > 0, done.stderr
    expected = outputs(folder)
    harmless = call == "mmap" or number in (errno.EOPNOTSUPP, errno.EINTR)
    some = set(np.random.default_rng(SEED).permutation(count)[:CASES] + 1)
    for nth in [n for n in range(1, count + 1) if n in some or n <= 2 or n > count - 4]:
        forget(folder)
        done, called = faulty(folder, shim, call, nth, number=number, mode=mode)
        told = f"{call} {nth} of {count}: exit {done.returncode}, {done.stderr}"
        if harmless or called < nth:  # (workers share writes out as it comes)
            assert done.returncode == OK, told
        else:
            assert done.returncode == IO or (call == "open" and done.returncode == USAGE), told
            assert re.search(r"out\.h5\S*: .*" + re.escape(os.strerror(number)), done.stderr), told
        if (folder / "out.h5").exists():
            assert outputs(folder) == expected, told
        again = run(folder, "--resume")
        assert again.returncode == OK, f"{told}\nthen {again.stderr}"
        assert outputs(folder) == expected, told


@pytest.mark.parametrize("mode", ["once", "full"])
def test_any_write_of_the_assembly_may_fail(folder, shim, mode):
    """Whatever fails, every part is byte for byte what it was, but for the largest, which was becoming the file: only
    its unit is made again."""
    four_operations(folder, large=True)
    assert run(folder).returncode == OK
    expected = outputs(folder)
    forget(folder)
    done, _ = faulty(folder, shim, "fsync", 1, number=errno.EIO, mode="all")  # of the part, which is copied then
    assert done.returncode == IO and "cannot be synced: Input/output error" in done.stderr, done.stderr
    before = parts(folder)
    assert len(before) == 3 and not (folder / "out.h5").exists()
    largest = max(before, key=lambda name: len(before[name]))
    others = {name: data for name, data in before.items() if name != largest}
    shutil.copytree(folder / "out.h5.parts", folder / "saved")
    nth, steps, adopted = 0, random.Random(SEED), 0
    while True:
        nth += steps.randint(1, STEP)
        forget(folder)
        shutil.copytree(folder / "saved", folder / "out.h5.parts")
        done, count = faulty(folder, shim, "write", nth, "--resume", mode=mode)
        if count < nth:
            break
        assert done.returncode == IO, f"write {nth}: {done.stderr}"
        assert re.search(r"out\.h5\.parts/\S+: cannot be written: No space left on device", done.stderr), done.stderr
        left = parts(folder)
        assert not (folder / "out.h5").exists() and left in (before, others), f"write {nth}"
        adopted += left == others
        again = run(folder, "--resume", "--progress", "plain")
        assert again.returncode == OK and outputs(folder) == expected, f"write {nth}: {again.stderr}"
        assert again.stderr.count("kept from before") == len(left), again.stderr
    assert nth > 5 and adopted and done.returncode == OK and outputs(folder) == expected
    assert not (folder / "out.h5.parts").exists()


def test_a_name_that_the_results_cannot_get(folder, shim):
    """Only the unit whose part had become the file is made again."""
    four_operations(folder, large=True)
    renames = faulty(folder, shim, "rename", 0)[1]
    expected = outputs(folder)
    forget(folder)
    done, _ = faulty(folder, shim, "rename", renames, number=errno.EACCES)  # the last gives the file its name
    assert done.returncode == IO and "cannot be renamed to it: Permission denied" in done.stderr, done.stderr
    assert len(parts(folder)) == 2 and not (folder / "out.h5").exists()
    done, _ = faulty(folder, shim, "rename", 2, "--resume", number=errno.EACCES)  # of the part, which is copied then
    assert done.returncode == OK and outputs(folder) == expected, done.stderr
    assert not (folder / "out.h5.parts").exists()


def test_what_is_complete_may_not_open(folder, shim):
    """Nothing is left to do then, but the results are looked at and shown."""
    four_operations(folder)
    assert run(folder).returncode == OK
    expected = outputs(folder)
    count = faulty(folder, shim, "open", 0, "--resume")[1]
    for nth in range(1, count + 1):
        done, _ = faulty(folder, shim, "open", nth, "--resume", number=errno.EMFILE)
        assert done.returncode in (OK, IO, USAGE), f"open {nth}: {done.stderr}"
        assert done.returncode == OK or re.search(r"out\.h5\S*: .*Too many open files", done.stderr), done.stderr
        assert outputs(folder) == expected
    assert count > 1


def slow_job(folder, *operations, **inputs):
    """The operations, and then one that takes a second or so."""
    slow = {"id": "slow", "op": "matmul", "inputs": ["r", "r"], "variants": [{"name": "cpu", "threads": 1}], "repeat": 100}
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"r": {"random": {"shape": [160, 160]}}, **inputs},
        defaults={"warmup": 0, "repeat": 1}, operations=[*operations, slow],
    )  # fmt: skip


def meddle(folder, deed, after):
    """Runs the job, does the deed once run number `after` is finished, and returns exit code and stderr."""
    process = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "plain")
    for line in process.stderr:
        if line.startswith(f"[{after}/"):
            break
    process.send_signal(signal.SIGSTOP)  # however long the deed takes
    deed()
    process.send_signal(signal.SIGCONT)
    said = process.stderr.read()
    process.stdout.read()
    return process.wait(timeout=60), said


@pytest.mark.parametrize("which", [0, 1, "all"])
def test_part_that_vanishes(folder, which):
    scales = [{"id": f"s{i}", "op": "scale", "inputs": ["r"], "beta": i} for i in range(2)]
    slow_job(folder, *scales)
    assert run(folder, "--once").returncode == OK
    expected = outputs(folder)
    forget(folder)
    gone = []

    def remove():
        found = sorted((folder / "out.h5.parts").glob("*.h5"))
        assert len(found) == 2
        for path in found if which == "all" else [found[which]]:
            path.unlink()
            gone.append(path)

    code, said = meddle(folder, remove, after=2)
    assert code == IO and any(f"{path}: No such file" in said for path in gone), said
    assert not (folder / "out.h5").exists()
    again = run(folder, "--resume")
    assert again.returncode == OK and outputs(folder) == expected, again.stderr


def write_input(folder, name="x.h5", rows=150):
    harness.write_arrays(folder / name, x=np.random.default_rng(SEED).normal(size=(rows, rows)).astype("f4"))


@pytest.mark.parametrize("deed", ["cut", "written", "replaced", "removed"])
def test_input_that_changes(folder, deed):
    """Read before and after the change. What stays open stays what it was, though its name is gone."""
    write_input(folder)

    def change():
        path = folder / "x.h5"
        if deed == "cut":
            os.truncate(path, path.stat().st_size // 2)
        elif deed == "written":
            with open(path, "r+b") as file:
                file.seek(-100, os.SEEK_END)
                file.write(b"?" * 8)
        elif deed == "replaced":
            write_input(folder, "y.h5", rows=170)
            os.replace(folder / "y.h5", path)
        else:
            path.unlink()

    reads = {"op": "scale", "inputs": ["x"]}
    slow_job(folder, {"id": "before", **reads}, x={"file": "x.h5", "dataset": "x"})
    text = (folder / "job.yaml").read_text()
    after = ', {"id": "after", "op": "scale", "inputs": ["x"], "beta": 2}\n ]'
    (folder / "job.yaml").write_text(re.sub(r"\s*\]\s*\}\s*$", after + "\n}", text))
    code, said = meddle(folder, change, after=1)
    if deed in ("cut", "written"):
        assert code == IO and re.search(r"x\.h5'?:? .*(changed while the job ran|cannot be read)", said), said
        assert not (folder / "out.h5").exists()
    else:
        assert code == OK, said
        np.testing.assert_array_equal(
            harness.Results(folder / "out.h5").output("after"), harness.Results(folder / "out.h5").output("before") + 2
        )


def test_output_that_another_writes(folder):
    """It was not there when the job began: it stays, and so do the finished runs."""
    write_input(folder)
    slow_job(folder, {"id": "y", "op": "scale", "inputs": ["x"]}, x={"file": "x.h5", "dataset": "x"})
    code, said = meddle(folder, lambda: (folder / "out.h5").write_text("somebody's"), after=1)
    assert code == IO and "out.h5: another process has written it while the job ran" in said, said
    assert (folder / "out.h5").read_text() == "somebody's"
    assert len(parts(folder)) == 2
    (folder / "out.h5").unlink()
    assert run(folder, "--resume").returncode == OK


def test_part_that_is_cut_short_under_its_writer(folder):
    """Written through a mapping where the file system allows: an error, not SIGBUS."""
    harness.write_job(
        folder / "job.yaml", device="cpu", memory="16MiB", inputs={"r": {"random": {"shape": [12000, 3000]}}},
        operations=[{"id": "y", "op": "scale", "inputs": ["r"], "checksum": "none", "repeat": 1, "warmup": 0}],
    )  # fmt: skip
    process = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "none")
    part = folder / "out.h5.parts" / "run-0.tmp"
    while process.poll() is None:
        if part.exists() and part.stat().st_size > 100e6:
            os.truncate(part, 20_000_000)
            break
    said = process.stderr.read()
    assert process.wait(timeout=60) == IO and "run-0.tmp: cannot be written" in said, said


# ---- limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trial", range(CASES))
def test_limit_on_the_size_of_files(folder, trial):
    """`ulimit -f`, as a shell sets it: the signal is not ignored beforehand."""
    four_operations(folder)
    assert run(folder).returncode == OK
    expected, size = outputs(folder), (folder / "out.h5").stat().st_size
    forget(folder)
    limit = int(np.random.default_rng([SEED, trial]).integers(2000, size - 1))
    done = run(folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), expect=IO)
    words = rf"out\.h5\S*: cannot be written: .*exceed the file size limit of {limit} bytes \(`ulimit -f`\)"
    assert re.search(words, done.stderr) and "checksum" not in done.stderr, done.stderr
    again = run(folder, "--resume")
    assert again.returncode == OK and outputs(folder) == expected, again.stderr


DISK = "64m"


def resize(disk, pages):
    return subprocess.run(["mount", "-o", f"remount,size={4 * pages}k", str(disk)], capture_output=True)


@pytest.mark.parametrize("large", [False, True])
def test_disk_that_is_full_at_the_assembly(folder, small_disk, shim, large):
    """All parts fit; page by page there is more room for the rest, until there is enough."""
    resize(small_disk, 60_000)
    four_operations(folder, large)
    for name in ("job.yaml", "x.h5"):
        shutil.move(folder / name, small_disk / name)
    assert run(small_disk).returncode == OK
    expected = outputs(small_disk)
    forget(small_disk)
    assert faulty(small_disk, shim, "fsync", 1, number=errno.EIO, mode="all")[0].returncode == IO
    before, failures = parts(small_disk), 0
    used = -(-(shutil.disk_usage(small_disk).used) // 4096)
    for room in range(0, 400, 4 * STEP):
        if resize(small_disk, used + room).returncode != 0:
            continue
        done = run(small_disk, "--resume")
        if done.returncode == OK:
            break
        if done.returncode == USAGE:  # the outputs alone are known to be too much
            assert re.search(r"needs .* are free", done.stderr) and parts(small_disk) == before
            continue
        failures += 1
        assert done.returncode == IO and re.search(r"out\.h5\.parts\S*: .*No space left", done.stderr), done.stderr
        assert parts(small_disk) == before and not (small_disk / "out.h5").exists()
    assert failures > 0 and done.returncode == OK and outputs(small_disk) == expected


@pytest.mark.parametrize(
    "order, count, descriptors", [("chain", 400, 100), ("wide", 400, 100), ("random", 700, 128)]
)
def test_more_tasks_than_descriptors(folder, order, count, descriptors):
    """Operations on a fifth as many files, in chains; or all of the files and then all of the results; or on any."""
    rng, files = np.random.default_rng(SEED), count // 5
    for i in range(files):
        with h5py.File(folder / f"x{i}.h5", "w") as file:
            file.create_dataset("x", data=np.full((3, 4), i), chunks=(2, 2) if i % 2 else None)
    inputs = {f"x{i}": {"file": f"x{i}.h5", "dataset": "x"} for i in range(files)}
    operations, values = [], {}
    for i in range(count):
        if order == "chain":
            source = f"x{i}" if i < files else f"y{i - files}"
        elif order == "wide":
            source = f"x{i % files}" if i < count // 2 else f"y{i - count // 2}"
        else:
            source = f"x{i % files}" if rng.integers(2) or i == 0 else f"y{rng.integers(i)}"
        operations.append({"id": f"y{i}", "op": "scale", "inputs": [source], "beta": i % 7, "variants": ["cpu"]})
        values[f"y{i}"] = (int(source[1:]) if source[0] == "x" else values[source]) + i % 7
    harness.write_job(
        folder / "job.yaml", device="cpu", sync=False, inputs=inputs,
        defaults={"warmup": 0, "repeat": 1}, operations=operations,
    )  # fmt: skip
    done = run(folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)), timeout=300)
    assert done.returncode == OK, done.stderr[-2000:]
    with h5py.File(folder / "out.h5") as file:
        for name, value in values.items():
            assert (file[f"outputs/{name}"][:] == value).all(), name


def test_soft_limit_on_descriptors_is_raised(folder):
    write_input(folder)
    slow_job(folder, {"id": "y", "op": "scale", "inputs": ["x"]}, x={"file": "x.h5", "dataset": "x"})
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 512))  # noqa: E731
    process = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "plain", preexec_fn=limit)
    process.stderr.readline()
    with open(f"/proc/{process.pid}/limits") as file:
        assert re.search(r"Max open files +512 +512", file.read())
    process.stdout.read(), process.stderr.read()
    assert process.wait(timeout=60) == OK


# ---- standard streams --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", range(1, 8))
def test_closed_descriptors(folder, closed):
    """Whatever of 0, 1 and 2 is closed, nothing that is printed gets into a file."""
    four_operations(folder)
    redirections = " ".join(f"{i}<&-" for i in range(3) if closed >> i & 1)
    command = f'"$0" run "$1/job.yaml" -o "$1/out.h5" --trace "$1/trace.json" --progress plain {redirections}'
    done = subprocess.run(["bash", "-c", command, harness.TILERUN, folder], capture_output=True, text=True)
    assert done.returncode == OK
    assert json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert {row["status"] for row in harness.Results(folder / "out.h5").rows} == {"ok"}


COMMANDS = [
    "--help", "--version", "--print-schema", "--print-reference", "list", "devices", "check job.yaml", "plan job.yaml",
    "plan job.yaml --resolved", "show out.h5", "show out.h5 --csv", "show out.h5 --json", "run --help",
    "run job.yaml -o new.h5", "run job.yaml -o new.h5 --json",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_full_standard_output(folder, command):
    four_operations(folder)
    assert run(folder).returncode == OK
    quiet = harness.tilerun(*command.split(), cwd=folder, expect=OK)
    (folder / "new.h5").unlink(missing_ok=True)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [harness.TILERUN, *command.split()], stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder
        )
    if quiet.stdout:
        assert done.returncode == IO and "tilerun: stdout: No space left on device" in done.stderr, done.stderr
    else:
        assert done.returncode == OK
    if command.startswith("run job"):
        assert harness.Results(folder / "new.h5").rows  # what was computed is there all the same
