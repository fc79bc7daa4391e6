"""tests/deps.sh on drawn machines: with and without apt, root, sudo and a network, with Pythons of all kinds in PATH. One
interpreter with all modules comes out wherever one can be had, nothing is installed that is there, and with DEPS=0
nothing at all. What it calls are scripts that only note what they were asked for."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import harness

CASES = int(os.environ.get("TILERUN_CASES", 2))
MODULES = ["h5py", "numpy", "pytest", "xxhash", "jsonschema"]
HEADERS = {
    "stdio.h": "libc6-dev", "hdf5.h": "libhdf5-dev", "yaml.h": "libyaml-dev", "xxhash.h": "libxxhash-dev",
    "openssl/sha.h": "libssl-dev", "libdeflate.h": "libdeflate-dev", "liblzf/lzf.h": "liblzf-dev",
    "cmocka.h": "libcmocka-dev",
}
# The last lines of the programs that the compiler is tried with: the second kind is linked with the C++ library.
LINES = {**{f"#include <{header}>": package for header, package in HEADERS.items()}, "int main;": "g++"}
PROGRAMS = {"cc": "gcc", "make": "make", "pkg-config": "pkg-config", "h5dump": "hdf5-tools", "valgrind": "valgrind"}
LESS = {"libdeflate-dev", "liblzf-dev", "hdf5-tools", "valgrind", "python3-pytest-xdist"}
FOR_DEMO = {*LINES.values(), *PROGRAMS.values()} - {"libcmocka-dev", "valgrind"}

# The programs that deps.sh may call, in one: by the name that it is called by. WORLD is its folder.
PRETENDER = """#!%s -IS
import json, os, sys, types
from pathlib import Path

world = Path("WORLD")
name, arguments = Path(sys.argv[0]).name, sys.argv[1:]
state = json.loads((world / "state").read_text())

def note(text):
    with open(world / "log", "a") as log:
        log.write(text + "\\n")

def add_python(path, modules, **terms):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(world / "pretender")
    Path(f"{path}.json").write_text(json.dumps({"modules": modules, "prefix": str(path.parent), "venv": True, **terms}))

def python():
    path = Path(sys.argv[0]).absolute()
    terms = json.loads(Path(f"{path}.json").read_text())
    if terms.get("broken") or os.environ.get("PYTHONHOME"):
        sys.exit("pyenv: python3: command not found")
    if arguments[0] == "-c":
        here = [*terms["modules"], *(["numpy"] if os.environ.get("PYTHONPATH") else [])]
        for module in state["modules"]:
            sys.modules[module] = types.ModuleType(module) if module in here else None
        sys.executable, sys.prefix = str(path), terms["prefix"]
        sys.base_prefix = terms.get("base", terms["prefix"])
        sys.version = sys.version + terms.get("version", "")
        if terms.get("old"):
            sys.version_info = (3, 6, 15)
        exec(arguments[1])
    elif arguments[:2] == ["-m", "venv"]:
        note("venv")
        if not terms["venv"]:
            sys.exit("ensurepip is not available")
        folder = Path(arguments[2])
        add_python(folder / "bin/python", [], base=terms["prefix"])
    elif arguments[:3] == ["-m", "pip", "install"]:
        note("pip " + " ".join(arguments[3:]))
        if not state["pypi"]:
            sys.exit("no network")
        add_python(path, ["xdist" if a == "pytest-xdist" else a for a in arguments], base=terms["base"])

def apt_get():
    names = [a for a in arguments if not a.startswith("-") and "=" not in a]
    note("apt-get " + " ".join(names))
    if names[0] == "update":
        sys.exit(0 if state["update"] else 100)
    if not state["apt"] or set(names[1:]) & set(state["unknown"]):
        sys.exit("E: unable to locate package")
    debian = world / "debian/python3"
    terms = json.loads(Path(f"{debian}.json").read_text()) if debian.exists() else {"modules": []}
    for package in names[1:]:
        if package.startswith("python3"):
            special = {"python3": "sys", "python3-pytest-xdist": "xdist"}
            terms["modules"].append(special.get(package, package.removeprefix("python3-")))
            add_python(debian, terms["modules"], venv=False)
        else:
            with open(world / "lines", "a") as lines:
                lines.writelines(f"{line}\\n" for line, p in LINES.items() if p == package)
            for program in [q for q, p in PROGRAMS.items() if p == package]:
                (world / "bin" / program).symlink_to(world / ("cc" if program == "cc" else "no"))

