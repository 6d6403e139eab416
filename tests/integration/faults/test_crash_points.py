"""A broker dies by its own hand between any two steps of an election, a handover, a change of the ISR and a
state change; the others take over, it comes back, and nothing that was acknowledged is lost."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import strandline.broker as broker_package
from tests.integration.placement.test_reassign_faults import STEPS
from tests.integration.support.harness import Harness, Topic
from tests.integration.support.placements import elect, moved, reassign
from tests.integration.support.workload import workload
from tests.waiting import eventually

Trigger = Callable[[Harness, Topic, str], Awaitable[None]]


async def died(harness: Harness, broker: int, point: str) -> None:
    await eventually(
        lambda: not harness.running(broker), deadline_s=20, what=f"broker {broker} dies at {point}"
    )


async def by_an_election(harness: Harness, topic: Topic, point: str) -> None:
    """Broker 2 comes first after broker 1, which is killed."""
    await rearm(harness, topic, 2, point)
    await harness.cluster.kill_broker(1)
    await died(harness, 2, point)


async def by_a_handover(harness: Harness, topic: Topic, point: str) -> None:
    """Broker 1, armed, gets the leadership back from broker 2 and is asked to stop."""
    await rearm(harness, topic, 1, point)
    epoch = (await topic.state()).leader_epoch
    await harness.cluster.stop_broker(2)
    assert (await topic.led_above(epoch)).leader == 1
    await harness.cluster.start_broker(2)
    await topic.isr_is(1, 2, 3)
    await harness.cluster.stop_broker(1)


async def by_an_isr_change(harness: Harness, topic: Topic, point: str) -> None:
    """Broker 1 takes over, armed, from broker 2, which leaves the ISR then, or has left and joins again."""
    await rearm(harness, topic, 1, point)
    await harness.cluster.stop_broker(2)
    await harness.cluster.start_broker(2, wait_s=None)
    await died(harness, 1, point)


async def by_a_state_change(harness: Harness, topic: Topic, point: str) -> None:
    """Broker 2 was dead while broker 3 was elected in place of broker 1: the request waits in its queue."""
    epoch = (await topic.state()).leader_epoch
    await harness.cluster.kill_broker(2)
    await topic.isr_is(1, 3)
    await harness.cluster.kill_broker(1)
    await topic.led_above(epoch)
    await harness.cluster.start_broker(2, wait_s=None, crash_points=point)
    await died(harness, 2, point)


async def by_a_reassignment(harness: Harness, topic: Topic, point: str) -> None:
    """Broker 1, armed, leads, and is to have broker 2 close its replica, and to give up its own."""
    await rearm(harness, topic, 1, point)
    await elect(topic)
    await reassign(topic, 3)
    await died(harness, 1, point)
    await harness.heal()
    await moved(topic)


async def rearm(harness: Harness, topic: Topic, broker: int, point: str) -> None:
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


QUICK = {
    "election.after_claim",
    "handover.before_notice",
    "isr.after_write",
    "reassign.after_close",
    "state_change.after_execute",
}
"""One of each kind; the others are slow."""
ELSEWHERE = {point for point in POINTS if point.startswith(("reassign.", "state_change."))} - QUICK
"""Struck by placement/test_reassign_faults.py, and by state_changes/test_state_changes.py."""
CASES = [
    pytest.param(point, marks=() if point in QUICK else pytest.mark.slow)
    for point in POINTS
    if point not in ELSEWHERE
]


def test_every_crash_point_of_a_broker_is_used() -> None:
    """An unused point would claim a step that is not tested."""
    (package,) = broker_package.__path__
    sources = (path.read_text() for path in Path(package).rglob("*.py"))
    found = {name for source in sources for name in re.findall(r'\bcrash_point\("([^"]+)"\)', source)}
    assert found == set(POINTS)
    assert {point for point in POINTS if point.startswith("reassign.")} == set(STEPS)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("point", CASES)
async def test_nothing_is_lost_when_a_broker_dies_at(harness: Harness, point: str) -> None:
    """kill -9 at each named step: recovery needs no memory of the process that died
    (CORRECTNESS T4, I4, E4, E7, E9, E13, E16)."""
    topic = await harness.create_topic([(1, 2, 3)])
    async with workload(topic, producers=1) as load:
        await load.progress()
        await POINTS[point](harness, topic, point)
        await harness.heal()
        await load.progress()
        await load.judge()
