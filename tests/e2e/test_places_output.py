"""Where the output goes: through links, beside mounts, with its mode kept, and with many that start at once."""

import os
import shutil
import subprocess

import numpy as np
import pytest

import harness
from harness import IO, OK, USAGE
from places import FLAGS, run, snapshot, two_names, without_room, write_job


def test_two_names_share_one_lock(folder):
    """Parts lie beside the file, not beside a link to it: whoever writes through either name meets the other."""
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


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_parts_on_another_mount(folder, mount, kind):
    """A rename does not go from one mount to another, be they of one file system: said at the start."""
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
    write_job(folder)
    for name in ("out.h5", "run.json"):
        shutil.copy(made / "text.txt", folder / name)
        (folder / name).chmod(mode)
    assert run(folder, "--overwrite", "--trace", "run.json").returncode == OK
    for name in ("out.h5", "run.json"):
        assert (folder / name).stat().st_mode & 0o7777 == mode


def test_hard_links_are_told_of(folder, made):
    write_job(folder)
    two_names(made, folder / "out.h5")
    done = run(folder, "--overwrite")
    assert done.returncode == OK
    assert "output out.h5: has 2 names (hard links); the others keep what is there now" in done.stderr
    assert (folder / "other-name.txt").read_text() == "my thesis\n"


@pytest.mark.parametrize("count, words", [(0, None), (1, "file that is"), (2, "files that are"), (3, "files that are")])
def test_files_of_others_keep_the_folder(folder, count, words):
    """Counted are those in OUTPUT.parts and in the folders of shards there, not the folders themselves."""
    write_job(folder)
    names = ["out.h5.parts/notes.txt", "out.h5.parts/shard-1-of-2/.hidden", "out.h5.parts/..x"][:count]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("not tilerun's")
    done = run(folder)
    assert done.returncode == OK, done.stderr
    assert all((folder / name).exists() for name in names) and (folder / "out.h5.parts").exists() == (count > 0)
    told = [line for line in done.stderr.splitlines() if "stays" in line]
    assert told == [f"tilerun: out.h5.parts stays: it holds {count} {words} not tilerun's"] * (count > 0)


@pytest.mark.parametrize("flags", [(), ("--resume",), ("--overwrite",)], ids=["new", "resume", "overwrite"])
def test_many_start_at_once(folder, flags):
    """One runs at a time, and the others say why they do not: never that something cannot be made."""
    write_job(folder)
    for _ in range(3):
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


def test_a_folder_whose_name_is_not_utf8(folder):
    """Shards are merged and reproduced there. A job that such a text gets into is refused before it runs."""
    place = folder / os.fsdecode(b"m\xfcller")
    place.mkdir()
    one = {"id": "y", "op": "scale", "inputs": ["x"]}
    job = harness.write_job(folder / "job.yaml", inputs={"x": {"random": {"shape": [3, 4]}}}, operations=[one])
    harness.tilerun("run", job, "-o", place / "out.h5", "--shard", "0/1", expect=OK)
    harness.tilerun("merge", place / "out.h5", expect=OK)
    assert harness.tilerun("reproduce", place / "out.h5").returncode != USAGE
    harness.write_arrays(place / "x.h5", x=np.ones((2, 3)))
    job = harness.write_job(folder / "home.yaml", inputs={"x": {"file": "~/x.h5", "dataset": "x"}}, operations=[one])
    assert "not UTF-8" in harness.said("check", job, env={**os.environ, "HOME": str(place)})
