"""Computes the trail of past events that the next write of an `isr` znode carries.

An event is written by the same write that makes it happen, and stays in the znode until its record is
known to be in `__state_changes`: if a writer dies in between, the next writer records the event.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from strandline.vocabulary.state_changes import StateChangeEvent

Trail = tuple[StateChangeEvent, ...]
Identity = tuple[str, str]


def extend(
    trail: Sequence[StateChangeEvent],
    events: Sequence[StateChangeEvent],
    recorded: Set[Identity],
    events_max: int,
) -> tuple[Trail, Trail]:
    """Returns (the trail to write, the events for which there is no room). The trail is the old one without
    recorded events, then the new events, each once. If it is too long the oldest are dropped."""
    kept: dict[Identity, StateChangeEvent] = {}
    for event in (*trail, *events):
        if event.identity not in recorded:
            kept.setdefault(event.identity, event)
    whole = tuple(kept.values())
    excess = max(0, len(whole) - events_max)
    return whole[excess:], whole[:excess]
