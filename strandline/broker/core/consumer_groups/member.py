"""One member of a group whose coordinator assigns, as a value: a change makes another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from strandline.ids import PartitionKey
from strandline.vocabulary.groups import LEAVES_FOR_A_WHILE, GroupProtocol

MEMBER_BYTES: Final = 1_536
PARTITION_BYTES: Final = 256
"""Estimates for CPython of a member without its texts, and of one of its partitions in all maps."""


class MemberState(Enum):
    """How far a member is on its way to its target. The numbers are those of Kafka's records."""

    STABLE = 0
    """It has its target; or it has yet to learn of a newer one."""
    UNREVOKED_PARTITIONS = 1
    """It has to give up partitions first, and keeps its epoch until it says that it did."""
    UNRELEASED_PARTITIONS = 2
    """It has the epoch of its target, and waits for partitions that others have to give up."""


@dataclass(frozen=True, slots=True)
class ClassicWords:
    """What a member of the classic protocol says besides."""

    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    """Never empty; the first is the one that it goes by."""

    @property
    def size(self) -> int:
        """The bytes of its metadata."""
        return sum(len(each.name) + len(each.metadata) for each in self.protocols)


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """`assigned` and `revoking`: the epoch in which each partition was assigned. A partition is in one of
    them, of one member (`ConsumerGroup.owner`)."""

    member: str
    instance: str | None = None
    rack: str | None = None
    client_id: str = ""
    host: str = ""
    topics: tuple[str, ...] = ()
    """Names, sorted, each once."""
    pattern: str = ""
    """A regular expression that chooses topics besides; empty: none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Mapping[PartitionKey, int] = field(default_factory=dict)
    revoking: Mapping[PartitionKey, int] = field(default_factory=dict)
    classic: ClassicWords | None = None
    """Of a member of the classic protocol, which is served by translation (`classic`); None for others."""

    @property
    def away(self) -> bool:
        """True for a static member that left for a while."""
        return self.epoch == LEAVES_FOR_A_WHILE

    @property
    def state_bytes(self) -> int:
        """The bytes of memory that this member takes."""
        texts = (self.member, self.instance or "", self.client_id, self.host, self.pattern, *self.topics)
        partitions = len(self.assigned) + len(self.revoking)
        words = 0 if self.classic is None else self.classic.size
        return MEMBER_BYTES + words + sum(map(len, texts)) + PARTITION_BYTES * partitions
