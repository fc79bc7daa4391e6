"""What strangers may give us (hostile.py): each file has its exit code and its sentence, within 256 MiB and a few
seconds, and nothing is read or written but what the job names. configs/README.md says what is promised."""

import os
import shutil
import stat
from pathlib import Path

import h5py
import numpy as np
import pytest

import harness
import hostile
from harness import IO, OK, RUN, USAGE
from hostile import tilerun

STRANGER = 12345  # a user's number
DEPTHS = [1, 2, 15, 16, 17, 18]


@pytest.fixture(scope="module")
def corpus(memory_folder):
    place = memory_folder / "hostile"
    (place / "in").mkdir(parents=True)
    (place / "outside").mkdir()
    hostile.make_claims(place / "in/claims.h5")
    hostile.make_bombs(place / "in/bombs.h5")
    hostile.make_places(place / "in/places.h5")
    hostile.make_links(place / "in", place / "outside")
    hostile.make_depths(place / "in/depths.h5", DEPTHS)
    hostile.make_names(place / "in/names.h5")
    hostile.make_groups(place / "in")
    yield place
    shutil.rmtree(place)


def below(path):
    """All files below a folder, with what they hold."""
    return {p: p.read_bytes() for p in sorted(path.rglob("*")) if stat.S_ISREG(p.lstat().st_mode)}


def run(corpus, folder, file, dataset, *flags, rows=None, **job):
    """Runs a job that sums a data set up; nothing in the corpus changes, nothing appears but its output."""
    harness.write_job(
        folder / "job.yaml", memory="64MiB", device="cpu",
        inputs={"x": {"file": f"{corpus}/in/{file}", "dataset": f"/{dataset}"} | ({"rows": rows} if rows else {})},
        defaults={"warmup": 0, "repeat": 1},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"]}], **job,
    )
    before, outside = below(corpus), sorted(os.listdir(corpus))
    done = tilerun("run", "job.yaml", "--once", "--progress", "none", "-o", "out.h5", *flags, cwd=folder)
    assert below(corpus) == before and sorted(os.listdir(corpus)) == outside
    left = set(os.listdir(folder)) - {"job.yaml"}
    assert left <= {"out.h5", "out.h5.parts"}
    return done


def refused(corpus, folder, file, dataset, code, words, **job):
    done = run(corpus, folder, file, dataset, **job)
    lines = done.err.decode().splitlines()
    said = lines[0].replace(f"{corpus}/in/", "").replace(f"{corpus}/", "")
    said = said.split(": ", 1)[1]
    assert (done.code, said) == (code, words), done.err.decode()
    assert not (folder / "out.h5").exists()
    for data in below(folder).values():
        assert hostile.CANARY not in data


CLAIMS = {
    "nothing": "claims 8.0 TiB, of which the file holds 0 B; it is not read",
    "few": "claims 8.0 TiB, of which the file holds 8.0 KiB; it is not read",
    "crumbs": "claims 1.1e+12 chunks, more than the file has bytes; it is not read",
    "late": "claims 4.0 TiB, of which the file holds 0 B; it is not read",
    "slab": "has chunks of 256.0 MiB, larger than the 64.0 MiB that 'memory' allows",
    "whole": "is damaged: part of its 8.0 KiB lies beyond the end of the file",
}


@pytest.mark.parametrize("dataset", CLAIMS)
def test_claims(corpus, folder, dataset):
    if dataset == "whole" and harness.hdf5_version() >= (1, 14):  # finds it itself, when it opens the data set
        done = run(corpus, folder, "claims.h5", dataset)
        words = "claims.h5: '/whole' cannot be opened: invalid dataset size, likely file corruption"
        assert done.code == USAGE and words in done.err.decode(), done.err.decode()
        return
    refused(corpus, folder, "claims.h5", dataset, USAGE, f"claims.h5: '/{dataset}' {CLAIMS[dataset]}")


