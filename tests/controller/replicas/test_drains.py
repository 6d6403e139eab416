"""Draining and checking brokers on a real ZooKeeper, with brokers that the test registers (USERS 11)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import drain_znodes, queue_znodes, reassignment_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.errors import InvalidReplicationFactor, InvalidRequest, NotController, StrandlineError
from strandline.ids import BrokerEpoch, BrokerId, TopicPartition
from strandline.ports import Coordination, NoNode
from strandline.vocabulary.admin import DrainBroker, NewTopic, PartitionReassignment, Reassign
from strandline.vocabulary.metadata import Drain
from tests.conftest import SessionFactory
from tests.controller.support.running import Activate, Running, process, running
from tests.controller.support.znodes_seen import assignments, lead, register
from tests.waiting import eventually

ROUND_S_MAX = 40.0
"""A round of upkeep, and the rest before it, which is long on a machine that is slow just now."""

SETTINGS = {"reconcile_ms": 50, "mend_after_ms": 60_000}


async def created(controller: Running, name: str, *replicas: tuple[int, ...]) -> None:
    (outcome,) = await controller.admin.create_topics([NewTopic(name, 0, assignments=replicas)])
    assert outcome.error is None


async def notices(session: Coordination, broker: int) -> list[ElectionNotice]:
    folder = znodes.elections(broker)
    found = []
    for entry in sorted(await session.children(folder)):
        found += queue_znodes.load_notices((await session.get(f"{folder}/{entry}")).data)
    return found


async def drains(session: Coordination) -> dict[int, Drain]:
    found = {}
    for child in await session.children(znodes.DRAINS):
        with suppress(NoNode):  # it has just ended
            data = (await session.get(f"{znodes.DRAINS}/{child}")).data
            found[int(child)] = drain_znodes.load_drain(int(child), data)
    return found


async def test_a_drain_asks_the_broker_to_hand_each_leadership_over(active: Activate) -> None:
    """The word goes to the leader's own queue of notices, which waits behind no request."""
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await created(controller, "t", (1, 3, 2), (2, 1, 3))
        await lead(session, "t", 1, epochs, 1, 2, 3)
        await lead(session, "t", 2, epochs, 1, 2, 3, partition=1)
        progress = await controller.admin.drain_broker(DrainBroker(1))
        assert (progress.leaderships, progress.replicas, list(progress.problems)) == (1, 2, [])
        (notice,) = await eventually(lambda: notices(session, 1), deadline_s=ROUND_S_MAX)
        assert (notice.topic, notice.key.partition, notice.leader_epoch) == ("t", 0, 5)
        assert (notice.give_to, notice.reason) == (3, "drain")
        assert await drains(session) == {1: Drain(BrokerEpoch(epochs[1]), replicas=False)}
        await lead(session, "t", 3, epochs, 1, 2, 3)
        assert (await controller.admin.drain_broker(DrainBroker(1))).leaderships == 0
        assert await notices(session, 2) == await notices(session, 3) == []


async def test_a_partition_without_a_possible_successor_is_reported_with_its_values(active: Activate) -> None:
    async with active([1, 2], **SETTINGS) as (session, controller, epochs):
        await created(controller, "t", (1, 2))
        await lead(session, "t", 1, epochs, 1)
        (problem,) = (await controller.admin.drain_broker(DrainBroker(1))).problems
        assert problem.startswith("t-0 cannot be led by another: its ISR is 1 of the replicas 1,2")
        (problem,) = (await controller.admin.drain_broker(DrainBroker(2, replicas=True))).problems
        assert problem.startswith("t-0 has the replicas 1,2, and no other broker")


