"""What a person sees on stderr while a job runs: the live line of a terminal, the answer to a signal, last lines."""

import json
import os
import re
import select
import shlex
import signal
import time

import h5py
import pytest

import harness
from harness import INTERRUPTED, OK
from test_signals import wait_for_end, wait_until_begun, wait_until_heeded, wait_until_taken

CLEAR = "\r\033[K"
LONG = {"op": "matmul", "variants": ["cpu"], "verify": "none", "warmup": 0, "repeat": 60}  # a minute or more
LINE = re.compile(
    r"\[1/2\] long cpu n=1300(  (tile 1/1|warm-up|repeat \d+/60(  [\d.]+ m?s each)?))?  job 0:\d\d(, ~[\d:]+ left)?"
)


class Terminal(harness.Terminal):
    """The program on a terminal of so many columns; what it shows is kept with the time when it came."""

    def __init__(self, columns, *arguments, **environment):
        super().__init__(columns)
        environment = {**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1", **environment}
        ends = dict.fromkeys(["stdin", "stdout", "stderr"], self.follower)
        self.process = harness.start(*arguments, env=environment, **ends)
        self.end_with(self.process)
        self.began = time.monotonic()
        self.shown = ""
        self.times = []  # of each live line

    def read(self, enough=lambda shown: False, limit=60):
        """Reads until `enough`, the program's end, or a time limit."""
        until = time.monotonic() + limit
        ended = False
        while not (enough(self.shown) or ended) and (left := until - time.monotonic()) > 0:
            if not select.select([self.leader], [], [], left)[0]:
                break
            chunk = os.read(self.leader, 4096)
            self.shown += chunk.decode()
            ended = self.shown.endswith(self.END.decode())
            self.shown = self.shown.removesuffix(self.END.decode())
            self.times += [time.monotonic()] * chunk.count((CLEAR + "[").encode())
        return self.shown

    def lines(self):
        """The live lines so far: each replaces the one before."""
        return [part.split("\r\n")[0] for part in self.shown.split(CLEAR) if part.startswith("[")]

    def end(self):
        self.read()
        self.close()
        return self.process.wait()


def long_job(folder):
    """A run of minutes, in a launch of seconds, and one that reads its result."""
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"n": [1300]},
        inputs={"a": {"random": {"shape": ["$n", "$n"]}}},
        operations=[{"id": "long", "inputs": ["a", "a"], **LONG}, {"id": "s", "op": "scale", "inputs": ["long"]}],
    )


def test_the_live_line_and_a_signal(folder):
    """The line is drawn each second although nothing happens; its end is clean."""
    terminal = Terminal(100, "run", long_job(folder), "-o", folder / "out.h5")
    terminal.read(lambda shown: shown.count(CLEAR) >= 4)
    lines = terminal.lines()
    assert len(lines) >= 4 and all(LINE.fullmatch(line) for line in lines), lines
    assert len({re.search(r"job ([\d:]+)", line)[1] for line in lines}) >= 3, lines  # it counts
    assert terminal.times[3] - terminal.began >= 2.5  # one is drawn at once, then one a second

    terminal.process.send_signal(signal.SIGTERM)
    terminal.read(lambda shown: "SIGTERM" in shown and shown.endswith("\n"))
    answer = terminal.shown.split(CLEAR)[-1].split("\r\n")[0]
    assert re.fullmatch(
        r"tilerun: SIGTERM: stopping within a second, in (tile 1 of 1|the warm-up|repeat \d+ of 60) of "
        r"'long cpu n=1300'; Ctrl-C stops at once",
        answer,
    )
    assert terminal.end() == INTERRUPTED
    after = terminal.shown.split(answer)[1]
    assert "\033" not in after and after.startswith("\r\n"), after  # nothing is drawn any more
    again = shlex.join(["--resume", *map(str, terminal.process.args[2:])])
    assert after.endswith(
        f"\r\ntilerun: interrupted: 0 of 2 runs are done; `tilerun run {again}` continues"
        "\r\ntilerun: 2 runs remain, from 'long cpu n=1300' on; 1 reads a result that does not exist yet\r\n"
    )


def test_what_cannot_run_takes_no_line(folder):
    """A line under the table names it once, for all runs."""
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [8, 8]}}},
        operations=[{"id": "s", "op": "transpose", "inputs": ["a"], "variants": ["naive", "cpu"]}],
    )
    done = harness.tilerun("run", path, "-o", folder / "out.h5", "--progress", "plain", expect=OK)
    assert "s naive" not in done.stderr and "[1/1] s cpu: ok" in done.stderr
    assert done.stdout.count("\nskipped: naive: ") == 1


