"""What the timers of a coordinator of groups are for."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class TimerKind(Enum):
    SESSION = "a member was silent for its session timeout"
    PENDING = "no client joined with a member id that was given"
    HEARTBEAT = "a held heartbeat is to be answered"
    BARRIER = "members that did not join by now are removed"
    SYNC = "members that did not sync by now are removed"
    CONSUMER_HEARTBEAT = "a held heartbeat of the consumer protocol is to be answered"
    CONSUMER_SESSION = "a member of the consumer protocol was silent for its session timeout"
    REVOCATION = "a member has to have given its partitions up"
    CLASSIC_JOIN = "a member of the classic protocol is to join again, in a group whose coordinator assigns"
    CLASSIC_SYNC = "such a member is to ask for its assignment"
    EXPIRY = "expired offsets and groups are to be removed"


class Timer(NamedTuple):
    """Identifies a timer. There is at most one of each."""

    kind: TimerKind
    group: str = ""
    member: str = ""
