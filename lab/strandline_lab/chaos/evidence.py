"""Everything that the judge of a round looks at, out of the files of the round.

The judge rejects a round if a file is missing or cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from strandline.auditing.cluster import Observation
from strandline.auditing.history import (
    Acked,
    Assigned,
    CommitAcked,
    History,
    Line,
    Received,
    Sent,
    Unassigned,
)
from strandline.ids import TopicPartition
from strandline.report.round_files import GROUP_EVENTS, BrokenEvidence, Fields, Moment, RoundFiles
from strandline.vocabulary.state_changes import StateChangeEvent
from strandline_lab.auditing.commits import Committed, KafkaTenure
from strandline_lab.auditing.member_ownership import Change, MemberHistory
from strandline_lab.auditing.ownership import GroupEvent
from strandline_lab.auditing.staleness import Partition, Reading
from strandline_lab.auditing.transactions import Output, Sending
from strandline_lab.chaos.history_lines import GENERATION_UNKNOWN

COMMITTED: Final = "committed.jsonl"
PRODUCERS: Final = "produce-*.jsonl"
READERS: Final = "consume-assign-*.jsonl"
MEMBERS: Final = "consume-group-*.jsonl"
FINAL: Final = "final-*.jsonl"
SETTLED: Final = "settled"

_GROUP_IN_NAME: Final = re.compile(r"consume-group-(.+?)-\d+(-\d+)?\.jsonl")
"""The group, the number of the member, and the number of its process unless it is the first."""


@dataclass(slots=True)
class Evidence:
    """Everything that is judged. `settled_ms`: when the cluster was healthy again, None if it never was."""

    histories: list[History] = field(default_factory=list)
    final: list[History] = field(default_factory=list)
    """The histories of readers that began after the load had ended."""
    member_histories: list[MemberHistory] = field(default_factory=list)
    acked_ms: dict[Partition, dict[int, float]] = field(default_factory=dict)
    """When each offset was acknowledged, by the monotonic clock that the processes of a machine share."""
    readings: list[Reading] = field(default_factory=list)
    """The records that readers by assignment received while others wrote."""
    observations: list[Observation] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    acknowledged: list[Committed] = field(default_factory=list)
    """Commits that members made by hand, and that were acknowledged."""
    kafka_tenures: list[KafkaTenure] = field(default_factory=list)
    sendings: list[Sending] = field(default_factory=list)
    """What was sent in transactions."""
    changes: list[StateChangeEvent] = field(default_factory=list)
    group_events: list[GroupEvent] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    settled_ms: int | None = None


def read(out: Path) -> Evidence:
    """Reads a round's folder. Raises BrokenEvidence, InvalidHistory, OSError."""
    files = RoundFiles(out, strict=True)
    found = Evidence(
        observations=[*files.observations()],
        committed=[*files.values(COMMITTED, _committed)],
        changes=[*files.state_changes()],
        group_events=[*files.values(GROUP_EVENTS, _group_event, once=True)],
        moments=[*files.moments()],
    )
    for moment in found.moments:
        if moment.event == SETTLED:
            found.settled_ms = moment.at_ms
    groups = {each.member: each.group for each in found.group_events if each.member}
    for name in files.named(PRODUCERS):
        lines = [*files.history(name)]
        found.histories.append(_producer(name, lines, found.acked_ms))
        found.sendings += _sendings(name, "", lines)
    for name in files.named(READERS):
        found.histories.append(_reader(name, files.history(name), found.readings))
    for name in files.named(MEMBERS):
        lines = [*files.history(name)]
        member = _member(name, lines, groups)
        found.histories.append(_producer(name, lines, found.acked_ms))
        found.member_histories.append(member)
        found.sendings += _sendings(name, member.group, lines)
        if _is_kafka(member):
            found.kafka_tenures += _tenures(member.group, lines)
        else:
            found.acknowledged += _commits(member.group, lines)
    for name in files.named(FINAL):
        found.final.append(_reader(name, files.history(name), []))
    found.histories += found.final
    return found


# --- histories --------------------------------------------------------------------------------


def _producer(name: str, lines: Iterable[Line], acked_ms: dict[Partition, dict[int, float]]) -> History:
    history = History(name)
    for event, fields in lines:
        history.events.append(event)
        if isinstance(event, Acked) and event.offset >= 0:
            acked_ms.setdefault((event.topic, event.partition), {})[event.offset] = _clock(fields)
    return history


