"""Examines a certificate by a handshake of a process with itself, in memory.

So a certificate is judged by the code that judges it in a connection: its dates, its purpose and its chain.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

STEPS_MAX: Final = 20
"""A handshake takes fewer turns of the two ends."""

Trust = Callable[[ssl.SSLContext], None]
"""Has connections of a context take certificates of some authorities."""


class Unusable(Exception):
    """A peer would refuse the certificate; the message says why."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The facts about a certificate that a process shows."""

    expires_at_ms: int
    """Milliseconds since the Unix epoch."""
    hosts: frozenset[str]
    """The host names and addresses that it is for."""

    def names(self, host: str) -> bool:
        """Whether it is for this host name or address (RFC 9525: `*` stands for one label)."""
        host = host.strip("[]").lower()
        _, _, parent = host.partition(".")
        return any(_address(each) == _address(host) or each.lower() == f"*.{parent}" for each in self.hosts)


def examine(
    show: Callable[[ssl.SSLContext], None],
    trust: Trust,
    *,
    as_server: bool,
    as_client: bool,
) -> Certificate:
    """Both ends `show` the same certificate, and verify with what they `trust`.

    `as_server`, `as_client`: whose end of a connection the certificate has to be good for, at least one of
    them. Raises Unusable. No host name is compared: the one that clients use is not known here.
    """
    client, server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.check_hostname = False
    for context, verifies in ((client, as_server), (server, as_client)):
        context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
        trust(context)
        show(context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_client = client.wrap_bio(to_client, to_server)
    at_server = server.wrap_bio(to_server, to_client, server_side=True)
    try:
        _finish(at_client, at_server)
    except ssl.SSLCertVerificationError as error:
        raise Unusable(error.verify_message) from error
    except ssl.SSLError as error:
        raise Unusable(reason(error)) from error
    shown = (at_client if as_server else at_server).getpeercert()
    assert shown, "one of the ends verifies the other"
    return _certificate(shown)


def _address(host: str) -> IPv4Address | IPv6Address | str:
    """Addresses have several spellings."""
    try:
        return ip_address(host)
    except ValueError:
        return host.lower()


def reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason, for people."""
    return (error.reason or str(error)).replace("_", " ").lower()


def _finish(*ends: ssl.SSLObject) -> None:
    """Raises SSLError of the end that refuses the other."""
    waiting = set(ends)
    for _ in range(STEPS_MAX):
        for end in tuple(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.discard(end)
        if not waiting:
            return
    raise ssl.SSLError("the handshake does not end")


def _certificate(shown: Mapping[str, Any]) -> Certificate:
    names = shown.get("subjectAltName", ())
    return Certificate(
        ssl.cert_time_to_seconds(shown["notAfter"]) * 1000,
        frozenset(value for kind, value in names if kind in ("DNS", "IP Address")),
    )
