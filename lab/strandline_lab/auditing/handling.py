"""Checks that a member finished its work on a record before it gave the partition up. Pure.

A member that reports finished records (`handled`) works on a record from `received` until then. The partition
may be lost within that time, since a group does not wait for a member that it has removed. But it must not be
revoked: the next owner would work on the partition at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strandline.auditing.checks import HANDLED, Finding, in_order
from strandline.auditing.history import Handled, History, Received, Unassigned

Partition = tuple[str, int]


def findings(histories: Iterable[History]) -> list[Finding]:
    """All findings in histories of members that report finished records; ignores other histories."""
    reporting = (each for each in histories if any(isinstance(event, Handled) for event in each.events))
    return in_order({finding for history in reporting for finding in _of_one(history)})


def _of_one(history: History) -> Iterator[Finding]:
    at_work: dict[Partition, int] = {}
    for event in history.events:
        match event:
            case Received(topic=topic, partition=partition, offset=offset):
                at_work[topic, partition] = offset
            case Handled(topic=topic, partition=partition):
                at_work.pop((topic, partition), None)
            case Unassigned(topic=topic, partitions=partitions, in_order=given_up):
                for partition in partitions:
                    if (topic, partition) not in at_work:
                        continue
                    offset = at_work.pop((topic, partition))
                    if given_up:
                        detail = f"{history.name} gave the partition up before it had finished with this"
                        yield Finding(HANDLED.name, topic, partition, offset, detail)
