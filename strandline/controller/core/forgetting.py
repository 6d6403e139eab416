"""Decides whether a broker may be forgotten, and how the requests that wait for it end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.controller.core.upkeep.queues import QueueEntry
from strandline.errors import InvalidRequest
from strandline.ids import BrokerId
from strandline.vocabulary.state_changes import (
    AskedBy,
    End,
    RequestState,
    StateChange,
    StateChangeEvent,
    life_of,
)

REQUESTS_AT_ONCE_MAX: Final = 200
"""Requests that end in one `multi`: the events of their lives have to fit into it."""

ENTRIES_AT_ONCE_MAX: Final = 200
NAMED_MAX: Final = 10
"""Partitions that a refusal names; the others are counted."""


def check_forgettable(survey: Survey, broker: BrokerId) -> None:
    """Raises InvalidRequest, which says what to do first, if the broker is alive or has a replica."""
    if broker in survey.live:
        raise InvalidRequest(
            f"broker {broker} is alive: stop it first. If it was killed, its session ends within its "
            "zookeeper_session_timeout_ms"
        )
    has = [partition for partition in survey.partitions if broker in _brokers(partition)]
    if not has:
        return
    names = ", ".join(str(partition) for partition in has[:NAMED_MAX])
    if len(has) > NAMED_MAX:
        names += f" and {len(has) - NAMED_MAX} more"
    raise InvalidRequest(
        f"broker {broker} has replicas, or gets them by a move: {names}. Move them first, with "
        f"`strandline broker drain {broker} --replicas` or `strandline topic reassign`"
    )


def _brokers(partition: SurveyedPartition) -> set[int]:
    """All that have a replica, and those that a move may give one: to which of two it leads may change."""
    moving = partition.reassignment
    return {*partition.assigned, *(() if moving is None else (*moving.original, *moving.replicas))}


@dataclass(frozen=True, slots=True)
class Ending:
    """The first requests of a znode end: they leave it, and `rest` stays."""

    entry: str
    version: int
    rest: tuple[StateChange, ...]
    failed: int
    """How many of them had no end yet."""
    events: tuple[StateChangeEvent, ...]


def endings(
    entries: Sequence[QueueEntry], broker: BrokerId, now_ms: int, by: AskedBy | None
) -> Iterator[list[Ending]]:
    """All requests of a queue, ended as failed unless they have ended already; each list fits one write."""
    reason = f"broker {broker} was forgotten" + (
        "" if by is None else f", for {by.principal} from {by.address}"
    )
    end = End(RequestState.FAILED, now_ms, reason=reason)
    group: list[Ending] = []
    size = 0
    for entry in entries:
        version = entry.version
        for start in range(0, len(entry.changes), REQUESTS_AT_ONCE_MAX) or (0,):
            changes = entry.changes[start : start + REQUESTS_AT_ONCE_MAX]
            if group and (size + len(changes) > REQUESTS_AT_ONCE_MAX or len(group) >= ENTRIES_AT_ONCE_MAX):
                yield group
                group, size = [], 0
            ended = (change if change.end is not None else replace(change, end=end) for change in changes)
            events = tuple(event for change in ended for event in life_of(change, broker))
            rest = entry.changes[start + REQUESTS_AT_ONCE_MAX :]
            failed = sum(change.end is None for change in changes)
            group.append(Ending(entry.name, version, rest, failed, events))
            size += len(changes)
            version += 1
    if group:
        yield group
