"""Builds the events of a reassignment: the controller records its request, the completing leader
the complete history."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from strandline.ids import NO_BROKER, NO_EPOCH, BrokerId, LeaderEpoch, PartitionKey
from strandline.vocabulary.metadata import PartitionState, Reassignment
from strandline.vocabulary.state_changes import AskedBy, ChangeKind, RequestState, StateChangeEvent

CANCELLED: Final = "cancelled"


def is_cancelled(event: StateChangeEvent) -> bool:
    """Whether it is the end of a reassignment that was taken back, and not replaced by another."""
    ended = event.command is ChangeKind.REASSIGN and event.state is RequestState.SUPERSEDED
    return ended and event.reason.partition(", ")[0] == CANCELLED


def reassignment_asked(
    topic: str, key: PartitionKey, wanted: Reassignment, leader: BrokerId, epoch: LeaderEpoch
) -> list[StateChangeEvent]:
    """The events of the replaced targets from begin to end, and the request of this one with its cause."""

    def asked(
        request_id: str, replicas: tuple[BrokerId, ...], at_ms: int, by: AskedBy | None
    ) -> StateChangeEvent:
        return StateChangeEvent(
            id=request_id or f"reassign-{key.topic_id}-{key.partition}-{at_ms}",
            command=ChangeKind.REASSIGN,
            state=RequestState.REQUESTED,
            topic=topic,
            key=key,
            broker=leader,
            epoch=epoch,
            at_ms=at_ms,
            requester=NO_BROKER,
            replicas=replicas,
            by=by,
        )

    targets = [*(each.replicas for each in wanted.replaced), wanted.replicas]
    events: list[StateChangeEvent] = []
    for earlier, instead in zip(wanted.replaced, targets[1:], strict=True):
        event = asked(earlier.request_id, earlier.replicas, earlier.at_ms, earlier.by)
        reason = f"replaced: to {','.join(map(str, instead))}"
        events += [
            event,
            replace(event, state=RequestState.SUPERSEDED, at_ms=earlier.until_ms, reason=reason),
        ]
    last = asked(wanted.request_id, wanted.replicas, wanted.at_ms, wanted.by)
    return [*events, replace(last, reason=wanted.cause)]


def reassignment_forgotten(
    topic: str,
    key: PartitionKey,
    standing: Reassignment,
    count: int,
    leader: BrokerId,
    epoch: LeaderEpoch,
) -> list[StateChangeEvent]:
    """The complete history of the first `count` replaced targets: nothing else will remember them."""
    return reassignment_asked(topic, key, standing, leader, epoch)[: 2 * count]


def reassignment_ended(
    topic: str,
    key: PartitionKey,
    wanted: Reassignment,
    state: PartitionState,
    leader: BrokerId,
    *,
    at_ms: int,
    reason: str = "",
) -> list[StateChangeEvent]:
    """The complete history, recorded by the leader that ends the reassignment. AR is now the
    requested one, or the original one if it was cancelled. `reason`: what did not go as planned."""
    *before, asked = reassignment_asked(topic, key, wanted, leader, state.leader_epoch)
    ended = replace(
        asked,
        state=RequestState.SUPERSEDED if wanted.reverting else RequestState.COMPLETED,
        at_ms=at_ms,
        reason=", ".join([CANCELLED] * wanted.reverting + [reason] * bool(reason)),
        isr=state.isr_ids,
        replicas=wanted.target,
    )
    return [*before, asked, ended]


def reassignment_overdue(
    topic: str, key: PartitionKey, wanted: Reassignment, state: PartitionState, *, at_ms: int, reason: str
) -> StateChangeEvent:
    """Recorded by the controller when the deadline has passed. Each deadline has an id of its own, since the
    reassignment goes on."""
    assert wanted.deadline is not None, wanted
    *_, asked = reassignment_asked(topic, key, wanted, state.leader, state.leader_epoch)
    return replace(
        asked,
        id=f"{asked.id}-overdue-{wanted.deadline.at_ms}",
        command=ChangeKind.OVERDUE,
        state=RequestState.FAILED,
        at_ms=at_ms,
        reason=reason,
    )


def reassignment_dropped(
    topic: str, key: PartitionKey, wanted: Reassignment, *, at_ms: int, reason: str
) -> list[StateChangeEvent]:
    """The complete history, recorded by the controller that deletes the partition while its replicas move."""
    *before, asked = reassignment_asked(topic, key, wanted, NO_BROKER, NO_EPOCH)
    ended = replace(asked, state=RequestState.SUPERSEDED, at_ms=at_ms, reason=reason)
    return [*before, asked, ended]
