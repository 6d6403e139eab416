"""Decides whether a partition's preferred leader, the first of AR, should lead and does not."""

from __future__ import annotations

from collections.abc import Set

from strandline.controller.core.reassignment import Placed
from strandline.controller.core.topics import Brokers
from strandline.errors import ElectionNotNeeded, PreferredLeaderNotAvailable
from strandline.ids import BrokerId, TopicPartition
from strandline.vocabulary.metadata import IsrMember


def check_preferred(name: TopicPartition, now: Placed, brokers: Brokers, drained: Set[BrokerId]) -> BrokerId:
    """The preferred leader, which is to be asked to lead.

    Raises ElectionNotNeeded if it does already, PreferredLeaderNotAvailable if it cannot now.
    """
    preferred = now.assigned[0]
    led = is_led(now, brokers)
    if led and now.state.leader == preferred:
        raise ElectionNotNeeded(f"{name}: broker {preferred}, the preferred leader, leads already")
    obstacle = _obstacle(preferred, now, brokers, drained)
    if obstacle is not None:
        nobody = "" if led else "; nobody leads this partition now"
        raise PreferredLeaderNotAvailable(
            f"{name}: broker {preferred}, the preferred leader, {obstacle}{nobody}"
        )
    return preferred


def is_led(now: Placed, brokers: Brokers) -> bool:
    """True if the leader of record is registered in the life in which it was elected (CORRECTNESS E4).

    Only such a leader can hand over. Without one, the replicas in sync elect the first of them by themselves.
    """
    registration = brokers.live.get(now.state.leader)
    return registration is not None and IsrMember(registration.id, registration.epoch) in now.state.isr


def _obstacle(preferred: BrokerId, now: Placed, brokers: Brokers, drained: Set[BrokerId]) -> str | None:
    """Why the preferred leader cannot lead now; None if it can."""
    registration = brokers.live.get(preferred)
    if registration is None:
        return "is not alive"
    if registration.shutting_down:
        return "shuts down"
    if preferred in drained:
        return "is drained: take the drain back first"
    if IsrMember(preferred, registration.epoch) not in now.state.isr:
        return f"is not in sync; in sync are {', '.join(map(str, now.state.isr_ids)) or 'none'}"
    return None
