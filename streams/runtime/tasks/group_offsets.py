"""Tells the group how far its tasks are: for whoever looks at lag, and for tasks without a state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from strandline.consumer.consumer import Consumer
from strandline.errors import InvalidRequest, StrandlineError
from strandline.ids import TopicPartition
from strandline.streams.runtime.tasks.active import ActiveTask

logger = logging.getLogger(__name__)


class GroupOffsets:
    """Commits what tasks have committed already. A task with a state goes by its changelog, whatever becomes
    of this; one without repeats what is missing here, which only its outputs show."""

    def __init__(self, consumer: Consumer, *, timeout_s: float) -> None:
        self._consumer = consumer
        self._timeout_s = timeout_s
        self._told: dict[TopicPartition, int] = {}

    async def commit(self, tasks: Iterable[ActiveTask]) -> None:
        """Never raises: what is not told now is told next time."""
        mine = self._consumer.assignment()
        offsets = {
            name: offset
            for task in tasks
            if not (task.abandoned() or task.uncommitted)
            for name, offset in task.offsets().items()
            if name in mine and self._told.get(name) != offset
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
            self._told |= offsets

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These went: when they return they are told anew."""
        for name in partitions:
            self._told.pop(name, None)
