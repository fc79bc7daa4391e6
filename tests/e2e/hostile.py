"""Files as somebody makes them who means harm: each claims what it does not hold, or leads to what is not its own; and
commands that read them."""

import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

import h5py
import numpy as np

import harness

CANARY = b"CANARY: nobody may see this. "
CHUNK = 1024  # elements of four bytes, of a chunk that decodes to more
PEAK = 256 << 20  # bytes of memory that a command may take
SECONDS, PATIENCE = 20, 300  # of the processor, and of the clock beside other tests
GIB = 1 << 30

# What a terminal obeys, and what turns a line around.
NAMES = {
    "clear": "\x1b[2J\x1b[1;1H",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://example.org\x1b\\here\x1b]8;;\x1b\\",
    "line": "a\ntilerun: all is well",
    "return": "a\rtilerun: all is well",
    "c1": "\x9b31m",
    "bidi": "\u202egpj.exe\u2066",
    "separator": "a\u2028b",
    "bell": "\x07\x08\x7f",
    "html": "<script>alert(1)</script>\"'&",
}


def is_clean(data):
    """Nothing that a terminal obeys but line breaks, nothing that turns a line's direction."""
    text = data.decode("utf-8")  # fails where it is not UTF-8
    return not any(
        (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u061c\u200e\u200f\u2028\u2029"
        or "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069"
        for c in text
    )


def filtered(file, name, stored, *filters, chunk=CHUNK, dtype=h5py.h5t.STD_I32LE, extra=()):
    """A data set of one chunk, whose stored bytes are given. A filter is its number and its parameters."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((chunk,))
    for call in extra:
        call(properties)
    for number, values in filters:
        properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, values)
    space = h5py.h5s.create_simple((chunk,))
    h5py.h5d.create(file.id, name.encode(), dtype, space, properties).write_direct_chunk((0,), stored)


def lzf_of_zeros(count):
    packed = b"\x00\x00" + b"\xe0\xff\x00" * (count // 264)
    return packed


def zstd_of_zeros(count, claims):
    """Blocks of 128 KiB in four bytes each, after a header that claims any size."""
    frame = struct.pack("<IBQ", 0xFD2FB528, 0xE0, claims)
    blocks = count >> 17
    for i in range(blocks):
        frame += struct.pack("<I", (1 << 20) | (1 << 1) | (i == blocks - 1))[:3] + b"\0"
    return frame


def make_claims(path):
    """A few kilobytes that claim terabytes."""
    with h5py.File(path, "w") as file:
        file.create_dataset("nothing", (2**20, 2**20), "f8", chunks=(1024, 1024))
        few = file.create_dataset("few", (2**20, 2**20), "f8", chunks=(1024, 1024), compression="gzip")
        few.id.write_direct_chunk((0, 0), zlib.compress(bytes(8 << 20), 9))
        file.create_dataset("crumbs", (2**40,), "f4", chunks=(1,))
        file.create_dataset("late", (2**40,), "f4")  # contiguous, never written
        filtered(file, "slab", zlib.compress(bytes(GIB // 4), 1), chunk=GIB // 16, extra=[lambda p: p.set_deflate(1)])
        file.create_dataset("whole", data=np.arange(1024.0))
        offset = file["whole"].id.get_offset()
    replace(path, offset, os.path.getsize(path) - 100)


def make_driver(path, user_block, claims, base):
    """A file whose head says that its driver has so much to tell, at its end; and that the head lies at `base`, which
    HDF5 knows better."""
    with h5py.File(path, "w", userblock_size=user_block, libver="earliest") as file:
        file["x"] = np.ones((3, 4))
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.write(struct.pack("<B3xI8s", 0, claims, b"NCSAfami"))
        file.seek(user_block + 24)
        file.write(struct.pack("<Q", base))
        file.seek(user_block + 24 + 3 * 8)
        file.write(struct.pack("<Q", end - user_block))


def make_long_text(path, length):
    """A data set whose unit claims to be so long."""
    unit = b"millimetres"
    with h5py.File(path, "w", libver="earliest") as file:
        file["x"] = np.ones((3, 4))
        file["x"].attrs["units"] = unit.decode()
    data = bytearray(path.read_bytes())
    place = data.index(struct.pack("<IQ", len(unit), data.index(b"GCOL")))  # its length, and where it lies
    data[place : place + 4] = struct.pack("<I", length)
    path.write_bytes(data)


def make_bombs(path):
    """Chunks of 4 KiB that inflate to a gibibyte."""
    inflated = zlib.compress(bytes(GIB // 4), 9)
    gzip, zstd = (1, (9,)), (32015, (3,))
    with h5py.File(path, "w") as file:
        filtered(file, "gzip", inflated, gzip)
        filtered(file, "gzip_twice", zlib.compress(inflated, 9), gzip, gzip)
        filtered(file, "scaled", inflated, gzip, extra=[lambda p: p.set_scaleoffset(h5py.h5z.SO_INT, 0)])
        filtered(file, "lzf", lzf_of_zeros(GIB // 4), (32000, (4, 0x105, 4 * CHUNK)))
        filtered(file, "zstd", zstd_of_zeros(GIB, GIB), zstd)
        filtered(file, "zstd_twice", zstd_of_zeros(GIB, GIB), zstd, zstd)
        filtered(file, "zstd_claims", zstd_of_zeros(1 << 20, 1 << 40), zstd)
        blocks = struct.pack(">QII", 1 << 40, 1 << 30, 10) + bytes(10)
        filtered(file, "lz4", blocks, (32004, ()))
        filtered(file, "bitshuffle", blocks, (32008, (0, 3, 4, 0, 2)))
        filtered(file, "blosc", struct.pack("<4B3I", 2, 1, 0, 4, 2**31 - 1, 2**31 - 1, 16), (32001, (2, 2, 4, 4096)))
        for name, source in (("mapped", "/gzip"), ("nested", "/mapped")):
            layout = h5py.VirtualLayout((2 * CHUNK,), "i4")
            layout[CHUNK:] = h5py.VirtualSource(".", source, (file[source].size,))[-CHUNK:]
            file.create_virtual_dataset(name, layout)


def replace(path, old, new):
    """The first place in a file that holds this address gets another."""
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<Q", old))
    data[at : at + 8] = struct.pack("<Q", new)
    path.write_bytes(data)


def make_places(path):
    """Chunks beyond the end of the file, half beyond it, and one on top of the other."""
    with h5py.File(path, "w") as file:
        for name in ("beyond", "half", "over"):
            file.create_dataset(name, data=np.arange(1024, dtype="i4"), chunks=(512,))
        file.create_dataset("pad", data=np.zeros(10))
        at = {name: [data.id.get_chunk_info(i).byte_offset for i in (0, 1)] for name, data in file.items()
              if data.chunks}
    size = os.path.getsize(path)
    replace(path, at["beyond"][1], 1 << 40)
    replace(path, at["half"][1], size - 16)
    replace(path, at["over"][1], at["over"][0])


def virtual(file, name, *sources):
    layout = h5py.VirtualLayout((4 * len(sources), 4), "i4")
    for i, (source, dataset) in enumerate(sources):
        layout[4 * i : 4 * i + 4] = h5py.VirtualSource(source, dataset, (4, 4))
    file.create_virtual_dataset(name, layout)


def numbered(file, name, files, datasets):
    """Of as many sources as there are: %b stands for their number."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    space = h5py.h5s.create_simple((0, 4), (h5py.h5s.UNLIMITED, 4))
    space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (4, 4), (4, 4))
    creation.set_virtual(space, files, datasets, h5py.h5s.create_simple((4, 4)))
    h5py.h5d.create(file.id, name, h5py.h5t.STD_I32LE, h5py.h5s.create_simple((8, 4)), creation)


