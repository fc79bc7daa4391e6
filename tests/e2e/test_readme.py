"""Every command of README.md, run as it stands and in order, in a fresh copy of the tree."""

import os
import re
import shutil
import stat
import subprocess

import h5py

import harness

README = (harness.ROOT / "README.md").read_text()
MAY_DIFFER = ("tilerun reproduce", "tilerun compare")  # exit code 1: this machine was slower the second time


def commands():
    """The indented lines, without their comments; `make test` is what runs this."""
    lines = re.findall(r"^    (\S.*)", re.sub(r"```.*?```", "", README, flags=re.S), re.M)
    return [line for line in (re.sub(r"\s+#.*", "", line) for line in lines) if line != "make test"]


def clone(folder):
    """The tracked files, with the program under test. `make` takes that as built: building takes minutes."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=harness.ROOT, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        for name in filter(None, listed.stdout.split("\0")):
            if (harness.ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(harness.ROOT / name, folder / name)
    else:
        shutil.copytree(harness.ROOT, folder, ignore=shutil.ignore_patterns("build*"), dirs_exist_ok=True)
    (folder / "build").mkdir()
    shutil.copy2(harness.TILERUN, folder / "build/tilerun")
    make = folder.parent / "bin/make"
    make.parent.mkdir()
    make.write_text(f'#!/bin/sh\nexec {shutil.which("make")} -o build/tilerun "$@"\n')
    make.chmod(make.stat().st_mode | stat.S_IXUSR)
    return make.parent


def test_commands(folder):
    tree = folder / "tilerun"
    tree.mkdir()
    tools = clone(tree)
    (tree / "job.yaml").write_text(re.search(r"Save this as `job.yaml`.*?```yaml\n(.*?)```", README, re.S)[1])
    listed = commands()
    assert len(listed) >= 12
    script = "".join(f"{command}\necho $? >&3\n" for command in listed)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment |= {"PATH": f"{tools}:{os.environ['PATH']}", "DEPS": "0", "HOME": str(folder / "home")}
    log, codes = folder / "log", folder / "codes"
    with open(log, "w") as out:
        bash = ["bash", "-c", f"exec 3> {codes}\n{script}"]
        subprocess.run(bash, cwd=tree, env=environment, stdout=out, stderr=out, timeout=300)
    said = log.read_text()
    ends = dict(zip(listed, map(int, codes.read_text().split()), strict=True))
    for command, code in ends.items():
        if code and not shutil.which(command.split()[0]) and not command.startswith("tilerun"):
            continue  # no make or h5dump here
        assert code == 0 or (code == 1 and command.startswith(MAY_DIFFER)), f"{command}\n{said}"
    lines = {" ".join(line.replace("+-", "±").split()) for line in said.splitlines()}
    (table,) = re.findall(r"```text\n(.*?)```", README, re.S)  # is what its command prints
    assert [line for line in table.splitlines() if " ".join(line.split()) not in lines] == []
    with h5py.File(tree / "job.h5") as file:
        for n in (256, 512, 1024):
            assert file[f"outputs/n={n}/product"].shape == (n, 64) and file[f"outputs/n={n}/means"].shape == (64,)
