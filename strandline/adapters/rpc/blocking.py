"""Blocking gRPC calls, which another thread may cancel.

grpc.aio binds its poller to one event loop of the process. Code that must reach a peer while that
loop is blocked uses this module instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

import grpc

from strandline.adapters.rpc.logins.bearer import bearer_metadata
from strandline.adapters.rpc.logins.of_blocking import BlockingLogins, LoggedInCall
from strandline.adapters.rpc.logins.of_client import ClientLogin, ClientSession
from strandline.adapters.rpc.logins.refusals import Refusals
from strandline.adapters.rpc.transport import CHANNEL_OPTIONS, encoded
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.tls.channels import BlockingChannels
from strandline.adapters.tls.peers import PemOf, in_plaintext
from strandline.errors import OutcomeUnknown
from strandline.ports import BlockingCall, Method, Request, Response


class GrpcBlockingCall(Generic[Response]):
    """`BlockingCall` over gRPC."""

    def __init__(
        self,
        address: str,
        decode: Callable[[bytes], Response],
        call: grpc.Call,
        future: grpc.Future[bytes],
    ) -> None:
        self._address = address
        self._decode = decode
        self._call = call
        self._future = future

    def result(self) -> Response:
        try:
            data = self._future.result()
        except grpc.FutureCancelledError as error:
            raise OutcomeUnknown(f"the call to {self._address} was cut short") from error
        except grpc.RpcError as error:
            typed = error_of_call(self._call)
            if typed is not None:
                raise typed from error
            status = f"{self._call.code().name}, {self._call.details()}"
            raise OutcomeUnknown(f"no answer from {self._address}: {status}") from error
        return self._decode(data)

    def on_done(self, listener: Callable[[], None]) -> None:
        self._future.add_done_callback(lambda _: listener())

    def cancel(self) -> None:
        self._future.cancel()


class GrpcBlockingTransport:
    """`BlockingTransport` over gRPC, one channel for each address."""

    def __init__(
        self,
        pem_of: PemOf = in_plaintext,
        login: ClientLogin | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        """`login` None: calls are made without a login. `refusals` None: each is final."""
        self._channels = BlockingChannels(pem_of, CHANNEL_OPTIONS)
        self._logins = (
            None if login is None else BlockingLogins(login, SystemClock(), refusals or Refusals(0))
        )

    def begin(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> BlockingCall[Response]:
        sent = encoded(method, request)
        link = self._channels.begin(address)
        rpc: grpc.UnaryUnaryMultiCallable[bytes, bytes] = link.channel.unary_unary(method.path)

        def begin(session: ClientSession | None) -> GrpcBlockingCall[Response]:
            metadata = () if session is None else bearer_metadata(session.token)
            call = rpc.future(sent, timeout=timeout_s, metadata=metadata)
            return GrpcBlockingCall(address, method.decode, call, call)

        call = begin(None) if self._logins is None else LoggedInCall(address, link, self._logins, begin)
        call.on_done(lambda: self._channels.end(link))
        return call

    def close(self) -> None:
        self._channels.close()