async def test_a_drain_of_replicas_reassigns_them_and_places_nothing_new_there(active: Activate) -> None:
    async with active([1, 2, 3], **SETTINGS, reassignments_in_flight_max=2) as (session, controller, epochs):
        await created(controller, "t", (1, 2), (1, 2), (2, 1), (2, 3))
        for number, isr in enumerate(((1, 2), (1, 2), (1, 2), (2, 3))):
            await lead(session, "t", 2, epochs, *isr, partition=number)
        await controller.admin.drain_broker(DrainBroker(1, replicas=True, throttle_bytes_per_s=1_000))

        async def moving() -> list[str]:
            if znodes.REASSIGNED.split("/")[-1] not in await session.children("/brokers"):
                return []
            if "t" not in await session.children(znodes.REASSIGNED):
                return []
            return sorted(await session.children(znodes.reassigned_topic("t")))

        assert await eventually(moving, deadline_s=ROUND_S_MAX) == ["0", "1"], "more than two move at a time"
        node = await session.get(znodes.reassigned("t", 0))
        wanted = reassignment_znodes.load_reassignment("t", 0, node.data)
        assert (wanted.original, wanted.replicas, wanted.throttle_bytes_per_s) == ((1, 2), (3, 2), 1_000)
        await session.delete(znodes.reassigned("t", 0))  # as its leader would at the end
        await session.set(znodes.replicas("t", 0), znodes.dump_replicas([3, 2]))

        async def next_one() -> bool:
            return await moving() == ["1", "2"]

        await eventually(next_one, deadline_s=ROUND_S_MAX)
        assert await assignments(session, "t") == [(3, 2), (1, 2, 3), (2, 1, 3), (2, 3)]
        (outcome,) = await controller.admin.create_topics([NewTopic("new", 6, 2)])
        assert outcome.error is None
        assert not any(1 in replicas for replicas in await assignments(session, "new"))
        (outcome,) = await controller.admin.create_topics([NewTopic("large", 1, 3)])
        assert isinstance(outcome.error, InvalidReplicationFactor)
        assert "2 brokers are alive and not being drained" in outcome.error.message
        await controller.admin.drain_broker(DrainBroker(1, undo=True))
        (outcome,) = await controller.admin.create_topics([NewTopic("large", 1, 3)])
        assert outcome.error is None


async def test_the_next_controller_continues_a_drain(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path
) -> None:
    """A drain is a state: the controller that took the request may die right after it wrote it."""
    session = await open_session()
    epochs = await register(session, [1, 2])
    async with running(zookeeper, **SETTINGS) as controller:
        await controller.wait_active()
        await created(controller, "t", (1, 2))
        await lead(session, "t", 1, epochs, 1, 2)
    async with process(1, zookeeper, tmp_path, crash_points="controller.drain.written", **SETTINGS) as doomed:
        await eventually(doomed.is_active, deadline_s=ROUND_S_MAX)
        await doomed.drain(1)
        await eventually(
            lambda: doomed.dead, deadline_s=ROUND_S_MAX, what="the controller has died at the point"
        )
        assert await notices(session, 1) == []
    async with running(zookeeper, 2, **SETTINGS):
        (notice,) = await eventually(lambda: notices(session, 1), deadline_s=ROUND_S_MAX)
        assert notice.give_to == 2


