"""The effects that a group member asks its driver to carry out, in order.

A number identifies one request, pause or release. Its answer is given back with the number, and is
ignored once the member has moved on (CORRECTNESS G4). The three effects that call the listener
(`Assign`, `Revoke`, `Lose`) are carried out one after the other, each before the effects that
follow it. Only the end of a `Revoke` is reported to the member, by `released`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from strandline.consumer.core.ownership import Partitions
from strandline.errors import StrandlineError
from strandline.vocabulary.groups import ConsumerHeartbeat, JoinGroup, LeaveGroup, ReportOwnership, SyncGroup


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look for the group's coordinator until it is found (call `coordinator_found`), or the member
    ends.

    The driver retries by itself, with growing pauses; `reason` says why, once.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class SendJoin:
    """Call `joined` or `join_failed`. The answer is held until the other members have joined."""

    number: int
    request: JoinGroup


@dataclass(frozen=True, slots=True)
class NeedMetadata:
    """The leader assigns partitions of these topics: call `metadata` with their partition counts.

    From now on it also needs `metadata_changed` for them (`Membership.watched`).
    """

    number: int
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SendSync:
    """Call `synced` or `sync_failed`."""

    number: int
    request: SyncGroup


@dataclass(frozen=True, slots=True)
class SendLeave:
    """Send it to the coordinator, at most once; the answer is not needed."""

    request: LeaveGroup


@dataclass(frozen=True, slots=True)
class SendFarewell:
    """As `SendLeave`, if the coordinator assigns."""

    request: ConsumerHeartbeat


@dataclass(frozen=True, slots=True)
class Say:
    """Send this in a heartbeat at once, and heartbeats from now on. Call `answered` for what the coordinator
    answers that is new. `heard`: how many of these answers what it says follows from."""

    request: ConsumerHeartbeat
    heard: int = 0


@dataclass(frozen=True, slots=True)
class StartHeartbeat:
    """Send heartbeats for this member in this generation, and for no earlier one."""

    member: str
    generation: int


@dataclass(frozen=True, slots=True)
class StopHeartbeat:
    pass


@dataclass(frozen=True, slots=True)
class DelayJoin:
    """Call `backed_off` after a pause that grows with `attempt` (from 1)."""

    number: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Assign:
    """`added` now belong to this member: on_assigned(added), then fetch them.

    `owned` is everything it has now, including `added`. `added` may be empty: the first assignment
    after joining is always reported.
    """

    added: Partitions
    owned: Partitions
    generation: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """Stop handing out and fetching, drain, commit, on_revoked; then call `released`.

    Commit with the member id and generation that the membership has at that time (CORRECTNESS G11).
    If `Lose` comes meanwhile, drop the rest: no commit, and on_lost instead of an on_revoked that
    has not begun.
    """

    number: int
    partitions: Partitions
    reason: str


@dataclass(frozen=True, slots=True)
class Lose:
    """Other members may already have these partitions: stop at once, commit nothing, on_lost."""

    partitions: Partitions
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """Send ownership changes to the coordinator, in this order; the answer is not needed."""

    request: ReportOwnership


class Level(Enum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogLine:
    """Log a line."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Fatal:
    """The member has ended: every get call raises this."""

    error: StrandlineError


Effect = (
    FindCoordinator
    | SendJoin
    | NeedMetadata
    | SendSync
    | SendLeave
    | SendFarewell
    | Say
    | StartHeartbeat
    | StopHeartbeat
    | DelayJoin
    | Assign
    | Revoke
    | Lose
    | Report
    | LogLine
    | Fatal
)
