"""Decides when to read a znode's children again. It knows the order of events, not how they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from strandline.errors import CoordinationError
from strandline.ports import ConnectionLost


class ChildrenWatch:
    """Reads, which leaves one raw watch; reads again when that fires, or when the link comes back.

    It lives on the event loop. `_reading`: a read is in progress, so no other is sent. `_stale`:
    the watch fired or the link came back since that read was sent, so another must follow; the
    notification of an event may overtake the earlier answer. `_over`: the session has ended.
    """

    def __init__(
        self, path: str, send_read: Callable[[], None], listener: Callable[[list[str]], None]
    ) -> None:
        self._path = path
        self._send_read = send_read
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._stale = False
        self._over = False

    def arm(self) -> None:
        """Read now, or once more after the read in progress."""
        if self._reading:
            self._stale = True
        elif not self._over:
            self._reading, self._stale = True, False
            self._send_read()

    def take(self, answer: list[str] | CoordinationError) -> None:
        """Handle the result of a read.

        A refusal (the path does not exist) ends the watch, which would be silent forever, so it is
        reported to the loop's exception handler.
        """
        self._reading = False
        if self._over:
            return
        if isinstance(answer, ConnectionLost):
            self.arm()  # it waits for the connection, if that is down
        elif isinstance(answer, CoordinationError):
            self.end()
            self._loop.call_exception_handler(
                {"message": f"the watch of {self._path} is over", "exception": answer}
            )
        else:
            self._loop.call_soon(self._listener, answer)
            if self._stale:
                self.arm()

    def end(self) -> None:
        """End the watch: the listener gets no further call, except one that is already scheduled."""
        self._over = True