def make_links(folder, outside):
    """folder/links.h5 and what it leads to; `outside` gets files that are none of its business."""
    secret = np.frombuffer((CANARY * 3)[:64], "i4").reshape(4, 4)
    for path in (outside / "secret.h5", folder / "near.h5", folder / "number-0.h5"):
        harness.write_arrays(path, x=secret if path.parent == outside else np.ones((4, 4), "i4"))
    (outside / "secret.bin").write_bytes(CANARY * 10)
    os.mkfifo(outside / "pipe")
    os.mkfifo(folder / "pipe")
    (folder / "number-1.h5").symlink_to(outside / "secret.h5")
    with h5py.File(folder / "loop.h5", "w") as file:
        file["x"] = h5py.ExternalLink("links.h5", "/circle")
        virtual(file, "v", ("links.h5", "/partner"))
    with h5py.File(folder / "links.h5", "w") as file:
        file["far"] = h5py.ExternalLink(str(outside / "secret.h5"), "/x")
        file["up"] = h5py.ExternalLink(f"../{outside.name}/secret.h5", "/x")
        file["soft"] = h5py.SoftLink("/up")
        file["group"] = h5py.ExternalLink(str(outside / "secret.h5"), "/")
        file["pipe"] = h5py.ExternalLink("pipe", "/x")
        file["far_pipe"] = h5py.ExternalLink(str(outside / "pipe"), "/x")
        file["device"] = h5py.ExternalLink("/dev/zero", "/x")
        file["circle"] = h5py.ExternalLink("loop.h5", "/x")
        file["turn"], file["back"] = h5py.SoftLink("/back"), h5py.SoftLink("/turn")
        file.create_group("g")["again"] = file["/"]
        file["near"] = h5py.ExternalLink("near.h5", "/x")
        file["whole"] = np.ones((4, 4), "i4")
        file["link-1"], file["link-0"] = h5py.SoftLink("/up"), h5py.SoftLink("/whole")
        file.create_dataset("stored", (16,), "i4", external=[(str(outside / "secret.bin"), 0, 64)])
        file.create_dataset("stored_pipe", (16,), "i4", external=[(str(folder / "pipe"), 0, 64)])
        virtual(file, "mapped", (f"../{outside.name}/secret.h5", "x"), ("near.h5", "x"))
        virtual(file, "nested", ("links.h5", "/mapped"))
        virtual(file, "by_link", (".", "/soft"))
        virtual(file, "itself", (".", "/itself"))
        virtual(file, "partner", ("loop.h5", "/v"))
        virtual(file, "gone", ("gone.h5", "x"))
        numbered(file, b"numbered", b"number-%b.h5", b"x")
        numbered(file, b"by_number", b".", b"link-%b")
        scaled = file.create_dataset("scaled", data=np.ones((16, 2), "i4"))
        file["stored"].make_scale("stored")
        scaled.dims[0].attach_scale(file["stored"])


