#!/usr/bin/env python3
"""Files to begin fuzzing with: small HDF5 files of every layout and filter, results files, job texts, command lines.

    seeds.py TILERUN FOLDER      makes FOLDER/job, FOLDER/input, FOLDER/results and FOLDER/command
"""

import pathlib
import shutil
import subprocess
import sys

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = """version: 1
device: cpu
sync: false
inputs: {x: {random: {shape: [5, 7]}}, z: {random: {shape: [7, 3]}}}
defaults: {warmup: 0, repeat: 2}
operations:
  - {id: y, op: transpose, inputs: [x], compression: gzip}
  - {id: p, op: matmul, inputs: [x, z], variants: [naive, blocked]}
"""
LINES = ["run\njob.yaml\n--overwrite", "run\njob.yaml\n-o\nout.h5\n--resume\n--set\nn=1,2", "plan\njob.yaml\n--shards\n3",
         "show\njob.h5\n--where\nstatus=ok\n--sort\n-kernel_median_s\n--columns\noperation,variant", "list\nmatmul",
         "compare\njob.h5\njob.h5\n--json", "inspect\njob.h5\n--job", "reproduce\njob.h5", "check\n--set\na=b\njob.yaml",
         "report\njob.h5\n-o\nx.html", "merge\njob.h5", "devices\n--json", "run\n--only\ny:cpu\n--shard\n0/2\njob.yaml"]  # fmt: skip


def layouts(folder):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 9, (12, 10)).astype("i4")
    filters = [{}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf", "fletcher32": True}, {"fletcher32": True}]
    for version in ("earliest", "latest"):
        for i, given in enumerate(filters):
            with h5py.File(folder / f"chunks-{version}-{i}.h5", "w", libver=version) as file:
                file.create_dataset("x", data=x, chunks=(5, 4), **given)
                file.create_dataset("g/f", data=x[:3].astype(">f8"))
        with h5py.File(folder / f"other-{version}.h5", "w", libver=version) as file:
            file["x"] = x
            file["x"].attrs["units"] = "K"
            file["x"].dims[0].label = "time"
            file["t"] = np.arange(12.0)
            file["t"].make_scale("time")
            file["x"].dims[0].attach_scale(file["t"])
            file.create_dataset("open", data=x[:4], chunks=(2, 10), maxshape=(None, 10), fillvalue=7)
            compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            compact.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((3,))
            h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I16LE, space, compact)
            layout = h5py.VirtualLayout((12, 20), "i4")
            for half in range(2):
                layout[:, 10 * half : 10 * half + 10] = h5py.VirtualSource(".", "x", (12, 10))
            file.create_virtual_dataset("virtual", layout)
            file["soft"] = h5py.SoftLink("/x")
            file["away"] = h5py.ExternalLink("in.h5", "/t")
            file["words"] = ["a", "bc"]


def main():
    tilerun, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    for name in ("job", "input", "results", "command"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for path in [*ROOT.glob("tests/jobs/*/*.yaml"), *ROOT.glob("configs/**/*.yaml")]:
        shutil.copy(path, folder / "job" / f"{path.parent.name}-{path.name}")
    layouts(folder / "input")
    (folder / "job.yaml").write_text(JOB)
    for variants in ("both", "one"):
        only = ["--only", "y"] if variants == "one" else []
        output = folder / "results" / f"{variants}.h5"
        subprocess.run([tilerun, "run", folder / "job.yaml", "-o", output, "--overwrite", *only],
                       check=True, capture_output=True)  # fmt: skip
    (folder / "job.yaml").unlink()
    names = [line.split('(')[1].rstrip(")\n") for line in open(ROOT / "runner/commands/commands.def") if line[0] == "C"]
    for number, line in enumerate(LINES):
        name, rest = line.split("\n", 1)
        (folder / "command" / f"{number}").write_text(chr(names.index(name)) + rest)


if __name__ == "__main__":
    main()
