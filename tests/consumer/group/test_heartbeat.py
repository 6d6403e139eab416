"""The heart beats on its own: paced, as the member of the moment, whatever the loop does (CORRECTNESS G8)."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.adapters.system.clock import SystemClock
from strandline.consumer.group.heartbeat import Heart, HeartNews, Overdue, Refused, Stopped
from strandline.errors import InvalidRequest, OutcomeUnknown, RebalanceInProgress, StrandlineError
from strandline.rpc import group_pb2, group_pb2_grpc
from strandline.vocabulary.groups import JoinGroup
from tests.consumer.brokers import Parts
from tests.waiting import eventually

INTERVAL_MS = 100


class Coordinator(group_pb2_grpc.GroupsServicer):
    """Over real gRPC, in threads, so that it answers while the loop is blocked."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.beats: list[tuple[float, str, int]] = []
        self.left: list[str] = []
        self.refusal: StrandlineError | None = None
        self.hold = threading.Event()
        self.join = threading.Event()

    def Heartbeat(self, request: group_pb2.HeartbeatRequest, context: Any) -> group_pb2.HeartbeatResponse:
        self.beats.append((self.clock.monotonic(), request.member, request.generation))
        response = group_pb2.HeartbeatResponse()
        if self.refusal is not None:
            response.error.CopyFrom(error_to_wire(self.refusal))
        else:
            _ = self.hold.wait(request.max_wait_ms / 1000)
        return response

    def JoinGroup(self, request: group_pb2.JoinGroupRequest, context: Any) -> group_pb2.JoinGroupResponse:
        _ = self.join.wait(10)
        return group_pb2.JoinGroupResponse(member=request.member, generation=2, leader="other")

    def LeaveGroup(self, request: group_pb2.LeaveGroupRequest, context: Any) -> group_pb2.LeaveGroupResponse:
        self.left += [member.member for member in request.members]
        return group_pb2.LeaveGroupResponse()


class Beating:
    """A heart, its coordinator, and what it posted."""

    def __init__(self, **settings: Any) -> None:
        self.coordinator = Coordinator()  # type: ignore[abstract]  # nobody calls the rest of it
        self.posted: list[HeartNews] = []
        self.parts = Parts(heartbeat_interval_ms=INTERVAL_MS, **settings)
        self.heart = Heart(
            "g",
            handout=self.parts.handout,
            settings=self.parts.settings,
            clock=SystemClock(),
            post=self.posted.append,
        )
        self._server = grpc.server(ThreadPoolExecutor(4))
        group_pb2_grpc.add_GroupsServicer_to_server(self.coordinator, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    async def end(self) -> None:
        self.coordinator.hold.set()
        self.coordinator.join.set()
        thread = self.heart.close()
        if thread is not None:
            await asyncio.to_thread(thread.join, 5)
            assert not thread.is_alive()
        await asyncio.to_thread(self._server.stop(0).wait, 5)


@pytest.fixture
async def beating() -> AsyncIterator[Callable[..., Beating]]:
    made: list[Beating] = []

    def make(**settings: Any) -> Beating:
        made.append(Beating(**settings))
        return made[-1]

    yield make
    for one in made:
        await one.end()


async def test_beats_are_paced_though_they_are_refused_at_once(beating: Callable[..., Beating]) -> None:
    """While a member prepares to join every answer is REBALANCE_IN_PROGRESS: no reason to ask in a circle."""
    one = beating()
    one.coordinator.refusal = RebalanceInProgress("others join")
    one.heart.aim(one.address)
    one.heart.start("m", 1)
    await eventually(lambda: len(one.coordinator.beats) >= 4, what="four beats")
    times = [at for at, _, _ in one.coordinator.beats]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) > INTERVAL_MS / 1000 * 0.5, gaps
    assert all(
        isinstance(news, Refused) and isinstance(news.error, RebalanceInProgress) for news in one.posted
    )


async def test_a_new_generation_is_beaten_for_at_once_and_the_old_one_no_more(
    beating: Callable[..., Beating],
) -> None:
    one = beating()
    one.heart.aim(one.address)
    one.heart.start("m", 1)
    await eventually(lambda: one.coordinator.beats, what="a beat")
    one.heart.start("m", 2)
    await eventually(lambda: one.coordinator.beats[-1][1:] == ("m", 2), what="a beat in generation 2")
    one.heart.stop()
    many = len(one.coordinator.beats)
    one.heart.start("n", 3)
    await eventually(lambda: one.coordinator.beats[-1][1:] == ("n", 3), what="a beat as another member")
    assert all(beat[1:] != ("m", 2) for beat in one.coordinator.beats[many + 1 :])
    assert one.posted == []