def _reader(name: str, lines: Iterable[Line], readings: list[Reading]) -> History:
    history = History(name)
    since_ms: dict[Partition, float] = {}
    for event, fields in lines:
        history.events.append(event)
        if isinstance(event, Assigned):
            since_ms |= {(event.topic, partition): _clock(fields) for partition in event.partitions}
        elif isinstance(event, Received):
            place = (event.topic, event.partition)
            since = since_ms.get(place)
            if since is not None:
                readings.append(Reading(history.name, *place, event.offset, _clock(fields), since))
    return history


def _member(name: str, lines: Sequence[Line], groups: Mapping[str, str]) -> MemberHistory:
    """`groups`: the group events of coordinators, by member id."""
    changes = [
        _change(name, event, fields) for event, fields in lines if isinstance(event, Assigned | Unassigned)
    ]
    group = next((groups[each.member] for each in changes if each.member in groups), None)
    if group is None:
        named = _GROUP_IN_NAME.fullmatch(name)
        group = named[1] if named else name
    return MemberHistory(name, group, changes, max((_at_ms(fields) for _, fields in lines), default=0))


def _is_kafka(member: MemberHistory) -> bool:
    """True for a Kafka client that owned partitions: its library does not know the generation."""
    return any(change.generation == GENERATION_UNKNOWN for change in member.changes)


def _commits(group: str, lines: Iterable[Line]) -> Iterator[Committed]:
    for event, fields in lines:
        if isinstance(event, CommitAcked):
            yield Committed(_at_ms(fields), group, event.topic, event.partition, event.offset)


def _tenures(group: str, lines: Iterable[Line]) -> list[KafkaTenure]:
    found: list[KafkaTenure] = []
    present: dict[Partition, KafkaTenure] = {}
    for event, fields in lines:
        if isinstance(event, Assigned):
            for partition in event.partitions:
                tenure = KafkaTenure(group, TopicPartition(event.topic, partition))
                present[tenure.place] = tenure
                found.append(tenure)
        elif isinstance(event, Received | CommitAcked):
            tenure_now = present.get((event.topic, event.partition))
            if tenure_now is None:
                continue
            if isinstance(event, Received):
                tenure_now.received_ms.setdefault(event.offset, _at_ms(fields))
            else:
                tenure_now.acknowledged.extend(_commits(group, [Line(event, fields)]))
    return found


def _sendings(name: str, group: str, lines: Iterable[Line]) -> list[Sending]:
    """The transactions of a history; a producer without any numbers none."""
    found: dict[int, Sending] = {}
    for event, fields in lines:
        if not isinstance(event, Sent) or "transaction" not in fields:
            continue
        try:
            number, source = int(fields["transaction"]), fields.get("source")
            place = None if source is None else (str(source[0]), int(source[1]), int(source[2]))
        except (IndexError, TypeError, ValueError) as error:
            raise BrokenEvidence(f"{name}, seq {event.seq}: no record of a transaction: {error!r}") from None
        sending = found.setdefault(number, Sending(name, number, group))
        sending.outputs.append(Output(event.topic, event.value, place))
    return [*found.values()]


def _change(name: str, event: Assigned | Unassigned, fields: Fields) -> Change:
    try:
        at_ms, member, generation = int(fields["at_ms"]), str(fields["member"]), int(fields["generation"])
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenEvidence(f"{name}, seq {event.seq}: not what a member reports: {error!r}") from None
    return Change(str(fields["event"]), at_ms, member, generation, event.topic, event.partitions)


def _clock(fields: Fields) -> float:
    return float(fields.get("monotonic_ms", 0))


def _at_ms(fields: Fields) -> int:
    return int(fields.get("at", 0))


def _committed(fields: Fields) -> Committed:
    return Committed(
        at_ms=int(fields["at_ms"]),
        group=str(fields["group"]),
        topic=str(fields["topic"]),
        partition=int(fields["partition"]),
        offset=int(fields["offset"]),
    )


def _group_event(fields: Fields) -> GroupEvent:
    partitions = fields.get("partitions") or {}
    return GroupEvent(
        event=str(fields["event"]),
        group=str(fields["group"]),
        generation=int(fields["generation"]),
        at_ms=int(fields["at_ms"]),
        member=str(fields.get("member", "")),
        partitions={str(topic): tuple(map(int, numbers)) for topic, numbers in partitions.items()},
    )
