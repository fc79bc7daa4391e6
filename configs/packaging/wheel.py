#!/usr/bin/env python3
"""Packs a tree that `make BUNDLE=1` and `make install PREFIX=TREE` made into a wheel: `wheel.py TREE FOLDER`.

pip puts the tree below the environment's prefix: bin/tilerun is the program itself and finds its libraries in
lib/tilerun, wherever the environment is. A build with CUDA holds the CUDA runtime, and needs the driver's
libcuda.so.1 on a GPU only.
The wheel asks for the C library of the machine that built it; to run on older systems, build it on an old one."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def glibc(tree):
    """The newest version of the C library that a file of the tree asks for."""
    files = [tree / "bin/tilerun", *(tree / "lib/tilerun").iterdir()]
    symbols = subprocess.run(["objdump", "-T", *files], capture_output=True, text=True, check=True).stdout
    return max(tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols))


def main(tree, folder):
    said = subprocess.run([tree / "bin/tilerun", "--version"], capture_output=True, text=True, check=True).stdout
    version = said.split()[1]
    tag = "py3-none-manylinux_{}_{}_{}".format(*glibc(tree), os.uname().machine)
    name = f"tilerun-{version}"
    files = {
        f"{name}.data/data/{path.relative_to(tree)}": path
        for path in sorted(tree.rglob("*"))
        if path.is_file() and path != tree / "share/tilerun/installed"
    }
    readme = (ROOT / "README.md").read_text()
    written = {
        f"{name}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: tilerun\nVersion: {version}\n"
        "Summary: Batch jobs of matrix operations on GPUs, with results in HDF5\nLicense: MIT\n"
        f"Description-Content-Type: text/markdown\n\n{readme}",
        f"{name}.dist-info/WHEEL": f"Wheel-Version: 1.0\nGenerator: wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    record = []
    out = folder / f"{name}-{tag}.whl"
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(path, data, mode):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
            entry = zipfile.ZipInfo(path)
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for path, source in files.items():
            add(path, source.read_bytes(), source.stat().st_mode & 0o777)
        for path, text in written.items():
            add(path, text.encode(), 0o644)
        path = f"{name}.dist-info/RECORD"
        wheel.writestr(path, "".join(record) + f"{path},,\n")
    print(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
