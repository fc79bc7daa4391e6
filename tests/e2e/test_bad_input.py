"""What cannot be run: the documented code, a message with its place, and nothing written or left behind."""

import os
import re
import resource
import subprocess

import h5py
import numpy as np
import pytest

import harness
import tree
from harness import DEVICE, IO, OK, USAGE

INPUT_LINE = "  A: {file: $file, dataset: $dataset}"  # line 4 of JOB: complaints stand at its name
JOB = """\
version: 1
parameters: {file: data.h5, dataset: /a}
inputs:
  A: {file: $file, dataset: $dataset}
  B: {random: {shape: [4, 3]}}
operations:
  - {id: y, op: scale, inputs: [A], repeat: 1}
  - {id: z, op: transpose, inputs: [B], repeat: 1}
"""


@pytest.fixture
def place(folder):
    """A folder with a good job and good data."""
    with h5py.File(folder / "data.h5", "w") as file:
        file["a"] = np.arange(12, dtype="f4").reshape(4, 3)
        file["deep"] = np.zeros((2,) * 9)
        file["text"] = ["some", "words"]
        file["table"] = np.zeros(3, [("x", "f4"), ("y", "i4")])
        file["complex"] = np.zeros((2, 2), "c8")
        file["codes"] = np.zeros((2, 2), h5py.enum_dtype({"RED": 0, "BLUE": 5}, "i2"))
        file["group/b"] = [1.0]
        file["nothing"] = h5py.Empty("f4")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["moved"] = h5py.ExternalLink("gone.h5", "/x")
        file["group/shown"] = h5py.SoftLink("/moved")
        file.create_dataset("endless", (2**61, 8), "f4", chunks=(1, 8))
    (folder / "job.yaml").write_text(JOB)
    return folder


def listing(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and os.access(p, os.R_OK)
    }


def refused(place, pattern, *arguments, code=USAGE, job="job.yaml", **options):
    """`run` must refuse: its code, its words, and no file made or changed."""
    before = listing(place)
    done = harness.tilerun("run", job, "-o", "out.h5", *arguments, cwd=place, expect=code, **options)
    assert re.search(pattern, done.stderr, re.M), done.stderr
    assert done.stdout == ""
    assert listing(place) == before and not (place / "out.h5.parts").exists()
    return done.stderr


def test_the_job_is_good(place):
    harness.tilerun("run", "job.yaml", "-o", "out.h5", cwd=place, expect=OK)


# ---- inputs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dataset, words",
    [
        ("/b", r"has no data set '/b'"),
        ("/group", r"'/group' is a group, not a data set"),
        ("/deep", r"'/deep' has more than 8 axes"),
        ("/text", r"'/text' .*strings"),
        ("/table", r"'/table' holds a table.*`field: NAME`"),
        ("/complex", r"'/complex' holds complex numbers"),
        ("/codes", r"'/codes' holds an enumeration.*`dtype: "),
        ("/nothing", r"'/nothing' .*(null|no value|empty|nothing)"),
        ("/dangling", r"'/dangling' is a soft link to '/nowhere', which is not there"),
        ("/group/shown", r"'/moved', which is an external link to '/x' in gone\.h5, which is not there"),
        ("/endless", r"'/endless' has more elements than 64 bits can count"),
    ],
)
def test_unfit_data_set(place, dataset, words):
    said = refused(place, rf"^job\.yaml:4:29: .*{words}", "--set", f"dataset={dataset}")
    assert "data.h5" in said and INPUT_LINE in said


def test_missing_data_set_has_a_hint(place):
    assert "did you mean" in refused(place, r"has no data set '/group/c'", "--set", "dataset=/group/c")


