"""What a round requires of a cluster after its last fault."""

from typing import Final

SETTLE_S_MAX: Final = 60.0
"""Time until all members serve and every partition has its full ISR."""
WRITABLE_MS_MAX: Final = 15_000
"""Time until every partition has acknowledged a write."""
