"""Computes, as the leader of a group, an assignment for each member from the members' subscriptions
(KIP-429).

An assignor computes the final owner of each partition. The leader splits that, so that no partition
has two owners at any instant:
* owned and known: the partition stays, or its owner is asked to revoke it; then no member gets it
  in this
generation, and all join again at once;
* unowned: it is assigned at once;
* claimed but unknown (the topic was deleted, or is not known to the leader yet): its claimant keeps
  it.

This holds for a group in which every member is cooperative. Eager members have revoked all
partitions before they joined, so a group with only those uses the assignor's answer directly. In a
mixed group no owned partition moves: the cooperative members keep what they own, and free
partitions go to members of both kinds.

Under `cooperative-sticky`, KIP-429 as released, no group is mixed: a member that claims nothing is
like one that is new. Its members find by themselves what they have to revoke, and join again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heapreplace

from strandline.consumer.core.assignors.assignor import (
    Assignor,
    AssignorFailed,
    MemberSubscription,
    call_assign,
)
from strandline.consumer.core.claims import Claims, settle
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import NO_GENERATION
from strandline.vocabulary.parsing.consumer_protocol import (
    COOPERATIVE_STICKY,
    DRAFT_VERSION,
    EAGER_VERSION,
    Assignment,
    AssignmentError,
    Subscription,
)


class Consensus(Enum):
    """The rebalance protocol that the members of a group use."""

    COOPERATIVE = "all members are cooperative"
    EAGER = "all members are eager"
    MIXED = "the members do not agree on a protocol"


@dataclass(frozen=True, slots=True)
class ParsedMember:
    """A member as the leader sees it."""

    subscription: Subscription
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class PlanReport:
    """How the plan was made. The names are member ids, sorted."""

    consensus: Consensus
    eager: tuple[str, ...]
    cooperative: tuple[str, ...]
    revoked: Mapping[str, tuple[TopicPartition, ...]]
    """The partitions that are revoked, by member."""
    rejoin: bool
    """True if another generation must follow at once."""

    def __str__(self) -> str:
        text = self.consensus.value
        if self.consensus is Consensus.MIXED:
            text += f": eager {', '.join(self.eager)}; cooperative {', '.join(self.cooperative)}"
        taken = [f"{len(partitions)} of {member}" for member, partitions in self.revoked.items()]
        return text + (f"; revoked: {', '.join(taken)}" if taken else "")


@dataclass(frozen=True, slots=True)
class Plan:
    """An assignment for every member, in the form that it reads."""

    assignments: Mapping[str, Assignment]
    report: PlanReport


@dataclass(slots=True)
class _Share:
    """One member's part of the plan."""

    assigned: set[TopicPartition] = field(default_factory=set)
    revoked: set[TopicPartition] = field(default_factory=set)
    user_data: bytes = b""
    """From the assignor."""


def plan(members: Mapping[str, ParsedMember], partitions: Mapping[str, int], assignor: Assignor) -> Plan:
    """Assign the partitions of all existing topics (`partitions`: the count of each).

    Raises AssignorFailed.
    """
    cooperative = {n: m for n, m in members.items() if m.subscription.cooperative(assignor.name)}
    eager = {name: member for name, member in members.items() if name not in cooperative}
    claims = settle({name: member.subscription for name, member in cooperative.items()})
    shares = {name: _Share() for name in members}
    if not eager:
        consensus = Consensus.COOPERATIVE
        rejoin = _incremental(shares, cooperative, claims, partitions, assignor)
    elif not cooperative:
        consensus = Consensus.EAGER
        rejoin = False
        wanted, user_data = _wanted(eager, partitions, assignor, Claims({}, {}))
        for partition, member in wanted.items():
            shares[member].assigned.add(partition)
        _add_user_data(shares, user_data)
    else:
        consensus = Consensus.MIXED
        rejoin = _mixed(shares, members, eager, claims, partitions, assignor)
    draft = assignor.name != COOPERATIVE_STICKY
    return Plan(
        {
            name: _assignment(share, draft=draft and name in cooperative, rejoin=rejoin)
            for name, share in shares.items()
        },
        PlanReport(
            consensus,
            tuple(sorted(eager)),
            tuple(sorted(cooperative)),
            {name: tuple(sorted(share.revoked)) for name, share in sorted(shares.items()) if share.revoked},
            rejoin,
        ),
    )


def _assignment(share: _Share, *, draft: bool, rejoin: bool) -> Assignment:
    if not draft:
        return Assignment(EAGER_VERSION, tuple(sorted(share.assigned)), user_data=share.user_data)
    return Assignment(
        DRAFT_VERSION,
        tuple(sorted(share.assigned)),
        tuple(sorted(share.revoked)),
        AssignmentError.NEEDS_REJOIN if rejoin else AssignmentError.NONE,
        share.user_data,
    )


def _add_user_data(shares: Mapping[str, _Share], user_data: Mapping[str, bytes]) -> None:
    for member, data in user_data.items():
        shares[member].user_data = data


