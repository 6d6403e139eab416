"""A member's driver handles heartbeat reports and departures at a bad moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strandline.consumer.core.heartbeat import Beat, HeartbeatSchedule, Overdue
from strandline.consumer.core.member_effects import Assign, Report, SendLeave
from strandline.consumer.core.member_states import State
from strandline.consumer.group.classic_member import LAST_REPORTS_S_MAX, ClassicMember
from strandline.consumer.group.commits import Commits, Identity
from strandline.consumer.group.handover import Handover
from strandline.consumer.group.heartbeat_task import HeartbeatTask
from strandline.consumer.group.listener import Listening
from strandline.consumer.group.member import MemberParts
from strandline.consumer.group.topics import Topics
from strandline.consumer.measures import Rebalances
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import (
    LeaveGroup,
    LeavingMember,
    OwnershipChange,
    OwnershipKind,
    ReportOwnership,
)
from tests.consumer.brokers import Parts
from tests.consumer.core.support.one_member import One
from tests.waiting import eventually

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


async def _never(_request: Any) -> None:
    await asyncio.Event().wait()


class Driven(Parts):
    """A stable member that owns both partitions, with records fetched of each."""

    def __init__(self) -> None:
        super().__init__()
        self.core = One().stable("t0 t1").core
        self.listening = Listening(self.delivery.raise_next, limit_s=60)
        self.handover = Handover(
            reader=self.reader,
            delivery=self.delivery,
            commits=Commits(
                self.coordinator,
                reader=self.reader,
                delivery=self.delivery,
                identity=lambda: Identity(self.core.member, self.core.generation),
                on_refused=lambda identity, error: False,
                in_listener=lambda: self.listening.inside,
                settings=self.settings,
                clock=self.clock,
            ),
            listening=self.listening,
            settings=self.settings,
            owned=lambda: self.core.owned,
        )
        schedule = HeartbeatSchedule("g", self.settings)
        self.heartbeats = HeartbeatTask(
            "g",
            schedule=schedule,
            delivery=self.delivery,
            clock=self.clock,
            report=lambda _: None,
            transport=self.brokers,
            scope=self.scope,
        )
        parts = MemberParts(
            coordinator=self.coordinator,
            delivery=self.delivery,
            handover=self.handover,
            heartbeats=self.heartbeats,
            topics=Topics(self.cluster, self.clock),
            rebalances=Rebalances(self.clock),
            scope=self.scope,
            settings=self.settings,
            clock=self.clock,
            on_fatal=self.delivery.fail,
            on_settled=lambda: None,
        )
        self.member = ClassicMember(self.core, schedule, parts)
        self.delivery.on_call = self.member.polled

    async def begin(self) -> None:
        self.brokers.topics["t"] = 2
        for rpc in ("ReportOwnership", "LeaveGroup"):
            self.brokers.answers[rpc] = lambda _: None
        self.brokers.answers["JoinGroup"] = _never
        self.reader.positions.add([A, B], held=True)
        for name in (A, B):
            self.reader.positions.seek(name, 0)
        self.member.start()
        self.member.feed([Assign((A, B), (A, B), self.core.generation)])
        await eventually(lambda: self.reader.positions[B].readable, what="the partitions are read")
        for name in (A, B):
            self.arrive(name, 2)

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        assert await self.heartbeats.close()


@pytest.mark.parametrize("call", ["getone", "getmany", "getbatches"])
async def test_a_member_joins_again_though_it_is_found_overdue_in_the_middle_of_a_get_call(call: str) -> None:
    """The handler blocked the loop for too long, with records fetched. The report has waited for it, and
    gets its turn when the next get call lets the loop run."""
    async with Driven() as one, asyncio.TaskGroup() as tasks:
        await one.begin()
        _ = await one.delivery.getone()
        one.delivery.interrupt()
        overdue = Overdue(Beat(one.core.member, one.core.generation), 9.0)
        asked: Any = {
            "getone": one.delivery.getone,
            "getmany": lambda: one.delivery.getmany((), 60_000, None),
            "getbatches": lambda: one.delivery.getbatches((), 60_000),
        }[call]
        asking = tasks.create_task(asked())
        asyncio.get_running_loop().call_soon(one.member.on_heartbeat, overdue)
        await eventually(lambda: not list(one.reader.positions), what="its partitions are lost")
        assert not asking.done() and one.core.state is State.JOINING
        asking.cancel()


async def test_a_departure_is_reported_though_reports_cannot_be() -> None:
    """The others wait for the departure; what was not reported counts as lost."""
    left: list[LeaveGroup] = []

    async with Driven() as one:
        one.brokers.answers["ReportOwnership"] = _never
        one.brokers.answers["LeaveGroup"] = left.append
        one.member.start()
        change = OwnershipChange(OwnershipKind.REVOKED, (A,), 1, 1)
        farewell = LeaveGroup("g", (LeavingMember("a", None, "closing"),))
        one.member.feed([Report(ReportOwnership("g", "a", 1, (change,))), SendLeave(farewell)])
        await eventually(lambda: left, deadline_s=LAST_REPORTS_S_MAX * 5, what="it has left")
        assert left == [farewell]