@pytest.mark.parametrize("memory, most", [
    ("1GiB", None), ("256MiB", None), ("255MiB", "255.0 MiB"), ("100MiB", "100.0 MiB"), ("1MiB", "64.0 MiB"),
    ("90%", None), ("0.0001%", "64.0 MiB"),
])  # fmt: skip
def test_chunks_as_large_as_the_memory(corpus, folder, memory, most):
    """They are read; larger ones, but of 64 MiB at least, are not."""
    harness.write_job(
        folder / "job.yaml", memory=memory, device="cpu",
        inputs={"x": {"file": f"{corpus}/in/claims.h5", "dataset": "/slab", "rows": [0, 4]}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"]}],
    )  # fmt: skip
    done = tilerun("plan", "job.yaml", cwd=folder)
    words = f"claims.h5: '/slab' has chunks of 256.0 MiB, larger than the {most} that 'memory' allows\n"
    assert done.code == (USAGE if most else OK) and (words in done.err.decode() if most else done.err == b"")


@pytest.mark.parametrize("user_block", [0, 512, 4096])
@pytest.mark.parametrize("claims", [1 << 16, 1 << 30, 0xFFFFFFFF])
@pytest.mark.parametrize("base", [0, 512, 7168])
def test_a_driver_that_claims_much(folder, user_block, claims, base):
    hostile.make_driver(folder / "in.h5", user_block, claims, base)
    done = tilerun("inspect", "in.h5", cwd=folder)
    words = "tilerun: in.h5: is a damaged HDF5 file: the driver information block is longer than the file\n"
    assert (done.code, done.err.decode()) == (USAGE, words)


@pytest.mark.parametrize("length", [11, 1 << 16, 1 << 30, 0xB0000000, 0xFFFFFFFF])
def test_a_unit_that_claims_to_be_long(corpus, folder, length):
    """It is passed over (HDF5 1.10 passes over none that fits into 128 MiB), or as long as it is."""
    hostile.make_long_text(corpus / "in/unit.h5", length)
    assert run(corpus, folder, "unit.h5", "x").code == OK
    with h5py.File(folder / "out.h5") as file:
        assert file["outputs/y"].attrs.get("units", "millimetres") == "millimetres"
        assert length > len("millimetres") or "units" in file["outputs/y"].attrs


def test_claims_are_only_said_of_what_is_read(corpus):
    done = tilerun("inspect", corpus / "in/claims.h5")
    assert done.code == OK and b"6 data sets" in done.out


NOT_A_CHUNK = "it cannot be decompressed to a whole chunk"
BOMBS = {
    "gzip": "it cannot be inflated",
    "gzip_twice": "it cannot be inflated",
    "scaled": "it cannot be inflated",
    "lzf": "it is not LZF of a whole chunk",
    **dict.fromkeys(["zstd", "zstd_twice", "zstd_claims", "lz4", "bitshuffle", "blosc"], NOT_A_CHUNK),
}


@pytest.mark.parametrize("dataset", BOMBS)
def test_bombs(corpus, folder, dataset):
    if b"not installed" in tilerun("inspect", corpus / "in/bombs.h5", f"/{dataset}").out:
        pytest.skip("its library is not here")
    words = f"'/{dataset}' in bombs.h5: chunk at [0] cannot be read: {BOMBS[dataset]}"
    refused(corpus, folder, "bombs.h5", dataset, IO, words)


@pytest.mark.parametrize("dataset", ["mapped", "nested"])
def test_bombs_behind_virtual_data_sets(corpus, folder, dataset):
    """Only where the job sees them."""
    words = "'/gzip' in bombs.h5: chunk at [0] cannot be read: it cannot be inflated"
    refused(corpus, folder, "bombs.h5", dataset, IO, words)
    assert run(corpus, folder, "bombs.h5", dataset, "--overwrite", rows=[0, hostile.CHUNK]).code == OK


@pytest.mark.parametrize("dataset", ["beyond", "half"])
def test_chunks_beyond_the_end(corpus, folder, dataset):
    done = run(corpus, folder, "places.h5", dataset)
    assert done.code == IO
    said = done.err.decode().replace(f"{corpus}/in/", "")
    assert said.startswith(f"tilerun: '/{dataset}' in places.h5: chunk at [512] cannot be read: "), said


def test_chunks_on_top_of_each_other(corpus, folder):
    """They are read as what lies there."""
    assert run(corpus, folder, "places.h5", "over").code == OK
    with h5py.File(folder / "out.h5") as file:
        assert (file["outputs/y"][:] == np.tile(np.arange(512), 2)).all()


OUTSIDE = ", which is outside of its folder: only 'external: allow' in the job file permits that"
NO_FILE = ", which is not a regular file"
LINKS = {
    "far": "is an external link to outside/secret.h5" + OUTSIDE,
    "up": "is an external link to ../outside/secret.h5" + OUTSIDE,
    "soft": "is an external link to ../outside/secret.h5" + OUTSIDE,
    "group/x": "is an external link to outside/secret.h5" + OUTSIDE,
    "pipe": "is an external link to pipe" + NO_FILE,
    "far_pipe": "is an external link to outside/pipe" + OUTSIDE,
    "device": "is an external link to /dev/zero" + OUTSIDE,
    "stored": "is stored in outside/secret.bin" + OUTSIDE,
    "stored_pipe": "is stored in pipe" + NO_FILE,
    "mapped": "is a virtual data set of ../outside/secret.h5" + OUTSIDE,
    "nested": "is a virtual data set of ../outside/secret.h5" + OUTSIDE,
    "by_link": "is an external link to ../outside/secret.h5" + OUTSIDE,
    "numbered": "is a virtual data set of number-1.h5" + OUTSIDE,
    "by_number": "is an external link to ../outside/secret.h5" + OUTSIDE,
    "itself": "is a virtual data set that reads itself",
    "partner": "is a virtual data set that reads itself",
    "gone": "is a virtual data set of 'x' in gone.h5, which is not there; `sources: fill` of the input reads fill values instead",
    "circle": "is an external link to '/x' in loop.h5, which has no such object that can be opened",
    "turn": "is a soft link to '/back', which is a soft link to '/turn', which is a soft link to '/back', which leads on to other links",
}


@pytest.mark.parametrize("dataset", LINKS)
def test_links(corpus, folder, dataset):
    refused(corpus, folder, "links.h5", dataset, USAGE, f"links.h5: '/{dataset}' {LINKS[dataset]}")


@pytest.mark.parametrize("depth", DEPTHS)
def test_virtual_data_sets_of_each_other(corpus, folder, depth):
    """They are followed 16 deep; until there a circle is known as one."""
    deeper = "is made of too many virtual data sets of virtual data sets"
    words = f"depths.h5: '/circle-{depth}' {LINKS['itself'] if depth <= 16 else deeper}"
    refused(corpus, folder, "depths.h5", f"circle-{depth}", USAGE, words)
    if depth > 16:
        refused(corpus, folder, "depths.h5", f"chain-{depth}", USAGE, f"depths.h5: '/chain-{depth}' {deeper}")
        return
    assert run(corpus, folder, "depths.h5", f"chain-{depth}").code == OK
    with h5py.File(folder / "out.h5") as file:
        assert (file["outputs/y"][:] == 1).all()


@pytest.mark.parametrize("dataset", ["whole", "g/again/g/again/whole", "near"])
def test_links_that_are_followed(corpus, folder, dataset):
    """Beside the file, and round a circle of hard links."""
    assert run(corpus, folder, "links.h5", dataset).code == OK
    with h5py.File(folder / "out.h5") as file:
        assert (file["outputs/y"][:] == 1).all()


@pytest.mark.parametrize("dataset", ["far", "soft", "stored", "mapped", "nested", "by_link", "numbered", "by_number"])
def test_allow(corpus, folder, dataset):
    assert run(corpus, folder, "links.h5", dataset, external="allow").code == OK
    with h5py.File(folder / "out.h5") as file:
        assert hostile.CANARY[:16] in file["outputs/y"][:].tobytes()


@pytest.mark.parametrize(
    "dataset, words",
    [
        ("near", "is an external link to near.h5"),
        ("gone", "is a virtual data set of gone.h5"),
        ("stored", "is stored in outside/secret.bin"),
    ],
)
def test_deny(corpus, folder, dataset, words):
    words = f"links.h5: '/{dataset}' {words}, and the job says 'external: deny'"
    refused(corpus, folder, "links.h5", dataset, USAGE, words, external="deny")


@pytest.mark.parametrize("dataset", ["pipe", "stored_pipe", "itself"])
def test_never_allowed(corpus, folder, dataset):
    words = f"links.h5: '/{dataset}' {LINKS[dataset]}"
    refused(corpus, folder, "links.h5", dataset, USAGE, words, external="allow")


def test_a_scale_that_is_stored_elsewhere(corpus, folder):
    done = run(corpus, folder, "links.h5", "scaled")
    assert done.code == OK and b"cannot be copied: " in done.err and OUTSIDE.encode() in done.err
    assert all(hostile.CANARY[:16] not in data for data in below(folder).values())


def test_inspect_follows_nothing_outside(corpus):
    done = tilerun("inspect", "links.h5", cwd=corpus / "in")
    assert done.code == OK
    rows = {line.split()[0]: line for line in done.out.decode().splitlines() if line.startswith("/")}
    assert {"/whole", "/near", "/mapped", "/stored"} <= set(rows) and not {"/far", "/up", "/soft"} & set(rows)
    assert " unknown " in rows["/mapped"] and " unknown " in rows["/stored"]
    assert b"links that lead out of the file's folder are not followed, such as /" in done.out


# ---- groups without end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, why", [
    ("circle", ""),
    ("shared", "is a damaged HDF5 file: more links than the file has room for < "),
    ("deep", "is a damaged HDF5 file: groups are nested too deeply < "),
])  # fmt: skip
def test_groups_without_end(corpus, folder, name, why):
    """Whatever lists a file's data sets goes into each group once; what is named is found all the same."""
    done = tilerun("inspect", f"{name}.h5", cwd=corpus / "in")
    if why:
        assert (done.code, done.out) == (USAGE, b"") and f"tilerun: {name}.h5: {why}" in done.err.decode()
    else:
        assert done.code == OK
        assert [line.split()[0] for line in done.out.splitlines() if line.startswith(b"/")] == [b"/deepest"]
    done = run(corpus, folder, f"{name}.h5", "depest")
    assert done.code == USAGE and b"has no data set '/depest' (did you mean '/deepest'?)" in done.err
    assert run(corpus, folder, f"{name}.h5", "deepest").code == OK


