"""Whether a partition's preferred leader, the first of AR, is to lead and does not."""

from __future__ import annotations

from collections.abc import Set

from controller.core.reassignment import Placed
from controller.core.topics import Brokers
from strandline.errors import ElectionNotNeeded, PreferredLeaderNotAvailable
from strandline.ids import NO_BROKER, BrokerId, TopicPartition


def check_preferred(name: TopicPartition, now: Placed, brokers: Brokers, drained: Set[BrokerId]) -> BrokerId:
    """The preferred leader, who is to be asked to lead.

    Raises ElectionNotNeeded if it does already, PreferredLeaderNotAvailable if it cannot now.
    """
    preferred = now.assigned[0]
    if now.state.leader == preferred:
        raise ElectionNotNeeded(f"{name}: broker {preferred}, the preferred leader, leads already")
    registration = brokers.live.get(preferred)
    if registration is None:
        raise PreferredLeaderNotAvailable(f"{name}: broker {preferred}, the preferred leader, is not alive")
    if registration.shutting_down:
        raise PreferredLeaderNotAvailable(f"{name}: broker {preferred}, the preferred leader, shuts down")
    if preferred in drained:
        raise PreferredLeaderNotAvailable(
            f"{name}: broker {preferred}, the preferred leader, is drained: take the drain back first"
        )
    if all((m.broker, m.broker_epoch) != (preferred, registration.epoch) for m in now.state.isr):
        raise PreferredLeaderNotAvailable(
            f"{name}: broker {preferred}, the preferred leader, is not in sync; "
            f"in sync are {', '.join(map(str, now.state.isr_ids)) or 'none'}"
        )
    return preferred


def is_led(now: Placed, brokers: Brokers) -> bool:
    """By somebody who can be asked to hand over; else those in sync elect their first one by themselves."""
    return now.state.leader != NO_BROKER and now.state.leader in brokers.live
