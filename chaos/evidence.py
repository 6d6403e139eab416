"""What a round left behind, read into the values that are judged.

A line that cannot be read is an error that names file and line; the last one of a file may be half a line,
which counts for nothing. A file that is not there is an error too: what was not looked at is not known to
be well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from strandline.auditing.beliefs import Belief, Change
from strandline.auditing.cluster import Observation
from strandline.auditing.commits import Committed
from strandline.auditing.history import (
    Acked,
    Assigned,
    CommitAcked,
    History,
    Received,
    Told,
    Unassigned,
    read_whole_lines,
)
from strandline.auditing.ownership import GroupEvent
from strandline.auditing.staleness import Reading
from strandline.errors import StrandlineError
from strandline.vocabulary.state_changes import StateChangeEvent, load_event

PRODUCERS: Final = "produce-*.jsonl"
READERS: Final = "consume-assign-*.jsonl"
MEMBERS: Final = "consume-group-*.jsonl"
FINAL: Final = "final-*.jsonl"
TIMELINE: Final = "timeline.jsonl"
OBSERVATIONS: Final = "observations.jsonl"
COMMITTED: Final = "committed.jsonl"
STATE_CHANGES: Final = "state-changes.jsonl"
GROUP_EVENTS: Final = "group-events.jsonl"
SETTLED: Final = "settled"

_GROUP_IN_NAME: Final = re.compile(r"consume-group-(.+?)-\d+(-\d+)?")
"""The group, the member, and which of its lives it is if it is not the first."""

T = TypeVar("T")
Lane = tuple[str, int]


class BrokenEvidence(StrandlineError):
    """A file of a round is not there, or a line of it cannot be read; the message names file and line."""


@dataclass(slots=True)
class Evidence:
    """All that is judged. `settled_ms` is when all was well again, None if it never was."""

    histories: list[History] = field(default_factory=list)
    final: list[History] = field(default_factory=list)
    """Of the histories, those of readers that began when all had ended."""
    beliefs: list[Belief] = field(default_factory=list)
    acked_ms: dict[Lane, dict[int, float]] = field(default_factory=dict)
    """When each offset was acknowledged, by the clock that the processes of a machine share."""
    readings: list[Reading] = field(default_factory=list)
    """All that readers by assignment were given while others wrote."""
    observations: list[Observation] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    acknowledged: list[Committed] = field(default_factory=list)
    """Commits that members made by hand, and were told to be done."""
    changes: list[StateChangeEvent] = field(default_factory=list)
    group_events: list[GroupEvent] = field(default_factory=list)
    settled_ms: int | None = None


def read(out: Path) -> Evidence:
    """Everything in a round's folder. Raises BrokenEvidence, InvalidHistory, OSError."""
    found = Evidence(
        observations=[*_values(out / OBSERVATIONS, _observation)],
        committed=[*_values(out / COMMITTED, _committed)],
        changes=[*_values(out / STATE_CHANGES, load_event)],
        group_events=[*_values(out / GROUP_EVENTS, _group_event, once=True)],
    )
    for at_ms, event in _values(out / TIMELINE, _moment):
        if event == SETTLED:
            found.settled_ms = at_ms
    groups = {each.member: each.group for each in found.group_events if each.member}
    for path in _paths(out, PRODUCERS):
        found.histories.append(_producer(path, found.acked_ms))
    for path in _paths(out, READERS):
        found.histories.append(_reader(path, found.readings))
    for path in _paths(out, MEMBERS):
        history, belief, commits = _member(path, groups)
        found.histories.append(history)
        found.beliefs.append(belief)
        found.acknowledged += commits
    for path in _paths(out, FINAL):
        found.final.append(_reader(path, []))
    found.histories += found.final
    return found


def _paths(out: Path, pattern: str) -> list[Path]:
    """Sorted. Raises BrokenEvidence if there are none."""
    paths = sorted(out.glob(pattern))
    if not paths:
        raise BrokenEvidence(f"{out} has no {pattern}")
    return paths


# --- histories --------------------------------------------------------------------------------


def _told(path: Path) -> Iterator[Told]:
    with path.open("rb") as lines:
        yield from read_whole_lines(path.name, lines)


