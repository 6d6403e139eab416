"""A consumer's report of its own end, and its refusal of impossible requests for a rebalance."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from math import inf, nan
from typing import Any

import pytest

from strandline.consumer import arguments
from strandline.consumer.consumer import Consumer
from strandline.consumer.core.assignors.assignor import AssignorFailed
from strandline.errors import InvalidGroupId, InvalidRequest
from strandline.ids import NO_BROKER, TopicPartition
from strandline.vocabulary.groups import TaskChange, TaskChangeKind
from tests.consumer.brokers import Brokers, SlowClock
from tests.consumer.core.support.own_assignor import OwnAssignor
from tests.strandline.client.network import FastClock, memory_host
from tests.waiting import eventually


def made(**settings: Any) -> Consumer:
    return Consumer("broker1:9092", host=memory_host(Brokers(), FastClock()), **settings)


async def test_a_consumer_that_failed_says_why_as_often_as_it_is_asked() -> None:
    """As its get calls do; and it is no failure not to have been started, or to have been stopped."""
    failing = OwnAssignor()
    failing.fails = "subscription_user_data"
    consumer = made(group_id="g", assignors=[failing])
    assert consumer.error() is None
    async with consumer:
        assert consumer.error() is None
        consumer.subscribe(["t"])
        error = await eventually(consumer.error, what="the failure")
        assert isinstance(error, AssignorFailed) and "'own'" in error.message
        with pytest.raises(AssignorFailed) as raised:
            _ = await consumer.getone()
        assert raised.value is error is consumer.error()
        with pytest.raises(InvalidRequest, match="in no group"):
            consumer.enforce_rebalance("in vain")
    assert consumer.error() is error


async def test_a_consumer_with_a_failed_task_raises_its_error() -> None:
    """These brokers cannot even be asked for committed offsets."""
    consumer = made(group_id="g")
    await consumer.start()
    consumer.assign([TopicPartition("t", 0)])
    error = await eventually(consumer.error, what="the failure")
    assert isinstance(error, ExceptionGroup)
    for call in (consumer.getone, consumer.stop):
        with pytest.raises(ExceptionGroup) as raised:
            _ = await call()
        assert raised.value is error is consumer.error()


async def test_outside_a_group_there_is_no_rebalance_to_ask_for() -> None:
    consumer = made(group_id="g")
    with pytest.raises(InvalidRequest, match="not started"):
        consumer.enforce_rebalance("early")
    async with consumer, made() as alone:
        with pytest.raises(InvalidRequest, match="no group"):
            alone.enforce_rebalance("alone")
        with pytest.raises(InvalidRequest, match="subscribed to nothing"):
            consumer.enforce_rebalance("nothing")
    with pytest.raises(InvalidRequest, match="stopped"):
        consumer.enforce_rebalance("too late")


async def test_without_a_group_there_is_nothing_to_subscribe_in_and_nothing_to_report_to() -> None:
    change = TaskChange(TaskChangeKind.RUNNING, "t-0", 1)
    async with made() as alone:
        for refused in (
            lambda: alone.subscribe(["t"]),
            alone.group_metadata,
            alone.unsubscribe,
            lambda: alone.report_tasks([change]),
        ):
            with pytest.raises(InvalidRequest, match="group_id"):
                refused()
        with pytest.raises(InvalidRequest, match="group_id"):
            await alone.commit()
    async with made(group_id="g") as consumer:
        consumer.report_tasks([change])
        with pytest.raises(InvalidRequest, match="at_ms of task t-0"):
            consumer.report_tasks([TaskChange(TaskChangeKind.RUNNING, "t-0", -1)])
        for topics, pattern in (([], None), (None, None), (["t"], "t.*"), ("t", None)):
            with pytest.raises(InvalidRequest):
                consumer.subscribe(topics, pattern=pattern)


async def test_partitions_assigned_by_hand_are_given_up_before_a_subscription() -> None:
    """And only they are committed."""
    brokers, name = Brokers(), TopicPartition("t", 1)
    brokers.topics["t"] = 2
    brokers.answers["OffsetFetch"] = lambda _: {}
    brokers.answers["OffsetCommit"] = lambda request: dict.fromkeys(request.offsets)
    brokers.answers["JoinGroup"] = lambda _: InvalidGroupId("not this one")
    async with Consumer("broker1:9092", host=memory_host(brokers, FastClock()), group_id="g") as consumer:
        consumer.assign([name])
        with pytest.raises(InvalidRequest, match="assigned by hand"):
            consumer.subscribe(["t"])
        assert consumer.subscription() == frozenset() and consumer.assignment() == {name}
        with pytest.raises(InvalidRequest, match="t-0"):
            await consumer.commit({TopicPartition("t", 0): 0})
        consumer.assign([])
        consumer.subscribe(["t"])
        assert consumer.subscription() == {"t"}
        with pytest.raises(InvalidRequest, match="subscribed"):
            consumer.assign([name])


async def test_every_call_refuses_an_invalid_argument_at_once() -> None:
    """Each call checks what it is given; tests/consumer/test_arguments.py has all that is refused."""
    name = TopicPartition("t", 0)
    async with made(group_id="g") as consumer:
        calls: list[tuple[Any, object]] = [
            *((lambda given=given: consumer.subscribe(pattern=given), given) for given in ("(", 3)),
            *((lambda given=given: consumer.seek(name, given), given) for given in (2**63, True, "3", -1)),
            *((lambda given=given: consumer.committed(given), given) for given in ("t", None)),
            *((lambda given=given: consumer.pause(given), given) for given in ("t", None)),
            *((lambda given=given: consumer.commit(given), given) for given in (5, [name], {name: -1})),
            *(
                (lambda given=given: consumer.extend_processing(given), given)
                for given in ("x", nan, inf, -1)
            ),
            *((lambda given=given: consumer.getmany(timeout_ms=given), given) for given in (-1, None)),
            *((lambda given=given: consumer.getmany(max_records=given), given) for given in (0, -1)),
            (lambda: consumer.getbatches(timeout_ms=-1), -1),
            (lambda: consumer.offsets_for_times({name: 2**63}), 2**63),
            (lambda: consumer.end_offsets(name), name),  # type: ignore[arg-type]  # the point
        ]
        for call, given in calls:
            with pytest.raises(InvalidRequest) as raised:
                if isawaitable(made_call := call()):
                    await made_call
            assert raised.value.message, given
        assert consumer.subscription() == frozenset()


@pytest.mark.parametrize("given", ["", None, 5, b"why", "\ud800"])
def test_an_invalid_reason_is_refused(given: object) -> None:
    with pytest.raises(InvalidRequest, match="reason = "):
        arguments.reason(given)


def test_a_reason() -> None:
    assert arguments.reason("somebody is ready") == "somebody is ready"


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_a_consumer_that_reads_nothing_says_so_at_once(group_id: str | None) -> None:
    """Nothing could come. So it is after the last partition is given up, also for a call that waits then."""
    async with made(group_id=group_id) as consumer:

        async def iterate() -> None:
            async for _ in consumer:
                pass

        for call in (consumer.getone, consumer.getmany, consumer.getcolumns, consumer.getbatches, iterate):
            with pytest.raises(InvalidRequest, match="reads nothing"):
                await call()
    brokers, name = Brokers(), TopicPartition("t", 0)
    brokers.topics["t"] = 1
    brokers.leaders[name] = NO_BROKER
    async with Consumer("broker1:9092", host=memory_host(brokers, SlowClock())) as consumer:
        consumer.assign([name])
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(_refusal(consumer))
            await eventually(lambda: consumer._delivery.asking, what="a call that waits")
            consumer.assign([])
            assert "reads nothing" in await waiting


async def _refusal(consumer: Consumer) -> str:
    with pytest.raises(InvalidRequest) as raised:
        await consumer.getone()
    return raised.value.message
