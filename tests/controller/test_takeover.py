"""One controller is active; another takes over when it goes, and finishes or removes what was begun."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest

from strandline.adapters.zookeeper import znodes
from strandline.errors import OutcomeUnknown, TopicAlreadyExists
from strandline.ids import TopicId
from strandline.ports import Coordination
from strandline.rpc import admin_pb2
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.state_changes import Command
from tests.conftest import SessionFactory
from tests.controller.support.running import Activate, ControllerProcess, process, running
from tests.controller.support.znodes_seen import (
    assignments,
    check_replicas_deleted,
    check_whole,
    is_gone,
    register,
    requests,
    topic_node,
)
from tests.waiting import eventually

SMALL, LARGE = 3, 30
"""Partitions of a topic that fits into one multi, and of one that does not."""

CREATION_STEPS = [
    ("controller.create.before", SMALL),
    ("controller.create.written", SMALL),
    ("controller.create.before", LARGE),
    ("controller.create.marked", LARGE),
    ("controller.create.part", LARGE),
    ("controller.create.part:2", LARGE),
    ("controller.create.written", LARGE),
]
DELETION_STEPS = [
    ("controller.delete.marked", SMALL),
    ("controller.delete.removed", SMALL),
    ("controller.delete.marked", LARGE),
    ("controller.delete.part", LARGE),
    ("controller.delete.removed", LARGE),
]


def new_topic(name: str, partitions: int) -> admin_pb2.NewTopic:
    return admin_pb2.NewTopic(name=name, partitions=partitions, replication_factor=2)


async def no_deletion_under_way(session: Coordination) -> bool:
    return not await session.children(znodes.DELETE_TOPICS)


async def test_two_controllers_that_start_together_are_one_active_and_one_that_knows_it(
    zookeeper: str, open_session: SessionFactory
) -> None:
    async with running(zookeeper, 1) as one, running(zookeeper, 2) as two:

        def settled() -> bool:
            both = (one.activity, two.activity)
            active = [activity for activity in both if activity.active is not None]
            return len(active) == 1 and len({activity.known for activity in both} - {None}) == 1

        await eventually(settled)
        node = await (await open_session()).get(znodes.CONTROLLER_EPOCH)
        assert node.version == 1, "the loser raised the epoch, and fenced the winner"


async def test_after_a_clean_stop_the_next_one_takes_over_at_once(
    zookeeper: str, open_session: SessionFactory
) -> None:
    session = await open_session()
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(running(zookeeper, 1))
        await one.wait_active()
        async with running(zookeeper, 2) as two:
            await two.wait_knows(1)
            owner = (await session.get(znodes.CONTROLLER)).ephemeral_owner
            await stack.aclose()
            node = await session.exists(znodes.CONTROLLER)
            assert node is None or node.ephemeral_owner != owner, "it is left for the session to expire"
            await two.wait_active()


async def test_a_controller_whose_role_is_taken_away_serves_no_longer_and_starts_over(
    active: Activate,
) -> None:
    """CORRECTNESS E5, E13: /controller is removed under it, as a later epoch would do."""
    async with active([1], reconcile_ms=50) as (session, controller, _):
        before = controller.activity.active
        await session.delete(znodes.CONTROLLER)
        await eventually(lambda: controller.activity.active not in (None, before))
        after = controller.activity.active
        assert before is not None
        assert after is not None
        assert after.epoch > before.epoch
        assert [o.error for o in await controller.admin.create_topics([NewTopic("t", 1, 1)])] == [None]


async def test_a_request_that_is_under_way_when_the_role_is_lost_has_an_unknown_outcome(
    active: Activate,
) -> None:
    """CORRECTNESS E5: it ends with the epoch, and its client has to look what became of it."""
    async with active([1], reconcile_ms=50) as (session, controller, _):
        begun = asyncio.Event()

        async def request() -> None:
            with controller.activity.acting():
                begun.set()
                await asyncio.Event().wait()

        async def ask() -> None:
            with pytest.raises(OutcomeUnknown, match="lost its role"):
                await controller.activity.carry_out(request)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ask())
            await begun.wait()
            await session.delete(znodes.CONTROLLER)


async def test_a_new_epoch_begins_with_what_zookeeper_says_not_with_what_the_last_one_knew(
    active: Activate,
) -> None:
    """CORRECTNESS E13: a topic that went behind its back is there in the old epoch, gone in the new."""
    async with active([1], reconcile_ms=50) as (session, controller, _):
        await controller.admin.create_topics([NewTopic("t", 1, 1)])
        before = controller.activity.active
        path = znodes.topic("t")
        for znode in (f"{path}/0/isr", f"{path}/0/replicas", f"{path}/0", path):
            await session.delete(znode)
        (outcome,) = await controller.admin.create_topics([NewTopic("t", 1, 1)])
        assert isinstance(outcome.error, TopicAlreadyExists)
        await session.delete(znodes.CONTROLLER)
        await eventually(lambda: controller.activity.active not in (None, before))
        (outcome,) = await controller.admin.create_topics([NewTopic("t", 1, 1)])
        assert outcome.error is None


async def test_a_killed_controller_is_replaced(zookeeper: str, tmp_path: Path) -> None:
    """Several may run, one is active."""
    async with process(1, zookeeper, tmp_path) as one, process(2, zookeeper, tmp_path) as two:
        assert await one.is_active()
        assert not await two.is_active()
        await one.service.stop(clean=False)
        await eventually(two.is_active)


async def test_a_controller_that_hangs_past_its_session_writes_nothing_when_it_comes_to(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path
) -> None:
    """CORRECTNESS E5, E12: it still believes itself active when it wakes up; then it stands by."""
    session = await open_session()
    await register(session, [1, 2])
    async with process(1, zookeeper, tmp_path) as one, process(2, zookeeper, tmp_path) as two:
        one.service.pause()
        await eventually(two.is_active)
        one.service.resume()
        (result,) = await one.create(new_topic("late", SMALL))
        assert result.error.code
        assert await topic_node(session, "late") is None
        (result,) = await two.create(new_topic("t", SMALL))
        assert not result.error.code

        async def sent_on() -> bool:
            return (await one.describe()).error.leader.id == 2

        await eventually(sent_on)


async def crash(one: ControllerProcess, *, creating: tuple[str, int] | None, deleting: str | None) -> None:
    """Ask for something that it does not survive."""
    with pytest.raises(grpc.aio.AioRpcError):
        if creating is not None:
            await one.create(new_topic(*creating))
        if deleting is not None:
            await one.delete(deleting)
    await eventually(lambda: one.dead)


@pytest.mark.parametrize(("step", "partitions"), CREATION_STEPS)
async def test_a_controller_killed_while_it_creates_leaves_the_topic_whole_or_not_at_all(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path, step: str, partitions: int
) -> None:
    """CORRECTNESS E7: a step that was begun is finished or taken back, never left."""
    session = await open_session()
    epochs = await register(session, [1, 2])
    async with process(1, zookeeper, tmp_path, crash_points=step) as one:
        await crash(one, creating=("t", partitions), deleting=None)
    begun = await topic_node(session, "t")
    async with process(2, zookeeper, tmp_path) as two:
        await eventually(two.is_active)
        await eventually(lambda: no_deletion_under_way(session))
        if step == "controller.create.written":
            await check_whole(session, "t", epochs)
            assert (await two.delete("t"))[0].error.code == 0
        assert await is_gone(session, "t")
        for broker in (1, 2):
            assert await every_start_was_taken_back(session, broker)
        assert begun is None or begun.partitions in (0, partitions)
        (result,) = await two.create(new_topic("t", partitions))
        assert not result.error.code
        await check_whole(session, "t", epochs)


async def every_start_was_taken_back(session: Coordination, broker: int) -> bool:
    """For each replica that was to start, the last request is to delete it."""
    last = {change.key: change.command for change in await requests(session, broker)}
    return set(last.values()) <= {Command.DELETE_REPLICA}


@pytest.mark.parametrize(("step", "partitions"), DELETION_STEPS)
async def test_the_next_controller_continues_a_deletion_from_any_interruption(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path, step: str, partitions: int
) -> None:
    """CORRECTNESS E7; each replica gets exactly one request, under the topic's id (Q1)."""
    session = await open_session()
    await register(session, [1, 2])
    async with process(1, zookeeper, tmp_path, crash_points=step) as one:
        (created,) = await one.create(new_topic("t", partitions))
        placed = await assignments(session, "t")
        await crash(one, creating=None, deleting="t")
    async with process(2, zookeeper, tmp_path) as two:
        await eventually(two.is_active)
        await eventually(lambda: is_gone(session, "t"))
        await check_replicas_deleted(session, created.topic_id, placed)