def _producer(path: Path, acked_ms: dict[Lane, dict[int, float]]) -> History:
    history = History(path.name)
    for event, said in _told(path):
        history.events.append(event)
        if isinstance(event, Acked) and event.offset >= 0:
            acked_ms.setdefault((event.topic, event.partition), {})[event.offset] = _clock(said)
    return history


def _reader(path: Path, readings: list[Reading]) -> History:
    history = History(path.name)
    since_ms: dict[Lane, float] = {}
    for event, said in _told(path):
        history.events.append(event)
        if isinstance(event, Assigned):
            since_ms |= {(event.topic, partition): _clock(said) for partition in event.partitions}
        elif isinstance(event, Received):
            lane = (event.topic, event.partition)
            since = since_ms.get(lane)
            if since is not None:
                readings.append(Reading(history.name, *lane, event.offset, _clock(said), since))
    return history


def _member(path: Path, groups: Mapping[str, str]) -> tuple[History, Belief, list[Committed]]:
    """`groups` by member id, as far as coordinators told."""
    history = History(path.name)
    commits: list[tuple[int, CommitAcked]] = []
    changes: list[Change] = []
    last_ms = 0
    for event, said in _told(path):
        history.events.append(event)
        last_ms = max(last_ms, int(said.get("at", 0)))
        if isinstance(event, CommitAcked):
            commits.append((int(said.get("at", 0)), event))
        elif isinstance(event, Assigned | Unassigned):
            changes.append(_change(path, event, said))
    group = next((groups[each.member] for each in changes if each.member in groups), None)
    if group is None:
        named = _GROUP_IN_NAME.fullmatch(path.stem)
        group = named[1] if named else path.stem
    done = [Committed(at_ms, group, each.topic, each.partition, each.offset) for at_ms, each in commits]
    return history, Belief(history.name, group, changes, last_ms), done


def _change(path: Path, event: Assigned | Unassigned, said: Mapping[str, Any]) -> Change:
    try:
        at_ms, member, generation = int(said["at_ms"]), str(said["member"]), int(said["generation"])
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenEvidence(f"{path.name}, seq {event.seq}: not what a member tells: {error!r}") from None
    return Change(str(said["event"]), at_ms, member, generation, event.topic, event.partitions)


def _clock(said: Mapping[str, Any]) -> float:
    return float(said.get("monotonic_ms", 0))


# --- lines of JSON ----------------------------------------------------------------------------


def _values(path: Path, value: Callable[[Mapping[str, Any]], T], *, once: bool = False) -> Iterator[T]:
    """The values of a file's lines, with `once` of equal lines the first."""
    if not path.exists():
        raise BrokenEvidence(f"{path.parent} has no {path.name}")
    wrong: str | None = None
    seen: set[bytes] = set()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip() or line in seen:
                continue
            if wrong is not None:
                raise BrokenEvidence(wrong)
            if once:
                seen.add(line)
            try:
                said = json.loads(line)
                if not isinstance(said, dict):
                    raise ValueError("not a JSON object")
                found = value(said)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                wrong = f"{path.name}, line {number}: {error!r}"
                continue
            yield found


def _moment(said: Mapping[str, Any]) -> tuple[int, str]:
    return int(said["at_ms"]), str(said["event"])


def _observation(said: Mapping[str, Any]) -> Observation:
    def offset(name: str) -> int | None:
        return None if said[name] is None else int(said[name])

    return Observation(
        at_ms=int(said["at_ms"]),
        observer=str(said["observer"]),
        topic=str(said["topic"]),
        partition=int(said["partition"]),
        leader=int(said["leader"]),
        epoch=int(said["epoch"]),
        isr=tuple(int(each) for each in said["isr"]),
        watermark=offset("hw"),
        end=offset("leo"),
    )


def _committed(said: Mapping[str, Any]) -> Committed:
    return Committed(
        at_ms=int(said["at_ms"]),
        group=str(said["group"]),
        topic=str(said["topic"]),
        partition=int(said["partition"]),
        offset=int(said["offset"]),
    )


def _group_event(said: Mapping[str, Any]) -> GroupEvent:
    partitions = said.get("partitions") or {}
    return GroupEvent(
        event=str(said["event"]),
        group=str(said["group"]),
        generation=int(said["generation"]),
        at_ms=int(said["at_ms"]),
        member=str(said.get("member", "")),
        partitions={str(topic): tuple(map(int, numbers)) for topic, numbers in partitions.items()},
    )
