"""Machines lose power and, with it, what their page caches held: others in sync make them whole again, and
without those the longest log leads and says what may be missing (CORRECTNESS E2, E3, T11)."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from strandline import Admin
from strandline.ids import NO_BROKER, NO_EPOCH
from tests.integration.support.harness import Harness, Topic
from tests.integration.support.power import lose_power, lose_power_everywhere, tear
from tests.integration.support.workload import workload
from tests.waiting import eventually

pytestmark = pytest.mark.slow

ONE_IS_ENOUGH = {"min.insync.replicas": "1"}
KEPT = 0.5
UNCLEAN = "unclean election: committed records may be lost from here on"


def events(harness: Harness, broker: int, event: str, partition: str) -> list[dict[str, Any]]:
    """A broker's log events of one kind about one partition."""
    lines = (line for line in harness.log_text(broker).splitlines() if f'"event": "{event}"' in line)
    return [fields for fields in map(json.loads, lines) if fields.get("partition") == partition]


async def write(topic: Topic, count: int) -> list[int]:
    """Records that the leader acknowledges with acks=all, one batch each; their offsets."""
    stream = topic.harness.brokers.produce((await topic.state()).leader, topic.partitions[0])
    offsets = []
    try:
        for number in range(count):
            result = await stream.one(b"%d" % number, acks=-1)
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


@pytest.mark.timeout(180)
async def test_after_power_is_lost_everywhere_every_partition_gets_a_leader(harness: Harness) -> None:
    """CORRECTNESS E2, E3: a log that synced each record is whole, and leads without a loss. Among the
    others the longest leads once all of them are back, for internal topics too, and reports from where on
    committed records may be missing."""
    synced = await harness.create_topic([(1, 2, 3)], {"flush.messages": "1"})
    lazy = await harness.create_topic([(2, 3, 1)])
    single = await harness.create_topic([(3,)])
    own = Topic(harness, "__state_changes", [(1, 2, 3)])
    await own.settled()
    acknowledged = {topic.name: await write(topic, 20) for topic in (synced, lazy, single)}
    await eventually(lambda: watermark_on_disk(harness, 3, single) == 20, what="the HW is checkpointed")
    settings = await lose_power_everywhere(harness)
    before = {topic.name: await topic.state() for topic in (synced, lazy, single, own)}
    ends = [tear(lazy.folder(broker), kept=kept) for broker, kept in ((1, 0.2), (2, 0.5), (3, 0.3))]
    for broker in (1, 2, 3):
        for topic in (own, synced, *([single] if broker == 3 else [])):
            tear(topic.folder(broker), kept=KEPT)
    for broker in (3, 1, 2):
        await harness.cluster.start_broker(broker, wait_s=None, **settings[broker])
    for topic in (synced, lazy, single, own):
        await topic.led_above(before[topic.name].leader_epoch)
        await topic.agreed()
    assert (await synced.state()).lossy_epoch == NO_EPOCH
    assert (await synced.end())[0] == len(acknowledged[synced.name])
    assert (await lazy.state()).lossy_epoch > before[lazy.name].leader_epoch
    assert (await lazy.end())[1] == max(end for end in ends if end is not None)
    name = f"{single.name}-0"
    (elected,) = events(harness, 3, UNCLEAN, name)
    assert elected["first"] == (await single.end())[1] < 20
    assert (elected["certain_end"], elected["certain"]) == (20, 20 - elected["first"])
    for topic in (lazy, single):
        assert await write(topic, 1) == [(await topic.end())[1] - 1]


@pytest.mark.timeout(120)
async def test_a_lost_folder_never_leads(harness: Harness) -> None:
    """CORRECTNESS E18: the only replica's folder is gone, and its broker came back whole otherwise. No
    empty log leads in its place until an operator permits it, after seeing the known loss."""
    topic = await harness.create_topic([(2,)], ONE_IS_ENOUGH)
    await write(topic, 10)
    await topic.settled()
    before = await topic.state()
    await harness.cluster.stop_broker(2)
    shutil.rmtree(topic.folder(2))
    await harness.cluster.start_broker(2)
    name, words = (
        f"{topic.name}-0",
        "only [2] were in sync and unclean election is off: broker 2 lost its log",
    )

    def waits() -> bool:
        return any(event["reason"] == words for event in events(harness, 2, "waiting for a leader", name))

    await eventually(waits, deadline_s=20, what="broker 2 waits for a leader")
    state = await topic.state()
    assert (state.leader, state.isr) == (NO_BROKER, before.isr)
    async with Admin(harness.cluster.bootstrap) as admin:
        (planned,) = await admin.elect_unclean(topic.partitions, validate_only=True)
        assert (planned.error, planned.broker, planned.log_end) == (None, 2, 0)
        assert planned.known == "committed records 0 to 9 are missing; more may be missing from 10 on"
        assert (await topic.state()).leader == NO_BROKER
        (done,) = await admin.elect_unclean(topic.partitions)
        assert done.error is None
    led = await topic.led_above(before.leader_epoch)
    assert (led.leader, led.lossy_epoch) == (2, led.leader_epoch)
    assert await write(topic, 1) == [0]


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
    (elected,) = await eventually(
        lambda: events(harness, led.leader, UNCLEAN, name), what="the winner has logged its election"
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
    harness.usable = False  # `__state_changes` has no leader either, for good
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
    checkpoint = harness.cluster.data_dir(broker) / "watermarks"
    if not checkpoint.exists():
        return -1
    content = json.loads(checkpoint.read_text())
    topic_id = topic.folder(broker).name.removeprefix(f"{topic.name}-0-")
    return int(content["offsets"].get(f"{topic_id}-0", -1))