async def test_a_drain_survives_the_sessions_of_its_broker(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """It ends when it is taken back; one of leaderships also when its broker, back again, is ready."""
    session, other = await open_session(), await open_session()
    await register(session, [1])
    await register(other, [2, 3])
    async with running(zookeeper, **SETTINGS) as controller:
        await controller.wait_active()
        await controller.admin.drain_broker(DrainBroker(2))
        await controller.admin.drain_broker(DrainBroker(3, replicas=True))
        assert not (await controller.admin.check_broker(2, end_drain=True)).drain_ended, "the same life"

        async def drained() -> list[int]:
            return [b.endpoint.id for b in (await controller.admin.describe_cluster()).brokers if b.drained]

        assert await drained() == [2, 3]
        await other.close()
        assert (await controller.admin.drain_broker(DrainBroker(2))).leaderships == 0, (
            "to ask how far it is is no error"
        )
        await register(session, [2, 3])
        assert await drained() == [2, 3]
        for broker in (2, 3):
            found = await controller.admin.check_broker(broker)
            assert (found.ready, found.drain_ended) == (True, False), "a question alone ends nothing"
        assert (await controller.admin.check_broker(2, end_drain=True)).drain_ended
        assert not (await controller.admin.check_broker(3, end_drain=True)).drain_ended
        assert await drained() == [3]


async def test_a_drain_until_the_next_restart_ends_by_itself(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """A hook before a stop can ask for it: no command has to follow. A drain without that end keeps on."""
    session, other = await open_session(), await open_session()
    await register(session, [1])
    await register(other, [2, 3])
    async with running(zookeeper, **SETTINGS) as controller:
        await controller.wait_active()
        drain = controller.admin.drain_broker
        await drain(DrainBroker(2, until_restart=True))
        await drain(DrainBroker(3))
        await drain(DrainBroker(3, until_restart=True))
        assert {b: each.until_restart for b, each in (await drains(session)).items()} == {2: True, 3: False}
        await other.close()
        await register(session, [2, 3])

        async def is_over() -> bool:
            return list(await drains(session)) == [3]

        await eventually(is_over, deadline_s=ROUND_S_MAX)
        await drain(DrainBroker(2, until_restart=True))
        await drain(DrainBroker(2))
        assert not (await drains(session))[2].until_restart
        with pytest.raises(InvalidRequest, match="does not end with a restart"):
            await drain(DrainBroker(1, replicas=True, until_restart=True))


async def test_a_drain_that_gets_another_throttle_remembers_the_earlier_ones(active: Activate) -> None:
    """So the next controller recognizes the drain's active moves, and gives them the present throttle."""
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await created(controller, "t", (1, 2), (1, 2))
        for number in (0, 1):
            await lead(session, "t", 2, epochs, 1, 2, partition=number)
        own, by_hand = TopicPartition("t", 0), TopicPartition("t", 1)
        target = (BrokerId(3), BrokerId(2))
        await controller.admin.reassign(
            Reassign([PartitionReassignment(by_hand, target)], throttle_bytes_per_s=77)
        )
        await controller.admin.drain_broker(DrainBroker(1, replicas=True, throttle_bytes_per_s=10))

        async def throttle(name: TopicPartition) -> int | None:
            with suppress(NoNode):
                node = await session.get(znodes.reassigned(*name))
                return reassignment_znodes.load_reassignment(*name, node.data).throttle_bytes_per_s
            return None

        async def throttled(bytes_per_s: int) -> bool:
            return await throttle(own) == bytes_per_s

        await eventually(lambda: throttled(10), deadline_s=ROUND_S_MAX)
        await controller.admin.drain_broker(DrainBroker(1, replicas=True, throttle_bytes_per_s=5_000))
        await eventually(lambda: throttled(5_000), deadline_s=ROUND_S_MAX)
        assert await throttle(by_hand) == 77
        assert (await drains(session))[1].earlier_throttles == (10,)


@pytest.mark.parametrize(
    ("broker", "asked", "said"),
    [
        (7, {}, "broker 7 is not known; known are 1, 2"),
        (-5, {}, "broker -5 is not known"),
        (1, {"replicas": True, "throttle_bytes_per_s": -1}, "throttle_bytes_per_s -1 is negative"),
        (2, {}, "broker 2 is not alive"),
    ],
)
async def test_an_invalid_drain_is_refused_with_its_value(
    zookeeper: str, open_session: SessionFactory, broker: int, asked: dict[str, Any], said: str
) -> None:
    session = await open_session()
    await register(session, [1])
    await session.ensure_path(znodes.state_queue(2))
    async with running(zookeeper, **SETTINGS) as controller:
        await controller.wait_active()
        with pytest.raises(InvalidRequest, match=said):
            await controller.admin.drain_broker(DrainBroker(broker, **asked))
        assert await drains(session) == {}


async def test_to_take_back_what_is_not_there_is_no_error_and_half_a_drain_is_not_taken_back(
    active: Activate,
) -> None:
    async with active([1, 2], **SETTINGS) as (_, controller, _):
        assert (await controller.admin.drain_broker(DrainBroker(1, undo=True))).leaderships == 0
        await controller.admin.drain_broker(DrainBroker(1, replicas=True))
        with pytest.raises(InvalidRequest, match="take that back first"):
            await controller.admin.drain_broker(DrainBroker(1))


async def test_a_broker_is_ready_when_it_is_in_sync_and_can_be_spared(active: Activate) -> None:
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        assert (await controller.admin.check_broker(1)).ready
        assert (await controller.admin.check_broker(9)).problems == [
            "broker 9 is not registered; alive: 1, 2, 3"
        ]
        await created(controller, "t", (1, 2, 3))
        await lead(session, "t", 1, epochs, 1, 2, 3)
        found = await controller.admin.check_broker(1)
        assert found.problems == ["broker 1 has 1 state-change requests in its queue"]
        for entry in await session.children(znodes.state_queue(1)):
            await session.delete(f"{znodes.state_queue(1)}/{entry}")
        found = await controller.admin.check_broker(1)
        assert (found.ready, found.leaderships, found.replicas) == (True, 1, 1)
        await lead(session, "t", 1, epochs, 1, 2)
        (problem,) = (await controller.admin.check_broker(1)).problems
        assert problem == "t-0: the ISR 1,2 without broker 1 would be 1, and min.insync.replicas is 2"


async def test_a_standby_names_the_active_controller(zookeeper: str) -> None:
    async with running(zookeeper, 1, **SETTINGS) as one:
        await one.wait_active()
        async with running(zookeeper, 2, **SETTINGS) as two:
            await two.wait_knows(1)
            refused: list[StrandlineError] = []
            for asked in (two.admin.drain_broker(DrainBroker(1)), two.admin.check_broker(1)):
                with pytest.raises(NotController) as caught:
                    await asked
                refused.append(caught.value)
            assert all(error.leader is not None and error.leader.broker_id == 1 for error in refused)
