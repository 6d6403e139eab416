"""`strandline-lab perf rebalance`: measures what a join or leave costs the other members, by protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, Final

from strandline import Producer
from strandline.adapters.system.clock import SystemClock
from strandline.cli.load.feed import Feeder
from strandline_lab.perf.measure import spread
from strandline_lab.perf.member_processes import MemberProcesses
from strandline_lab.perf.rebalance_times import Effects, Span, effects

GOLDEN_SECTION: Final = 0.618
TICK_S: Final = 0.02
"""Time between two sends: no shorter silence of a consumer can be measured."""
ASSIGNED: Final = "consumer"
"""The protocol of a group whose coordinator assigns (KIP-848); the others are of members that assign."""
QUIET_S: Final = 2.0
"""Time between two changes; silence in it is not caused by a rebalance."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of the measured group, and the rate of its topic."""

    topic: str
    partitions: int
    members: int
    rounds: int
    rate: float
    processes: int

    def group(self, protocol: str) -> str:
        return f"{self.topic}-{protocol}"


@dataclass(slots=True)
class Measured:
    """The changes of one kind, and the longest silence of any member in the quiet time before each."""

    changes: list[Effects] = field(default_factory=list)
    quiet_s: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Medians and maxima, in milliseconds."""
        unowned = [seconds for change in self.changes for seconds in change.unowned_s.values()]
        silent = [seconds for change in self.changes for seconds in change.silent_s.values()]
        return {
            "moved": _mean([change.moved for change in self.changes]),
            "interrupted": _mean([len(change.unowned_s) for change in self.changes]),
            **_named("unowned", unowned),
            **_named("silent", silent),
            "quiet_max_ms": spread(self.quiet_s)["max_ms"],
            "settle_p50_ms": spread([change.settle_s for change in self.changes])["p50_ms"],
        }


def _mean(counts: Sequence[int]) -> float:
    return round(sum(counts) / len(counts), 1)


def _named(what: str, seconds: Sequence[float]) -> dict[str, Any]:
    """The figures of some times. Without any time they are zero, not unknown."""
    return {f"{what}_{name}": figure or 0.0 for name, figure in spread(seconds).items()}


async def measure_rebalance(
    bootstrap: str,
    connection: Mapping[str, Any],
    protocol: str,
    scale: Scale,
    advance: Callable[[int], None],
) -> dict[str, dict[str, Any]]:
    """Measures each change: `add` starts the last of `members`, `remove` stops the eldest, `rounds` times.
    The topic is written to all the time, so silence is caused by the group.
    """
    named = "group_protocol" if protocol == ASSIGNED else "rebalance_protocol"
    settings = {"group_id": scale.group(protocol), named: protocol}
    found = {"add": Measured(), "remove": Measured()}
    stop = asyncio.Event()
    async with (
        Producer(bootstrap, **connection) as producer,
        MemberProcesses(
            bootstrap,
            scale.topic,
            scale.partitions,
            settings,
            processes=scale.processes,
            connection=connection,
        ) as members,  # fmt: skip
    ):
        feeder = Feeder(producer, scale.topic)
        await members.add(scale.members - 1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_keep_sending(feeder, scale, stop))
            await _quiet(members)
            for _ in range(scale.rounds):
                for kind, change in (("add", members.add), ("remove", members.remove_eldest)):
                    found[kind].quiet_s.append(await _quiet(members))
                    span = await change()
                    # A silence that the change caused ends after it.
                    await SystemClock().sleep(QUIET_S / 2)
                    found[kind].changes.append(effects(members.lines, span))
                    advance(1)
            stop.set()
        await producer.flush()
        if feeder.first_error is not None:  # the producer may have caused a silence
            raise feeder.first_error
    return {kind: measured.figures() for kind, measured in found.items()}


async def _quiet(members: MemberProcesses) -> float:
    """Waits without a change. Returns the longest silence of any member."""
    clock = SystemClock()
    members.forget()
    since = clock.monotonic()
    await clock.sleep(QUIET_S)
    # Silence at both ends is left out: a silence is measured between two records.
    inner = Span(since + QUIET_S / 4, since + QUIET_S * 3 / 4)
    return max(effects(members.lines, inner).silent_s.values(), default=0.0)


async def _keep_sending(feeder: Feeder, scale: Scale, stop: asyncio.Event) -> None:
    """Sends a few records at each tick, over all partitions in turn."""
    clock = SystemClock()
    step = stride(scale.partitions)
    began = clock.monotonic()
    while not stop.is_set():
        for number in range(feeder.sent, int((clock.monotonic() - began) * scale.rate)):
            await feeder.send(None, b"tick", partition=number * step % scale.partitions)
        await clock.sleep(TICK_S)


def stride(partitions: int) -> int:
    """A step that visits all partitions in turn, and spreads visits evenly over any run of them.

    A member often has neighbouring partitions. With steps of one, it would get all of its records at once,
    and then none for a whole turn. So the step is the golden section of the partition count, or the nearest
    number coprime to it.
    """
    golden = round(partitions * GOLDEN_SECTION)
    return next(step for step in range(max(1, golden), partitions + 2) if gcd(step, partitions) == 1)
