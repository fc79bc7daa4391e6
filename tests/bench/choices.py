#!/usr/bin/env python3
"""How good is what a model chooses? Products of drawn shapes by `auto`, by each tile and number of pieces that its
variants can be forced to, and by the vendor's library, in one job on this GPU.

    choices.py TILERUN --type bfloat16 --seed 7 --count 10     10 shapes of each family
    choices.py TILERUN --table RESULTS.h5                      sums such results up again

For each family: the time of the best configuration over that of `auto` (geometric mean, least, share within 5 %), and
the same for the vendor's. The last lines are the worst choices. The constants of a model (kernels/matmul/tuned/cut.cuh,
multicast_choice.cuh) are right for a GPU where these are near 1.
"""

import argparse
import collections
import csv
import itertools
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import families

FAMILIES = ["squares", "inference", "deepbench", "odd"]
MULTICAST = [
    {"name": "multicast", "rows": rows, "columns": columns, "pieces": pieces, "turned": turned}
    for rows, several in ((128, (*range(256, 63, -16), 48)), (64, (192, *range(160, 0, -16))))
    for columns in several
    for pieces in ((1, 2, 3, 4, 6, 8) if columns <= 128 else (1,))
    for turned in ("no", "yes")
]
SQUARE = [{"tile": 128}, {"tile": 64}]
ASYNC = [*SQUARE, *({"tile": tile} for tile in ("64x128", "64x32k4", "32x32k4"))]
DMMA = [{"tile": tile} for tile in (128, "128x64", "64x96k2", "64x64", "64x64k2", "32x64k2", "32x32k4", "16x32k4")]
OUTER = [{"name": "outer", "tile": tile} for tile in ("64x128", "32x128", "32x64")]
EXACT32 = [
    {"name": "exact32", "tile": tile, "pieces": pieces}
    for tile in ("128x128", "128x64", "64x128", "64x64")
    for pieces in (1, 2, 3, 4, 8)
]
FORCED = {
    "bfloat16": [*MULTICAST, *({"name": "mma", **tile} for tile in SQUARE), *OUTER],
    "float16": [*MULTICAST, *({"name": "mma", **tile} for tile in SQUARE), *OUTER],
    "float32": [*({"name": "async", **tile} for tile in ASYNC), {"name": "split", "hand_over": "no"}, *EXACT32, *OUTER],
    "float64": [*({"name": "dmma", **tile} for tile in DMMA), *OUTER],
}


def flow(mapping):
    return "{" + ", ".join(f"{key}: {value}" for key, value in mapping.items()) + "}"


def job_text(dtype, seed, count):
    variants = ", ".join(["cublas", "auto", *map(flow, FORCED[dtype])])
    lines = ["version: 1", "name: choices", "device: cuda", "inputs:"]
    operations = []
    for family in FAMILIES:
        draw = random.Random(f"{family} {seed}")
        for number in range(count):
            name, member = f"{family}-{number}", families.PRODUCTS[family](draw)
            member["family"] = family
            inputs, _ = families.product_lines(name, member, "cublas", None)
            lines += [line.replace("$dtype", dtype) for line in inputs]
            options = {key: member[key] for key in ("transpose_a", "transpose_b") if member.get(key)}
            run = "warmup: 2, repeat: {min: 5, max: 15, until: 2%}, verify: none, store: none"
            of = f"op: matmul, inputs: [{name}-a, {name}-b], variants: [{variants}]{families.flow(options)}"
            operations.append(f"  - {{id: {name}, {run}, {of}}}")
    return "\n".join([*lines, "operations:", *operations]) + "\n"


def times_of(program, results):
    """{(operation, shape): {variant: seconds}}. What `auto` took is the one without parameters."""
    done = subprocess.run([program, "show", "--csv", results], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"choices.py: {done.stderr.strip()}")
    found = collections.defaultdict(dict)
    for row in csv.DictReader(done.stdout.splitlines()):
        if row["kernel_median_s"] and row["status"] != "skipped":
            name = row["variant"] if "," in row["variant"] or row["variant"] == "cublas" else "auto"
            found[row["operation"], row["shape"]][name] = float(row["kernel_median_s"])
    return found


def summed(ratios):
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{mean:.2f} ({min(ratios):.2f}), {sum(r >= 0.95 for r in ratios) / len(ratios):4.0%} within 5 %"


def print_table(program, results):
    worst = []
    rows = sorted(times_of(program, results).items(), key=lambda row: FAMILIES.index(row[0][0].rsplit("-", 1)[0]))
    for family, of in itertools.groupby(rows, lambda row: row[0][0].rsplit("-", 1)[0]):
        best, vendor = [], []
        for (operation, shape), times in of:
            name = min(times, key=lambda variant: times[variant] if variant != "cublas" else math.inf)
            best.append(times[name] / times["auto"])
            vendor.append(times.get("cublas", math.nan) / times["auto"])
            worst.append((best[-1], vendor[-1], operation, shape, name))
        print(f"{family:10} best over auto {summed(best)}; vendor over auto {summed(vendor)}")
    for best, vendor, operation, shape, name in sorted(worst)[:8]:
        print(f"    {best:.2f} (vendor {vendor:.2f}) {operation} {shape}: {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tilerun")
    parser.add_argument("--type", choices=FORCED, default="bfloat16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--keep", metavar="RESULTS")
    parser.add_argument("--table", metavar="RESULTS")
    arguments = parser.parse_args()
    if arguments.table:
        return print_table(arguments.tilerun, arguments.table)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "job.yaml").write_text(job_text(arguments.type, arguments.seed, arguments.count))
        results = arguments.keep or folder / "results.h5"
        command = [arguments.tilerun, "run", folder / "job.yaml", "-o", results, "--overwrite"]
        subprocess.run(command, stdout=subprocess.DEVNULL)
        return print_table(arguments.tilerun, results)


if __name__ == "__main__":
    main()
