"""Decides which replica may lead a partition with a loss, on an operator's request, and computes the loss."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.controller.core.reassignment import Placed
from strandline.controller.core.topics import Brokers
from strandline.errors import ElectionNotNeeded, EligibleLeadersNotAvailable
from strandline.ids import NO_EPOCH, TopicPartition
from strandline.vocabulary.log_statements import (
    Loss,
    current_statements,
    longest,
    loss,
    missing,
    silent_members,
)
from strandline.vocabulary.metadata import IsrMember, LogStatement


@dataclass(frozen=True, slots=True)
class UncleanPlan:
    """`chosen` is the replica to lead."""

    chosen: LogStatement
    loss: Loss
    missing: tuple[str, ...]
    """Why it may not be the longest log: what became of members of the ISR."""


def plan_unclean(name: TopicPartition, now: Placed, brokers: Brokers) -> UncleanPlan:
    """Chooses the longest log among the assigned replicas that are back.

    Raises ElectionNotNeeded if the partition is led, or would be without a loss; EligibleLeadersNotAvailable
    if no replica is back that could lead.
    """
    state, live = now.state, brokers.live
    leader = live.get(state.leader)
    if leader is not None and IsrMember(state.leader, leader.epoch) in state.isr:
        raise ElectionNotNeeded(f"{name}: broker {state.leader} leads")
    if state.leader_epoch == NO_EPOCH:
        raise ElectionNotNeeded(f"{name} was never led: any replica that is alive begins, without a loss")
    statements = current_statements(state, live)
    if silent := silent_members(state, live, statements):
        which = ", ".join(map(str, silent))
        raise EligibleLeadersNotAvailable(
            f"{name}: broker {which} was in sync, is alive, and has not said that it lacks anything: it may "
            "lead without a loss; ask again in a few seconds, or stop it"
        )
    chosen = longest(statements, now.assigned, absent=True)
    if chosen is None:
        which = ", ".join(map(str, now.assigned))
        raise EligibleLeadersNotAvailable(
            f"{name}: none of its replicas (brokers {which}) is alive with a log that can lead: start one of "
            "them, or ask again in a few seconds"
        )
    lost = loss(chosen.log_end, statements)
    return UncleanPlan(chosen, lost, tuple(missing(state, live, statements)))
