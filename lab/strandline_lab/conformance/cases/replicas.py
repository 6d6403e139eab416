"""Replicas: elections, reassignments, and folders on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Topic

THERE: Final = Topic("replicas.there", 2)
UNKNOWN: Final = "replicas.unknown"
MS: Final = 10_000
PREFERRED, UNCLEAN = 0, 1

Places = tuple[str, Sequence[int]]


def _elect(name: str, *topics: Places, kind: int = PREFERRED, since: int = 0, **more: Any) -> Case:
    asked = [{"Topic": topic, "Partitions": list(indexes)} for topic, indexes in topics]
    body = {"ElectionType": kind, "TopicPartitions": asked, "TimeoutMs": MS, **more}
    return Case(name, Call("ElectLeaders", body, settled=False), topics=(THERE,), since=since)


_ELECT: Final = (
    _elect("the preferred leader leads", (THERE.name, [0])),
    _elect("two partitions", (THERE.name, [0, 1])),
    _elect("a partition twice", (THERE.name, [0, 0])),
    _elect("an unknown topic", (UNKNOWN, [0])),
    _elect("an unknown partition", (THERE.name, [9])),
    _elect("an invalid name", ("a b", [0])),
    _elect("no topics"),
    _elect("no partitions", (THERE.name, [])),
    _elect("unclean, with a leader", (THERE.name, [0]), kind=UNCLEAN, since=1),
    _elect("unclean, an unknown topic", (UNKNOWN, [0]), kind=UNCLEAN, since=1),
    _elect("an unknown type", (THERE.name, [0]), kind=7, since=1),
    _elect("a partition and an unknown one", (THERE.name, [0, 9])),
    _elect("a timeout of 0", (THERE.name, [0]), TimeoutMs=0),
    Case(
        "all partitions, preferred",
        Call("ElectLeaders", {"TopicPartitions": None, "TimeoutMs": MS}, settled=False),
        topics=(THERE,),
        only=THERE.name,
    ),
)

Moves = tuple[str, Sequence[tuple[int, Sequence[int] | None]]]


def _move(name: str, *topics: Moves, own: int = 0, since: int = 0, **more: Any) -> Case:
    """`own`: how many partitions the case's own topic `replicas.moved.…` has."""
    asked = [
        {
            "Name": topic,
            "Partitions": [
                {"PartitionIndex": index, "Replicas": replicas if replicas is None else list(replicas)}
                for index, replicas in partitions
            ],
        }
        for topic, partitions in topics
    ]
    body = {"Topics": asked, "TimeoutMs": MS, **more}
    needed = (THERE, Topic(topics[0][0], own)) if own else (THERE,)
    return Case(name, Call("AlterPartitionReassignments", body, settled=False), topics=needed, since=since)


_KEEP: Final[dict[str, Any]] = {"AllowReplicationFactorChange": False}

_MOVE: Final = (
    _move("another order", ("replicas.moved.order.{v}", [(0, (2, 1, 3))]), own=1),
    _move("fewer replicas", ("replicas.moved.fewer.{v}", [(0, (1, 2))]), own=1),
    _move("the same replicas", ("replicas.moved.same.{v}", [(0, (1, 2, 3))]), own=1),
    _move("fewer, not allowed", ("replicas.moved.no.{v}", [(0, (1, 2))]), own=1, since=1, **_KEEP),
    _move("two partitions", ("replicas.moved.two.{v}", [(0, (2, 1, 3)), (1, (2, 1, 3))]), own=2),
    _move("nothing to cancel", (THERE.name, [(0, None)])),
    _move("no replicas", (THERE.name, [(0, ())])),
    _move("a broker twice", (THERE.name, [(0, (1, 1))])),
    _move("an unknown broker", (THERE.name, [(0, (1, 9))])),
    _move("a negative broker", (THERE.name, [(0, (1, -1))])),
    _move("an unknown topic", (UNKNOWN, [(0, (1, 2))])),
    _move("an unknown topic to cancel", (UNKNOWN, [(0, None)])),
    _move("an unknown partition", (THERE.name, [(9, (1, 2))])),
    _move("an invalid name", ("a b", [(0, (1, 2))])),
    _move("no topics"),
    _move("no partitions", (THERE.name, [])),
    _move("a partition twice", (THERE.name, [(0, (1, 2, 3)), (0, (1, 2, 3))])),
)


def _moving(name: str, *topics: Places) -> Case:
    asked = [{"Name": topic, "PartitionIndexes": list(indexes)} for topic, indexes in topics]
    return Case(name, Call("ListPartitionReassignments", {"Topics": asked, "TimeoutMs": MS}), topics=(THERE,))


_MOVING: Final = (
    _moving("a topic at rest", (THERE.name, [0])),
    _moving("an unknown topic", (UNKNOWN, [0])),
    _moving("an unknown partition", (THERE.name, [9])),
    _moving("an invalid name", ("a b", [0])),
    _moving("no topics"),
    _moving("no partitions", (THERE.name, [])),
    _moving("a partition twice", (THERE.name, [0, 0])),
)


def _folders(name: str, *topics: Places) -> Case:
    asked = [{"Topic": topic, "Partitions": list(indexes)} for topic, indexes in topics]
    return Case(name, Call("DescribeLogDirs", {"Topics": asked}), topics=(THERE,))


_FOLDERS: Final = (
    _folders("one partition", (THERE.name, [0])),
    _folders("two partitions", (THERE.name, [0, 1])),
    _folders("a partition twice", (THERE.name, [0, 0])),
    _folders("an unknown topic", (UNKNOWN, [0])),
    _folders("an unknown partition", (THERE.name, [9])),
    _folders("an invalid name", ("a b", [0])),
    _folders("no topics"),
    _folders("no partitions", (THERE.name, [])),
)

CASES: Final = (*_ELECT, *_MOVE, *_MOVING, *_FOLDERS)
