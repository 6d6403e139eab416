"""The changes of a cluster whose cost is measured, one after another: each finds what the one before left.

Topics of three partitions with three replicas are on three brokers. Leaders go back to the preferred replica
when a step asks for it, and not by their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from strandline import Admin, LocalCluster, NewTopic, TopicPartition
from strandline.errors import RequestTimedOut, StrandlineError
from strandline_lab.bench.cluster.leadership import PREFIX, leaders
from strandline_lab.bench.control.looks import cpu_until_end_ms

TOPICS: Final = 300
PARTITIONS: Final = 3
REPLICAS: Final = 3
ALL: Final = TOPICS * PARTITIONS
AT_ONCE: Final = 100
"""Topics that one request names."""
MOVED: Final = "moved"
MOVES: Final = 100
"""Partitions that get another replica, with two replicas each: of three there is no other broker."""
EXPIRY_S: Final = 6.0
"""A session that has no owner ends before this; what follows from that belongs to the step."""
LOOK_S: Final = 0.2
START_S_MAX: Final = 120.0


@dataclass(slots=True)
class Stage:
    """The cluster, and what a step leaves for the next ones."""

    cluster: LocalCluster
    admin: Admin
    victim: int = 0
    """The broker that is killed and stopped."""
    led: int = 0
    """The partitions that it led."""
    ended_ms: dict[str, float] = field(default_factory=dict)
    """The processor time of processes that ended in this step."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change. `act` returns when the change is there, as far as its caller can see; what `prepare` costs
    is not counted. `partitions` are those that change."""

    title: str
    act: Callable[[Stage], Awaitable[None]]
    partitions: Callable[[Stage], int] = lambda stage: ALL
    prepare: Callable[[Stage], Awaitable[None]] | None = None
    settle_s: float = 0.0
    """The least time until what follows from the change has begun."""


def _names() -> list[str]:
    return [f"{PREFIX}{number}" for number in range(TOPICS)]


async def create(stage: Stage) -> None:
    names = _names()
    for first in range(0, TOPICS, AT_ONCE):
        topics = [NewTopic(name, PARTITIONS, REPLICAS) for name in names[first : first + AT_ONCE]]
        await stage.admin.create_topics(topics)


async def delete(stage: Stage) -> None:
    names = _names()
    for first in range(0, TOPICS, AT_ONCE):
        await stage.admin.delete_topics(names[first : first + AT_ONCE])


async def choose_victim(stage: Stage) -> None:
    stage.victim, stage.led = (await leaders(stage.admin)).most_common(1)[0]


async def kill(stage: Stage) -> None:
    await stage.cluster.kill_broker(stage.victim)


async def start(stage: Stage) -> None:
    await stage.cluster.start_broker(stage.victim, wait_s=START_S_MAX)


async def leave(stage: Stage) -> None:
    """The broker hands over, and ends. Its processor time is counted, its requests are not."""
    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(cpu_until_end_ms(stage.cluster.pid(stage.victim)))
        await stage.cluster.stop_broker(stage.victim)
    stage.ended_ms[f"broker {stage.victim}"] = ending.result()


async def elect_preferred(stage: Stage) -> None:
    """Raises the first refusal; an election that takes longer than the request may wait is none."""
    wanted = [
        TopicPartition(topic.name, each.partition)
        for topic in (await stage.admin.metadata()).topics
        if topic.name.startswith(PREFIX)
        for each in topic.partitions
        if each.replicas[0] == stage.victim and each.leader != stage.victim
    ]
    stage.led = len(wanted)
    refused = [result.error for result in await stage.admin.elect_preferred(wanted)]
    for error in refused:
        if isinstance(error, StrandlineError) and not isinstance(error, RequestTimedOut):
            raise error


async def create_moved(stage: Stage) -> None:
    await stage.admin.create_topic(MOVED, MOVES, REPLICAS - 1)


async def move(stage: Stage) -> None:
    """Replaces the second replica of each partition by one on the broker that has none."""
    await stage.admin.reassign(await _targets(stage))
    while True:
        if not await stage.admin.list_reassignments():
            return
        await asyncio.sleep(LOOK_S)


async def _targets(stage: Stage) -> Mapping[TopicPartition, list[int]]:
    (topic,) = (await stage.admin.metadata([MOVED])).topics
    brokers = set(stage.cluster.broker_ids)
    return {
        TopicPartition(MOVED, each.partition): [each.replicas[0], *(brokers - set(each.replicas))]
        for each in topic.partitions
    }


STEPS: Final = {
    "create": Step(f"creation, {AT_ONCE} topics a request", create),
    "kill": Step("kill of a broker", kill, prepare=choose_victim, settle_s=EXPIRY_S),
    "start": Step("its start after the kill", start),
    "preferred": Step("preferred leaders elected", elect_preferred, lambda stage: stage.led),
    "leave": Step("stop of a broker", leave, prepare=choose_victim, settle_s=EXPIRY_S),
    "return": Step("its start after the stop", start),
    "move": Step("reassignment", move, lambda stage: MOVES, create_moved),
    "delete": Step(f"deletion, {AT_ONCE} topics a request", delete),
}
