"""What brokers and controllers have in common: their ports, and the limits for connections."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from strandline.config.authorization import AuthorizationSettings
from strandline.config.limits import KIB
from strandline.config.metrics import MetricsSettings
from strandline.config.sasl import SaslSettings, check_mechanisms
from strandline.config.security import (
    LOOPBACK,
    PROTOCOL_PATTERN,
    SASL_PLAINTEXT,
    SSL,
    WITH_LOGINS,
    SecuritySettings,
    is_loopback,
)
from strandline.config.services.zookeeper import ZooKeeperSettings


class ListenerSettings(
    ZooKeeperSettings, SecuritySettings, AuthorizationSettings, MetricsSettings, SaslSettings
):
    """The addresses on which a broker or a controller listens, and the limits for its connections."""

    PORTS: ClassVar[tuple[str, ...]] = ("port", "external_port")
    """The settings of the ports that callers use."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=0, ge=0, le=65535)
    """0: any free port."""
    advertised_host: str | None = None
    """The host name under which clients and other brokers reach this process; None: `host`."""
    advertised_port: int | None = Field(default=None, ge=1, le=65535)
    external_port: int | None = Field(default=None, ge=0, le=65535)
    """A second port, for clients in another network; None: no such listener. These clients receive
    external addresses."""
    external_host: str = "localhost"
    """The host name under which clients of the external port reach this process."""
    external_security_protocol: str | None = Field(default=None, pattern=PROTOCOL_PATTERN)
    """The protocol of the external port; None: `security_protocol`."""
    ssl_client_auth: str = Field(default="required", pattern="^(required|none)$")
    """required: a client of a port with SSL has to show a certificate of `ssl_cafile`; none: it may not show
    one. A port can not leave it to its clients."""
    ssl_principal_mapping_rules: str = "DEFAULT"
    """How the subject of a client's certificate becomes its principal, in Kafka's language:
    `RULE:^CN=(.*?),.*$/$1/L,DEFAULT`."""
    handshake_timeout_ms: int = Field(default=5_000, ge=100)
    """A connection that has not become an HTTP/2 connection within this time is closed."""
    connection_calls_max: int = Field(default=1_000, ge=1)
    """Concurrent calls and streams of one connection; further ones wait at the client."""
    calls_max: int = Field(default=10_000, ge=10)
    """Concurrent calls and streams of all connections to a listener; further ones are refused."""
    client_calls_max: int = Field(default=5_000, ge=1)
    """Concurrent calls and streams of one address, over all its connections; further ones are refused with a
    retriable error."""
    call_headers_bytes_max: int = Field(default=8 * KIB, ge=1 * KIB)
    """A call with larger headers is refused."""
    quota_delay_ms_max: int = Field(default=5_000, ge=1, le=8_000)
    """The longest time for which a client that is over its quota waits at once. What would take longer to pay
    for is forgiven, so this bounds how many requests a second a quota can hold back. It has to be shorter
    than the `request_timeout_ms` of clients (10,000), which give up an answer that is later."""

    audit_log: str = ""
    """A file for the audit log, which only its owner may read, or `-` for standard error; empty: there is no
    audit log."""

    mixed_security_protocols: bool = False
    """Whether this process speaks PLAINTEXT and SSL to other members, to each as its registration says. It is
    for the time in which `security_protocol` changes from member to member."""
    allow_insecure: bool = False
    """Whether ports may be open to other machines without certificates or logins of clients: every caller
    that reaches them can then read, write and delete everything, unless ACLs forbid it. Also whether members
    of the cluster may send their key to another machine without encryption: with `security_protocol`
    SASL_PLAINTEXT, everyone who can read their network can then do what a member can."""

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        check_mechanisms(self, self._protocol_of_ports())
        return self

    def _protocol_of_ports(self) -> dict[str, str]:
        """By the setting of each port that there is."""
        return {port: self.protocol_of(port) for port in self.PORTS if getattr(self, port) is not None}

    def protocols(self) -> set[str]:
        """The protocols of all ports."""
        return set(self._protocol_of_ports().values())

    def open_ports(self) -> list[str]:
        """The settings of ports that other machines may use without showing who they are."""
        if self.allow_insecure or is_loopback(self.host):
            return []
        names_callers = WITH_LOGINS | ({SSL} if self.ssl_client_auth == "required" else set())
        return [port for port, protocol in self._protocol_of_ports().items() if protocol not in names_callers]

    @property
    def exposes_key(self) -> bool:
        """Whether members of the cluster would send their key to this process over a network in plaintext.
        They use `port` and `replication_port`, which have one protocol."""
        if self.allow_insecure or is_loopback(self.host):
            return False
        return self.security_protocol == SASL_PLAINTEXT

    @property
    def metrics_demand_certificates(self) -> bool:
        """Whether a client of the metrics' port has to show a certificate."""
        return self.metrics_ssl and self.metrics_token_file is None and self.ssl_client_auth == "required"

    @property
    def metrics_for_all(self) -> bool:
        """Whether everyone who reaches the metrics' port may read them."""
        return self.metrics_token_file is None and not self.metrics_demand_certificates

    @property
    def metrics_address(self) -> str:
        """The host on which metrics are served."""
        if self.metrics_host is not None:
            return self.metrics_host
        return LOOPBACK if self.metrics_for_all and not is_loopback(self.host) else self.host

    def protocol_of(self, port: str) -> str:
        """The protocol of a port, which is named by its setting."""
        own = self.external_security_protocol if port == "external_port" else None
        return own or self.security_protocol

    def has_logins(self, port: str) -> bool:
        """Whether the clients of a port have to log in."""
        return self.protocol_of(port) in WITH_LOGINS
