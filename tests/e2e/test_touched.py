"""An input whose file is touched, or written with the values that it had, has not changed: the hash of its values
decides. One whose values changed costs the runs that read it. A folder where the output cannot be replaced is found
before anything is run."""

import os
import shutil
import stat
import subprocess
import threading
import time

import h5py
import numpy as np
import pytest

import harness
from harness import IO, OK, USAGE

LAYOUTS = {"contiguous": {}, "chunked": {"chunks": (64, 300)}, "gzip": {"chunks": (64, 300), "compression": "gzip"}}


def make(folder, layout, parts):
    rng = np.random.default_rng(3)
    names = [f"part-{i}.h5" for i in range(parts)] if parts else ["a.h5"]
    for name in names:
        with h5py.File(folder / name, "w") as file:
            file.create_dataset("x", data=rng.normal(size=(600, 300)).astype("f4"), **LAYOUTS[layout])
    reads = {"file": "part-*.h5", "dataset": "/x", "concatenate": 0} if parts else {"file": "a.h5", "dataset": "/x"}
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"A": reads},
        defaults={"warmup": 0},
        operations=[
            {"id": "first", "op": "transpose", "inputs": ["A"], "variants": ["cpu"], "repeat": 1},
            {"id": "second", "op": "transpose", "inputs": ["A"], "variants": ["cpu", "blocked"], "repeat": 300},
        ],
    )
    return [folder / name for name in names]


def run(folder, on_line):
    """Runs the job; calls on_line(text) for each line of its progress. Returns the exit code and what it said."""
    process = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5", "--overwrite")
    said = []
    for line in process.stderr:
        said.append(line)
        on_line(line)
    process.stdout.close()
    return process.wait(), "".join(said)


