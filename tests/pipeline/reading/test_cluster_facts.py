"""A driver's facts about topics and logs, from brokers in memory that may be behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strandline.errors import BrokerNotAvailable, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.pipeline.core.options import Selection
from strandline.pipeline.core.ranges import Bounds
from strandline.pipeline.reading.cluster_facts import ClusterFacts
from tests.strandline.client.log_world import CLOCK, LogWorld
from tests.strandline.client.network import memory_host

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC = Selection(topics=("t",))


@pytest.fixture
def world() -> LogWorld:
    return LogWorld()


@pytest.fixture
async def facts(world: LogWorld) -> AsyncIterator[ClusterFacts]:
    async with ClusterFacts(
        "broker1:1,broker2:1", retries=2, retry_interval_ms=1, host=memory_host(world, CLOCK)
    ) as started:
        yield started


async def test_a_snapshot_has_all_partitions_with_their_bounds_and_topic_ids(
    world: LogWorld, facts: ClusterFacts
) -> None:
    first, second = world.create("t", 2)
    world.create("empty")
    first.write(10)
    first.forget(4)
    second.write(7)
    second.watermark = 0
    second.lead(2)
    found = await facts.snapshot(Selection(topics=("empty", "t")))
    assert found.bounds == {
        TopicPartition("empty", 0): Bounds(0, 0, 1),
        T0: Bounds(4, 10, 1),
        T1: Bounds(0, 0, 2),
    }
    assert found.ids == {"empty": "first", "t": "first"}
    assert not found.missing


async def test_looking_again_and_again_asks_each_broker_one_question(
    world: LogWorld, facts: ClusterFacts
) -> None:
    """A driver looks many times a second while nothing comes."""
    logs = world.create("t", 40)
    for log in logs[20:]:
        log.lead(2)
    await facts.snapshot(TOPIC)
    world.asked.clear()
    for log in logs:
        log.write(1)
    found = await facts.snapshot(TOPIC)
    assert sum(bounds.end for bounds in found.bounds.values()) == 40
    assert Counter(world.asked) == {"ListOffsets": 2}


async def test_a_pattern_is_what_matches_now_and_may_be_nothing(world: LogWorld, facts: ClusterFacts) -> None:
    assert (await facts.snapshot(Selection(pattern="t.*"))).bounds == {}
    world.create("t")
    world.create("other")
    world.create("__state_changes")
    facts.forget()
    assert (await facts.snapshot(Selection(pattern=".*"))).ids == {"t": "first", "other": "first"}


async def test_a_missing_topic_is_looked_up_again_before_it_is_reported(
    world: LogWorld, facts: ClusterFacts
) -> None:
    found = await facts.snapshot(TOPIC)
    assert list(found.missing) == ["t"]
    assert Counter(world.asked)["Metadata"] == 3
    world.asked.clear()
    await facts.snapshot(TOPIC, expected=())
    assert Counter(world.asked)["Metadata"] == 1


async def test_assigned_partitions_are_those_and_have_to_be_there(
    world: LogWorld, facts: ClusterFacts
) -> None:
    world.create("t", 2)
    assert set((await facts.snapshot(Selection(partitions=(T1,)))).bounds) == {T1}
    with pytest.raises(UnknownTopicOrPartition, match=r"there is no t-2, topic 't' has 2 partitions"):
        await facts.snapshot(Selection(partitions=(T0, TopicPartition("t", 2))))


async def test_a_topic_that_was_created_again_is_noticed_though_it_was_looked_at_a_moment_ago(
    world: LogWorld, facts: ClusterFacts
) -> None:
    (old,) = world.create("t")
    old.write(10)
    assert (await facts.snapshot(TOPIC)).ids == {"t": "first"}
    (new,) = world.create("t", topic_id="second", epoch=9)
    new.write(50)
    found = await facts.snapshot(TOPIC)
    assert (found.ids, found.bounds) == ({"t": "second"}, {T0: Bounds(0, 50, 9)})


async def test_a_leader_that_has_changed_is_found(world: LogWorld, facts: ClusterFacts) -> None:
    (log,) = world.create("t")
    log.write(3)
    await facts.snapshot(TOPIC)
    log.lead(2)
    world.kill(1)
    log.write(1)
    assert (await facts.snapshot(TOPIC)).bounds == {T0: Bounds(0, 4, 2)}


async def test_times_are_looked_up_with_the_bounds_beside_them(world: LogWorld, facts: ClusterFacts) -> None:
    (log,) = world.create("t")
    log.write(3, timestamp_ms=1_000)
    log.write(3, timestamp_ms=2_000)
    found = await facts.listed({T0: 1_500})
    assert (found[T0].offset, found[T0].high_watermark) == (3, 6)
    assert (await facts.listed({T0: 3_000}))[T0].offset == -1
    assert await facts.listed({}) == {}


async def test_no_answer_is_an_error_after_all_tries(world: LogWorld, facts: ClusterFacts) -> None:
    world.dead |= {1, 2}
    with pytest.raises(BrokerNotAvailable, match="no broker answered"):
        await facts.snapshot(TOPIC)


# --- brokers that are out of reach --------------------------------------------------------------


async def test_brokers_that_answered_once_are_waited_for_and_others_are_not(
    world: LogWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Three tries ended a running stream after three seconds; wrong addresses still fail at once."""
    world.create("t")
    host = memory_host(world, CLOCK)
    async with ClusterFacts("broker1:1,broker2:1", retry_interval_ms=1, host=host) as facts:
        world.dead, world.refusals = {1, 2}, 200
        with pytest.raises(BrokerNotAvailable):
            await facts.snapshot(TOPIC)
        assert world.refusals > 150
        world.dead.clear()
        await facts.snapshot(TOPIC)
        world.dead, world.refusals = {1, 2}, 200
        facts.forget()
        assert (await facts.snapshot(TOPIC)).ids == {"t": "first"}
        assert "a look at the cluster is repeated" in caplog.text


@pytest.mark.parametrize("given", [{"retries": 1}, {"patience_s": 0.05}])
async def test_the_wait_for_brokers_has_a_bound(world: LogWorld, given: dict[str, Any]) -> None:
    world.create("t")
    host = memory_host(world, CLOCK)
    async with ClusterFacts("broker1:1,broker2:1", retry_interval_ms=1, host=host, **given) as facts:
        await facts.snapshot(TOPIC)
        world.dead = {1, 2}
        facts.forget()
        with pytest.raises(BrokerNotAvailable):
            await facts.snapshot(TOPIC)
