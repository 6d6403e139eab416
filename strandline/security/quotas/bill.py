"""What the requests of a caller cost it, and until when it has to wait for them."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from strandline.security.asker import Asker
from strandline.security.quotas.connections import ConnectionRates, Turn
from strandline.security.quotas.model import Quota, Quotas
from strandline.security.quotas.usage import Usage

PAY_AGAIN_S_MIN: Final = 0.001
"""The shortest pause before a caller is asked again what it owes."""


class Bill:
    """What one request of a caller costs."""

    __slots__ = ("_client_id", "_now", "_until", "_usage", "_user")

    def __init__(self, usage: Usage, user: str, client_id: str, now: Callable[[], float]) -> None:
        self._usage = usage
        self._user = user
        self._client_id = client_id
        self._now = now
        self._until = 0.0
        """Until when the caller has to wait, monotonic seconds; 0: not at all."""

    def limit(self, quota: Quota) -> float | None:
        """What the caller may use a second; None: as much as it likes."""
        return self._usage.limit(quota, self._user, self._client_id)

    def fetchable(self, bytes_max: int) -> int:
        """Of these bytes at most as many as a consumer may have in a second."""
        limit = self.limit(Quota.CONSUMER_BYTE_RATE)
        return bytes_max if limit is None else min(bytes_max, ceil(limit))

    def charge(self, quota: Quota, used: float) -> None:
        """Count what the request uses: bytes, seconds, partitions. The caller waits for it afterwards."""
        now = self._now()
        wait_s = self._usage.charge(quota, self._user, self._client_id, used, now)
        if wait_s:
            self._wait_until(now + wait_s)

    def owed(self, quota: Quota) -> float:
        """Seconds until the caller has paid for what it has used; 0: it may use more. If it waits,
        `wait_s` says so from now on."""
        now = self._now()
        owed_s = self._usage.owed(quota, self._user, self._client_id, now)
        if owed_s:
            self._wait_until(now + owed_s)
        return owed_s

    def admit(self, quota: Quota, used: float) -> float:
        """Count what the request uses, and return 0, or the seconds until the caller may use it: then
        nothing is counted."""
        return self._usage.admit(quota, self._user, self._client_id, used, self._now())

    def wait(self, quota: Quota, wait_s: float) -> None:
        """The caller waits for what another process counts and refused, seconds."""
        self._wait_until(self._now() + self._usage.delayed(quota, wait_s))

    @property
    def wait_s(self) -> float:
        """Seconds that the caller still has to wait."""
        return max(0.0, self._until - self._now()) if self._until else 0.0

    def _wait_until(self, moment: float) -> None:
        self._until = max(self._until, moment)


class ClientQuotas:
    """The quotas of one process, as they are kept here. Members of the cluster have none."""

    def __init__(
        self, is_member: Callable[[Asker], bool], now: Callable[[], float], *, delay_ms_max: int
    ) -> None:
        """`now`: monotonic seconds."""
        self._is_member = is_member
        self._now = now
        self._all = Usage(delay_s_max=delay_ms_max / 1000)
        self._connections = ConnectionRates(delay_s_max=delay_ms_max / 1000)
        self._usage: Usage | None = None
        """None while no quota of callers is set: then a request costs one comparison."""

    @property
    def quotas(self) -> Quotas:
        """The last picture of the quotas."""
        return self._all.quotas

    def take(self, quotas: Quotas) -> None:
        """Go by these quotas from now on."""
        self._all.take(quotas)
        self._connections.take(quotas)
        self._usage = None if self._all.empty else self._all

    def of(self, caller: Asker) -> Bill | None:
        """The bill of a request; None: it has no quota to keep."""
        if self._usage is None or self._is_member(caller):
            return None
        return Bill(self._usage, caller.principal.name, caller.client_id, self._now)

    def connection(self, address: str) -> Turn:
        """Counts a connection of the address, and says whether and when it is served."""
        return self._connections.arrives(address, self._now())

    def throttled_s(self, quota: Quota) -> float:
        """The seconds by which callers and connections were delayed so far."""
        if quota is Quota.CONNECTION_CREATION_RATE:
            return self._connections.throttled_s
        return self._all.throttled_s[quota]

    def refused(self, quota: Quota) -> int:
        """The requests that were refused so far."""
        return self._all.refused[quota]
