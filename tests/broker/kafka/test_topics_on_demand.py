"""Topics are created once when clients ask for them, and each client learns what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from structlog.testing import capture_logs

from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.handlers.new_topics import LOOK_S, Leaders, TopicDefaults
from strandline.broker.kafka.handlers.on_demand import (
    FAILURES_LOGGED_EVERY_S,
    MINUTE_S,
    WAIT_MS,
    TopicsOnDemand,
)
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.errors import InvalidPartitions, OutcomeUnknown, StrandlineError, TopicAlreadyExists
from strandline.ids import NO_BROKER, OFFSETS_TOPIC, BrokerEpoch, BrokerId, LeaderEpoch, TopicId
from strandline.ports import Clock
from strandline.vocabulary.admin import NewTopic, TopicResult
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import (
    ClusterMetadata,
    Endpoint,
    PartitionMetadata,
    Registration,
    TopicMetadata,
)
from tests.broker.kafka.support.controller import no_replica
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import CLOCK, settings
from tests.strandline.client.network import FastClock

LIVE = {
    BrokerId(number): Registration(Endpoint(number, "h", 1), BrokerEpoch(number), shutting_down=number == 3)
    for number in (1, 2, 3)
}
UNKNOWN_TOPIC, NOT_LED, INVALID_TOPIC, INVALID_PARTITIONS = 3, 5, 17, 37


class Controller(ControllerRequests):
    """Creates everything, but for what it refuses; holds requests while it is held."""

    def __init__(self) -> None:
        self.asked: list[Sequence[NewTopic]] = []
        self.refuses: dict[str, StrandlineError] = {}
        self.free = asyncio.Event()
        self.free.set()
        self.looks = 0
        self.led_at_look = 1

    async def create(
        self, topics: Sequence[NewTopic], *_: Any, **__: Any
    ) -> Sequence[tuple[NewTopic, TopicResult]]:
        self.asked.append(topics)
        await self.free.wait()
        return [(each, TopicResult(each.name, self.refuses.get(each.name), "id")) for each in topics]

    def on_demand(self, clock: Clock = CLOCK, **given: Any) -> TopicsOnDemand:
        brokers = settings(**given)
        defaults = TopicDefaults(brokers, lambda: LIVE)
        return TopicsOnDemand(
            lambda _: self, defaults, OPEN, clock, brokers, Leaders(self.describe, no_replica, clock)
        )

    async def describe(self, query: MetadataQuery) -> MetadataAnswer:
        """Each topic that was asked for has a leader from some look on."""
        self.looks += 1
        leader = BrokerId(1) if self.looks >= self.led_at_look else NO_BROKER
        topics = []
        for name in query.topics or ():
            size = next(each.partitions for asked in self.asked for each in asked if each.name == name)
            led = [PartitionMetadata(number, leader, LeaderEpoch(1), (), ()) for number in range(size)]
            topics.append(TopicMetadata(name, TopicId("id"), tuple(led), {}))
        return MetadataAnswer(ClusterMetadata("c", (), None, tuple(topics)), {})


async def codes(on_demand: TopicsOnDemand, *names: str) -> dict[str, int]:
    return {name: int(error.code) for name, error in (await on_demand.create(names, CALLER)).items()}


async def test_a_new_topic_has_the_size_of_the_settings() -> None:
    """It cannot have more replicas than brokers that stay."""
    controller = Controller()
    assert await codes(controller.on_demand(num_partitions=7), "new") == {"new": NOT_LED}
    await codes(controller.on_demand(default_replication_factor=1), "new")
    assert controller.asked == [[NewTopic("new", 7, 2)], [NewTopic("new", 1, 1)]]


async def test_a_creation_is_over_once_the_topic_has_leaders() -> None:
    """Not all clients ask again for a topic that has none: whichever error says so, some end at it."""
    controller = Controller()
    controller.led_at_look = 3
    await codes(controller.on_demand(FastClock(), num_partitions=2), "new")
    assert controller.looks == 3


async def test_a_request_does_not_wait_for_leaders_without_end() -> None:
    controller, clock = Controller(), FastClock()
    controller.led_at_look = 1_000_000
    began = clock.now
    assert await codes(controller.on_demand(clock), "new") == {"new": NOT_LED}
    assert clock.now - began <= WAIT_MS / 1000 + LOOK_S


async def test_a_refusal_is_the_answer_unless_another_try_may_help() -> None:
    controller = Controller()
    controller.refuses = {
        "too-many": InvalidPartitions("no"),
        "there": TopicAlreadyExists("created by another broker"),
        "unclear": OutcomeUnknown("look again"),
    }
    found = await codes(controller.on_demand(), "too-many", "there", "unclear")
    assert found == {"too-many": INVALID_PARTITIONS, "there": NOT_LED, "unclear": NOT_LED}


async def test_topics_that_are_refused_again_and_again_do_not_fill_the_log() -> None:
    """CORRECTNESS X6: a client asks for all of its topics, ten times a second."""
    controller, clock = Controller(), FastClock()
    names = [f"t-{number}" for number in range(100)]
    controller.refuses = {name: InvalidPartitions("no") for name in names}
    on_demand = controller.on_demand(clock)
    with capture_logs() as logged:
        await codes(on_demand, *names)
        await codes(on_demand, *names)
        await clock.sleep(FAILURES_LOGGED_EVERY_S)
        await codes(on_demand, *names)
    assert [(line["topic"], line["so_far"]) for line in logged] == [("t-0", 1), ("t-0", 201)]


async def test_the_systems_own_names_are_not_created() -> None:
    controller = Controller()
    found = await codes(controller.on_demand(), OFFSETS_TOPIC, "__mine")
    assert found == {OFFSETS_TOPIC: UNKNOWN_TOPIC, "__mine": INVALID_TOPIC}
    assert not controller.asked


async def test_a_setting_turns_it_off() -> None:
    controller = Controller()
    assert await codes(controller.on_demand(kafka_auto_create_topics=False), "new") == {"new": UNKNOWN_TOPIC}
    assert not controller.asked


async def test_a_name_is_created_once_at_a_time() -> None:
    """Also if the client that asked first hangs up: the next one asks anew."""
    controller = Controller()
    on_demand = controller.on_demand()
    controller.free.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(codes(on_demand, "new", "other"))
        await asyncio.sleep(0)
        second = tasks.create_task(codes(on_demand, "new", "third"))
        await asyncio.sleep(0)
        assert [[each.name for each in asked] for asked in controller.asked] == [["new", "other"], ["third"]]
        first.cancel()
        controller.free.set()
    assert await second == {"new": NOT_LED, "third": NOT_LED}
    await codes(on_demand, "new")
    assert [each.name for each in controller.asked[-1]] == ["new"]


async def test_one_request_creates_a_bounded_number_of_topics() -> None:
    """CORRECTNESS X6: the client asks again for the others."""
    controller = Controller()
    names = [f"t-{number}" for number in range(TOPICS_PER_REQUEST_MAX + 5)]
    found = await codes(controller.on_demand(), *names)
    assert len(controller.asked[0]) == TOPICS_PER_REQUEST_MAX and set(found.values()) == {NOT_LED}


async def test_a_minute_has_a_bounded_number_of_new_topics() -> None:
    """CORRECTNESS X6: a client that asks for new names without end does not fill the cluster with topics."""
    controller, clock = Controller(), FastClock()
    on_demand = controller.on_demand(clock, kafka_auto_create_topics_per_minute_max=3)
    with capture_logs() as logged:
        assert set((await codes(on_demand, "a", "b", "c", "d")).values()) == {NOT_LED}
        assert await codes(on_demand, "e") == {"e": NOT_LED}
    assert [[each.name for each in asked] for asked in controller.asked] == [["a", "b", "c"]]
    (line,) = [each for each in logged if each["log_level"] == "warning"]
    assert line["topic"] == "d" and "kafka_auto_create_topics_per_minute_max" in line["reason"]
    clock.now += MINUTE_S
    await codes(on_demand, "d", "e")
    assert [each.name for each in controller.asked[-1]] == ["d", "e"]


async def test_a_topic_that_is_not_created_takes_nothing_from_the_minute() -> None:
    """Clients ask again and again while there is no controller."""
    controller = Controller()
    controller.refuses = {"a": OutcomeUnknown("no controller"), "b": TopicAlreadyExists("by another broker")}
    on_demand = controller.on_demand(kafka_auto_create_topics_per_minute_max=2)
    for _ in range(3):
        await codes(on_demand, "a", "b")
    await codes(on_demand, "c", "d", "e")
    assert [each.name for each in controller.asked[-1]] == ["c", "d"]
