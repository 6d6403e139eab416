"""The settings of brokers and controllers, and of all that speaks to ZooKeeper.

`strandline.config.load` reads them from the environment and a file too.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from strandline.config.authorization import AuthorizationSettings
from strandline.config.limits import (
    GROUP_REQUEST_ELEMENTS_MAX,
    KIB,
    MIB,
    MULTI_BYTES_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    PRODUCER_EXPIRY_MS,
    PRODUCERS_PER_PARTITION_MAX,
    REASSIGNMENT_NEAR_BYTES,
    RECORDS_BYTES_MAX,
    REPLICAS_PER_BROKER_MAX,
    STATE_QUEUE_ENTRIES_MAX,
    TASK_CHANGES_SENT_MAX,
)
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


class ServiceSettings(BaseModel):
    """How a service writes its log."""

    # A process builds the validators of the one class that it uses.
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    log_format: str = Field(default="json", pattern="^(json|console)$")
    """json: one object a line; console: lines for people, with colours on a terminal."""
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")


class ZooKeeperSettings(ServiceSettings):
    """How to reach ZooKeeper."""

    zookeeper: str = "127.0.0.1:2181"
    """host:port, several with commas, a chroot at the end if wanted."""
    zookeeper_session_timeout_ms: int = Field(default=3_000, ge=500, le=120_000)
    zookeeper_reconnect_delay_max_ms: int = Field(default=300, ge=10)
    zookeeper_ssl: bool = False
    """Whether connections to ZooKeeper are encrypted; the server then has to show a certificate."""
    zookeeper_ssl_cafile: Path | None = None
    """A PEM file with the authorities whose certificates ZooKeeper may show; None: those of the system."""
    zookeeper_ssl_certfile: Path | None = None
    """A PEM file with the certificate that this process shows to ZooKeeper, and those between it and its
    authority; None: it shows none."""
    zookeeper_ssl_keyfile: Path | None = Field(default=None, validate_default=True)
    """A PEM file with the key of that certificate, in PKCS#8 and without a password; other users must not be
    able to read it."""
    zookeeper_ssl_check_hostname: bool = True
    """Whether the certificate of a server has to name the host under which `zookeeper` has it."""
    zookeeper_auth_scheme: str = Field(default="none", pattern="^(none|digest|x509)$")
    """How ZooKeeper knows this process: digest, by a name and a password; x509, by `zookeeper_ssl_certfile`;
    none, not at all."""
    zookeeper_auth_file: Path | None = Field(default=None, validate_default=True)
    """For digest: a file with a line `name:password`, which other users must not be able to read. Further
    lines are identities that this process has besides, while a password is replaced."""
    zookeeper_auth_plaintext: bool = False
    """Whether digest may send its password to another machine without `zookeeper_ssl`."""
    zookeeper_x509_ids: str = ""
    """For x509, the identities that get access to the znodes that this process creates, separated by
    semicolons; empty: the one of this process. Every broker and controller needs access."""
    zookeeper_set_acl: bool = Field(default=False, validate_default=True)
    """Whether znodes that this process creates are for the identity of the cluster only. Otherwise everyone
    who reaches ZooKeeper may read, change and delete them."""

    @field_validator("zookeeper_ssl_cafile", "zookeeper_ssl_certfile")
    @classmethod
    def _encrypted(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None and not info.data.get("zookeeper_ssl", True):  # missing if it is invalid itself
            raise ValueError("needs zookeeper_ssl = true: without it the connection is not encrypted")
        return file

    @field_validator("zookeeper_ssl_keyfile")
    @classmethod
    def _zookeeper_pair(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if (info.data.get("zookeeper_ssl_certfile", key) is None) is not (key is None):
            raise ValueError("set both zookeeper_ssl_certfile and zookeeper_ssl_keyfile, or neither")
        return key

    @field_validator("zookeeper_auth_scheme")
    @classmethod
    def _certified(cls, scheme: str, info: ValidationInfo) -> str:
        if scheme == "x509" and info.data.get("zookeeper_ssl_certfile", scheme) is None:
            raise ValueError("x509 needs zookeeper_ssl_certfile, the certificate that ZooKeeper knows it by")
        return scheme

    @field_validator("zookeeper_auth_file")
    @classmethod
    def _for_digest(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        scheme = info.data.get("zookeeper_auth_scheme")
        if scheme is not None and (scheme == "digest") is (file is None):
            raise ValueError("set zookeeper_auth_scheme = digest and zookeeper_auth_file together")
        return file

    @field_validator("zookeeper_set_acl")
    @classmethod
    def _by_an_identity(cls, set_acl: bool, info: ValidationInfo) -> bool:
        if set_acl and info.data.get("zookeeper_auth_scheme") == "none":
            raise ValueError(
                "needs zookeeper_auth_scheme: without it nobody could read what this process creates"
            )
        return set_acl


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
    quota_delay_ms_max: int = Field(default=5_000, ge=1, le=60_000)
    """The longest time for which a client that is over its quota waits at once. What would take longer to pay
    for is forgiven, so this bounds how many requests a second a quota can hold back."""

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


SILENCES_APART_MS: Final = 100
"""How much longer a leader waits for its followers than they wait for it: they look ten times a second."""


class BrokerSettings(ListenerSettings):
    """One broker."""

    PORTS: ClassVar[tuple[str, ...]] = (
        *ListenerSettings.PORTS, "replication_port", "kafka_port", "kafka_external_port",
    )  # fmt: skip

    broker_id: int = Field(ge=0, le=2**31 - 1)
    data_dir: Path
    rack: str = ""

    # replication
    keep_in_sync_ms: int = Field(default=2_000, ge=10)
    """KeepInSyncTime: how long a member of the ISR may stay behind before it is removed (Kafka's
    replication design V3)."""
    leader_silence_ms: int = Field(default=600, ge=600)
    """How long a follower may hear nothing of its leader before it asks the other brokers; if most of those
    that should hear it do not, the leader is replaced. Above `zookeeper_session_timeout_ms`, its session
    decides."""
    follower_silence_ms: int = Field(default=800, ge=500, validate_default=True)
    """How long a member of the ISR may leave its leader's messages unanswered, without any sign of life,
    before it is removed. A member that is slow but answers has `keep_in_sync_ms`. On slow links it has to be
    longer than a message of `push_bytes_max` takes, and longer than `leader_silence_ms` by 100 at least, so
    that followers of a leader that is cut off can replace it before it takes them out of the ISR."""
    replication_port: int | None = Field(default=None, ge=0, le=65535)
    """A port of `host` at which followers fetch by streams of frames, which cost a fraction of gRPC's; its
    protocol is `security_protocol`. 0: any free port, unless `advertised_port` is set and
    `replication_advertised_port` is not. None, or if a follower cannot reach it: they fetch at `port`."""
    replication_advertised_port: int | None = Field(default=None, ge=1, le=65535)
    """The port of `advertised_host` at which followers reach `replication_port`; None: the same number."""
    push_window: int = Field(default=2, ge=1, le=64)
    """Messages on a replication stream that the follower has not yet acknowledged."""
    push_bytes_max: int = Field(default=RECORDS_BYTES_MAX, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    watermark_push_delay_ms: int = Field(default=5, ge=0)
    """How long a new HW waits for records to be sent with, before it is sent alone."""
    watermark_checkpoint_ms: int = Field(default=5_000, ge=10)
    commit_queue_entries_max: int = Field(default=20_000, ge=1)
    """Requests that may wait for one partition's HW; further ones are refused with a retriable error."""
    session_margin_ms: int = Field(default=500, ge=0)
    """A leader that is cut off from ZooKeeper stops serving acks=0/1 this long before its session
    could expire (E1)."""
    election_step_ms: int = Field(default=150, ge=1)
    """Each rank in the order of succession waits this much longer than the rank before it, so that
    candidates do not all act at once."""
    probe_timeout_ms: int = Field(default=200, ge=1)
    """Timeout of the TCP probe that distinguishes a dead leader from a broken stream."""
    reconcile_ms: int = Field(default=5_000, ge=50)
    """How often a broker compares its state with ZooKeeper."""
    preferred_leader_check_ms: int = Field(default=30_000, ge=50)
    """How often a leader that is not the first assigned replica checks whether the first one can
    lead again. That replica must have been in sync for this long."""
    reassignment_bytes_per_s: int = Field(default=0, ge=0)
    """The rate at which a leader sends to replicas that a reassignment adds, over all partitions;
    0: no limit. Members of the ISR, and replicas that are nearly caught up, are never slowed down."""
    reassignment_incoming_bytes_per_s: int = Field(default=0, ge=0)
    """The rate at which this broker takes records of replicas that reassignments add to it, from all
    leaders together; 0: no limit. It holds as `reassignment_bytes_per_s` does, and on top of it."""
    reassignment_close_ms: int = Field(default=30_000, ge=1)
    """How long a replica that a reassignment removes may continue to fetch after it was asked to
    close. Then the leader completes the reassignment without it, and reports this."""
    reassignment_near_bytes: int = Field(default=REASSIGNMENT_NEAR_BYTES, ge=0)
    """A replica that is closer than this to the end of the log is not throttled."""
    refill_bytes_per_s: int = Field(default=0, ge=0)
    """The rate at which a leader sends to replicas that refill, over all partitions; 0: no limit. A replica
    refills if it is not in sync and no reassignment adds it: its disk is empty, or its broker was away for
    long. The rate has to be above that of the writes."""
    fetcher_retry_ms: int = Field(default=50, ge=1)
    handover_ms: int = Field(default=5_000, ge=0)
    """How long a clean shutdown may take to hand its leaderships over, even if ZooKeeper does not
    answer. Then it closes its logs."""

    # serving
    fetch_wait_ms_max: int = Field(default=30_000, ge=0)
    produce_timeout_ms_max: int = Field(default=60_000, ge=1)
    metadata_wait_ms_max: int = Field(default=10_000, ge=0)
    produce_entries_in_flight_max: int = Field(default=2_000, ge=1)
    """Unanswered entries of one produce stream; at this limit the stream is not read."""
    fetches_in_flight_max: int = Field(default=16, ge=1)
    """Unanswered requests of one fetch stream; at this limit the stream is not read."""
    fetch_connection_bytes_max: int = Field(default=16 * MIB, ge=RECORDS_BYTES_MAX)
    """Fetched bytes of one connection that were read from disk and not yet written to the connection."""
    fetch_bytes_max: int = Field(default=128 * MIB, ge=RECORDS_BYTES_MAX)
    """The same over all connections. Up to twice this limit, a connection that has no fetched bytes
    may read one answer."""
    fetch_connection_partitions_max: int = Field(default=100_000, ge=20_000)
    """Partitions in unanswered fetches of one connection; at this limit its streams are not read."""
    fetch_partitions_max: int = Field(default=500_000, ge=20_000)
    """The same over all connections."""
    leader_waits_max: int = Field(default=100_000, ge=1)
    """Partitions whose next leader clients wait for; further requests are answered at once."""
    list_offsets_ms_max: int = Field(default=5_000, ge=1)
    """Time for all partitions of one ListOffsets; the remaining partitions are then refused with a
    retriable error."""
    metadata_age_ms_max: int = Field(default=500, ge=0)
    """How old a broker's metadata of partitions that it does not host may be. Metadata of a topic
    that takes long to read is used for ten times that long, at most 5 s."""
    metadata_read_ms_max: int = Field(default=2_000, ge=1)
    """How long a client's metadata request waits for ZooKeeper; then the broker answers from its
    last reading."""

    # metrics
    metrics_partitions_max: int = Field(default=3_000, ge=0, le=REPLICAS_PER_BROKER_MAX)
    """Replicas of this broker with series of their own in its metrics, and offsets of groups with one. Each
    led partition has eleven, another replica four."""

    # groups
    offsets_topic_partitions: int = Field(default=12, ge=1, le=1_000)
    """Partitions of `__consumer_offsets`, when it is created."""
    offsets_topic_replication_factor: int = Field(default=3, ge=1, le=100)
    """If fewer brokers are alive when it is created: the number of live brokers."""
    group_initial_rebalance_delay_ms: int = Field(default=200, ge=0)
    """An empty group waits this long for more members before its first generation."""
    group_session_timeout_ms_min: int = Field(default=500, ge=1)
    group_session_timeout_ms_max: int = Field(default=1_800_000, ge=1)
    group_rebalance_timeout_ms_max: int = Field(default=1_800_000, ge=1)
    group_members_max: int = Field(default=2_000, ge=1)
    group_member_bytes_max: int = Field(default=512 * KIB, ge=1)
    """Metadata of one member over all its protocols, and one member's assignment."""
    groups_max: int = Field(default=100_000, ge=1)
    """Groups of one coordinator partition."""
    group_state_bytes_max: int = Field(default=64 * MIB, ge=64 * KIB)
    """Memory of one coordinator partition for its groups: members, offsets, reported ownership."""
    offset_metadata_bytes_max: int = Field(default=4 * KIB, ge=0)
    offsets_per_commit_max: int = Field(default=10_000, ge=1, le=GROUP_REQUEST_ELEMENTS_MAX)
    task_changes_per_report_max: int = Field(default=1_000, ge=TASK_CHANGES_SENT_MAX)
    offsets_retention_ms: int = Field(default=7 * 24 * 3600 * 1000, ge=1)
    """The offsets of a group without members, and then the group itself, are deleted after this time."""
    offsets_expiry_check_ms: int = Field(default=60_000, ge=10)
    group_append_timeout_ms: int = Field(default=5_000, ge=1)
    """How long a coordinator's record may wait for the high watermark."""
    group_events_topic_partitions: int = Field(default=1, ge=1, le=1_000)
    """Partitions of `__group_events`, when it is created; all events of one group are in one of them."""
    events_waiting_max: int = Field(default=20_000, ge=1)
    """Events that wait to be written to an internal topic; beyond it the oldest are dropped and counted."""

    # the record of state changes
    state_changes_topic_partitions: int = Field(default=1, ge=1, le=1_000)
    """Partitions of `__state_changes`, when it is created. All events of one partition are in the
    same one."""
    state_changes_topic_replication_factor: int = Field(default=3, ge=1, le=100)
    """If fewer brokers are alive when it is created: the number of live brokers."""
    isr_trail_events_max: int = Field(default=16, ge=1, le=256)
    """Events that a partition's `isr` znode keeps until `__state_changes` has them."""

    # Kafka clients
    kafka_port: int | None = Field(default=None, ge=0, le=65535)
    """A port of `host` that speaks Kafka's protocol; 0: any free port; None: no such port."""
    kafka_advertised_host: str | None = None
    """The host name under which Kafka clients reach this broker; None: `advertised_host`, else `host`."""
    kafka_advertised_port: int | None = Field(default=None, ge=1, le=65535)
    """The port at which they reach `kafka_port`; None: the same number."""
    kafka_external_port: int | None = Field(default=None, ge=0, le=65535)
    """A second port for Kafka clients, in another network; None: no such port. It needs `kafka_port`."""
    kafka_external_host: str = "localhost"
    """The host name under which Kafka clients of the external port reach this broker."""
    kafka_security_protocol: str | None = Field(default=None, pattern=PROTOCOL_PATTERN)
    """The protocol of `kafka_port`; None: `security_protocol`. With SASL_PLAINTEXT and SASL_SSL, clients have
    to log in."""
    kafka_external_security_protocol: str | None = Field(default=None, pattern=PROTOCOL_PATTERN)
    """The protocol of `kafka_external_port`; None: that of `kafka_port`."""
    kafka_auto_create_topics: bool = True
    """Whether a Kafka client that asks for the metadata of an unknown topic has it created, as with Kafka."""
    kafka_auto_create_topics_per_minute_max: int = Field(default=1_000, ge=1)
    """Topics that this broker has created on demand within a minute; clients ask again for further ones."""
    num_partitions: int = Field(default=1, ge=1, le=PARTITIONS_PER_TOPIC_MAX)
    """Partitions of a topic for which a Kafka client gives no number."""
    default_replication_factor: int = Field(default=3, ge=1, le=100)
    """Replicas of such a topic. If fewer brokers are alive when it is created: the number of live brokers."""
    kafka_request_bytes_max: int = Field(default=16 * MIB, ge=1 * MIB, le=64 * MIB)
    """A connection that announces a larger request is closed."""
    kafka_receiving_bytes_max: int = Field(default=256 * MIB, ge=64 * MIB)
    """Memory for requests that arrive, wait or are in progress, over all connections; at this limit none is
    read."""
    kafka_requests_in_flight_max: int = Field(default=64, ge=1)
    """Unanswered requests of one connection; at this limit it is not read. Only Produce has several."""
    kafka_fetch_bytes_max: int = Field(default=8 * MIB, ge=RECORDS_BYTES_MAX)
    """Records in one answer to a Kafka client; more if the first batch is larger."""
    kafka_connections_max: int = Field(default=5_000, ge=1)
    """Further connections are closed at once. With few descriptors, the limit is a quarter of them."""
    kafka_client_connections_max: int = Field(default=1_000, ge=1)
    """Connections from one address."""
    kafka_idle_ms_max: int = Field(default=600_000, ge=100)
    """A connection that sends no request for this long, or leaves answers unread for it, is closed."""
    kafka_frame_ms_max: int = Field(default=30_000, ge=100)
    """How long one request may take to arrive; then the connection is closed."""
    kafka_write_ms_max: int = Field(default=30_000, ge=100)
    """A client that reads nothing of its answers for this long is disconnected."""

    # storage
    retention_check_ms: int = Field(default=60_000, ge=50)
    compaction_check_ms: int = Field(default=15_000, ge=50)
    """How often a broker checks which logs are worth compacting."""
    compaction_map_bytes: int = Field(default=128 * MIB, ge=1 * KIB)
    """Memory for the keys of the log that is being compacted; a log with more keys takes several passes."""
    flush_check_ms: int = Field(default=1_000, ge=10)
    producer_expiry_ms: int = Field(default=PRODUCER_EXPIRY_MS, ge=1)
    producers_per_partition_max: int = Field(default=PRODUCERS_PER_PARTITION_MAX, ge=1)
    trace_every: int = Field(default=0, ge=0)
    """Each step of the way of every Nth record of a partition (offsets 0, N, 2N…) is a line of the log, and
    `strandline log trace` shows it; 0: of no record."""
    boot_id_file: Path = Path("/proc/sys/kernel/random/boot_id")
    """Identifies the running kernel: after a reboot the page cache is lost (CORRECTNESS E2)."""
    crash_points: str = ""
    """Tests only: named points at which this process dies or fails, `name` or `name:nth`, comma-separated."""

    @field_validator("follower_silence_ms")
    @classmethod
    def _leaves_followers_time(cls, silence_ms: int, info: ValidationInfo) -> int:
        leader_ms = info.data.get("leader_silence_ms", 0)
        session_ms = info.data.get("zookeeper_session_timeout_ms", 0)
        ms_min = leader_ms + SILENCES_APART_MS
        if silence_ms < ms_min and leader_ms < session_ms:
            why = "a leader that is cut off would remove its followers before they can replace it"
            raise ValueError(f"raise it to {ms_min}, or lower leader_silence_ms = {leader_ms}: {why}")
        return silence_ms

    @field_validator("replication_advertised_port", "kafka_advertised_port", "kafka_external_port")
    @classmethod
    def _beside_another(cls, port: int | None, info: ValidationInfo) -> int | None:
        needed = "kafka_port" if str(info.field_name).startswith("kafka_") else "replication_port"
        if port is not None and info.data.get(needed, 0) is None:  # missing if it is invalid itself
            raise ValueError(f"needs {needed} too: set both, or neither")
        return port

    def protocol_of(self, port: str) -> str:
        match port:
            case "kafka_port":
                return self.kafka_security_protocol or self.security_protocol
            case "kafka_external_port":
                return self.kafka_external_security_protocol or self.protocol_of("kafka_port")
            case _:
                return super().protocol_of(port)


