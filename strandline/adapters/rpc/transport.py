"""gRPC on the client side: the options of a channel, and `Transport` on top of channels.

The options were chosen by measurement: with gRPC's defaults a client notices a restarted broker
only after seconds, and a hung one after a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic

import grpc

from strandline.adapters.asked_for import asked_for_metadata
from strandline.adapters.client_ids import client_id_metadata
from strandline.adapters.rpc.closed_channels import told_of_close
from strandline.adapters.rpc.logins.bearer import bearer_metadata
from strandline.adapters.rpc.logins.of_client import (
    LOGINS_PER_CALL_MAX,
    ClientLogin,
    ClientSession,
    is_lost_session,
    lost_too_often,
)
from strandline.adapters.rpc.logins.of_transport import TransportLogins
from strandline.adapters.rpc.logins.refusals import Refusals
from strandline.adapters.rpc.member_key import key_metadata
from strandline.adapters.rpc.wire_errors import error_of_call, never_sent
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.tls.channels import CONNECT_S_MAX, Channels, Link
from strandline.adapters.tls.peers import PemOf, in_plaintext
from strandline.config.limits import ANSWER_BYTES_MAX
from strandline.errors import (
    AuthenticationFailed,
    BrokerNotAvailable,
    InvalidRequest,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.host import ShownKey
from strandline.ports import CallUnknown, Method, Request, Response, Stream, StreamEnded, StreamOver

CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    # The limit for an attempt; it delays none.
    ("grpc.min_reconnect_backoff_ms", round(CONNECT_S_MAX * 1_000)),
    # A hung peer is detected within about a second: the ping's own timeout decides that.
    ("grpc.keepalive_time_ms", 1_000),
    ("grpc.keepalive_timeout_ms", 500),
    ("grpc.http2.ping_timeout_ms", 500),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    # Each client has its own connections, so that one client's hung call never delays another's.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


def encoded(method: Method[Request, Response], request: Request) -> bytes:
    """The bytes of a request. Raises InvalidRequest for values that no message can carry.

    gRPC must not encode it: it would only log the error and send an empty message.
    """
    try:
        return method.encode(request)
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"{method.path} cannot be sent: {error}") from error


class GrpcStream(Generic[Request, Response]):
    """A bidirectional call as a `Stream`."""

    def __init__(
        self,
        address: str,
        method: Method[Request, Response],
        call: grpc.aio.StreamStreamCall[bytes, bytes],
        lost_session: Callable[[], None] | None = None,
    ) -> None:
        """`lost_session` is called if the stream ended with the session that it showed; None: it showed
        none."""
        self._address = address
        self._method = method
        self._call = call
        self._lost_session = lost_session

    async def write(self, request: Request) -> None:
        sent = encoded(self._method, request)
        try:
            await self._call.write(sent)
        except grpc.aio.AioRpcError as error:
            if not isinstance(failure := self._translated(error), StreamOver):
                raise failure from error
        except asyncio.InvalidStateError as error:
            if self._lost_session is None or await self._call.code() is not grpc.StatusCode.UNAUTHENTICATED:
                raise OutcomeUnknown(f"the stream to {self._address} has ended") from error

    async def read(self) -> Response:
        try:
            received = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self._translated(error) from error
        except asyncio.CancelledError as error:
            raise told_of_close(error, f"the stream to {self._address}") from None
        if not isinstance(received, bytes):
            assert received is grpc.aio.EOF
            raise StreamEnded(f"{self._address} ended the stream")
        return self._method.decode(received)

    async def finish(self) -> None:
        try:
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # it has already ended
        await self._call.code()

    def close(self) -> None:
        self._call.cancel()

    def _translated(self, error: grpc.aio.AioRpcError) -> StrandlineError:
        translated = _translated(self._address, error)
        if self._lost_session is None or not is_lost_session(translated):
            return translated
        self._lost_session()
        return StreamOver(f"the login of a stream to {self._address} has ended")


class GrpcTransport:
    """`Transport` over gRPC, one channel for each address. Each call shows the key that `key` returns, or the
    session of a login."""

    def __init__(
        self,
        key: ShownKey | None = None,
        pem_of: PemOf = in_plaintext,
        *,
        refused_is_fatal: bool = True,
        login: ClientLogin | None = None,
        client_id: str = "",
        refusals: Refusals | None = None,
    ) -> None:
        """`login` None: calls are made without a login. A server that refuses this process raises
        AuthenticationFailed, or RefusedForNow as `refusals` judges; None: each is final. Without
        `refused_is_fatal` it raises BrokerNotAvailable with that reason: a member of a cluster tries again,
        as certificates are replaced while it runs."""
        self._key = key
        self._client_id = client_id_metadata(client_id)
        self._channels = Channels(pem_of, CHANNEL_OPTIONS)
        self._is_closed = False
        self._refused_is_fatal = refused_is_fatal
        self._clock = SystemClock()
        self._refusals = refusals or Refusals(0)
        self._logins = None if login is None else TransportLogins(login, self._clock, self._refusals)

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        # gRPC does not decode either: it would swallow the error of an answer.
        sent = encoded(method, request)
        link = await self._connected(address, timeout_s)
        multi: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = link.channel.unary_unary(method.path)
        link.begin()
        try:
            received = await self._logged_in(address, link, partial(multi, sent, timeout=timeout_s))
        finally:
            link.end()
        return method.decode(received)

    async def _logged_in(
        self, address: str, link: Link[grpc.aio.Channel], call: Callable[..., Awaitable[bytes]]
    ) -> bytes:
        """The answer to a call, which is repeated after a login if its session has ended."""
        for _ in range(LOGINS_PER_CALL_MAX):
            session = await self._session(address, link)
            try:
                return await call(metadata=(*self._metadata(session), *asked_for_metadata()))
            except asyncio.CancelledError as error:
                raise told_of_close(error, f"the connection to {address}") from None
            except grpc.aio.AioRpcError as error:
                failure = _translated(address, error)
                if self._logins is None or session is None or not is_lost_session(failure):
                    raise failure from error
                self._logins.forget(link, session)
        raise lost_too_often(address)

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        link = await self._connected(address, timeout_s)
        multi: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = link.channel.stream_stream(method.path)
        logins, session = self._logins, await self._session(address, link)
        call = multi(metadata=self._metadata(session))
        link.begin()
        call.add_done_callback(lambda _: link.end())
        lost = None if logins is None or session is None else partial(logins.forget, link, session)
        return GrpcStream(address, method, call, lost)

    async def close(self) -> None:
        """Calls that are under way raise OutcomeUnknown, later ones InvalidRequest."""
        self._is_closed = True
        await self._channels.close()

    async def _session(self, address: str, link: Link[grpc.aio.Channel]) -> ClientSession | None:
        return None if self._logins is None else await self._logins.session(address, link)

    def _metadata(self, session: ClientSession | None) -> tuple[tuple[str, str | bytes], ...]:
        if session is not None:
            return (*bearer_metadata(session.token), *self._client_id)
        return (*key_metadata(None if self._key is None else self._key()), *self._client_id)

    async def _connected(self, address: str, timeout_s: float) -> Link[grpc.aio.Channel]:
        """The link, once it is connected. A request is sent only then, so that a failure to
        connect is known to have done nothing. The connection may be lost again before this is
        noticed: see `never_sent`."""
        self._check_open()
        link = await self._channels.link(address)
        channel = link.channel
        try:
            async with asyncio.timeout(timeout_s):
                while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
                    if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        link.fails(self._clock.monotonic())
                        raise await self._unreachable(address, link)
                    link.connects(self._clock.monotonic())
                    await channel.wait_for_state_change(state)
                    self._check_open()
        except TimeoutError:
            raise BrokerNotAvailable(f"no connection to {address} within {timeout_s:.1f} s") from None
        link.is_connected()
        if self._logins is None:
            self._refusals.let_in(address)
        return link

    def _check_open(self) -> None:
        """A call on another channel would outlive its client."""
        if self._is_closed:
            raise InvalidRequest("this client has been stopped")

    async def _unreachable(self, address: str, link: Link[grpc.aio.Channel]) -> StrandlineError:
        why = await self._channels.why_refused(address, wait_s=link.look_s_max)
        if why is None:
            return BrokerNotAvailable(f"{address} is unreachable from here")
        if self._refused_is_fatal:
            refused = AuthenticationFailed(f"{address}: {why}")
            return self._refusals.judged(address, refused, self._clock.monotonic())
        return BrokerNotAvailable(f"{address}: {why}")


def _translated(address: str, error: grpc.aio.AioRpcError) -> StrandlineError:
    typed = error_of_call(error)
    if typed is not None:
        return typed
    if never_sent(error):
        return BrokerNotAvailable(f"{address} is unreachable from here")
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return CallUnknown(f"{address} does not have this call: it may be of an earlier version")
    return OutcomeUnknown(f"no answer from {address}: {error.code().name}, {error.details()}")
