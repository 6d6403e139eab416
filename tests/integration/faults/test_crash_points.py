"""A broker dies by its own hand between any two steps of an election, a handover, a change of the ISR and a
state change; the others take over, it comes back, and nothing that was acknowledged is lost."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import strandline.broker as broker_package
from tests.integration.placement.test_reassign_faults import STEPS
from tests.integration.support.harness import ClusterHarness, Harness, Topic
from tests.integration.support.placements import elect, led_by, moved, reassign
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

Trigger = Callable[[ClusterHarness, Topic, str], Awaitable[None]]


async def died(harness: ClusterHarness, broker: int, point: str) -> None:
    await eventually(
        lambda: not harness.running(broker), deadline_s=20, what=f"broker {broker} dies at {point}"
    )


async def by_an_election(harness: ClusterHarness, topic: Topic, point: str) -> None:
    """Broker 2 comes first after broker 1, which is killed."""
    await rearm(harness, topic, 2, point)
    await harness.cluster.kill_broker(1)
    await died(harness, 2, point)


async def by_a_handover(harness: ClusterHarness, topic: Topic, point: str) -> None:
    """Broker 1, armed, gets the leadership back from broker 2 and is asked to stop."""
    await rearm(harness, topic, 1, point)
    epoch = (await topic.state()).leader_epoch
    await harness.cluster.stop_broker(2)
    assert (await topic.led_above(epoch)).leader == 1
    await harness.cluster.start_broker(2)
    await topic.isr_is(1, 2, 3)
    await harness.cluster.stop_broker(1)


async def by_an_isr_change(harness: ClusterHarness, topic: Topic, point: str) -> None:
    """Broker 1 takes over, armed, from broker 2, which leaves the ISR then, or has left and joins again."""
    await rearm(harness, topic, 1, point)
    await harness.cluster.stop_broker(2)
    await harness.cluster.start_broker(2, wait_s=None)
    await died(harness, 1, point)


async def by_a_state_change(harness: ClusterHarness, topic: Topic, point: str) -> None:
    """Broker 2 was dead while broker 3 was elected in place of broker 1: the request waits in its queue."""
    epoch = (await topic.state()).leader_epoch
    await harness.cluster.kill_broker(2)
    await topic.isr_is(1, 3)
    await harness.cluster.kill_broker(1)
    await topic.led_above(epoch)
    await harness.cluster.start_broker(2, wait_s=None, crash_points=point)
    await died(harness, 2, point)


async def by_a_reassignment(harness: ClusterHarness, topic: Topic, point: str) -> None:
    """Broker 1, armed, leads, and is to have broker 2 close its replica, and to give up its own."""
    await rearm(harness, topic, 1, point)
    await elect(topic)
    await led_by(topic, 1)
    await reassign(topic, 3)
    await died(harness, 1, point)
    await harness.heal()
    await moved(topic)


async def rearm(harness: ClusterHarness, topic: Topic, broker: int, point: str) -> None:
    """Bounce the broker, and have it die at the point the next time that it comes there."""
    await harness.cluster.kill_broker(broker)
    await harness.cluster.start_broker(broker, crash_points=point)
    await topic.isr_is(1, 2, 3)


POINTS: dict[str, Trigger] = {
    "election.before_epoch": by_an_election,
    "election.after_epoch": by_an_election,
    "election.before_claim": by_an_election,
    "election.after_claim": by_an_election,
    "election.before_epoch_file": by_an_election,
    "election.after_epoch_file": by_an_election,
    "election.before_start_replica": by_an_election,
    "handover.before_notice": by_a_handover,
    "handover.after_notice": by_a_handover,
    "isr.before_write": by_an_isr_change,
    "isr.after_write": by_an_isr_change,
    "reassign.before_close": by_a_reassignment,
    "reassign.after_close": by_a_reassignment,
    "reassign.before_complete": by_a_reassignment,
    "reassign.after_complete": by_a_reassignment,
    "state_change.before_execute": by_a_state_change,
    "state_change.after_execute": by_a_state_change,
    "state_change.after_settle": by_a_state_change,
    "state_change.after_record": by_a_state_change,
    "state_change.before_remove": by_a_state_change,
}


ELSEWHERE = {point for point in POINTS if point.startswith("state_change.")} - {"state_change.after_execute"}
"""Struck by state_changes/test_state_changes.py."""


def test_every_crash_point_of_a_broker_is_used() -> None:
    """An unused point would claim a step that is not tested."""
    (package,) = broker_package.__path__
    sources = (path.read_text() for path in Path(package).rglob("*.py"))
    found = {name for source in sources for name in re.findall(r'\bcrash_point\("([^"]+)"\)', source)}
    assert found == set(POINTS)
    assert {point for point in POINTS if point.startswith("reassign.")} == set(STEPS)


@on_virtual_time
@pytest.mark.parametrize("point", [point for point in POINTS if point not in ELSEWHERE])
async def test_nothing_is_lost_when_a_broker_dies_at(simulated: SimulatedHarness, point: str) -> None:
    """kill -9 at each named step: recovery needs no memory of the process that died
    (CORRECTNESS T4, I4, E4, E7, E9, E13, E16)."""
    await nothing_is_lost(simulated, point)


@pytest.mark.timeout(120)
async def test_nothing_is_lost_when_the_process_of_a_broker_dies(harness: Harness) -> None:
    """As above: a process kills itself, and its log is in the page cache of a kernel (CORRECTNESS T4, E7)."""
    await nothing_is_lost(harness, "election.after_claim")


async def nothing_is_lost(harness: ClusterHarness, point: str) -> None:
    topic = await harness.create_topic([(1, 2, 3)])
    async with workload(topic, producers=1) as load:
        await load.progress()
        await POINTS[point](harness, topic, point)
        await harness.heal()
        await load.progress()
        await load.judge()
