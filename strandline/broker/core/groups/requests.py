"""The requests that a coordinator handles, as values. Each names the type of its answer (`Asks`).

Most are those of `vocabulary/groups.py`. The others are here: they carry what the driver adds, or have no
fields on the wire but a name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from strandline.broker.core.consumer_groups.topics import Topic
from strandline.broker.core.groups.state.present_topics import NOTHING_KNOWN, PresentTopics
from strandline.ids import TopicPartition
from strandline.vocabulary.asks import Asks
from strandline.vocabulary.groups import (
    ConsumerBeat,
    ConsumerHeartbeat,
    DescribedConsumerGroup,
    DescribedGroup,
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    ListedGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetResults,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
)
from strandline.vocabulary.log import Transactional


@dataclass(frozen=True, slots=True)
class Join(Asks[JoinAnswer]):
    """`new_member_id` is a fresh id for the member, should it need one; `host` is the caller's host."""

    request: JoinGroup
    new_member_id: str
    host: str
    topics: Mapping[str, Topic | None] = field(default_factory=dict)
    """Those that it subscribes to and has, as they are now, if its group is one whose coordinator assigns."""

    @property
    def group(self) -> str:
        return self.request.group


@dataclass(frozen=True, slots=True)
class ConsumerBeats(Asks[ConsumerBeat]):
    """`topics`: those that the driver has looked at, as they are now; None for each that does not exist."""

    request: ConsumerHeartbeat
    host: str
    topics: Mapping[str, Topic | None] = field(default_factory=dict)
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The topics that its pattern chooses, if that was evaluated anew."""

    @property
    def group(self) -> str:
        return self.request.group


@dataclass(frozen=True, slots=True)
class Commit(Asks[OffsetResults]):
    """Offsets of partitions that are `missing` are refused: the driver has found that they do not exist."""

    request: OffsetCommit
    missing: Collection[TopicPartition] = ()
    present: PresentTopics = NOTHING_KNOWN
    """Offsets of other incarnations are refused."""
    any_offset: bool = False
    """Whether offsets below 0 are kept, as Kafka's brokers do. To strandline's consumers they are none."""
    knows_epochs: bool = True
    """Whether the client may be a member of the consumer protocol: its request has room for an epoch."""
    transaction: Transactional | None = None
    """The offsets count once this transaction is committed."""

    @property
    def group(self) -> str:
        return self.request.group


@dataclass(frozen=True, slots=True)
class Report(Asks[None]):
    """Partitions that are `missing` are left out: the driver has found that they do not exist."""

    request: ReportOwnership
    missing: Collection[TopicPartition] = ()

    @property
    def group(self) -> str:
        return self.request.group


@dataclass(frozen=True, slots=True)
class UnknownTopics(Asks[frozenset[str] | None]):
    """The topics that the group's members ask for, and of which it does not know since when."""

    group: str


@dataclass(frozen=True, slots=True)
class NoteTopics(Asks[None]):
    """These topics as they are now: members have begun to ask for them."""

    group: str
    present: PresentTopics


@dataclass(frozen=True, slots=True)
class DescribeGroup(Asks[DescribedGroup]):
    group: str


@dataclass(frozen=True, slots=True)
class DescribeConsumers(Asks[DescribedConsumerGroup]):
    """A group of the consumer protocol."""

    group: str


@dataclass(frozen=True, slots=True)
class DeleteGroup(Asks[None]):
    group: str


@dataclass(frozen=True, slots=True)
class DeleteOffsets(Asks[OffsetResults]):
    """Partitions that are `missing` are refused if the group has no offset of them: the driver has found that
    they do not exist."""

    group: str
    partitions: Collection[TopicPartition]
    missing: Collection[TopicPartition] = ()


@dataclass(frozen=True, slots=True)
class ListGroups(Asks[tuple[ListedGroup, ...]]):
    group: ClassVar[str] = ""
    """Stands for all groups; no group has this name."""


Request = (
    Join
    | ConsumerBeats
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
    | DescribeConsumers
    | DeleteGroup
    | DeleteOffsets
    | ListGroups
)


def as_request(asked: Asks[Any]) -> Request:
    """The request as one of those that a coordinator handles."""
    assert isinstance(asked, Request), f"no coordinator handles {asked!r}"
    return asked
