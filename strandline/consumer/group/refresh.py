"""Keeps the offsets of an idle consumer from expiring.

A group without members forgets an offset that is older than the broker's `offsets_retention_ms`. A consumer
with manually assigned partitions is no member, and commits nothing while no record arrives. So it commits
its unchanged offsets again every `offsets_refresh_ms`. A subscribed consumer does not need this.
"""

from __future__ import annotations

import logging

from strandline.client.reading.partition_reader import PartitionReader
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.group.commits import Commits
from strandline.consumer.group.committed import Committed
from strandline.errors import StrandlineError
from strandline.ports import Clock

logger = logging.getLogger(__name__)


class Refresh:
    """Commits unchanged offsets periodically. `run` is its task."""

    def __init__(
        self,
        commits: Commits,
        committed: Committed,
        *,
        reader: PartitionReader,
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._commits = commits
        self._committed = committed
        self._reader = reader
        self._settings = settings
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._settings.offsets_refresh_ms / 1000)
            try:
                await self.once()
            except StrandlineError as error:
                logger.warning("offsets are not committed again, and expire if that goes on: %s", error)

    async def once(self) -> None:
        """Commit again the offsets that are unchanged in the group. Raises StrandlineError."""
        if self._reader.subscribed:
            return
        names = [state.name for state in self._reader.positions if state.committed is not None]
        if names:
            await self._commits.commit_again(await self._committed.fetch(names))
