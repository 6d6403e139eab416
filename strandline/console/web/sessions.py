"""The browsers that are logged in, each with the clients of its user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.console.web.admins import Connection, Session
from strandline.ports import Clock
from strandline.room import first_of_most

SWEEP_S: Final = 30.0


class Sessions:
    """At most `sessions_max`, by the id of the browser; each for `session_s_max`."""

    def __init__(self, sessions_max: int, session_s_max: float, clock: Clock) -> None:
        self._sessions_max = sessions_max
        self._session_s_max = session_s_max
        self._clock = clock
        self._open: dict[str, Session] = {}

    def find(self, browser: str) -> Session | None:
        """The session of a browser, which is used now; None: it is not logged in, or no longer."""
        session = self._open.get(browser)
        now_s = self._clock.monotonic()
        if session is None or session.ends_s <= now_s:
            return None
        session.used_s = now_s
        return session

    async def begin(
        self,
        browser: str,
        user: str | None,
        connection: Connection,
        admin: Admin,
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        """A login. If there are too many, one of the user that has most ends: that which was away longest."""
        ended = None
        if browser not in self._open and len(self._open) >= self._sessions_max:
            by_use = sorted(self._open.items(), key=lambda each: each[1].used_s)
            ended = self._open.pop(first_of_most(((each, has.user) for each, has in by_use), user))
        now_s = self._clock.monotonic()
        ends_s = now_s + self._session_s_max
        self._open[browser] = Session(user, connection, admin, stop, ends_s, now_s)
        if ended is not None:
            await ended.stop()

    async def end(self, browser: str) -> None:
        """A logout; of a browser that is not logged in: nothing."""
        session = self._open.pop(browser, None)
        if session is not None:
            await session.stop()

    async def end_all(self) -> None:
        """No browser is logged in from now on."""
        for browser in list(self._open):
            await self.end(browser)

    async def sweep(self) -> None:
        """Ends sessions whose time is over, without an end of its own."""
        while True:
            await self._clock.sleep(SWEEP_S)
            now_s = self._clock.monotonic()
            for browser in [each for each, session in self._open.items() if session.ends_s <= now_s]:
                await self.end(browser)
