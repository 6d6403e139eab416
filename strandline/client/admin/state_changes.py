"""Follows the stream of state changes from one active controller to the next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from strandline.adapters.codecs.admin import STATE_CHANGES
from strandline.client import arguments
from strandline.client.events.identities import Identities
from strandline.client.retry import Tries
from strandline.config.client import ClientSettings
from strandline.errors import BrokerNotAvailable, InvalidRequest, NotController, OutcomeUnknown
from strandline.ports import Clock, Stream, StreamEnded, StreamOver, Transport
from strandline.vocabulary.admin import StateChangesAnswer, StateChangesQuery
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.state_changes import StateChangeEvent, parse_event

logger = logging.getLogger(__name__)

T = TypeVar("T")
Reach = Callable[[Callable[[Endpoint], Awaitable[T]]], Awaitable[T]]
"""Finds the active controller within the request timeout and calls the function with it."""

Answers = Stream[StateChangesQuery, StateChangesAnswer]
_End = OutcomeUnknown | NotController | StreamOver
_ENDS: Final = (OutcomeUnknown, NotController, StreamOver)
"""Errors after which the reading continues with another stream."""

BREAKS_MAX: Final = 10
"""Streams in a row that break without an answer before the caller gets the error."""


def query(
    brokers: Iterable[int], topic: str | None, partition: int | None, *, follow: bool, since_ms: int
) -> StateChangesQuery:
    """The query for these arguments. Raises InvalidRequest that names the value."""
    if isinstance(brokers, str | bytes) or not isinstance(brokers, Iterable):
        raise InvalidRequest(f"brokers = {brokers!r}: give several broker ids, or none for all")
    if partition is not None and not topic:
        raise InvalidRequest(f"partition = {partition!r} without a topic: name its topic too")
    return StateChangesQuery(
        brokers=tuple(arguments.whole("broker", each, 0, arguments.INT32_MAX) for each in brokers),
        topic="" if topic is None else arguments.text("topic", topic),
        partition=-1
        if partition is None
        else arguments.whole("partition", partition, 0, arguments.INT32_MAX),
        follow=bool(follow),
        since_ms=arguments.whole("since_ms", since_ms, 0, arguments.INT64_MAX),
    )


def _understood(values: Iterable[bytes]) -> Iterator[StateChangeEvent]:
    """The events, without those of kinds that only a controller of a later version knows."""
    for value in values:
        try:
            yield parse_event(value)
        except ValueError as error:
            logger.warning("a state change is passed over: %s", error)


class StateChangesReading:
    """One reading, over any number of controllers. A caller that stops early has to close `events`."""

    def __init__(
        self,
        asked: StateChangesQuery,
        reach: Reach[tuple[Answers, StateChangesAnswer]],
        settings: ClientSettings,
        transport: Transport,
        clock: Clock,
    ) -> None:
        self._asked = asked
        self._reach = reach
        self._settings = settings
        self._transport = transport
        self._clock = clock

    async def events(self) -> AsyncGenerator[StateChangeEvent, None]:
        """Yields each step once, in the order of the log. Raises NotController if there is no controller."""
        seen = Identities()  # the next controller does not know what its predecessor sent
        tries = Tries(self._settings, self._clock)
        while True:
            stream, answer = await self._reach(self._open)
            end: _End | None = None
            try:
                while end is None:
                    for event in _understood(answer.events):
                        if seen.first(event.identity):
                            yield event
                    if answer.next_offsets:
                        self._asked = replace(self._asked, from_offsets=answer.next_offsets)
                    following = await self._next(stream)
                    if isinstance(following, StateChangesAnswer):
                        answer = following
                        tries.reset()
                    else:
                        end = following
            finally:
                stream.close()
            if isinstance(end, StreamEnded) and not self._asked.follow:
                return
            if tries.failed == BREAKS_MAX:
                raise end
            logger.info("the stream of state changes continues from another controller: %s", end)
            await tries.pause()

    async def _next(self, stream: Answers) -> StateChangesAnswer | _End:
        try:
            return await stream.read()
        except _ENDS as error:
            return error

    async def _open(self, controller: Endpoint) -> tuple[Answers, StateChangesAnswer]:
        """Open a stream and read its first answer. Raises NotController, BrokerNotAvailable."""
        timeout_s = self._settings.request_timeout_ms / 1000
        stream = await self._transport.open(controller.address, STATE_CHANGES, timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await stream.write(self._asked)
                return stream, await stream.read()
        except (OutcomeUnknown, TimeoutError) as error:  # a request to read may be repeated
            stream.close()
            raise BrokerNotAvailable(
                f"controller {controller.id} at {controller.address} did not begin to answer"
            ) from error
        except BaseException:
            stream.close()
            raise
