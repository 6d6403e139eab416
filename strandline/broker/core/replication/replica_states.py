"""The states of a replica on its broker, and every legal transition (Kafka's design V2 goal 2).

    state     what it means                                        may become
    absent    nothing on disk, or not known here                   starting
    starting  its log is being opened or created                   follower, closing
    follower  fetches, or waits until it knows its leader          follower, leader, closing
    leader    leads in one epoch                                   leader, follower
    closing   stops: no fetching, no leading, requests refused     closed
    closed    its log is on disk, nothing uses it                  starting, deleted
    deleted   its log is gone; the end of this incarnation         (none)

A start-replica starts an absent replica, and a closed one again. Close-replica and delete-replica pass
through closing, so a leader has to step down first.

An illegal transition is a defect of the caller and fails fast with the values.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from strandline import states


class ReplicaState(Enum):
    ABSENT = "absent"
    STARTING = "starting"
    FOLLOWER = "follower"
    LEADER = "leader"
    CLOSING = "closing"
    CLOSED = "closed"
    DELETED = "deleted"


_S = ReplicaState

LEGAL: Final[dict[ReplicaState, frozenset[ReplicaState]]] = {
    _S.ABSENT: frozenset({_S.STARTING}),
    _S.STARTING: frozenset({_S.FOLLOWER, _S.CLOSING}),
    # A leader that is elected again continues in a new epoch; a follower may change its leader.
    _S.FOLLOWER: frozenset({_S.FOLLOWER, _S.LEADER, _S.CLOSING}),
    _S.LEADER: frozenset({_S.LEADER, _S.FOLLOWER}),
    _S.CLOSING: frozenset({_S.CLOSED}),
    _S.CLOSED: frozenset({_S.STARTING, _S.DELETED}),
    _S.DELETED: frozenset(),
}


def transition(who: object, current: ReplicaState, wanted: ReplicaState) -> ReplicaState:
    """`wanted`, if that may follow `current`. Raises IllegalTransition with the values."""
    return states.transition(f"replica {who}", current, wanted, LEGAL)
