"""Requests for the controller wait as long as their client does, and say honestly how they ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from strandline.broker.kafka.handlers.controller import ControllerRequests, Deadline
from strandline.broker.kafka.handlers.new_topics import Leaders, Made
from strandline.client.controller_link import ControllerLink
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.errors import (
    InvalidReplicationFactor,
    InvalidRequest,
    LeaderNotAvailable,
    NotController,
    OutcomeUnknown,
)
from strandline.ids import NO_BROKER, TopicId, TopicPartition
from strandline.vocabulary.admin import AlterTopic, DeleteTopics, NewTopic, TopicResult
from strandline.vocabulary.log import LeaderWait, MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from tests.broker.support.access import CALLER
from tests.strandline.client.network import FastClock

NEW = [NewTopic("a"), NewTopic("b")]
DONE = [TopicResult("a", topic_id="1"), TopicResult("b", topic_id="2")]
CREATED = list(zip(NEW, DONE, strict=True))


class Link(ControllerLink):
    """Answers each call with the next outcome, after a second; without one, never."""

    def __init__(self, *outcomes: Any) -> None:
        self.clock = FastClock()
        self.outcomes = list(outcomes)
        self.calls = 0
        self.asked: list[Any] = []

    async def call(self, method: Any, request: Any) -> Any:
        self.calls += 1
        self.asked.append(request)
        if not self.outcomes:
            await asyncio.Event().wait()
        await self.clock.sleep(1)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def deadline(self, timeout_ms: int) -> Deadline:
        return Deadline(self.clock, timeout_ms)


async def test_a_request_waits_for_a_controller_as_long_as_its_client_does() -> None:
    """CORRECTNESS E9: NotController says that nothing was done, so the request may be sent again."""
    link = Link(NotController("none"), NotController("none"), DONE)
    assert await ControllerRequests(link, CALLER).create(NEW, link.deadline(10_000)) == CREATED
    assert link.calls == 3
    link = Link(*[NotController("none")] * 5)
    found = await ControllerRequests(link, CALLER).create(NEW, link.deadline(3_000))
    assert link.calls == 3 and [type(each.error) for _, each in found] == [NotController] * 2


async def test_an_unknown_outcome_is_not_tried_again() -> None:
    """CORRECTNESS E9."""
    link = Link(OutcomeUnknown("it died"), DONE)
    found = await ControllerRequests(link, CALLER).create(NEW, link.deadline(10_000))
    assert link.calls == 1 and [type(each.error) for _, each in found] == [OutcomeUnknown] * 2


async def test_a_controller_that_does_not_answer_leaves_the_outcome_unknown() -> None:
    link = Link()
    deadline = link.deadline(500)
    await link.clock.sleep(1)
    found = await ControllerRequests(link, CALLER).delete(DeleteTopics(["a"]), deadline)
    assert link.calls == 1 and [type(each.error) for each in found] == [OutcomeUnknown]


async def test_a_client_that_does_not_wait_has_its_request_carried_out() -> None:
    link = Link(DONE)
    assert await ControllerRequests(link, CALLER).create(NEW, link.deadline(0)) == CREATED


async def test_nothing_is_sent_for_no_topic_and_for_too_many() -> None:
    """CORRECTNESS X6."""
    link = Link()
    requests, deadline = ControllerRequests(link, CALLER), link.deadline(1_000)
    assert not await requests.create([], deadline) and not await requests.delete(DeleteTopics(()), deadline)
    many = [AlterTopic(f"t-{number}") for number in range(TOPICS_PER_REQUEST_MAX + 1)]
    found = await requests.alter(many, deadline)
    assert {type(each.error) for each in found} == {InvalidRequest} and len(found) == len(many)
    assert not link.calls


async def test_a_default_number_of_replicas_fits_the_brokers_that_may_get_some() -> None:
    """A drained broker is alive and gets none. A number that the client gave stays as it is."""
    refusals = [TopicResult(name, InvalidReplicationFactor("2 brokers", limit=2)) for name in ("a", "given")]
    link = Link(refusals, [TopicResult("a", topic_id="1")])
    new = [NewTopic("a", 1, 3), NewTopic("given", 1, 3)]
    found = await ControllerRequests(link, CALLER).create(new, link.deadline(9_000), by_default={"a"})
    smaller = NewTopic("a", 1, 2)
    assert found == [(smaller, TopicResult("a", topic_id="1")), (new[1], refusals[1])]
    assert link.asked[-1].topics == [smaller]


# --- leaders ----------------------------------------------------------------------------------

LED, UNLED = 1, int(NO_BROKER)


def topic(*leaders: int, topic_id: str = "i") -> TopicMetadata:
    partitions = (PartitionMetadata(number, leader, 4, (1, 2), (1,)) for number, leader in enumerate(leaders))
    return TopicMetadata("t", TopicId(topic_id), tuple(partitions))


class Described:
    """What a broker knows of the topic, one look after the other; the last stays."""

    def __init__(self, *looks: TopicMetadata | None) -> None:
        self.looks = list(looks)
        self.waits: list[Sequence[LeaderWait]] = []
        self.led_here: dict[tuple[int, str], int] = {}
        """From which look on the broker's own replicas know a leader, by partition and topic id."""
        self._own_looks: Counter[tuple[int, str]] = Counter()

    def led(self, partition: TopicPartition, topic_id: str) -> bool:
        here = (partition.partition, topic_id)
        self._own_looks[here] += 1
        return here in self.led_here and self._own_looks[here] > self.led_here[here]

    async def describe(self, query: MetadataQuery) -> MetadataAnswer:
        self.waits.append(query.waits)
        now = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if now is None:
            raise LeaderNotAvailable("no session")
        return MetadataAnswer(ClusterMetadata("c", (), None, (now,)), {})

    async def unled(self) -> set[str]:
        clock = FastClock()
        return await Leaders(self.describe, self.led, clock).wait({"t": Made("i", 3)}, Deadline(clock, 5_000))