# ---- names -----------------------------------------------------------------------------------------------------------


def test_names(corpus, folder):
    """Done.__init__ looks for what a terminal would obey."""
    for file in ("names.h5", "links.h5", "bombs.h5"):
        assert tilerun("inspect", corpus / "in" / file).code == OK
    assert tilerun("inspect", corpus / "in/names.h5", "/none").code == USAGE
    assert run(corpus, folder, "names.h5", "none").code == USAGE
    for kind, name in hostile.NAMES.items():
        name = name.replace("/", "|")
        assert tilerun("inspect", corpus / "in/names.h5", f"/{name}").code == OK, kind
        assert run(corpus, folder, "names.h5", f"away {name}").code == USAGE
        done = run(corpus, folder, "names.h5", name)
        assert done.code in (OK, USAGE), done.err
        for command in (["plan"], ["plan", "--resolved"], ["check"]):
            assert tilerun(*command, "job.yaml", cwd=folder).code == done.code
        if done.code == OK:
            look_at_results(folder)
            (folder / "out.h5").unlink()


def look_at_results(folder, compared=OK):
    for command in (["show"], ["show", "--csv"], ["show", "--json"], ["show", "--md"]):
        assert tilerun(*command, "out.h5", cwd=folder).code == OK, command
    assert tilerun("compare", "out.h5", "out.h5", cwd=folder).code == compared
    assert tilerun("report", "out.h5", "-o", "page.html", cwd=folder).code == OK
    page = (folder / "page.html").read_text()
    (folder / "page.html").unlink()
    assert "<script>alert" not in page and not any(c in page for c in "\x07\x1b\x7f\x9b")


