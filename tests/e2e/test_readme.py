"""The job of README.md and the commands under it, run as printed."""

import os
import re
import shlex
import shutil
import subprocess

import h5py

import harness


def test_the_job_and_its_commands(folder):
    text = (harness.ROOT / "README.md").read_text()
    section = re.search(r"^## A job\n(.*?)^## ", text, re.M | re.S)[1]
    (folder / "job.yaml").write_text(re.search(r"```yaml\n(.*?)```", section, re.S)[1])
    (folder / "data").symlink_to(harness.ROOT / "data")
    (folder / "bin").mkdir()
    (folder / "bin/tilerun").symlink_to(harness.TILERUN)
    commands = re.findall(r"^    ((?:tilerun|h5dump) .*)", section, re.M)
    assert len(commands) >= 6
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    said = {}
    for command in commands:
        words = shlex.split(command, comments=True)
        if not shutil.which(words[0], path=environment["PATH"]):
            continue
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == harness.OK, f"{command}\n{done.stderr}"
        said[" ".join(words[:2])] = done.stdout
    assert said["tilerun check"] == "" and said["tilerun show"].count("product") >= 3
    with h5py.File(folder / "job.h5") as file:
        for n in (256, 512, 1024):
            assert file[f"outputs/n={n}/product"].shape == (n, 64) and file[f"outputs/n={n}/means"].shape == (64,)
