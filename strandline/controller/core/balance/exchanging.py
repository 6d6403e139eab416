"""Evens out the bytes of brokers whose numbers of replicas are even: two replicas of different sizes change
places, a leader with a leader or a follower with a follower.

An exchange copies both, so it happens only if the fullest disk has much more than the mean.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from strandline.config.limits import MIB
from strandline.controller.core.balance.layout import Layout, nearest
from strandline.ids import BrokerId

OVER_MEAN_PERCENT: Final = 10
"""A broker with this much more than the mean exchanges replicas."""

OVER_MEAN_BYTES: Final = 1024 * MIB
"""With less than this over the mean there is nothing to gain."""

EXCHANGES_MAX: Final = 1_000

LOOKED_AT_MAX: Final = 50
"""Replicas of either broker that are compared for one exchange."""


def exchange_bytes(layout: Layout) -> None:
    """Exchanges replicas until no broker is far over the mean, or no exchange helps."""
    for _ in range(EXCHANGES_MAX):
        if not _exchange_once(layout):
            return


def _exchange_once(layout: Layout) -> bool:
    held = layout.held
    fullest = max(held, key=lambda broker: (held[broker].bytes, broker))
    mean = sum(each.bytes for each in held.values()) // len(held)
    over = held[fullest].bytes - mean
    if over < OVER_MEAN_BYTES or over * 100 < mean * OVER_MEAN_PERCENT:
        return False
    for other in sorted(held, key=lambda broker: (held[broker].bytes, broker)):
        if held[other].bytes >= mean:
            return False
        # More than the smaller of both distances from the mean would only move the excess.
        most = min(over, mean - held[other].bytes)
        if (found := _pair(layout, fullest, other, most)) is not None:
            large, small = found
            layout.move(large, fullest, other)
            layout.move(small, other, fullest)
            return True
    return False


def _pair(layout: Layout, fullest: BrokerId, other: BrokerId, most: int) -> tuple[int, int] | None:
    """A replica of the fullest and a smaller one of the other: the largest difference up to `most` bytes,
    and never less than a tenth of that. The largest replicas are compared."""
    smaller = layout.movable(other)
    best: tuple[int, int, int] | None = None
    for size, large in islice(reversed(layout.movable(fullest)), LOOKED_AT_MAX):
        if not layout.may_move(layout.replicas[large], fullest, other):
            continue
        leads = layout.replicas[large][0] == fullest
        for _, small in islice(nearest(smaller, max(0, size - most)), LOOKED_AT_MAX):
            gain = size - layout.placements[small].bytes
            if not most // 10 <= gain <= most or (layout.replicas[small][0] == other) != leads:
                continue
            better = best is None or gain > best[0]
            if better and layout.may_move(layout.replicas[small], other, fullest):
                best = gain, large, small
    return None if best is None else best[1:]