LINES, PROGRAMS = state["all_lines"], state["all_programs"]
if name.startswith("python"):
    python()
elif name == "apt-get":
    apt_get()
elif name == "id":
    print(0 if state["root"] else 1000)
elif name == "sudo":
    note("sudo " + " ".join(arguments))
    if "-n" not in arguments or not state["sudo"]:
        sys.exit("sudo: a password is required")
    command = [a for a in arguments if a != "-n"]
    os.execvp(command[0], command)
"""

# Called so often that they had better be quick.
QUICK = {"cc": 'while read -r line; do last=$line; done; grep -qxF "$last" WORLD/lines', "no": "exit 1"}


class World:
    """A machine, drawn."""

    def __init__(self, folder, rng):
        self.folder = folder
        (folder / "bin").mkdir()
        pretender = folder / "pretender"
        pretender.write_text(PRETENDER.replace("WORLD", str(folder)).replace("%s", sys.executable, 1))
        pretender.chmod(0o755)
        for script, text in QUICK.items():
            (folder / script).write_text("#!/bin/sh\n" + text.replace("WORLD", str(folder)) + "\n")
            (folder / script).chmod(0o755)
        for tool in "bash sh env tail cat mkdir touch chmod rm true grep".split():
            (folder / "bin" / tool).symlink_to(shutil.which(tool))
        chance = lambda p: bool(rng.random() < p)  # noqa: E731
        some = lambda names, p: [name for name in names if chance(p)]  # noqa: E731
        there = float(rng.choice([0, 0.5, 1]))
        self.state = {
            "root": chance(0.5), "sudo": chance(0.5), "apt": chance(0.8), "update": chance(0.8), "pypi": chance(0.6),
            "unknown": some(sorted(LESS), 0.1),
            "modules": [*MODULES, "xdist"], "all_lines": LINES, "all_programs": PROGRAMS,
        }
        self.lines, self.programs = some(LINES, there), some(PROGRAMS, there)
        (folder / "lines").write_text("".join(f"{line}\n" for line in self.lines))
        for name in self.programs:
            (folder / "bin" / name).symlink_to(folder / ("cc" if name == "cc" else "no"))
        for name in (*some(["apt-get"], 0.8), *some(["sudo"], 0.8), "id"):
            (folder / "bin" / name).symlink_to(pretender)
        (folder / "state").write_text(json.dumps(self.state))
        self.pythons = {}
        for where in some(["first", "second", "debian", "given"], 0.6):
            modules = some([*MODULES, "xdist"], float(rng.choice([0, 0.5, 0.9, 1])))
            self.pythons[where] = {
                "modules": modules, "prefix": f"/{where}", "venv": chance(0.6) and where != "debian",
                "broken": chance(0.15) and where != "debian", "old": chance(0.15) and where != "debian",
            }
            path = folder / where / "python3"
            path.parent.mkdir()
            path.symlink_to(pretender)
            if where == "debian":
                self.pythons[where]["prefix"] = str(path.parent)
            (folder / where / "python3.json").write_text(json.dumps(self.pythons[where]))
        self.environment = {"PATH": ":".join(str(folder / d) for d in ("first", "second", "bin")), "BUILD": "build"}
        self.environment["CUDA"] = "01"[chance(0.5)]
        if chance(0.2):
            self.environment["PYTHONPATH"] = "/somewhere"
        if chance(0.2):
            self.environment["PYTHONHOME"] = "/somewhere"
        if "given" in self.pythons and chance(0.7):
            self.environment["PYTHON"] = str(folder / "given/python3")
        script = (harness.ROOT / "tests/deps.sh").read_text()
        assert script.count("=/usr/bin/python3") == 1
        (folder / "deps.sh").write_text(script.replace("=/usr/bin/python3", f"={folder}/debian/python3"))

    def run(self, goal, **more):
        (self.folder / "log").write_text("")
        done = subprocess.run(
            [shutil.which("bash"), "deps.sh", goal], cwd=self.folder, env={**self.environment, **more},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
        )
        return done.returncode, done.stdout, (self.folder / "log").read_text().splitlines()

    def missing(self, goal):
        """Debian's names of what is not there, without the modules."""
        lost = {p for line, p in LINES.items() if line not in self.lines or "cc" not in self.programs}
        if self.environment["CUDA"] == "0":
            lost.discard("g++")
        lost |= {p for q, p in PROGRAMS.items() if q not in self.programs}
        if "libhdf5-dev" not in lost:
            lost.discard("pkg-config")
        return lost & FOR_DEMO if goal == "demo" else lost

    def complete(self, where):
        """Has this Python all modules, as it is or alone?"""
        terms = self.pythons.get(where)
        if not terms or terms["broken"] or terms["old"]:
            return False
        extra = {"numpy"} if "PYTHONPATH" in self.environment and "PYTHONHOME" not in self.environment else set()
        return set(MODULES) <= {*terms["modules"], *extra}

    def chosen(self):
        path = self.folder / "build/python"
        if not path.exists():
            return None
        code = f"import sys, {', '.join(MODULES)}; print(sys.executable)"
        done = subprocess.run([path, "-c", code], cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.mark.parametrize("part", range(CASES))
def test_drawn_machines(tmp_path, rng, part):
    """Nightly: TILERUN_CASES=20."""
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        world, goal = World(folder, rng), str(rng.choice(["demo", "test", "test"]))
        print(goal, world.environment, world.programs, world.state, json.dumps(world.pythons))
        lost = world.missing(goal)

        code, said, log = world.run(goal, DEPS="0")
        print(said)
        assert log == [], "DEPS=0 has called something"
        assert code == (1 if lost - LESS else 0)
        assert all(name in said for name in lost)

        code, said, log = world.run(goal)
        print(code, said, log)
        installed = [set(line.split()[2:]) for line in log if line.startswith("apt-get install")]
        names = set().union(*installed)
        assert names <= lost | {"python3", "python3-pytest-xdist"} | {f"python3-{m}" for m in MODULES}
        assert not any(line.startswith("sudo ") and not line.startswith("sudo -n ") for line in log)
        if names:
            assert "installing with apt (DEPS=0 prevents it): " in said and all(name in said for name in names)
        if any(line.startswith("pip") for line in log):
            assert "installing with pip, into build/venv (DEPS=0 prevents it): " in said
        can_apt = (folder / "bin/apt-get").exists() and (
            world.state["root"] or ((folder / "bin/sudo").exists() and world.state["sudo"])
        )
        assert can_apt or not names
        able = not lost - LESS or (can_apt and world.state["apt"])
        if goal == "demo":
            assert code == (0 if able else 1) and world.chosen() is None and not any("python" in name for name in names)
            continue
        given = "PYTHON" in world.environment
        ways = ["given"] if given else ["first", "second", "debian"]
        ready = next((way for way in ways if world.complete(way)), None)
        able_to_venv = [w for w in ways if w in world.pythons and world.pythons[w]["venv"]]
        venv = world.state["pypi"] and any(not world.pythons[w]["broken"] for w in able_to_venv)
        bringable = venv or (can_apt and world.state["apt"] and not given)
        assert code == (0 if able and (ready or bringable) else 1)
        if ready:
            assert world.chosen() == str(folder / ready / "python3")
            assert not [name for name in names if name.startswith("python3-") and name != "python3-pytest-xdist"]
            assert not [line for line in log if "pip" in line]
        if code == 0:
            assert world.chosen()
            code, said, log = world.run(goal)
            assert code == 0 and not any(line.startswith("pip") for line in log), "installed twice"
