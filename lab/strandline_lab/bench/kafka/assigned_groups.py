"""Groups whose coordinator assigns (KIP-848): how long they need until they are whole, whether partitions
that stay with their members go on, and what heartbeats cost the brokers."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from strandline_lab.bench.kafka.peers import Peer
from strandline_lab.bench.kafka.processes import CONTROL_CLIENT, next_line, run_client, start_client
from strandline_lab.bench.report import cpu_s

CLIENT: Final = "strandline_lab.bench.kafka.assigned_client"
SHARED: Final = 16
OLD: Final = 8
RATE: Final = 800
"""Records a second to the topic: one in 20 ms to each partition."""
FEW, MANY, READERS = 100, 1_000, 10
MEMBERS, LARGE, PROCESSES = 50, 3_000, 5
GROUPS, IN_GROUP, WINDOW_S, WARM_S = 50, 100, 20.0, 15.0
CALM_S: Final = 8.0
"""A group without changes for this time is whole, if it has all partitions."""
WHOLE_S_MAX: Final = 240.0

HEADS: Final = {
    "join_s": f"a member joins {OLD} over {SHARED} partitions: until whole, s",
    "join_gap_s": "the longest gap of a partition that stayed with its member, s",
    "kill_s": "a member is killed: until whole, s",
    "kill_gap_s": "the longest gap of a partition that stayed, s",
    "grow_s": f"{READERS} members gain {MANY - FEW} partitions: until whole, s",
    "large_s": f"{MEMBERS} members on {LARGE:,} partitions: until whole, s",
    "large_join_s": "one more member: until whole, s",
    "beat_ms": f"{GROUPS * IN_GROUP:,} idle members: CPU of all brokers a heartbeat, ms",
    "beats_share": "their heartbeats, % of a core",
}


class Members:
    """Processes of consumers of one topic in one group."""

    def __init__(self, peer: Peer, topic: str) -> None:
        self._peer = peer
        self._topic = topic
        self.processes: list[Process] = []
        self._listening: list[asyncio.Task[None]] = []
        self._held: dict[int, int] = {}
        self._changed_at = 0.0
        self._gaps: list[float] = []
        self._news: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

    async def start(self, first: int, count: int, tasks: asyncio.TaskGroup) -> Process:
        """Starts a process, whose members join at the command `join`."""
        options = (f"first={first}", f"members={count}")
        process = await start_client(self._peer.bootstrap, "members", self._topic, *options, module=CLIENT)
        assert await next_line(process) == ["ready"]
        self.processes.append(process)
        self._listening.append(tasks.create_task(self._listen(process)))
        return process

    async def _listen(self, process: Process) -> None:
        while True:
            try:
                line = await next_line(process)
            except RuntimeError:
                return  # killed, or ended
            self._news.put_nowait(json.loads(" ".join(line)))

    async def whole(self, members: int, partitions: int) -> float:
        """The seconds until all partitions were shared by all members, and nothing changed for a while."""
        began = time.monotonic()
        async with asyncio.timeout(WHOLE_S_MAX):
            while True:
                shared = len(self._held) == members and sum(self._held.values()) == partitions
                try:
                    async with asyncio.timeout(CALM_S if shared else None):
                        line = await self._news.get()
                except TimeoutError:
                    return max(0.0, self._changed_at - began)
                if "held" in line:
                    self._held[line["member"]] = line["held"]
                    self._changed_at = line["at"]

    async def mark(self) -> None:
        """Begins to look for gaps."""
        for process in self._alive():
            send(process, "mark")

    async def gap_s(self) -> float:
        """The longest time since the mark between two records of a partition that one member had all the
        time."""
        asked = self._alive()
        for process in asked:
            send(process, "gap")
        gaps: list[float] = []
        while len(gaps) < len(asked):
            line = await self._news.get()
            if "gap_s" in line:
                gaps.append(line["gap_s"])
        return max(gaps)

    def kill(self, process: Process, members: Sequence[int]) -> None:
        process.send_signal(signal.SIGKILL)
        for member in members:
            del self._held[member]

    def _alive(self) -> list[Process]:
        return [process for process in self.processes if process.returncode is None]

    async def end(self) -> None:
        for task in self._listening:
            task.cancel()
        async with asyncio.TaskGroup() as tasks:
            for process in self._alive():
                tasks.create_task(process.communicate(b""))


def send(process: Process, command: str) -> None:
    assert process.stdin is not None
    process.stdin.write(command.encode() + b"\n")


@asynccontextmanager
async def _members(
    peer: Peer, name: str, partitions: int
) -> AsyncIterator[tuple[Members, asyncio.TaskGroup]]:
    """A new topic of this name, and members of it."""
    await _control(peer, "create", name, topics=1, partitions=partitions)
    async with asyncio.TaskGroup() as tasks:
        members = Members(peer, f"{name}-0")
        try:
            yield members, tasks
        finally:
            await members.end()
    await _control(peer, "delete", name, topics=1)


async def _control(peer: Peer, work: str, name: str, **options: int) -> Mapping[str, Any]:
    given = [f"{option}={value}" for option, value in options.items()]
    return await run_client(peer.bootstrap, work, name, *given, module=CONTROL_CLIENT)


async def assigned(peer: Peer) -> dict[str, float]:
    """Needs a system that serves ConsumerGroupHeartbeat."""
    name = f"assigned{time.monotonic_ns()}"
    return {
        **await _few(peer, f"{name}few"),
        **await _growing(peer, f"{name}growing"),
        **await _large(peer, f"{name}large"),
        **await _idle(peer, f"{name}idle"),
    }


async def _few(peer: Peer, name: str) -> dict[str, float]:
    async with _members(peer, name, SHARED) as (members, tasks):
        feeding = await start_client(
            peer.bootstrap, "feed", f"{name}-0", f"rate={RATE}", f"partitions={SHARED}", module=CLIENT
        )
        try:
            for number in range(OLD):
                send(await members.start(number, 1, tasks), "join")
            await members.whole(OLD, SHARED)
            late = await members.start(OLD, 1, tasks)
            await members.mark()
            send(late, "join")
            join_s = await members.whole(OLD + 1, SHARED)
            join_gap_s = await members.gap_s()
            await members.mark()
            members.kill(late, [OLD])
            kill_s = await members.whole(OLD, SHARED)
            kill_gap_s = await members.gap_s()
        finally:
            await feeding.communicate(b"")
    return {"join_s": join_s, "join_gap_s": join_gap_s, "kill_s": kill_s, "kill_gap_s": kill_gap_s}


async def _growing(peer: Peer, name: str) -> dict[str, float]:
    async with _members(peer, name, FEW) as (members, tasks):
        for number in range(READERS):
            send(await members.start(number, 1, tasks), "join")
        await members.whole(READERS, FEW)
        growing = tasks.create_task(
            run_client(peer.bootstrap, "grow", f"{name}-0", f"partitions={MANY}", module=CLIENT)
        )
        grow_s = await members.whole(READERS, MANY)
        await growing
    return {"grow_s": grow_s}


async def _large(peer: Peer, name: str) -> dict[str, float]:
    each = MEMBERS // PROCESSES
    async with _members(peer, name, LARGE) as (members, tasks):
        processes = [await members.start(number * each, each, tasks) for number in range(PROCESSES)]
        late = await members.start(MEMBERS, 1, tasks)
        for process in processes:
            send(process, "join")
        large_s = await members.whole(MEMBERS, LARGE)
        send(late, "join")
        large_join_s = await members.whole(MEMBERS + 1, LARGE)
    return {"large_s": large_s, "large_join_s": large_join_s}


async def _idle(peer: Peer, name: str) -> dict[str, float]:
    """Members that only send heartbeats, in groups of one broker."""
    await _control(peer, "create", name, topics=1, partitions=IN_GROUP)
    pids = peer.pids()
    used, began = _used_s(pids), time.monotonic()
    await asyncio.sleep(WINDOW_S)
    rest = (_used_s(pids) - used) / (time.monotonic() - began)
    options = (f"groups={GROUPS}", f"members={IN_GROUP}")
    beating = await start_client(peer.bootstrap, "beat", f"{name}-0", *options, module=CLIENT)
    assert await next_line(beating) == ["whole"]
    await asyncio.sleep(WARM_S)
    send(beating, "count")
    before = int((await next_line(beating))[0])
    used, began = _used_s(pids), time.monotonic()
    await asyncio.sleep(WINDOW_S)
    send(beating, "count")
    beats = int((await next_line(beating))[0]) - before
    took_s = time.monotonic() - began
    cost_s = _used_s(pids) - used - rest * took_s
    await beating.communicate(b"")
    await _control(peer, "delete", name, topics=1)
    return {"beat_ms": 1_000 * cost_s / beats, "beats_share": 100 * cost_s / took_s}


def _used_s(pids: Sequence[int]) -> float:
    return sum(map(cpu_s, pids))
