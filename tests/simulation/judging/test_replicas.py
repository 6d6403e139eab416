"""The judge of logs takes as replicas what brokers do (E18)."""

from __future__ import annotations

from pathlib import Path

from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.world import World
from strandline_lab.simulation.judging.replicas import Replicas, compared, read_log
from strandline_lab.simulation.stage import Stage
from tests.broker.storage.support.disk import FOLDER, append, fill, new_log


def test_a_folder_without_a_readable_description_holds_no_replica() -> None:
    """A loss of power may leave an empty description of a folder that was new."""
    with World(1) as world:
        stage = Stage(Cluster(world))
        files = stage.cluster.broker_machines[0].disk.files
        folder = Path("/data/0/topic-0-1f")
        files.make_directory(folder)
        files.close(files.open(folder / "partition.json", create=True))
        judge = Replicas(stage)
        world.run(judge.finish())
        assert judge.problems() == []


def test_batches_below_the_start_of_a_log_are_not_judged() -> None:
    """Their segment's file stays until another one follows, and the list of epochs begins at the start."""
    log, files = new_log()
    fill(log, 1)
    log.appending.begin_epoch(2)
    append(log, b"of the second epoch")
    log.cutting.advance_start(2)
    found = read_log(0, FOLDER, files)
    assert [batch.base_offset for batch in found.batches] == [2]
    assert list(compared({0: found}, (0,))) == []


def test_the_epoch_of_the_batch_in_which_a_log_starts_is_judged_at_the_start() -> None:
    """H9: the start may lie within a batch, and the list of epochs begins at the start."""
    log, files = new_log()
    fill(log, 2)
    log.cutting.advance_start(3)
    found = read_log(0, FOLDER, files)
    assert [batch.base_offset for batch in found.batches] == [2]
    assert list(compared({0: found}, (0,))) == []
