"""Commits the positions of tasks to the group, for its visible lag and for stateless tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from strandline.consumer.consumer import Consumer
from strandline.errors import InvalidRequest, StrandlineError
from strandline.ids import TopicPartition
from strandline.streams.runtime.tasks.active import ActiveTask
from strandline.vocabulary.log_position import LogPosition

logger = logging.getLogger(__name__)


class GroupOffsets:
    """Commits what tasks have already committed. A stateful task uses its changelog and does not depend on
    this; a stateless task repeats uncommitted records, which shows only in its outputs. Tasks that commit in
    transactions have their offsets there."""

    def __init__(self, consumer: Consumer, *, timeout_s: float) -> None:
        self._consumer = consumer
        self._timeout_s = timeout_s
        self._committed: dict[TopicPartition, LogPosition] = {}
        self._committing = asyncio.Lock()
        """So that no older offset of a partition arrives behind a newer one."""

    async def commit(self, tasks: Collection[ActiveTask]) -> None:
        """Never raises: failed commits are retried at the next call."""
        async with self._committing:
            mine = self._consumer.assignment()
            offsets = {
                name: at
                for task in tasks
                if not task.abandoned() and not task.commits_offsets
                for name, at in task.committed.items()
                if name in mine and self._committed.get(name) != at
            }
            if not offsets:
                return
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._consumer.commit(offsets)
            except (StrandlineError, TimeoutError) as error:
                level = logging.DEBUG if isinstance(error, InvalidRequest) else logging.INFO
                logger.log(level, "offsets of %d partitions are not committed yet: %s", len(offsets), error)
            else:
                self._committed |= offsets

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions left: when they return, they are committed again."""
        for name in partitions:
            self._committed.pop(name, None)
