"""The certificate that a process shows, and its key: `ssl_certfile` and `ssl_keyfile`."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from strandline.adapters.system.secret_file import OTHERS
from strandline.adapters.tls.handshake import Certificate, Trust, Unusable, examine, reason
from strandline.config.security import SecuritySettings
from strandline.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Identity:
    """What a process shows: a certificate with those between it and the authority, and its key."""

    chain: bytes
    key: bytes
    """Not encrypted."""
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The two files, whose contents may change. Every method raises SettingsError that names the setting."""

    certfile: Path
    keyfile: Path
    password: bytes | None

    @classmethod
    def of(cls, settings: SecuritySettings) -> KeyPair | None:
        """None without these settings."""
        if settings.ssl_certfile is None or settings.ssl_keyfile is None:
            return None
        password_file = settings.ssl_keyfile_password_file
        password = None if password_file is None else contents("ssl_keyfile_password_file", password_file)
        return cls(
            settings.ssl_certfile,
            settings.ssl_keyfile,
            None if password is None else password.rstrip(b"\r\n"),
        )

    def show(self, context: ssl.SSLContext) -> None:
        """Have connections of this context show the certificate."""
        try:  # without a password OpenSSL would ask for one on the terminal
            context.load_cert_chain(self.certfile, self.keyfile, password=self.password or b"")
        except ssl.SSLError as error:
            mismatch = error.reason == "KEY_VALUES_MISMATCH"
            why = "it is another certificate's key" if mismatch else reason(error)
            raise self._refusal(f"it cannot be used with ssl_certfile = '{self.certfile}': {why}") from error
        except OSError as error:
            raise SettingsError(f"setting ssl_certfile = '{self.certfile}': {error.strerror}") from error

    def trust(self, context: ssl.SSLContext) -> None:
        """Have connections of this context take the certificate, from any issuer."""
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(self.certfile)

    def read(self, trust: Trust, *, as_server: bool, as_client: bool) -> Identity:
        """Read the files, and `examine` the certificate at a peer that trusts these authorities."""
        chain, key = contents("ssl_certfile", self.certfile), contents("ssl_keyfile", self.keyfile)
        try:
            if self.keyfile.stat().st_mode & OTHERS:
                raise self._refusal(f"other users can read it: chmod 600 '{self.keyfile}'")
            certificate = examine(self.show, trust, as_server=as_server, as_client=as_client)
        except (Unusable, OSError) as error:
            raise SettingsError(f"setting ssl_certfile = '{self.certfile}': {error}") from error
        return Identity(chain, self._decrypted(key), certificate)

    def _decrypted(self, key: bytes) -> bytes:
        """gRPC takes no encrypted key."""
        if self.password is None:
            return key
        try:
            from cryptography.hazmat.primitives import serialization
        except ImportError as error:
            raise SettingsError(
                "setting ssl_keyfile_password_file: to decrypt a key, pip install 'strandline[security]'"
            ) from error
        private = serialization.load_pem_private_key(key, self.password)
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return private.private_bytes(pem, pkcs8, serialization.NoEncryption())

    def _refusal(self, why: str) -> SettingsError:
        return SettingsError(f"setting ssl_keyfile = '{self.keyfile}': {why}")


def contents(setting: str, path: Path) -> bytes:
    """The bytes of a file that a setting names. Raises SettingsError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"setting {setting} = '{path}': {error.strerror}") from error
