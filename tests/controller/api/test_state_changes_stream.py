"""A controller streams state changes while it is active, and to a bounded number of clients."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from strandline.controller.api.state_changes_stream import StateChangeStreams
from strandline.errors import (
    BrokerNotAvailable,
    InvalidRequest,
    LeaderHint,
    NotController,
    ThrottlingQuotaExceeded,
)
from strandline.vocabulary.admin import StateChangesQuery
from tests.strandline.client.network import FastClock, Network, memory_host
from tests.waiting import eventually

FOLLOWING = StateChangesQuery(follow=True)


class Active:
    """An active controller of a cluster without a living broker; fulfils what a stream asks of it."""

    def __init__(self) -> None:
        self.asked = 0

    async def broker_addresses(self) -> list[str]:
        self.asked += 1
        return []


def streams_of(active: Any, *, streams_max: int = 1) -> StateChangeStreams:
    host = memory_host(cast(Any, Network()), FastClock())
    return StateChangeStreams(active, streams_max, host, cast(Any, None))


async def test_a_nonsensical_query_is_refused_before_anything_is_read() -> None:
    streams = streams_of(pytest.fail)
    with pytest.raises(InvalidRequest, match="partition = 0 without a topic"):
        await anext(streams.answers(StateChangesQuery(partition=0)))


async def test_a_controller_that_waits_its_turn_names_the_active_one() -> None:
    def another() -> None:
        raise NotController("ask the active one", leader=LeaderHint(2, "h", 9, 1))

    with pytest.raises(NotController) as raised:
        await anext(streams_of(another).answers(FOLLOWING))
    assert raised.value.leader is not None and raised.value.leader.broker_id == 2


async def test_without_a_broker_only_a_query_that_follows_waits() -> None:
    active = Active()
    with pytest.raises(BrokerNotAvailable):
        await anext(streams_of(lambda: active).answers(StateChangesQuery()))


async def test_the_number_of_streams_is_bounded() -> None:
    """`state_change_streams_max`; a stream that ends makes room."""
    active = Active()
    streams = streams_of(lambda: active, streams_max=2)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(_first(streams)) for _ in range(2)]
        await eventually(lambda: active.asked > 3, what="both wait for a broker")
        with pytest.raises(ThrottlingQuotaExceeded, match="state_change_streams_max = 2") as raised:
            await anext(streams.answers(FOLLOWING))
        assert raised.value.limit == 2
        waiting.pop().cancel()
        await eventually(lambda: streams._open == 1, what="room for another")
        waiting.append(tasks.create_task(_first(streams)))
        await eventually(lambda: streams._open == 2, what="it is served")
        streams.close()
        for task in waiting:
            with pytest.raises(NotController, match="this controller stops"):
                raise await task


async def _first(streams: StateChangeStreams) -> Exception:
    try:
        await anext(streams.answers(FOLLOWING))
    except NotController as error:
        return error
    raise AssertionError("it was answered")
