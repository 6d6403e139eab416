"""A machine loses power and, with it, what its page cache held: others in sync make it whole again, and
without them nobody pretends (CORRECTNESS E2, E3, T11)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strandline.errors import ErrorCode
from tests.integration.harness import Harness, Topic
from tests.integration.history import Value
from tests.integration.power import lose_power
from tests.integration.workload import workload
from tests.waiting import eventually

ONE_IS_ENOUGH = {"min.insync.replicas": "1"}
KEPT = 0.5


def events(harness: Harness, broker: int, event: str, partition: str) -> list[dict[str, Any]]:
    """What a broker logged of one kind about one partition."""
    lines = (line for line in harness.log_text(broker).splitlines() if f'"event": "{event}"' in line)
    return [fields for fields in map(json.loads, lines) if fields.get("partition") == partition]


async def write(topic: Topic, count: int) -> list[int]:
    """Records that the leader acknowledges with acks=all, one batch each; their offsets."""
    stream = topic.harness.brokers.produce((await topic.state()).leader, topic.partitions[0])
    offsets = []
    try:
        for number in range(count):
            result = await stream.one(Value(0, 0, number).encode(), acks=-1)
            assert result.error.code == 0, result.error.message
            offsets.append(result.base_offset)
    finally:
        stream.close()
    return offsets


@pytest.mark.timeout(120)
async def test_with_others_in_sync_nothing_is_lost(harness: Harness) -> None:
    """A follower, then a leader, comes back with half of its unsynced log gone: it has no claim to be in
    sync, fetches again what it lacks, and every acknowledged record is there (CORRECTNESS E2, E3, I1)."""
    topic = await harness.create_topic([(1, 2, 3)])
    async with workload(topic) as load:
        await load.progress(100)
        for broker in (3, 1):
            settings = await lose_power(topic, broker, kept=KEPT)
            await load.progress()
            await harness.cluster.start_broker(broker, **settings)
            await topic.isr_is(1, 2, 3)
        await load.judge()


@pytest.mark.timeout(120)
async def test_nobody_leads_when_the_last_in_sync_replica_lost_its_page_cache(harness: Harness) -> None:
    """The others lack acknowledged records, and the one that had them may have lost some: without unclean
    election nobody leads, and acks=all is refused everywhere (CORRECTNESS E2)."""
    topic, _ = await last_one_standing(harness, ONE_IS_ENOUGH)
    before = await topic.state()
    settings = await lose_power(topic, 1, kept=KEPT)
    name = f"{topic.name}-0"
    waiting = {broker: len(events(harness, broker, "waiting for a leader", name)) for broker in (1, 2, 3)}
    await harness.cluster.start_broker(1, **settings)
    for broker in (2, 3):
        await harness.cluster.start_broker(broker)
    for broker, known in waiting.items():

        def waits_again(broker: int = broker, known: int = known) -> bool:
            return len(events(harness, broker, "waiting for a leader", name)) > known

        await eventually(waits_again, deadline_s=20, what=f"broker {broker} waits for a leader")
        stream = harness.brokers.produce(broker, topic.partitions[0])
        refused = await stream.one(Value(0, 1, broker).encode(), acks=-1)
        assert refused.error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        stream.close()
    assert await topic.state() == before
    reasons = {event["reason"] for event in events(harness, 2, "waiting for a leader", name)}
    assert "only [1] were in sync and unclean election is off" in reasons


@pytest.mark.timeout(120)
async def test_an_unclean_election_names_the_exact_range_that_it_lost(harness: Harness) -> None:
    """Allowed, a replica outside the ISR leads; when one comes back that has more, the committed records
    that it has to drop are in its log as a range (CORRECTNESS T11)."""
    topic, acknowledged = await last_one_standing(
        harness, {**ONE_IS_ENOUGH, "unclean.leader.election.enable": "true"}
    )
    name = f"{topic.name}-0"
    await eventually(
        lambda: watermark_on_disk(harness, 1, topic) == acknowledged[-1] + 1,
        what="the checkpoint of the high watermark has every acknowledged record",
    )
    epoch = (await topic.state()).leader_epoch
    await harness.cluster.kill_broker(1)
    for broker in (2, 3):
        await harness.cluster.start_broker(broker)
    led = await topic.led_above(epoch)
    assert led.leader in (2, 3)
    (elected,) = events(
        harness, led.leader, "unclean election: committed records from here on are lost", name
    )
    assert (elected["first"], elected["epoch"]) == (acknowledged[0], led.leader_epoch)
    await harness.cluster.start_broker(1)
    await topic.isr_is(1, 2, 3)
    (lost,) = events(harness, 1, "unclean election lost committed records", name)
    assert (lost["first"], lost["end"], lost["count"]) == (
        acknowledged[0],
        acknowledged[-1] + 1,
        len(acknowledged),
    )
    await topic.agreed()


async def last_one_standing(harness: Harness, config: dict[str, str]) -> tuple[Topic, list[int]]:
    """A topic of which broker 1 alone is in sync, and the offsets that it acknowledged since."""
    harness.usable = False  # nobody may lead `__state_changes` either, for good
    harness.usable = False  # as above
    topic = await harness.create_topic([(1, 2, 3)], config)
    await write(topic, 10)
    await topic.settled()
    for broker in (2, 3):
        await harness.cluster.kill_broker(broker)
    await topic.isr_is(1)
    return topic, await write(topic, 20)


def watermark_on_disk(harness: Harness, broker: int, topic: Topic) -> int:
    """From the broker's checkpoint; -1 if it has none."""
    content = json.loads((harness.cluster.data_dir(broker) / "watermarks").read_text())
    topic_id = topic.folder(broker).name.removeprefix(f"{topic.name}-0-")
    return int(content["offsets"].get(f"{topic_id}-0", -1))
