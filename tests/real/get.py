"""Gets what the tests of other people's files need, into BUILD/real: a virtual environment of requirements.txt, and the
HDF5 files of archives.txt, which are only unpacked: no code of theirs is built or run.

    python3 tests/real/get.py BUILD

What is there already is kept. Exits with 1 and names what is not to be had; the tests that need it are skipped."""

import concurrent.futures
import hashlib
import io
import json
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEADLINE = time.monotonic() + 300  # seconds, for all archives
MOST_BYTES = 100 << 20  # of an archive, and of a file in it
MOST_FILES = 20000  # that are looked at in an archive
SIGNATURE = b"\x89HDF\r\n\x1a\n"
USER_BLOCKS = (0, 512, 1024, 2048)  # that the signature may lie behind


def pip(python, *arguments):
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_environment(folder):
    """The packages of requirements.txt; no more than a look where they are there."""
    wanted = (HERE / "requirements.txt").read_text()
    stamp, python = folder / "requirements.txt", folder / "bin/python"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
    pip(python, "install", "--only-binary", ":all:", "-r", str(HERE / "requirements.txt"))
    stamp.write_text(wanted)
    return python


# ---- archives ------------------------------------------------------------------------------------------------------


def setting(python, name, default):
    """What pip is set to."""
    if value := os.environ.get("PIP_" + name.upper().replace("-", "_")):
        return value
    try:
        return pip(python, "config", "get", f"global.{name}")
    except subprocess.CalledProcessError:
        return default


class Index:
    """The package index that pip is set to, by its pages in JSON."""

    def __init__(self, python):
        code = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
        usual = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        self.url = setting(python, "index-url", usual).rstrip("/") + "/"
        self.context = ssl.create_default_context(cafile=setting(python, "cert", None))

    def get(self, url, most, **headers):
        seconds = DEADLINE - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("time is up")
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=min(60, seconds), context=self.context) as answer:
            data = answer.read(most + 1)
        if len(data) > most:
            raise ValueError(f"larger than {most} bytes")
        return data

    def archive(self, package, name):
        page = urllib.parse.urljoin(self.url, package.lower().replace("_", "-") + "/")
        files = json.loads(self.get(page, MOST_BYTES, Accept="application/vnd.pypi.simple.v1+json"))["files"]
        url = next(file["url"] for file in files if file["filename"] == name)
        return self.get(urllib.parse.urljoin(page, url), MOST_BYTES)


def members(name, data):
    """Name, size and an open file of each file in an archive."""
    if name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist()[:MOST_FILES]:
                if not member.is_dir():
                    with archive.open(member) as file:
                        yield member.filename, member.file_size, file
    else:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for _, member in zip(range(MOST_FILES), archive):
                if member.isfile():
                    yield member.name, member.size, archive.extractfile(member)


def unpack(name, data, folder):
    """Writes the HDF5 files of an archive; what they are called is made of their own path. Returns how many."""
    count = 0
    for path, size, file in members(name, data):
        head = file.read(USER_BLOCKS[-1] + len(SIGNATURE))
        if size > MOST_BYTES or not any(head.startswith(SIGNATURE, at) for at in USER_BLOCKS):
            continue
        flat = "-".join(part for part in Path(path).parts[1:] if part not in ("..", "/"))
        (folder / flat).write_bytes(head + file.read(MOST_BYTES))
        count += 1
    return count


def get_archive(index, files, package, version, name, sha256):
    folder = files / f"{package}-{version}-{sha256[:8]}"
    if folder.exists():
        return
    data = index.archive(package, name)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError("its SHA-256 is another")
    making = files / f".{folder.name}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    count = unpack(name, data, making)
    making.rename(folder)
    print(f"real: {name}: {len(data) / 1e6:.1f} MB, {count} files", flush=True)


def main():
    place = Path(sys.argv[1]).resolve() / "real"
    place.mkdir(parents=True, exist_ok=True)
    try:
        python = make_environment(place / "venv")
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(place / "venv", ignore_errors=True)
        sys.exit(f"real: the packages are not to be had: {(getattr(error, 'stderr', '') or str(error))[-2000:]}")
    index, absent = Index(python), 0
    rows = [line.split() for line in (HERE / "archives.txt").read_text().splitlines() if line and line[0] != "#"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        tasks = {pool.submit(get_archive, index, place / "files", *row): row for row in rows}
        for task in concurrent.futures.as_completed(tasks):
            if error := task.exception():
                absent += 1
                print(f"real: {tasks[task][2]} is not to be had: {type(error).__name__}: {error}", flush=True)
    sys.exit(absent > 0)


if __name__ == "__main__":
    main()
