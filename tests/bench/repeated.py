"""Large compressed data sets in seconds: the stored chunks of a small one, again and again. To decode them takes what
it takes for any others of their kind."""

import contextlib

import h5py
import numpy as np


@contextlib.contextmanager
def packed_by_h5py(values, chunks, **options):
    """A data set in memory."""
    with h5py.File("packed", "w", driver="core", backing_store=False) as file:
        yield file.create_dataset("X", data=values, chunks=chunks, **options)


def write_repeated(path, packed, length):
    """Writes X of `length` along the first axis, made of the chunks of `packed`, which cover its other axes and divide
    its first. Returns how many bytes each chunk takes."""
    step, stored = packed.chunks[0], []
    known = [packed.id.read_direct_chunk((at, *[0] * (packed.ndim - 1))) for at in range(0, packed.shape[0], step)]
    space = h5py.h5s.create_simple((length, *packed.shape[1:]))
    with h5py.File(path, "w") as file:
        dataset = h5py.h5d.create(file.id, b"X", packed.id.get_type(), space, packed.id.get_create_plist())
        for at in range(0, length, step):
            mask, chunk = known[at // step % len(known)]
            dataset.write_direct_chunk((at, *[0] * (packed.ndim - 1)), chunk, mask)
            stored.append(len(chunk))
    return stored


def counts(shape, seed=1):
    """int16 of little entropy, as a detector counts: three bits an element."""
    return np.random.default_rng(seed).poisson(4, shape).astype(np.int16)
