"""Which requests in a broker's queue later ones make needless (CORRECTNESS Q4, Q6).

The broker asks this of what it has read, and the controller of the queue of a broker that is gone for long:
both have to say the same, so it is said here. What is left, executed in order, leaves every replica in the
state in which all of them would have left it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from strandline.ids import NO_BROKER, PartitionKey
from strandline.vocabulary.state_changes import Command, StateChange


def superseded(changes: Sequence[StateChange]) -> dict[str, str]:
    """The ids of the requests that later ones in this queue supersede, each with the reason.

    `changes` are in the queue's order. One that has ended neither supersedes nor is superseded. All others of
    one partition of one incarnation of a topic:

    * a delete-replica supersedes everything before it, and is superseded by another delete-replica only;
    * a leader's start-replica or close-replica supersedes those of its own and of older epochs: how a replica
      is to be is said by the last word of the highest epoch;
    * the controller's only say "read again", which every later reading does. They supersede no leader's.
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
    """Backwards: what counts of each request is what is behind it and stays."""
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
