"""Logs callers in at the gRPC ports of one process, and knows them by their sessions afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final

from strandline.adapters.logins import Logins
from strandline.adapters.rpc.logins.codec import SERVED_AUTHENTICATE
from strandline.config.sasl import SaslSettings
from strandline.errors import BrokerNotAvailable, StrandlineError, ThrottlingQuotaExceeded
from strandline.ports import Caller, Clock, Reply, Served, ServedStream
from strandline.room import one_host
from strandline.security.login.messages import LoginAnswer, LoginMessage
from strandline.security.login.sessions import Session, Sessions
from strandline.security.login.steps import Login, session_ms
from strandline.security.members import unknown_key
from strandline.security.principal import Principal

LOGINS_MAX: Final = 64
"""Logins in progress, and twice those of one address, so that it does not keep others out. Further ones are
refused with a retriable error."""
LOGIN_S_MAX: Final = 5.0
"""The longest login, with its wait after failures of the same address."""


class PortLogins:
    """The logins and the sessions of one process."""

    def __init__(
        self,
        logins: Logins,
        is_member_key: Callable[[bytes | None], bool],
        settings: SaslSettings,
        clock: Clock,
        new_id: Callable[[], str],
        *,
        logins_max: int = LOGINS_MAX,
        login_s_max: float = LOGIN_S_MAX,
    ) -> None:
        """`is_member_key`: whether this is the key that the members of the cluster show each other. `new_id`
        as in `strandline.host.Host`."""
        self._logins_max = logins_max
        self._login_s_max = login_s_max
        self._logins = logins
        self._is_member_key = is_member_key
        self._lifetime_ms = settings.connections_max_reauth_ms
        self._sessions = Sessions(settings.sasl_sessions_max)
        self._clock = clock
        self._new_id = new_id
        self._in_progress: Counter[str] = Counter()

    @property
    def calls(self) -> Sequence[Served]:
        """Those by which callers log in."""
        return [ServedStream(SERVED_AUTHENTICATE, self.authenticate)]

    # --- sessions ------------------------------------------------------------------------------

    def admit(self, caller: Caller, session: str | None) -> Caller:
        """The caller with the name of the session that it shows. A member of the cluster shows the members'
        key instead.

        Raises IllegalSaslState, AuthenticationFailed, and BrokerNotAvailable for a key that this process
        does not know: it may not have read the newest one yet.
        """
        if caller.member_key is not None:
            if self._is_member_key(caller.member_key):
                return caller
            raise unknown_key()
        found = self._sessions.find(caller.connection, session, self._clock.monotonic())
        return replace(caller, principal=found.principal, mechanism=found.mechanism, expires_at=found.ends_at)

    def _begin_session(self, connection: str, principal: Principal, mechanism: str, lifetime_ms: int) -> str:
        token = f"{self._new_id()}{self._new_id()}"
        ends_at = self._clock.monotonic() + lifetime_ms / 1000 if lifetime_ms else None
        self._sessions.begin(connection, Session(token, principal, mechanism, ends_at))
        return token

    # --- logins --------------------------------------------------------------------------------

    async def authenticate(
        self, requests: AsyncIterator[LoginMessage], reply: Reply[LoginAnswer], caller: Caller
    ) -> None:
        """Carries out one login. Raises AuthenticationFailed, UnsupportedSaslMechanism, and a retriable error
        if it could not be tried."""
        self._take_place(caller.host)
        try:
            async with asyncio.timeout(self._login_s_max):
                await self._carry_out(requests, reply, caller)
        except TimeoutError:
            raise BrokerNotAvailable(f"the login took longer than {self._login_s_max:.1f} s") from None
        finally:
            self._in_progress[one_host(caller.host)] -= 1
            self._in_progress += Counter()  # without addresses that have none

    def _take_place(self, address: str) -> None:
        """Raises ThrottlingQuotaExceeded."""
        host = one_host(address)
        for count, bound, whose in (
            (self._in_progress.total(), self._logins_max, ""),
            (self._in_progress[host], self._logins_max // 2, f" from {address}"),
        ):
            if count >= bound:
                raise ThrottlingQuotaExceeded(f"{bound} logins{whose} are in progress", limit=bound)
        self._in_progress[host] += 1

    async def _carry_out(
        self, requests: AsyncIterator[LoginMessage], reply: Reply[LoginAnswer], caller: Caller
    ) -> None:
        login: Login | None = None
        async for message in requests:
            try:
                if login is None:
                    login = self._logins.begin(message.mechanism)
                step = await self._logins.step(login, message.token, caller)
            except BrokerNotAvailable:
                raise  # it was not tried
            except StrandlineError as error:
                self._logins.refused(caller, message.mechanism if login is None else login.mechanism, error)
                raise
            if step.principal is None:
                await reply(LoginAnswer(step.token))
                continue
            lifetime_ms = session_ms(step, self._lifetime_ms, self._clock.wall_ms())
            session = self._begin_session(caller.connection, step.principal, login.mechanism, lifetime_ms)
            self._logins.succeeded(caller, login.mechanism, step.principal)
            await reply(LoginAnswer(step.token, session, lifetime_ms))
            return
