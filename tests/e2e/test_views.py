"""Parts of data sets, as other types: what `select` takes of data sets of up to 8 axes, of any layout, is what NumPy
takes; what `dtype` makes of it is what NumPy's astype does.

    TILERUN_CASES=500 TILERUN_SEED=1     other cases, more of them; one by TILERUN_CASE=57
"""

import os

import h5py
import numpy as np
import pytest

import h5codecs
import harness
import referee

SEED = int(os.environ.get("TILERUN_SEED", 0))
CASES = int(os.environ.get("TILERUN_CASES", 40))
CHOSEN = os.environ.get("TILERUN_CASE")
CODECS = {
    "zstd": (h5codecs.ZSTD, h5codecs.zstd, (3,)),
    "lz4": (h5codecs.LZ4, h5codecs.lz4_filter, ()),
    "blosc": (h5codecs.BLOSC, lambda data: h5codecs.blosc(data, 1), (2, 2, 1, 0, 5)),
}
HERE = [name for name, (kind, *_) in CODECS.items() if h5codecs.are_here(kind)]
LAYOUTS = ["contiguous", "chunked", "gzip-shuffle", "lzf", "fletcher32", "virtual", "compact", *HERE]
TYPES = [name for name in referee.DTYPES if name != "bfloat16"]


# ---- what is drawn -------------------------------------------------------------------------------------------------


def draw_shape(rng, most=20000):
    rank = int(rng.integers(1, 9))
    sizes = [int(rng.integers(1, max(2, int(most ** (1 / rank) * 1.5)))) for _ in range(rank)]
    if rng.random() < 0.3:
        sizes[int(rng.integers(rank))] *= 3
    if rng.random() < 0.05:
        sizes[int(rng.integers(rank))] = 0
    return tuple(sizes)