@pytest.mark.parametrize("parts", [0, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_touched_all_the_time(folder, layout, parts):
    paths, over = make(folder, layout, parts), threading.Event()

    def touch():
        while not over.wait(0.05):
            for path in paths:
                os.utime(path)

    if parts:  # those of a pattern may be written once they were read
        code, said = run(folder, lambda line: "[1/" in line and [os.utime(path) for path in paths])
    else:
        thread = threading.Thread(target=touch)
        thread.start()
        code, said = run(folder, lambda line: None)
        over.set()
        thread.join()
    assert code == OK, said


@pytest.mark.parametrize("parts", [0, 3])
def test_changed_after_the_first_run(folder, parts):
    paths = make(folder, "contiguous", parts)
    with h5py.File(paths[-1]) as file:
        offset = file["x"].id.get_offset()
    before = paths[-1].read_bytes()

    def change(line):
        if "[1/" in line:
            with open(paths[-1], "r+b") as file:
                file.seek(offset + 400)
                file.write(b"\x00\x00\x80\x3f")

    code, said = run(folder, change)
    assert code == IO and "[1/3] first cpu: ok" in said and "changed while the job ran" in said, said
    shutil.copyfile(paths[-1], folder / "changed")
    assert (folder / "changed").read_bytes() != before
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume")
    assert done.returncode == OK and "kept from before" not in done.stderr, done.stderr


def test_sticky_folder(folder):
    """Another user's output there cannot be replaced, whatever its mode is: nothing is run."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv, to be two users")
    place = folder / "sticky"
    place.mkdir()
    place.chmod(0o1777)
    for path in (folder, folder.parent):
        path.chmod(path.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"R": {"random": {"shape": [9, 9]}}},
        operations=[{"id": "t", "op": "transpose", "inputs": ["R"], "variants": ["cpu"], "repeat": 1}],
    )  # fmt: skip
    assert harness.tilerun("run", folder / "job.yaml", "-o", place / "out.h5").returncode == OK
    (place / "out.h5").chmod(0o666)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*other, str(harness.TILERUN), "run", str(folder / "job.yaml")]
    ask = subprocess.run([*other, "test", "-x", str(harness.TILERUN), "-a", "-r", command[-1]])
    if ask.returncode != 0:
        pytest.skip("another user cannot reach the program")
    begun = time.time()
    for name, code in [("out.h5", USAGE), ("new.h5", OK)]:
        done = subprocess.run([*command, "-o", str(place / name), "--overwrite"], capture_output=True, text=True)
        assert done.returncode == code and ("is sticky" in done.stderr) == (code == USAGE), done.stderr
        assert ("[1/1]" in done.stderr) == (code == OK), done.stderr
    assert (place / "out.h5").stat().st_mtime < begun + 60


def test_another_users_parts_are_not_called_missing(tmp_path, tmp_path_factory):
    """A folder or a file in OUTPUT.parts that this user may not read: an error with what its owner can do."""
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    out, parts = tmp_path / "out.h5", tmp_path / "out.h5.parts"
    for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        path.chmod(path.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    harness.write_job(
        tmp_path / "job.yaml", device="cpu", inputs={"R": {"random": {"shape": [9, 9]}}},
        operations=[{"id": i, "op": "transpose", "inputs": ["R"], "variants": ["cpu"], "repeat": 1} for i in "ab"],
    )  # fmt: skip
    for shard in range(2):
        harness.tilerun("run", tmp_path / "job.yaml", "-o", out, "--shard", f"{shard}/2", expect=OK)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*other, "test", "-x", str(harness.TILERUN), "-a", "-r", str(parts)]).returncode != 0:
        pytest.skip("another user cannot reach the program")
    kept = next(parts.glob("shard-1-of-2/*[0-9a-f].h5"))
    for path in (parts / "shard-1-of-2/shard.h5", kept, parts / "shard-0-of-2", parts):
        mode = path.stat().st_mode
        path.chmod(0o700)
        for command in ("show", "merge"):
            done = subprocess.run([*other, str(harness.TILERUN), command, str(out)], capture_output=True, text=True)
            assert done.returncode == IO and f"{path}: cannot be read: " in done.stderr, (path, done.stderr)
            assert f"`chmod -R g+rwX {parts}`" in done.stderr, done.stderr
        path.chmod(mode)
    for path in (tmp_path, parts, parts / "shard-1-of-2"):
        os.chown(path, -1, 65534)
        path.chmod(0o775)
    for lock in parts.rglob("lock"):
        lock.chmod(0o666)
    done = subprocess.run([*other, str(harness.TILERUN), "merge", str(out)], capture_output=True, text=True)
    assert done.returncode == OK and f"{parts} stays: 1 finished run in it cannot be removed" in done.stderr, done.stderr


def test_a_shard_does_not_wait_for_parts_that_it_may_not_read(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    out, parts = tmp_path / "out.h5", tmp_path / "out.h5.parts"
    for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        path.chmod(path.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    scale = {"op": "scale", "variants": ["cpu"], "repeat": 1}
    harness.write_job(
        tmp_path / "job.yaml", device="cpu", inputs={"R": {"random": {"shape": [9, 9]}}},
        operations=[{"id": i, "inputs": ["R" if i == "a" else "a"], **scale} for i in "abcd"],
    )  # fmt: skip
    command = ["run", str(tmp_path / "job.yaml"), "-o", str(out), "--shard"]
    harness.tilerun(*command, "0/2", expect=OK)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(harness.TILERUN)]
    if subprocess.run([*other, "show", str(out)]).returncode != 0:
        pytest.skip("another user cannot reach the program")
    for path in (tmp_path, parts):
        os.chown(path, -1, 65534)
        path.chmod(0o775)
    for lock in parts.rglob("lock"):
        lock.chmod(0o666)
    made = next(parts.glob("shard-0-of-2/*[0-9a-f].h5"))
    for path in (made, made.parent):
        mode = path.stat().st_mode
        path.chmod(0o700)
        done = subprocess.run([*other, *command, "1/2", "--resume", "--wait", "50"], capture_output=True, text=True,
                              timeout=40)  # fmt: skip
        assert done.returncode == IO and f"{path}: cannot be read: " in done.stderr, done.stderr
        path.chmod(mode)
    done = subprocess.run([*other, *command, "1/2", "--resume"], capture_output=True, text=True)
    assert done.returncode == OK, done.stderr
