"""The results file is what it is documented to be, for h5py, pandas (records) and h5dump."""

import hashlib
import re
import shutil
import socket
import subprocess

import h5py
import numpy as np
import pytest

import harness

TEXT = set(
    "operation op variant parameters device dtype shape status bound_by verify flags message device_name".split()
)
COLUMNS = (
    "run operation op variant parameters p_n device dtype shape status repeats kernel_median_s kernel_min_s "
    "kernel_max_s kernel_mad_s kernel_ci_low_s kernel_ci_high_s read_s h2d_s d2h_s write_s total_s "
    "file_bytes overflowed wrapped truncated flops bytes gflops gbytes_per_s "
    "bound_s bound_by percent_of_bound error tolerance verify flags busy_samples device_name "
    "threads sm_clock_mhz probe_s registers spill_bytes shared_bytes occupancy tries timeout_s message"
).split()

INTEGERS = ("run", "repeats", "busy_samples", "threads", "tries")

JOB = """\
version: 1
name: schema
description: every part of a results file   # \u00e4, and a comment that only the verbatim text has
device: cpu
parameters: {n: [3, 40], beta: 2}
inputs:
  A: {file: data.h5, dataset: /group/a}
  R: {random: {shape: [$n, 7], distribution: normal, mean: 1, std: 2, seed: 11}}
defaults: {warmup: 1, repeat: 5}
operations:
  - {id: gram, op: matmul, inputs: [A, A], transpose_b: true, variants: [blocked, cpu], store: all}
  - {id: sums, op: reduce, inputs: [R], operator: sum, axis: 0, variants: [cpu]}
  - {id: twice, op: scale, inputs: [sums], alpha: 2, beta: $beta, variants: [cpu], checksum: none}
  - {id: nothing, op: transpose, inputs: [A], variants: [cpu], store: none}
  - {id: packed, op: transpose, inputs: [A], chunks: [10, 16], compression: gzip, level: 7, shuffle: true}
  - {id: total, op: reduce, inputs: [gram], operator: sum, axis: all, variants: [cpu]}
"""

pytestmark = pytest.mark.xdist_group("schema")  # they share a results file


@pytest.fixture(scope="module")
def results(memory_folder):
    folder = memory_folder / "schema"
    folder.mkdir()
    with h5py.File(folder / "data.h5", "w") as file:
        file["group/a"] = np.random.default_rng(1).normal(size=(50, 3000)).astype(">f4")
    (folder / "job.yaml").write_text(JOB, encoding="utf-8")
    harness.run_folder(folder)
    return harness.Results(folder / "out.h5")


@pytest.fixture
def file(results):
    with h5py.File(results.path) as file:
        yield file


def data(results):
    with h5py.File(results.path.parent / "data.h5") as file:
        return file["group/a"][:]


