"""Kernels of a job's own that cheat on a GPU: each is wrong, has failed or is late, and none has a time. On the CPU:
test_source.py."""

import pytest

from harness import OK, RUN, Results, tilerun, write_job
from test_source import HEADER, own_cache, run, scale_job, source  # noqa: F401: own_cache is a fixture

pytestmark = pytest.mark.gpu

CUDA_SCALE = HEADER + (
    "@GLOBALS@\n"
    "__global__ void mine(const struct scale_args args) {\n"
    "    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    const T *x = static_cast<const T *>(args.x);\n    T *y = static_cast<T *>(args.y);\n"
    "    @BEFORE@\n"
    "    if (i < args.count) y[i] = (T)(args.alpha * x[i] + args.beta);\n"
    "    @BEHIND@\n"
    "}\n"
)
REPLAY = """
    for (int64_t j = threadIdx.x; j < args.count; j += blockDim.x) {
        if (!filled) saved[j] = (T)(args.alpha * x[j] + args.beta);
        y[j] = saved[j];
    }
    __syncthreads();
    if (threadIdx.x == 0) filled = 1;
    return;"""


def cuda_kernel(folder, name="mine", before="", behind="", globals="", grid="ceil(count / 256)"):
    text = CUDA_SCALE.replace("@BEFORE@", before).replace("@BEHIND@", behind).replace("@GLOBALS@", globals)
    return source(folder, f"{name}.cu", text.replace("mine", name)) | {"block": 256, "grid": grid}


@pytest.mark.parametrize(
    "statuses, terms",
    [
        (("ok",), {}),
        (("wrong",), {"before": "return;"}),  # writes nothing
        (("wrong",), {"before": "if (i % 2) return;"}),  # writes a part
        (("wrong",), {"globals": "__device__ T saved[4000]; __device__ int filled;", "before": REPLAY, "grid": 1}),
        (("wrong",), {"globals": "__device__ int calls;", "before": "if (atomicAdd(&calls, 1) > 4000) return;"}),
        (("wrong", "failed"), {"behind": "if (i == 0) y[args.count + 5] = 1;"}),  # behind its output
        (("failed", "none"), {"before": "if (i == 0) y[0] = x[args.count + (1ll << 42)];"}),  # reads outside
        (("failed", "none"), {"before": "__trap();"}),
        (("timeout", "none"), {"before": "while (((const volatile T *)x)[0] != (T)12345) __nanosleep(100);"}),
    ],
)
def test_planted_cheats_are_caught_on_a_gpu(tmp_path, statuses, terms):
    path = write_job(tmp_path / "job.yaml", **scale_job(cuda_kernel(tmp_path, **terms), timeout="4s"))
    output = tmp_path / "out.h5"
    done = tilerun("run", path, "-o", output, "--allow-source", "--device", "cuda")
    assert (done.returncode == OK) == (statuses == ("ok",)), done.stderr
    rows = Results(output).rows if output.exists() else [{"variant": "mine", "status": "none"}]
    (status,) = [row["status"] for row in rows if row["variant"] == "mine"]
    assert status in statuses, done.stderr
    if status == "none":  # a device that has failed, or hangs, ends the job with a sentence
        assert "mine" in done.stderr + done.stdout or "cuda" in done.stderr


def test_a_kernel_cannot_launch_on_another_stream(tmp_path):
    late = "__global__ void late(T *y) { y[0] = 1; }"
    cheat = cuda_kernel(tmp_path, globals=late, before="late<<<1, 1, 0, cudaStreamFireAndForget>>>(y); return;")
    path = write_job(tmp_path / "job.yaml", **scale_job(cheat))
    done = tilerun("run", path, "-o", tmp_path / "out.h5", "--allow-source", "--device", "cuda")
    assert done.returncode != OK and "mine" in done.stderr
    assert not (tmp_path / "out.h5").exists() or Results(tmp_path / "out.h5").rows[0]["status"] != "ok"


def test_persisting_lines_do_not_help(tmp_path):
    keep = 'if (i < args.count) asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(x + i));'
    job = scale_job(cuda_kernel(tmp_path), cuda_kernel(tmp_path, "keeps", behind=keep), cache="cold", repeat=20)
    job["inputs"]["x"]["random"]["shape"] = [4_000_000]
    results = run(tmp_path, "--device", "cuda", **job)
    plain, keeps = (results.row("s", name)["kernel_median_s"] for name in ("mine", "keeps"))
    assert keeps > 0.7 * plain


def test_answers_for_a_sample_do_not_do(tmp_path):
    text = HEADER + (
        "__global__ void mine(const struct matmul_args args) {\n"
        "    const int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;\n"
        "    const T *a = static_cast<const T *>(args.a), *b = static_cast<const T *>(args.b);\n"
        "    double sum = 0;\n    if (j >= args.n || CONDITION) return;\n"
        "    for (int64_t l = 0; l < args.k; l++) sum += (double)a[i * args.k + l] * b[l * args.n + j];\n"
        "    static_cast<T *>(args.c)[i * args.n + j] = (T)(args.alpha * sum);\n}\n"
    )
    for condition, status in (("false", "ok"), ("i == 777", "wrong"), ("i == 777 && j == 777", "wrong")):
        mine = source(tmp_path, "mine.cu", text.replace("CONDITION", condition))
        mine |= {"block": 256, "grid": ["ceil(n / 256)", "m"]}
        job = {
            "inputs": {"x": {"random": {"shape": [2000, 2000], "distribution": "normal"}}},
            "operations": [
                {"id": "p", "op": "matmul", "inputs": ["x", "x"], "variants": [mine], "verify": "sampled"}
                | {"repeat": 3, "warmup": 1}
            ],
        }
        results = run(tmp_path, "--overwrite", "--device", "cuda", "--memory", "90%", expect=(OK, RUN), **job)
        assert results.rows[0]["status"] == status, condition
