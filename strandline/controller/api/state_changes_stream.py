"""Streams state changes to clients: the records of `__state_changes`, filtered, each step once.

Each stream has a reader of its own, which reads from the partitions' leaders. A controller serves streams
only while it is active. A client continues at the next controller, from the offsets in the last answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

import structlog

from strandline.client.reading.records import ConsumerRecord
from strandline.client.reading.topic import TopicReader
from strandline.controller.active import ActiveController
from strandline.controller.core.state_changes import EventSelection, check
from strandline.errors import BrokerNotAvailable, NotController, ThrottlingQuotaExceeded
from strandline.host import Host, ShownKey
from strandline.ids import STATE_CHANGES_TOPIC
from strandline.vocabulary.admin import StateChangesAnswer, StateChangesQuery

logger = structlog.get_logger(__name__)

LOOK_S: Final = 0.25
"""Interval at which an idle stream checks if this controller is still the active one."""
PROGRESS_S: Final = 5.0
"""Interval at which a stream reports its progress while none of its records match the query."""


class StateChangeStreams:
    """All streams of one controller. `active` raises NotController, which names the active controller."""

    def __init__(
        self, active: Callable[[], ActiveController], streams_max: int, host: Host, key: ShownKey
    ) -> None:
        self.malformed = 0
        """Records that were skipped because they are no state changes."""
        self._active = active
        self._streams_max = streams_max
        self._host = host
        self._key = key
        self._clock = host.clock
        self._open = 0
        self._closed = False

    def close(self) -> None:
        """Ends all streams, since this controller stops."""
        self._closed = True

    async def answers(self, query: StateChangesQuery) -> AsyncGenerator[StateChangesAnswer]:
        """Yields first an answer without events, which confirms the stream, and then the events.

        Raises InvalidRequest, NotController, ThrottlingQuotaExceeded, and what the reader raises.
        """
        check(query)
        active = self._active()
        if self._open >= self._streams_max:
            raise ThrottlingQuotaExceeded(
                f"{self._open} streams of state changes are open, more are not served "
                f"(state_change_streams_max = {self._streams_max})",
                limit=self._streams_max,
            )
        self._open += 1
        try:
            bootstrap = await self._bootstrap(active, query)
            async with TopicReader(
                bootstrap,
                STATE_CHANGES_TOPIC,
                follow=query.follow,
                from_offsets=query.from_offsets,
                since_ms=query.since_ms,
                transport=self._host.transport(self._key),
                clock=self._clock,
            ) as reader:
                yield StateChangesAnswer((), reader.next_offsets)
                async for answer in self._read(reader, active, query):
                    yield answer
        finally:
            self._open -= 1

    async def _bootstrap(self, active: ActiveController, query: StateChangesQuery) -> list[str]:
        """The addresses of live brokers. Waits for one if the query follows. Raises BrokerNotAvailable,
        NotController."""
        while True:
            self._check_role(active)
            addresses = await active.broker_addresses()
            if addresses:
                return addresses
            if not query.follow:
                raise BrokerNotAvailable("no broker is alive to read the records of state changes from")
            await self._clock.sleep(LOOK_S)

    async def _read(
        self, reader: TopicReader, active: ActiveController, query: StateChangesQuery
    ) -> AsyncGenerator[StateChangesAnswer]:
        selection = EventSelection(query)
        sent_at, sent = self._clock.monotonic(), reader.next_offsets
        while not reader.ended:
            records = await reader.read(LOOK_S)
            self._check_role(active)
            for answer in selection.answers(records, reader.next_offsets):
                yield answer
                sent_at, sent = self._clock.monotonic(), answer.next_offsets
            self._count(selection.malformed)
            reached = reader.next_offsets
            if reached != sent and self._clock.monotonic() - sent_at >= PROGRESS_S:
                yield StateChangesAnswer((), reached)
                sent_at, sent = self._clock.monotonic(), reached
            await asyncio.sleep(0)  # filtered records are skipped without another await

    def _count(self, malformed: Sequence[tuple[ConsumerRecord, str]]) -> None:
        self.malformed += len(malformed)
        for record, reason in malformed:
            logger.warning(
                "not a state change",
                partition=record.partition,
                offset=record.offset,
                reason=reason,
                so_far=self.malformed,
            )

    def _check_role(self, active: ActiveController) -> None:
        if self._closed:
            raise NotController("this controller stops: ask the next one")
        if self._active() is not active:
            raise NotController("this controller was not the active one for a moment: ask again")
