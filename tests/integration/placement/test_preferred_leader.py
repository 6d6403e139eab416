"""Leadership returns to the preferred replica while records are written: no producer sees an error. The
longest wait is measured and printed, but not judged (a busy machine is slow)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from strandline import Admin, Producer, RecordMetadata
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import drain_znodes, queue_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionId, PartitionKey
from strandline.ports import NoNode
from strandline.vocabulary.metadata import Drain, PartitionState
from tests.integration.support.harness import FAULT_SETTINGS, Topic
from tests.integration.support.placements import led_by
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

CHECK_MS = 500
MANY = 150

pytestmark = pytest.mark.strandline(broker_settings={**FAULT_SETTINGS, "preferred_leader_check_ms": CHECK_MS})
"""Three brokers that often look whether others should lead."""


async def ask(topic: Topic, *, give_to: int, broker: int | None = None) -> None:
    """Leave a notice for the leader, as a controller does."""
    harness, state = topic.harness, await topic.state()
    node = znodes.load_topic(topic.name, (await harness.session.get(znodes.topic(topic.name))).data)
    notice = ElectionNotice(
        topic.name,
        PartitionKey(node.topic_id, PartitionId(0)),
        LeaderEpoch(state.leader_epoch),
        BrokerId(give_to),
        "asked for",
    )
    await harness.session.create(
        znodes.election_notice_prefix(state.leader if broker is None else broker),
        queue_znodes.dump_notices([notice]),
        sequential=True,
    )


def reasons(state: PartitionState) -> list[str]:
    """Why its leaders changed last, as the `isr` znode keeps it."""
    return [event.reason for event in state.trail]


@on_virtual_time
async def test_a_leader_that_was_killed_and_came_back_leads_again_by_itself(
    harness: SimulatedHarness,
) -> None:
    """Kafka's design V3, checkLoadBalancing under load: acknowledged by one or the other, and nothing is
    lost."""
    topic = await harness.create_topic([(1, 2, 3)])
    async with workload(topic, producers=2) as load:
        await load.progress()
        epoch = (await topic.state()).leader_epoch
        await harness.cluster.kill_broker(1)
        elected = await topic.led_above(epoch)
        assert elected.leader != 1
        await load.progress()
        load.gap.longest_s = 0.0
        await harness.cluster.start_broker(1)
        returned = await led_by(topic, 1)
        await load.progress()
        print(f"longest gap around the handover to the preferred leader: {load.gap.longest_s * 1000:.0f} ms")
        history = await load.judge()
    assert history.failed == []
    assert returned.leader_epoch > elected.leader_epoch
    assert f"handed over by broker {elected.leader}: preferred leader" in reasons(returned)


@on_virtual_time
async def test_leadership_moves_on_demand_without_an_error(harness: SimulatedHarness) -> None:
    """A notice reaches a leader ahead of everything in its queue; leadership returns to the preferred one
    later."""
    topic = await harness.create_topic([(2, 1, 3)])
    async with workload(topic, producers=2) as load:
        await load.progress()
        await led_by(topic, 2)
        load.gap.longest_s = 0.0
        await ask(topic, give_to=3)
        given = await led_by(topic, 3)
        assert "handed over by broker 2: asked for" in reasons(given)
        back = await led_by(topic, 2)
        assert back.leader_epoch > given.leader_epoch
        await load.progress()
        print(f"longest gap around two handovers: {load.gap.longest_s * 1000:.0f} ms")
        history = await load.judge()
    assert history.failed == []


@on_virtual_time
async def test_an_impossible_notice_is_dropped_and_delays_no_other(harness: SimulatedHarness) -> None:
    """CORRECTNESS I7, E6: a dead broker gets no leadership, and the leader continues."""
    topic = await harness.create_topic([(2, 1, 3)])
    await harness.cluster.kill_broker(3)
    await topic.isr_is(1, 2)
    before = await led_by(topic, 2)
    await ask(topic, give_to=3)
    await ask(topic, give_to=1)
    given = await topic.led_above(before.leader_epoch)
    assert (given.leader, 3 in given) == (1, False)


@on_virtual_time
async def test_a_drained_broker_leads_again_only_once_it_is_back_and_ready(harness: SimulatedHarness) -> None:
    """A drain outlives the session, and the life, in which it was asked for."""
    topic = await harness.create_topic([(1, 2, 3)])
    await led_by(topic, 1)
    life = (await harness.live())[BrokerId(1)].epoch
    await harness.session.create(znodes.drain(1), drain_znodes.dump_drain(Drain(life, replicas=False)))
    try:
        await ask(topic, give_to=2)
        given = await led_by(topic, 2)
        other = await harness.create_topic([(3, 2, 1)])
        await ask(other, give_to=2)
        moved = await led_by(other, 2)
        assert (await other.led_above(moved.leader_epoch)).leader == 3  # its check has been, and been again
        await ask(other, give_to=2)
        moved = await led_by(other, 2)
        assert (await other.led_above(moved.leader_epoch)).leader == 3
        assert (await topic.state()).leader_epoch == given.leader_epoch
        await harness.cluster.kill_broker(1)
        await harness.cluster.start_broker(1)
        async with Admin(harness.cluster.bootstrap, host=harness.cluster.host) as admin:

            async def ready() -> bool:
                return (await admin.check_broker(1, end_drain=True)).drain_ended

            await eventually(ready, deadline_s=60, what="broker 1 is in sync everywhere")
        assert (await led_by(topic, 1)).leader_epoch > given.leader_epoch
    finally:
        with suppress(NoNode):  # it has ended
            await harness.session.delete(znodes.drain(1))


@pytest.mark.slow
@pytest.mark.timeout(120)
@on_virtual_time
async def test_a_broker_with_many_leaderships_hands_all_over_without_an_error(
    harness: SimulatedHarness,
) -> None:
    """CORRECTNESS I7, H6: drained first, group by group; and what it leads comes back to it."""
    topic = await harness.create_topic([(1, 2, 3)] * MANY)
    for number in range(MANY):
        await led_by(topic, 1, number)
    acknowledged: list[RecordMetadata] = []
    async with Producer(harness.cluster.bootstrap, host=harness.cluster.host) as producer:

        async def write() -> None:
            futures = [await producer.send(topic.name, b"v", partition=n) for n in range(MANY)]
            for future in futures:
                acknowledged.append(await future)

        await write()
        await harness.cluster.stop_broker(1)
        states = [await topic.state(number) for number in range(MANY)]
        assert {state.leader for state in states} <= {2, 3, NO_BROKER}
        await write()
        await harness.cluster.start_broker(1)
        for number in range(MANY):
            await led_by(topic, 1, number)
        await write()
    assert len(acknowledged) == 3 * MANY
    assert {(each.partition, each.offset) for each in acknowledged} == {
        (number, offset) for number in range(MANY) for offset in range(3)
    }
