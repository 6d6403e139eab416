"""The times of a group whose coordinator assigns, in milliseconds unless a name says otherwise."""

from __future__ import annotations

from typing import Final

SESSION_MS: Final = 4_000
INTERVAL_MS: Final = 1_000
REBALANCE_MS: Final = 5_000
"""How long a member may take to give partitions up; and how long it may go without a get call."""
RECONCILE_MS: Final = 1_000
"""How often brokers look at topics."""
PEACE_S_MAX: Final = 60.0
"""From the end of all faults and changes: until each partition has an owner, and all is committed."""
