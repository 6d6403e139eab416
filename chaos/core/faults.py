"""What can be done to a cluster, and to whom. Plain values: a plan can be written down and repeated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a member of a cluster is."""

    BROKER = "broker"
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"
    CLIENT = "client"
    """Not of the cluster, but of a group that reads. Its number counts through the members of all groups."""


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """One process or container of a round: `broker 2`."""

    role: Role
    number: int

    def __str__(self) -> str:
        return f"{self.role} {self.number}"


class FaultKind(StrEnum):
    """What is done. All but the last two are undone when the fault ends."""

    KILL = "kill"
    """SIGKILL; started again at the end."""
    TERMINATE = "terminate"
    """SIGTERM, which hands leaderships over; started again at the end."""
    PAUSE = "pause"
    """It hangs with its connections open (SIGSTOP); goes on at the end."""
    DISCONNECT = "disconnect"
    """It has no network; its connections stay open until they time out."""
    ONE_WAY = "one-way"
    """What it sends to one other member is dropped; what that one sends arrives."""
    UNREACHABLE = "unreachable"
    """A broker and all others are cut off from each other, and the network says so: host unreachable. It
    reaches ZooKeeper and clients, as they reach it."""
    REFUSED = "refused"
    """As UNREACHABLE, with the answer of a closed port: a reset."""
    DISK_FULL = "disk-full"
    """Nothing can be appended where it keeps its log; there is room again at the end."""
    CHASE = "chase"
    """Whoever leads a partition is killed; when there is another leader, that one, while the fault lasts.
    All of them are started again at the end."""
    REASSIGN = "reassign"
    """A partition gets other replicas."""
    ADD_PARTITIONS = "add-partitions"
    """A topic gets one partition more."""


class Cut(StrEnum):
    """What becomes of what one member sends to another."""

    DROPPED = "dropped"
    """Nothing: it is gone."""
    UNREACHABLE = "unreachable"
    """It is answered with "host unreachable", as by a router without a way there."""
    REFUSED = "refused"
    """It is answered with a reset, as by a closed port."""


class Target(StrEnum):
    """Whom a fault is meant for, where that is not known before it is done."""

    ANY = "any"
    """The member of its number."""
    LEADER = "leader"
    """Who then leads the partition of its number."""
    FOLLOWER = "follower"
    """Who then follows in the partition of its number, first of its ISR."""
    COORDINATOR = "coordinator"
    """Who then coordinates the group of its number."""
    ACTIVE = "active"
    """The controller that then is the active one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a plan. Times are seconds since the round began.

    `number` is a member, a partition or a group, as `target` says. `other` is the second broker of a
    ONE_WAY; -1 elsewhere.
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
