"""Runs the program under test, writes job files for it and reads what it leaves behind."""

import fcntl
import functools
import itertools
import json
import math
import os
import random
import re
import struct
import subprocess
import termios
import threading
from collections import namedtuple
from pathlib import Path

import h5py

import referee

ROOT = Path(__file__).resolve().parents[2]
TILERUN = Path(os.environ.get("TILERUN", ROOT / "build/tilerun")).resolve()

OK, RUN, USAGE, IO, DEVICE, INTERRUPTED = 0, 1, 2, 3, 4, 75  # exit codes

MOST_CHOICES = 256  # of a variant's parameters, that are all tried
SAMPLE_SEED = os.environ.get("PYTEST_XDIST_TESTRUNUID", "alone")  # all workers of a run must draw the same


def tilerun(*arguments, program=TILERUN, timeout=120, expect=None, **options):
    """Runs the program to its end; stdout and stderr are kept as text. `expect`: the exit code, or several; None:
    any."""
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    expected = expect if isinstance(expect, tuple) else (expect,)
    assert expect is None or done.returncode in expected, (done.stdout + done.stderr)[-4000:]
    return done


def run_folder(folder, *arguments, expect=OK, **options):
    """Runs the folder's job.yaml into its out.h5."""
    return tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", *arguments, expect=expect, **options)


def said(*arguments, expect=USAGE, **options):
    """Runs and returns what was printed: stderr after a failure, else stdout."""
    done = tilerun(*arguments, expect=expect, **options)
    return done.stderr if expect else done.stdout


def quiet(*arguments, **options):
    """Runs; asserts success and that nothing was said on stderr. Returns stdout."""
    done = tilerun(*arguments, **options)
    assert (done.returncode, done.stderr) == (OK, "")
    return done.stdout


class Terminal:
    """A pseudo-terminal of so many columns. Its follower stays open until all is read: Linux drops some of what the
    last close of a follower finds unread, once in some thousand times."""

    END = b"\0end\0"  # what it shows when the program has ended

    def __init__(self, columns):
        self.leader, self.follower = os.openpty()
        self.resize(columns)

    def resize(self, columns):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))

    def end_with(self, process):
        """END follows all that the process prints, which is left for the test to wait for."""

        def mark():
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            os.write(self.follower, self.END)

        self.marker = threading.Thread(target=mark)
        self.marker.start()

    def close(self):
        self.marker.join()
        os.close(self.leader)
        os.close(self.follower)

    def read(self, process):
        """All that the process prints, until it ends. Closes the terminal."""
        self.end_with(process)
        shown = b""
        while not shown.endswith(self.END):
            shown += os.read(self.leader, 4096)
        self.close()
        return shown.removesuffix(self.END)


def start(*arguments, **options):
    """Starts the program; unless told otherwise, its stderr is a pipe to read progress from."""
    command = [str(TILERUN), *map(str, arguments)]
    return subprocess.Popen(command, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options)


def write_job(path, **job):
    """Writes a job file. JSON is YAML; jobs whose lines and columns matter are written out by hand."""
    path.write_text(json.dumps({"version": 1, **job}, indent=1))
    return path