@pytest.mark.parametrize("links", ["external", "soft", "both", "broken", "none"])
def test_what_a_file_of_links_holds(place, links):
    """Links lead to data sets as well as names do; links that lead nowhere are told apart from an empty file."""
    with h5py.File(place / "links.h5", "w") as file:
        if links in ("external", "both"):
            file["here"] = h5py.ExternalLink("data.h5", "/a")
        if links in ("soft", "both"):
            file.create_group("within")["deep"] = np.zeros((2, 2))
            file["soft"] = h5py.SoftLink("/within/deep")
        if links == "broken":
            file["gone"] = h5py.ExternalLink("nowhere.h5", "/a")
    words = {
        "external": r"it holds /here$",
        "soft": r"it holds /soft, /within/deep$",
        "both": r"it holds (?=.*/here\b)(?=.*/soft\b)(?=.*/within/deep\b)",
        "broken": r"it holds none, only links that lead nowhere, such as '/gone'$",
        "none": r"it holds none$",
    }[links]
    said = refused(place, r"has no data set '/zzzzzz'", "--set", "file=links.h5", "--set", "dataset=/zzzzzz")
    assert re.search(words, said, re.M), said


def test_missing_file(place):
    refused(place, r"^job\.yaml:4:13: nowhere\.h5: No such file or directory", "--set", "file=nowhere.h5")


def test_directory_as_file(place):
    (place / "folder").mkdir()
    refused(place, r"^job\.yaml:4:13: folder: is a directory, not an HDF5 file", "--set", "file=folder")


def test_not_hdf5(place):
    (place / "text.h5").write_text("hardly an HDF5 file\n" * 100)
    refused(place, r"^job\.yaml:4:13: text\.h5: is not an HDF5 file", "--set", "file=text.h5")
    (place / "empty.h5").write_bytes(b"")
    refused(place, r"^job\.yaml:4:13: empty\.h5: is (empty|not an HDF5 file)", "--set", "file=empty.h5")


@pytest.mark.parametrize("keep", [0.9, 0.5, 0.1])
def test_truncated_hdf5(place, keep):
    whole = (place / "data.h5").read_bytes()
    (place / "short.h5").write_bytes(whole[: int(keep * len(whole))])
    refused(place, r"^job\.yaml:4:13: short\.h5: is a truncated HDF5 file", "--set", "file=short.h5")


def test_fifo_as_file(place):
    os.mkfifo(place / "fifo")
    refused(place, r"^job\.yaml:4:13: fifo: is not a regular file", "--set", "file=fifo", timeout=10)


def test_damaged_chunk_is_an_io_error(place):
    """Found while reading: code 3, what it was reading, and no results file."""
    with h5py.File(place / "data.h5", "a") as file:
        chunked = file.create_dataset("packed", data=np.arange(12.0), chunks=(12,), fletcher32=True)
        offset = chunked.id.get_chunk_info(0).byte_offset
    with open(place / "data.h5", "r+b") as file:
        file.seek(offset)
        file.write(b"\x12\x34")
    before = (place / "data.h5").read_bytes()
    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", "--set", "dataset=/packed", cwd=place)
    assert done.returncode == IO and "/packed" in done.stderr, done.stderr
    assert not (place / "out.h5").exists() and (place / "data.h5").read_bytes() == before


# ---- shapes, types, variants ---------------------------------------------------------------------------------------

BODY = """\
version: 1
inputs:
  A: {random: {shape: [4, 3]}}
  S: {random: {shape: [2, 4, 3]}}
  T: {random: {shape: [3, 3, 4]}}
  I: {random: {shape: [3, 4], dtype: int32, distribution: integer, high: 9}}
  H: {random: {shape: [3, 4], dtype: float16}}
  V: {random: {shape: [5]}}
operations:
  - %s
"""


