"""Deletes records from the start of a partition: as many as a client says, on every in-sync replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.errors import (
    InvalidRequest,
    InvalidTopic,
    OffsetNotAvailable,
    OffsetOutOfRange,
    RequestTimedOut,
    StrandlineError,
)
from strandline.ids import INTERNAL_PREFIX, TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log import LATEST, DeletedRecords

AGAIN_S: Final = 0.02
"""The pause before the in-sync replicas are asked again, after one of them did not answer."""


class RecordDeletion:
    """The deletions of one broker."""

    def __init__(
        self, manager: ReplicaManager, find: Callable[[TopicPartition], Replica], clock: Clock
    ) -> None:
        """`find`: as `Handlers.replica`."""
        self._manager = manager
        self._find = find
        self._clock = clock

    async def delete(self, name: TopicPartition, offset: int, timeout_s: float) -> DeletedRecords:
        """Deletes the records below an offset, or with LATEST all that are committed.

        Answered once every in-sync replica has deleted them: no later leader shows them again, but for an
        unclean election.
        """
        try:
            if name.topic.startswith(INTERNAL_PREFIX):
                raise InvalidTopic(f"topic {name.topic!r} is the system's own: its records are not deleted")
            replica = self._find(name)
        except StrandlineError as error:
            return DeletedRecords(name, error)
        try:
            return await self._delete(replica, offset, self._clock.monotonic() + timeout_s)
        except StrandlineError as error:
            return DeletedRecords(name, self._manager.with_hint(error, replica))

    async def _delete(self, replica: Replica, offset: int, deadline: float) -> DeletedRecords:
        leadership, log = await self._led(replica, offset, deadline), replica.log
        if not replica.config.deletes:
            raise InvalidRequest(f"{replica.name}: cleanup.policy of its topic does not allow a deletion")
        wanted = self._wanted(leadership, offset)
        if wanted > log.log_start_offset:
            log.cutting.advance_start(wanted, as_leader=True)
            replica.announce()  # a fetch below it ends
        # A replica that catches up learns the start too: it may join after the answer.
        _ = [flow.confirmed() for flow in leadership.followers]
        while not await self._all_have_it(leadership):
            replica.led()
            if self._clock.monotonic() >= deadline:
                raise RequestTimedOut(
                    f"{replica.name} starts at {log.log_start_offset} here, and not yet on all in-sync "
                    "replicas, as far as is known"
                )
            await self._clock.sleep(AGAIN_S)
        return DeletedRecords(replica.name, None, log.log_start_offset)

    async def _led(self, replica: Replica, offset: int, deadline: float) -> Leadership:
        """The leadership, once the offset is committed. A client that wrote with acks=1 may name an offset
        that is in the log and not committed yet; a record without a replica waits for the disk.

        At the deadline, and for an offset that the log does not have, there is nothing to wait for."""
        while (
            (leadership := replica.led()).core.knows_watermark
            and replica.high_watermark < offset <= replica.log.log_end_offset
            and self._clock.monotonic() < deadline
        ):
            await self._clock.sleep(AGAIN_S)
        return leadership

    @staticmethod
    async def _all_have_it(leadership: Leadership) -> bool:
        """True if every in-sync replica has confirmed a message that has the log's start, also those that
        joined meanwhile."""
        in_sync = leadership.core.isr.maximal()
        return await leadership.confirmed() and leadership.core.isr.maximal() <= in_sync

    @staticmethod
    def _wanted(leadership: Leadership, offset: int) -> int:
        """The offset that the log shall start at. Nothing at or above the HW is deleted (H9)."""
        replica = leadership.replica
        watermark = replica.high_watermark
        above = offset == LATEST or offset > watermark
        if above and not leadership.core.knows_watermark:
            raise OffsetNotAvailable(f"{replica.name}: the new leader does not know the high watermark yet")
        if offset == LATEST:
            return watermark
        if not 0 <= offset <= watermark:
            raise OffsetOutOfRange(
                f"{replica.name}: offset {offset} is outside 0..{watermark}, the high watermark",
                limit=watermark,
            )
        return offset
