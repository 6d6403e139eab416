"""What a round demands of a cluster once nothing is done to it any more."""

from typing import Final

SETTLE_S_MAX: Final = 60.0
"""Until all members serve and every partition has its full ISR."""
WRITABLE_MS_MAX: Final = 15_000
"""Until every partition has acknowledged a write."""