@pytest.mark.parametrize(
    "operation, message",
    [
        ("{id: y, op: matmul, inputs: [A, A]}", r":10:37: y: .*4x3.*4x3"),
        ("{id: y, op: matmul, inputs: [S, T]}", r":10:37: y: .*2x4x3.*3x3x4"),
        ("{id: y, op: matmul, inputs: [A, H]}", r":10:37: y: .*float32.*float16"),
        ("{id: y, op: matmul, inputs: [I, I], transpose_a: true}", r":10:34: y: .*int32"),
        ("{id: y, op: matmul, inputs: [V, A]}", r":10:34: y: .*5"),
        ("{id: y, op: matmul, inputs: [A]}", r":10:\d+: .*(two|2)"),
        ("{id: y, op: transpose, inputs: [V]}", r":10:37: y: .*(vector|axes|rank|5)"),
        ("{id: y, op: reduce, inputs: [A], operator: sum, axis: 2}", r":10:59: y: .*axis.*2.*4x3"),
        ("{id: y, op: reduce, inputs: [A], operator: sum, axis: -3}", r":10:59: y: .*axis.*-3.*4x3"),
        ("{id: y, op: reduce, inputs: [A], operator: summ, axis: 0}", r":10:48: .*'summ'.*did you mean 'sum'"),
        ("{id: y, op: scale, inputs: [I], alpha: 0.5}", r":10:44: y: .*(integ|whole)"),
        ("{id: y, op: scale, inputs: [X]}", r":10:33: .*'X'"),
        ("{id: y, op: scales, inputs: [A]}", r":10:17: .*'scales'.*did you mean 'scale'"),
        (
            "{id: y, op: matmul, inputs: [A, A], transpose_b: true, variants: [bloked]}",
            r":10:71: unknown variant 'bloked' of matmul \(did you mean 'blocked'\?\)",
        ),
        (
            "{id: y, op: matmul, inputs: [A, A], transpose_b: true, variants: [xyzzy]}",
            r":10:\d+: unknown variant 'xyzzy' of matmul; `tilerun list matmul` shows them",
        ),
        (
            "{id: y, op: matmul, inputs: [A, A], transpose_b: true, variants: [{name: cpu, tile: 8}]}",
            r":10:\d+: variant 'cpu' has no parameter 'tile'",
        ),
        ("{id: y, op: transpose, inputs: [A], chunks: [4]}", r":10:\d+: .*chunks"),
    ],
)
def test_unfit_operation(place, operation, message):
    (place / "job.yaml").write_text(BODY % operation)
    said = refused(place, r"^job\.yaml" + message)
    assert f"10 |   - {operation}" in said and "^" in said.splitlines()[2]


def test_variant_that_has_not_the_operator(place):
    unfit = [
        v for v in harness.list_variants() if v.op == "reduce" and set(v.operators) < set(harness.referee.OPERATORS)
    ]
    if not unfit:
        pytest.skip("no variant of this build refuses an operator")
    name = unfit[0].name
    operator = next(o for o in harness.referee.OPERATORS if o not in unfit[0].operators)
    operation = f"{{id: y, op: reduce, inputs: [A], operator: {operator}, axis: all, variants: [{name}]}}"
    (place / "job.yaml").write_text(BODY % operation)
    refused(place, rf"^job\.yaml:10:\d+: variant '{name}' of reduce has no operator '{operator}'")


def test_too_little_memory(place):
    refused(place, r"--memory: .*64 ?KiB", "--memory", "1KiB")
    refused(place, r"--memory: .*(4GiB|4GB)", "--memory", "4G")


# ---- YAML ----------------------------------------------------------------------------------------------------------


def test_all_errors_together(place):
    (place / "job.yaml").write_text(JOB.replace("repeat: 1}", "repet: 1}").replace("version: 1", "version: one"))
    said = refused(place, r"^job\.yaml:1:10: ")
    assert len(re.findall(r"^job\.yaml:[78]:\d+: unknown key 'repet'.*did you mean 'repeat'", said, re.M)) == 2


