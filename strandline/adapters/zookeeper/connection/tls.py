"""TLS of connections to ZooKeeper: which files a process shows and trusts, and why a handshake failed."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.adapters.system.secret_file import refuse_readable_by_others
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError

HANDSHAKE_S_MAX: Final = 3.0
"""The limit for a TLS handshake: the first one of a server that has just started takes a second."""

ENDED_EARLY: Final = (
    "closed the encrypted connection before it answered: it may refuse the certificate of this process "
    "(zookeeper_ssl_certfile), or it does not serve yet"
)
_NO_TLS: Final = (
    "closed the connection during the TLS handshake: the port may be one for plaintext "
    "(ZooKeeper has TLS on its secureClientPort)"
)


class TlsRefused(OSError):
    """The handshake failed. The text is the reason, with the server as its subject."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The files of one process. They are read for each connection, so new ones need no restart."""

    cafile: Path | None
    certfile: Path | None
    keyfile: Path | None
    check_hostname: bool

    def context(self) -> ssl.SSLContext:
        """Raises SettingsError that names the file with which no handshake can succeed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        if self.cafile is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            try:
                context.load_verify_locations(self.cafile)
            except OSError as error:  # an SSLError is one
                raise _unusable("cafile", self.cafile, error) from error
        if self.certfile is not None and self.keyfile is not None:
            refuse_readable_by_others("setting zookeeper_ssl_keyfile =", self.keyfile)
            try:
                context.load_cert_chain(self.certfile, self.keyfile, password=_no_password)
            except OSError as error:
                raise _unusable("certfile", self.certfile, error, f" with {self.keyfile}") from error
        return context

    def wrap(self, connected: socket.socket, hostname: str) -> ssl.SSLSocket:
        """The connection with TLS; `shake_hands` is next. Raises SettingsError, and then closes it."""
        try:
            context = self.context()
            connected.settimeout(HANDSHAKE_S_MAX)
            return context.wrap_socket(connected, server_hostname=hostname, do_handshake_on_connect=False)
        except BaseException:
            connected.close()
            raise


def shake_hands(wrapped: ssl.SSLSocket) -> None:
    """Takes at most HANDSHAKE_S_MAX. Raises TlsRefused, and then closes the connection."""
    try:
        wrapped.do_handshake()
    except OSError as error:
        wrapped.close()
        raise TlsRefused(refusal_of(error)) from error


def client_tls(settings: ZooKeeperSettings) -> ClientTls | None:
    """None without `zookeeper_ssl`. Raises SettingsError for files that no handshake can use."""
    if not settings.zookeeper_ssl:
        return None
    tls = ClientTls(
        settings.zookeeper_ssl_cafile,
        settings.zookeeper_ssl_certfile,
        settings.zookeeper_ssl_keyfile,
        settings.zookeeper_ssl_check_hostname,
    )
    tls.context()
    return tls


def refusal_of(error: OSError) -> str:
    """Why TLS failed, with the server as the subject of the sentence."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"shows a certificate that is refused: {error.verify_message}"
        case ssl.SSLEOFError() | ConnectionResetError() | BrokenPipeError():
            return _NO_TLS
        case ssl.SSLError(reason=str(reason)) if "ALERT" in reason:
            alert = reason.partition("ALERT_")[2].lower().replace("_", " ")
            return f"refuses the certificate of this process (zookeeper_ssl_certfile): {alert}"
        case ssl.SSLError(reason=str(reason)):
            return f"does not speak TLS as it should: {reason.lower().replace('_', ' ')}"
        case TimeoutError():
            return f"did not finish the TLS handshake within {HANDSHAKE_S_MAX:g} s"
        case _:
            return f"broke the TLS handshake: {error}"


def _no_password() -> str:
    """OpenSSL would ask for it on the terminal."""
    raise PermissionError("the key is encrypted, and there is no setting for its password")


def _unusable(name: str, path: Path, error: OSError, beside: str = "") -> SettingsError:
    reason = (
        error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror or str(error)
    )
    said = reason.lower().replace("_", " ")
    return SettingsError(
        f"setting zookeeper_ssl_{name} = {str(path)!r}: it cannot be used{beside}: {said} "
        f"(set STRANDLINE_ZOOKEEPER_SSL_{name.upper()})"
    )