def test_a_narrow_terminal(folder):
    """Lines are cut where the terminal ends, which may change."""
    terminal = Terminal(34, "run", long_job(folder), "-o", folder / "out.h5")
    terminal.read(lambda shown: shown.count(CLEAR) >= 3)
    assert terminal.lines()[:3] == [line[:33] for line in terminal.lines()[:3]]
    assert all(line.startswith("[1/2] long cpu n=1300") for line in terminal.lines()), terminal.shown
    terminal.resize(12)
    already = terminal.shown.count(CLEAR)
    terminal.read(lambda shown: shown.count(CLEAR) >= already + 2)
    assert terminal.lines()[-1] == "[1/2] lon.."
    for _ in range(2):  # the second ends it at once
        terminal.process.send_signal(signal.SIGINT)
        wait_until_taken(terminal.process, signal.SIGINT)
    assert terminal.end() == INTERRUPTED


def test_the_bytes_of_a_pass(folder):
    """Those that were moved of all that there are, once they are many."""
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("x", (3 * 2**22, 1024), "f4", chunks=(2**12, 1024))  # of which nothing is stored
    path = harness.write_job(
        folder / "job.yaml", device="cpu", memory="64MiB", inputs={"x": {"file": "in.h5", "dataset": "x"}},
        operations=[{"id": "y", "op": "reduce", "inputs": ["x"], "operator": "max", "axis": "all"}],
    )  # fmt: skip
    terminal = Terminal(100, "run", path, "--once", "-o", folder / "out.h5")
    terminal.read(lambda shown: " GB " in shown)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == INTERRUPTED
    moved = re.search(r"  tile \d+/\d+  ([\d.]+) of 51.5 GB ", terminal.shown)
    assert moved and 0.1 <= float(moved[1]) < 51, terminal.shown


def test_what_is_left_includes_later_runs(folder):
    """The second has fifteen times as many repeats, which take as long each."""
    product = {"op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], "verify": "none", "warmup": 0, "store": "none"}
    path = harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"a": {"random": {"shape": [400, 400]}}},
        operations=[product | {"id": "first", "repeat": 200}, product | {"id": "second", "repeat": 3000}],
    )  # fmt: skip
    terminal = Terminal(100, "run", path, "-o", folder / "out.h5")
    pattern = r"\[1/2\] first [^\r]*  ([\d.]+) ms each  [^\r]*, ~(\d+):(\d+) left"
    terminal.read(lambda shown: re.search(pattern, shown))
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == INTERRUPTED
    left = re.search(pattern, terminal.shown)
    assert 60 * int(left[2]) + int(left[3]) >= float(left[1]), terminal.shown  # 1000 of them


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_the_end_on_a_terminal(folder, kind):
    """The live line is gone when the table comes; a terminal that cannot clear a line has none."""
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [8, 8]}}},
        operations=[{"id": "s", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]}],
    )
    terminal = Terminal(80, "run", path, "-o", folder / "out.h5", TERM=kind)
    assert terminal.end() == OK
    *live, rest = terminal.shown.split(CLEAR)
    assert bool(live) == (kind == "xterm") and not [line for line in live if "\n" in line]
    lines = [line for line in rest.splitlines() if not line.startswith(("[", "tilerun: measuring"))]
    told = [line for line in rest.splitlines() if line.startswith("[")]
    assert len(told) == (0 if live else 2)
    for number, line in enumerate(told):
        outcome = rf"\[{number + 1}/2\] s (cpu|blocked): ok, [\d.e-]+ ms, error 0(; median of batches of \d+ launches)?"
        assert re.fullmatch(outcome, line), line
    size = os.stat(folder / "out.h5").st_size
    assert lines[0].startswith("operation ") and len(lines) >= 4
    assert lines[-1] == f"tilerun: wrote {folder}/out.h5 ({size / 1024:.1f} KiB)"


def test_nothing_but_the_answer_where_no_progress_is_wanted(folder):
    """A TERM, then an INT that ends it at once."""
    process = harness.start("run", long_job(folder), "-o", folder / "out.h5", "--progress", "none")
    wait_until_begun(process, folder / "out.h5.parts")
    process.send_signal(signal.SIGTERM)
    answer = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, rest = wait_for_end(process, 0.5)
    assert process.wait(timeout=60) == INTERRUPTED
    assert re.fullmatch("tilerun: SIGTERM: stopping within a second, .*; Ctrl-C stops at once\n", answer)
    assert rest.startswith("tilerun: interrupted: 0 of 2 runs are done;") and rest.count("\n") == 2
    process.stdout.close()


