"""Room for what is read for clients and not written to them yet: bounded for each, and for all together.

A client that asks and does not read takes up its own room, and waits for itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple


class _Waiting(NamedTuple):
    owner: str
    amount: int
    granted: asyncio.Future[None]


class Room:
    """`of_one`: for each owner; `of_all`: for all together. First come, first served, among those below their
    own bound.

    Up to twice `of_all`, an owner that has nothing gets what it asks for: those that give nothing back do not
    lock out the others.
    """

    def __init__(self, *, of_one: int, of_all: int) -> None:
        self._of_one = min(of_one, of_all)
        self._of_all = of_all
        self._taken: Counter[str] = Counter()
        self._total = 0
        self._waiting: deque[_Waiting] = deque()

    @property
    def total(self) -> int:
        """Taken by all together."""
        return self._total

    @asynccontextmanager
    async def taken(self, owner: str, amount: int) -> AsyncIterator[None]:
        """`take`, and give it back at the end."""
        taken = await self.take(owner, amount)
        try:
            yield
        finally:
            self.give_back(owner, taken)

    async def take(self, owner: str, amount: int) -> int:
        """Wait for so much, or for all that one may have if that is less: how much is to be given back."""
        amount = min(amount, self._of_one)
        if not self._waiting and self._has(owner, amount):
            self._grant(owner, amount)
            return amount
        waiting = _Waiting(owner, amount, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._serve()
        try:
            await waiting.granted
        except asyncio.CancelledError:
            if not waiting.granted.cancelled():  # it came in the same turn
                self.give_back(owner, amount)
            else:
                self._serve()
            raise
        return amount

    def _has(self, owner: str, amount: int) -> bool:
        own, total = self._taken[owner], self._total + amount
        of_all = self._of_all if own else 2 * self._of_all
        return own + amount <= self._of_one and total <= of_all

    def _grant(self, owner: str, amount: int) -> None:
        self._taken[owner] += amount
        self._total += amount

    def give_back(self, owner: str, amount: int) -> None:
        self._taken[owner] -= amount
        if not self._taken[owner]:
            del self._taken[owner]
        self._total -= amount
        self._serve()

    def _serve(self) -> None:
        """Grant what there is room for, in order."""
        left: deque[_Waiting] = deque()
        for waiting in self._waiting:
            if waiting.granted.cancelled():
                continue
            if self._has(waiting.owner, waiting.amount):
                self._grant(waiting.owner, waiting.amount)
                waiting.granted.set_result(None)
            else:
                left.append(waiting)
        self._waiting = left
