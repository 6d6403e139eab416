"""The settings of the console."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from strandline.config.limits import KIB, MIB
from strandline.config.security import SASL_PLAINTEXT, SASL_SSL, SSL, SecuritySettings, is_loopback
from strandline.config.services import ServiceSettings

LISTEN_DEFAULT: Final = "127.0.0.1:8088"


class ConsoleSettings(ServiceSettings, SecuritySettings):
    """A console: where it listens, whom it serves, and its limits."""

    listen: str = Field(default=LISTEN_DEFAULT, max_length=300)
    """The address for browsers, `host:port`; port 0: any free port. An address that other machines reach
    needs certificates of clients."""
    host_names: str = Field(default="", max_length=2_000)
    """Further host names under which browsers reach it, separated by commas. A request for another host is
    refused."""
    allow_changes: bool = False
    """Whether the console may change the cluster. Without it every change is refused."""
    ssl_client_auth: str = Field(default="none", pattern="^(required|none)$")
    """required: a browser has to show a certificate of `ssl_cafile`, while `security_protocol` is SSL; none:
    it may not show one."""
    allow_insecure: bool = False
    """Whether everyone who reaches the address may use the console."""

    refresh_ms: int = Field(default=1_000, ge=100, le=60_000)
    """How often the console asks for the state of the cluster."""
    connections_max: int = Field(default=256, ge=8, le=10_000)
    """Connections of browsers; further ones are refused."""
    event_streams_max: int = Field(default=64, ge=1, le=1_000)
    """Open pages that follow the cluster live; further ones have to be loaded again by hand."""
    request_bytes_max: int = Field(default=2 * MIB, ge=64 * KIB, le=16 * MIB)
    """A request with a larger body is refused."""
    request_ms_max: int = Field(default=30_000, ge=1_000)
    """How long a request may take to arrive; then its connection is closed."""
    idle_ms_max: int = Field(default=30_000, ge=1_000)
    """A connection without a request for this long is closed."""
    page_rows_max: int = Field(default=100, ge=10, le=1_000)
    """Rows of a table on one page."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        host, separator, port = self.listen.rpartition(":")
        if not (separator and host and port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise ValueError(f"listen = {self.listen!r}: write host:port, such as {LISTEN_DEFAULT}")
        if self.security_protocol in (SASL_SSL, SASL_PLAINTEXT):
            raise ValueError("security_protocol of the console is PLAINTEXT or SSL")
        if self.security_protocol == SSL and self.ssl_certfile is None:
            raise ValueError("security_protocol = SSL needs ssl_certfile and ssl_keyfile")
        if self.allow_insecure or is_loopback(host):
            return self
        if not self.authenticates:
            raise ValueError(
                f"listen = {self.listen!r}: anyone who reaches it could read the cluster. Set "
                "ssl_client_auth = required with security_protocol = SSL; or say "
                "allow_insecure = true"
            )
        return self

    @property
    def host(self) -> str:
        """The address to listen on."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    @property
    def encrypted(self) -> bool:
        """Whether it speaks HTTPS."""
        return self.security_protocol == SSL

    @property
    def authenticates(self) -> bool:
        """Whether a browser has to show who it is."""
        return self.demands_certificates

    @property
    def demands_certificates(self) -> bool:
        """Whether a browser has to show a certificate."""
        return self.encrypted and self.ssl_client_auth == "required"
