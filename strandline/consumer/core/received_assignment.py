"""Processes the answer to a member's sync: its assignment, the assignor's user data, and the
leader's note."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from strandline.consumer.core.assignors.assignor import Assignor, AssignorFailed, notify_assignor
from strandline.consumer.core.leader_note import other_topics, split_marked, split_user_data
from strandline.consumer.core.ownership import Ownership, Received
from strandline.vocabulary.parsing.consumer_protocol import (
    COOPERATIVE_STICKY,
    EAGER_VERSION,
    Assignment,
    AssignmentError,
)


@dataclass(frozen=True, slots=True)
class Taken:
    """The changes of an assignment, and what must follow."""

    received: Received
    rejoin: bool
    """True if this member has to join again, after it has released what is revoked."""
    stale: bool
    """True if it was made for another subscription, or waits for a revocation of the process before this
    one. Partitions of unwanted topics were not taken."""
    note: bytes
    """The leader's note, for a static member."""


def take(
    data: bytes,
    owned: Ownership,
    protocol: str,
    assignor: Assignor | None,
    *,
    generation: int,
    topics: Collection[str],
    static: bool,
) -> Taken:
    """Own what is added, and notify the assignor before any listener. `protocol` is the assignor's name.

    Empty data is an empty assignment. Raises InconsistentGroupProtocol and AssignorFailed; then
    ownership is unchanged.
    """
    assignment = Assignment.decode(data) if data else Assignment(EAGER_VERSION, ())
    note, user_data = b"", assignment.user_data
    if static:
        split = split_marked if protocol == COOPERATIVE_STICKY else split_user_data
        note, user_data = split(user_data)
    stale = owned.fresh and other_topics(note, topics)
    if stale:
        assignment = assignment.only(topics)
    if protocol == COOPERATIVE_STICKY:
        assignment = assignment.to_owner_of(owned.partitions)
    received = owned.receive(assignment, generation)
    if assignor is not None:
        try:
            notify_assignor(assignor, user_data, owned.partitions.difference(received.removed), generation)
        except AssignorFailed:
            owned.release(received.added)  # not yet announced to any listener
            raise
    return Taken(received, assignment.error is AssignmentError.NEEDS_REJOIN, stale, note)
