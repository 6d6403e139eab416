"""Bounds what fetch connections may occupy: bytes that were read and not yet sent, or partitions asked for.

A client that sends requests and does not read the answers uses up only its own share.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final, NamedTuple

from strandline.adapters.rpc.server.held_calls import host_of
from strandline.room import HOSTS_REMEMBERED, one_host

ADDRESS_SHARE: Final = 1.5
"""What the owners of one address may have, as a part of `of_all`."""


@lru_cache(HOSTS_REMEMBERED)
def _host(owner: str) -> str:
    return one_host(host_of(owner))


class _Waiting(NamedTuple):
    owner: str
    address: str
    amount: int
    granted: asyncio.Future[None]


class FetchBudget:
    """A bound for each owner (`of_one`) and for all together (`of_all`). Grants are first come, first served
    among owners below their own bound.

    An owner that has nothing gets its request up to a total of twice `of_all`, and up to one and a half times
    that for those of its address. So owners that never give back do not lock out the others, and however many
    there are of one address, those of other addresses have their turn.
    """

    def __init__(self, *, of_one: int, of_all: int) -> None:
        self._of_one = min(of_one, of_all)
        self._of_all = of_all
        self._taken: dict[str, int] = {}
        self._of_address: Counter[str] = Counter()
        self._total = 0
        self._waiting: deque[_Waiting] = deque()

    @property
    def total(self) -> int:
        """The amount that all owners have together."""
        return self._total

    @asynccontextmanager
    async def taken(self, owner: str, amount: int) -> AsyncIterator[Callable[[int], None]]:
        """Takes an amount, and gives it back at the end of the block.

        The block may call the given function with the amount that it really has. If that is more, the rest
        is taken at once, and later grants wait for it.
        """
        taken = await self.take(owner, amount)

        def has(found: int) -> None:
            nonlocal taken
            if found > taken:
                self._grant(owner, found - taken)
                taken = found

        try:
            yield has
        finally:
            self.give_back(owner, taken)

    async def take(self, owner: str, amount: int) -> int:
        """Waits for this amount, or for `of_one` if that is less. Returns the amount to give back."""
        amount = min(amount, self._of_one)
        if self.take_now(owner, amount):
            return amount
        waiting = _Waiting(owner, _host(owner), amount, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._serve()
        try:
            await waiting.granted
        except asyncio.CancelledError:
            if not waiting.granted.cancelled():  # it was granted in the same turn
                self.give_back(owner, amount)
            else:
                self._serve()
            raise
        return amount

    def take_now(self, owner: str, amount: int) -> bool:
        """Takes the amount if that needs no wait."""
        if self._waiting or not self._has(owner, _host(owner), amount):
            return False
        self._grant(owner, amount)
        return True

    def _has(self, owner: str, address: str, amount: int) -> bool:
        own, total = self._taken.get(owner, 0), self._total + amount
        if own:
            return own + amount <= self._of_one and total <= self._of_all
        of_address = self._of_address[address] + amount
        return total <= 2 * self._of_all and of_address <= ADDRESS_SHARE * self._of_all

    def _grant(self, owner: str, amount: int) -> None:
        self._taken[owner] = self._taken.get(owner, 0) + amount
        self._of_address[_host(owner)] += amount
        self._total += amount

    def give_back(self, owner: str, amount: int) -> None:
        left = self._taken.get(owner, 0) - amount  # a request for nothing takes nothing
        if left:
            self._taken[owner] = left
        else:
            self._taken.pop(owner, None)
        self._of_address[address := _host(owner)] -= amount
        if not self._of_address[address]:
            del self._of_address[address]
        self._total -= amount
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        """Grants the waiting requests that fit, in order."""
        left: deque[_Waiting] = deque()
        for waiting in self._waiting:
            if waiting.granted.cancelled():
                continue
            if self._has(waiting.owner, waiting.address, waiting.amount):
                self._grant(waiting.owner, waiting.amount)
                waiting.granted.set_result(None)
            else:
                left.append(waiting)
        self._waiting = left
