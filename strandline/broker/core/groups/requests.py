"""The requests that a coordinator handles, as values.

Most are those of `vocabulary/groups.py`. The others are here: they carry what the driver adds, or have no
fields on the wire but a name.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from strandline.broker.core.groups.state.present_topics import NOTHING_KNOWN, PresentTopics
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
)


@dataclass(frozen=True, slots=True)
class Join:
    """`new_member_id` is a fresh id for the member, should it need one; `host` is the caller's host."""

    request: JoinGroup
    new_member_id: str
    host: str

    @property
    def group(self) -> str:
        return self.request.group


@dataclass(frozen=True, slots=True)
class Commit:
    """Offsets of partitions that are `missing` are refused: the driver has found that they do not exist."""

    request: OffsetCommit
    missing: Collection[TopicPartition] = ()
    present: PresentTopics = NOTHING_KNOWN
    """Offsets of other incarnations are refused."""

    @property
    def group(self) -> str:
        return self.request.group


@dataclass(frozen=True, slots=True)
class Report:
    """Partitions that are `missing` are left out: the driver has found that they do not exist."""

    request: ReportOwnership
    missing: Collection[TopicPartition] = ()

    @property
    def group(self) -> str:
        return self.request.group


@dataclass(frozen=True, slots=True)
class UnknownTopics:
    """The topics that the group's members ask for, and of which it does not know since when."""

    group: str


@dataclass(frozen=True, slots=True)
class NoteTopics:
    """These topics as they are now: members have begun to ask for them."""

    group: str
    present: PresentTopics


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    group: str


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    group: str


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Partitions that are `missing` are refused if the group has no offset of them: the driver has found that
    they do not exist."""

    group: str
    partitions: Collection[TopicPartition]
    missing: Collection[TopicPartition] = ()


@dataclass(frozen=True, slots=True)
class ListGroups:
    group: ClassVar[str] = ""
    """Stands for all groups; no group has this name."""


Request = (
    Join
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | Commit
    | OffsetFetch
    | Report
    | ReportTasks
    | UnknownTopics
    | NoteTopics
    | DescribeGroup
    | DeleteGroup
    | DeleteOffsets
    | ListGroups
)
