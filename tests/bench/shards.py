#!/usr/bin/env python3
"""A job of N small operations in N shards, all on this machine: what each shard and `merge` ask of the file system, and
how long they take.

    TILERUN=PROGRAM tests/bench/shards.py [N...]       10, 100 and 1000 if none is given; minutes

Calls are counted by tests/e2e/count_shim.c; those of metadata are what a parallel file system's metadata server is
asked. Times are medians of processes one after another, start included, in a folder in memory."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import faults  # noqa: E402
import harness  # noqa: E402
import many_shards  # noqa: E402

SHOWN = ["open", "create", "rename", "unlink", "stat", "list", "lock"]


def row(name, processes, each=1):
    """`each`: shards that a process stands for."""
    wall = statistics.median(process.seconds for process in processes)
    cpu = statistics.median(process.cpu for process in processes)
    most = max(many_shards.metadata(process) for process in processes)
    calls = [max(process.calls[call] for process in processes) / each for call in SHOWN]
    files = max(process.files for process in processes)
    numbers = [f"{most / each:.0f}", *(f"{number:.0f}" for number in calls), files]
    numbers += [f"{1000 * cpu / each:.1f}", f"{1000 * wall / each:.1f}"]
    print(f"{name:28}" + "".join(f"{number:>9}" for number in numbers), flush=True)


def main():
    sizes = [int(word) for word in sys.argv[1:]] or [10, 100, 1000]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        top = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(top / "cache")
        subprocess.run([harness.TILERUN, "devices", "--measure"], check=True, capture_output=True)
        shim = faults.build_shim(top, "count_shim")
        headings = ["metadata", *SHOWN, "files", "cpu ms", "wall ms"]
        print(f"{'':28}" + "".join(f"{heading:>9}" for heading in headings))
        for size in sizes:
            folder = top / str(size)
            folder.mkdir()
            found = many_shards.simulate(folder, shim, size)
            tenth = max(1, size // 10)
            row(f"{size}: first tenth of shards", found.shards[:tenth])
            row(f"{size}: last tenth", found.shards[-tenth:])
            row(f"{size}: merge, for each shard", [found.merge], size)
            print(f"{size}: merge in all: {many_shards.metadata(found.merge)} calls of metadata, "
                  f"{found.merge.seconds:.2f} s; results file of {(folder / 'out.h5').stat().st_size / 2**20:.1f} MiB")


main()