MANY = [f"t{number:02}" for number in range(12)]
"""Topics that do not fit into one multi, but more than one of them does."""


async def test_a_controller_killed_between_the_writes_of_many_topics_leaves_each_whole_or_not_at_all(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path
) -> None:
    """CORRECTNESS E7."""
    session = await open_session()
    epochs = await register(session, [1, 2])
    async with process(1, zookeeper, tmp_path, crash_points="controller.create.written") as one:
        with pytest.raises(grpc.aio.AioRpcError):
            await one.create(*(new_topic(name, SMALL) for name in MANY))
        await eventually(lambda: one.dead)
    made = [name for name in MANY if await topic_node(session, name) is not None]
    async with process(2, zookeeper, tmp_path) as two:
        await eventually(two.is_active)
        results = await two.create(*(new_topic(name, SMALL) for name in MANY))
        assert [each.topic for each in results if each.error.code] == made
        for name in MANY:
            await check_whole(session, name, epochs)
    assert 0 < len(made) < len(MANY)


async def test_the_next_controller_continues_the_deletion_of_many_topics(
    zookeeper: str, open_session: SessionFactory, tmp_path: Path
) -> None:
    """CORRECTNESS E7, Q1: the one before has removed some of them."""
    session = await open_session()
    await register(session, [1, 2])
    async with process(1, zookeeper, tmp_path, crash_points="controller.delete.removed") as one:
        created = await one.create(*(new_topic(name, SMALL) for name in MANY))
        placed = {each.topic_id: await assignments(session, each.topic) for each in created}
        with pytest.raises(grpc.aio.AioRpcError):
            await one.delete(*MANY)
        await eventually(lambda: one.dead)
    left = [name for name in MANY if not await is_gone(session, name)]
    async with process(2, zookeeper, tmp_path) as two:
        await eventually(two.is_active)
        await eventually(lambda: no_deletion_under_way(session))
        for topic_id, assigned in placed.items():
            await check_replicas_deleted(session, topic_id, assigned)
        assert [name for name in MANY if not await is_gone(session, name)] == []
    assert 0 < len(left) < len(MANY)


async def test_a_marker_without_a_topic_is_removed(zookeeper: str, open_session: SessionFactory) -> None:
    session = await open_session()
    await session.ensure_path(znodes.DELETE_TOPICS)
    await session.create(znodes.delete_topic("t"), znodes.dump_deletion(TopicId("0" * 32)))
    async with running(zookeeper) as controller:
        await controller.wait_active()
        await eventually(lambda: no_deletion_under_way(session))
