"""Families of shapes and of data beside the vendor's library. Members are drawn by a seed, so that a variant which is
tuned to some sizes does not pass.

    families.py shapes --seed 7                         the job, on standard output
    families.py shapes --seed 7 --run build/tilerun     runs it and sums it up
    families.py --table RESULTS.h5 --run build/tilerun  sums results up
    families.py values --seed 7 --data                  writes the data that the job of `values` reads

What there is: `shapes` (products of every float type), `values` (products of difficult float32 data), `thin`
(transposes beside a copy, reductions beside CUB). The table has a row a type and a column a family: the geometric mean
of the vendor's time over that of `auto`, and the least in brackets. More than 1 is faster than the vendor.

configs/bench/NAME.yaml is `families.py NAME --seed 1`; `make families SEED=7` runs all three. On a machine without a
GPU `--device cpu --shrink 8` takes this machine's BLAS as the vendor's, and sizes that suit it.
"""

import argparse
import csv
import math
import pathlib
import random
import subprocess
import sys
import tempfile

COUNT = 8  # members of a family
SUMMED = ["float32", "float64"]  # by CUB and by us
VENDORS = ("cublas", "cub", "copy", "blas", "cpu")
ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = "data/generated/values-{seed}.h5"


def size(draw, least, most):
    """An extent, as likely to be between 100 and 200 as between 1000 and 2000."""
    return round(math.exp(draw.uniform(math.log(least), math.log(most))))


# ---- products: (m, k, n), a stack before it, options ---------------------------------------------------------------


def square(draw):
    n = 64
    while n & (n - 1) == 0:
        n = size(draw, 64, 5000)
    return {"mkn": (n, n, n)}


def inference(draw):
    """A few tokens through a layer; weights lie as they are used or transposed."""
    hidden = 128 * draw.randint(8, 64)
    layers = [(hidden, hidden), (hidden, 3 * hidden), (hidden, 4 * hidden), (4 * hidden, hidden)]
    k, n = draw.choice([layer for layer in layers if layer[0] * layer[1] <= 2**27])
    return {"mkn": (size(draw, 1, 512), k, n), "transpose_b": draw.random() < 0.5}


def deepbench(draw):
    """Gates of a recurrent layer times its state, forward and backward; a layer of a classifier."""
    k = 32 * draw.randint(16, 96)
    m = draw.choice([1, 2, 3, 4]) * k if draw.random() < 0.8 else draw.randint(30, 60)
    n = 16 * draw.randint(1, 8) if draw.random() < 0.6 else size(draw, 128, 9000)
    return {"mkn": (m, k, n), "transpose_a": draw.random() < 0.3, "transpose_b": draw.random() < 0.3}


def odd(draw):
    m, k, n = (size(draw, 17, 6000) | 1 for _ in range(3))
    return {"mkn": (m, k, n)} if 1e7 < m * k * n < 1e11 else odd(draw)


def skinny(draw):
    """One operand is a vector, or nearly."""
    few, k, many = size(draw, 1, 16), size(draw, 1000, 16000), size(draw, 1000, 16000)
    m, n = draw.choice([(few, many), (many, few)])
    return {"mkn": (m, k, n), "transpose_a": draw.random() < 0.5, "transpose_b": draw.random() < 0.5}


