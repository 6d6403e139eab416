"""Logs a transport of the event loop in: once on each of its connections, and again when that ends."""

from __future__ import annotations

import asyncio
import contextlib
from weakref import WeakKeyDictionary

import grpc

from strandline.adapters.rpc.closed_channels import told_of_close
from strandline.adapters.rpc.logins.codec import AUTHENTICATE
from strandline.adapters.rpc.logins.of_client import LOGIN_S_MAX, ClientLogin, ClientSession, raise_refusal
from strandline.adapters.rpc.logins.refusals import Refusals
from strandline.adapters.tls.channels import Link
from strandline.errors import AuthenticationFailed, StrandlineError
from strandline.ports import Clock
from strandline.security.login.conversation import Conversation, check_end, next_message
from strandline.security.login.messages import LoginMessage

AsyncLink = Link[grpc.aio.Channel]


class _OfLink:
    """The login of one link. Calls that wait for it share it, and its failure."""

    def __init__(self) -> None:
        self.session: ClientSession | None = None
        self.turn = asyncio.Lock()
        self.failures = 0
        self.failure: StrandlineError | None = None


class TransportLogins:
    """The sessions of one transport, by link."""

    def __init__(self, login: ClientLogin, clock: Clock, refusals: Refusals) -> None:
        self._login = login
        self._refusals = refusals
        self._clock = clock
        self._of: WeakKeyDictionary[AsyncLink, _OfLink] = WeakKeyDictionary()

    async def session(self, address: str, link: AsyncLink) -> ClientSession:
        """The session of the link's connection, after a login if there is none.

        Raises AuthenticationFailed, UnsupportedSaslMechanism, SettingsError; in place of each RefusedForNow,
        if the client goes on; BrokerNotAvailable.
        """
        of = self._of.setdefault(link, _OfLink())
        if (session := self._current(of)) is not None:
            return session
        failures = of.failures
        async with of.turn:
            if (session := self._current(of)) is not None:
                return session
            if of.failures > failures and of.failure is not None:
                raise of.failure  # of the login that this call waited for
            try:
                with self._refusals.login(address, self._clock.monotonic):
                    of.session = session = await self._log_in(address, link)
            except StrandlineError as error:
                of.failures += 1
                of.failure = error
                raise
            return session

    def forget(self, link: AsyncLink, session: ClientSession) -> None:
        """The server no longer knows the session."""
        of = self._of.get(link)
        if of is not None and of.session is session:
            of.session = None

    def _current(self, of: _OfLink) -> ClientSession | None:
        if of.session is None or self._clock.monotonic() >= of.session.renewed_at:
            return None
        return of.session

    async def _log_in(self, address: str, link: AsyncLink) -> ClientSession:
        messages = self._login.begin(await self._login.secrets.current())
        began = self._clock.monotonic()
        multi: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = link.channel.stream_stream(
            AUTHENTICATE.path
        )
        call = multi(timeout=LOGIN_S_MAX)
        link.begin()
        call.add_done_callback(lambda _: link.end())
        try:
            return await self._converse(call, messages, began)
        except asyncio.CancelledError as error:
            raise told_of_close(error, f"the connection to {address}") from None
        except grpc.aio.AioRpcError as error:
            raise_refusal(address, error)
        finally:
            call.cancel()

    async def _converse(
        self, call: grpc.aio.StreamStreamCall[bytes, bytes], messages: Conversation, began: float
    ) -> ClientSession:
        message = next_message(messages, None)
        while message is not None:
            with contextlib.suppress(asyncio.InvalidStateError):  # it has ended: the reading says why
                await call.write(AUTHENTICATE.encode(LoginMessage(self._login.mechanism, message)))
            received = await call.read()
            if not isinstance(received, bytes):
                raise AuthenticationFailed("the server ended the login too early")
            answer = AUTHENTICATE.decode(received)
            # PBKDF2 is milliseconds of work.
            message = await asyncio.to_thread(next_message, messages, answer.token)
            if check_end(message, answer.session):
                return ClientSession.of(answer, began)
        raise AuthenticationFailed("the login ended without a session")
