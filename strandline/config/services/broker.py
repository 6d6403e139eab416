"""The settings of a broker."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from pydantic import Field, ValidationInfo, field_validator

from strandline.config.limits import (
    GROUP_REQUEST_ELEMENTS_MAX,
    INTERVAL_MS_MAX,
    KIB,
    MIB,
    PARTITIONS_PER_REQUEST_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    PRODUCER_EXPIRY_MS,
    PRODUCERS_PER_PARTITION_MAX,
    RECORDS_BYTES_MAX,
    REPLICAS_PER_BROKER_MAX,
)
from strandline.config.security import PROTOCOL_PATTERN
from strandline.config.services.constants import BrokerConstants
from strandline.config.services.groups import ConsumerGroupSettings
from strandline.config.services.listener import ListenerSettings

SILENCES_APART_MS: Final = 100
"""How much longer a leader waits for its followers than they wait for it: they look ten times a second."""

_BESIDE: Final = {
    "replication_advertised_port": "replication_port",
    "kafka_advertised_host": "kafka_port",
    "kafka_advertised_port": "kafka_port",
    "kafka_external_port": "kafka_port",
}
"""Settings that need another one."""


class BrokerSettings(BrokerConstants, ConsumerGroupSettings, ListenerSettings):
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
    push_bytes_max: int = Field(default=RECORDS_BYTES_MAX, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    reconcile_ms: int = Field(default=5_000, ge=50)
    """How often a broker compares its state with ZooKeeper."""
    reassignment_bytes_per_s: int = Field(default=0, ge=0)
    """The rate at which a leader sends to replicas that a reassignment adds, over all partitions;
    0: no limit. Members of the ISR, and replicas that are nearly caught up, are never slowed down."""
    reassignment_incoming_bytes_per_s: int = Field(default=0, ge=0)
    """The rate at which this broker takes records of replicas that reassignments add to it, from all
    leaders together; 0: no limit. It holds as `reassignment_bytes_per_s` does, and on top of it."""
    refill_bytes_per_s: int = Field(default=0, ge=0)
    """The rate at which a leader sends to replicas that refill, over all partitions; 0: no limit. A replica
    refills if it is not in sync and no reassignment adds it: its disk is empty, or its broker was away for
    long. The rate has to be above that of the writes."""
    handover_ms: int = Field(default=5_000, ge=0)
    """How long a clean shutdown may take to hand its leaderships over, even if ZooKeeper does not
    answer. Then it closes its logs."""

    # serving
    fetch_wait_ms_max: int = Field(default=30_000, ge=0)
    produce_timeout_ms_max: int = Field(default=60_000, ge=1)
    fetch_connection_bytes_max: int = Field(default=16 * MIB, ge=RECORDS_BYTES_MAX)
    """Fetched bytes of one connection that were read from disk and not yet written to the connection."""
    fetch_bytes_max: int = Field(default=128 * MIB, ge=RECORDS_BYTES_MAX)
    """The same over all connections. Up to twice this limit, and one and a half times for those of one
    address, a connection that has no fetched bytes may read one answer."""

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
    group_consumer_migration_policy: str = Field(
        default="bidirectional", pattern="^(bidirectional|upgrade|downgrade|disabled)$"
    )
    """Whether groups change their protocol while they have members: to the consumer protocol when such a
    member joins (`upgrade`), back when the last one is out (`downgrade`), both (`bidirectional`), or not at
    all (`disabled`)."""
    group_members_max: int = Field(default=2_000, ge=1)
    """Members of a group. Ids that were given and not joined with yet count too: in a full group the oldest
    of the caller that has most of them makes room."""
    group_member_bytes_max: int = Field(default=512 * KIB, ge=1)
    """Metadata of one member over all its protocols, and one member's assignment."""
    groups_max: int = Field(default=100_000, ge=1)
    """Groups of one coordinator partition."""
    group_state_bytes_max: int = Field(default=64 * MIB, ge=64 * KIB)
    """Memory of one coordinator partition for its groups: members, offsets, reported ownership."""
    offset_metadata_bytes_max: int = Field(default=4 * KIB, ge=0)
    offsets_per_commit_max: int = Field(default=10_000, ge=1, le=GROUP_REQUEST_ELEMENTS_MAX)
    offsets_retention_ms: int = Field(default=7 * 24 * 3600 * 1000, ge=1)
    """The offsets of a group without members, and then the group itself, are deleted after this time."""
    group_events_topic_partitions: int = Field(default=1, ge=1, le=1_000)
    """Partitions of `__group_events`, when it is created; all events of one group are in one of them."""

    # transactions
    transaction_state_topic_partitions: int = Field(default=50, ge=1, le=1_000)
    """Partitions of `__transaction_state`, when it is created."""
    transaction_state_topic_replication_factor: int = Field(default=3, ge=1, le=100)
    """If fewer brokers are alive when it is created: the number of live brokers."""
    transaction_max_timeout_ms: int = Field(default=900_000, ge=1, le=INTERVAL_MS_MAX)
    """The longest timeout of a transaction that a producer may ask for; an open one keeps readers of
    committed records waiting for that long."""
    transactional_id_expiration_ms: int = Field(default=7 * 24 * 3600 * 1000, ge=1)
    """A transactional id that no producer used for this time is forgotten."""
    transactional_ids_max: int = Field(default=100_000, ge=1)
    """Transactional ids of one partition of `__transaction_state`."""
    transaction_partitions_max: int = Field(default=10_000, ge=1, le=PARTITIONS_PER_REQUEST_MAX)
    """Partitions of one transaction."""
    transaction_open_partitions_max: int = Field(default=200_000, ge=1)
    """Partitions of all open and ending transactions of one partition of `__transaction_state`."""

    # the record of state changes
    state_changes_topic_partitions: int = Field(default=1, ge=1, le=1_000)
    """Partitions of `__state_changes`, when it is created. All events of one partition are in the
    same one."""
    state_changes_topic_replication_factor: int = Field(default=3, ge=1, le=100)
    """If fewer brokers are alive when it is created: the number of live brokers."""

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
    kafka_fetch_bytes_max: int = Field(default=8 * MIB, ge=RECORDS_BYTES_MAX)
    """Records in one answer to a Kafka client; more if the first batch is larger."""
    kafka_connections_max: int = Field(default=5_000, ge=1)
    """Further connections are closed at once. With few descriptors, the limit is a quarter of them."""
    kafka_client_connections_max: int = Field(default=1_000, ge=1)
    """Connections from one address."""
    kafka_idle_ms_max: int = Field(default=600_000, ge=100)
    """A connection that sends no request for this long, or leaves answers unread for it, is closed."""

    # storage
    retention_check_ms: int = Field(default=60_000, ge=50)
    compaction_map_bytes: int = Field(default=128 * MIB, ge=1 * KIB)
    """Memory for the keys of the log that is being compacted; a log with more keys takes several passes."""
    compaction_absence_ms_max: int = Field(default=7 * 24 * 3600 * 1000, ge=0)
    """How long compaction keeps tombstones, and markers of transactions, that are due and that a replica
    which is not in sync may lack. One that is away for longer may keep deleted keys and aborted records."""
    producer_expiry_ms: int = Field(default=PRODUCER_EXPIRY_MS, ge=1)
    producers_per_partition_max: int = Field(default=PRODUCERS_PER_PARTITION_MAX, ge=1)
    """Idempotent producers that a partition remembers; beyond it, the caller that has most makes room."""
    trace_every: int = Field(default=0, ge=0)
    """Each step of the way of every Nth record of a partition (offsets 0, N, 2N…) is a line of the log, and
    `strandline log trace` shows it; 0: of no record."""

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

    @field_validator(*_BESIDE)
    @classmethod
    def _beside_another(cls, value: object, info: ValidationInfo) -> object:
        needed = _BESIDE[str(info.field_name)]
        if value not in (None, "") and info.data.get(needed, 0) is None:  # missing if it is invalid itself
            raise ValueError(f"needs {needed} too: set both, or neither")
        return value

    def protocol_of(self, port: str) -> str:
        match port:
            case "kafka_port":
                return self.kafka_security_protocol or self.security_protocol
            case "kafka_external_port":
                return self.kafka_external_security_protocol or self.protocol_of("kafka_port")
            case _:
                return super().protocol_of(port)
