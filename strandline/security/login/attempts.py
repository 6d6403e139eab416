"""Bounds for the logins of each address: how many steps are in progress, and how fast it may fail."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Final

from strandline.errors import ThrottlingQuotaExceeded
from strandline.room import one_host

STEPS_PER_ADDRESS_MAX: Final = 32
"""Steps in progress, those that wait among them."""
FAILURES_MAX: Final = 3
"""Failures of an address within a second; after that, each further step of it waits."""
FAILURES_S: Final = 1.0
DELAY_S: Final = 1.0
ADDRESSES_MAX: Final = 10_000
"""Addresses with remembered failures; the one that failed longest ago is forgotten first."""


class Attempts:
    """The logins of one process."""

    def __init__(self) -> None:
        self._in_progress: Counter[str] = Counter()
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    @property
    def addresses(self) -> int:
        """Those with remembered failures."""
        return len(self._failed)

    def begin(self, address: str, now: float) -> float:
        """Count one step, until `end`. Returns the seconds that it has to wait. Raises
        ThrottlingQuotaExceeded, and then counts none."""
        host = one_host(address)
        if self._in_progress[host] >= STEPS_PER_ADDRESS_MAX:
            raise ThrottlingQuotaExceeded(
                f"{STEPS_PER_ADDRESS_MAX} logins from {address} are in progress", limit=STEPS_PER_ADDRESS_MAX
            )
        self._in_progress[host] += 1
        failures = self._failed.get(host, ())
        return DELAY_S if sum(now - at < FAILURES_S for at in failures) >= FAILURES_MAX else 0.0

    def failed(self, address: str, now: float) -> None:
        """Note that a login of this address failed."""
        host = one_host(address)
        failures = self._failed.setdefault(host, deque(maxlen=FAILURES_MAX))
        failures.append(now)
        self._failed.move_to_end(host)
        while len(self._failed) > ADDRESSES_MAX:
            self._failed.popitem(last=False)

    def end(self, address: str) -> None:
        """The step is over, however it ended."""
        self._in_progress[host := one_host(address)] -= 1
        if self._in_progress[host] <= 0:
            del self._in_progress[host]
