"""Labels and dimension scales of data sets, as the tests compare them."""

import h5py
import numpy as np
from real_layouts import PLACEHOLDER

import harness

LOCAL = {"REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates"}  # of a scale: how it lies in its file


def described(dataset):
    """Each axis of a data set: its label, and each scale by NAME, with its values and attributes; no placeholder."""
    return [(axis.label, [scale for scale in scales_of(axis) if not scale[0].startswith(PLACEHOLDER)])
            for axis in dataset.dims]  # fmt: skip


def scales_of(axis):
    return [(name, plain(scale[()]), attributes(scale)) for name, scale in zip(axis.keys(), axis.values())]


def plain(values):
    return np.asarray(values).tolist()


def attributes(scale):
    return {name: plain(value) for name, value in scale.attrs.items() if name not in LOCAL}


def check_links(file):
    """Each scale names the outputs that it is attached to, and no others; none is there twice, nor for nothing. Where
    there is one, each axis has one. The variants' outputs see them in a group above, too."""
    found, names = set(), harness.dataset_names(file, "outputs", "variants")
    all_scales = {name: file[name] for name in names if file[name].attrs.get("CLASS") == b"DIMENSION_SCALE"}
    scales = {name: scale for name, scale in all_scales.items() if name.startswith("outputs/")}
    others = {name.replace("variants/", "outputs/") for name in all_scales.keys() - scales.keys()}
    assert others == (set(scales) if "variants" in file else set())
    assert all(file[name.replace("outputs/", "variants/")] == file[name] for name in others)
    for name in names:
        for number, axis in enumerate(file[name].dims):
            assert name in all_scales or (len(axis) > 0) == (len(scales) > 0)
            for scale in axis.values():
                assert h5py.h5ds.is_attached(file[name].id, scale.id, number)
                found.add((file[name].id.__hash__(), number, scale.id.__hash__()))
    for scale in scales.values():
        assert scale.name.count("/") == 2
        here = scale.id.__hash__()
        listed = [(file[ref].id.__hash__(), int(number), here) for ref, number in scale.attrs["REFERENCE_LIST"]]
        assert listed and len(set(listed)) == len(listed) and set(listed) <= found
        found -= set(listed)
    assert not found
    return scales


def axes_of(op, options, axes):
    """NumPy's account of which input axis each axis of a result is; the first input of which something is known."""

    def known(*candidates):
        return next((axis for axis in candidates if described_axis(axis)), None)

    def described_axis(axis):
        return axis is not None and (axis[0] or axis[1])

    x = axes[0]
    if op == "scale":
        return list(x)
    if op == "transpose":
        return [*x[:-2], x[-1], x[-2]]
    if op == "reduce":
        return [] if options["axis"] == "all" else [a for i, a in enumerate(x) if i != options["axis"] % len(x)]
    a, b = x, axes[1]
    row, column = a[-1 if options.get("transpose_a") else -2], b[-2 if options.get("transpose_b") else -1]
    stack = [known(*(axis[0] for axis in (a, b) if len(axis) == 3))] if 3 in (len(a), len(b)) else []
    return [*stack, row, column]