def _incremental(
    shares: Mapping[str, _Share],
    members: Mapping[str, ParsedMember],
    claims: Claims,
    partitions: Mapping[str, int],
    assignor: Assignor,
) -> bool:
    """The three-way split; True if a partition was revoked that another member is to get."""
    wanted, user_data = _wanted(members, partitions, assignor, claims)
    _add_user_data(shares, user_data)
    waiting = False
    for partition, member in wanted.items():
        if claims.unclaimed(partition) or claims.owners.get(partition) == member:
            shares[member].assigned.add(partition)
        else:
            waiting = True
    for partition, owner in claims.owners.items():
        if not _known(partition, partitions):
            shares[owner].assigned.add(partition)
        elif wanted.get(partition) != owner:
            shares[owner].revoked.add(partition)
    _revoke_void(shares, claims)
    return waiting


def _mixed(
    shares: Mapping[str, _Share],
    members: Mapping[str, ParsedMember],
    eager: Collection[str],
    claims: Claims,
    partitions: Mapping[str, int],
    assignor: Assignor,
) -> bool:
    """No consensus: no owned partition moves, and all members share the free ones.

    A partition is free if no member claims it: new partitions, and those that eager members revoked
    before they joined. A free partition goes where the assignor says, unless that member already
    has as many partitions as the assignor gives it in total. This happens if a cooperative member
    kept other partitions than the assignor gives it: nothing can be revoked before the group
    agrees, so it would collect more in each generation.
    """
    wanted, _ = _wanted(members, partitions, assignor, claims, send_user_data=False)
    for partition, owner in claims.owners.items():
        shares[owner].assigned.add(partition)
    _revoke_void(shares, claims)
    room = Counter(wanted.values())
    room.subtract(owner for partition, owner in claims.owners.items() if _known(partition, partitions))
    left: dict[str, list[TopicPartition]] = {}
    given: dict[TopicPartition, str] = {}
    for partition, member in sorted(wanted.items()):
        if not claims.unclaimed(partition):
            continue
        if room[member] > 0:
            room[member] -= 1
            given[partition] = member
        else:
            left.setdefault(partition.topic, []).append(partition)
    for topic, those in left.items():
        subscribers = [name for name, member in members.items() if topic in member.subscription.topics]
        given |= _deal(those, subscribers, eager, room)
    _move_surplus(given, members, eager, room)
    for partition, member in given.items():
        shares[member].assigned.add(partition)
    return any(partition in wanted and partition not in claims.owners for partition in claims.void)


def _deal(
    partitions: Iterable[TopicPartition],
    subscribers: Iterable[str],
    eager: Collection[str],
    room: Counter[str],
) -> dict[TopicPartition, str]:
    """Give each partition to the subscriber with the most room; among equals to an eager one, whose share is
    free again in the next generation."""
    dealt: dict[TopicPartition, str] = {}
    heap = [(-room[name], name not in eager, name) for name in subscribers]
    heapify(heap)
    for partition in partitions:
        full, cooperative, name = heap[0]
        dealt[partition] = name
        room[name] -= 1
        heapreplace(heap, (full + 1, cooperative, name))
    return dealt


def _move_surplus(
    given: dict[TopicPartition, str],
    members: Mapping[str, ParsedMember],
    eager: Collection[str],
    room: Counter[str],
) -> None:
    """Move partitions from members with more than their share to subscribers with room.

    A topic with a single subscriber can fill that member after it was given partitions that others could
    have. One pass is enough: a move never gives room to a member that had none.
    """
    for partition, name in sorted(given.items()):
        if room[name] >= 0:
            continue
        others = [n for n, m in members.items() if room[n] > 0 and partition.topic in m.subscription.topics]
        if others:
            taker = min(others, key=lambda n: (-room[n], n not in eager, n))
            given[partition] = taker
            room[name] += 1
            room[taker] -= 1


def _revoke_void(shares: Mapping[str, _Share], claims: Claims) -> None:
    """Revoke invalid claims: their members may be reading partitions that others own."""
    for partition, losers in claims.void.items():
        for loser in losers:
            shares[loser].revoked.add(partition)


def _known(partition: TopicPartition, partitions: Mapping[str, int]) -> bool:
    return partition.partition < partitions.get(partition.topic, 0)


def _wanted(
    members: Mapping[str, ParsedMember],
    partitions: Mapping[str, int],
    assignor: Assignor,
    claims: Claims,
    *,
    send_user_data: bool = True,
) -> tuple[dict[TopicPartition, str], Mapping[str, bytes]]:
    """The assignor's final owner of each partition, and its user data for the members. It sees only
    valid claims."""
    owned: dict[str, list[TopicPartition]] = {name: [] for name in members}
    for partition, owner in claims.owners.items():
        if _known(partition, partitions):
            owned[owner].append(partition)
    seen = {
        name: MemberSubscription(
            member.subscription.topics,
            tuple(sorted(owned[name])),
            member.subscription.owned_generation if owned[name] else NO_GENERATION,
            member.instance,
            member.subscription.user_data,
        )
        for name, member in members.items()
    }
    answer, user_data = call_assign(assignor, seen, partitions, send_user_data=send_user_data)
    wanted: dict[TopicPartition, str] = {}
    for name, given in answer.items():
        topics = frozenset(members[name].subscription.topics) if name in members else frozenset()
        for partition in given:
            if partition.topic not in topics or not _known(partition, partitions) or partition in wanted:
                raise AssignorFailed(
                    f"assignor {assignor.name!r} gave {partition} to {name}: not subscribed to, not there,"
                    " or given twice"
                )
            wanted[partition] = name
    return wanted, user_data