def write_arrays(path, **arrays):
    """Writes a file of data sets (or links), by name."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def without_comments(job):
    """The lines of a job file that count."""
    return [line for line in re.sub(r" *#.*", "", job).splitlines() if line]


def run_job(folder, expect=OK, arguments=(), program=TILERUN, timeout=120, **job):
    """Writes a job into `folder`, runs it and opens its results file (where the exit code says that there is one).
    `expect`: the exit code, or several."""
    path = write_job(folder / "job.yaml", **job)
    output = folder / "results.h5"
    done = tilerun("run", path, "-o", output, *arguments, expect=expect, program=program, timeout=timeout)
    return Results(output) if done.returncode in (OK, RUN) else None


class Results:
    """A results file: its table as dictionaries, its outputs as the referee holds arrays."""

    def __init__(self, path):
        self.path = path
        with h5py.File(path) as file:
            self.rows = [{name: text(row[name]) for name in row.dtype.names} for row in file["runs"][:]]

    def row(self, operation, variant=None, parameters=""):
        found = [
            row
            for row in self.rows
            if row["operation"] == operation and row["parameters"] == parameters and variant in (None, row["variant"])
        ]
        assert len(found) == 1, f"{len(found)} rows for {operation} {variant}: {self.rows}"
        return found[0]

    def output(self, name):
        """The result of an operation ("product", "n=4/product")."""
        return self.read(f"outputs/{name}")

    def read(self, path):
        with h5py.File(self.path) as file:
            return referee.read_dataset(file[path])

    def everything(self):
        """Every stored output, by its path."""
        with h5py.File(self.path) as file:
            return {name: referee.read_dataset(file[name]) for name in dataset_names(file, "outputs", "variants")}


def dataset_names(file, *groups):
    names = []
    for group in groups:
        if group in file:
            file[group].visititems(
                lambda name, item, group=group: (
                    names.append(f"{group}/{name}") if isinstance(item, h5py.Dataset) else None
                )
            )
    return sorted(names)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


# ---- what is registered, as `tilerun list` prints it ---------------------------------------------------------------

# `limit`: not the operation but a bound on its speed, which nothing is compared with.
Variant = namedtuple(
    "Variant",
    "op name dtypes operators parameters runs_here limit accuracy same_bits on_cpu",
    defaults=[False, "full", False, False],
)


def hdf5_version():
    """Of the library that tilerun uses: (1, 10)."""
    return tuple(map(int, re.search(r"HDF5 (\d+)\.(\d+)", quiet("--version")).groups()))


def list_variants():
    """Those that are compiled in, but for `fused`, which reduces only what test_map.py draws."""
    done = tilerun("list")
    assert done.returncode == OK, done.stderr
    found, op = [], None
    for line in done.stdout.splitlines():
        if heading := re.match(r"(\w+): ", line):
            op = heading[1]
        elif name := re.match(r"  (\w+) ", line):
            found.append(Variant(op, name[1], [], [], {}, False))
        elif types := re.match(r" {12}types: ([^;]*);(?: operators: ([^;]*);)?", line):
            names = referee.DTYPES if types[1] == "all" else types[1].split()
            operators = types[2].split() if types[2] else referee.EVERY_OPERATOR
            limit = "; a roof: " in line
            accuracy = re.search("; accuracy: (\\w+);", line)
            found[-1] = found[-1]._replace(dtypes=list(names), operators=list(operators), limit=limit)
            found[-1] = found[-1]._replace(accuracy=accuracy[1] if accuracy else "full")
            found[-1] = found[-1]._replace(same_bits="; the same bits every run" in line)
        elif re.match(r" {12}(traffic|library): ", line):
            continue
        elif re.match(r" {12}cannot run here: (this build has no CUDA|not in this build)", line):
            found.pop()
        elif re.match(r" {12}runs here", line):
            found[-1] = found[-1]._replace(runs_here=True, on_cpu=line.endswith("on the CPU"))
        elif parameter := re.match(r" {12}(\w+): ([\w ]+) \(", line):
            found[-1].parameters[parameter[1]] = parameter[2].split()
        else:
            assert re.match(r" {12}cannot run here: ", line), line
    return [variant for variant in found if variant.name != "fused"]


@functools.cache
def sample_of(seed, parameters):
    """Choices of some parameters, drawn: the defaults, and others, until any two values of two parameters have met."""
    settings = [[(name, value) for value in values] for name, values in parameters]
    missing = {pair for two in itertools.combinations(settings, 2) for pair in itertools.product(*two)}
    rng = random.Random(seed)
    sample, chosen = [], tuple(values[0] for values in settings)
    while missing:
        sample.append(chosen)
        missing.difference_update(itertools.combinations(chosen, 2))
        wanted = dict(rng.choice(sorted(missing))) if missing else {}
        drawn = [tuple((name, wanted.get(name, rng.choice(values))) for name, values in parameters) for _ in range(20)]
        chosen = max(drawn, key=lambda choice: len(missing.intersection(itertools.combinations(choice, 2))))
    return sample


def variant_choices(variant):
    """What a variant is tried with, as maps of parameters and their values, of which each is taken with each: all there
    are; of more than MOST_CHOICES all values of one parameter with a sample of the others, another one each run."""
    if math.prod(map(len, variant.parameters.values())) <= MOST_CHOICES:
        return [variant.parameters]
    longest = max(variant.parameters, key=lambda name: len(variant.parameters[name]))
    others = tuple((name, tuple(values)) for name, values in variant.parameters.items() if name != longest)
    sample = [{name: [value] for name, value in choice} for choice in sample_of(variant.name + SAMPLE_SEED, others)]
    return [{name: choice.get(name, values) for name, values in variant.parameters.items()} for choice in sample]


def variant_labels(variant):
    """The labels of the choices that a variant is tried with: "tiled,tile=32"..."""
    labels = []
    for choice in variant_choices(variant):
        settings = [[f"{name}={value}" for value in values] for name, values in choice.items()]
        labels += [",".join([variant.name, *words]) for words in itertools.product(*settings)]
    return labels


def variant_entries(variants):
    """Variants with the choices that they are tried with, as a job's `variants` has them."""
    entries = [{"name": variant.name, **choice} for variant in variants for choice in variant_choices(variant)]
    return [entry if len(entry) > 1 else entry["name"] for entry in entries]
