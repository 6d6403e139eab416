"""Bounds answers that may be much larger than their requests: the bytes of one, and of all that clients have
not read yet.

A group has many members, or many offsets, a partition many producers, a topic many configs; and a request
names many of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from strandline.broker.kafka.call import Call, Handle
from strandline.broker.log.fetch_budget import FetchBudget
from strandline.config.limits import KIB, MIB
from strandline.ports import Clock, Reply
from strandline.tasks import Slices

Request = TypeVar("Request")
Answer = TypeVar("Answer")

ANSWER_BYTES_MAX: Final = 4 * MIB
"""An answer that has this many bytes is full: what else its request asks for is refused."""
CONNECTION_BYTES_MAX: Final = 16 * MIB
ALL_BYTES_MAX: Final = 64 * MIB
"""Of unread answers: of one connection, and of all. A single answer may have more."""
FIRST_BYTES: Final = 16 * KIB
"""What an answer takes before its size is known."""
ENTRY_BYTES: Final = 64
"""An upper bound of the bytes of one entry, such as a member or an offset, besides its texts and bytes."""


class AnswerSize:
    """The bytes of one answer so far, and its time slices."""

    def __init__(self, clock: Clock) -> None:
        self._slices = Slices(clock)
        self.bytes = 0

    @property
    def full(self) -> bool:
        return self.bytes >= ANSWER_BYTES_MAX

    async def add(self, *parts: str | bytes, entries: int = 1) -> None:
        """One more entry, or several, with these texts and bytes. Other work may have its turn."""
        self.bytes += entries * ENTRY_BYTES + sum(map(len, parts))
        if self._slices.used_up:
            await self._slices.next()


class Answers:
    """The answers of some APIs of one broker, which share a bound."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unread = FetchBudget(of_one=CONNECTION_BYTES_MAX, of_all=ALL_BYTES_MAX)

    def bounded(
        self, handle: Callable[[Request, Call, AnswerSize], Awaitable[Answer]]
    ) -> Handle[Request, Answer]:
        """For a handler that returns its answer, and adds what is in it to the size."""

        async def reply_with_result(request: Request, call: Call, reply: Reply[Answer]) -> None:
            async with self._unread.taken(call.caller.connection, FIRST_BYTES) as has:
                size = AnswerSize(self._clock)
                answer = await handle(request, call, size)
                has(size.bytes)
                await reply(answer)

        return reply_with_result