def test_job_to_begin_with(corpus, folder):
    """The job that `inspect --job` prints means these names, and prints none of them raw."""
    done = tilerun("inspect", "--job", corpus / "in/names.h5")
    assert done.code == OK
    (folder / "job.yaml").write_bytes(done.out)
    assert tilerun("check", "job.yaml", cwd=folder).code == OK


def test_names_in_results(corpus, folder):
    """A results file from a stranger, whose texts are all hostile."""
    assert run(corpus, folder, "links.h5", "whole").code == OK
    evil = "".join(hostile.NAMES.values())
    with h5py.File(folder / "out.h5", "a") as file:
        rows = file["runs"][:]
        for name in ("message", "device_name", "parameters", "verify", "flags"):
            if rows.dtype[name].kind == "O" or rows.dtype[name].kind == "S":
                rows[name] = evil.encode()
        file["runs"][:] = rows
        for attributes in (file.attrs, file["environment"].attrs):
            for name in attributes:
                if isinstance(attributes[name], str) and name not in ("schema", "status", "tool_version"):
                    attributes[name] = evil
    look_at_results(folder, compared=RUN)  # under such parameters the file has no output


@pytest.mark.parametrize("name, code", [("job", OK), ("job_resolved", OK), ("runs", USAGE)])
def test_results_of_a_size_that_no_result_has(corpus, folder, name, code):
    assert run(corpus, folder, "links.h5", "whole").code == OK
    with h5py.File(folder / "out.h5", "a") as file:
        kind, size = file[name].dtype, 2**31 + 5 if name == "runs" else 100000
        del file[name]
        file.create_dataset(name, (size,), kind, chunks=(1000,))
    assert tilerun("show", folder / "out.h5").code == code


