"""Every operation on a cluster of containers has its effect, as seen by a client on the host."""

from __future__ import annotations

import pytest

from strandline import Consumer
from strandline_lab.chaos.core.faults import Cut, FaultKind, Member, Role
from tests.chaos.containers.sight import Sight, broker
from tests.waiting import eventually

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

CONTROLLERS = (Member(Role.CONTROLLER, 1), Member(Role.CONTROLLER, 2))
ZOOKEEPERS = tuple(Member(Role.ZOOKEEPER, number) for number in (1, 2, 3))


async def test_a_client_on_the_host_writes_and_reads_in_a_group(sight: Sight) -> None:
    await sight.write()
    async with Consumer(
        sight.world.bootstrap, group_id=f"group-{sight.topic}", offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([sight.topic])
        found = [(await consumer.getone()).value for _ in sight.acknowledged]
        await consumer.commit()
    assert found == sight.acknowledged


async def test_a_killed_leader_loses_nothing_and_comes_back_with_its_log(sight: Sight) -> None:
    """CORRECTNESS H1, T1: what was acknowledged is on every replica that may be elected."""
    await sight.write()
    leader = await sight.leader()
    await sight.world.kill(leader)
    assert not await sight.world.alive(leader)
    await sight.world.kill(leader)
    await sight.led_by_another_than(leader)
    await sight.write()
    await sight.world.start(leader)
    await sight.world.start(leader)
    assert await sight.world.alive(leader)
    await sight.isr_is(1, 2, 3)
    assert await sight.read() == sight.acknowledged
    log = await sight.world.log_of(leader)
    assert any(path.name.startswith(sight.topic) for path in log.iterdir())
    assert b'"serving"' in await sight.world.said(leader)


async def test_a_terminated_leader_hands_over_before_it_ends(sight: Sight) -> None:
    await sight.write()
    leader = await sight.leader()
    await sight.world.terminate(leader)
    assert not await sight.world.alive(leader)
    assert b'"stopped"' in await sight.world.said(leader)
    await sight.write()
    await sight.world.start(leader)
    await sight.isr_is(1, 2, 3)
    assert await sight.read() == sight.acknowledged


async def test_a_paused_broker_is_alive_and_leaves_the_isr(sight: Sight) -> None:
    follower = broker(3)
    await sight.world.pause(follower)
    await sight.world.pause(follower)
    assert await sight.world.alive(follower)
    await sight.write()
    await sight.isr_is(1, 2)
    await sight.world.resume(follower)
    await sight.world.resume(follower)
    await sight.isr_is(1, 2, 3)
    assert await sight.read() == sight.acknowledged


async def test_a_paused_broker_can_be_killed(sight: Sight) -> None:
    await sight.world.pause(broker(2))
    await sight.world.kill(broker(2))
    assert not await sight.world.alive(broker(2))


async def test_a_disconnected_leader_is_replaced_and_comes_back(sight: Sight) -> None:
    """It lives, and reaches no other member; its session ends, and another broker leads."""
    await sight.write()
    leader = await sight.leader()
    await sight.world.disconnect(leader)
    await sight.world.disconnect(leader)
    assert await sight.world.alive(leader)
    await sight.led_by_another_than(leader)
    await sight.write()
    await sight.world.connect(leader)
    await sight.world.connect(leader)
    await sight.isr_is(1, 2, 3)
    assert await sight.read() == sight.acknowledged


async def test_a_follower_that_is_cut_in_one_direction_leaves_the_isr(sight: Sight) -> None:
    """Its leader's records do not arrive, or its acknowledgements do not; clients see no broker cut off."""
    if FaultKind.ONE_WAY not in sight.world.can:
        pytest.skip("the engine's rules are not this machine's, or not ours to change")
    leader, follower = await sight.leader(), broker(3)
    assert leader != follower
    for sender, receiver in ((follower, leader), (leader, follower)):
        await sight.world.cut(sender, receiver)
        await sight.world.cut(sender, receiver)
        await sight.write()
        await sight.isr_is(1, 2)
        await sight.world.join(sender, receiver)
        await sight.world.join(sender, receiver)
        await sight.isr_is(1, 2, 3)
    assert await sight.read() == sight.acknowledged


@pytest.mark.parametrize("how", [Cut.UNREACHABLE, Cut.REFUSED])
async def test_a_broker_that_is_cut_off_from_the_others_takes_no_partition(sight: Sight, how: Cut) -> None:
    """CORRECTNESS H5, E1: it reaches ZooKeeper, and learns at once that it reaches no other broker. It
    took every partition with an ISR of itself alone, and refused all records, while the others were well."""
    if FaultKind.ONE_WAY not in sight.world.can:
        pytest.skip("the engine's rules are not this machine's, or not ours to change")
    leader, follower = await sight.leader(), broker(3)
    assert leader != follower
    others = [member for member in (broker(1), broker(2)) if member != follower]
    for other in others:
        await sight.world.cut(follower, other, how)
        await sight.world.cut(other, follower, how)
    await sight.isr_is(1, 2)
    await sight.write()
    assert await sight.leader() in others
    for other in others:
        await sight.world.join(follower, other, how)
        await sight.world.join(other, follower, how)
    await sight.isr_is(1, 2, 3)
    assert await sight.read() == sight.acknowledged


async def test_a_full_disk_affects_one_broker(sight: Sight) -> None:
    """CORRECTNESS E14: a broker that cannot append is not in sync; the others continue."""
    await sight.write()
    full = broker(2)
    await sight.world.fill_disk(full)
    await sight.world.fill_disk(full)

    async def out() -> bool:
        await sight.write(10)
        return full.number not in (await sight.partition()).isr

    await eventually(out, deadline_s=60, what="the broker that cannot append is out of the ISR")
    await sight.world.free_disk(full)
    await sight.world.free_disk(full)
    await sight.world.kill(full)
    await sight.world.start(full)
    await sight.isr_is(1, 2, 3)
    assert await sight.read() == sight.acknowledged


@pytest.mark.parametrize("number", [0, 1])
async def test_either_controller_may_die(sight: Sight, number: int) -> None:
    await sight.world.kill(CONTROLLERS[number])
    await sight.create_another_topic()
    await sight.write()
    await sight.world.start(CONTROLLERS[number])


async def test_one_node_of_zookeeper_may_die(sight: Sight) -> None:
    for node in ZOOKEEPERS:
        await sight.world.kill(node)
        assert not await sight.world.alive(node)
        await sight.create_another_topic()
        await sight.write(10)
        await sight.world.start(node)
        assert await sight.world.alive(node)


async def test_records_are_written_while_zookeeper_has_no_quorum(sight: Sight) -> None:
    """There are no elections then; present leaders continue."""
    await sight.write()
    for node in ZOOKEEPERS[:2]:
        await sight.world.kill(node)
    await sight.write(10)
    for node in ZOOKEEPERS[:2]:
        await sight.world.start(node)
    await sight.create_another_topic()
    await sight.isr_is(1, 2, 3)
    assert await sight.read() == sight.acknowledged