@pytest.mark.parametrize(
    "text, pattern",
    [
        (b"version: 1\nname: caf\xe9\n", r"^job\.yaml:2:10: not UTF-8 text \(byte 0xe9\)"),
        (b"version: 1\nx-loop: &a [1, *a]\noperations: []\n", r"^job\.yaml:2:16: this alias is cyclic"),
        (b"version: 1\nname: [unclosed\n", r"^job\.yaml:\d+:\d+: not YAML: "),
        (b"version: 1\nversion: 1\n", r"^job\.yaml:2:1: key 'version' is already on line 1"),
        (b"", r"^job\.yaml: the file is empty"),
        (b"- a\n- b\n", r"^job\.yaml:1:1: a job file must be a map that begins with 'version: 1'"),
        (b"version: 1\n---\nversion: 1\n", r"^job\.yaml:\d+:\d+: a second document begins here"),
        (b"x: " + b"[" * 100 + b"]" * 100, r"^job\.yaml:1:\d+: lists and maps are nested more than 64 levels deep"),
        (
            b"a: &a [" + b"1," * 400 + b"]\nb: &b [" + b"*a," * 400 + b"]\nc: [*b, *b]\n",
            r"^job\.yaml:\d+:\d+: the document expands to more than 100000 nodes",
        ),
    ],
    ids=["latin1", "cycle", "unclosed", "duplicate", "empty", "list", "two", "deep", "wide"],
)
def test_bad_yaml(place, text, pattern):
    (place / "job.yaml").write_bytes(text)
    refused(place, pattern, timeout=10)


def test_missing_job_and_directory(place):
    refused(place, r"^nowhere\.yaml: cannot be opened: No such file", job="nowhere.yaml")
    (place / "folder").mkdir()
    refused(place, r"^folder: is a directory, not a job file", job="folder")


def test_huge_yaml(folder):
    with open(folder / "job.yaml", "wb") as file:
        for _ in range(100):
            file.write(b"# a hundred megabytes of comments\n" * 30840)
    size = (folder / "job.yaml").stat().st_size
    done = harness.tilerun("run", folder / "job.yaml", timeout=5, expect=USAGE)
    assert done.stderr == f"{folder}/job.yaml: has {size} bytes; the maximum for a job file is 16 MiB\n"


def test_a_job_that_cannot_be_read_or_has_no_end(place):
    refused(place, r"^/proc/self/mem: cannot be read: Input/output error$", job="/proc/self/mem")
    (place / "job.yaml").write_text(17 * 2**20 * "#")
    with open(place / "job.yaml") as file:
        words = r"^/dev/fd/0: has more than 16 MiB, the maximum for a job file$"
        with subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) as endless:
            refused(place, words, job="/dev/fd/0", stdin=endless.stdout)


# ---- devices -------------------------------------------------------------------------------------------------------


def test_device_that_is_not_there(place):
    refused(place, r"cuda:99|demands a CUDA GPU", "--device", "cuda:99", code=DEVICE)
    refused(place, r"--device: .*'gpu' \(did you mean 'cuda'\?\)", "--device", "gpu")
    if not tree.has_cuda():
        refused(place, "demands a CUDA GPU .* this tilerun was built without CUDA", "--device", "cuda", code=DEVICE)


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_results_file_as_job(place, command):
    done = harness.tilerun(command, harness.ROOT / "data/digits.h5", expect=USAGE)
    assert "digits.h5: is an HDF5 file, not a job file; `tilerun show` prints results, `tilerun inspect` lists" in done.stderr


def test_hints(place):
    """Of a short word two edits leave too little for a hint; a variant is known whether the build has it or not."""
    base = {"id": "y", "op": "reduce", "inputs": ["x"], "axis": 0}
    for more, words in [
        ({"operator": "ptp"}, r"unknown value of 'operator': 'ptp' \(one of: sum"),
        ({"operator": "sun"}, r"unknown value of 'operator': 'sun' \(did you mean 'sum'\?\)"),
        ({"operator": "sum", "variants": ["shufle"]}, r"'shufle' of reduce \(did you mean 'shuffle'\?\)"),
        ({"operator": "sum", "variants": ["blockd"]}, r"'blockd' of reduce \(did you mean 'blocked'\?\)"),
    ]:
        path = harness.write_job(
            place / "hint.yaml", inputs={"x": {"random": {"shape": [4, 4]}}}, operations=[{**base, **more}]
        )
        done = harness.tilerun("check", path)
        assert done.returncode == USAGE and re.search(words, done.stderr), done.stderr


