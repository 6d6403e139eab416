"""A new broker gets its share while records are written: no producer sees an error, controllers that die are
followed, and what is paused or cancelled stays as it is."""

from __future__ import annotations

from contextlib import suppress

import pytest

from strandline import Admin
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout.balance_znodes import load_balance
from strandline.errors import InvalidRequest, OutcomeUnknown
from strandline.vocabulary.metadata import Balance, BalanceState
from tests.integration.support.controllers import armed_controller
from tests.integration.support.harness import FAULT_SETTINGS, Topic
from tests.integration.support.placements import expect, moved
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

pytestmark = pytest.mark.strandline(
    brokers=4,
    controllers=2,
    broker_settings={**FAULT_SETTINGS, "preferred_leader_check_ms": 500},
    controller_settings={"reconcile_ms": 1_000, "reassignments_in_flight_max": 2},
)
"""Topics are created on three brokers; the fourth is the new one."""

ON_THREE = [(1, 2), (2, 3), (3, 1)] * 2
"""The fourth broker gets three of the twelve replicas."""
SLOW_BYTES_PER_S = 1
"""Nothing that has records is copied at this rate within a test."""


def admin_of(harness: SimulatedHarness) -> Admin:
    return Admin(harness.cluster.bootstrap, host=harness.cluster.host)


async def stored(harness: SimulatedHarness) -> Balance:
    await harness.session.sync()  # another server may have taken the write
    return load_balance((await harness.session.get(znodes.BALANCE)).data)


async def expect_completed(harness: SimulatedHarness) -> None:
    """Returns once the balance is over."""

    async def over() -> bool:
        return not (await stored(harness)).state.is_under_way

    await eventually(over, deadline_s=120, what="the balance is over")
    balance = await stored(harness)
    assert (balance.state, balance.done, balance.skipped) == (BalanceState.COMPLETED, balance.count, 0)


async def expect_planned(harness: SimulatedHarness, topic: Topic) -> None:
    """The replicas that the balance gives to partitions of this topic are those to be found at the end."""
    for move in (await stored(harness)).moves:
        if move.name.topic == topic.name:
            expect(topic, *move.after, partition=move.name.partition)


async def balance_over_a_death(harness: SimulatedHarness, topic: Topic, point: str) -> None:
    """Returns once the balance, whose controller died at this point, is over and everything has moved."""
    async with armed_controller(harness, point):
        async with admin_of(harness) as admin:
            with suppress(OutcomeUnknown):  # it took the answer along
                await admin.start_balance(topics=[topic.name])
        await expect_planned(harness, topic)
    await expect_completed(harness)
    await moved(topic)


@on_virtual_time
async def test_a_new_broker_gets_its_share(harness: SimulatedHarness) -> None:
    topic = await harness.create_topic(ON_THREE)
    async with workload(topic) as load:
        await load.progress()
        async with admin_of(harness) as admin:
            plan = await admin.start_balance(topics=[topic.name])
        await expect_planned(harness, topic)
        assert [each.replicas_after for each in plan.loads] == [3, 3, 3, 3]
        assert sorted(each.leads_after for each in plan.loads) == [1, 1, 2, 2]
        assert plan.copies == 3
        await expect_completed(harness)
        assert (await stored(harness)).count == len(plan.moves)
        await moved(topic)
        await load.progress()
        history = await load.judge()
    assert history.failed == []


@on_virtual_time
@pytest.mark.parametrize(
    "point", ["controller.balance.written", "controller.balance.moved", "controller.balance.moved:2"]
)
async def test_a_balance_goes_on_when_the_controller_dies(harness: SimulatedHarness, point: str) -> None:
    """CORRECTNESS E13: the next one continues the balance that it finds in ZooKeeper."""
    topic = await harness.create_topic(ON_THREE)
    await balance_over_a_death(harness, topic, point)


@pytest.mark.slow
@pytest.mark.timeout(180)
@on_virtual_time
async def test_producers_notice_nothing_of_a_controller_that_dies_in_a_balance(
    harness: SimulatedHarness,
) -> None:
    """CORRECTNESS E13: also under load."""
    topic = await harness.create_topic(ON_THREE)
    async with workload(topic) as load:
        await load.progress()
        await balance_over_a_death(harness, topic, "controller.balance.moved")
        await load.progress()
        history = await load.judge()
    assert history.failed == []


@on_virtual_time
async def test_a_cancelled_balance_leaves_each_partition_as_it_was_or_as_planned(
    harness: SimulatedHarness,
) -> None:
    topic = await harness.create_topic(ON_THREE)
    async with admin_of(harness) as admin:
        plan = await admin.start_balance(topics=[topic.name])
        paused = await admin.pause_balance()
        assert paused.state is BalanceState.PAUSED
        with pytest.raises(InvalidRequest, match="is paused: resume it"):
            await admin.start_balance()
        assert (await admin.resume_balance()).state is BalanceState.RUNNING
        assert (await admin.cancel_balance(revert=True)).state is BalanceState.CANCELLED

        async def still() -> bool:
            return not await admin.list_reassignments()

        await eventually(still, deadline_s=30, what="no partition moves")
        described = await admin.describe_balance()
    found = 0
    for move in plan.moves:
        number = move.name.partition
        data = (await harness.session.get(znodes.replicas(topic.name, number))).data
        now = znodes.load_replicas(topic.name, number, data)
        assert now in (move.before, move.after)
        found += now == move.after
        expect(topic, *now, partition=number)
    assert (described.done, described.moving, described.skipped) == (found, 0, 0)
    await moved(topic)
