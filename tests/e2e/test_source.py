"""Kernels in the job (`source:`): first versions, cheats that are caught, mistakes with their places, consent, the
cache of compiled code, resuming, and what results files keep."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from harness import DEVICE, OK, ROOT, RUN, USAGE, Results, run_job, start, tilerun, write_job

HEADER = '#include "tilerun.h"\n'
SCALE = HEADER + (
    "int %s(const struct launch *launch) {\n"
    "    const struct scale_args *args = &launch->args.scale;\n"
    "    const T *x = args->x;\n"
    "    T *y = args->y;\n"
    "    for (int64_t i = 0; i < args->count; i++) y[i] = (T)(args->alpha * x[i] + args->beta);\n"
    "    %s\n"
    "    return 0;\n"
    "}\n"
)
BEFORE = "extern void _exit(int);\n__attribute__((constructor)) static void before(void) { %s }\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TILERUN_ALLOW_SOURCE", raising=False)
    (tmp_path / "cache/tilerun").mkdir(parents=True, mode=0o700)
    for limits in (Path.home() / ".cache/tilerun").glob("*.limits"):  # so that each test need not measure them
        shutil.copy(limits, tmp_path / "cache/tilerun")


def scale_job(*variants, **more):
    return {
        "inputs": {"x": {"random": {"shape": [3001], "distribution": "normal"}}},
        "operations": [
            {"id": "s", "op": "scale", "inputs": ["x"], "alpha": 3, "repeat": 4, "warmup": 1}
            | {"variants": list(variants)}
            | more
        ],
    }


def source(folder, name, text):
    (folder / name).write_text(text)
    return {"source": name}


def run(folder, *arguments, expect=OK, **job):
    return run_job(folder, expect, ["--allow-source", *arguments], **job)


def status_of(folder, body, text=None):
    """The status and message of a kernel `mine` with this body."""
    mine = source(folder, "mine.c", text or SCALE % ("mine", body))
    row = run(folder, "--overwrite", expect=(OK, RUN), **scale_job("cpu", mine)).row("s", "mine")
    return row["status"], row["message"]


# ---- first versions ----


@pytest.mark.parametrize(
    "dtype, memory",
    [("float32", "100KiB"), ("float64", "1GiB"), ("float16", "100KiB"), ("bfloat16", "100KiB"), ("uint16", "100KiB")],
)
def test_first_versions_are_right(tmp_path, dtype, memory):
    for op in ("matmul", "reduce", "transpose", "scale"):
        assert tilerun("new-kernel", op, tmp_path / f"my_{op}.c").returncode == OK
        assert tilerun("new-kernel", op, tmp_path / f"my_{op}.c").returncode == USAGE  # it is not replaced
    whole = "float" not in dtype
    values = {"distribution": "integer", "low": 0, "high": 5} if whole else {"distribution": "normal"}
    operations = [
        {"id": "turned", "op": "transpose", "inputs": ["x"], "variants": [{"source": "my_transpose.c"}]},
        {"id": "scaled", "op": "scale", "inputs": ["x"], "alpha": 2, "beta": 1, "variants": [{"source": "my_scale.c"}]},
    ]
    for axis, operator in ((0, "sum"), (1, "mean"), (0, "min"), ("all", "max")):
        operations.append(
            {"id": operator, "op": "reduce", "inputs": ["x"], "operator": operator, "axis": axis}
            | {"variants": [{"source": "my_reduce.c"}]}
        )
    if not whole:
        operations.append(
            {"id": "product", "op": "matmul", "inputs": ["x", "y"], "variants": [{"source": "my_matmul.c"}]}
        )
    results = run(
        tmp_path,
        "--memory",
        memory,
        inputs={
            "x": {"random": {"shape": [150, 211], "dtype": dtype} | values},
            "y": {"random": {"shape": [211, 90], "dtype": dtype} | values},
        }
        if not whole
        else {"x": {"random": {"shape": [150, 211], "dtype": dtype} | values}},
        defaults={"warmup": 0, "repeat": 1, "verify": "full"},
        operations=operations,
    )
    assert {row["status"] for row in results.rows} == {"ok"}
    assert {row["variant"] for row in results.rows} >= {"my_transpose", "my_scale", "my_reduce"}


def test_a_reduction_of_mapped_values(tmp_path):
    assert tilerun("new-kernel", "reduce", tmp_path / "mine.c").returncode == OK
    operation = {"id": "r", "op": "reduce", "inputs": ["x"], "map": "abs(x * 2 - 3)", "operator": "max", "axis": 0}
    for memory in ("1GiB", "64KiB"):  # in one launch, and in several
        results = run(
            tmp_path,
            "--overwrite",
            memory=memory,
            inputs={"x": {"random": {"shape": [500, 70], "distribution": "normal"}}},
            operations=[{"id": "x2", "op": "map", "inputs": ["x"], "expression": "x"}]
            + [operation | {"variants": [{"source": "mine.c"}]}],
        )
        wanted = abs(results.output("x2") * np.float32(2) - np.float32(3)).max(0)
        np.testing.assert_array_equal(results.output("r"), wanted)


@pytest.mark.parametrize("operator", ["max", "min", "sum", "mean", "prod"])
def test_a_wrong_reduction_of_inexact_values_is_noticed(tmp_path, operator):
    """Functions such as exp differ in their last bits, from one library to another, and that alone is allowed for."""
    assert tilerun("new-kernel", "reduce", tmp_path / "mine.c").returncode == OK
    text = (tmp_path / "mine.c").read_text()
    operation = {"id": "r", "op": "reduce", "inputs": ["x"], "map": "exp(x) * 3", "operator": operator, "axis": 0}
    for factor, status in (("1", "ok"), ("1.0001", "wrong")):
        mine = source(tmp_path, "mine.c", text.replace("store(args, out, value)", f"store(args, out, value * {factor})"))
        results = run(
            tmp_path,
            "--overwrite",
            expect=(OK, RUN),
            inputs={"x": {"random": {"shape": [20, 3000], "distribution": "normal"}}},
            operations=[operation | {"variants": ["cpu", mine]}],
        )
        assert [row["status"] for row in results.rows] == ["ok", status]


@pytest.mark.parametrize("file, kernel", [("a-b.c", "a_b"), ("double.c", "k_double"), ("T.c", "k_T")])
def test_first_version_against_numpy(tmp_path, file, kernel):
    said = tilerun("new-kernel", "matmul", tmp_path / file).stdout
    assert f"[{{source: {file}, kernel: {kernel}}}]" in said
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((70, 33)), rng.standard_normal((33, 41))
    with h5py.File(tmp_path / "in.h5", "w") as inputs:
        inputs["a"], inputs["b"] = a, b
    results = run(
        tmp_path,
        inputs={name: {"file": "in.h5", "dataset": f"/{name}"} for name in "ab"},
        operations=[
            {"id": "p", "op": "matmul", "inputs": ["a", "b"], "variants": [{"source": file, "kernel": kernel}]}
        ],
    )
    np.testing.assert_allclose(results.output("p"), a @ b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("op", ["matmul", "reduce", "transpose", "scale"])
def test_the_variant_that_new_kernel_proposes(tmp_path, op):
    said = tilerun("new-kernel", op, tmp_path / "mine.cu").stdout
    own = {"scale": "alpha: 2", "reduce": "operator: sum, axis: 0"}.get(op, "")
    (tmp_path / "job.yaml").write_text(
        "version: 1\ninputs: {x: {random: {shape: [8, 8]}}}\noperations:\n"
        f"  - {{id: y, op: {op}, inputs: [{'x, x' if op == 'matmul' else 'x'}], {own + ', ' if own else ''}"
        f"{said.partition('in a job: ')[2].partition(', and ')[0]}}}\n"
    )
    tilerun("check", tmp_path / "job.yaml", expect=OK)


@pytest.mark.parametrize("language", ["c", "c++"])
def test_kernel_header_compiles_alone(language):
    compile = [os.environ.get("CC", "cc"), "-fsyntax-only", "-x", language, "-"]
    if subprocess.run(compile, input="", text=True).returncode != 0:
        pytest.skip(f"no compiler for {language}")
    done = tilerun("kernel-header", expect=OK)
    assert subprocess.run(compile, input=done.stdout, text=True).returncode == 0


def test_the_committed_example_runs(tmp_path):
    folder = tmp_path / "kernels"
    shutil.copytree(ROOT / "configs/kernels", folder)
    output = tmp_path / "out.h5"
    for job in sorted(folder.glob("*.yaml")):
        tilerun("run", job, "-o", output, "--allow-source", "--overwrite", "--once", expect=OK)
        assert {row["status"] for row in Results(output).rows} <= {"ok", "skipped"}


# ---- parameters ----


def test_parameters_are_macros_and_are_swept(tmp_path):
    text = SCALE.replace("args->alpha * x[i]", "(FACTOR) * x[i]") % ("mine", "_Static_assert(T_IS_FLOAT, \"\");")
    mine = source(tmp_path, "mine.c", text) | {"factor": [3, 4, 5], "where": "$factor <= 4 and $n > 0"}
    job = scale_job(mine) | {"parameters": {"n": 1}}
    job["inputs"]["x"]["random"]["seed"] = "$n"
    results = run(tmp_path, expect=RUN, **job)
    assert [(row["variant"], row["status"]) for row in results.rows] == [
        ("mine,factor=3", "ok"),
        ("mine,factor=4", "wrong"),
    ]


def test_a_parameter_of_the_job_and_of_the_variant(tmp_path):
    text = SCALE.replace("args->alpha", "FACTOR") % ("mine", "")
    mine = source(tmp_path, "mine.c", text) | {"factor": "$factor", "where": "$factor < 4", "threads": [1, 2]}
    job = scale_job("cpu", mine) | {"parameters": {"factor": [3]}}
    job["operations"][0]["alpha"] = "$factor"
    results = run(tmp_path, **job)
    assert [row["variant"] for row in results.rows] == ["cpu", "mine,factor=3,threads=1", "mine,factor=3,threads=2"]
    assert {row["status"] for row in results.rows} == {"ok"}


def test_where_of_a_built_in_variant(tmp_path):
    path = write_job(
        tmp_path / "job.yaml",
        **scale_job({"name": "cpu", "threads": [1, 2], "where": "$threads > 1"}),
    )
    assert tilerun("check", path).returncode == OK
    results = run_job(tmp_path, **scale_job({"name": "cpu", "threads": [1, 2], "where": "$threads > 1"}))
    assert [row["variant"] for row in results.rows] == ["cpu,threads=2"]


# ---- cheats ----


def test_planted_cheats_are_caught(tmp_path):
    early = "int mine(const struct launch *launch) {\n"
    assert status_of(tmp_path, "") == ("ok", "")
    assert status_of(tmp_path, "volatile float tiny = 1e-40f; tiny = tiny / 3;")[0] == "ok"  # it sets flags, not modes
    assert status_of(tmp_path, "", HEADER + early + "return 0; }\n")[0] == "wrong"  # writes nothing
    once = SCALE.replace("    const T *x", "    static int calls;\n    if (calls++) return 0;\n    const T *x")
    assert status_of(tmp_path, "", once % ("mine", ""))[0] == "wrong"
    half = SCALE.replace("args->count;", "args->count / (1 + (calls++ > 0));").replace(
        "    const T *x", "    static int calls;\n    const T *x"
    )
    assert status_of(tmp_path, "", half % ("mine", ""))[0] == "wrong"
    replay = (
        HEADER
        + "#include <string.h>\n"
        + early
        + "    static T saved[4000];\n    static int calls;\n"
        + "    const struct scale_args *args = &launch->args.scale;\n"
        + "    if (calls++ == 0)\n"
        + "        for (int64_t i = 0; i < args->count; i++) saved[i] = args->alpha * ((const T *)args->x)[i];\n"
        + "    memcpy(args->y, saved, args->count * sizeof(T));\n    return 0;\n}\n"
    )
    assert status_of(tmp_path, "", replay)[0] == "wrong"
    assert "output, directly behind the end" in status_of(tmp_path, "y[args->count] = 1;")[1]


def test_work_that_goes_on_after_the_launch(tmp_path):
    text = SCALE.replace("int %s(", "static int work(").replace("%s", "") + (
        "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "static void *late(void *launch) {\n    sleep(60);\n    work(launch);\n    return NULL;\n}\n"
        "int mine(const struct launch *launch) {\n"
        "    struct launch *copy = malloc(sizeof *copy);\n    *copy = *launch;\n    pthread_t thread;\n"
        "    return pthread_create(&thread, NULL, late, copy) + pthread_detach(thread);\n}\n"
    )  # so late that on any machine the process has ended by then: it would write into memory that is not its any more
    assert status_of(tmp_path, "", text)[0] == "wrong"


@pytest.mark.parametrize(
    "body, said",
    [
        ("*(volatile int *)16 = 1;", "crashes: Segmentation fault"),
        ("__builtin_trap();", "crashes: "),
        ("extern void exit(int); exit(0);", "ends the process"),
        ("extern void pthread_exit(void *); pthread_exit(0);", "ends the process"),
        ("((T *)x)[3000] = 5;", "writes to its inputs"),
        ("y[-1] = 5;", "written before its output"),
        ("extern int fork(void); fork();", "leaves a process running"),
        ("extern int raise(int); raise(9);", "crashes: Killed, as by a system that lacks memory"),
        ("\n#include <fenv.h>\nfesetround(FE_UPWARD);", "changes rounding"),
    ],
)
def test_what_a_kernel_does_costs_its_run_only(tmp_path, body, said):
    bad = source(tmp_path, "bad.c", SCALE % ("bad", body))
    mine = source(tmp_path, "mine.c", SCALE % ("mine", 'extern int puts(const char *); puts("seen");'))
    results = run(tmp_path, expect=RUN, **scale_job("cpu", bad, mine))
    assert [row["status"] for row in results.rows] == ["ok", "failed", "ok"]
    assert said in results.rows[1]["message"]
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # noqa: E731: as some callers leave it
    words = ["run", tmp_path / "job.yaml", "-o", results.path, "--overwrite", "--allow-source", "--verbose"]
    done = tilerun(*words, expect=RUN, preexec_fn=ignore)
    assert "library" not in done.stderr and "seen" in done.stderr and "seen" not in done.stdout


LATE = "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n" + SCALE
EXITS = ["exit(0)", "_exit(0)", "_Exit(0)", "quick_exit(0)", "\n#pragma omp parallel\n_exit(0)", "pthread_exit(0)"]


@pytest.mark.parametrize("call, code", [(call, DEVICE) for call in EXITS] + [("abort()", -6), ("*(int *)16 = 1", -11)])
def test_a_later_launch_that_ends_the_process_is_reported(tmp_path, call, code):
    bad = source(tmp_path, "bad.c", LATE % ("bad", f"static int calls;\n    if (++calls == 6) {{ {call}; }}"))
    path = write_job(tmp_path / "job.yaml", **scale_job("cpu", bad, repeat=20))
    said = tilerun("run", path, "-o", tmp_path / "out.h5", "--allow-source", expect=code).stderr
    what = "ended the process, or its thread," if code == DEVICE else "crashed"
    assert f"kernel 'bad' {what} in a launch after its first; finished runs are kept" in said, said


def test_an_output_that_is_not_written_and_a_code(tmp_path):
    status, message = status_of(tmp_path, "y[0] = __builtin_nanf(\"\");")
    assert status == "wrong" and "[0] is nan, " in message
    assert status_of(tmp_path, "return 7;")[0] == "failed"


# ---- mistakes ----


@pytest.mark.parametrize(
    "text, place",
    [
        (SCALE % ("mine", "nonsense;"), "mine.c:7:5: "),
        (SCALE % ("other", ""), "mine.c:1:1: "),
        (HEADER + "int far(void);\n" + SCALE % ("mine", "far();"), "mine.c:9:"),
        ('#include "none.h"\n', "mine.c:1:10: "),
        ('#include "../mine.h"\n' + SCALE % ("mine", ""), "mine.c:1:1: "),
        ("#define X \"a.h\"\n#include X\n", "mine.c:2:1: "),
        (HEADER + "int mine(const T *x, T *y) { return 0; }\n", "mine.c:2:5: error: conflicting types for"),
        (SCALE % ("mine", "") + BEFORE % "__builtin_trap();", "mine.c:1:1: its code crashes when it is loaded: "),
        (SCALE % ("mine", "") + BEFORE % "_exit(0);", "mine.c:1:1: its code ends the process when it is loaded"),
    ],
)
def test_mistakes_in_a_source_have_a_place(tmp_path, text, place):
    path = write_job(tmp_path / "job.yaml", **scale_job(source(tmp_path, "mine.c", text)))
    done = tilerun("run", path, "-o", tmp_path / "out.h5", "--allow-source", expect=USAGE)
    assert place in done.stderr
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(
    "variant",
    [
        {"source": "absent.c"},
        {"source": "mine.py"},
        {"source": "mine.c", "kernel": "no name"},
        {"source": "mine.c", "name": "cpu"},
        {"source": "mine.c", "block": 32},
        {"source": "mine.cu"},
        {"source": "mine.cu", "block": 32, "grid": "ceil(count / $absent)"},
        {"source": "mine.cu", "block": 32, "grid": "ceil(n /"},
        {"source": "mine.c", "tile": [8, 16], "where": "$tile > 16"},
        {"source": "mine.c", "tile": [8, 16], "where": "$tile +"},
        {"source": "mine.c", "tile": [8, 16], "where": "3 > $absent"},
        {"source": "mine.c", "value": 8},
        {"source": "mine.c", "int64": [8, 16]},
        {"source": "mine.c", "a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6},
    ],
)
def test_mistakes_in_a_variant(tmp_path, variant):
    for name in ("mine.c", "mine.cu", "mine.py"):
        source(tmp_path, name, SCALE % ("mine", ""))
    path = write_job(tmp_path / "job.yaml", **scale_job(variant))
    done = tilerun("check", path, expect=USAGE)
    assert "job.yaml:" in done.stderr and done.stderr.count("'absent'") <= 1


@pytest.mark.parametrize("place", ["mine.c:7:", "sub/it.h:1:"])
def test_warnings_have_a_place(tmp_path, place):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/it.h").write_text("static inline int it(void) { int unused; return 0; }\n" if "sub" in place else "")
    text = '#include "sub/it.h"\n' * ("sub" in place) + SCALE % ("mine", "" if "sub" in place else "int unused;")
    path = write_job(tmp_path / "job.yaml", **scale_job(source(tmp_path, "mine.c", text) | {"tile": [1, 2]}))
    for options in ([], ["--verbose"], ["--verbose"]):  # also of code that the cache has
        done = tilerun("run", path, "-o", tmp_path / "out.h5", "--allow-source", "--overwrite", *options, expect=OK)
        assert done.stderr.count(place) == len(options)  # once, though two combinations are compiled
        assert done.stderr.count("warning: unused variable") == len(options)
    assert tilerun("run", path, "-o", tmp_path / "out.h5", "--allow-source", "--overwrite").returncode == OK


def test_a_source_that_is_no_file(tmp_path):
    os.mkdir(tmp_path / "folder.c")
    os.mkfifo(tmp_path / "pipe.c")
    for name, words in (("folder.c", "Is a directory"), ("pipe.c", "not supported")):
        path = write_job(tmp_path / "job.yaml", **scale_job({"source": name}))
        done = tilerun("check", path)
        assert done.returncode == USAGE and f"{name} cannot be read: {words}" in done.stderr.replace("Operation ", "")


def test_check_and_plan_compile_nothing(tmp_path):
    broken = source(tmp_path, "mine.c", "this is no C\n")
    path = write_job(tmp_path / "job.yaml", **scale_job(broken))
    for command in ("check", "plan"):
        assert tilerun(command, path).returncode == OK
    assert not list((tmp_path / "cache").rglob("*.so"))


# ---- consent ----


def test_consent(tmp_path, monkeypatch):
    path = write_job(tmp_path / "job.yaml", **scale_job("cpu", source(tmp_path, "mine.c", SCALE % ("mine", ""))))
    output = tmp_path / "out.h5"
    digest = subprocess.run(["sha256sum", tmp_path / "mine.c"], capture_output=True, text=True).stdout.split()[0]
    refused = tilerun("run", path, "-o", output, expect=USAGE)
    assert "mine.c" in refused.stderr and digest in refused.stderr
    assert not output.exists() and not list((tmp_path / "cache").rglob("*.so"))
    assert tilerun("run", path, "-o", output, "--allow-source").returncode == OK
    (tmp_path / "mine.c").unlink()  # the results file has it
    for command in (("show", output), ("compare", output, output), ("report", output, "-o", tmp_path / "r.html")):
        assert tilerun(*command).returncode == OK
    refused = tilerun("reproduce", output)
    assert refused.returncode == USAGE and digest in refused.stderr
    monkeypatch.setenv("TILERUN_ALLOW_SOURCE", "0")
    assert tilerun("reproduce", output).returncode == USAGE
    monkeypatch.setenv("TILERUN_ALLOW_SOURCE", "1")
    assert tilerun("reproduce", output).returncode in (OK, RUN)  # times may differ
    with h5py.File(output) as file:
        stored = file["sources/0"]
        assert stored.attrs["name"] == "mine.c" and stored.attrs["sha256"] == digest
        assert stored[()].decode().rstrip("\0") == SCALE % ("mine", "")


def test_consent_of_merge(tmp_path):
    path = write_job(tmp_path / "job.yaml", **scale_job("cpu", source(tmp_path, "mine.c", SCALE % ("mine", ""))))
    output = tmp_path / "out.h5"
    for shard in ("0/2", "1/2"):
        assert tilerun("run", path, "-o", output, "--shard", shard, "--allow-source").returncode == OK
    assert tilerun("merge", output).returncode == USAGE
    assert tilerun("merge", output, "--allow-source").returncode == OK
    with h5py.File(output) as file:
        assert "sources/0" in file


# ---- the cache ----


def compiled(tmp_path):
    return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.so")}


def test_the_cache_knows_headers(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/factor.h").write_text('#include "deeper.h"\n')
    (tmp_path / "sub/deeper.h").write_text("#define FACTOR 3\n")
    text = '#include "sub/factor.h"\n' + SCALE.replace("args->alpha", "FACTOR") % ("mine", "")
    job = scale_job(source(tmp_path, "mine.c", text))
    run(tmp_path, **job)
    first = compiled(tmp_path)
    assert len(first) == 1
    run(tmp_path, "--overwrite", **job)
    assert compiled(tmp_path) == first  # taken from the cache
    (tmp_path / "sub/deeper.h").write_text("#define FACTOR 4\n")
    results = run(tmp_path, "--overwrite", expect=RUN, **job)
    assert results.rows[0]["status"] == "wrong"
    assert len(compiled(tmp_path)) == 2
    with h5py.File(results.path) as file:
        names = {item.attrs["name"] for item in file["sources"].values()}
    assert names == {"mine.c", "sub/factor.h", "sub/deeper.h"}


def test_two_processes_and_damaged_or_read_only_caches(tmp_path):
    path = write_job(tmp_path / "job.yaml", **scale_job(source(tmp_path, "mine.c", SCALE % ("mine", ""))))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    both = [start("run", path, "-o", tmp_path / f"{i}.h5", "--allow-source", **quiet) for i in range(2)]
    assert [process.wait(timeout=120) for process in both] == [OK, OK]
    (name,) = compiled(tmp_path)
    (file,) = (tmp_path / "cache").rglob("*.so")
    file.write_bytes(file.read_bytes()[:100])  # damaged: it is compiled again
    assert tilerun("run", path, "-o", tmp_path / "3.h5", "--allow-source").returncode == OK
    assert file.stat().st_size > 100 and set(compiled(tmp_path)) == {name}
    folder = file.parent
    shutil.rmtree(folder)
    folder.write_text("")  # no folder: works without
    assert tilerun("run", path, "-o", tmp_path / "4.h5", "--allow-source").returncode == OK


def test_a_cache_that_others_can_write_is_not_used(tmp_path):
    folder = tmp_path / "cache/tilerun"
    folder.chmod(0o777)
    run(tmp_path, **scale_job(source(tmp_path, "mine.c", SCALE % ("mine", ""))))
    assert not compiled(tmp_path)


# ---- resume ----


def test_resume_notices_a_changed_source(tmp_path):
    text = SCALE % ("mine", "")
    job = scale_job("cpu", source(tmp_path, "mine.c", text))
    run(tmp_path, **job)
    words = ["run", tmp_path / "job.yaml", "-o", tmp_path / "results.h5", "--resume", "--allow-source"]
    again = tilerun(*words)
    assert again.returncode == OK and "mine: ok" not in again.stderr
    (tmp_path / "mine.c").write_text(text + "/* another one */\n")
    changed = tilerun(*words)
    assert changed.returncode == USAGE and "before its kernel source mine.c changed" in changed.stderr
    both = tilerun(*words, "--overwrite")
    assert both.returncode == OK and "mine: ok" in both.stderr
    (tmp_path / "results.h5").rename(tmp_path / "other.h5")
    run(tmp_path, **scale_job("cpu", source(tmp_path, "mine.c", text)))
    compared = tilerun("compare", tmp_path / "results.h5", tmp_path / "other.h5").stdout
    same = tilerun("compare", tmp_path / "other.h5", tmp_path / "other.h5").stdout
    assert "source mine.c: " in compared and "source mine.c: " not in same