# ---- outputs -------------------------------------------------------------------------------------------------------


def test_output_in_a_bad_place(place):
    (place / "folder").mkdir()
    refused(place, r"output folder: is a directory", "-o", "folder")
    refused(place, r"output no/out\.h5: folder no: No such file or directory", "-o", "no/out.h5")
    refused(place, r"output data\.h5/out\.h5: .*(not a folder|Not a directory)", "-o", "data.h5/out.h5")
    refused(place, r"output data\.h5: is the job's input 'A'", "-o", "data.h5", "--overwrite")
    refused(place, r"output job\.yaml: is the job file itself", "-o", "job.yaml", "--overwrite")


def as_nobody(place):
    """Options that run the program as a user who is bound by permissions, which root is not."""
    place.chmod(0o777)
    place.parent.chmod(0o755)
    if os.geteuid() != 0:
        return {}
    options = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        subprocess.run([str(harness.TILERUN), "--version"], check=True, capture_output=True, **options)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the program cannot be reached by another user than root")
    return options


def test_unreadable_input(place):
    options = as_nobody(place)
    (place / "data.h5").chmod(0)
    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", cwd=place, **options)
    assert done.returncode == USAGE and "job.yaml:4:13: data.h5: Permission denied" in done.stderr, done.stderr
    assert not (place / "out.h5").exists() and not (place / "out.h5.parts").exists()


def test_unwritable_folder(place):
    options = as_nobody(place)
    (place / "closed").mkdir(mode=0o555)
    refused(
        place, r"output closed/out\.h5: cannot write in closed: Permission denied", "-o", "closed/out.h5", **options
    )
    assert list((place / "closed").iterdir()) == []


BIG = """\
version: 1
inputs: {A: {random: {shape: [300, 1000]}}}
operations:
  - {id: small, op: reduce, inputs: [A], operator: sum, axis: all, variants: [cpu], repeat: 1}
  - {id: large, op: scale, inputs: [A], variants: [cpu], repeat: 1}
"""


def test_full_disk(place):
    """As a limit on the size of files: what was finished is kept, and --resume goes on once there is room."""
    (place / "job.yaml").write_text(BIG)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))

    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", cwd=place, preexec_fn=limit, expect=IO)
    assert "out.h5" in done.stderr and re.search(r"File too large|limit", done.stderr), done.stderr
    assert not (place / "out.h5").exists() and len(list((place / "out.h5.parts").glob("*.h5"))) == 1
    done = harness.tilerun("run", "job.yaml", "-o", "out.h5", "--resume", cwd=place)
    assert done.returncode == OK and done.stderr.count("(kept from before)") == 1, done.stderr
    assert harness.Results(place / "out.h5").output("large").shape == (300, 1000)


DISK = "600k"


def test_full_disk_for_real(place, small_disk):
    """Random numbers do not shrink, which nobody can know before they are compressed."""
    (place / "job.yaml").write_text(BIG.replace("op: scale", "op: scale, compression: gzip"))
    output = small_disk / "out.h5"
    done = harness.tilerun("run", "job.yaml", "-o", output, cwd=place)
    assert done.returncode == IO and "No space left on device" in done.stderr, done.stderr
    assert not output.exists() and len(list(small_disk.glob("out.h5.parts/*.h5"))) == 1
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    done = harness.tilerun("run", "job.yaml", "-o", output, "--resume", cwd=place)
    assert done.returncode == OK and done.stderr.count("(kept from before)") == 1, done.stderr


def test_standard_output_that_is_full(place):
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(harness.TILERUN), "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == IO
