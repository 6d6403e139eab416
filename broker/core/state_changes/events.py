"""Builds the events of `__state_changes`. Ids derive from facts, so an event built twice has the same id."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionKey
from strandline.vocabulary.log_statements import Loss
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.state_changes import Happening, RequestState, StateChangeEvent


def elected(
    topic: str, key: PartitionKey, state: PartitionState, *, at_ms: int, reason: str, lost: Loss | None = None
) -> StateChangeEvent:
    """The leader of `state` won; `reason` says why there was a vacancy. `lost`: the known loss of records
    that an unclean winner lacks."""
    return StateChangeEvent(
        id=f"elect-{key.topic_id}-{key.partition}-{state.leader_epoch}",
        command=Happening.ELECT_LEADER,
        state=RequestState.COMPLETED,
        topic=topic,
        key=key,
        broker=state.leader,
        epoch=state.leader_epoch,
        at_ms=at_ms,
        reason=reason,
        isr=state.isr_ids,
        unclean=lost is not None,
        first=None if lost is None else lost.first,
        end=None if lost is None else lost.end,
        lost=None if lost is None else lost.certain,
    )


def resigned(
    topic: str,
    key: PartitionKey,
    broker: BrokerId,
    state: PartitionState,
    *,
    at_ms: int,
    reason: str,
    left: tuple[BrokerId, ...] = (),
) -> StateChangeEvent:
    """`broker` gave up the leadership of the epoch of `state`, and the `isr` znode has no leader."""
    return StateChangeEvent(
        id=f"resign-{key.topic_id}-{key.partition}-{state.leader_epoch}",
        command=Happening.RESIGN_LEADER,
        state=RequestState.COMPLETED,
        topic=topic,
        key=key,
        broker=broker,
        epoch=state.leader_epoch,
        at_ms=at_ms,
        reason=reason,
        isr=state.isr_ids,
        left=left,
    )


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
    return StateChangeEvent(
        id=f"isr-{key.topic_id}-{key.partition}-{state.leader_epoch}-{version}",
        command=Happening.CHANGE_ISR,
        state=RequestState.COMPLETED,
        topic=topic,
        key=key,
        broker=state.leader,
        epoch=state.leader_epoch,
        at_ms=at_ms,
        reason=reason,
        isr=state.isr_ids,
        left=left,
        joined=joined,
    )


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
    return StateChangeEvent(
        id=f"truncate-{key.topic_id}-{key.partition}-{broker}-{epoch}-{first}-{end}",
        command=Happening.TRUNCATE,
        state=RequestState.FAILED if refused else RequestState.COMPLETED,
        topic=topic,
        key=key,
        broker=broker,
        epoch=epoch,
        at_ms=at_ms,
        reason=reason,
        first=first,
        end=end,
        lost=lost,
    )


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
    return StateChangeEvent(
        id=f"stray-{key.topic_id}-{key.partition}-{broker}-{life}",
        command=Happening.DELETE_STRAY,
        state=RequestState.COMPLETED,
        topic=topic,
        key=key,
        broker=broker,
        epoch=epoch,
        at_ms=at_ms,
        reason=reason,
    )


def resignation(trail: Sequence[StateChangeEvent], epoch: LeaderEpoch) -> StateChangeEvent | None:
    """The resignation of the leader of this epoch, if the trail holds it. It does while the record has no
    leader, because no broker has written the record since."""
    for event in reversed(trail):
        if event.command is Happening.RESIGN_LEADER and event.epoch == epoch:
            return event
    return None
