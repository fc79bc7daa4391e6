#!/usr/bin/env python3
"""Files to begin fuzzing with: small HDF5 files of every layout and filter, results files, job texts, command lines;
and for each target a dictionary, the words that its bytes are made of.

    seeds.py TILERUN FOLDER      makes FOLDER/job, input, results and command, and FOLDER/job.dict and so on
"""

import json
import pathlib
import re
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
YAML = ["$", "${", "$$", "&a ", "*a", "<<: *a", "- ", ": ", "? ", "{", "}", "[", "]", "|\n", ">\n", "!!str ", "\\x", "~",
        "---\n", "...\n", "x-", "KiB", "GiB", "MB", "%", "1e999", "-9223372036854775808", "0x", ".nan", "null"]  # fmt: skip
# What begins structures of an HDF5 file, and its messages of 8 bytes: layout, filters, links, attributes.
HDF5 = ["\x89HDF\r\n\x1a\n", "OHDR", "OCHK", "TREE", "BTHD", "BTIN", "BTLF", "SNOD", "HEAP", "GCOL", "FRHP", "FHIB", "FHDB",
        "FSHD", "FSSE", "FAHD", "FADB", "EAHD", "EAIB", "EASB", "EADB", "SMTB", "\xff" * 8, "\0" * 8,
        *(chr(kind) + "\0" for kind in range(1, 24))]  # fmt: skip


def words_of(schema):
    """The keys and words of a JSON schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        yield from (word for word in [schema.get("const"), *schema.get("enum", ())] if isinstance(word, str))
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from words_of(part)


def write_dictionary(path, words):
    def quoted(word):
        return "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\x{ord(c):02x}" for c in word)

    path.write_text("".join(f'"{quoted(word)}"\n' for word in dict.fromkeys(words)))


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

    keys = list(words_of(json.loads((ROOT / "configs/job.schema.json").read_text())))
    completion = subprocess.run([tilerun, "--print-completion", "bash"], check=True, capture_output=True, text=True)
    options = re.findall(r"(?<![\w-])--?[a-z][\w-]*", completion.stdout)
    write_dictionary(folder / "job.dict", [*YAML, *(f"{key}: " for key in keys), *keys])
    write_dictionary(folder / "command.dict", ["\n", "\n--\n", "=", ",", *(f"\n{option}\n" for option in options)])
    for name in ("input", "results"):
        write_dictionary(folder / f"{name}.dict", HDF5)


if __name__ == "__main__":
    main()
