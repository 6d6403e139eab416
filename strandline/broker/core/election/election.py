"""Decides who leads next: what one replica does about a partition, given what ZooKeeper holds.

The replicas themselves choose a leader. The compare-and-set on the `isr` znode makes any winner safe; the
ranks below only keep the replicas from trying all at once (no herd, Kafka's design V2 goal 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from strandline.broker.core.state_changes.events import resignation
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.vocabulary.log_statements import current_statements, longest, missing, silent_members
from strandline.vocabulary.metadata import IsrMember, LogCondition, LogStatement, PartitionState, Registration
from strandline.vocabulary.state_changes import AskedBy


@dataclass(frozen=True, slots=True)
class Ballot:
    """Everything that a replica knows when it decides.

    `lives` are the broker epochs under which this broker held this log without losing its tail
    (CORRECTNESS E2): its present life, earlier ones of this process, and, after a clean shutdown, a
    crash that the page cache survived, or if all of the log was synced, the ones before. `suspects` are
    lives whose connection was refused or reset while their registration still stands.
    """

    assigned: tuple[BrokerId, ...]
    state: PartitionState
    live: Mapping[BrokerId, Registration]
    suspects: Set[BrokerEpoch]
    me: BrokerId
    lives: Set[BrokerEpoch]
    log_whole: bool
    """False if this replica's log is corrupt or failed: it never leads (CORRECTNESS E15)."""
    unclean_allowed: bool
    leads_epoch: LeaderEpoch = NO_EPOCH
    """The epoch in which this broker itself leads the partition right now; NO_EPOCH if it does not."""
    handed_over: bool = False
    """The last leader named this replica its successor."""
    yielded: bool = False
    """This broker was the last leader, and gave the leadership to another one."""
    statement: LogStatement | None = None
    """What this replica has: it publishes this if it cannot lead without a loss."""
    permitted: bool = False
    """An operator asked for an unclean election after the epoch of record, and chose this replica."""
    min_insync: int = 1
    """With fewer members nothing would commit: a leader that is still registered is not deposed for that."""


RANK_WAIT_PER_VACANCY_S: Final = 0.001
"""With a thousand vacancies the first candidates take longer than with one, and each rank's wait allows for
that."""
RANK_WAIT_S_MAX: Final = 10.0
"""The longest wait of any rank: the one before it may be alive and unable to stand. Two that stand together
cost a refused write."""

FIRST_ELECTION_STEPS: Final = 20
"""The steps of a rank in the first election of a partition. A replica notices its vacancy once its own
start is done, and the first one may have thousands of others to start before. Nothing fails over meanwhile; a
replica of the next rank that stands takes what is not its own, or has its claim refused."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Try to become leader, `rank` election steps after the vacancy was noticed."""

    rank: int
    unclean: bool
    cause: str = field(default="", compare=False)
    """Why an unclean election is held; empty for a clean one."""


@dataclass(frozen=True, slots=True)
class PublishStatement:
    """Write what this replica has into `isr`, `rank` election steps after the vacancy was noticed: replicas
    that can lead without a loss try before that."""

    rank: int
    statements: tuple[LogStatement, ...]
    """This replica's statement, with those of others that still hold."""


@dataclass(frozen=True, slots=True)
class Follow:
    leader: BrokerId
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class KeepLeading:
    """This broker leads already, in the epoch of record: a late notice of a vacancy changes nothing."""


@dataclass(frozen=True, slots=True)
class Wait:
    """There is no leader and this replica may not lead, for this reason."""

    reason: str


Decision = Stand | PublishStatement | Follow | KeepLeading | Wait


def leader_stands(
    state: PartitionState, live: Mapping[BrokerId, Registration], suspects: Set[BrokerEpoch]
) -> bool:
    """True if the leader of record is alive in the life in which it was elected (CORRECTNESS E4)."""
    if state.leader == NO_BROKER:
        return False
    registration = live.get(state.leader)
    if registration is None or registration.epoch in suspects:
        return False
    return IsrMember(state.leader, registration.epoch) in state.isr


def wait_s(rank: int, step_s: float, vacancies: int) -> float:
    """Seconds from the notice of a vacancy until the turn of this rank, with this number of vacancies."""
    return min(rank * (step_s + RANK_WAIT_PER_VACANCY_S * vacancies), RANK_WAIT_S_MAX)


