"""Creates topics when a Kafka client asks for their metadata, and allows it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from strandline.broker.kafka.handlers.controller import ControllerFor, Deadline
from strandline.broker.kafka.handlers.new_topics import Leaders, Made, TopicDefaults
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    InvalidTopic,
    LeaderNotAvailable,
    StrandlineError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from strandline.ids import (
    GROUP_EVENTS_TOPIC,
    INTERNAL_PREFIX,
    OFFSETS_TOPIC,
    STATE_CHANGES_TOPIC,
    TRANSACTIONS_TOPIC,
)
from strandline.ports import Caller, Clock
from strandline.security.access import Access
from strandline.security.topic_changes import creation_refusal
from strandline.vocabulary.admin import NewTopic

logger = structlog.get_logger(__name__)

MINUTE_S: Final = 60.0
WAIT_MS: Final = 2_000
"""How long a metadata request waits for the controller. The client asks again."""
FAILURES_LOGGED_EVERY_S: Final = 10.0
"""At most one line in this time: clients ask again ten times a second, each for all of its topics."""
SYSTEM_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, GROUP_EVENTS_TOPIC, STATE_CHANGES_TOPIC})
"""Topics that brokers create when they need them."""


class TopicsOnDemand:
    """The creations that are in progress on this broker: at most one for a name."""

    def __init__(
        self,
        controller: ControllerFor,
        defaults: TopicDefaults,
        access: Access,
        clock: Clock,
        settings: BrokerSettings,
        leaders: Leaders,
    ) -> None:
        self._access = access
        self._leaders = leaders
        self._controller = controller
        self._defaults = defaults
        self._clock = clock
        self._enabled = settings.kafka_auto_create_topics
        self._per_minute_max = self._left = settings.kafka_auto_create_topics_per_minute_max
        self._minute_ends = clock.monotonic() + MINUTE_S
        self._in_progress: dict[str, asyncio.Future[None]] = {}
        self._failures = 0
        self._logs_after = clock.monotonic()

    async def create(self, missing: Iterable[str], caller: Caller) -> Mapping[str, StrandlineError]:
        """Has topics created for a caller, with the defaults of this broker, and waits a moment until they
        are led. Returns what to say of each that cannot be described then: that it has no leader yet, or why
        it is not created. Of many names the first thousand are created, if the minute has as many left; the
        others are when the client asks again."""
        wanted = dict.fromkeys(missing)
        answers: dict[str, StrandlineError] = {}
        for name in wanted:
            if name in SYSTEM_TOPICS or not self._enabled:
                answers[name] = UnknownTopicOrPartition(f"topic {name!r} does not exist")
            elif name.startswith(INTERNAL_PREFIX):
                answers[name] = InvalidTopic(f"topic {name!r}: such names are the system's own")
            elif (refusal := creation_refusal(self._access, caller, name)) is not None:
                answers[name] = refusal
        names = [name for name in wanted if name not in answers][:TOPICS_PER_REQUEST_MAX]
        others = [self._in_progress[name] for name in names if name in self._in_progress]
        own = self._allowed([name for name in names if name not in self._in_progress])
        if own:
            answers |= await self._create(own, caller)
        if others:
            await asyncio.wait(others, timeout=WAIT_MS / 1000)
        being_created = LeaderNotAvailable("the topic is being created")
        return {name: answers.get(name, being_created) for name in wanted}

    def _allowed(self, names: list[str]) -> list[str]:
        """As many of these as may be created in this minute. A client that asks for new names without end
        would fill the cluster with topics."""
        now = self._clock.monotonic()
        if now >= self._minute_ends:
            self._minute_ends, self._left = now + MINUTE_S, self._per_minute_max
        allowed, others = names[: self._left], names[self._left :]
        self._left -= len(allowed)
        for name in others:
            reason = f"this minute has had {self._per_minute_max}: kafka_auto_create_topics_per_minute_max"
            self._failed(name, LeaderNotAvailable(reason))
        return allowed

    async def _create(self, names: list[str], caller: Caller) -> dict[str, StrandlineError]:
        """The refusals. A creation that may come to pass if it is tried again is none."""
        done = asyncio.get_running_loop().create_future()
        self._in_progress.update(dict.fromkeys(names, done))
        try:
            size = self._defaults.partitions, self._defaults.replication_factor
            new = [NewTopic(name, *size) for name in names]
            deadline = Deadline(self._clock, WAIT_MS)
            results = await self._controller(caller).create(new, deadline, by_default=names)
            made = {
                result.topic: Made(result.topic_id, topic.partitions)
                for topic, result in results
                if result.error is None
            }
            await self._leaders.wait(made, deadline)
        finally:
            for name in names:
                del self._in_progress[name]
            done.set_result(None)
        refused = {}
        for _, result in results:
            error = result.error
            if error is None:
                logger.info("topic created on demand", topic=result.topic, topic_id=result.topic_id)
                continue
            self._left = min(self._left + 1, self._per_minute_max)
            if not isinstance(error, TopicAlreadyExists):
                self._failed(result.topic, error)
                if not error.retriable:
                    refused[result.topic] = error
        return refused

    def _failed(self, topic: str, error: StrandlineError) -> None:
        self._failures += 1
        now = self._clock.monotonic()
        if now >= self._logs_after:
            self._logs_after = now + FAILURES_LOGGED_EVERY_S
            logger.warning(
                "topic not created on demand", topic=topic, reason=error.message, so_far=self._failures
            )
