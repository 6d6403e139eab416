"""The stream of state changes: what `__state_changes` has, filtered, each step once, for whoever asks.

The records are read from their leaders by a reader of the stream's own. A controller tells them while it is
the active one; who asks goes on at the next one, at the offsets that came with the last answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from controller.active import ActiveController
from strandline.adapters.rpc import GrpcTransport
from strandline.client.event_positions import EventRecord
from strandline.client.event_reader import EventReader
from strandline.client.identities import Identities
from strandline.client.messages import StateChangesQuery
from strandline.config import KIB
from strandline.errors import BrokerNotAvailable, InvalidRequest, NotController, ThrottlingQuotaExceeded
from strandline.ids import STATE_CHANGES_TOPIC
from strandline.ports import Clock
from strandline.state_changes import StateChangeEvent, parse_event

logger = structlog.get_logger(__name__)

LOOK_S: Final = 0.25
"""How often a stream that has nothing to tell looks whether this controller is still the active one."""
PROGRESS_S: Final = 5.0
"""How often a stream says how far it is, where nothing of what it read is asked for."""
ANSWER_BYTES_MAX: Final = 256 * KIB
FILTERED_BROKERS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Told:
    """Some records, as they lie in the log, and where to go on behind them."""

    events: Sequence[bytes]
    next_offsets: tuple[int, ...]


class StateChangeStreams:
    """All streams of one controller. `active` raises NotController, which names the active one."""

    def __init__(self, active: Callable[[], ActiveController], streams_max: int, clock: Clock) -> None:
        self.malformed = 0
        """Records that were passed over, because they are no state changes."""
        self._active = active
        self._streams_max = streams_max
        self._clock = clock
        self._open = 0
        self._closed = False

    def close(self) -> None:
        """Have all streams end: this controller stops."""
        self._closed = True

    async def tell(self, query: StateChangesQuery) -> AsyncGenerator[Told]:
        """First an answer without events, which says that the stream is on; then what there is.

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
        transport = GrpcTransport()
        try:
            bootstrap = await self._bootstrap(active, query)
            async with EventReader(
                bootstrap,
                STATE_CHANGES_TOPIC,
                follow=query.follow,
                from_offsets=query.from_offsets,
                since_ms=query.since_ms,
                transport=transport,
                clock=self._clock,
            ) as reader:
                yield Told((), reader.next_offsets)
                async for told in self._read(reader, active, query):
                    yield told
        finally:
            self._open -= 1
            await transport.close()

    async def _bootstrap(self, active: ActiveController, query: StateChangesQuery) -> list[str]:
        """Addresses of live brokers, waited for by who follows. Raises BrokerNotAvailable, NotController."""
        while True:
            self._check_role(active)
            addresses = await active.broker_addresses()
            if addresses:
                return addresses
            if not query.follow:
                raise BrokerNotAvailable("no broker is alive: nobody has the records of state changes")
            await self._clock.sleep(LOOK_S)

    async def _read(
        self, reader: EventReader, active: ActiveController, query: StateChangesQuery
    ) -> AsyncGenerator[Told]:
        met = Identities()
        said_at, said = self._clock.monotonic(), reader.next_offsets
        while not reader.ended:
            records = await reader.read(LOOK_S)
            self._check_role(active)
            for told in self._answers(records, reader.next_offsets, query, met):
                yield told
                said_at, said = self._clock.monotonic(), told.next_offsets
            reached = reader.next_offsets
            if reached != said and self._clock.monotonic() - said_at >= PROGRESS_S:
                yield Told((), reached)
                said_at, said = self._clock.monotonic(), reached
            await asyncio.sleep(0)  # what nobody asked for is passed over without another await

    def _check_role(self, active: ActiveController) -> None:
        if self._closed:
            raise NotController("this controller stops: ask the next one")
        if self._active() is not active:
            raise NotController("this controller was not the active one for a moment: ask again")

    def _answers(
        self,
        records: Sequence[EventRecord],
        next_offsets: tuple[int, ...],
        query: StateChangesQuery,
        met: Identities,
    ) -> Iterator[Told]:
        """What is asked for of one batch, in answers of a bounded size."""
        wanted: list[bytes] = []
        size = 0
        for record in records:
            event = self._parsed(record)
            if event is None or not matches(event, query) or not met.first(event.identity):
                continue
            value = record.value or b""
            if wanted and size + len(value) > ANSWER_BYTES_MAX:
                here = list(next_offsets)
                here[record.partition] = record.offset
                yield Told(wanted, tuple(here))
                wanted, size = [], 0
            wanted.append(value)
            size += len(value)
        if wanted:
            yield Told(wanted, next_offsets)

    def _parsed(self, record: EventRecord) -> StateChangeEvent | None:
        try:
            return parse_event(record.value)
        except ValueError as error:
            self.malformed += 1
            logger.warning(
                "not a state change",
                partition=record.partition,
                offset=record.offset,
                reason=str(error),
                so_far=self.malformed,
            )
            return None


def check(query: StateChangesQuery) -> None:
    """Raises InvalidRequest that names the value."""
    if query.partition < -1:
        raise InvalidRequest(f"partition = {query.partition}: give a number from 0 on, or -1 for all")
    if query.partition >= 0 and not query.topic:
        raise InvalidRequest(f"partition = {query.partition} without a topic: name its topic, or give -1")
    if query.since_ms < 0:
        raise InvalidRequest(f"since_ms = {query.since_ms}: give milliseconds since 1970")
    for offset in query.from_offsets:
        if offset < 0:
            raise InvalidRequest(f"from_offsets has {offset}: give offsets from 0 on")
    for broker in query.brokers:
        if broker < 0:
            raise InvalidRequest(f"brokers has {broker}: give ids from 0 on")
    if len(query.brokers) > FILTERED_BROKERS_MAX:
        raise InvalidRequest(
            f"{len(query.brokers)} brokers: name at most {FILTERED_BROKERS_MAX}, or none for all",
            limit=FILTERED_BROKERS_MAX,
        )


def matches(event: StateChangeEvent, query: StateChangesQuery) -> bool:
    """True if the event is one of those asked for; a broker's events are those that are about it."""
    return (
        (not query.brokers or event.broker in query.brokers)
        and (not query.topic or event.topic == query.topic)
        and (query.partition < 0 or event.key.partition == query.partition)
        and event.at_ms >= query.since_ms
    )
