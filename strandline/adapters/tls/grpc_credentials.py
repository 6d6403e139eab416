"""Opens gRPC's channels and ports, in plaintext or encrypted: the only module that does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc

from strandline.adapters.tls.pem import Pem
from strandline.adapters.tls.reloaded import ReloadedPem

Options = Sequence[tuple[str, int | str]]


def open_channel(address: str, pem: Pem | None, options: Options) -> grpc.aio.Channel:
    """A channel to `host:port`, which connects on first use. None: in plaintext."""
    if pem is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, _channel_credentials(pem), options=options)


def open_blocking_channel(address: str, pem: Pem | None, options: Options) -> grpc.Channel:
    """The same for calls that block."""
    if pem is None:
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address, _channel_credentials(pem), options=options)


def add_port(server: grpc.aio.Server, address: str, pem: ReloadedPem | None) -> int:
    """Have a server listen; returns the port. None: in plaintext. Raises RuntimeError if it cannot."""
    if pem is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, _server_credentials(pem))


def _channel_credentials(pem: Pem) -> grpc.ChannelCredentials:
    identity = pem.identity
    if identity is None:
        return grpc.ssl_channel_credentials(pem.authorities)
    return grpc.ssl_channel_credentials(pem.authorities, identity.key, identity.chain)


def _server_credentials(pem: ReloadedPem) -> grpc.ServerCredentials:
    first = last = pem.now()

    def newer() -> grpc.ServerCertificateConfiguration | None:
        """gRPC asks at each handshake, in one of its threads. None: nothing has changed.

        For any other answer gRPC frees what it had, which handshakes of other threads may be about to use: a
        process that gave one each time crashed within a few hundred bad handshakes.
        """
        nonlocal last
        now = pem.now()
        if now is last:
            return None
        last = now
        return _configuration(now)

    fetch: Any = newer  # gRPC's stubs do not know that None is an answer
    return grpc.dynamic_ssl_server_credentials(
        _configuration(first), fetch, require_client_authentication=pem.demands_certificates
    )


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    identity = pem.identity
    assert identity is not None, "a process that serves has a certificate"
    return grpc.ssl_server_certificate_configuration([(identity.key, identity.chain)], pem.authorities)
