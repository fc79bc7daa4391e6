"""Where the trace goes: standard output, a pipe, never onto the output, and nowhere when the run is refused."""

import os
import shutil
import subprocess

import harness
from harness import OK, USAGE
from places import run, snapshot, write_job


def test_trace_goes_where_standard_output_goes(folder):
    """Into the file that a shell opened, behind what is in it; the table comes after."""
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
    write_job(folder)
    os.mkfifo(folder / "pipe")
    done = run(folder, "--trace", "pipe")
    assert done.returncode == USAGE and "trace pipe: cannot be written: the pipe has no reader" in done.stderr
    assert not (folder / "out.h5").exists()
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run(folder, "--trace", "pipe").returncode == OK
    assert os.read(reader, 1 << 16).startswith(b'{"displayTimeUnit"')
    os.close(reader)


def test_trace_of_another_name_of_the_output(folder, made):
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
