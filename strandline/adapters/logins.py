"""Carries out the steps of logins for all ports of a process, within bounds.

A step of SCRAM is quick at the server. One of PLAIN is milliseconds in a thread, and one of OAUTHBEARER may
wait for keys there; the threads also write logs to the disk, so few logins use them at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from strandline.adapters.telemetry.audit import Audit
from strandline.errors import AuthenticationFailed, StrandlineError, ThrottlingQuotaExceeded
from strandline.host import Threads
from strandline.ports import Caller, Clock
from strandline.security.login.attempts import Attempts
from strandline.security.login.authenticator import Authenticator
from strandline.security.login.steps import Login, Step
from strandline.security.principal import Principal

logger = structlog.get_logger(__name__)

LOGINS_MAX: Final = 64
"""Logins that use a thread, or wait for one."""
THREADS_MAX: Final = 2
OTHER_MECHANISM: Final = "other"
"""What a mechanism is called that is not enabled."""


class Logins:
    """The logins of one process."""

    def __init__(
        self,
        authenticator: Authenticator,
        clock: Clock,
        threads: Threads,
        new_id: Callable[[], str],
        audit: Audit,
    ) -> None:
        """`new_id` as in `strandline.host.Host`."""
        self.authenticator = authenticator
        self._audit = audit
        self._clock = clock
        self._threads = threads
        self._new_id = new_id
        self._attempts = Attempts()
        self._places = asyncio.Semaphore(THREADS_MAX)
        self._slow = 0

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self.authenticator.mechanisms

    async def prepare(self) -> None:
        """Have what logins need, so that the first one does not hold up the event loop. Raises
        SettingsError."""
        if self.mechanisms:
            await self._threads.run(self.authenticator.prepare)

    def begin(self, mechanism: str) -> Login:
        """Raises UnsupportedSaslMechanism."""
        return self.authenticator.begin(mechanism, self._new_id())

    async def step(self, login: Login, token: bytes, caller: Caller) -> Step:
        """Raises AuthenticationFailed if the login has failed, ThrottlingQuotaExceeded if there are too many
        others. The port notes how the login ended."""
        address = caller.host
        delay_s = self._attempts.begin(address, self._clock.monotonic())
        try:
            if delay_s:
                await self._clock.sleep(delay_s)
            return await self._in_thread(login, token) if login.slow else login.step(token)
        except AuthenticationFailed as error:
            self._attempts.failed(address, self._clock.monotonic())
            reason = error.message if error.__cause__ is None else f"{error.message}: {error.__cause__}"
            logger.warning("login refused", address=address, mechanism=login.mechanism, reason=reason)
            raise
        finally:
            self._attempts.end(address)

    def succeeded(self, caller: Caller, mechanism: str, principal: Principal) -> None:
        """Note that the caller is logged in."""
        self._audit.logged_in(replace(caller, mechanism=mechanism, principal=principal))

    def refused(self, caller: Caller, mechanism: str, error: StrandlineError) -> None:
        """Note why a login was refused. `mechanism` may be any name that a client gave."""
        known = mechanism if mechanism in self.mechanisms else OTHER_MECHANISM
        self._audit.login_refused(caller, known, error)

    async def _in_thread(self, login: Login, token: bytes) -> Step:
        if self._slow >= LOGINS_MAX:
            raise ThrottlingQuotaExceeded(f"{LOGINS_MAX} logins are in progress", limit=LOGINS_MAX)
        self._slow += 1
        try:
            async with self._places:
                return await self._threads.run(login.step, token)
        finally:
            self._slow -= 1
