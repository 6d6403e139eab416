"""What a member of a group wants its driver to do, in the order in which it stands.

A number names one request, pause or release. Its answer is given back with it, and counts for nothing
once the member has moved on (CORRECTNESS G4). The three that call the listener (`Assign`, `Revoke`,
`Lose`) are carried out one after the other, each before the effects that follow it; only the end of a
`Revoke` is told to the member, by `released`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from strandline.consumer.core.ownership import Partitions
from strandline.errors import StrandlineError
from strandline.vocabulary.groups import JoinGroup, LeaveGroup, ReportOwnership, SyncGroup


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look for the group's coordinator until it is found (call `coordinator_found`), or the member ends.

    The driver tries again by itself, with growing pauses; `reason` says why, once.
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

    From now on `metadata_changed` is wanted for them (`Membership.watched`).
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
    """Tell the coordinator, at best once; nobody waits for the answer."""

    request: LeaveGroup


@dataclass(frozen=True, slots=True)
class StartHeartbeat:
    """Heartbeat as this member in this generation, and in no earlier one."""

    member: str
    generation: int


@dataclass(frozen=True, slots=True)
class StopHeartbeat:
    pass


@dataclass(frozen=True, slots=True)
class BackOff:
    """Call `backed_off` after a pause that grows with `attempt` (from 1)."""

    number: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Assign:
    """`added` are this member's from now on: on_assigned(added), then fetch them.

    `owned` is everything it has now, those included. `added` may be empty: the first assignment after
    joining is always told.
    """

    added: Partitions
    owned: Partitions
    generation: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """Stop handing out and fetching, drain, commit, on_revoked; then call `released`.

    The member and the generation to commit with are those that the membership has now (CORRECTNESS
    G11). If `Lose` comes meanwhile, the rest of this is dropped: no commit, and on_lost instead of an
    on_revoked that has not begun.
    """

    number: int
    partitions: Partitions
    reason: str


@dataclass(frozen=True, slots=True)
class Lose:
    """Others may have them already: stop at once, commit nothing, on_lost."""

    partitions: Partitions
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the coordinator what became of partitions, in this order; nobody waits for the answer."""

    request: ReportOwnership


class Level(Enum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Tell:
    """A line for the log."""

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
    | StartHeartbeat
    | StopHeartbeat
    | BackOff
    | Assign
    | Revoke
    | Lose
    | Report
    | Tell
    | Fatal
)