def make_depths(path, depths):
    """Virtual data sets of each other: the last of a circle is of the first again, the last of a chain is plain."""
    with h5py.File(path, "w") as file:
        for depth in depths:
            for kind in ("circle", "chain"):
                names = [f"{kind}-{depth}"] + [f"{kind}-{depth}.{number}" for number in range(1, depth)]
                for name, source in zip(names, names[1:]):
                    virtual(file, name, (".", f"/{source}"))
                if kind == "circle":
                    virtual(file, names[-1], (".", f"/{names[0]}"))
                else:
                    file[names[-1]] = np.ones((4, 4), "i4")


def make_groups(folder):
    """Groups without end, in the format of HDF5 1.0, whose headers have no checksum."""

    def address(group):
        return h5py.h5o.get_info(group.id).addr

    def patched(name, make):
        with h5py.File(folder / name, "w") as file:
            file["deepest"] = np.arange(4.0)
            patches = make(file)
        data = bytearray((folder / name).read_bytes())
        for at, new in patches(data):
            data[at : at + len(new)] = new
        (folder / name).write_bytes(data)

    def circle(file):
        """The root is in itself, twice, and says that one link leads to it."""
        root = address(file)
        file["a"] = file["b"] = file["/"]
        return lambda data: [(root + 4, struct.pack("<I", 1))]

    def shared(file):
        """Groups of their own that hold what the root holds: by each other there is no end of paths."""
        root, groups = address(file), [address(file.create_group(f"g{i}")) for i in range(120)]
        table = slice(24, 40)  # where a group's names are, behind the header's first 24 bytes
        return lambda data: [(group + 24, data[root:][table]) for group in groups]

    def deep(file):
        group = file
        for _ in range(1000):
            group = group.create_group("g")
        return lambda data: []

    patched("circle.h5", circle)
    patched("shared.h5", shared)
    patched("deep.h5", deep)


def make_names(path):
    with h5py.File(path, "w") as file:
        for name in NAMES.values():
            data = file.create_dataset(name.replace("/", "|"), data=np.ones((4, 3), "f4"))
            data.attrs["units"] = name
            data.attrs["long_name"] = name
            data.dims[0].label = name
            file[f"gone {name}".replace("/", "|")] = h5py.SoftLink("/nowhere")
            file[f"away {name}".replace("/", "|")] = h5py.ExternalLink(f"/dev/{name}", "/x")
        file[b"\xff\xfe\x9b2J"] = np.ones(3)


# ---- what commands make of them -------------------------------------------------------------------------------------

# Runs a command and writes its peak of memory in KiB. From here it would be no less than this process's own: a child
# begins as its copy.
MEASURED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (%d, %d))
_, status, used = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
code = os.waitstatus_to_exitcode(status)
os.write(int(sys.argv[1]), str(used.ru_maxrss).encode())
os._exit(code if code >= 0 else 128 - code)
""" % (SECONDS, SECONDS)


class Done:
    def __init__(self, command, cwd):
        """Runs a command to its end, or to SECONDS of processor time; keeps its peak of memory."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as peak:
            words = [sys.executable, "-I", "-S", "-c", MEASURED, peak.fileno(), *command]
            streams = {"stdout": out, "stderr": err, "pass_fds": [peak.fileno()], "start_new_session": True}
            process = subprocess.Popen([str(word) for word in words], cwd=cwd, **streams)
            timer = threading.Timer(PATIENCE, os.killpg, [process.pid, signal.SIGKILL])
            timer.start()
            self.code = process.wait()
            timer.cancel()
            for file in (out, err, peak):
                file.seek(0)
            self.out, self.err, kibibytes = out.read(), err.read(), peak.read()
        assert self.code not in (-signal.SIGKILL, 128 + signal.SIGXCPU, 128 + signal.SIGKILL), self.err[-2000:]
        assert int(kibibytes) * 1024 < PEAK, f"{kibibytes} KiB"
        assert is_clean(self.out), self.out
        assert is_clean(self.err), self.err
        assert CANARY not in self.out + self.err


def tilerun(*arguments, cwd=None):
    return Done([harness.TILERUN, *arguments], cwd)
