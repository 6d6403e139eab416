"""The assignors that a consumer's settings can name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.consumer.core.assignors.assignor import Assignor
from strandline.consumer.core.assignors.range import RangeAssignor
from strandline.consumer.core.assignors.round_robin import RoundRobinAssignor
from strandline.consumer.core.assignors.sticky import StickyAssignor
from strandline.errors import SettingsError
from strandline.vocabulary.parsing.consumer_protocol import COOPERATIVE_STICKY

BUILT_IN: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        StickyAssignor(COOPERATIVE_STICKY),
    )
}

DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "eager": ("sticky", "range", "roundrobin", COOPERATIVE_STICKY),
    "cooperative": ("sticky", COOPERATIVE_STICKY),
}
"""The assignors of a member by its rebalance protocol, the preferred one first. The first is what
strandline's members use among themselves; the others are for groups with Kafka clients. A
cooperative member leaves `range` and `roundrobin` out, since a Kafka client that leads by those
takes all members for eager ones."""


def named(wanted: str | Assignor) -> Assignor:
    """The assignor of this name; a user's own object is returned as it is. Raises SettingsError."""
    if not isinstance(wanted, str):
        return wanted
    if wanted not in BUILT_IN:
        known = ", ".join(BUILT_IN)
        raise SettingsError(f"there is no assignor {wanted!r}; there are {known}, and objects of your own")
    return BUILT_IN[wanted]
