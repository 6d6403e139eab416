"""What the next write of an `isr` znode says of the past.

An event is written by the very write that makes it happen, and stays in the znode until its record is
known to be in `__state_changes`: a writer that dies in between leaves it to the next one.
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
    """(what the znode gets, what there is no room for): the trail without what is recorded, then the new
    events, each once. If that is too much the oldest go."""
    kept: dict[Identity, StateChangeEvent] = {}
    for event in (*trail, *events):
        if event.identity not in recorded:
            kept.setdefault(event.identity, event)
    whole = tuple(kept.values())
    excess = max(0, len(whole) - events_max)
    return whole[excess:], whole[:excess]
