"""What a shard costs beside its runs does not depend on how many there are: simulated with 10 and with 60 (with 1,000
by tests/bench/shards.py), with the calls of the file system counted."""

import faults
import many_shards
import pytest

MOST_CALLS = 80  # of metadata, in a shard of one run
MOST_FILES = 2  # a shard's note and the part of its run
MOST_CALLS_OF_MERGE = 60  # for each shard


@pytest.fixture(scope="module")
def simulations(memory_folder):
    shim, found = faults.build_shim(memory_folder, "count_shim"), {}
    for shards in (10, 60):
        folder = memory_folder / f"{shards}-shards"
        folder.mkdir()
        found[shards] = many_shards.simulate(folder, shim, shards)
    return found


def test_calls_of_a_shard_stay_flat(simulations):
    """The first makes the folder that all share, so it is left out."""
    calls = [shard.calls for found in simulations.values() for shard in found.shards[1:]]
    assert calls.count(calls[0]) == len(calls), [calls[0], next(other for other in calls if other != calls[0])]
    for found in simulations.values():
        assert all(10 < many_shards.metadata(shard) <= MOST_CALLS for shard in found.shards)
        assert all(shard.files == MOST_FILES for shard in found.shards)


def test_merge_grows_with_the_shards_alone(simulations):
    few, many = [many_shards.metadata(found.merge) for found in simulations.values()]
    assert 5 < (many - few) / 50 <= MOST_CALLS_OF_MERGE
    assert many <= 60 * few / 10
