"""Answers SaslHandshake and SaslAuthenticate: carries out the steps of a login."""

from __future__ import annotations

from strandline.adapters.logins import Logins
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of, message_of
from strandline.broker.kafka.wire.sasl import (
    SaslAuthenticateAnswer,
    SaslAuthenticateRequest,
    SaslHandshakeAnswer,
    SaslHandshakeRequest,
)
from strandline.errors import IllegalSaslState, StrandlineError
from strandline.ports import Clock
from strandline.security.login.steps import session_ms


class SaslApi:
    """The logins of all Kafka connections."""

    def __init__(self, logins: Logins, clock: Clock, *, lifetime_ms: int) -> None:
        """`lifetime_ms`: how long a login counts at most; 0: as long as its connection."""
        self._logins = logins
        self._clock = clock
        self._lifetime_ms = lifetime_ms

    async def handshake(self, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeAnswer:
        """Begins a login. An error ends the connection, after the answer."""
        login, error = call.login, None
        try:
            if login is None:
                raise IllegalSaslState("this port does not log its clients in")
            if login.begun is not None:
                raise IllegalSaslState("a login is in progress on this connection")
            login.begin(self._logins.begin(request.mechanism), bare=call.version == 0)
        except StrandlineError as refused:
            error = refused
            self._fail(call, request.mechanism, error)
        return SaslHandshakeAnswer(self._logins.mechanisms, code_of(error))

    async def authenticate(self, request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateAnswer:
        """One step of a login. An error ends the connection, after the answer."""
        login = call.login
        try:
            if login is None or login.begun is None:
                raise IllegalSaslState("SaslHandshake comes before SaslAuthenticate")
            step = await self._logins.step(login.begun, request.token, call.caller)
            if step.principal is None:
                return SaslAuthenticateAnswer(step.token)
            lifetime_ms = session_ms(step, self._lifetime_ms, self._clock.wall_ms())
            login.succeed(step.principal, self._ends_at(lifetime_ms))
        except StrandlineError as error:
            self._fail(call, login.begun.mechanism if login is not None and login.begun else "", error)
            return SaslAuthenticateAnswer(error=code_of(error), message=message_of(error))
        self._logins.succeeded(call.caller, login.mechanism, step.principal)
        return SaslAuthenticateAnswer(step.token, lifetime_ms=lifetime_ms)

    def _ends_at(self, lifetime_ms: int) -> float | None:
        return self._clock.monotonic() + lifetime_ms / 1000 if lifetime_ms else None

    def _fail(self, call: Call, mechanism: str, error: StrandlineError) -> None:
        self._logins.refused(call.caller, mechanism, error)
        if call.login is not None:
            call.login.failed = True
