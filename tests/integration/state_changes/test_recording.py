"""Elections, ISR changes, resignations and truncations are in `__state_changes`, even if brokers die in
between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from strandline import Producer
from strandline.vocabulary.state_changes import ChangeKind, RequestState, StateChangeEvent
from tests.integration.faults.test_crash_points import POINTS
from tests.integration.support.harness import Topic
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.state_changes import Witness, reading_events, witness
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually


def about(
    topic: Topic, kind: ChangeKind, *, broker: int | None = None, left: int | None = None
) -> Callable[[StateChangeEvent], bool]:
    def wanted(event: StateChangeEvent) -> bool:
        return (
            (event.topic, event.command) == (topic.name, kind)
            and broker in (None, event.broker)
            and (left is None or left in event.left)
        )

    return wanted


async def kill(simulated: SimulatedHarness, *brokers: int) -> None:
    """All at once."""
    async with asyncio.TaskGroup() as tasks:
        for broker in brokers:
            tasks.create_task(simulated.cluster.kill_broker(broker))


# --- between the write and the record -----------------------------------------------------------------

DYING = {
    "election.after_claim": ChangeKind.ELECT_LEADER,
    "isr.after_write": ChangeKind.CHANGE_ISR,
    "handover.after_notice": ChangeKind.RESIGN_LEADER,
}


@on_virtual_time
@pytest.mark.parametrize("point", DYING)
async def test_the_next_leader_records_the_last_events_of_a_dead_one(
    simulated: SimulatedHarness, point: str
) -> None:
    """CORRECTNESS E7: the process that dies there has written it and recorded nothing; each epoch that there
    ever was has its election, and each event of a trail its record."""
    topic = await simulated.create_topic([(1, 2, 3)])
    async with witness(simulated, topic.partitions) as seen, reading_events(simulated) as reader:
        await POINTS[point](simulated, topic, point)
        await simulated.heal()
        await topic.settled()
        await reader.all_of(seen)
        reader.once()
        dead = 2 if point.startswith("election") else 1
        assert any(event.command is DYING[point] and event.broker == dead for event in seen.trails.values())


@on_virtual_time
async def test_events_from_before_all_brokers_died_are_recorded_when_they_return(
    simulated: SimulatedHarness,
) -> None:
    """CORRECTNESS E7, Q5: no process remembers anything; the znodes do."""
    topic = await simulated.create_topic([(1, 2, 3), (2, 3, 1), (3, 1, 2)])
    async with witness(simulated, topic.partitions) as seen:
        await simulated.cluster.stop_broker(3)
        await eventually(lambda: any(e.left == (3,) for e in seen.trails.values()))
        await kill(simulated, 1, 2)
        await simulated.heal()
        await topic.settled()
        async with reading_events(simulated) as reader:
            await reader.all_of(seen)
            reader.once()


@on_virtual_time
async def test_events_are_recorded_later_if_the_topic_takes_nothing_now(simulated: SimulatedHarness) -> None:
    """CORRECTNESS E7: one broker is left and no controller, so `__state_changes` is short of min in-sync
    replicas; what that broker did is recorded by others, for it dies without having recorded it."""
    topic = await simulated.create_topic([(1, 2, 3), (2, 3, 1)])
    async with reading_events(simulated) as reader, witness(simulated, topic.partitions) as seen:
        await reader.until(about(topic, ChangeKind.ELECT_LEADER), count=2, what="the first elections")
        for controller in simulated.cluster.controller_ids:
            await simulated.cluster.stop_controller(controller)
        await kill(simulated, 2, 3)
        for number in (0, 1):
            await topic.isr_is(1, partition=number)
        await eventually(lambda: _alone(seen, topic))
        await reader.to_the_end()
        meanwhile = [e for e in seen.trails.values() if e.isr == (1,)]
        assert not [event for event in reader.events if event in meanwhile]
        await simulated.cluster.kill_broker(1)
        for controller in simulated.cluster.controller_ids:
            await simulated.cluster.start_controller(controller)
        await simulated.heal()
        await topic.settled()
        await reader.all_of(seen)
        reader.once()
        reasons = {e.reason for e in reader.events if e.command is ChangeKind.ELECT_LEADER}
        assert "broker 2 is gone" in reasons or "broker 2 does not answer" in reasons


def _alone(seen: Witness, topic: Topic) -> bool:
    """The trails say for each partition how broker 1 came to be alone."""
    alone = {event.key.partition for event in seen.trails.values() if event.isr == (1,)}
    return alone >= {name.partition for name in topic.partitions}


# --- what is lost -------------------------------------------------------------------------------------


@on_virtual_time
async def test_an_unclean_election_reports_its_exact_loss(simulated: SimulatedHarness) -> None:
    """CORRECTNESS T11: which records went is in the topic, not only in the log of the broker that cut."""
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    topic = await simulated.create_topic([(1, 2)], config)
    cluster = simulated.cluster
    async with reading_events(simulated) as reader:
        await produce(topic, 3)
        await cluster.kill_broker(2)
        await topic.isr_is(1)
        await produce(topic, 5)
        epoch = (await topic.state()).leader_epoch
        await cluster.stop_broker(1)  # its high watermark is on the disk
        await cluster.start_broker(2)
        unclean = await topic.led_above(epoch)
        await produce(topic, 1)
        await simulated.heal()
        await topic.agreed()
        (election,) = await reader.until(
            lambda e: about(topic, ChangeKind.ELECT_LEADER)(e) and e.unclean, what="the unclean election"
        )
        assert (election.broker, election.epoch, election.isr) == (2, unclean.leader_epoch, (2,))
        assert election.reason.startswith(
            "handed over by broker 1: shutting down, and no replica in sync is alive; "
        )
        (cut,) = await reader.until(about(topic, ChangeKind.TRUNCATE), what="the cut")
        assert (cut.broker, cut.state) == (1, RequestState.COMPLETED)
        assert (cut.first, cut.end, cut.lost) == (3, 8, 5)
        assert cut.epoch >= unclean.leader_epoch


async def produce(topic: Topic, count: int) -> None:
    """Produce like a client that no broker remembers."""
    cluster = topic.harness.cluster
    async with Producer(cluster.bootstrap, host=cluster.host) as producer:
        for number in range(count):
            await (await producer.send(topic.name, str(number).encode(), partition=0))
