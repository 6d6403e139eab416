"""Deadlines of reassignments on a real ZooKeeper, with brokers that the test registers (CORRECTNESS Q5)."""

from __future__ import annotations

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from strandline.ports import Coordination
from strandline.vocabulary.admin import NO_DEADLINE, NewTopic, PartitionReassignment, Reassign
from strandline.vocabulary.state_changes import ChangeKind, RequestState, StateChangeEvent
from tests.controller.support.running import Activate, Running
from tests.controller.support.znodes_seen import kept_events, lead, reassignment
from tests.waiting import eventually

SETTINGS = {"reconcile_ms": 50, "mend_after_ms": 60_000}
NAME = TopicPartition("t", 0)


def to(*replicas: int) -> list[PartitionReassignment]:
    return [PartitionReassignment(NAME, replicas)]


async def led_topic(session: Coordination, controller: Running, epochs: dict[int, int]) -> None:
    """On brokers 1 and 2, led by 1. Broker 9 is known, and not alive."""
    await session.ensure_path(znodes.state_queue(9))
    (made,) = await controller.admin.create_topics([NewTopic("t", 0, assignments=[(1, 2)])])
    assert made.error is None
    await lead(session, "t", 1, epochs, 1, 2)


async def overdue_events(session: Coordination) -> list[StateChangeEvent]:
    return [event for event in await kept_events(session) if event.command is ChangeKind.OVERDUE]


async def test_a_move_to_a_dead_broker_is_warned_of_then_overdue_once_and_goes_on(active: Activate) -> None:
    async with active([1, 2], **SETTINGS) as (session, controller, epochs):
        await led_topic(session, controller, epochs)
        (begun,) = await controller.admin.reassign(Reassign(to(1, 9), timeout_ms=1))
        assert begun.error is None
        assert list(begun.warnings) == ["t-0: not alive, so that nothing is copied there yet: broker 9"]
        (event,) = await eventually(lambda: overdue_events(session))
        assert (event.state, event.replicas) == (RequestState.FAILED, (1, 9))
        assert event.reason == "not complete after 0.001 s: not alive: broker 9; it goes on"
        (listed,) = await controller.admin.list_reassignments()
        assert (listed.overdue, listed.reverting) == (True, False)
        health = controller.activity.require().health
        await eventually(lambda: health.census is not None and health.census.overdue == 1)
        looked = health.looked_at
        await eventually(lambda: health.looked_at > looked, what="one more round")
        assert await overdue_events(session) == [event]
        (begun,) = await controller.admin.reassign(Reassign(to(1, 9), timeout_ms=60_000))
        (listed,) = await controller.admin.list_reassignments()
        assert not listed.overdue, "a later request for the same replicas may give it more time"


async def test_a_move_may_be_taken_back_at_its_deadline(active: Activate) -> None:
    async with active([1, 2], **SETTINGS) as (session, controller, epochs):
        await led_topic(session, controller, epochs)
        await controller.admin.reassign(Reassign(to(1, 9), timeout_ms=1, cancel_at_deadline=True))

        async def goes_back() -> bool:
            found = await reassignment(session, "t", 0)
            return found is not None and found.reverting

        await eventually(goes_back)
        (event,) = await overdue_events(session)
        assert event.reason.endswith("; it is taken back")
        (listed,) = await controller.admin.list_reassignments()
        assert (listed.deadline_at_ms, listed.overdue) == (0, False)


async def test_the_time_is_that_of_the_request_else_the_controllers(active: Activate) -> None:
    async with active([1, 2], **SETTINGS, reassignment_timeout_ms=70_000) as (session, controller, epochs):
        await led_topic(session, controller, epochs)

        async def time_ms(timeout_ms: int, *replicas: int) -> int | None:
            await controller.admin.reassign(Reassign(to(*replicas), timeout_ms=timeout_ms))
            found = await reassignment(session, "t", 0)
            assert found is not None
            return None if found.deadline is None else found.deadline.at_ms - found.at_ms

        assert await time_ms(0, 1, 9) == 70_000
        assert await time_ms(0, 1, 9) == 70_000
        assert await time_ms(NO_DEADLINE, 1, 9) is None
        assert await time_ms(0, 1, 9) is None, "the same move again changes no deadline unless it names one"
        assert await time_ms(0, 2, 9) == 70_000, "another target is another move"
        never = Reassign(to(1, 9), timeout_ms=NO_DEADLINE, cancel_at_deadline=True)
        (refused,) = await controller.admin.reassign(never)
        assert isinstance(refused.error, InvalidRequest)
        assert (
            refused.error.message
            == f"cancel_at_deadline needs a deadline: timeout_ms = {NO_DEADLINE} is none"
        )
        assert await time_ms(0, 2, 9) == 70_000, "nothing has changed"
        for wrong in (-2, 2**31):
            with pytest.raises(InvalidRequest, match=f"timeout_ms = {wrong}"):
                await controller.admin.reassign(Reassign(to(1, 9), timeout_ms=wrong))


async def test_a_new_topic_is_created_with_a_warning(active: Activate) -> None:
    async with active([1, 2], **SETTINGS) as (session, controller, _):
        await session.ensure_path(znodes.state_queue(9))
        new = NewTopic("t", 0, assignments=[(1, 2), (2, 9)])
        for only in (True, False):
            (made,) = await controller.admin.create_topics([new], validate_only=only)
            assert made.error is None
            assert list(made.warnings) == ["t-1: not alive, so that nothing is copied there yet: broker 9"]
