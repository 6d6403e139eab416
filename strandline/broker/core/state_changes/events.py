"""Builds the events of `__state_changes`. Ids derive from facts, so an event built twice has the same id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionKey
from strandline.vocabulary.log_statements import Loss
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.state_changes import AskedBy, ChangeKind, RequestState, StateChangeEvent


def elected(
    topic: str,
    key: PartitionKey,
    state: PartitionState,
    *,
    at_ms: int,
    reason: str,
    lost: Loss | None = None,
    by: AskedBy | None = None,
) -> StateChangeEvent:
    """The leader of `state` won; `reason` says why there was a vacancy. `lost`: the known loss of records
    that an unclean winner lacks. `by`: the caller that asked for the election."""
    id_ = f"elect-{_name(key)}-{state.leader_epoch}"
    event = _event(ChangeKind.ELECT_LEADER, id_, topic, key, state.leader, state.leader_epoch, at_ms, reason)
    if lost is not None:
        event = replace(event, unclean=True, first=lost.first, end=lost.end, lost=lost.certain)
    return replace(event, isr=state.isr_ids, by=by)


def resigned(
    topic: str,
    key: PartitionKey,
    broker: BrokerId,
    state: PartitionState,
    *,
    at_ms: int,
    reason: str,
    left: tuple[BrokerId, ...] = (),
    by: AskedBy | None = None,
) -> StateChangeEvent:
    """`broker` gave up the leadership of the epoch of `state`, and the `isr` znode has no leader. `by`: the
    caller that asked for it."""
    id_ = f"resign-{_name(key)}-{state.leader_epoch}"
    event = _event(ChangeKind.RESIGN_LEADER, id_, topic, key, broker, state.leader_epoch, at_ms, reason)
    return replace(event, isr=state.isr_ids, left=left, by=by)


def isr_changed(
    topic: str,
    key: PartitionKey,
    state: PartitionState,
    version: int,
    *,
    at_ms: int,
    reason: str,
    left: tuple[BrokerId, ...] = (),
    joined: tuple[BrokerId, ...] = (),
) -> StateChangeEvent:
    """The leader of `state` wrote this ISR; `version` is the version of the `isr` znode after the write."""
    id_ = f"isr-{_name(key)}-{state.leader_epoch}-{version}"
    event = _event(ChangeKind.CHANGE_ISR, id_, topic, key, state.leader, state.leader_epoch, at_ms, reason)
    return replace(event, isr=state.isr_ids, left=left, joined=joined)


def truncated(
    topic: str,
    key: PartitionKey,
    broker: BrokerId,
    epoch: LeaderEpoch,
    *,
    first: int,
    end: int,
    lost: int,
    at_ms: int,
    reason: str,
    refused: bool = False,
) -> StateChangeEvent:
    """The replica on `broker` cuts `first`..`end`; `refused`: it should, and does not (CORRECTNESS T11)."""
    id_ = f"truncate-{_name(key)}-{broker}-{epoch}-{first}-{end}"
    event = _event(ChangeKind.TRUNCATE, id_, topic, key, broker, epoch, at_ms, reason)
    state = RequestState.FAILED if refused else RequestState.COMPLETED
    return replace(event, state=state, first=first, end=end, lost=lost)


def stray_removed(
    topic: str,
    key: PartitionKey,
    broker: BrokerId,
    epoch: LeaderEpoch,
    life: BrokerEpoch,
    *,
    at_ms: int,
    reason: str,
) -> StateChangeEvent:
    """`broker` found in this life a replica that is not assigned to it."""
    id_ = f"stray-{_name(key)}-{broker}-{life}"
    return _event(ChangeKind.DELETE_STRAY, id_, topic, key, broker, epoch, at_ms, reason)


def _name(key: PartitionKey) -> str:
    return f"{key.topic_id}-{key.partition}"


def _event(
    command: ChangeKind,
    id_: str,
    topic: str,
    key: PartitionKey,
    broker: BrokerId,
    epoch: LeaderEpoch,
    at_ms: int,
    reason: str,
) -> StateChangeEvent:
    return StateChangeEvent(
        id_, command, RequestState.COMPLETED, topic, key, broker, epoch, at_ms, reason=reason
    )


def resignation(trail: Sequence[StateChangeEvent], epoch: LeaderEpoch) -> StateChangeEvent | None:
    """The resignation of the leader of this epoch, if the trail holds it. It does while the record has no
    leader, because no broker has written the record since."""
    for event in reversed(trail):
        if event.command is ChangeKind.RESIGN_LEADER and event.epoch == epoch:
            return event
    return None