def decide(ballot: Ballot) -> Decision:
    """What this replica does now."""
    state = ballot.state
    # A leadership of record that this broker does not exercise (the reply to its claim was lost, or its
    # log failed) is a vacancy: it is taken up in a new epoch, never resumed.
    dormant = state.leader == ballot.me and ballot.leads_epoch != state.leader_epoch
    if leader_stands(state, ballot.live, ballot.suspects) and not dormant:
        return KeepLeading() if state.leader == ballot.me else Follow(state.leader, state.leader_epoch)
    if ballot.me not in ballot.assigned:
        return Wait("this broker is not among the assigned replicas")
    order = _succession(ballot)
    deposed = deposes(ballot)
    if ballot.log_whole:
        if state.leader_epoch == NO_EPOCH:  # never led: every replica is empty, any may begin
            return Stand(order.index(ballot.me) * FIRST_ELECTION_STEPS, unclean=False)
        if deposed and not is_backed(ballot, {registration.epoch for registration in ballot.live.values()}):
            return Wait(
                f"broker {state.leader} does not answer, and neither do others: fewer than "
                f"{ballot.min_insync} in sync are left, so its session decides"
            )
        if any(member.broker == ballot.me and member.broker_epoch in ballot.lives for member in state.isr):
            # A leader that resigned ranks last, or it would win before the broker that it handed over to.
            last = len(ballot.assigned)
            rank = 0 if ballot.handed_over else last if ballot.yielded else order.index(ballot.me)
            return Stand(rank, unclean=False)
        if ballot.unclean_allowed and not deposed:
            # After every replica that might lead without a loss.
            rank = len(ballot.assigned) + order.index(ballot.me)
            return Stand(rank, unclean=True, cause="no replica in sync is alive")
    return _without_a_sure_member(ballot, order)


def _without_a_sure_member(ballot: Ballot, order: list[BrokerId]) -> Decision:
    """This replica cannot lead without a loss: see `returning`."""
    state = ballot.state
    damaged = Wait("this replica's log is damaged")
    reason = f"only {sorted(state.isr_ids)} were in sync and unclean election is off"
    known = current_statements(state, ballot.live, ballot.suspects)
    if ballot.statement is None or _has_sure_member(ballot, known) or state.leader_epoch == NO_EPOCH:
        return Wait(reason + _own_loss(ballot)) if ballot.log_whole else damaged
    if ballot.statement not in known:
        others = tuple(each for each in known if each.broker != ballot.me)
        return PublishStatement(len(ballot.assigned) + order.index(ballot.me), (*others, ballot.statement))
    if not ballot.log_whole:
        return damaged
    silent = silent_members(state, ballot.live, known)
    if ballot.permitted and not silent:
        return Stand(0, unclean=True, cause="an operator asked for an unclean election")
    reasons = missing(state, ballot.live, known)
    best = longest(known, ballot.assigned)
    if reasons or best is None:
        return Wait(f"{reason}: {', '.join(reasons)}")
    if best.broker == ballot.me:
        cause = "all in-sync replicas are back, none is sure to have everything, and this log is the longest"
        return Stand(0, unclean=True, cause=cause)
    return Wait(f"the log of broker {best.broker} is longer")


def _own_loss(ballot: Ballot) -> str:
    """Why a member of the ISR may not stand; empty for a broker that is not a member."""
    if ballot.me not in ballot.state:
        return ""
    return (
        f"; this broker, {ballot.me}, is one of them, but has not the log that it had then: "
        "its disk is another one, or its machine lost power"
    )


def _has_sure_member(ballot: Ballot, known: Sequence[LogStatement]) -> bool:
    """True if another member is alive in the life in which it joined, and its log is not known to be
    damaged: it leads without a loss."""
    damaged = {each.broker for each in known if each.condition is LogCondition.DAMAGED} | {ballot.me}
    return any(
        member.broker not in damaged
        and (registration := ballot.live.get(member.broker)) is not None
        and registration.epoch == member.broker_epoch
        for member in ballot.state.isr
    )


def deposes(ballot: Ballot) -> bool:
    """True if the leader of record is registered in the life in which it was elected, and only suspected."""
    state = ballot.state
    return (
        state.leader != ballot.me
        and leader_stands(state, ballot.live, frozenset())
        and not leader_stands(state, ballot.live, ballot.suspects)
    )


