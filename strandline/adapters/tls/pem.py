"""Reads a process's certificates and its key, and checks that peers will take them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from strandline.adapters.system.file_stamp import stamp
from strandline.adapters.tls.key_pair import Identity, KeyPair, contents
from strandline.config.security import SecuritySettings
from strandline.errors import SettingsError

HTTP2: Final = "h2"
"""What gRPC's clients and servers agree on in a handshake."""
READINGS_MAX: Final = 10
"""If files change during this many readings in a row, they are not replaced in good order."""


@dataclass(frozen=True, slots=True)
class Pem:
    """The contents of the files at one moment, and Python's contexts that use them."""

    authorities: bytes | None
    """None: the system has no file of them, and gRPC takes its own."""
    identity: Identity | None
    client: ssl.SSLContext
    """Verifies servers. Shows the identity, if there is one."""
    server: ssl.SSLContext | None
    """Shows the identity, and demands a certificate of clients if this process does. None: it is a client."""


def read_pem(settings: SecuritySettings, *, demands_certificates: bool | None = None) -> Pem:
    """Read and check the files. `demands_certificates` is for a process that serves; None: it is a client.

    Raises SettingsError that names the setting. If the files are replaced meanwhile, those that are returned
    stood there together.
    """
    for _ in range(READINGS_MAX):
        before = stamps(settings)
        if demands_certificates is None:
            pem = _read_client(settings)
        else:
            pem = _read_server(settings, demands_certificates=demands_certificates)
        if stamps(settings) == before:
            return pem
    raise SettingsError(f"setting ssl_certfile: the files changed {READINGS_MAX} times while they were read")


def stamps(settings: SecuritySettings) -> tuple[object, ...]:
    """A value that is another one once a file was replaced, or has another mode. A missing file is a state
    like others."""
    pair = settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_keyfile_password_file
    return tuple(None if path is None else stamp(path) for path in (settings.ssl_cafile, *pair))


def _read_server(settings: SecuritySettings, *, demands_certificates: bool) -> Pem:
    """The files of a process that serves. As a client it shows the same certificate."""
    pair = KeyPair.of(settings)
    if pair is None:
        raise SettingsError("setting ssl_certfile: a port with SSL needs ssl_certfile and ssl_keyfile")
    authorities = _authorities(settings)
    if authorities is None:
        raise SettingsError("setting ssl_cafile: a port with SSL needs the authorities of certificates")
    trust = partial(_trust, authorities)
    identity = pair.read(trust, as_server=True, as_client=demands_certificates)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.verify_mode = ssl.CERT_REQUIRED if demands_certificates else ssl.CERT_NONE
    trust(server)
    pair.show(server)
    return Pem(authorities, identity, _client_context(authorities, pair), server)


def _read_client(settings: SecuritySettings) -> Pem:
    """The files of a client. It does not know the authorities that servers trust, so its certificate is
    examined as if it were one of them."""
    authorities, pair = _authorities(settings) or _authorities_of_system(), KeyPair.of(settings)
    identity = None if pair is None else pair.read(pair.trust, as_server=False, as_client=True)
    return Pem(authorities, identity, _client_context(authorities, pair), None)


def _client_context(authorities: bytes | None, pair: KeyPair | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols([HTTP2])
    if authorities is None:
        context.set_default_verify_paths()
    else:
        _trust(authorities, context)
    if pair is not None:
        pair.show(context)
    return context


def _authorities(settings: SecuritySettings) -> bytes | None:
    return None if settings.ssl_cafile is None else contents("ssl_cafile", settings.ssl_cafile)


def _authorities_of_system() -> bytes | None:
    """gRPC would take those that its package brings along. None: the system has no such file."""
    path = ssl.get_default_verify_paths().cafile or ""
    return contents("ssl_cafile", Path(path)) if path else None


def _trust(authorities: bytes, context: ssl.SSLContext) -> None:
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(f"setting ssl_cafile: it has no certificate in PEM format ({error})") from error