# ---- where it is written ---------------------------------------------------------------------------------------------


@pytest.fixture
def place(folder):
    """A folder with a job in a folder with a canary."""
    (folder / "canary").write_bytes(hostile.CANARY)
    (folder / "job").mkdir()
    harness.write_job(
        folder / "job/job.yaml", memory="64MiB", device="cpu", inputs={"x": {"random": {"shape": [4, 4]}}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"]}],
    )
    yield folder
    assert (folder / "canary").read_bytes() == hostile.CANARY


@pytest.mark.parametrize("flags", [(), ("--resume",), ("--overwrite",)])
@pytest.mark.parametrize("name", ["", "/lock", "/run-0.tmp", "/assembled.tmp", "/note.tmp", "/x.h5"])
def test_links_planted_in_parts(place, name, flags):
    """OUTPUT.parts and the names in it: no link is written through."""
    parts = place / "job/out.h5.parts"
    if name:
        parts.mkdir()
    Path(f"{parts}{name}").symlink_to(place / "canary")
    done = tilerun("run", "job.yaml", "--once", "--progress", "none", "-o", "out.h5", *flags, cwd=place / "job")
    assert done.code == (OK if name in ("/x.h5", "/note.tmp") else USAGE), done.err
    if name in ("/run-0.tmp", "/assembled.tmp"):
        words = "has a name of tilerun's but is not a regular file; move it away first"
        assert done.err.decode() == f"tilerun: out.h5.parts{name}: {words}\n"
    if name == "":
        words = "is a symbolic link; finished runs are kept beside the output, so remove the link"
        assert done.err.decode() == f"tilerun: out.h5.parts: {words}\n"
    if name == "/lock":
        assert done.err == b"tilerun: out.h5.parts/lock: cannot be opened: Too many levels of symbolic links\n"
    assert set(os.listdir(place)) == {"canary", "job"}


def test_a_part_that_is_a_link(place):
    """A finished run somewhere else is none of ours."""
    job = place / "job"
    command = ["run", "job.yaml", "--once", "--progress", "none", "-o", "out.h5"]
    assert tilerun(*command, "--shard", "0/1", cwd=job).code == OK
    (part,) = (p for p in job.rglob("*.h5") if len(p.stem) == 32)
    part.rename(place / "kept")
    part.symlink_to(place / "kept")
    before = (place / "kept").read_bytes()
    words = "has a name of tilerun's but is not a regular file; move it away first"
    done = tilerun(*command, "--shard", "0/1", "--resume", cwd=job)
    assert (done.code, done.err.decode()) == (USAGE, f"tilerun: {part.relative_to(job)}: {words}\n")
    done = tilerun("merge", "out.h5", cwd=job)
    assert done.code == USAGE and words in done.err.decode()
    assert (place / "kept").read_bytes() == before and not (job / "out.h5").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o755])
