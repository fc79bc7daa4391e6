"""Which lines and branches of runner/ the tests run: `make coverage`, after it has built an instrumented program.

Each unit test, each file of end-to-end tests and the golden jobs are a part. A part's counts go to a folder of its own,
are read by gcov, and kept in BUILD/by/PART.json: so one part can be run again (`make coverage PARTS=e2e/test_show`, or
PARTS=none for the table alone), and the tests of a line are known. The table sums the parts. Whether tests pass is
`make test`'s to judge: here it is only said.

A process that is killed tells nothing, so what it ran counts only where another one ran it."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BARS = {"lines": 90, "branches": 80}  # per cent
# These build programs of their own, or run none.
ELSEWHERE = {
    "build", "choices", "data_benches", "deps", "families", "kernels_readme", "layers", "report_browser", "sanitizers",
    "timings", "vendor", "wrong_variant",
}  # fmt: skip


def golden_jobs(build):
    jobs = [*ROOT.glob("tests/jobs/*/*.yaml"), *ROOT.glob("configs/*.yaml"), *ROOT.glob("configs/*/*.yaml")]
    checks = [[build / "tilerun", "check", job.relative_to(ROOT)] for job in sorted(jobs)]
    return [*checks, ["tests/generate.sh", build / "tilerun", "--check"]]


def all_parts(build):
    """Their names, each with its commands."""
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=line", "-m", "not timings"]
    parts = {f"unit/{path.stem}": [[build / "tests" / path.stem]] for path in sorted(ROOT.glob("tests/unit/test_*.c"))}
    parts["jobs"] = golden_jobs(build)
    for path in sorted(ROOT.glob("tests/e2e/test_*.py")):
        if path.stem.removeprefix("test_") not in ELSEWHERE:
            parts[f"e2e/{path.stem}"] = [[*pytest, path]]
    return parts | {"slurm": [[*pytest, ROOT / "tests/slurm"]]}


def run_part(build, name, commands):
    begin, status = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="tilerun-coverage-") as folder:
        folder = Path(folder)
        folder.chmod(0o777)  # some tests are another user
        environment = os.environ | {
            "GCOV_PREFIX": str(folder / "counts"), "GCOV_PREFIX_STRIP": str(len(build.parts) - 1),
            "TILERUN": str(build / "tilerun"),
            "OMP_WAIT_POLICY": "passive", "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        (folder / "counts").mkdir(mode=0o777)
        with open(build / "by" / (name.replace("/", "-") + ".log"), "w") as log:
            for command in commands:
                ends = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
                status.append(subprocess.run(command, cwd=ROOT, env=environment, **ends).returncode)
        seconds = time.monotonic() - begin
        counts = read_counts(build, folder / "counts")
    kept = {"part": name, "seconds": round(seconds, 1), "files": counts}
    (build / "by" / (name.replace("/", "-") + ".json")).write_text(json.dumps(kept))
    failed = f"; some failed, see {log.name}" if any(status) and name != "jobs" else ""
    print(f"{name:36} {seconds:7.1f} s{failed}", flush=True)


def read_counts(build, folder):
    """{source: {line: [count, [count of each branch]]}} of the sources, as gcov reads it from what processes left."""
    found = defaultdict(dict)
    data = [path.relative_to(folder) for path in sorted(folder.rglob("*.gcda"))]
    if not data:
        return found
    for path in data:
        (folder / path).with_suffix(".gcno").symlink_to(build / path.with_suffix(".gcno"))
    command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", *map(str, data)]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    for document in said.splitlines():
        for source in json.loads(document)["files"]:
            path = os.path.relpath(ROOT / source["file"], ROOT)
            if path.startswith(("runner/", "kernels/")):
                lines = source["lines"]
                branches = [[branch["count"] for branch in line["branches"]] for line in lines]
                add_counts(found[path], [(a["line_number"], a["count"], b) for a, b in zip(lines, branches)])
    return found


def add_counts(sums, lines):
    """Adds (line, count, count of each branch). A header's line may occur several times, with other branches."""
    for number, count, branches in lines:
        before = sums.get(number, (0, []))
        sums[number] = [before[0] + count, [a + b for a, b in zip_longest(before[1], branches, fillvalue=0)]]


def sum_parts(build):
    found = {}
    for path in sorted((build / "by").glob("*.json")):
        for source, lines in json.loads(path.read_text())["files"].items():
            add_counts(found.setdefault(source, {}), [(int(number), *counts) for number, counts in lines.items()])
    return found


def share(hit, all):
    return 100 * hit / all if all else 100


def table(found):
    """Prints a line for each folder, and one for all of runner/, which is returned."""
    folders = defaultdict(lambda: [0, 0, 0, 0])
    for source, lines in found.items():
        for count, branches in lines.values():
            numbers = (count > 0, 1, sum(n > 0 for n in branches), len(branches))
            for folder in (os.path.dirname(source), source.split("/")[0] + "/**"):
                folders[folder] = [a + b for a, b in zip(folders[folder], numbers)]
    print(f"{'folder':20} {'lines':>8} {'run':>8} {'branches':>10} {'taken':>8}")
    for folder in sorted(folders):
        hit, lines, taken, branches = folders[folder]
        print(f"{folder:20} {lines:8} {share(hit, lines):7.1f}% {branches:10} {share(taken, branches):7.1f}%")
    hit, lines, taken, branches = folders["runner/**"]
    return {"lines": share(hit, lines), "branches": share(taken, branches)}


def main():
    build = Path(sys.argv[1]).resolve()
    (build / "by").mkdir(exist_ok=True)
    parts = all_parts(build)
    chosen = [name for name in parts if name in sys.argv[2:] or not sys.argv[2:]]
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        list(pool.map(lambda name: run_part(build, name, parts[name]), chosen))
    found = sum_parts(build)
    shares = table(found)
    not_run = sorted((path, line) for path, lines in found.items() for line, (count, _) in lines.items() if not count)
    (build / "not_run.txt").write_text("".join(f"{path}:{line}\n" for path, line in not_run))
    bad = [f"{name}: {shares[name]:.1f} %, should be {bar} %" for name, bar in BARS.items() if shares[name] < bar]
    print("\n".join(bad) or f"lines that nothing runs: {build / 'not_run.txt'}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
