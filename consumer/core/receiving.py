"""What a member takes from the answer to its sync: what is its own now, and what came along with that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from strandline.consumer.core.assignors.assignor import Assignor, AssignorFailed, tell_assignment
from strandline.consumer.core.notes import apart, other_topics
from strandline.consumer.core.ownership import Ownership, Received
from strandline.consumer.core.protocol import EAGER_VERSION, Assignment, AssignmentError


@dataclass(frozen=True, slots=True)
class Taken:
    """What the assignment changes, and what has to follow."""

    received: Received
    rejoin: bool
    """True if the leader wants all to join again."""
    stale: bool
    """True if it was made for a process that wanted something else. What is not wanted was not taken."""
    note: bytes
    """The leader's, for a static member."""


def take(
    data: bytes,
    owned: Ownership,
    assignor: Assignor | None,
    *,
    generation: int,
    topics: Collection[str],
    static: bool,
) -> Taken:
    """Own what is added, and have the assignor hear of it before any listener does.

    No bytes are an empty assignment. Raises InconsistentGroupProtocol and AssignorFailed; then what is
    owned is what it was.
    """
    assignment = Assignment.decode(data) if data else Assignment(EAGER_VERSION, ())
    note, told = apart(assignment.user_data) if static else (b"", assignment.user_data)
    stale = owned.fresh and other_topics(note, topics)
    if stale:
        assignment = assignment.only(topics)
    received = owned.receive(assignment, generation)
    if assignor is not None:
        try:
            tell_assignment(assignor, told, owned.partitions.difference(received.removed), generation)
        except AssignorFailed:
            owned.release(received.added)  # nobody was told of them
            raise
    return Taken(received, assignment.error is AssignmentError.NEEDS_REJOIN, stale, note)
