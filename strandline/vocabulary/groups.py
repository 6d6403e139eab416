"""Values that members, administrators and coordinators of groups exchange.

The coordinator passes on `metadata` and `assignment`: the members understand them
(`strandline.vocabulary.parsing.consumer_protocol` for consumers). Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from strandline.errors import StrandlineError
from strandline.ids import NO_TOPIC_ID, PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.asks import Asks
from strandline.vocabulary.log_position import LogPosition, same_topic

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""Types of groups, by the protocol of their members."""

# --- membership ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupProtocol:
    """An assignment protocol that a member supports, with the metadata that it sends the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """`member` is empty for a new member; `protocols` are in order of preference."""

    group: str
    member: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    instance: str | None = None
    client_id: str = ""
    reason: str = ""
    pattern: str = ""
    """Names the pattern that chose the member's topics; empty if they were named."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member as the leader sees it."""

    member: str
    metadata: bytes
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """A new generation. `members` is set only for the leader.

    `skip_assignment`: the leader rejoined within a generation, whose assignment stays in force
    (KIP-814).
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


JoinAnswer = Joined | MemberIdGiven


@dataclass(frozen=True, slots=True)
class SyncGroup(Asks[bytes]):
    """`assignments` by member; only the leader sends them."""

    group: str
    member: str
    generation: int
    protocol_type: str
    protocol: str
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat(Asks[None]):
    """The answer is held until a rebalance begins, at most `max_wait_ms`."""

    group: str
    member: str
    generation: int
    instance: str | None = None
    max_wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member that leaves, named by its member id or by its instance."""

    member: str
    instance: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaveGroup(Asks["tuple[LeftMember, ...]"]):
    group: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeftMember:
    member: str
    error: StrandlineError | None = None


# --- members whose coordinator assigns (KIP-848) -------------------------------------------------

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""Epochs that say what a member does. A static member that is away for a while keeps its place."""
AS_BEFORE: Final = -1
"""In place of a rebalance timeout: it is as in the heartbeat before."""


@dataclass(frozen=True, slots=True)
class ConsumerBeat:
    """`assignment`: the partitions that the member may use from now on, and no others; None: as before."""

    member: str
    epoch: int
    interval_ms: int = 0
    """When the next heartbeat is due; 0: at once, since there is news for the member."""
    assignment: tuple[PartitionKey, ...] | None = None
    names: Mapping[TopicId, str] = field(default_factory=dict)
    """Of the topics in the assignment, at least."""


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat(Asks[ConsumerBeat]):
    """What is None, or AS_BEFORE for the timeout, is as in the heartbeat before.

    `epoch`: that of the last answer, or JOINS, LEAVES or LEAVES_FOR_A_WHILE.
    `owned`: the partitions that the member has; `pattern`: a regular expression that chooses topics.
    """

    group: str
    member: str
    epoch: int
    instance: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = AS_BEFORE
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: tuple[PartitionKey, ...] | None = None
    client_id: str = ""
    max_wait_ms: int = 0
    """The answer is held for this long at most while it would say nothing new."""

    @property
    def full(self) -> bool:
        """True if it says all that a member can say: then the answer does too."""
        subscribes = self.topics is not None or self.pattern is not None
        return self.rebalance_timeout_ms != AS_BEFORE and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True)
class DescribedConsumer:
    """`assigned`: what the member may read; `revoking`: what it has yet to give up. Partitions of topics
    that are gone are left out."""

    member: str
    epoch: int
    state: str
    client_id: str
    host: str
    topics: tuple[str, ...]
    assigned: tuple[PartitionKey, ...]
    target: tuple[PartitionKey, ...]
    revoking: tuple[PartitionKey, ...] = ()
    instance: str | None = None
    rack: str | None = None
    pattern: str = ""
    classic: bool = False
    """True for a member of the classic protocol."""


@dataclass(frozen=True, slots=True)
class DescribedConsumerGroup:
    """`reason` and `caused_by`: why the group's epoch began. `names`: of the topics, by their ids."""

    group: str
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]
    names: Mapping[TopicId, str]
    reason: str = ""
    caused_by: str = ""


# --- offsets ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """`offset` is that of the next record to be read; `leader_epoch` that of the last record read, or -1."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = -1
    topic_id: TopicId = NO_TOPIC_ID
    """The incarnation of the topic in which the offset was read. A commit of another one counts as absent."""

    @classmethod
    def of(cls, at: LogPosition) -> CommittedOffset:
        """A commit of this position, without metadata."""
        return cls(at.offset, at.leader_epoch, topic_id=at.topic_id)

    @property
    def position(self) -> LogPosition:
        return LogPosition(self.offset, self.topic_id, self.leader_epoch)


