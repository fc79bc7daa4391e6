"""Every CUDA variant under compute-sanitizer's four tools: all types and operators at shapes that straddle tiles, whole and
in the ragged tiles of a small memory. One job a tool, since a sanitizer's start costs seconds and its launches little."""

import shutil
import subprocess

import pytest

import harness
import referee

SANITIZER = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
RANDOM = {"float": {"distribution": "normal"}, "int": {"distribution": "integer", "low": 0, "high": 100}}
VENDORS = ("cublas", "cub")
SHAPES = {"v": [1025], "m": [33, 129], "s": [3, 65, 17]}


def everything():
    """Inputs and operations for all types; an input of each shape, and a second factor for matmul."""
    variants = [v for v in harness.list_variants() if v.runs_here and not v.limit and v.op != "map"]
    inputs, operations = {}, []
    for dtype in referee.DTYPES:
        terms = RANDOM["float" if dtype in referee.FLOATS else "int"]
        shapes = {**SHAPES, **({"k": [129, 65]} if dtype in referee.FLOATS else {})}
        for letter, shape in shapes.items():
            inputs[f"{letter}_{dtype}"] = {"random": {"shape": shape, "dtype": dtype, **terms}}

        def add(name, op, letters, operator=None, **options):
            able = [v for v in variants if v.op == op and dtype in v.dtypes and operator in (None, *v.operators)]
            able = [v for v in able if not v.on_cpu and v.name not in VENDORS]
            if operator:
                options["operator"] = operator
            if able:
                operations.append(
                    {
                        "id": f"{name}_{dtype}",
                        "op": op,
                        "inputs": [f"{letter}_{dtype}" for letter in letters],
                        "variants": harness.variant_entries(able),
                        **options,
                    }
                )

        for letter in SHAPES:
            if letter != "v":
                add(f"transpose_{letter}", "transpose", letter)
            add(f"scale_{letter}", "scale", letter, alpha=2, beta=1)
        for operator in referee.OPERATORS:
            for letter, axes in {"v": ["all"], "m": [0, 1], "s": [0, 1, "all"]}.items():
                for axis in axes:
                    add(f"{operator}_{letter}_{axis}", "reduce", letter, operator=operator, axis=axis)
        if dtype in referee.FLOATS:
            add("product", "matmul", "mk")
            add("gram", "matmul", "mm", transpose_a=True)
            add("outer", "matmul", "mm", transpose_b=True)
            add("stack", "matmul", "ss", transpose_b=True)
    return inputs, operations


@pytest.mark.gpu
@pytest.mark.skipif(not SANITIZER, reason="no compute-sanitizer")
@pytest.mark.parametrize("memory", ["1GiB", "64KiB"])
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_variants_are_clean(folder, tool, memory):
    inputs, operations = everything()
    assert len(operations) > 300
    if memory == "1GiB":  # so much that blocks draw what others leave
        inputs["large"] = {"random": {"shape": [312500, 256], **RANDOM["float"]}}
        of_large = {"op": "reduce", "operator": "sum", "inputs": ["large"], "variants": ["stream"]}
        operations += [{"id": f"large_{axis}", "axis": axis, **of_large} for axis in (0, "all")]
    job = harness.write_job(
        folder / "job.yaml",
        inputs=inputs,
        memory=memory,
        sync=False,
        defaults={"warmup": 0, "repeat": 1, "store": "none"},
        operations=operations,
    )
    command = [SANITIZER, "--tool", tool, "--error-exitcode", "99", "--print-limit", "20"]
    command += [str(harness.TILERUN), "run", str(job), "-o", str(folder / "out.h5"), "--progress", "none"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    text = "\n".join(line for line in done.stdout.splitlines() if line.startswith("========="))
    assert done.returncode == 0, text[-6000:] or done.stdout[-3000:]
    assert "0 errors" in text or "0 hazards" in text, text[-2000:]