@pytest.mark.parametrize(
    "before", [None, topic(LED, LED), topic(LED, UNLED, LED), topic(LED, LED, LED, topic_id="older")]
)
async def test_the_wait_ends_when_each_partition_is_led(before: TopicMetadata | None) -> None:
    """Also those that this broker has not heard of yet, and not those of an earlier topic of the name."""
    described = Described(before, before, topic(LED, LED, LED))
    assert await described.unled() == set() and len(described.waits) == 3


async def test_what_is_not_led_is_read_again() -> None:
    """Brokers keep what they know for a while, and read again what a client waits for."""
    described = Described(topic(LED, UNLED), topic(LED, LED, LED))
    await described.unled()
    first, second = TopicPartition("t", 1), TopicPartition("t", 2)
    assert described.waits == [[], [LeaderWait(first, 4), LeaderWait(second, -1)]]


async def test_what_the_brokers_own_replicas_know_is_not_read() -> None:
    """A request for a hundred topics would otherwise read all of their znodes at each look."""
    described = Described(topic(UNLED, UNLED, UNLED))
    described.led_here = {(number, "i"): 0 for number in range(3)}
    assert await described.unled() == set() and described.waits == []
    described.led_here = {(0, "i"): 0, (1, "i"): 20, (2, "i"): 20}
    assert await described.unled() == set()
    assert len(described.waits) < 7, "it reads as often as it looks"


async def test_replicas_of_an_earlier_topic_of_the_name_say_nothing() -> None:
    described = Described(topic(LED, UNLED, LED))
    described.led_here = {(number, "older"): 0 for number in range(3)}
    assert await described.unled() == {"t"}


async def test_the_wait_ends_with_the_clients() -> None:
    assert await Described(topic(LED, UNLED, LED)).unled() == {"t"}
