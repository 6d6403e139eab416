"""The quota of partitions that are created and deleted, `controller_mutation_rate` (KIP-599)."""

from __future__ import annotations

from math import ceil
from typing import Final

from strandline.errors import ThrottlingQuotaExceeded
from strandline.security.quotas.model import Quota
from strandline.serving.asked import bill

RATE: Final = Quota.CONTROLLER_MUTATION_RATE
RETRY_AFTER_MS_MAX: Final = 2**31 - 1
"""The longest wait that a caller is given at once, 24 days: Kafka's protocol has 32 bits for it."""


def count_mutations(name: str, partitions: int) -> None:
    """Count partitions that are about to be created or deleted for the caller of the request.

    As in Kafka, a topic is changed if the caller owes nothing, however many partitions it has. Those after
    it wait until they are paid for. Raises ThrottlingQuotaExceeded; then nothing is counted.
    """
    caller = bill()
    if caller is None or not (wait_s := caller.admit(RATE, partitions)):
        return
    raise ThrottlingQuotaExceeded(
        f"topic {name!r}: the caller is over its {RATE}: try again in {wait_s:.1f} s",
        retry_after_ms=min(ceil(wait_s * 1000), RETRY_AFTER_MS_MAX),
    )
