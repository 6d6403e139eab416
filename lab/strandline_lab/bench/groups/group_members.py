"""Runs members of a group that only send its RPCs: a few processes can run a thousand members.

`python -m strandline_lab.bench.groups.group_members BOOTSTRAP GROUP FIRST MEMBERS` prints `ready`, and
carries out the commands of standard input: `join 0` (all members join), `beat MAX_WAIT_MS` (each member once
a second; the coordinator holds the answer for that time), `commit TOPIC` (each member to the partition of its
number, as fast as it is answered). It writes a line for each member that is in a generation, and at the end a
line with all times.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

import uvloop

from strandline import Admin, TopicPartition
from strandline.adapters.codecs.groups import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
)
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.clock import SystemClock
from strandline.errors import IllegalGeneration, RebalanceInProgress
from strandline.vocabulary.groups import (
    CommittedOffset,
    GroupProtocol,
    Heartbeat,
    Joined,
    JoinGroup,
    MemberIdGiven,
    OffsetCommit,
    SyncGroup,
)
from strandline.vocabulary.parsing.consumer_protocol import DRAFT_VERSION, Assignment, Subscription
from strandline_lab.perf.worker_processes import commands

SESSION_MS: Final = 60_000
CALL_S_MAX: Final = 120.0
BEAT_S: Final = 1.0
PROTOCOL: Final = "sticky"
METADATA: Final = Subscription(DRAFT_VERSION, ("a-topic",)).encode()
ASSIGNMENT: Final = Assignment(DRAFT_VERSION, (TopicPartition("a-topic", 0),)).encode()


class Bench:
    """The state that the members of one process share."""

    def __init__(self, address: str, group: str) -> None:
        self.address = address
        self.group = group
        self.transport = GrpcTransport()
        self.clock = SystemClock()
        self.mode = ("beat", "0")
        self.beats: list[tuple[float, float]] = []
        """For each answered heartbeat that was not held: its time, and its duration in seconds."""
        self.commits: list[tuple[float, float]] = []


class Member:
    """One member of the group."""

    def __init__(self, bench: Bench, number: int) -> None:
        self._bench = bench
        self._number = number
        self._member = ""
        self._generation = -1

    async def join(self) -> None:
        """Joins until it is in a generation."""
        bench = self._bench
        while True:
            request = JoinGroup(
                bench.group,
                self._member,
                SESSION_MS,
                SESSION_MS,
                "consumer",
                (GroupProtocol(PROTOCOL, METADATA),),
                client_id=f"bench-{self._number}",
            )
            answer = await bench.transport.call(bench.address, JOIN_GROUP, request, timeout_s=CALL_S_MAX)
            self._member = answer.member
            if isinstance(answer, MemberIdGiven):
                continue
            try:
                await self._sync(answer)
            except (RebalanceInProgress, IllegalGeneration):
                continue
            self._generation = answer.generation
            print(json.dumps({"generation": answer.generation, "at": bench.clock.monotonic()}), flush=True)
            return

    async def _sync(self, joined: Joined) -> None:
        bench = self._bench
        request = SyncGroup(
            bench.group,
            joined.member,
            joined.generation,
            "consumer",
            joined.protocol,
            {member.member: ASSIGNMENT for member in joined.members},
        )
        await bench.transport.call(bench.address, SYNC_GROUP, request, timeout_s=CALL_S_MAX)

    async def live(self) -> None:
        """Joins, and then sends what the bench commands."""
        await self.join()
        bench = self._bench
        await bench.clock.sleep(BEAT_S * (self._number % 97) / 97)  # spreads the heartbeats over time
        while True:
            kind, argument = bench.mode
            began = bench.clock.monotonic()
            try:
                if kind == "commit":
                    await self._commit(argument)
                    bench.commits.append((bench.clock.monotonic(), bench.clock.monotonic() - began))
                    continue
                await self._beat(int(argument))
            except (RebalanceInProgress, IllegalGeneration):
                await self.join()
                continue
            took = bench.clock.monotonic() - began
            if argument == "0":
                bench.beats.append((began + took, took))
            await bench.clock.sleep(max(0.0, BEAT_S - took))

    async def _beat(self, max_wait_ms: int) -> None:
        bench = self._bench
        request = Heartbeat(bench.group, self._member, self._generation, max_wait_ms=max_wait_ms)
        await bench.transport.call(bench.address, HEARTBEAT, request, timeout_s=CALL_S_MAX)

    async def _commit(self, topic: str) -> None:
        bench = self._bench
        offsets = {TopicPartition(topic, self._number): CommittedOffset(len(bench.commits))}
        request = OffsetCommit(bench.group, self._member, self._generation, offsets)
        results = await bench.transport.call(bench.address, OFFSET_COMMIT, request, timeout_s=CALL_S_MAX)
        for error in results.values():
            if error is not None:
                raise error


async def serve(bootstrap: str, group: str, first: int, members: int) -> None:
    """Runs members until standard input ends."""
    async with Admin(bootstrap) as admin:
        await admin.group_offsets(group)  # waits until the group has a coordinator
    transport = GrpcTransport()
    coordinator = await transport.call(
        bootstrap.partition(",")[0], FIND_COORDINATOR, group, timeout_s=CALL_S_MAX
    )
    await transport.close()
    bench = Bench(coordinator.address, group)
    lives: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as tasks:
        async for command, argument in commands():
            if command == "join":
                lives += [tasks.create_task(Member(bench, first + n).live()) for n in range(members)]
            else:
                bench.mode = (command, argument)
        for life in lives:
            life.cancel()
    print(json.dumps({"beats": bench.beats, "commits": bench.commits}), flush=True)
    await bench.transport.close()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
