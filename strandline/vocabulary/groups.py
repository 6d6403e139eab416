"""What members, administrators and coordinators of groups say to each other, as values.

The coordinator never looks inside `metadata` and `assignment`: those are the members' own
(`strandline.consumer.core.protocol` for consumers). Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from strandline.errors import StrandlineError
from strandline.ids import TopicPartition

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""


# --- membership ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupProtocol:
    """One way of assigning that a member supports, with what it tells the leader under it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """`member` is empty for a new one; `protocols` has the most wanted first."""

    group: str
    member: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    instance: str | None = None
    client_id: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member as the leader sees it."""

    member: str
    metadata: bytes
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """A new generation. `members` is filled for the leader only.

    `skip_assignment`: the leader returned within a generation, whose assignment stands (KIP-814).
    """

    member: str
    generation: int
    protocol: str
    leader: str
    members: tuple[GroupMember, ...] = ()
    skip_assignment: bool = False
    reason: str = ""
    caused_by: str = ""


@dataclass(frozen=True, slots=True)
class MemberIdGiven:
    """Not joined yet: join again with this id (MEMBER_ID_REQUIRED, KIP-394)."""

    member: str


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """`assignments` by member, from the leader only."""

    group: str
    member: str
    generation: int
    protocol_type: str
    protocol: str
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The answer is held until a rebalance begins, at most `max_wait_ms`."""

    group: str
    member: str
    generation: int
    instance: str | None = None
    max_wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """By its member id, or by its instance."""

    member: str
    instance: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    group: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeftMember:
    member: str
    error: StrandlineError | None = None


# --- offsets ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """`offset` is that of the record to be read next; `leader_epoch` that of the last one read, or -1."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = -1


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """From a member, or with NO_MEMBER and NO_GENERATION from outside, while the group is empty."""

    group: str
    member: str
    generation: int
    offsets: Mapping[TopicPartition, CommittedOffset]
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    """`partitions` is None for every partition with an offset."""

    group: str
    partitions: tuple[TopicPartition, ...] | None = None


OffsetResults = Mapping[TopicPartition, StrandlineError | None]
FetchedOffsets = Mapping[TopicPartition, CommittedOffset | None]
"""None where nothing was committed."""


# --- ownership ----------------------------------------------------------------------------------


class OwnershipKind(Enum):
    """What a member did with partitions."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class OwnershipChange:
    """`at_ms` is the member's wall clock; `generation` the one in which it happened."""

    kind: OwnershipKind
    partitions: tuple[TopicPartition, ...]
    at_ms: int
    generation: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReportOwnership:
    """What a member did, in its order."""

    group: str
    member: str
    generation: int
    changes: tuple[OwnershipChange, ...]


# --- tasks --------------------------------------------------------------------------------------


class TaskChangeKind(Enum):
    """What a member did with a task."""

    LEARNING = "learning"
    """It began to restore the state of a task that another member runs."""
    PROGRESS = "progress"
    """It restored some more of it."""
    READY = "ready"
    """It is near enough to the end to take the task over."""
    RUNNING = "running"
    """It processes the task's records."""
    RESTORING = "restoring"
    """The task is its own, but waits for its state."""
    SUSPENDED = "suspended"
    """It stopped processing, and keeps the state."""
    CLOSED = "closed"
    """It has nothing to do with the task any more."""
    STANDBY = "standby"
    """It began to keep a copy of the state of a task that another member runs."""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """`at_ms` is the member's wall clock. What is negative is not known.

    `lag` counts the records of the changelog that are not applied yet; `remaining_ms` is how long that
    takes at `records_per_s`.
    """

    kind: TaskChangeKind
    task: str
    at_ms: int
    reason: str = ""
    lag: int = -1
    records_per_s: float = -1
    remaining_ms: int = -1


@dataclass(frozen=True, slots=True)
class ReportTasks:
    """What a member did with its tasks, in its order; `generation` is the one in which it happened."""

    group: str
    member: str
    generation: int
    changes: tuple[TaskChange, ...]


# --- looking after groups -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """`owned` is what the member reported, which its assignment may be ahead of."""

    member: str
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes
    instance: str | None = None
    owned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """`reason` and `caused_by` are those of the last rebalance."""

    group: str
    state: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[DescribedMember, ...]
    reason: str = ""
    caused_by: str = ""
