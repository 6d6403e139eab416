"""Makes the folders of new replicas survive a loss of power, before the replicas follow or lead (E18)."""

from __future__ import annotations

from functools import partial

from strandline.broker.replicas.folders.groups import Groups
from strandline.broker.replicas.replica import Replica
from strandline.broker.storage.provenance import Provenance, anchor_together
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.host import Threads


class Anchoring:
    """Anchors the logs of one broker. A thousand new replicas cost few waits for the disk."""

    def __init__(self, folder: DataFolder, threads: Threads) -> None:
        self._groups = Groups[Provenance](partial(anchor_together, sync_disk=folder.sync_disk), threads)

    async def anchor(self, replica: Replica) -> None:
        """Returns once the replica's log is anchored. If that is impossible, its log fails."""
        log = replica.log
        while not log.provenance.anchored and log.failed is None:
            await self._groups.join(log.provenance)
