"""The future of one record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any

from strandline.producer.tickets import RecordMetadata, RecordTicket

if TYPE_CHECKING:
    _Future = asyncio.Future[RecordMetadata]
else:
    _Future = object


class RecordFuture(_Future):
    """An asyncio.Future in all but its base class. The real future is made at its first use.

    Most futures of records are never used: then this one costs a third of a real future, and nothing when
    the batch ends. asyncio recognizes a future by `_asyncio_future_blocking`, so that `await`, `gather`,
    `wait`, `wait_for` and `shield` accept it.
    """

    __slots__ = ("_index", "_made", "_ticket")

    _asyncio_future_blocking = False

    def __init__(self, ticket: RecordTicket, index: int) -> None:
        self._ticket = ticket
        self._index = index
        self._made: asyncio.Future[RecordMetadata] | None = None

    def _future(self) -> asyncio.Future[RecordMetadata]:
        made = self._made
        if made is None:
            made = self._made = self._ticket.future(self._index)
        return made

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self._future().__await__()

    __iter__ = __await__

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._future().get_loop()

    def done(self) -> bool:
        return self._future().done()

    def cancelled(self) -> bool:
        return self._future().cancelled()

    def cancel(self, msg: Any | None = None) -> bool:
        """Stop waiting. The record is still sent."""
        return self._future().cancel(msg)

    def result(self) -> RecordMetadata:
        return self._future().result()

    def exception(self) -> BaseException | None:
        return self._future().exception()

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        """`fn` is called with the real future."""
        self._future().add_done_callback(fn, context=context)

    def remove_done_callback(self, fn: Callable[[Any], object], /) -> int:
        return self._future().remove_done_callback(fn)
