"""The replicas on the brokers' disks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strandline.broker.storage.state_files.partition_folder import DELETED_SUFFIX, DESCRIPTION, Description
from strandline.ports import Files
from strandline_lab.simulation.stage import Stage


@dataclass(frozen=True, slots=True)
class ReplicaFolder:
    """A folder of a broker, by its id."""

    broker: int
    path: Path
    files: Files
    description: Description


def replica_folders(stage: Stage) -> Iterator[ReplicaFolder]:
    """The folders of all replicas, broker by broker."""
    cluster = stage.cluster
    for broker, machine in zip(cluster.broker_ids, cluster.broker_machines, strict=True):
        files, top = machine.disk.files, Path(f"/data/{broker}")
        for name in sorted(files.directories(top)):
            if name.endswith(DELETED_SUFFIX) or DESCRIPTION not in files.sizes(top / name):
                continue
            try:
                description = Description.load(top / name, files=files)
            except ValueError:
                continue  # a loss of power took the description of a new folder: no replica is in it
            yield ReplicaFolder(broker, top / name, files, description)
