"""Runs groups of one member each that only send RPCs: a process can run thousands.

`python -m strandline_lab.bench.scale.group_clients BOOTSTRAP FIRST GROUPS` prints `ready`, and carries out
commands, each of which ends with a line of JSON:

    commit   each group commits one offset, as a client that is no member does
    join     each group gets its member, which then always has a heartbeat on its way, held for HELD_MS
    moved    waits until every group has a coordinator again: `away_s` has how long each one had none
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import uvloop

from strandline import TopicPartition
from strandline.adapters.codecs.groups import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
)
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.clock import SystemClock
from strandline.errors import IllegalGeneration, Outcome, RebalanceInProgress, StrandlineError
from strandline.ports import Method, Request, Response
from strandline.tasks import pipelined
from strandline.vocabulary.groups import (
    NO_GENERATION,
    NO_MEMBER,
    CommittedOffset,
    GroupProtocol,
    Heartbeat,
    JoinGroup,
    MemberIdGiven,
    OffsetCommit,
    SyncGroup,
)
from strandline.vocabulary.parsing.consumer_protocol import DRAFT_VERSION, Assignment, Subscription
from strandline_lab.perf.worker_processes import commands

TOPIC: Final = "a-topic"
"""It exists, and has one partition."""
AT_ONCE: Final = 64
"""Groups of one process that commit or join at the same time."""
SESSION_MS: Final = 60_000
HELD_MS: Final = 3_000
CALL_S_MAX: Final = 30.0
RETRY_S: Final = 0.2
PROTOCOL: Final = "sticky"


class Groups:
    """What the groups of one process share."""

    def __init__(self, bootstrap: str) -> None:
        self.addresses = bootstrap.split(",")
        self.transport = GrpcTransport()
        self.clock = SystemClock()
        self.lost: dict[str, float] = {}
        """Groups whose coordinator has not answered, and since when."""
        self.away_s: list[float] = []
        """How long each group that has a coordinator again was without one."""
        self.all_found = asyncio.Event()


class Group:
    """One group, and its member."""

    def __init__(self, shared: Groups, number: int) -> None:
        self._shared = shared
        self._name = f"group-{number}"
        self._asked = number
        self._coordinator = ""
        self._member = ""
        self._generation = -1

    async def commit(self) -> None:
        """Commits one offset from outside of the group."""
        offsets = {TopicPartition(TOPIC, 0): CommittedOffset(1)}
        request = OffsetCommit(self._name, NO_MEMBER, NO_GENERATION, offsets)
        await self._retried(lambda: self._call(OFFSET_COMMIT, request))

    async def join(self) -> None:
        """Makes the member and its generation."""
        await self._retried(self._join)

    async def live(self) -> None:
        """Keeps a heartbeat on its way, until cancelled."""
        while True:
            await self._retried(self._beat)

    async def _join(self) -> None:
        metadata = Subscription(DRAFT_VERSION, (TOPIC,)).encode()
        protocols = (GroupProtocol(PROTOCOL, metadata),)
        while True:
            join = JoinGroup(self._name, self._member, SESSION_MS, SESSION_MS, "consumer", protocols)
            answer = await self._call(JOIN_GROUP, join)
            self._member = answer.member
            if not isinstance(answer, MemberIdGiven):
                break
        self._generation = answer.generation
        assigned = {self._member: Assignment(DRAFT_VERSION, (TopicPartition(TOPIC, 0),)).encode()}
        sync = SyncGroup(self._name, self._member, self._generation, "consumer", PROTOCOL, assigned)
        await self._call(SYNC_GROUP, sync)

    async def _beat(self) -> None:
        held_ms = 0 if self._name in self._shared.lost else HELD_MS  # the first answer ends the loss
        request = Heartbeat(self._name, self._member, self._generation, max_wait_ms=held_ms)
        try:
            await self._call(HEARTBEAT, request)
        except (RebalanceInProgress, IllegalGeneration):
            await self._join()

    # --- the coordinator -----------------------------------------------------------------------

    async def _retried(self, action: Callable[[], Awaitable[object]]) -> None:
        """Does it at the group's coordinator, which is looked for again after each error."""
        shared = self._shared
        while True:
            try:
                if not self._coordinator:
                    self._coordinator = await self._find()
                await action()
            except StrandlineError as error:
                if not error.retriable and error.outcome is not Outcome.UNKNOWN:
                    raise
                shared.lost.setdefault(self._name, shared.clock.monotonic())
                self._coordinator = ""
                await shared.clock.sleep(RETRY_S)
                continue
            if (lost_at := shared.lost.pop(self._name, None)) is not None:
                shared.away_s.append(shared.clock.monotonic() - lost_at)
                if not shared.lost:
                    shared.all_found.set()
            return

    async def _find(self) -> str:
        """Asks the brokers in turn."""
        self._asked += 1
        address = self._shared.addresses[self._asked % len(self._shared.addresses)]
        found = await self._shared.transport.call(address, FIND_COORDINATOR, self._name, timeout_s=CALL_S_MAX)
        return found.address

    async def _call(self, method: Method[Request, Response], request: Request) -> Response:
        return await self._shared.transport.call(self._coordinator, method, request, timeout_s=CALL_S_MAX)


async def serve(bootstrap: str, first: int, count: int) -> None:
    """Runs groups until standard input ends."""
    shared = Groups(bootstrap)
    groups = [Group(shared, number) for number in range(first, first + count)]
    async with asyncio.TaskGroup() as tasks:
        lives: list[asyncio.Task[None]] = []
        async for (command,) in commands():
            away: list[float] = []
            if command == "commit":
                await pipelined(Group.commit, groups, in_flight_max=AT_ONCE)
            elif command == "join":
                await pipelined(Group.join, groups, in_flight_max=AT_ONCE)
                lives = [tasks.create_task(group.live()) for group in groups]
            else:
                away = await _moved(shared)
            print(json.dumps({"done": command, "away_s": away}), flush=True)
        for life in lives:
            life.cancel()
    await shared.transport.close()


async def _moved(shared: Groups) -> list[float]:
    """How long each group was without a coordinator that lost its one, once all have one again."""
    while shared.lost:
        shared.all_found.clear()
        await shared.all_found.wait()
    away, shared.away_s = shared.away_s, []
    return away


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