def test_a_folder_that_all_can_write(place, mode):
    """A link that another user has put there, and parts that are another's."""
    job = place / "job"
    command = ["run", "job.yaml", "--once", "--progress", "none", "--overwrite", "-o"]
    job.chmod(mode)
    (job / "link.h5").symlink_to(place / "aim")
    os.lchown(job / "link.h5", STRANGER, STRANGER)
    done = tilerun(*command, "link.h5", cwd=job)
    if mode == 0o755:
        assert done.code == OK and (place / "aim").exists()
    else:
        words = "is a symbolic link that another user has put into a world-writable folder"
        assert (done.code, done.err.decode()) == (USAGE, f"tilerun: output link.h5: {words}\n")
        assert not (place / "aim").exists()
    (job / "out.h5.parts").mkdir()
    os.chown(job / "out.h5.parts", STRANGER, STRANGER)
    done = tilerun(*command, "out.h5", cwd=job)
    if mode == 0o755:
        assert done.code == OK
    else:
        words = "belongs to another user, in a folder in which everybody may write; name an output elsewhere"
        assert (done.code, done.err.decode()) == (USAGE, f"tilerun: out.h5.parts: {words}\n")
        assert not (job / "out.h5").exists()


@pytest.mark.parametrize("key", ["output", "to"])
@pytest.mark.parametrize("where", ["../../canary", "absolute"])
def test_a_job_writes_where_it_says_and_replaces_nothing(place, key, where):
    """`output` and `to` go where the job says, which is for its reader to see; what is there stays."""
    (place / "job/deep").mkdir()
    path = str(place / "canary") if where == "absolute" else where
    operation = {"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"]}
    job = {"inputs": {"x": {"random": {"shape": [4, 4]}}}, "operations": [operation]}
    if key == "to":
        operation["to"] = f"{path}:/x"
    else:
        job["output"] = path
    harness.write_job(place / "job/deep/job.yaml", **job)
    done = tilerun("run", "job.yaml", "--once", "--progress", "none", cwd=place / "job/deep")
    what = "file" if key == "to" else "output"
    assert done.code == USAGE and done.err.decode().startswith(f"tilerun: {what} "), done.err
    words = "exists" if key == "to" else "exists and is not an HDF5 file but text"
    assert f"canary: {words}; --overwrite replaces it" in done.err.decode()
    assert set(os.listdir(place)) == {"canary", "job"} and os.listdir(place / "job/deep") == ["job.yaml"]
