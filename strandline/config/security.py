"""The settings of encrypted connections, which clients and services share.

Names are Kafka's, with `_` for `.`.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
WITH_LOGINS: Final = frozenset({SASL_PLAINTEXT, SASL_SSL})
"""The protocols whose clients log in by name and password."""
ENCRYPTED: Final = frozenset({SSL, SASL_SSL})
"""The protocols whose servers show a certificate."""
PROTOCOL_PATTERN: Final = "^(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)$"


LOOPBACK: Final = "127.0.0.1"


class SecuritySettings(BaseModel):
    """How a process opens connections, and what it shows about itself."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    security_protocol: str = Field(default=PLAINTEXT, pattern=PROTOCOL_PATTERN)
    """PLAINTEXT, or SSL: encrypted, and the peer shows a certificate. SASL_SSL, SASL_PLAINTEXT: clients log
    in by name and password instead. Of a service: the protocol of its first listener, which the members of a
    cluster use among themselves, without logins."""
    ssl_cafile: Path | None = None
    """A PEM file with the certificates of the authorities that this process trusts; None: those of the
    system, for clients. While an authority is replaced the file has the old and the new one."""
    ssl_certfile: Path | None = None
    """A PEM file with the certificate that this process shows, followed by those between it and the
    authority."""
    ssl_keyfile: Path | None = Field(default=None, validate_default=True)
    """A PEM file with the private key of `ssl_certfile`, which other users must not be able to read."""
    ssl_keyfile_password_file: Path | None = None
    """A file with the password of `ssl_keyfile`, if it has one. It needs the extra `security`."""
    ssl_endpoint_identification_algorithm: str = "https"
    """https: the certificate of a server must name the host to which a client connects. There is no other."""
    ssl_reload_ms: int = Field(default=1_000, ge=10)
    """How often a process checks whether the files have changed; new connections use the new files."""

    @field_validator("ssl_endpoint_identification_algorithm")
    @classmethod
    def _https(cls, algorithm: str) -> str:
        if algorithm != "https":
            raise ValueError("only https is possible: host names are always verified")
        return algorithm

    @field_validator("ssl_keyfile")
    @classmethod
    def _pair(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        certificate = info.data.get("ssl_certfile", key)  # missing if it is invalid itself
        if (certificate is None) is not (key is None):
            raise ValueError("set both ssl_certfile and ssl_keyfile, or neither")
        return key


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address to listen on."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