def stack(draw):
    m, k, n = [size(draw, 8, 256)] * 3 if draw.random() < 0.6 else (size(draw, 8, 256) for _ in range(3))
    return {"mkn": (m, k, n), "stack": [min(50000, 2**24 // (m * k + k * n + m * n))]}


def operands(draw):
    """One shape with operands as they are, either and both transposed, and with a factor."""
    mkn = tuple(size(draw, 1000, 4500) for _ in range(3))
    both = [{"transpose_a": a, "transpose_b": b} for a in (False, True) for b in (False, True)]
    return [{"mkn": mkn, **options} for options in [*both, {"alpha": 0.5}]]


# ---- difficult data ------------------------------------------------------------------------------------------------


def softmax(rng, shape):
    import numpy as np

    x = np.exp(4 * rng.standard_normal(shape))
    return x / x.sum(axis=1, keepdims=True)


def one_hot(rng, shape):
    x = 0 * rng.random(shape)
    x[range(shape[0]), rng.integers(0, shape[1], shape[0])] = 1
    return x


def odd_rows(rng, shape, share):
    """A row is odd where one of its numbers is 2^40 times the others."""
    x = rng.standard_normal(shape)
    for row in rng.choice(shape[0], max(1, int(share * shape[0])), replace=False):
        x[row, rng.integers(shape[1])] *= 2.0**40
    return x


def sprinkled(rng, shape):
    x = rng.standard_normal(shape)
    x[rng.random(shape) < 1e-5] = float("nan")
    return x


VALUES = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.random(shape),
    "softmax": softmax,
    "wide": lambda rng, shape: rng.choice([-1.0, 1.0], shape) * 2.0 ** rng.uniform(-60, 60, shape),
    "one-hot": one_hot,
    "sparse": lambda rng, shape: rng.standard_normal(shape) * (rng.random(shape) < 0.01),
    "odd-row": lambda rng, shape: odd_rows(rng, shape, 0),
    "odd-rows": lambda rng, shape: odd_rows(rng, shape, 0.01),
    "nan": sprinkled,
}


def write_values(path, members, seed):
    import h5py
    import numpy as np

    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, member in members:
            m, k, n = member["mkn"]
            file[f"{name}-a"] = VALUES[member["family"]](rng, (m, k)).astype(np.float32)
            file[f"{name}-b"] = rng.standard_normal((k, n)).astype(np.float32)


# ---- what moves bytes ----------------------------------------------------------------------------------------------


def vector(draw):
    shape = [1, size(draw, 2**24, 2**26)]
    return {"shape": draw.choice([shape, shape[::-1]])}


def strip(draw):
    few = draw.randint(2, 16)
    shape = [few, size(draw, 2**24, 2**26) // few]
    return {"shape": draw.choice([shape, shape[::-1]])}


def tiles(draw):
    m, n = [size(draw, 4, 64)] * 2 if draw.random() < 0.5 else (size(draw, 4, 64), size(draw, 4, 64))
    return {"shape": [2**25 // (m * n), m, n]}


def odd_sides(draw):
    m = size(draw, 2000, 12000) | 1
    return {"shape": [m, (size(draw, 2**24, 2**26) // m) | 1]}


def rows(draw):
    length = size(draw, 1000, 8000)
    return {"shape": [size(draw, 2**24, 2**26) // length, length], "axis": 1}


def columns(draw):
    return {"shape": rows(draw)["shape"][:: draw.choice([1, -1])], "axis": 0}


def few_outputs(draw):
    few = draw.randint(1, 64)
    return {"shape": [few, size(draw, 2**24, 2**26) // few], "axis": 1}


# ---- jobs ----------------------------------------------------------------------------------------------------------

PRODUCTS = {
    "squares": square,
    "inference": inference,
    "deepbench": deepbench,
    "odd": odd,
    "skinny": skinny,
    "stacks": stack,
    "operands": operands,
}
TRANSPOSES = {"vectors": vector, "strips": strip, "tiles": tiles, "odd-sides": odd_sides}
REDUCTIONS = {"rows": rows, "columns": columns, "few-outputs": few_outputs}
JOBS = {
    "shapes": (PRODUCTS, ["bfloat16", "float16", "float32", "float64"]),
    "values": (dict.fromkeys(VALUES, None), ["float32"]),
    "thin": ({**TRANSPOSES, **REDUCTIONS}, ["int8", "float16", "float32", "float64"]),
}
HEAD = """# {what}, drawn by seed {seed}.
#
# `tests/bench/families.py {command}` wrote this file. With `--run build/tilerun` it runs such a job and
# prints of each family the geometric mean of the vendor's time over ours, and the least.{reads}
version: 1
name: {name}
{parameters}
x-run: &run {{warmup: 2, repeat: {{min: 7, max: 30, until: 1%}}, store: none{cold}}}
"""
WHAT = {
    "shapes": "Products of families of shapes beside {blas}",
    "values": "Products of difficult float32 data beside {blas}",
    "thin": "Transposes beside {copy} and reductions beside {cub}, of long, thin, small and odd shapes",
}


WHO = {
    "cpu": {"blas": "this machine's BLAS", "copy": "`cpu`", "cub": "`cpu`"},
    "cuda": {"blas": "cuBLAS", "copy": "a copy", "cub": "CUB"},
}


def types_of(arguments):
    """By default all that the job has; this machine's BLAS has two of them."""
    if arguments.types:
        return arguments.types.split(",")
    return [t for t in JOBS[arguments.job][1] if arguments.device != "cpu" or t in SUMMED]


def command_of(arguments):
    """What writes this job again."""
    words = [arguments.job, f"--seed {arguments.seed}"]
    for name, usual in (("count", COUNT), ("types", None), ("device", None), ("shrink", 1)):
        value = getattr(arguments, name)
        words += [f"--{name} {value}"] if value != usual else []
    return " ".join(words)


def draw_members(name, seed, count, shrink):
    """(name, member) of every family; a member knows its family."""
    found = []
    for family, draw_one in JOBS[name][0].items():
        draw = random.Random(f"{family} {seed}")
        for number in range(count):
            if name == "values":
                drawn = {"mkn": tuple(size(draw, 1000, 3500) for _ in range(3))}
            else:
                drawn = draw_one(draw)
            for part, member in enumerate(drawn if isinstance(drawn, list) else [drawn]):
                member |= {key: shrunk(member[key], shrink) for key in ("mkn", "stack", "shape") if key in member}
                found.append((f"{family}-{number}" + (f"-{part}" if isinstance(drawn, list) else ""), member))
                member["family"] = family
    return found


def shrunk(extents, by):
    """Less work: the longest extent, a stack's first, is what goes."""
    extents = list(extents)
    while by > 1:
        longest = extents.index(max(extents))
        extents[longest] = max(1, extents[longest] // 2)
        by /= 2
    return extents


def flow(options):
    return "".join(f", {key}: {str(value).lower()}" for key, value in options.items())


def product_lines(name, member, vendor, file):
    m, k, n = member["mkn"]
    before = member.get("stack", [])
    a = [*before, *((k, m) if member.get("transpose_a") else (m, k))]
    b = [*before, *((n, k) if member.get("transpose_b") else (k, n))]
    options = {key: member[key] for key in ("transpose_a", "transpose_b", "alpha") if member.get(key)}
    inputs = []
    for seed, (letter, shape) in enumerate((("a", a), ("b", b)), 1):
        terms = f"random: {{shape: {shape}, dtype: $dtype, low: -1, seed: {seed}}}"
        inputs.append(f"  {name}-{letter}: {{{f'file: {file}, dataset: {name}-{letter}' if file else terms}}}")
    of = f"inputs: [{name}-a, {name}-b], variants: [{vendor}, auto]"
    return inputs, f"  - {{<<: *run, id: {name}, op: matmul, {of}{flow(options)}}}"


def moving_lines(name, member, vendor):
    dtype = "$number" if "axis" in member else "$dtype"
    terms = f"shape: {member['shape']}, dtype: {dtype}, distribution: integer, low: -100, high: 100"
    op = {"op": "reduce", "operator": "sum", "axis": member["axis"]} if "axis" in member else {"op": "transpose"}
    operation = f"  - {{<<: *run, id: {name}{flow(op)}, inputs: [{name}-x], variants: [{vendor}, auto]}}"
    return [f"  {name}-x: {{random: {{{terms}}}}}"], operation


def vendor_of(member, device):
    if "mkn" in member:
        return "blas" if device == "cpu" else "cublas"
    return "cpu" if device == "cpu" else "cub" if "axis" in member else "copy"


def job_text(arguments, members, dtypes, data):
    name, inputs, operations = arguments.job, [], []
    for member_name, member in members:
        vendor = vendor_of(member, arguments.device)
        if "mkn" in member:
            lines = product_lines(member_name, member, vendor, data if name == "values" else None)
        else:
            lines = moving_lines(member_name, member, vendor)
        inputs += lines[0]
        operations.append(lines[1])
    parameters = f"device: {arguments.device}\n" if arguments.device else ""
    lists = {"dtype": dtypes} | ({"number": [t for t in dtypes if t in SUMMED] or SUMMED} if name == "thin" else {})
    words = ", ".join(f"{key}: [{', '.join(types)}]" for key, types in lists.items())
    parameters += "" if name == "values" else f"parameters: {{{words}}}\n"
    cold = ", cache: cold" if name == "thin" else ""
    reads = " `--data` makes the data that it reads." if name == "values" else ""
    what, command = WHAT[name].format(**WHO[arguments.device or "cuda"]), command_of(arguments)
    head = HEAD.format(
        reads=reads, what=what, seed=arguments.seed, command=command, name=name, parameters=parameters, cold=cold
    )
    return "\n".join([head, "inputs:", *inputs, "\noperations:", *operations]) + "\n"


# ---- the table -----------------------------------------------------------------------------------------------------


class Unusable(Exception):
    """There is nothing to sum up."""


def ratios(program, results):
    """(type, family) -> [(ratio, member, shape)]; and how many of ours were not right."""
    try:
        done = subprocess.run([program, "show", "--csv", results], capture_output=True, text=True)
    except OSError as error:
        raise Unusable(f"{program}: {error.strerror}; --run names tilerun") from None
    shown = done.stdout
    if done.returncode != 0:
        raise Unusable(done.stderr.strip())
    times, wrong = {}, 0
    for row in csv.DictReader(shown.splitlines()):
        name = row["variant"].split(",")[0]
        ours = name not in VENDORS or (name == "cpu" and row["op"] == "matmul")  # `auto` takes it for tiny products
        wrong += ours and row["status"] not in ("ok", "unchecked", "skipped")
        if row["kernel_median_s"] and row["status"] != "skipped":
            key = (row["dtype"], row["operation"], row["shape"])
            times.setdefault(key, {})["ours" if ours else "theirs"] = float(row["kernel_median_s"])
    found = {}
    for (dtype, operation, shape), of in times.items():
        if len(of) < 2:
            continue
        families = [f for job in JOBS.values() for f in job[0] if operation.startswith(f"{f}-")]
        if not families:
            continue
        family = max(families, key=len)
        found.setdefault((dtype, family), []).append((of["theirs"] / of["ours"], operation, shape))
    return found, wrong


def print_table(program, results):
    try:
        found, wrong = ratios(program, results)
        if not found:
            raise Unusable(f"{results}: holds no member of a family with two times to compare")
    except Unusable as error:
        print(f"families.py: {error}", file=sys.stderr)
        return 2
    families = list(dict.fromkeys(family for _, family in found))
    print(f"{'':9}" + "".join(f"{family:>16}" for family in families))
    for dtype in dict.fromkeys(dtype for dtype, _ in found):
        cells = []
        for family in families:
            of = [ratio for ratio, _, _ in found.get((dtype, family), [])]
            cells.append(f"{math.exp(sum(map(math.log, of)) / len(of)):.2f} ({min(of):.2f})" if of else "-")
        print(f"{dtype:9}" + "".join(f"{cell:>16}" for cell in cells))
    every = sorted((ratio, dtype, *rest) for (dtype, _), of in found.items() for ratio, *rest in of)
    for ratio, dtype, operation, shape in every[:5]:
        print(f"least: {ratio:.2f} {dtype} {operation} {shape}")
    if wrong:
        print(f"{wrong} of ours were wrong or failed: see the results")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", nargs="?", choices=JOBS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=COUNT, help="members of a family")
    parser.add_argument("--types", help="comma-separated, instead of all that the job has")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--shrink", type=int, default=1, help="so many times less of each")
    parser.add_argument("--run", metavar="TILERUN")
    parser.add_argument("--table", metavar="RESULTS")
    parser.add_argument("--data", action="store_true")
    parser.add_argument("--keep", metavar="RESULTS", help="where a run's results go")
    arguments = parser.parse_args()
    if arguments.table:
        return print_table(arguments.run or "tilerun", arguments.table)
    if not arguments.job:
        parser.error("which job?")
    if arguments.data and arguments.job != "values":
        parser.error(f"--data: {arguments.job} reads no files; only values does")
    dtypes = types_of(arguments)
    members = draw_members(arguments.job, arguments.seed, arguments.count, arguments.shrink)
    data = DATA.format(seed=arguments.seed)
    if arguments.data:
        write_values(ROOT / data, members, arguments.seed)
        return 0
    if not arguments.run:
        print(job_text(arguments, members, dtypes, f"../../{data}"), end="")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if arguments.job == "values":
            write_values(folder / "values.h5", members, arguments.seed)
        (folder / "job.yaml").write_text(job_text(arguments, members, dtypes, folder / "values.h5"))
        results = arguments.keep or folder / "results.h5"
        run = [arguments.run, "run", folder / "job.yaml", "-o", results, "--overwrite"]
        code = subprocess.run(run, stdout=subprocess.DEVNULL).returncode
        # A baseline may refuse or fail what it has no entry for, so 1 is not yet ours.
        return print_table(arguments.run, results) if code <= 1 else code


if __name__ == "__main__":
    sys.exit(main())
