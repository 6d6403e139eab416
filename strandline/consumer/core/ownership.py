"""The partitions that a member owns, and since which generation (KIP-429)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from strandline.errors import InconsistentGroupProtocol
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import NO_GENERATION
from strandline.vocabulary.parsing.consumer_protocol import COOPERATIVE_STICKY, DRAFT_VERSION, Assignment

_HINT: Final = (
    f"its leader takes all members for eager ones: under other assignors than {COOPERATIVE_STICKY!r}, a"
    ' Kafka client and a member with rebalance_protocol="cooperative" cannot share a group'
)

Partitions = tuple[TopicPartition, ...]
"""Sorted, without duplicates."""


@dataclass(frozen=True, slots=True)
class Received:
    """The changes of an assignment. `removed` is still owned, until it has been released."""

    added: Partitions
    removed: Partitions
    kept: int
    first: bool
    """True for the first assignment since the member joined."""


class Ownership:
    """The owned partitions: from their assignment until their release has ended, or until they are lost."""

    def __init__(self) -> None:
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.generation = NO_GENERATION
        """The last generation that assigned `partitions`; it ranks the claim (CORRECTNESS G2)."""

    @property
    def fresh(self) -> bool:
        """True until the first assignment since the member joined."""
        return self.generation == NO_GENERATION

    @property
    def all(self) -> Partitions:
        return tuple(sorted(self.partitions))

    def receive(self, assignment: Assignment, generation: int) -> Received:
        """Own what is added. Raises InconsistentGroupProtocol, and changes nothing, if owned
        partitions are neither assigned nor revoked: others may already own those."""
        assigned, revoked = frozenset(assignment.assigned), frozenset(assignment.revoked)
        missing = self.partitions - revoked - assigned
        if missing:
            hint = "" if assignment.version == DRAFT_VERSION else f"; {_HINT}"
            raise InconsistentGroupProtocol(
                f"the assignment of generation {generation} lacks {_named(missing)}: owned"
                f" {_named(self.partitions)}, revoked {_named(revoked)}, assigned {_named(assigned)}{hint}"
            )
        added = assigned - self.partitions - revoked
        removed = self.partitions & revoked
        received = Received(
            tuple(sorted(added)),
            tuple(sorted(removed)),
            len(self.partitions) - len(removed),
            self.fresh,
        )
        self.partitions |= added
        self.generation = generation
        return received

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """These have been drained and committed: other members may own them now."""
        self.partitions = self.partitions.difference(partitions)

    def lose(self) -> Partitions:
        """Own nothing from now on; returns what was owned."""
        lost = self.all
        self.partitions = frozenset()
        return lost

    def forget(self) -> None:
        """The next assignment counts as the first again."""
        assert not self.partitions, f"still owned: {_named(self.partitions)}"
        self.generation = NO_GENERATION


def _named(partitions: Iterable[TopicPartition]) -> str:
    return "[" + ", ".join(map(str, sorted(partitions))) + "]"
