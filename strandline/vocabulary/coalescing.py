"""Finds the requests in a broker's queue that later requests make unnecessary (CORRECTNESS Q4, Q6).

The broker applies this to the requests that it has read, and the controller to the queue of a
broker that has been dead for long. Both must decide alike, so they share this module. The remaining
requests, executed in order, leave every replica in the same state as all requests would.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from strandline.ids import NO_BROKER, PartitionKey
from strandline.vocabulary.state_changes import Command, StateChange


def superseded(changes: Sequence[StateChange]) -> dict[str, str]:
    """The ids of the requests that later ones in this queue supersede, each with the reason.

    `changes` are in the queue's order. A request that has ended neither supersedes nor is
    superseded. The others are compared within one partition of one incarnation of a topic:
    * a delete-replica supersedes everything before it, and is superseded only by another
      delete-replica;
    * a leader's start-replica or close-replica supersedes those of its own and of older epochs: the
      last request
    of the highest epoch decides the state of a replica;
    * the controller's requests only say "read again", which every later reading does. They
      supersede no leader's.
    """
    queues: defaultdict[PartitionKey, list[StateChange]] = defaultdict(list)
    for change in changes:
        if change.end is None:
            queues[change.key].append(change)
    found: dict[str, str] = {}
    for queue in queues.values():
        if len(queue) > 1:
            _search(queue, found)
    return found


def _search(queue: Sequence[StateChange], found: dict[str, str]) -> None:
    """Searches backwards: a request is compared with the later requests that remain."""
    deletion = False
    read_again = False
    highest: StateChange | None = None
    for change in reversed(queue):
        if deletion:
            found[change.request_id] = "a later request deletes the replica"
        elif change.command is Command.DELETE_REPLICA:
            deletion = True
        elif highest is not None and highest.leader_epoch >= change.leader_epoch:
            found[change.request_id] = f"a later {highest.command.value} of epoch {highest.leader_epoch}"
        elif change.requester != NO_BROKER:
            highest = change
        elif read_again:
            found[change.request_id] = "a later request to read again"
        else:
            read_again = True
