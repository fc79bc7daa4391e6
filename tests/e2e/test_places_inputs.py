"""No file that a job reads is written, whatever leads to it: links, mappings, external storage, parts of another run."""

import shutil

import h5py
import pytest

import harness
from harness import OK, USAGE
from places import FLAGS, X, run, snapshot, write_job


def stored_outside(folder, name):
    """A data set whose bytes are in NAME.bin."""
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file.create_dataset("x", data=X, external=[(f"{name}.bin", 0, h5py.h5f.UNLIMITED)])
    return [f"{name}.bin"]


def virtual(folder, name, sources, dataset="x"):
    layout = h5py.VirtualLayout((4 * len(sources), 3), "f4")
    for i, source in enumerate(sources):
        layout[4 * i : 4 * i + 4] = h5py.VirtualSource(source, dataset, (4, 3))
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file.create_virtual_dataset("x", layout)


def through_links(folder):
    with h5py.File(folder / "c.h5", "w") as file:
        file["deep/x"] = X
    harness.write_arrays(folder / "b.h5", group=h5py.ExternalLink("c.h5", "/deep"), soft=h5py.SoftLink("/group/x"))
    harness.write_arrays(folder / "in.h5", x=h5py.ExternalLink("b.h5", "/soft"))
    return ["b.h5", "c.h5"]


def through_mappings(folder):
    """A virtual data set of a file, of a virtual one, and of an external link."""
    for name in ("plain", "inner", "linked"):
        harness.write_arrays(folder / f"{name}.h5", x=X)
    virtual(folder, "outer", ["inner.h5"])
    harness.write_arrays(folder / "link.h5", x=h5py.ExternalLink("linked.h5", "x"))
    virtual(folder, "in", ["plain.h5", "outer.h5", "link.h5"])
    return ["plain.h5", "outer.h5", "inner.h5", "link.h5", "linked.h5"]


def through_numbered_files(folder):
    """block-%b.h5: as many as there are."""
    for i in range(3):
        harness.write_arrays(folder / f"block-{i}.h5", x=X)
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    space = h5py.h5s.create_simple((0, 3), (h5py.h5s.UNLIMITED, 3))
    space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (4, 3), (4, 3))
    source = h5py.h5s.create_simple((4, 3))
    creation.set_virtual(space, b"block-%b.h5", b"x", source)
    with h5py.File(folder / "in.h5", "w") as file:
        h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((12, 3)), creation)
    return [f"block-{i}.h5" for i in range(3)]


def through_names_with_percents(folder):
    """In a mapping %% stands for a percent sign."""
    names = ["50%.h5", "%b.h5", "%%b.h5"]
    for name in names:
        harness.write_arrays(folder / name, x=X)
    virtual(folder, "in", [name.replace("%", "%%") for name in names])
    return names


def in_another_folder(folder):
    """HDF5 looks beside the file that the name stands in; for the raw file, in the current folder."""
    (folder / "data").mkdir()
    harness.write_arrays(folder / "data/far.h5", x=X)
    harness.write_arrays(folder / "data/near.h5", x=h5py.ExternalLink("far.h5", "x"))
    (folder / "in.h5").symlink_to("data/near.h5")
    return ["data/near.h5", "data/far.h5"]


SOURCES = {
    "links": through_links,
    "mappings": through_mappings,
    "numbered": through_numbered_files,
    "percents": through_names_with_percents,
    "outside": lambda folder: stored_outside(folder, "in"),
    "folder": in_another_folder,
}


@pytest.mark.parametrize("way", SOURCES)
def test_no_file_that_an_input_reads_is_written(folder, way, monkeypatch):
    monkeypatch.chdir(folder)  # where h5py finds the file of external storage
    sources = SOURCES[way](folder)
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"x": {"file": "in.h5", "dataset": "x"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"], "repeat": 1}],
    )
    (folder / "sub").mkdir()
    before = snapshot(folder)
    for source in sources:
        assert (folder / source).exists()
        (folder / "alias.h5").symlink_to(source)
        for name in (source, "alias.h5"):
            for flag in ("--overwrite", "--resume"):
                done = harness.tilerun("run", "job.yaml", "-o", name, flag, cwd=folder)
                assert done.returncode == USAGE and "the job's input 'x'" in done.stderr, done.stderr
            done = harness.tilerun("run", "job.yaml", "-o", "out.h5", "--trace", name, "--overwrite", cwd=folder)
            assert done.returncode == USAGE and "the job's input 'x'" in done.stderr, done.stderr
        (folder / "job2.yaml").write_text((folder / "job.yaml").read_text().replace("{", f'{{"output": "{source}",', 1))
        done = harness.tilerun("check", "job2.yaml", cwd=folder, expect=USAGE)
        assert done.stderr.startswith("job2.yaml: output ") and "the job's input 'x'" in done.stderr, done.stderr
        (folder / "job2.yaml").unlink()
        (folder / "alias.h5").unlink()
    assert snapshot(folder) == before
    assert harness.tilerun("run", "job.yaml", "-o", "out.h5", cwd=folder).returncode == OK


def test_check_says_that_an_output_is_read(folder):
    write_job(folder)
    text = (folder / "job.yaml").read_text()
    for output, words in (
        ("in.h5", "is the job's input 'x'; give another name, with 'output' or -o"),
        ("job.yaml", "is the job file itself"),
    ):
        (folder / "job.yaml").write_text(text.replace("{", f'{{"output": "{output}",', 1))
        done = harness.tilerun("check", "job.yaml", cwd=folder)
        assert (done.returncode, done.stdout) == (USAGE, "")
        assert done.stderr == f"job.yaml: output {output}: {words}\n"
    for output in ("new.h5", "no/such/folder/new.h5"):  # which may be there by the time that it runs
        (folder / "job.yaml").write_text(text.replace("{", f'{{"output": "{output}",', 1))
        done = harness.tilerun("check", "job.yaml", cwd=folder)
        assert (done.returncode, done.stdout, done.stderr) == (OK, "", "")


def test_an_input_among_the_parts(folder, made):
    """A part of an interrupted job is a good input, but not of the job that would remove it."""
    write_job(folder)
    shutil.copytree(made / "parts", folder / "out.h5.parts")
    (part,) = (folder / "out.h5.parts").iterdir()
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"x": {"file": str(part), "dataset": "output"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "variants": ["cpu"], "repeat": 1}],
    )
    before = snapshot(folder)
    for flags in FLAGS:
        done = run(folder, *flags)
        assert done.returncode == USAGE and "the job's input 'x' lies in out.h5.parts" in done.stderr, done.stderr
    assert snapshot(folder) == before
