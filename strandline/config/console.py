"""The settings of the console."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from strandline.config.limits import CONSOLE_LISTEN, KIB, MIB
from strandline.config.security import SASL_PLAINTEXT, SASL_SSL, SSL, SecuritySettings, is_loopback
from strandline.config.services.zookeeper import ServiceSettings


class ConsoleSettings(ServiceSettings, SecuritySettings):
    """A console: where it listens, whom it serves, and its limits."""

    listen: str = Field(default=CONSOLE_LISTEN, max_length=300)
    """The address for browsers, `host:port`; port 0: any free port. An address that other machines reach
    needs `login`, `token_file`, or certificates of clients."""
    host_names: str = Field(default="", max_length=2_000)
    """Further host names under which browsers reach it, separated by commas. A request for another host is
    refused."""
    allow_changes: bool = False
    """Whether the console may change the cluster. Without it every change is refused."""
    login: bool = False
    """Whether a browser has to log in as a user of the cluster, with its password (SCRAM). The cluster's ACLs
    then decide what this user sees and does."""
    token_file: Path | None = None
    """A file with a secret of at least 16 characters, which a browser has to give once. Other users must not
    be able to read it. `strandline console` makes it if it is missing."""
    ssl_client_auth: str = Field(default="none", pattern="^(required|none)$")
    """required: a browser has to show a certificate of `ssl_cafile`, while `security_protocol` is SSL; none:
    it may not show one."""
    allow_insecure: bool = False
    """Whether everyone who reaches the address may use the console, and whether passwords and tokens may come
    over a network in plaintext."""

    refresh_ms: int = Field(default=1_000, ge=100, le=60_000)
    """How often the console asks for the state of the cluster."""
    events_kept: int = Field(default=250_000, ge=10_000, le=5_000_000)
    """How many state changes, and how many events of groups, the timeline keeps in memory: about 300 bytes
    each. The oldest are dropped."""
    connections_max: int = Field(default=256, ge=8, le=10_000)
    """Connections of browsers; further ones are refused."""
    client_connections_max: int = Field(default=64, ge=8, le=10_000)
    """Connections of one address; further ones are closed. Behind a proxy all browsers have one address."""
    event_streams_max: int = Field(default=64, ge=1, le=1_000)
    """Streams by which browsers follow the cluster live; without one a page is loaded again by hand."""
    client_event_streams_max: int = Field(default=16, ge=1, le=1_000)
    """Streams to one address, so that it cannot take those of all others. Behind a proxy all browsers have
    one address."""
    request_bytes_max: int = Field(default=2 * MIB, ge=64 * KIB, le=16 * MIB)
    """A request with a larger body is refused."""
    request_ms_max: int = Field(default=30_000, ge=1_000)
    """How long a request may take to arrive; then its connection is closed."""
    page_ms_max: int = Field(default=5_000, ge=500, le=60_000)
    """How long a page may wait for the cluster; then it says that there was no answer (503). Changes are not
    bounded by it."""
    idle_ms_max: int = Field(default=30_000, ge=1_000)
    """A connection without a request for this long is closed."""
    sessions_max: int = Field(default=100, ge=1, le=10_000)
    """Browsers that are logged in. For a further one, one of the user that has most is logged out: the one
    that was away longest."""
    session_ms_max: int = Field(default=8 * 3600 * 1000, ge=10_000)
    """How long a login lasts."""
    failed_logins_per_minute_max: int = Field(default=10, ge=1, le=1_000)
    """Failed logins of one address within a minute; further ones are refused unread. All addresses together
    have ten times as many."""
    page_rows_max: int = Field(default=100, ge=10, le=1_000)
    """Rows of a table on one page."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        host, separator, port = self.listen.rpartition(":")
        if not (separator and host and port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise ValueError(f"listen = {self.listen!r}: write host:port, such as {CONSOLE_LISTEN}")
        if self.security_protocol in (SASL_SSL, SASL_PLAINTEXT):
            raise ValueError(
                "security_protocol of the console is PLAINTEXT or SSL: set login = true for logins"
            )
        if self.security_protocol == SSL and self.ssl_certfile is None:
            raise ValueError("security_protocol = SSL needs ssl_certfile and ssl_keyfile")
        if self.login and self.token_file is not None:
            raise ValueError("login and token_file: set one of them")
        if self.allow_insecure or is_loopback(host):
            return self
        if not self.authenticates:
            raise ValueError(
                f"listen = {self.listen!r}: anyone who reaches it could read the cluster. Set login, "
                "token_file, or ssl_client_auth = required with security_protocol = SSL; or say "
                "allow_insecure = true"
            )
        if self.security_protocol != SSL:
            raise ValueError(
                f"listen = {self.listen!r}: passwords and tokens would pass the network in plaintext. Set "
                "security_protocol = SSL, or say allow_insecure = true"
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
        return self.login or self.token_file is not None or self.demands_certificates

    @property
    def demands_certificates(self) -> bool:
        """Whether a browser has to show a certificate."""
        return self.encrypted and self.ssl_client_auth == "required"
