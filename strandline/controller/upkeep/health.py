"""Keeps the active controller's last view of the cluster's health, for metrics.

It is updated when a round of upkeep has surveyed the cluster; a scrape reads nothing from ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from strandline.controller.core.survey import Survey
from strandline.controller.core.upkeep.census import Census, take_census
from strandline.controller.core.upkeep.queues import Backlog, QueueEntry, backlog
from strandline.controller.term.surveying import read_queue
from strandline.controller.term.term import Term
from strandline.ids import BrokerId

NOTHING: Final = backlog(())


class ClusterHealth:
    """The cluster's health as one epoch sees it."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self.census: Census | None = None
        """None before the first look."""
        self.live: frozenset[BrokerId] = frozenset()
        self.backlogs: Mapping[BrokerId, Backlog] = {}
        """The backlog of every broker that is alive or has a queue."""
        self.looked_at = 0.0
        """When the last look ended, by the monotonic clock."""
        self._read: dict[BrokerId, tuple[tuple[str, ...], Backlog]] = {}
        """For each dead broker: the znodes in its queue at the last read, and its backlog then. The queue is
        read again only if its znodes change."""

    async def look(self, survey: Survey, queues: Mapping[BrokerId, Sequence[QueueEntry]]) -> None:
        """Takes the facts of a survey and of live brokers' queues, and reads the queues of dead brokers."""
        self._read = {broker: read for broker, read in self._read.items() if broker not in queues}
        backlogs = {
            broker: backlog(queues[broker]) if broker in queues else await self._read_backlog(broker)
            for broker in sorted(survey.known)
        }
        self.census, self.live, self.backlogs = take_census(survey), frozenset(survey.live), backlogs
        self.looked_at = self._term.clock.monotonic()

    async def _read_backlog(self, broker: BrokerId) -> Backlog:
        names, last = self._read.get(broker, (None, NOTHING))
        entries = await read_queue(self._term.session, broker, known=names)
        if entries is None:
            return last
        found = backlog(entries)
        self._read[broker] = tuple(entry.name for entry in entries), found
        return found
