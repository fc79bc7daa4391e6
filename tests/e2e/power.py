"""What a power cut leaves of files. power_shim.c logs what processes do to them; a Disk replays the log and draws a
state in which a file system may be found after a crash at that moment.

What a file was when it was last synced is on the disk. Of what was written since all may be there, nothing, all up to
a moment, or some blocks, zeros in place of others; or the file has got its size but no data. A name is on the disk once
its folder was synced, not before, whether it was created, renamed or removed; names do not wait for one another, nor
for what is in their files. A rename is done or not done, also one between two folders."""

import os
import shutil
import struct
from collections import namedtuple
from pathlib import Path

import pytest

from faults import build_shim

RECORD = struct.Struct("<8sQQQQd")
Record = namedtuple("Record", "kind inode at paths data time")
FOLDER = 0  # in place of a file's number


@pytest.fixture(scope="session")
def power_shim(memory_folder):
    return build_shim(memory_folder, "power_shim")


def environment(shim, folder, log):
    """For a process of which the file `log` gets what it does below the folder."""
    return os.environ | {"LD_PRELOAD": str(shim), "POWER_PATH": str(folder), "POWER_LOG": str(log)}


def read_log(log):
    """And removes it."""
    data, at, records = log.read_bytes() if log.exists() else b"", 0, []
    while at < len(data):
        kind, inode, where, path_bytes, data_bytes, time = RECORD.unpack_from(data, at)
        at += RECORD.size + path_bytes
        paths = data[at - path_bytes : at].decode().split("\n")
        at += data_bytes
        records.append(Record(kind.rstrip(b"\0").decode(), inode, where, paths, data[at - data_bytes : at], time))
    log.unlink(missing_ok=True)
    return records


def parent(path):
    return os.path.dirname(path)


def put(data, at, what):
    """One write, or (None) a new size."""
    if what is None:
        del data[at:]
    data.extend(bytes(max(0, at + len(what or b"") - len(data))))
    if what is not None:
        data[at : at + len(what)] = what


class File:
    """`data`: what is on the disk. `pending`: writes since: where, and what (None: it is a new size)."""

    def __init__(self, data=b"", time=0.0):
        self.data, self.pending, self.time = bytearray(data), [], time

    def after(self, writes):
        data = bytearray(self.data)
        for at, what in writes:
            put(data, at, what)
        return data

    def found(self, draw):
        """What a crash leaves of it."""
        some = self.pending[: draw.randint(0, len(self.pending))]
        way = draw.choice(["nothing", "all", "some", "blocks", "blocks", "blocks"])
        if way in ("all", "some") or not self.pending:
            return self.after(self.pending if way == "all" else some if way == "some" else [])
        data = bytearray(self.data)
        if way == "blocks":
            put(data, len(self.after(draw.choice([self.pending, some]))), None)
            block, share = draw.choice([512, 4096]), draw.choice([0, 0.1, 0.5, 0.9, 0.99])
            for at, what in (it for it in self.pending if it[1] is not None):
                for begin in range(at // block * block, at + len(what), block):
                    if draw.random() < share:
                        first, last = max(begin, at), min(begin + block, at + len(what), len(data))
                        data[first:last] = what[first - at : max(last, first) - at]
        return data


class Disk:
    """`files`: by a number that, unlike an inode's, is never used again; `numbers`: by inode, those of now. `names`: of
    what is on the disk, by path: the number of a file, or FOLDER. `moves`: what was done to names since, a Record and a
    number each."""

    def __init__(self, folder, paths):
        """All is on the disk that lies there now."""
        self.root, self.files, self.numbers, self.names, self.moves = str(folder), {}, {}, {}, []
        for top in paths:
            for path in [top, *top.rglob("*")] if top.is_dir() else [top]:
                about = path.lstat()
                self.names[str(path)] = FOLDER if path.is_dir() else self.new(about.st_ino)
                if path.is_file():
                    self.files[self.numbers[about.st_ino]] = File(path.read_bytes(), about.st_mtime)

    def new(self, inode):
        self.numbers[inode] = len(self.files) + 1
        self.files[self.numbers[inode]] = File()
        return self.numbers[inode]

    def do(self, record):
        if record.kind == "sync":
            self.sync(record)
        elif record.kind in ("write", "size"):
            file = self.files[self.numbers[record.inode]]
            file.pending.append((record.at, record.data if record.kind == "write" else None))
            file.time = record.time
        else:
            number = self.new(record.inode) if record.kind == "create" else self.numbers.get(record.inode, FOLDER)
            self.moves.append((record, number))

    def sync(self, record):
        number = self.numbers.get(record.inode)
        if number:
            file = self.files[number]
            file.data, file.pending = file.after(file.pending), []
            return
        for move in list(self.moves):
            if record.paths[0] not in map(parent, move[0].paths):
                continue
            place(self.names, *move)
            done = self.moves.index(move)
            older = [it for it in self.moves[:done] if it[1] != move[1] or move[1] == FOLDER]
            self.moves = older + self.moves[done + 1 :]

    def cut(self, draw):
        """Puts into the root what a crash leaves now, in place of what lies there."""
        names, way, some = dict(self.names), draw.choice([0, 0.5, 0.9, 1, "first"]), draw.randint(0, len(self.moves))
        for move in self.moves[: some if way == "first" else None]:
            if way == "first" or draw.random() < way:
                place(names, *move)
        for path in sorted(names):
            if not os.path.isdir(parent(path)):
                continue
            if names[path] == FOLDER:
                os.mkdir(path)
                continue
            file = self.files[names[path]]
            Path(path).write_bytes(file.found(draw))
            os.utime(path, (file.time, file.time))


def place(names, record, number):
    """Does to names what a record says."""
    path = record.paths[-1]
    if record.kind in ("unlink", "rmdir"):
        if names.get(path) == number:
            del names[path]
        return
    for name in [it for it in names if number != FOLDER and names[it] == number]:
        del names[name]
    names[path] = number


def remove(paths):
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
