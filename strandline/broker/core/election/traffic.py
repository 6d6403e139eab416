"""Decides which partitions are busy, and what idle ones do later than those when a broker is gone.

The loss of a broker concerns thousands of partitions at once. Clients wait only for those that have traffic,
so these go first: their elections (`vacancies`), and the changes of their ISRs.
"""

from __future__ import annotations

from typing import Final

TRAFFIC_S: Final = 5.0
"""A partition is busy if it had traffic within this time."""
BUSY_FIRST_S: Final = 0.3
"""Idle partitions wait this long for busy ones that are not done yet: another broker may have to act on these
first, and its requests to this one would wait behind the work for idle ones."""
LOT_MAX: Final = 250
"""Idle partitions whose vacancies are examined together. A busy one that is noticed meanwhile waits for no
more than one lot; each lot costs an epoch and five round trips to ZooKeeper."""
IDLE_ISR_S: Final = 1.0
"""After the loss of a broker, the ISRs of idle partitions change this much later: elections come first."""
ISR_LOT_MAX: Final = 50
"""Idle partitions whose ISRs change together."""
ISR_LOT_PAUSE_S: Final = 0.05
"""From one such lot to the next."""


def is_busy(traffic_at: float, moment: float) -> bool:
    """True if a partition whose last traffic was at `traffic_at` was busy at this moment; so it is if the
    traffic came later."""
    return traffic_at >= moment - TRAFFIC_S


def idle_delay_s(idle_before: int) -> float:
    """How long a leader waits before it changes the ISR of an idle partition, after this number of others.
    Those of one lot have the same delay."""
    return IDLE_ISR_S + idle_before // ISR_LOT_MAX * ISR_LOT_PAUSE_S
