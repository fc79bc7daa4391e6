"""The lives of a job: the commands that make its results, one after another, from whatever lay there before. For tests
that end these commands where nobody expects it."""

import harness
from harness import OK


def run(folder, *more):
    return ["run", folder / "job.yaml", "-o", folder / "out.h5", *more]


def merge(folder, *more):
    return ["merge", folder / "out.h5", *more]


def shards(folder, draw, *more):
    count = draw.randint(1, 4)
    return [run(folder, "--shard", f"{index}/{count}", *more) for index in range(count)]


def older(folder, draw):
    """The complete results of another job, or of this one, are there already."""
    text = (folder / "job.yaml").read_text()
    if draw.randrange(2):
        (folder / "job.yaml").write_text(text.replace('"low": -1', '"low": -2'))
    perform(run(folder))
    (folder / "job.yaml").write_text(text)


def whole(folder, draw):
    return [run(folder)]


def replaced(folder, draw):
    older(folder, draw)
    return [run(folder, "--overwrite")]


def continued(folder, draw):
    """Some of the runs are in the results file that will be replaced."""
    perform(run(folder, "--only", "o0"))
    return [run(folder, "--resume")]


def merged(folder, draw):
    return [*shards(folder, draw), merge(folder)]


def merged_over(folder, draw):
    older(folder, draw)
    return [*shards(folder, draw, "--overwrite"), merge(folder, "--overwrite")]


def shards_then_whole(folder, draw):
    some = shards(folder, draw)
    return [*some[: draw.randint(1, len(some))], run(folder, "--resume")]


def linked(folder, draw):
    """Virtual data sets first, then copies in their place."""
    return [*shards(folder, draw), merge(folder, "--link"), merge(folder, "--overwrite")]


def linked_then_whole(folder, draw):
    """The runs of a linked file go into one of copies."""
    for command in [*shards(folder, draw, "--only", "o0"), merge(folder, "--link")]:
        perform(command)
    return [run(folder, "--resume")]


LIVES = [whole, replaced, continued, merged, merged, merged_over, shards_then_whole, linked, linked_then_whole]


def again(command):
    """What goes on with a command that was killed."""
    return command if command[0] == "merge" or "--resume" in command else [*command, "--resume"]


def perform(command, **options):
    done = harness.tilerun(*command, "--progress", "plain", **options)
    assert done.returncode == OK, f"{command}: {done.stderr}"
    return done