OffsetLike = int | tuple[int, str] | CommittedOffset | LogPosition
"""An offset as users pass it, with or without metadata, or with its log."""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer's membership in its group. `generation` is -1 while it is in none."""

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None
    rebalance_protocol: str
    assignor: str


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A commit by a member; with NO_MEMBER and NO_GENERATION by another client, allowed only while
    the group is empty."""

    group: str
    member: str
    generation: int
    offsets: Mapping[TopicPartition, CommittedOffset]
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetFetch(Asks["FetchedOffsets"]):
    """`partitions`: None for every partition with an offset. `require_stable`: no offset that an open
    transaction may replace (KIP-447)."""

    group: str
    partitions: tuple[TopicPartition, ...] | None = None
    require_stable: bool = False
    member: str | None = None
    epoch: int = -1
    """Of a member of the consumer protocol; None and -1 for a client outside the group."""


class ReadSince(NamedTuple):
    """A topic as it was when a group began to read it."""

    topic_id: TopicId = NO_TOPIC_ID
    partitions: int = 0
    """0: there was no such topic."""

    def precedes(self, partition: int, topic_id: TopicId) -> bool:
        """True for a partition that has appeared since, in the topic with this id."""
        return partition >= self.partitions or not same_topic(self.topic_id, topic_id)


OffsetResults = Mapping[TopicPartition, StrandlineError | None]


class FetchedOffsets(dict[TopicPartition, CommittedOffset | None]):
    """A group's offsets; None where none was committed."""

    def __init__(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | None] | None = None,
        read_since: Mapping[str, ReadSince] | None = None,
        unstable: Set[TopicPartition] = frozenset(),
    ) -> None:
        """`read_since`: of the topics asked for by name, as far as it is known. `unstable`: partitions that
        are left out, because the request is for stable offsets: ask again soon."""
        super().__init__(offsets or {})
        self.read_since = read_since or {}
        self.unstable = unstable


# --- ownership ----------------------------------------------------------------------------------


class OwnershipKind(Enum):
    """How a member's ownership of partitions changed."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class OwnershipChange:
    """`at_ms` is the member's wall clock; `generation` is the one in which the change happened."""

    kind: OwnershipKind
    partitions: tuple[TopicPartition, ...]
    at_ms: int
    generation: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReportOwnership:
    """A member's ownership changes, in order."""

    group: str
    member: str
    generation: int
    changes: tuple[OwnershipChange, ...]


# --- tasks --------------------------------------------------------------------------------------


class TaskChangeKind(Enum):
    """How a member's role in a task changed."""

    LEARNING = "learning"
    """The member began to restore the state of a task that another member runs."""
    PROGRESS = "progress"
    """The member restored more of the state."""
    READY = "ready"
    """The member's copy is close enough to the end to take the task over."""
    RUNNING = "running"
    """The member processes the task's records."""
    RESTORING = "restoring"
    """The member owns the task, but waits for its state."""
    SUSPENDED = "suspended"
    """The member stopped processing, and keeps the state."""
    CLOSED = "closed"
    """The member has no role in the task any longer."""
    STANDBY = "standby"
    """The member began to keep a copy of the state of a task that another member runs."""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """`at_ms` is the member's wall clock. Negative values mean unknown.

    `lag` counts the records of the changelog that are not yet applied; `remaining_ms` is how long
    applying them takes at `records_per_s`.
    """

    kind: TaskChangeKind
    task: str
    at_ms: int
    reason: str = ""
    lag: int = -1
    records_per_s: float = -1
    remaining_ms: int = -1


@dataclass(frozen=True, slots=True)
class ReportTasks(Asks[None]):
    """A member's task changes, in order; `generation` is the one in which they happened."""

    group: str
    member: str
    generation: int
    changes: tuple[TaskChange, ...]


# --- administration of groups -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """`type`: of the group's protocol, `classic` or `consumer` (KIP-848)."""

    group: str
    protocol_type: str
    state: str
    type: str = CLASSIC


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """`owned` is the ownership that the member reported; its assignment may already be newer."""

    member: str
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes
    instance: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    epoch: int = 0
    """Of a member whose coordinator assigns, as all that follows; 0 for others."""
    topics: tuple[str, ...] = ()
    target: tuple[TopicPartition, ...] = ()
    """What the member is to have."""
    revoking: tuple[TopicPartition, ...] = ()
    """What it has yet to give up, and so keeps from others."""
    classic: bool = False
    """True for a member of the classic protocol in a group whose coordinator assigns."""


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """`reason` and `caused_by` describe the last rebalance. `generation` is the group's epoch if its
    coordinator assigns."""

    group: str
    state: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[DescribedMember, ...]
    reason: str = ""
    caused_by: str = ""
    type: str = CLASSIC
    target_epoch: int = 0
    """The epoch for which the coordinator last computed a target; 0 in a group with a leader."""