class ControllerSettings(ListenerSettings):
    """One controller."""

    controller_id: int = Field(default=0, ge=0)
    reconcile_ms: int = Field(default=5_000, ge=50)
    """How often the active controller confirms that it is still active, and resumes unfinished deletions."""
    standby_poll_ms: int = Field(default=250, ge=10)
    """How often a standby controller checks whether there is an active one."""
    reassignments_in_flight_max: int = Field(default=20, ge=1)
    """Partitions that drains and a balance move at the same time."""
    reassignment_timeout_ms: int = Field(default=3_600_000, ge=0)
    """A reassignment that is not complete after this time is overdue, unless its request gives another time.
    0: none is."""
    mend_after_ms: int = Field(default=10_000, ge=50)
    """A fault that lasts this long, and that no other component is repairing, is repaired by the
    reconcile loop."""
    queue_coalesce_requests: int = Field(default=1_000, ge=1)
    """If a dead broker's queue has at least this number of requests, it is searched for superseded ones."""
    multi_bytes_max: int = Field(default=MULTI_BYTES_MAX, ge=72 * KIB, le=MULTI_BYTES_MAX)
    """Bytes of paths and data in one ZooKeeper transaction. A topic that needs more is written in parts."""
    queue_merge_znodes: int = Field(default=STATE_QUEUE_ENTRIES_MAX // 2, ge=2, le=STATE_QUEUE_ENTRIES_MAX)
    """If a dead broker's queue has at least this number of znodes, they are merged into fewer."""
    events_waiting_max: int = Field(default=20_000, ge=1)
    """Events that wait to be written to an internal topic; beyond it the oldest are dropped and counted."""
    state_change_streams_max: int = Field(default=32, ge=1)
    """Concurrent StateChanges calls."""
    crash_points: str = ""