def is_backed(ballot: Ballot, answering: Set[BrokerEpoch]) -> bool:
    """True if a suspected leader may be deposed: it is still suspected, and of the members that would
    remain, including this broker, at least min.insync.replicas answer.

    One copy may be enough for a topic whose bound is 1: the bound says so.
    """
    members = {ballot.live[broker].epoch for broker in others_after(ballot)}
    return deposes(ballot) and 1 + len(members & answering) >= ballot.min_insync


def others_after(ballot: Ballot) -> list[BrokerId]:
    """The members of the ISR besides this broker that would stay in it after a claim of this broker."""
    return [member.broker for member in _others(ballot)]


def vacancy_reason(ballot: Ballot, *, cause: str) -> str:
    """Why this partition needed a leader, in words, for the record of the election. `cause` is that of an
    unclean election, else empty."""
    reason = _why_vacant(ballot)
    return f"{reason}, and {cause}" if cause else reason


def handed_over_for(ballot: Ballot) -> AskedBy | None:
    """The caller that asked the leader before to hand over; None: no caller did."""
    if ballot.state.leader != NO_BROKER:
        return None
    resigned = resignation(ballot.state.trail, ballot.state.leader_epoch)
    return None if resigned is None else resigned.by


def _why_vacant(ballot: Ballot) -> str:
    state, leader = ballot.state, ballot.state.leader
    if state.leader_epoch == NO_EPOCH:
        return "first election"
    if leader == NO_BROKER:
        resigned = resignation(state.trail, state.leader_epoch)
        if resigned is None:
            return "no broker led"
        return f"handed over by broker {resigned.broker}: {resigned.reason}"
    registration = ballot.live.get(leader)
    if registration is None:
        return f"broker {leader} is gone"
    if IsrMember(leader, registration.epoch) not in state.isr:
        return f"broker {leader} came back in another life"
    if leader == ballot.me:
        return "its own claim was never exercised"
    return f"broker {leader} does not answer"


def _succession(ballot: Ballot) -> list[BrokerId]:
    """The live replicas: members of the ISR in the life that joined, members in another life (their logs
    may still be whole), then the rest; each in AR order."""

    def distance(broker: BrokerId) -> int:
        registration = ballot.live.get(broker)
        if registration is not None and IsrMember(broker, registration.epoch) in ballot.state.isr:
            return 0 if registration.epoch not in ballot.suspects else 1
        return 1 if broker in ballot.state else 2

    alive = [broker for broker in ballot.assigned if broker in ballot.live or broker == ballot.me]
    return sorted(alive, key=distance)


def claim(ballot: Ballot, epoch: LeaderEpoch, broker_epoch: BrokerEpoch, *, unclean: bool) -> PartitionState:
    """The state that the winner writes: itself as leader, and the members of the ISR that stay.

    A leader that is gone, or suspected, leaves the ISR here: after this compare-and-set it can neither
    shrink the ISR nor count on the new leader's fetches, so it can commit nothing. An unclean winner
    starts with itself alone: no other member may still count on records that the winner lacks.
    """
    mine = IsrMember(ballot.me, broker_epoch)
    if unclean:
        return PartitionState(ballot.me, epoch, (mine,), lossy_epoch=epoch)
    ranks = {broker: rank for rank, broker in enumerate(ballot.assigned)}
    members = tuple(sorted((mine, *_others(ballot)), key=lambda m: ranks.get(m.broker, len(ranks))))
    return PartitionState(ballot.me, epoch, members, lossy_epoch=ballot.state.lossy_epoch)


def _others(ballot: Ballot) -> tuple[IsrMember, ...]:
    return tuple(
        member
        for member in ballot.state.isr
        if member.broker != ballot.me
        and member.broker in ballot.assigned
        and member.broker in ballot.live
        and ballot.live[member.broker].epoch == member.broker_epoch
        and member.broker_epoch not in ballot.suspects
    )


def successor(
    state: PartitionState,
    assigned: tuple[BrokerId, ...],
    live: Mapping[BrokerId, Registration],
    avoided: Set[BrokerId] = frozenset(),
) -> BrokerId | None:
    """The successor that a leader names when it resigns: the first other live member in AR order.

    A broker of `avoided` (drained, or suspected) is named only if there is no other.
    """
    able = [
        broker
        for broker in assigned
        if broker != state.leader
        and (registration := live.get(broker)) is not None
        and not registration.shutting_down
        and IsrMember(broker, registration.epoch) in state.isr
    ]
    return next((broker for broker in able if broker not in avoided), next(iter(able), None))
