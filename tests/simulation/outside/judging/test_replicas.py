"""The judge of logs takes as replicas what brokers do (E18)."""

from __future__ import annotations

from pathlib import Path

from strandline.simulation.cluster import Cluster
from strandline.simulation.judging.replicas import Replicas
from strandline.simulation.stage import Stage
from strandline.simulation.world import World


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