def test_root(file, results):
    attributes = dict(file.attrs)
    assert attributes["schema"] == "tilerun-results" and attributes["schema_version"] == 1
    assert attributes["status"] == "complete"
    version = harness.tilerun("--version").stdout
    assert f"tilerun {attributes['tool_version']} ({attributes['git_commit']})" in version
    for name in ("created", "finished"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", attributes[name]), attributes[name]
    assert attributes["created"] <= attributes["finished"]
    folder = results.path.parent
    assert attributes["command_line"] == f"tilerun run {folder}/job.yaml -o {folder}/out.h5"
    assert set(file) == {"job", "job_resolved", "environment", "inputs", "outputs", "variants", "runs", "samples"}


def test_job_is_verbatim(file, results):
    job = file["job"]
    assert job[()].decode() == JOB
    assert job.attrs["sha256"] == hashlib.sha256(JOB.encode()).hexdigest()
    assert job.attrs["name"] == "schema" and job.attrs["path"] == str(results.path.parent / "job.yaml")


def test_resolved_job_is_a_job(file, results):
    """Defaults are spelled out, and it is good for a run of its own."""
    for name in ("job", "job_resolved"):  # of fixed length, with a NUL at the end
        kind = file[name].id.get_type()
        assert not kind.is_variable_str() and kind.get_strpad() == h5py.h5t.STR_NULLTERM
        assert kind.get_size() == len(file[name][()]) + 1
    resolved = file["job_resolved"][()].decode()
    assert resolved.count("repeat: 5") == 6 and "defaults:" not in resolved
    path = results.path.parent / "resolved.yaml"
    path.write_text(resolved, encoding="utf-8")
    harness.tilerun("check", path, expect=harness.OK)


def test_environment(file):
    environment = dict(file["environment"].attrs)
    for name in "hostname os cpu cpu_cores memory_bytes hdf5_version compiler".split():
        assert name in environment
    assert environment["hostname"] == socket.gethostname()
    assert environment["cpu_cores"] >= 1 and environment["memory_bytes"] > 2**28
    assert environment["cpu_cores"].dtype == environment["memory_bytes"].dtype == np.int64
    assert environment["load_average"] >= 0 and environment["load_average"].dtype == np.float64
    assert environment["hdf5_version"] in harness.tilerun("--version").stdout


def test_every_text_attribute_is_a_str(file):
    found = []

    def look(name, item):
        found.extend((name, key, value) for key, value in item.attrs.items())

    look("/", file)
    file.visititems(look)
    assert len(found) > 30
    for name, key, value in found:
        assert not isinstance(value, bytes), f"{name}: {key}"


def test_runs(file):
    table = file["runs"][:]
    assert list(table.dtype.names) == COLUMNS
    for name in COLUMNS:
        kind = table.dtype[name]
        if name in TEXT:
            assert kind.kind == "S" and h5py.check_string_dtype(kind) is not None, name
        else:
            assert kind == (np.int32 if name in INTEGERS else np.float64), name
    assert list(table["run"]) == list(range(len(table)))
    assert len(np.rec.array(table)) == 9  # what DataFrame.from_records takes
    order = [(row["operation"].decode(), row["variant"].decode(), row["parameters"].decode()) for row in table]
    assert order.index(("gram", "blocked", "")) + 1 == order.index(("gram", "cpu", ""))
    assert {o for o in order if o[0] == "twice"} == {("twice", "cpu", "n=3"), ("twice", "cpu", "n=40")}


def test_columns_are_documented():
    """configs/results.md has a table of all of them, in their order, and names every status."""
    words = (harness.ROOT / "configs/results.md").read_text(encoding="utf-8")
    table = words[words.index("| column | meaning |") : words.index("## What goes with the values")]
    documented = [name for line in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", line)]
    assert sorted(documented) == sorted("p_NAME" if name == "p_n" else name for name in COLUMNS)
    status = re.search(r"^\| `status` \| (.*) \|$", table, re.M)[1]
    names = {"ok", "unchecked", "wrong", "failed", "timeout", "skipped", "interrupted"}
    assert set(re.findall(r"(?:^|; )`(\w+)`: ", status)) == names


def test_row(results):
    row = results.row("gram", "blocked")
    assert (row["op"], row["device"], row["dtype"], row["shape"], row["status"]) == (
        "matmul",
        "cpu",
        "float32",
        "50x50x3000",
        "ok",
    )
    assert row["repeats"] == 5 and row["flops"] == 2 * 50 * 50 * 3000
    assert row["bytes"] == 4 * (2 * 50 * 3000 + 50 * 50)
    assert 0 < row["kernel_min_s"] <= row["kernel_median_s"] <= row["kernel_max_s"]
    assert row["kernel_mad_s"] <= row["kernel_max_s"] - row["kernel_min_s"]
    assert row["gflops"] == pytest.approx(row["flops"] / row["kernel_median_s"] / 1e9)
    assert row["gbytes_per_s"] == pytest.approx(row["bytes"] / row["kernel_median_s"] / 1e9)
    assert 0 <= row["error"] <= row["tolerance"] < 1e-2
    for stage in ("read_s", "h2d_s", "d2h_s", "write_s"):
        assert 0 <= row[stage] <= row["total_s"]
    assert results.row("total")["shape"] == "50x50" and results.row("sums", parameters="n=3")["shape"] == "3x7"


def test_samples(file, results):
    for row in results.rows:
        samples = file[f"samples/{row['run']}"]
        assert samples.shape == (row["repeats"],) and samples.dtype == np.float64
        assert samples.attrs["units"] == "s"
        assert np.median(samples) == pytest.approx(row["kernel_median_s"])
        assert min(samples) == row["kernel_min_s"] and max(samples) == row["kernel_max_s"]


def test_outputs(file, results):
    a = data(results).astype(np.float64)
    assert harness.dataset_names(file, "outputs") == [
        "outputs/gram",
        "outputs/n=3/sums",
        "outputs/n=3/twice",
        "outputs/n=40/sums",
        "outputs/n=40/twice",
        "outputs/packed",
        "outputs/total",
    ]
    assert harness.dataset_names(file, "variants") == ["variants/gram/blocked", "variants/gram/cpu"]
    np.testing.assert_allclose(file["outputs/gram"], a @ a.T, atol=1e-2)
    np.testing.assert_array_equal(file["outputs/packed"], a.T.astype(np.float32))
    assert file["outputs/total"].shape == ()
    assert file["outputs/total"][()] == pytest.approx((a @ a.T).sum(), rel=1e-4)
    np.testing.assert_allclose(file["outputs/n=40/twice"], 2 * file["outputs/n=40/sums"][:] + 2, rtol=1e-6)
    for name in harness.dataset_names(file, "outputs"):
        attributes, row = file[name].attrs, results.rows[file[name].attrs["run"]]
        assert name.endswith(row["operation"]) and row["parameters"] in name
        assert attributes["variant"] == row["variant"] and attributes["error"] == row["error"]


def test_layout_of_outputs(file):
    assert file["outputs/gram"].fletcher32 and file["variants/gram/cpu"].fletcher32
    assert not file["outputs/n=3/twice"].fletcher32
    packed = file["outputs/packed"]
    assert packed.chunks == (10, 16) and packed.compression == "gzip" and packed.compression_opts == 7
    assert packed.shuffle and packed.fletcher32


def test_creation_order_is_tracked(file):
    both = h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED
    for name in ("/", "outputs", "inputs", "variants", "environment"):
        plist = file[name].id.get_create_plist()
        assert plist.get_link_creation_order() == both, name
        assert plist.get_attr_creation_order() == both, name


def test_inputs(file, results):
    a, r = file["inputs/A"], file["inputs/n=40/R"] if "n=40" in file["inputs"] else file["inputs/R"]
    assert a.attrs["dataset"] == "/group/a" and a.attrs["dtype"] == "float32"
    assert a.attrs["file"] == str(results.path.parent / "data.h5")
    assert list(a.attrs["shape"]) == [50, 3000] or a.attrs["shape"] == "50x3000"
    assert not list(a)  # no link to the data
    assert (r.attrs["distribution"], r.attrs["mean"], r.attrs["std"], r.attrs["seed"]) == ("normal", 1, 2, 11)


def test_random_inputs(folder):
    """Each distribution with its terms."""
    drawn = {
        "uniform": {"low": -2, "high": 3}, "normal": {"mean": 0.5, "std": 4}, "integer": {"low": -7, "high": 9},
        "constant": {"value": 2.5}, "index": {},
    }  # fmt: skip
    inputs = {
        name: {"random": {"shape": [2, 3], "distribution": name, "seed": 5, **terms}} for name, terms in drawn.items()
    }
    operations = [{"id": f"of_{name}", "op": "transpose", "inputs": [name], "repeat": 1} for name in drawn]
    results = harness.run_job(folder, device="cpu", inputs=inputs, operations=operations)
    with h5py.File(results.path) as file:
        for name, terms in drawn.items():
            attributes = dict(file[f"inputs/{name}"].attrs)
            assert (attributes["distribution"], attributes["seed"]) == (name, 5)
            found = {key: attributes[key] for key in ("low", "high", "mean", "std", "value") if key in attributes}
            assert found == terms, name


def test_hash_of_input(file, results):
    """The documented hash, in Python: XXH3-128 of segments of 1024 elements, seeded by their number, summed."""
    xxhash = pytest.importorskip("xxhash")
    a = data(results).astype("<f4")
    segments = -(-a.shape[1] // 1024)
    total = sum(
        xxhash.xxh3_128_intdigest(row[s * 1024 : (s + 1) * 1024].tobytes(), seed=r * segments + s)
        for r, row in enumerate(a)
        for s in range(segments)
    )
    assert file["inputs/A"].attrs["xxh3"] == f"{total % 2**128:032x}"


def test_numbers_have_units(file):
    """Every number that has a unit says so, by its name or in an attribute; of an input without one nothing is made up
    (test_units.py)."""
    assert file["samples/0"].attrs["units"] == "s"
    for name in harness.dataset_names(file, "outputs", "variants"):
        assert "units" not in file[name].attrs, name
    for name, value in file["environment"].attrs.items():
        if name.startswith("slurm_") or isinstance(value, str):
            continue
        assert re.search(r"_(bytes|mhz|w|s)$|^(cpu_cores|multiprocessors|load_average)$", name), name


@pytest.mark.skipif(not shutil.which("h5dump"), reason="no h5dump")
def test_h5dump(results):
    done = subprocess.run(["h5dump", "-d", "/runs", str(results.path)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    for name in COLUMNS:
        assert f'"{name}";' in done.stdout
    assert '"blocked' in done.stdout
    everything = subprocess.run(["h5dump", "-H", str(results.path)], capture_output=True, text=True)
    assert everything.returncode == 0 and 'DATASET "gram"' in everything.stdout