def draw_slice(rng, size):
    """A slice as a job writes it, with first, end or step left out at times."""
    first, end = sorted(int(i) for i in rng.integers(0, size + 1, 2))
    step = int(rng.choice([1, 1, 1, 2, 3, 7, max(1, size // 2), size + 5]))
    shape = rng.random()
    if shape < 0.25:
        first, end = 0, size
    elif rng.random() < 0.2 and size > 0 and first < size:
        first -= size
    text = f"{first if first or rng.random() < 0.3 else ''}:{end if end != size or rng.random() < 0.3 else ''}"
    return text + (f":{step}" if step > 1 or rng.random() < 0.1 else "")


def draw_select(rng, shape, most_seen):
    """Entries, and the same as NumPy's index; at least one axis is seen, and at most `most_seen`."""
    dropped = set(int(i) for i in rng.permutation(len(shape))[: max(0, len(shape) - most_seen)])
    if len(shape) - len(dropped) > 1 and rng.random() < 0.4:
        dropped.add(int(rng.integers(len(shape))))
    entries = []
    for axis, size in enumerate(shape):
        if axis in dropped and size > 0:
            entries.append(int(rng.integers(-size, size)))
        elif axis in dropped:
            return None
        else:
            entries.append(draw_slice(rng, size))
    return entries


def as_index(entries):
    """What Python makes of the entries."""
    return tuple(eval(f"np.s_[{entry}]", {"np": np}) for entry in entries)  # pylint: disable=eval-used


def create(rng, file, name, x, layout):
    """Writes x in a layout, big-endian at times."""
    dtype = x.dtype.newbyteorder(rng.choice(["<", ">"]))
    options = {}
    if layout in ("chunked", "gzip-shuffle", "lzf", "fletcher32", *CODECS) and x.size and x.ndim:
        options["chunks"] = tuple(int(rng.integers(1, size + 1)) for size in x.shape)
        while np.prod(options["chunks"]) * 200 < x.size:  # not too many chunks
            options["chunks"] = tuple(min(size, 2 * chunk) for size, chunk in zip(x.shape, options["chunks"]))
        if layout == "gzip-shuffle":
            options.update(compression="gzip", shuffle=True)
        if layout == "lzf":
            options.update(compression="lzf")
        if layout == "fletcher32":
            options.update(fletcher32=True)
        if layout in CODECS:
            return h5codecs.add(file, name, x.astype(dtype), options["chunks"], *CODECS[layout], rng.random() < 0.5)
    if layout == "virtual" and x.shape[0] > 1:
        half = x.shape[0] // 2
        virtual = h5py.VirtualLayout(x.shape, dtype)
        for number, part in enumerate((slice(None, half), slice(half, None))):
            source = file.create_dataset(f"{name}-{number}", data=x[part].astype(dtype))
            virtual[part] = h5py.VirtualSource(source)
        file.create_virtual_dataset(name, virtual)
    elif layout == "compact" and 0 < x.nbytes < 30000:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple(x.shape)
        kind = h5py.h5t.py_create(dtype)
        h5py.Dataset(h5py.h5d.create(file.id, name.encode(), kind, space, creation))[...] = x
    else:
        file.create_dataset(name, data=x.astype(dtype), **options)
    return None


def cast(x, dtype):
    """x as another type, and how many elements overflowed, wrapped around and lost fractions. What NumPy leaves open
    is ours: integers take the value modulo 2^bits, and 0 for what is no number."""
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            exact = x.astype("float64")
            if x.dtype.kind in "iu":  # of 64 bits, some are not exact: the last bit says that there is more
                wide = x.astype("longdouble")
                below = np.where(np.abs(exact) > np.abs(wide), np.nextafter(exact, 0), exact)
                exact = np.where(exact == wide, exact.view("int64"), below.view("int64") | 1).view("float64")
            to = referee.bfloat16_bits(exact)
            finite = np.isfinite(referee.widen(to, dtype))
        elif x.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
            limits, whole = np.iinfo(dtype), np.trunc(x.astype("float64"))
            fits = (whole >= limits.min) & (whole <= limits.max) & (whole < 2.0**limits.bits)
            fits &= (whole < 2.0 ** (limits.bits - (limits.min < 0)))
            to = np.where(fits, whole, 0).astype(dtype)
            for place in zip(*np.nonzero(~fits & np.isfinite(whole))):
                to[place] = np.array(int(whole[place]) % 2**limits.bits, "uint64").astype(dtype)
            return to, (0, int(np.sum(~fits)), int(np.sum(np.isfinite(whole) & (whole != x))))
        else:
            to = x.astype(dtype)
            finite = np.isfinite(to)
    if to.dtype.kind in "iu" and dtype != "bfloat16":
        wrapped = (to.astype(x.dtype) != x) | ((to < 0) != (x < 0)) if x.dtype.kind in "iu" else np.zeros(x.shape, bool)
        return to, (0, int(np.sum(wrapped)), 0)
    return to, (int(np.sum(~finite & np.isfinite(x))), 0, 0)


def same_values(found, expected, dtype, words):
    """Equal bits, but for the bits of NaNs."""
    if dtype in referee.FLOATS:
        nan = np.isnan(referee.widen(expected, dtype))
        np.testing.assert_array_equal(np.isnan(referee.widen(found, dtype)), nan, words)
        found, expected = np.where(nan, 0, found), np.where(nan, 0, expected)
    kind = np.dtype(f"u{found.dtype.itemsize}")
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(kind), np.ascontiguousarray(expected.astype(found.dtype)).view(kind), words
    )


def memory_of(rng):
    return rng.choice(["64KiB", "90%"])


# ---- tests ---------------------------------------------------------------------------------------------------------


def cases(count, per_job):
    """Seeds of jobs of several inputs each: starting the program takes longer than a case."""
    if CHOSEN is not None:
        return [int(CHOSEN)]
    return [SEED * 100000 + job for job in range(max(1, count // per_job))]


@pytest.mark.parametrize("seed", cases(CASES, 5))
def test_selections(folder, seed):
    """Moved through scale and transpose; every bit of scale by 1 of integers, and of transpose, must be NumPy's."""
    rng = np.random.default_rng(seed)
    inputs, operations, expected = {}, [], {}
    with h5py.File(folder / "data.h5", "w") as file:
        while len(inputs) < 5:
            name, shape = f"x{len(inputs)}", draw_shape(rng)
            select = draw_select(rng, shape, 3)
            if select is None:
                continue
            dtype = str(rng.choice(TYPES))
            x = draw_values(rng, shape, dtype)
            create(rng, file, name, x, str(rng.choice(LAYOUTS)))
            seen = x[as_index(select)]
            inputs[name] = {"file": "data.h5", "dataset": name, "select": select}
            operation = {"id": f"y{name}", "inputs": [name], "repeat": 1, "warmup": 0}
            if seen.ndim == 1:
                operation.update({"op": "reduce", "operator": "max", "axis": "all"} if seen.size else {"op": "scale"})
                bits = seen.astype("int64") if dtype.startswith("int") else seen
                expected[f"y{name}"] = (
                    bits if not seen.size else referee.extreme_bits(seen, dtype, "max", None)
                    if dtype in referee.FLOATS else seen.max()
                )
            else:
                operation.update({"op": "transpose"})
                expected[f"y{name}"] = seen.swapaxes(-1, -2)
            operations.append(operation)
    results = harness.run_job(folder, inputs=inputs, operations=operations, memory=str(memory_of(rng)))
    for name, values in expected.items():
        found = results.output(name)
        assert found.shape == values.shape, (name, inputs)
        kind = np.dtype(f"u{found.dtype.itemsize}")
        np.testing.assert_array_equal(
            np.ascontiguousarray(found).view(kind), np.ascontiguousarray(values.astype(found.dtype)).view(kind),
            str((name, inputs)),
        )


def draw_values(rng, shape, dtype):
    """Any bits, values around the limits of other types, or small numbers with fractions."""
    kind = rng.random()
    if kind < 0.4:
        return referee.random_bits(rng, shape, dtype)
    with np.errstate(all="ignore"):
        limits = 2.0 ** rng.integers(0, 66, shape) * rng.choice([-1, 1], shape) + rng.integers(-3, 4, shape)
        if kind < 0.7 and dtype in referee.FLOATS:
            return limits.astype(dtype)
        if dtype in referee.FLOATS:
            return (rng.normal(size=shape) * 100).astype(dtype)
        near = np.array([int(v) % 2 ** np.iinfo(dtype).bits for v in limits.reshape(-1)], "uint64")
        return near.astype(dtype).reshape(shape)


@pytest.mark.parametrize("seed", cases(CASES, 5))
def test_casts(folder, seed):
    """Seen through a transpose. What is lost is counted in the row, and said."""
    rng = np.random.default_rng(seed)
    inputs, operations, expected = {}, [], {}
    with h5py.File(folder / "data.h5", "w") as file:
        while len(inputs) < 5:
            name, shape = f"x{len(inputs)}", draw_shape(rng)
            select = draw_select(rng, shape, 3)
            if select is None or sum(isinstance(entry, str) for entry in select) < 2:
                continue
            dtype, to = str(rng.choice(TYPES)), str(rng.choice(referee.DTYPES))
            x = draw_values(rng, shape, dtype)
            create(rng, file, name, x, str(rng.choice(LAYOUTS)))
            seen = x[as_index(select)]
            inputs[name] = {"file": "data.h5", "dataset": name, "select": select, "dtype": to}
            operations.append({"id": f"y{name}", "op": "transpose", "inputs": [name], "repeat": 1, "warmup": 0})
            expected[f"y{name}"] = (seen, dtype, to)
    memory = str(memory_of(rng))
    results = harness.run_job(folder, inputs=inputs, operations=operations, memory=memory)
    for name, (seen, dtype, to) in expected.items():
        values, losses = cast(seen, to)
        words = str((name, inputs, dtype, to))
        same_values(results.output(name), values.swapaxes(-1, -2), to, words)
        row = results.row(name)
        assert row["dtype"] == to
        assert (row["overflowed"], row["wrapped"], row["truncated"]) == losses, words


@pytest.mark.parametrize("to", referee.DTYPES)
def test_casts_of_bfloat16(folder, rng, to):
    x = referee.random_bits(rng, (31, 40), "bfloat16")
    with h5py.File(folder / "data.h5", "w") as file:
        referee.write_dataset(file, "x", x, "bfloat16")
    results = harness.run_job(
        folder,
        inputs={"x": {"file": "data.h5", "dataset": "x", "dtype": to, "select": ["::3", ":"]}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"], "repeat": 1, "warmup": 0}],
    )
    wide = referee.widen(x, "bfloat16")[::3]
    same_values(results.output("y"), cast(wide, to)[0].T, to, to)


def test_losses_are_said_and_bytes_are_counted(folder):
    x = np.full((256, 256), 1e6, "float32")
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(4, 256))
    job = harness.write_job(
        folder / "job.yaml",
        inputs={
            "x": {"file": "data.h5", "dataset": "x", "dtype": "float16"},
            "part": {"file": "data.h5", "dataset": "x", "select": ["::16", ":"]},
        },
        operations=[
            {"id": "y", "op": "transpose", "inputs": ["x"], "repeat": 1},
            {"id": "z", "op": "transpose", "inputs": ["part"], "repeat": 1},
            {"id": "w", "op": "scale", "inputs": ["x"], "repeat": 1, "store": "none"},
        ],
    )
    done = harness.tilerun("run", job, "-o", folder / "out.h5", expect=harness.OK)
    assert done.stderr.count("input 'x': 65536 of 65536 elements overflowed float16\n") == 1  # of two that read it
    results = harness.Results(folder / "out.h5")
    whole = results.row("y")["file_bytes"]  # several devices each read the chunks that they have a part of
    assert whole % x.nbytes == 0 and results.row("z")["file_bytes"] == whole / 4


@pytest.mark.parametrize("fill, to, loss", [(1e6, "float16", 0), (300, "uint8", 1), (0.5, "int32", 2)])
def test_losses_of_chunks_never_stored(folder, fill, to, loss):
    """Their elements are the fill value: each of them counts."""
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", shape=(50, 30), dtype="float64", chunks=(7, 8), fillvalue=fill)[:7, :8] = 1
    results = harness.run_job(
        folder,
        inputs={"x": {"file": "data.h5", "dataset": "x", "dtype": to, "select": ["::2", ":"]}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"], "repeat": 1, "warmup": 0}],
    )
    row = results.row("y")
    losses = [0, 0, 0]
    losses[loss] = 25 * 30 - 4 * 8
    assert [row["overflowed"], row["wrapped"], row["truncated"]] == losses


def test_selected_rows_of_any_width_are_all_that_is_read(folder, rng):
    """Of a contiguous data set, however short the rows are and near each other. (Of single elements that lie at most
    8 KiB apart all between them is read: a call for each would take longer.)"""
    inputs, operations, bytes_of = {}, [], {}
    with h5py.File(folder / "data.h5", "w") as file:
        for i in range(12):
            x = rng.integers(-100, 100, (int(rng.integers(2, 700)), int(2 ** rng.uniform(1, 10)))).astype("int16")
            step = int(rng.integers(2, 5))
            file[f"x{i}"] = x
            inputs[f"x{i}"] = {"file": "data.h5", "dataset": f"x{i}", "select": [f"::{step}", ":"]}
            operations.append({"id": f"y{i}", "op": "scale", "inputs": [f"x{i}"], "alpha": 2})
            bytes_of[f"y{i}"] = x[::step].nbytes
    results = harness.run_job(
        folder, device="cpu", inputs=inputs, operations=operations, defaults={"warmup": 0, "repeat": 1}
    )
    for name, wanted in bytes_of.items():
        assert results.row(name)["file_bytes"] == wanted, name


def select_job(folder, shape, select, **more):
    """Checks a job with that selection; returns what the program says."""
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=np.zeros(shape, "float32"))
    job = harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"file": "data.h5", "dataset": "x", "select": select, **more}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"]}],
    )
    done = harness.tilerun("check", job)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "shape, select, words",
    [
        ((4, 5), ["0:4"], "but the data set's shape 4x5 needs one for each axis"),
        ((4, 5), ["0:5", ":"], 'axis 0, which has 4 elements'),
        ((4, 5), [":", 5], "index 5 is not in axis 1, which has 5 elements"),
        ((4, 5), [":", "-6:"], "axis 1"),
    ],
)
def test_what_does_not_fit_is_refused(folder, shape, select, words):
    code, said = select_job(folder, shape, select)
    assert code == harness.USAGE and words in said, said


def test_swept_selection(folder):
    """Frame after frame of a stack, as a sweep."""
    x = np.arange(60, dtype="int32").reshape(3, 4, 5)
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(1, 2, 5))
    results = harness.run_job(
        folder,
        parameters={"frame": [0, 1, 2]},
        inputs={"x": {"file": "data.h5", "dataset": "x", "select": ["$frame", ":", "${frame}::2"]}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"], "repeat": 1}],
    )
    for frame in range(3):
        np.testing.assert_array_equal(results.output(f"frame={frame}/y"), x[frame, :, frame::2].T)


def test_scales_follow_the_selection(folder):
    """A dimension scale of a selected axis is selected alike; the dropped axis has none."""
    with h5py.File(folder / "data.h5", "w") as file:
        x = file.create_dataset("x", data=np.arange(120, dtype="float32").reshape(4, 5, 6))
        for axis, name in enumerate(("time", "row", "column")):
            scale = file.create_dataset(name, data=np.arange(x.shape[axis], dtype="float64") * 10)
            scale.make_scale(name)
            x.dims[axis].attach_scale(scale)
    results = harness.run_job(
        folder,
        inputs={"x": {"file": "data.h5", "dataset": "x", "select": [2, "1::2", ":"]}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"], "repeat": 1}],
    )
    with h5py.File(results.path) as file:
        y = file["outputs/y"]
        np.testing.assert_array_equal(y.dims[1][0][()], [10, 30])
        np.testing.assert_array_equal(y.dims[0][0][()], np.arange(6) * 10)


# ---- ranks ---------------------------------------------------------------------------------------------------------


def draw_reduce(rng, x):
    """An axis, several or all; and NumPy's result. Sums of these numbers are exact."""
    operator = str(rng.choice(["sum", "min", "max", "mean", "argmin", "argmax"]))
    count = int(rng.integers(1, x.ndim + 1))
    axes = [int(a) for a in rng.permutation(x.ndim)[:count]]
    if rng.random() < 0.2:
        axis, along = "all", None
    elif count == 1 or operator.startswith("arg"):
        axis = axes[0] if rng.random() < 0.5 else axes[0] - x.ndim
        along = axis
    else:
        axis = [a if rng.random() < 0.7 else a - x.ndim for a in axes]
        along = tuple(axes)
    return {"op": "reduce", "operator": operator, "axis": axis}, getattr(np, operator)(x, axis=along)


def draw_transpose(rng, x):
    axes = [int(a) for a in rng.permutation(x.ndim)]
    if rng.random() < 0.4:  # rotated: a stack of transposes of merged axes
        turn = int(rng.integers(x.ndim))
        axes = list(range(turn, x.ndim)) + list(range(turn))
    return {"op": "transpose", "axes": axes}, x.transpose(axes)


def draw_scale(rng, x):
    return {"op": "scale", "alpha": 2, "beta": -1}, 2 * x - 1


@pytest.mark.parametrize("seed", cases(CASES, 5))
def test_ranks(folder, seed):
    """Operations on arrays of up to 8 axes, and on each other's results."""
    rng = np.random.default_rng(seed)
    inputs, operations, expected = {}, [], {}
    with h5py.File(folder / "data.h5", "w") as file:
        for number in range(5):
            name, shape = f"x{number}", draw_shape(rng, 5000)
            while 0 in shape:
                shape = draw_shape(rng, 5000)
            dtype = str(rng.choice(["float32", "float64", "int64"]))
            x = rng.integers(-8, 9, shape).astype(dtype)
            create(rng, file, name, x, str(rng.choice(LAYOUTS)))
            inputs[name] = {"file": "data.h5", "dataset": name}
            for step, of in enumerate([name, f"{name}_0"]):
                draw = [draw_reduce, draw_transpose, draw_scale][int(rng.integers(3 if x.ndim > 1 else 1))]
                if x.ndim == 0:
                    break
                operation, x = draw(rng, x)
                x = np.asarray(x)
                if rng.random() < 0.3 and x.ndim and x.size:
                    operation["chunks"] = [int(rng.integers(1, size + 1)) for size in x.shape]
                operations.append(
                    {"id": f"{name}_{step}", "inputs": [of], "repeat": 1, "warmup": 0, "verify": "full", **operation}
                )
                expected[f"{name}_{step}"] = x
                if x.dtype == np.float64 and operation.get("operator") == "mean":
                    break  # no longer exact
    results = harness.run_job(folder, inputs=inputs, operations=operations, memory=str(memory_of(rng)))
    for name, values in expected.items():
        found, words = results.output(name), str((name, inputs, operations))
        assert found.shape == values.shape, words
        np.testing.assert_allclose(found, values, rtol=1e-6 if values.dtype == np.float32 else 1e-14, err_msg=words)


@pytest.mark.parametrize("seed", cases(CASES, 5))
def test_stacks_of_products(folder, seed):
    """Stacks of any number of axes are broadcast as NumPy does."""
    rng = np.random.default_rng(seed)
    inputs, operations, expected = {}, [], {}
    with h5py.File(folder / "data.h5", "w") as file:
        for number in range(5):
            m, n, k = (int(i) for i in rng.integers(1, 12, 3))
            stack = [int(i) for i in rng.integers(1, 4, int(rng.integers(0, 5)))]
            operands = []
            for side, matrix in (("a", (m, k)), ("b", (k, n))):
                own = stack[int(rng.integers(len(stack) + 1)) if rng.random() < 0.5 else 0 :]
                own = [1 if rng.random() < 0.3 else size for size in own]
                dtype = "float32" if number % 2 else "float64"
                x = rng.integers(-8, 9, (*own, *matrix)).astype(dtype)
                create(rng, file, f"{side}{number}", x, str(rng.choice(LAYOUTS)))
                inputs[f"{side}{number}"] = {"file": "data.h5", "dataset": f"{side}{number}"}
                operands.append(x)
            shapes = [x.shape for x in operands]
            operations.append({"id": f"c{number}", "op": "matmul", "inputs": [f"a{number}", f"b{number}"],
                               "repeat": 1, "warmup": 0})  # fmt: skip
            expected[f"c{number}"] = (operands[0] @ operands[1], shapes)
    results = harness.run_job(folder, inputs=inputs, operations=operations, memory=str(memory_of(rng)))
    for name, (values, shapes) in expected.items():
        found = results.output(name)
        assert found.shape == values.shape, shapes
        np.testing.assert_array_equal(found, values, str(shapes))
