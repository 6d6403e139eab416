"""The faults, and the members they apply to. Plain values, so a plan can be saved and repeated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """The service that a member runs."""

    BROKER = "broker"
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"
    CLIENT = "client"
    """A member of a consumer group, not of the cluster. Its number counts through the members of all
    groups."""


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """One process or container of a round: `broker 2`."""

    role: Role
    number: int

    def __str__(self) -> str:
        return f"{self.role} {self.number}"


class FaultKind(StrEnum):
    """The kinds of faults. All but the last four are undone when the fault ends."""

    KILL = "kill"
    """SIGKILL. The member is restarted when the fault ends."""
    TERMINATE = "terminate"
    """SIGTERM, on which a broker hands its leaderships over. The member is restarted when the fault ends."""
    PAUSE = "pause"
    """The process stops with its connections open (SIGSTOP), and resumes when the fault ends."""
    DISCONNECT = "disconnect"
    """It has no network; its connections stay open until they time out."""
    ONE_WAY = "one-way"
    """Messages from this member to one other member are dropped; messages back arrive."""
    UNREACHABLE = "unreachable"
    """A broker and all other brokers cannot reach each other; the network answers "host unreachable".
    ZooKeeper and clients still reach the broker, and it reaches them."""
    REFUSED = "refused"
    """As UNREACHABLE, but the network answers with a reset, as for a closed port."""
    DISK_FULL = "disk-full"
    """The broker can append nothing to its log; it has room again when the fault ends."""
    CHASE = "chase"
    """The leader of a partition is killed, then the next leader, and so on while the fault lasts. All of them
    are restarted when the fault ends."""
    REASSIGN = "reassign"
    """A partition gets other replicas."""
    ADD_PARTITIONS = "add-partitions"
    """A topic gets one partition more."""
    BALANCE = "balance"
    """A broker is added, and the brokers are balanced."""
    LOSE_DISK = "lose-disk"
    """A broker is killed, and restarted with an empty data folder once no ISR names it; with its old one if
    one still does when the fault ends."""


OPERATED: Final = frozenset({FaultKind.BALANCE, FaultKind.LOSE_DISK})
"""What an operator does, once in a round."""


class Cut(StrEnum):
    """The fate of messages from one member to another."""

    DROPPED = "dropped"
    """They are lost."""
    UNREACHABLE = "unreachable"
    """They are answered with "host unreachable", as by a router without a route."""
    REFUSED = "refused"
    """They are answered with a reset, as by a closed port."""


class Target(StrEnum):
    """How the member of a fault is found if it is not known in advance."""

    ANY = "any"
    """The member with the fault's number."""
    LEADER = "leader"
    """The leader, at that time, of the partition with the fault's number."""
    FOLLOWER = "follower"
    """The first follower in the ISR, at that time, of the partition with the fault's number."""
    COORDINATOR = "coordinator"
    """The coordinator, at that time, of the group with the fault's number."""
    ACTIVE = "active"
    """The controller that is active at that time."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a plan. Times are seconds since the round began.

    `number` is that of a member, a partition or a group; `target` says which. `other` is the second broker of
    a ONE_WAY, and -1 elsewhere.
    """

    kind: FaultKind
    role: Role
    target: Target
    number: int
    begins_s: float
    lasts_s: float
    other: int = -1

    @property
    def ends_s(self) -> float:
        return self.begins_s + self.lasts_s
