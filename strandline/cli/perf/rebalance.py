"""`strandline perf rebalance`: what a member that comes or goes costs the others, by either protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, Final

from strandline import Producer
from strandline.adapters.system.clock import SystemClock
from strandline.cli.load.feed import Feeder
from strandline.cli.perf.measure import spread
from strandline.cli.perf.member_processes import MemberProcesses
from strandline.cli.perf.rebalance_times import Effects, Span, effects

GOLDEN_SECTION: Final = 0.618
TICK_S: Final = 0.02
"""How often records are sent: the finest silence of a consumer that can be told."""
QUIET_S: Final = 2.0
"""Between two changes: what is silent then is silent without a rebalance."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the measured group is, and how fast its topic is written to."""

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
    """The changes of one kind, and the longest silence of any member while nothing changed before each."""

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
    """No time at all, where nothing was without an owner, is zero and not unknown."""
    return {f"{what}_{name}": figure or 0.0 for name, figure in spread(seconds).items()}


async def measure_rebalance(
    bootstrap: str, protocol: str, scale: Scale, advance: Callable[[int], None]
) -> dict[str, dict[str, Any]]:
    """Figures of each change: `add` has the last of `members` come, `remove` the eldest go, `rounds` times.

    Meanwhile the topic is written to, so that silence is the group's doing.
    """
    settings = {"group_id": scale.group(protocol), "rebalance_protocol": protocol}
    found = {"add": Measured(), "remove": Measured()}
    stop = asyncio.Event()
    async with (
        Producer(bootstrap) as producer,
        MemberProcesses(
            bootstrap, scale.topic, scale.partitions, settings, processes=scale.processes
        ) as members,
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
                    # A silence that the change began ends after it.
                    await SystemClock().sleep(QUIET_S / 2)
                    found[kind].changes.append(effects(members.lines, span))
                    advance(1)
            stop.set()
        await producer.flush()
        if feeder.first_error is not None:  # a silence may be the producer's
            raise feeder.first_error
    return {kind: measured.figures() for kind, measured in found.items()}


async def _quiet(members: MemberProcesses) -> float:
    """Let nothing change for a while; the longest silence of any member in it."""
    clock = SystemClock()
    members.forget()
    since = clock.monotonic()
    await clock.sleep(QUIET_S)
    # Its ends are left out: a silence is measured between two records.
    inner = Span(since + QUIET_S / 4, since + QUIET_S * 3 / 4)
    return max(effects(members.lines, inner).silent_s.values(), default=0.0)


async def _keep_sending(feeder: Feeder, scale: Scale, stop: asyncio.Event) -> None:
    """A few records at each tick, over all partitions in turn."""
    clock = SystemClock()
    step = stride(scale.partitions)
    began = clock.monotonic()
    while not stop.is_set():
        for number in range(feeder.sent, int((clock.monotonic() - began) * scale.rate)):
            await feeder.send(None, b"tick", partition=number * step % scale.partitions)
        await clock.sleep(TICK_S)


def stride(partitions: int) -> int:
    """A step that comes by each partition in turn, and by any run of them evenly.

    A member often has neighbours: with steps of one it would get all of its records at once, and then be
    silent for a whole turn. So the step is the golden section of the turn, or what is nearest to it and
    leaves none out.
    """
    golden = round(partitions * GOLDEN_SECTION)
    return next(step for step in range(max(1, golden), partitions + 2) if gcd(step, partitions) == 1)