def interrupt(process, line):
    """Sends a signal once a line that starts so has come, and a little later. Returns stdout and the rest of stderr."""
    if line:
        said = process.stderr.readline()
        while not said.startswith(line):
            assert said and not said.startswith("tilerun: ")
            said = process.stderr.readline()
    else:
        wait_until_heeded(process)
    time.sleep(0.5)
    process.send_signal(signal.SIGUSR1)
    rest, rows = process.stderr.read(), process.stdout.read()
    assert process.wait(timeout=60) == INTERRUPTED, rest
    return json.loads(rows), rest


def test_counts_with_runs_that_depend_on_others(folder):
    """What is done, what was begun, what waits for it; and again while what was done before has not been looked at."""
    scale = {"op": "scale", "variants": ["cpu"]}
    operations = [
        {"id": "first", "inputs": ["a"], **scale},
        {"id": "long", "inputs": ["a", "a"], **LONG},
        {"id": "of_long", "inputs": ["long"], **scale},
        {"id": "of_that", "inputs": ["of_long"], **scale},
        {"id": "of_first", "inputs": ["first"], **scale},
        {"id": "last", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]},
    ]
    job = {"device": "cpu", "inputs": {"a": {"random": {"shape": [1300, 1300]}}}}
    path = harness.write_job(folder / "job.yaml", **job, operations=operations)
    arguments = ["run", path, "-o", folder / "out.h5", "--json", "--progress", "plain"]
    rows, said = interrupt(harness.start(*arguments), "[1/7] first cpu: ok")
    assert [row["status"] for row in rows] == ["ok"] + ["interrupted"] * 6
    assert re.fullmatch(
        "tilerun: SIGUSR1: stopping within a second, in .*'long cpu'; Ctrl-C stops at once\n"
        "tilerun: interrupted: 1 of 7 runs are done; `tilerun run --resume .*` continues\n"
        "tilerun: 6 runs remain, from 'long cpu' on; 2 read results that do not exist yet\n",
        said,
    ), said

    # Runs that were finished before are done, though the job has not come to them again.
    operations = [operations[1], operations[0], operations[4]]
    path = harness.write_job(folder / "job.yaml", **job, operations=operations)
    harness.tilerun("run", path, "-o", folder / "new.h5", "--only", "first,of_first", expect=OK)
    arguments[3] = folder / "new.h5"
    rows, said = interrupt(harness.start(*arguments, "--resume"), None)
    kept = "finished before and kept; a signal came first"
    assert [row["message"] for row in rows] == ["a signal came first", kept, kept]
    again = [*arguments, "--resume"]  # which is not added to what has it
    assert f"\ntilerun: interrupted: 2 of 3 runs are done; `tilerun {shlex.join(map(str, again))}` continues\n" in said
    assert said.endswith("\ntilerun: 1 run remains, 'long cpu'\n")

    # A shard's number is printed, because `auto` means nothing outside the batch job.
    process = harness.start(*again, "--shard", "auto", env={**os.environ, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"})
    rows, said = interrupt(process, None)
    assert f"`tilerun {shlex.join([*map(str, again), '--shard', '0/1'])}` continues\n" in said


def test_counts_with_runs_that_failed(folder):
    """They are not done, and what reads their results was skipped."""
    operations = [
        {"id": "bad", "op": "matmul", "inputs": ["a", "a"], "variants": ["blocked"], "tolerance": 1e-300},
        {"id": "of_bad", "op": "scale", "inputs": ["bad"]},
        {"id": "long", "inputs": ["a", "a"], **LONG},
    ]
    path = harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"a": {"random": {"shape": [1300, 1300]}}}, operations=operations
    )
    arguments = ["run", path, "-o", folder / "out.h5", "--json", "--progress", "plain"]
    rows, said = interrupt(harness.start(*arguments), "[2/3] of_bad")
    assert [row["status"] for row in rows] == ["wrong", "skipped", "interrupted"]
    again = shlex.join(["--resume", *map(str, arguments[1:])])
    assert said.endswith(
        f"tilerun: interrupted: 0 of 3 runs are done; `tilerun run {again}` continues\n"
        "tilerun: 1 run remains, 'long cpu'\ntilerun: other runs: 1 wrong, 1 skipped\n"
    ), said
