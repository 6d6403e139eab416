"""Heartbeats are paced, for the current generation, and independent of the application (CORRECTNESS G8)."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from strandline.adapters.codecs.groups import JOIN_GROUP
from strandline.adapters.rpc.blocking import GrpcBlockingTransport
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system_host import SystemThreads
from strandline.consumer.core.heartbeat import (
    Beat,
    HeartbeatReport,
    HeartbeatSchedule,
    Overdue,
    Refused,
    Stopped,
)
from strandline.consumer.group.heartbeat_task import HeartbeatTask
from strandline.consumer.group.heartbeat_thread import HeartbeatThread
from strandline.consumer.group.heartbeats import Heartbeats
from strandline.errors import InvalidRequest, OutcomeUnknown, RebalanceInProgress, StrandlineError
from strandline.ports import Listener
from strandline.rpc import group_pb2, group_pb2_grpc
from strandline.vocabulary.groups import Joined, JoinGroup, MemberIdGiven
from tests.consumer.brokers import Parts
from tests.waiting import DEADLINE_S, eventually

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
            response.error.CopyFrom(error_to_wire(self.refusal, Listener.INTERNAL))
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
    """The heartbeats of a member, sent by a thread or a task, its coordinator, and its reports."""

    def __init__(self, driver: str, **settings: Any) -> None:
        self.coordinator = Coordinator()  # type: ignore[abstract]  # the rest is not called
        self.reports: list[HeartbeatReport] = []
        self.parts = Parts(heartbeat_interval_ms=INTERVAL_MS, **settings)
        self.transport = GrpcTransport()
        self.schedule = HeartbeatSchedule("g", self.parts.settings)
        self.heartbeats = self._thread() if driver == "thread" else self._task()
        self._server = grpc.server(ThreadPoolExecutor(4))
        group_pb2_grpc.add_GroupsServicer_to_server(self.coordinator, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _thread(self) -> Heartbeats:
        return HeartbeatThread(
            "g",
            delivery=self.parts.delivery,
            schedule=self.schedule,
            clock=SystemClock(),
            report=self.reports.append,
            transport=GrpcBlockingTransport(),
            threads=SystemThreads(),
        )

    def _task(self) -> Heartbeats:
        return HeartbeatTask(
            "g",
            delivery=self.parts.delivery,
            schedule=self.schedule,
            clock=SystemClock(),
            report=self.reports.append,
            transport=self.transport,
            scope=self.parts.scope,
        )

    def start(self, member: str, generation: int) -> None:
        self.heartbeats.change(lambda now: self.schedule.start(Beat(member, generation), now))

    async def join(self, address: str, request: JoinGroup, timeout_s: float) -> Joined | MemberIdGiven:
        """As a member joins."""
        number = self.schedule.join_sent()

        def answered(answer: Joined | MemberIdGiven | None, now: float) -> None:
            self.schedule.join_answered(number, answer, now)

        return await self.heartbeats.ask(address, JOIN_GROUP, request, timeout_s, answered)

    async def end(self) -> None:
        self.coordinator.hold.set()
        self.coordinator.join.set()
        assert await self.heartbeats.close()
        await self.parts.scope.stop()
        await self.transport.close()
        await asyncio.to_thread(self._server.stop(0).wait, 5)


Start = Callable[..., Awaitable[Beating]]


@asynccontextmanager
async def _beating(driver: str) -> AsyncIterator[Start]:
    made: list[Beating] = []

    async def make(**settings: Any) -> Beating:
        made.append(Beating(driver, **settings))
        await made[-1].parts.scope.start()
        return made[-1]

    yield make
    for one in made:
        await one.end()


@pytest.fixture(params=["thread", "task"])
async def beating(request: pytest.FixtureRequest) -> AsyncIterator[Start]:
    """The member sees no difference between the two."""
    async with _beating(request.param) as make:
        yield make


@pytest.fixture
async def beating_thread() -> AsyncIterator[Start]:
    async with _beating("thread") as make:
        yield make


async def test_beats_are_paced_though_they_are_refused_at_once(beating: Start) -> None:
    """While a member prepares to join, every answer is REBALANCE_IN_PROGRESS: no reason to send faster."""
    one = await beating()
    one.coordinator.refusal = RebalanceInProgress("others join")
    one.heartbeats.aim(one.address)
    one.start("m", 1)
    await eventually(lambda: len(one.coordinator.beats) >= 4, what="four beats")
    times = [at for at, _, _ in one.coordinator.beats]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) > INTERVAL_MS / 1000 * 0.5, gaps
    assert all(
        isinstance(report, Refused) and isinstance(report.error, RebalanceInProgress)
        for report in one.reports
    )


async def test_heartbeats_switch_to_a_new_generation_at_once(
    beating: Start,
) -> None:
    one = await beating()
    one.heartbeats.aim(one.address)
    one.start("m", 1)
    await eventually(lambda: one.coordinator.beats, what="a beat")
    one.start("m", 2)
    await eventually(lambda: one.coordinator.beats[-1][1:] == ("m", 2), what="a beat in generation 2")
    one.heartbeats.stop()
    many = len(one.coordinator.beats)
    one.start("n", 3)
    await eventually(lambda: one.coordinator.beats[-1][1:] == ("n", 3), what="a beat as another member")
    assert all(beat[1:] != ("m", 2) for beat in one.coordinator.beats[many + 1 :])
    assert one.reports == []


async def test_a_join_that_is_answered_while_the_loop_is_stuck_is_beaten_for(beating_thread: Start) -> None:
    """The coordinator expects heartbeats of the new generation from its answer on."""
    one = await beating_thread()
    one.heartbeats.aim(one.address)
    one.start("m", 1)
    request = JoinGroup("g", "m", 1_000, 1_000, "consumer", ())
    async with asyncio.TaskGroup() as tasks:
        joining = tasks.create_task(one.join(one.address, request, 10))
        await asyncio.sleep(0)
        one.coordinator.join.set()
        until = one.coordinator.clock.monotonic() + DEADLINE_S
        while not any(generation == 2 for _, _, generation in one.coordinator.beats):
            assert one.coordinator.clock.monotonic() < until, "no heartbeat for generation 2"
        assert not joining.done(), "the loop has not had a turn"
        assert (await joining).member == "m"


async def test_the_end_cuts_a_held_beat_and_a_held_join_short(beating: Start) -> None:
    one = await beating(max_poll_interval_ms=600_000)
    one.heartbeats.aim(one.address)
    one.start("m", 1)
    await eventually(lambda: one.coordinator.beats, what="a beat")
    request = JoinGroup("g", "m", 1_000, 1_000, "consumer", ())
    async with asyncio.TaskGroup() as tasks:
        joining = tasks.create_task(_cancelled(one.join(one.address, request, 60)))
        await asyncio.sleep(0)
        joining.cancel()
    assert await one.heartbeats.close()


async def _cancelled(work: Any) -> None:
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_an_overdue_member_leaves_though_the_loop_is_stuck(beating_thread: Start) -> None:
    """The thread sends LeaveGroup itself: a blocked loop may be the reason."""
    one = await beating_thread(max_poll_interval_ms=300)
    one.heartbeats.aim(one.address)
    one.start("m", 1)
    clock = one.coordinator.clock
    until = clock.monotonic() + DEADLINE_S
    while not one.coordinator.left:
        assert clock.monotonic() < until, "it has not left"
    assert one.coordinator.left == ["m"]
    (overdue,) = one.reports
    assert isinstance(overdue, Overdue) and overdue.silent_s > 0.25
    many = len(one.coordinator.beats)
    one.start("n", 4)
    await eventually(
        lambda: len(one.coordinator.beats) > many, what="it beats again once it has joined again"
    )


async def test_a_static_member_that_is_overdue_stops_beating_and_stays_known(
    beating: Start,
) -> None:
    """KIP-345: its session decides."""
    one = await beating(max_poll_interval_ms=300, group_instance_id="i")
    one.heartbeats.aim(one.address)
    one.start("m", 1)
    await eventually(lambda: one.reports, what="it is overdue")
    assert isinstance(one.reports[0], Overdue) and one.coordinator.left == []


async def test_a_coordinator_that_is_gone_is_reported(beating: Start) -> None:
    one = await beating()
    one.heartbeats.aim("127.0.0.1:1")
    one.start("m", 1)
    await eventually(lambda: one.reports, what="a beat is not answered")
    report = one.reports[0]
    assert isinstance(report, Refused) and isinstance(report.error, OutcomeUnknown)
    assert report.address == "127.0.0.1:1"
    one.heartbeats.aim(one.address)
    await eventually(lambda: one.coordinator.beats, what="the next one is beaten to at once")


async def test_a_thread_that_fails_reports_it(beating_thread: Start) -> None:
    """The heartbeats of a member never end without a report."""
    one = await beating_thread()
    one.heartbeats.aim(one.address)
    one.start("m\ud800", 1)  # no text that could be sent
    await eventually(lambda: one.reports, what="it reports that")
    assert isinstance(one.reports[0], Stopped) and isinstance(one.reports[0].error, InvalidRequest)


async def test_an_overdue_member_of_a_task_leaves_and_beats_again_after_a_join() -> None:
    async with _beating("task") as make:
        one = await make(max_poll_interval_ms=300)
        one.heartbeats.aim(one.address)
        one.start("m", 1)
        await eventually(lambda: one.coordinator.left == ["m"], what="it leaves")
        (overdue,) = one.reports
        assert isinstance(overdue, Overdue) and overdue.silent_s > 0.25
        request = JoinGroup("g", "", 1_000, 1_000, "consumer", ())
        one.coordinator.join.set()
        joined = await one.join(one.address, request, 10)
        assert isinstance(joined, Joined)
        await eventually(lambda: one.coordinator.beats[-1][2] == joined.generation, what="it beats again")


async def test_a_task_that_fails_reports_it() -> None:
    reports: list[HeartbeatReport] = []
    async with Parts() as parts:
        schedule = HeartbeatSchedule("g", parts.settings)
        heartbeats = HeartbeatTask(
            "g",
            delivery=parts.delivery,
            schedule=schedule,
            clock=parts.clock,
            report=reports.append,
            transport=parts.brokers,  # it knows no Heartbeat
            scope=parts.scope,
        )
        heartbeats.aim("broker1:9092")
        heartbeats.change(lambda now: schedule.start(Beat("m", 1), now))
        await eventually(lambda: reports, what="it reports that")
        assert isinstance(reports[0], Stopped)
