"""What a round requires of a cluster after its last fault."""

from typing import Final

SETTLE_S_MAX: Final = 60.0
"""Time until all members serve and every partition has its full ISR."""
REPLACED_MS_MAX: Final = 6_000
"""Time until each partition of a broker that hangs has another leader, if nothing else is wrong. Brokers
agree within a second; twice the ZooKeeper session is for those that could not, such as on a busy machine."""