async def test_a_join_that_is_answered_while_the_loop_is_stuck_is_beaten_for(
    beating: Callable[..., Beating],
) -> None:
    """The coordinator expects the new generation from its answer on, and the loop may take its time."""
    one = beating()
    one.heart.aim(one.address)
    one.heart.start("m", 1)
    request = JoinGroup("g", "m", 1_000, 1_000, "consumer", ())
    async with asyncio.TaskGroup() as tasks:
        joining = tasks.create_task(one.heart.join(one.address, request, 10))
        await asyncio.sleep(0)
        one.coordinator.join.set()
        until = one.coordinator.clock.monotonic() + 5
        while not any(generation == 2 for _, _, generation in one.coordinator.beats):
            assert one.coordinator.clock.monotonic() < until, "nobody beats for generation 2"
        assert not joining.done(), "the loop has not had a turn"
        assert (await joining).member == "m"


async def test_the_end_cuts_a_held_beat_and_a_held_join_short(beating: Callable[..., Beating]) -> None:
    one = beating(max_poll_interval_ms=600_000)
    one.heart.aim(one.address)
    one.heart.start("m", 1)
    await eventually(lambda: one.coordinator.beats, what="a beat")
    request = JoinGroup("g", "m", 1_000, 1_000, "consumer", ())
    async with asyncio.TaskGroup() as tasks:
        joining = tasks.create_task(_cancelled(one.heart.join(one.address, request, 60)))
        await asyncio.sleep(0)
        joining.cancel()
    thread = one.heart.close()
    assert thread is not None
    await asyncio.to_thread(thread.join, 2)
    assert not thread.is_alive()


async def _cancelled(work: Any) -> None:
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_who_is_overdue_has_left_by_the_time_anybody_hears_of_it(
    beating: Callable[..., Beating],
) -> None:
    """The thread tells the coordinator itself: the loop may be what is stuck."""
    one = beating(max_poll_interval_ms=300)
    one.heart.aim(one.address)
    one.heart.start("m", 1)
    clock = one.coordinator.clock
    until = clock.monotonic() + 5
    while not one.coordinator.left:
        assert clock.monotonic() < until, "it has not left"
    assert one.coordinator.left == ["m"]
    (overdue,) = one.posted
    assert isinstance(overdue, Overdue) and 0.25 < overdue.silent_s < 1.5
    many = len(one.coordinator.beats)
    one.heart.start("n", 4)
    await eventually(
        lambda: len(one.coordinator.beats) > many, what="it beats again once it has joined again"
    )


async def test_a_static_member_that_is_overdue_stops_beating_and_stays_known(
    beating: Callable[..., Beating],
) -> None:
    """KIP-345: its session decides."""
    one = beating(max_poll_interval_ms=300, group_instance_id="i")
    one.heart.aim(one.address)
    one.heart.start("m", 1)
    await eventually(lambda: one.posted, what="it is overdue")
    assert isinstance(one.posted[0], Overdue) and one.coordinator.left == []


async def test_a_coordinator_that_is_gone_is_told_of(beating: Callable[..., Beating]) -> None:
    one = beating()
    one.heart.aim("127.0.0.1:1")
    one.heart.start("m", 1)
    await eventually(lambda: one.posted, what="a beat is not answered")
    news = one.posted[0]
    assert isinstance(news, Refused) and isinstance(news.error, OutcomeUnknown)
    assert news.address == "127.0.0.1:1"
    one.heart.aim(one.address)
    await eventually(lambda: one.coordinator.beats, what="the next one is beaten to at once")


async def test_a_thread_that_fails_says_so(beating: Callable[..., Beating]) -> None:
    """Never a member whose heart has stopped without a word."""
    one = beating()
    one.heart.aim(one.address)
    one.heart.start("m\ud800", 1)  # no text that could be sent
    await eventually(lambda: one.posted, what="it says so")
    assert isinstance(one.posted[0], Stopped) and isinstance(one.posted[0].error, InvalidRequest)
