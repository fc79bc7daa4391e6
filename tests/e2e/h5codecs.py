"""Compresses chunks as HDF5's registered filters do: an independent writer, over the libraries by ctypes, of what
runner/storage/elements/codecs.c undoes."""

import ctypes
import ctypes.util

import h5py
import numpy as np

BLOSC, LZ4, BITSHUFFLE, ZSTD = 32001, 32004, 32008, 32015
NAMES = {BLOSC: "Blosc", LZ4: "LZ4", BITSHUFFLE: "bitshuffle", ZSTD: "zstd"}
OVER_LZ4, OVER_ZSTD = 2, 3


def library(name):
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


LIBRARIES = {LZ4: library("liblz4.so.1"), ZSTD: library("libzstd.so.1"), BLOSC: library("libblosc.so.1")}


def are_here(kind, over=None):
    needs = {None: kind, OVER_LZ4: LZ4, OVER_ZSTD: ZSTD, 0: None}[over if kind == BITSHUFFLE else None]
    return needs is None or LIBRARIES[needs] is not None


def zstd(data, level=3):
    at = LIBRARIES[ZSTD]
    at.ZSTD_compressBound.restype = at.ZSTD_compress.restype = ctypes.c_size_t
    room = ctypes.create_string_buffer(at.ZSTD_compressBound(ctypes.c_size_t(len(data))) + 1)
    count = at.ZSTD_compress(room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)), level)
    return room.raw[:count]


def unzstd(stored, length):
    at = LIBRARIES[ZSTD]
    at.ZSTD_decompress.restype = ctypes.c_size_t
    room = ctypes.create_string_buffer(length + 1)
    count = at.ZSTD_decompress(room, ctypes.c_size_t(length), stored, ctypes.c_size_t(len(stored)))
    assert count == length, count
    return room.raw[:length]


def read_zstd(dataset):
    """A data set under zstd, perhaps shuffled before and summed behind it, without HDF5's pipeline."""
    values, size = np.zeros(dataset.shape, dataset.dtype), dataset.dtype.itemsize
    length = int(np.prod(dataset.chunks)) * size
    for number in range(dataset.id.get_num_chunks()):
        at = dataset.id.get_chunk_info(number).chunk_offset
        mask, stored = dataset.id.read_direct_chunk(at)
        assert mask == 0
        plain = np.frombuffer(unzstd(stored[:-4] if dataset.fletcher32 else stored, length), np.uint8)
        if dataset.shuffle:
            plain = plain.reshape(size, -1).T.ravel()
        box = tuple(slice(a, min(a + c, s)) for a, c, s in zip(at, dataset.chunks, dataset.shape))
        chunk = plain.view(dataset.dtype).reshape(dataset.chunks)
        values[box] = chunk[tuple(slice(0, b.stop - b.start) for b in box)]
    return values


def lz4(data):
    room = ctypes.create_string_buffer(len(data) + len(data) // 100 + 64)
    count = LIBRARIES[LZ4].LZ4_compress_default(data, room, len(data), len(room))
    return room.raw[:count]


def header(data, block):
    return len(data).to_bytes(8, "big") + block.to_bytes(4, "big")


def with_length(data):
    return len(data).to_bytes(4, "big") + data


def lz4_filter(data, block=1 << 30):
    """A block that does not shrink lies as it is."""
    block = min(block, len(data))
    stored = header(data, block)
    for at in range(0, len(data), block):
        plain = data[at : at + block]
        packed = lz4(plain)
        stored += with_length(packed if len(packed) < len(plain) else plain)
    return stored


def blosc(data, size, shuffle=1, level=5, codec=b"lz4"):
    room = ctypes.create_string_buffer(len(data) + 16)
    length = ctypes.c_size_t(len(data))
    size, none, most = (ctypes.c_size_t(number) for number in (size, 0, len(room)))
    count = LIBRARIES[BLOSC].blosc_compress_ctx(level, shuffle, size, length, data, room, most, codec, none, 1)
    assert count > 0
    return room.raw[:count]


def shuffle_bits(block, size):
    """Bit b of byte j of all elements side by side; their number is a multiple of 8."""
    bits = np.unpackbits(np.frombuffer(block, np.uint8).reshape(-1, size, 1), axis=2, bitorder="little")
    return np.packbits(bits.transpose(1, 2, 0).reshape(size * 8, -1), axis=1, bitorder="little").tobytes()


def bitshuffle(data, size, elements=0, over=0):
    elements = elements or max(8192 // size // 8 * 8, 128)
    count = len(data) // size // 8 * 8
    stored = header(data, elements * size) if over else b""
    for at in range(0, count, elements):
        block = shuffle_bits(data[at * size : min(at + elements, count) * size], size)
        stored += with_length(lz4(block) if over == OVER_LZ4 else zstd(block)) if over else block
    return stored + data[count * size :]


def add(file, name, x, chunks, kind, encode, values=(), shuffle=False):
    """Adds a data set whose chunks `encode` makes of their bytes; `shuffle`: HDF5's, before."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(chunks)
    if shuffle:
        properties.set_filter(h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FLAG_OPTIONAL, (x.itemsize,))
    properties.set_filter(kind, h5py.h5z.FLAG_OPTIONAL, tuple(values))
    space = h5py.h5s.create_simple(x.shape)
    dataset = h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(x.dtype), space, properties)
    for corner in np.ndindex(*(-(-n // c) for n, c in zip(x.shape, chunks))):
        first = tuple(at * c for at, c in zip(corner, chunks))
        part = x[tuple(slice(at, at + c) for at, c in zip(first, chunks))]
        chunk = np.zeros(chunks, x.dtype)
        chunk[tuple(slice(0, n) for n in part.shape)] = part
        data = chunk.tobytes()
        if shuffle:
            data = np.frombuffer(data, np.uint8).reshape(-1, x.itemsize).T.tobytes()
        dataset.write_direct_chunk(first, encode(data))


def write(path, name, x, chunks, kind, encode, values=(), shuffle=False):
    with h5py.File(path, "a") as file:
        add(file, name, x, chunks, kind, encode, values, shuffle)
