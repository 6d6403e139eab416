"""Logs a blocking transport in, and makes its calls with the session.

A call that logs in has to wait several times, so each has a thread of its own, which another one may cancel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import grpc

from strandline.adapters.rpc.logins.codec import AUTHENTICATE
from strandline.adapters.rpc.logins.of_client import (
    LOGIN_S_MAX,
    LOGINS_PER_CALL_MAX,
    ClientLogin,
    ClientSession,
    is_lost_session,
    lost_too_often,
    raise_refusal,
)
from strandline.adapters.rpc.logins.refusals import Refusals
from strandline.adapters.tls.channels import Link
from strandline.errors import AuthenticationFailed, OutcomeUnknown, StrandlineError
from strandline.ports import BlockingCall, Clock, Response
from strandline.security.login.conversation import check_end, next_message
from strandline.security.login.messages import LoginMessage

BlockingLink = Link[grpc.Channel]
T = TypeVar("T")


class _Cancelled(Protocol):
    def cancel(self) -> object: ...


class BlockingLogins:
    """The sessions of one transport, by link. Several threads may use it."""

    def __init__(self, login: ClientLogin, clock: Clock, refusals: Refusals) -> None:
        self._login = login
        self._refusals = refusals
        self._clock = clock
        self._sessions: WeakKeyDictionary[BlockingLink, ClientSession] = WeakKeyDictionary()
        self._changing = threading.Lock()

    def session(
        self, address: str, link: BlockingLink, on_begun: Callable[[_Cancelled], None]
    ) -> ClientSession:
        """The session of the link's connection, after a login if there is none. `on_begun` gets the login,
        which it may cancel. Raises as `TransportLogins.session`."""
        with self._changing:
            session = self._sessions.get(link)
        if session is None or self._clock.monotonic() >= session.renewed_at:
            with self._refusals.login(address, self._clock.monotonic):
                session = self._log_in(address, link, on_begun)
            with self._changing:
                self._sessions[link] = session
        return session

    def forget(self, link: BlockingLink, session: ClientSession) -> None:
        """The server no longer knows the session."""
        with self._changing:
            if self._sessions.get(link) is session:
                del self._sessions[link]

    def _log_in(
        self, address: str, link: BlockingLink, on_begun: Callable[[_Cancelled], None]
    ) -> ClientSession:
        messages = self._login.begin(self._login.secrets.in_thread())
        began = self._clock.monotonic()
        sent = SimpleQueue[bytes | None]()

        def send(message: bytes | None) -> None:
            mechanism = self._login.mechanism
            sent.put(None if message is None else AUTHENTICATE.encode(LoginMessage(mechanism, message)))

        multi: grpc.StreamStreamMultiCallable[bytes, bytes] = link.channel.stream_stream(AUTHENTICATE.path)
        call = multi(iter(sent.get, None), timeout=LOGIN_S_MAX)
        on_begun(call)
        try:
            send(next_message(messages, None))
            for received in call:
                answer = AUTHENTICATE.decode(received)
                message = next_message(messages, answer.token)
                if check_end(message, answer.session):
                    return ClientSession.of(answer, began)
                send(message)
        except grpc.RpcError:
            raise_refusal(address, call)
        finally:
            send(None)
            call.cancel()
        raise AuthenticationFailed(f"{address}: the server ended the login too early")


class LoggedInCall(Generic[Response]):
    """`BlockingCall` that begins with a login if there is no session, and is made again if that has ended."""

    def __init__(
        self,
        address: str,
        link: BlockingLink,
        logins: BlockingLogins,
        begin: Callable[[ClientSession], BlockingCall[Response]],
    ) -> None:
        """`begin` makes the call with a session."""
        self._address = address
        self._link = link
        self._logins = logins
        self._begin = begin
        self._future: Future[Response] = Future()
        self._part: _Cancelled | None = None
        threading.Thread(target=self._run, name=f"call to {address}", daemon=True).start()

    def result(self) -> Response:
        try:
            return self._future.result()
        except CancelledError as error:
            raise OutcomeUnknown(f"the call to {self._address} was cut short") from error

    def on_done(self, listener: Callable[[], None]) -> None:
        self._future.add_done_callback(lambda _: listener())

    def cancel(self) -> None:
        self._future.cancel()
        if (part := self._part) is not None:
            part.cancel()

    # --- in the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            result = self._made()
        except BaseException as error:
            if self._future.set_running_or_notify_cancel():
                self._future.set_exception(error)
        else:
            if self._future.set_running_or_notify_cancel():
                self._future.set_result(result)

    def _made(self) -> Response:
        for _ in range(LOGINS_PER_CALL_MAX):
            try:
                session = self._logins.session(self._address, self._link, self._begun)
                call = self._begin(session)
            except ValueError as error:  # gRPC's, for a channel that another thread closed
                raise OutcomeUnknown(f"the connection to {self._address} was closed") from error
            self._begun(call)
            try:
                return call.result()
            except StrandlineError as error:
                if not is_lost_session(error):
                    raise
                self._logins.forget(self._link, session)
        raise lost_too_often(self._address)

    def _begun(self, part: _Cancelled) -> None:
        self._part = part
        if self._future.cancelled():  # before `cancel` could see this part
            part.cancel()
