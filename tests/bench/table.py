"""Sums a benchmark up: CSV of `tilerun show` on stdin, on stdout one line an operation with our fastest variant beside the
vendor's (the baseline) and the limit. A ratio is theirs over ours in time, so more than 1 is faster; behind each stands
its noise, from both medians' absolute deviations over the root of their repeats."""

import csv
import math
import sys

BASELINES = ("cublas", "cub")


def noise(row):
    """Of a median, relative: 1.25 standard deviations of a mean, the deviation estimated robustly."""
    return 1.25 * float(row["kernel_mad_s"]) / math.sqrt(float(row["repeats"])) / float(row["kernel_median_s"])


def ratio(row, ours):
    if not row or not ours:
        return f"{'-':>15}"
    value = float(row["kernel_median_s"]) / float(ours["kernel_median_s"])
    return f"{value:6.3f} +- {value * math.hypot(noise(row), noise(ours)):.3f}"


def kind(row):
    if row["message"].startswith("a limit"):
        return "limit"
    return "baseline" if row["variant"].split(",")[0] in BASELINES else "ours"


def fastest(rows, which):
    rows = [row for row in rows if kind(row) == which and row["kernel_median_s"]]
    return min(rows, key=lambda row: float(row["kernel_median_s"]), default=None)


def rate(row):
    if row["op"] == "matmul":
        return f"{float(row['gflops']) / 1e3:8.2f} TFLOP/s"
    return f"{float(row['gbytes_per_s']) / 1e3:8.3f} TB/s"


def main():
    operations = {}
    for row in csv.DictReader(sys.stdin):
        operations.setdefault((row["operation"], row["parameters"], row["shape"]), []).append(row)
    print(
        f"{'operation':16} {'parameters':16} {'shape':18} {'our fastest':22} {'median':>11} {'rate':>15}"
        f" {'to baseline':>15} {'to limit':>15}"
    )
    wrong = 0
    for (name, parameters, shape), rows in operations.items():
        ok = [row for row in rows if row["status"] in ("ok", "unchecked")]
        ours, baseline, limit = (fastest(ok, which) for which in ("ours", "baseline", "limit"))
        wrong += sum(row["status"] in ("wrong", "failed") and kind(row) == "ours" for row in rows)
        if ours:
            print(
                f"{name:16} {parameters:16} {shape:18} {ours['variant']:22}"
                f" {float(ours['kernel_median_s']) * 1e6:8.2f} us {rate(ours):>15}"
                f" {ratio(baseline, ours)} {ratio(limit, ours)}".rstrip()
            )
        else:
            print(f"{name:16} {parameters:16} {shape:18} none of ours ran")
    if wrong:
        print(f"{wrong} of ours were wrong or failed: see the results")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
