"""Passes requests of Kafka clients on to the active controller, and waits as long as the client allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence, Sized
from dataclasses import replace
from typing import Final, TypeVar

from strandline.adapters.asked_for import asking_for
from strandline.adapters.codecs.admin import ALTER_TOPIC, CREATE_TOPICS, DELETE_TOPICS
from strandline.adapters.codecs.group_configs import ALTER_GROUP_CONFIGS
from strandline.client.controller_link import ControllerLink
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.errors import (
    InvalidReplicationFactor,
    InvalidRequest,
    NotController,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.ports import Caller, Clock, Method, Request, Response
from strandline.security.audit.entry import whole_source
from strandline.tasks import pipelined
from strandline.vocabulary.admin import AlterTopic, CreateTopics, DeleteTopics, NewTopic, TopicResult
from strandline.vocabulary.configs.groups import AlterGroupConfigs, GroupConfigResult

Entry = TypeVar("Entry")
T = TypeVar("T")

TIMEOUT_S_MIN: Final = 1.0
"""A client that does not want to wait gives a timeout of 0. The controller has to get the request even so."""
TIMEOUT_S_MAX: Final = 60.0
TIMEOUT_MS_DEFAULT: Final = 30_000
"""For requests that have no timeout of their own."""
ALTERATIONS_IN_FLIGHT_MAX: Final = 16
"""Topics that one request has altered at the same time."""


def check_count(named: Sized, what: str = "topics") -> None:
    """Raises InvalidRequest for more of them than one request may name."""
    if len(named) > TOPICS_PER_REQUEST_MAX:
        raise InvalidRequest(
            f"{len(named)} {what} in one request; send at most {TOPICS_PER_REQUEST_MAX} at a time"
        )


def made(
    entries: Iterable[Entry], make: Callable[[Entry], T]
) -> tuple[dict[int, T], dict[int, StrandlineError]]:
    """What can be made of the entries of a request, and why others cannot be, by place."""
    found: dict[int, T] = {}
    wrong: dict[int, StrandlineError] = {}
    for at, entry in enumerate(entries):
        try:
            found[at] = make(entry)
        except StrandlineError as error:
            wrong[at] = error
    return found, wrong


class Deadline:
    """Until when a client waits."""

    def __init__(self, clock: Clock, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> None:
        self._clock = clock
        now = clock.monotonic()
        timeout_s = min(timeout_ms / 1000, TIMEOUT_S_MAX)
        self._waits_until = now + timeout_s
        self._calls_until = now + max(timeout_s, TIMEOUT_S_MIN)

    @property
    def left_s(self) -> float:
        """Seconds for which the client still waits; below zero, it does not."""
        return self._waits_until - self._clock.monotonic()

    @property
    def call_s(self) -> float:
        """Seconds that the controller still has."""
        return max(0.0, self._calls_until - self._clock.monotonic())


class ControllerRequests:
    """The requests of one caller. Those about topics and groups return one outcome a topic or group, in
    order, and raise nothing."""

    def __init__(self, link: ControllerLink, caller: Caller) -> None:
        """The controller learns that they are made for the caller."""
        self._link = link
        self._source = whole_source(caller)

    async def create(
        self,
        topics: Sequence[NewTopic],
        deadline: Deadline,
        *,
        validate_only: bool = False,
        by_default: Collection[str] = (),
    ) -> Sequence[tuple[NewTopic, TopicResult]]:
        """Returns each topic as it was created, and its outcome.

        `by_default`: topics whose number of replicas is a default of this broker, and may be smaller. The
        broker knows who is alive, and only the controller who may get replicas: not a drained broker.
        """
        found = await self._create(topics, deadline, validate_only)
        smaller = {
            at: replace(topic, replication_factor=result.error.limit)
            for at, (topic, result) in enumerate(found)
            if topic.name in by_default and isinstance(result.error, InvalidReplicationFactor)
            if result.error.limit
        }
        again = await self._create(list(smaller.values()), deadline, validate_only)
        for at, outcome in zip(smaller, again, strict=True):
            found[at] = outcome
        return found

    async def _create(
        self, topics: Sequence[NewTopic], deadline: Deadline, validate_only: bool
    ) -> list[tuple[NewTopic, TopicResult]]:
        if not topics:
            return []
        try:
            results = await self.ask(CREATE_TOPICS, CreateTopics(topics, validate_only), deadline)
        except StrandlineError as error:
            return [(each, TopicResult(each.name, error)) for each in topics]
        return list(zip(topics, results, strict=True))

    async def delete(self, wanted: DeleteTopics, deadline: Deadline) -> Sequence[TopicResult]:
        if not wanted.topics:
            return ()
        try:
            return await self.ask(DELETE_TOPICS, wanted, deadline)
        except StrandlineError as error:
            return [TopicResult(name, error) for name in wanted.topics]

    async def alter(self, alterations: Sequence[AlterTopic], deadline: Deadline) -> Sequence[TopicResult]:
        async def alter_one(alteration: AlterTopic) -> TopicResult:
            try:
                await self.ask(ALTER_TOPIC, alteration, deadline)
            except StrandlineError as error:
                return TopicResult(alteration.topic, error)
            return TopicResult(alteration.topic)

        try:
            check_count(alterations)
        except InvalidRequest as many:
            return [TopicResult(each.topic, many) for each in alterations]
        return await pipelined(alter_one, alterations, in_flight_max=ALTERATIONS_IN_FLIGHT_MAX)

    async def alter_groups(self, asked: AlterGroupConfigs, deadline: Deadline) -> Sequence[GroupConfigResult]:
        if not asked.alterations:
            return ()
        try:
            return await self.ask(ALTER_GROUP_CONFIGS, asked, deadline)
        except StrandlineError as error:
            return [GroupConfigResult(each.group, error) for each in asked.alterations]

    async def ask(self, method: Method[Request, Response], request: Request, deadline: Deadline) -> Response:
        """Asks until a controller is active, since NotController says that nothing was done. Raises as
        `ControllerLink.call`."""
        try:
            async with asyncio.timeout(deadline.call_s):
                while True:
                    try:
                        with asking_for(self._source):
                            return await self._link.call(method, request)
                    except NotController:
                        if deadline.left_s <= 0:
                            raise
        except TimeoutError:
            raise OutcomeUnknown("the controller did not answer in time: look what became of it") from None


ControllerFor = Callable[[Caller], ControllerRequests]
"""Gives the requests of a caller. A handler has nothing else: so it cannot ask in the broker's own name."""
