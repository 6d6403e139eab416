"""Every setting and every limit, with its default, its unit and its bounds.

Settings are read from (strongest first) keyword arguments or flags, the environment
(`STRANDLINE_…`), and a TOML file named by `STRANDLINE_CONFIG`. An invalid setting is refused at
start with `SettingsError`, which names it. Units and bounds stand last in a name: `_ms`, `_bytes`,
`_max`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from strandline.errors import SettingsError
from strandline.ids import ACKS_ALL

KIB: Final = 1024
MIB: Final = 1024 * KIB

RECORDS_BYTES_MAX: Final = 512 * KIB
"""Records in one message of a stream. With larger messages, protobuf's copies halve the rate."""

MESSAGE_BYTES_MAX: Final = 4 * MIB
"""The largest message that a gRPC peer accepts. It leaves room to answer an oversized batch with a
typed error instead of a broken stream."""

DECOMPRESSED_BYTES_MAX: Final = 64 * MIB
"""The largest decompressed size of one batch's records: a few hundred bytes can claim to expand to
gigabytes."""

SEGMENT_INDEX_ROWS_MAX: Final = 1_000_000
"""16 bytes each in memory; a segment whose index is full is rolled."""

PRODUCERS_PER_PARTITION_MAX: Final = 10_000
PRODUCER_EXPIRY_MS: Final = 7 * 24 * 3600 * 1000

TOPIC_NAME_LENGTH_MAX: Final = 249
GROUP_ID_LENGTH_MAX: Final = 249
"""Also the limit for member, instance and client ids, task names, and reasons."""
GROUP_REQUEST_ELEMENTS_MAX: Final = 20_000
"""Offsets, partitions, members or changes in one request to a coordinator, counted before work begins."""
TASK_CHANGES_SENT_MAX: Final = 100
"""Task changes that a member puts into one report; a broker accepts at least this number."""
INTERVAL_MS_MAX: Final = 2**31 - 1
"""The longest interval that a member may send to its coordinator: the messages have 32 bits for it."""
PARTITIONS_PER_TOPIC_MAX: Final = 10_000
TOPICS_PER_REQUEST_MAX: Final = 1_000
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""Partitions that one request to the controller may name, to reassign them or to change their leaders."""
REPLICAS_PER_BROKER_MAX: Final = 20_000
TOPIC_CHANGES_IN_FLIGHT_MAX: Final = 64
"""Topics that one request has created or deleted at the same time."""

ZOOKEEPER_READS_IN_FLIGHT_MAX: Final = 1_000
ZNODE_BYTES_MAX: Final = 512 * KIB
"""Half of ZooKeeper's limit of 1 MB; exceeding that limit looks like a lost connection."""

REQUESTS_PER_ZNODE_MAX: Final = 1_000
STATE_ENTRY_BYTES_MAX: Final = 192 * KIB
"""The state-change requests in one znode when they are queued. Their ends are later written beside them."""

STATE_QUEUE_ENTRIES_MAX: Final = 10_000
"""Znodes in one broker's queue: ZooKeeper lists the children of a znode in one message of at most 1 MB."""

MULTI_BYTES_MAX: Final = 896 * KIB
"""Paths and data of one `multi`. The rest of ZooKeeper's 1 MB is for its headers."""

OUTBOX_EVENTS_MAX: Final = 10_000
"""Events that a broker keeps on its disk until `__state_changes` has them. Beyond it, the oldest
are dropped."""

METRICS_TOPICS_MAX: Final = 1_000
"""Topics with a label of their own in a broker's metrics. The others are summed under `__others`."""
METRICS_CONNECTIONS_MAX: Final = 8
"""Scrapes answered at the same time. A further scrape closes the oldest connection."""


class _Settings(BaseSettings):
    # A process builds the validators of the one class that it uses.
    model_config = SettingsConfigDict(env_prefix="STRANDLINE_", extra="ignore", frozen=True, defer_build=True)

    log_format: str = Field(default="json", pattern="^(json|console)$")
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        path = os.environ.get("STRANDLINE_CONFIG")
        file = [TomlConfigSettingsSource(settings_cls, path)] if path else []
        return (init_settings, env_settings, *file)


class ZooKeeperSettings(_Settings):
    """How to reach ZooKeeper."""

    zookeeper: str = "127.0.0.1:2181"
    """host:port, several with commas, a chroot at the end if wanted."""
    zookeeper_session_timeout_ms: int = Field(default=3_000, ge=500, le=120_000)
    zookeeper_reconnect_delay_max_ms: int = Field(default=300, ge=10)


class ListenerSettings(ZooKeeperSettings):
    """The addresses on which a broker or a controller listens, and the limits for its connections."""

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
    handshake_timeout_ms: int = Field(default=5_000, ge=100)
    """A connection that has not become an HTTP/2 connection within this time is closed."""
    connection_calls_max: int = Field(default=1_000, ge=1)
    """Concurrent calls and streams of one connection; further ones wait at the client."""
    calls_max: int = Field(default=10_000, ge=10)
    """Concurrent calls and streams of all connections to a listener; further ones are refused."""
    call_headers_bytes_max: int = Field(default=8 * KIB, ge=1 * KIB)
    """A call with larger headers is refused."""


class BrokerSettings(ListenerSettings):
    """One broker."""

    broker_id: int = Field(ge=0, le=2**31 - 1)
    data_dir: Path
    rack: str = ""

    # replication
    keep_in_sync_ms: int = Field(default=2_000, ge=10)
    """KeepInSyncTime: how long a member of the ISR may stay behind before it is removed (Kafka's
    replication design V3)."""
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
    0: no limit.
    Members of the ISR, and replicas that are nearly caught up, are never slowed down."""
    reassignment_close_ms: int = Field(default=30_000, ge=1)
    """How long a replica that a reassignment removes may continue to fetch after it was asked to
    close. Then the leader completes the reassignment without it, and reports this."""
    reassignment_near_bytes: int = Field(default=1 * MIB, ge=0)
    """A replica that is closer than this to the end of the log is not throttled."""
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
    group_member_bytes_max: int = Field(default=128 * KIB, ge=1)
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
    """Partitions of `__group_events`, when it is created. All events of one group are in the same
    partition."""
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

    # metrics
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Port of `host` for Prometheus metrics over HTTP at /metrics; 0: any free port; None: no metrics."""

    # storage
    retention_check_ms: int = Field(default=60_000, ge=50)
    compaction_check_ms: int = Field(default=15_000, ge=50)
    """How often a broker checks which logs are worth compacting."""
    compaction_map_bytes: int = Field(default=128 * MIB, ge=1 * KIB)
    """Memory for the keys of the log that is being compacted; a log with more keys takes several passes."""
    flush_check_ms: int = Field(default=1_000, ge=10)
    producer_expiry_ms: int = Field(default=PRODUCER_EXPIRY_MS, ge=1)
    producers_per_partition_max: int = Field(default=PRODUCERS_PER_PARTITION_MAX, ge=1)
    boot_id_file: Path = Path("/proc/sys/kernel/random/boot_id")
    """Identifies the running kernel: after a reboot the page cache is lost (CORRECTNESS E2)."""
    crash_points: str = ""
    """Tests only: named points at which this process dies or fails, `name` or `name:nth`, comma-separated."""


class ControllerSettings(ListenerSettings):
    """One controller."""

    controller_id: int = Field(default=0, ge=0)
    reconcile_ms: int = Field(default=5_000, ge=50)
    """How often the active controller confirms that it is still active, and resumes unfinished deletions."""
    standby_poll_ms: int = Field(default=250, ge=10)
    """How often a standby controller checks whether there is an active one."""
    reassignments_in_flight_max: int = Field(default=20, ge=1)
    """Partitions that a drain moves at the same time."""
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
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """As `metrics_port` of a broker."""
    crash_points: str = ""


class ClientSettings(BaseModel):
    """Settings that producer, consumer and admin share."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    request_timeout_ms: int = Field(default=10_000, ge=1)
    """Timeout of one attempt of one request."""
    retry_backoff_ms: int = Field(default=20, ge=1)
    retry_backoff_ms_max: int = Field(default=500, ge=1)
    metadata_max_age_ms: int = Field(default=60_000, ge=1)
    connect_timeout_ms: int = Field(default=5_000, ge=1)


class ProducerSettings(ClientSettings):
    acks: int = Field(default=ACKS_ALL, ge=-1, le=1)
    """-1: all in-sync replicas acknowledge; 1: the leader; 0: no acknowledgement."""
    enable_idempotence: bool = True
    linger_ms: float = Field(default=0, ge=0)
    batch_bytes: int = Field(default=256 * KIB, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    buffer_bytes: int = Field(default=32 * MIB, ge=64 * KIB)
    """`send` waits while the records that are not yet acknowledged exceed this size."""
    in_flight_per_partition_max: int = Field(default=5, ge=1, le=5)
    """A broker remembers the last five batches of an idempotent producer."""
    delivery_timeout_ms: int = Field(default=120_000, ge=1)
    compression: str = Field(default="none", pattern="^(none|gzip|snappy|lz4|zstd)$")
    gapless: bool = False
    """After a batch has failed, all later records for its partition fail too, so that no record is
    ever appended after a missing one."""

    @field_validator("gapless")
    @classmethod
    def _needs_idempotence(cls, gapless: bool, info: ValidationInfo) -> bool:
        given = info.data  # invalid fields are missing there
        all_ack = given.get("acks", ACKS_ALL) == ACKS_ALL
        if gapless and not (all_ack and given.get("enable_idempotence", True)):
            raise ValueError("needs acks=-1 and enable_idempotence")
        return gapless


class ConsumerSettings(ClientSettings):
    offset_reset: str = Field(default="latest", pattern="^(earliest|latest|none)$")
    """Where to begin without a valid position; none: raise `OffsetOutOfRange`."""
    offset_reset_timestamp_ms: int | None = Field(default=None, ge=0)
    """Begin instead with the first record that is not older than this (ms since 1970)."""
    fetch_wait_ms: int = Field(default=500, ge=0)
    fetch_min_bytes: int = Field(default=1, ge=1)
    fetch_bytes: int = Field(default=RECORDS_BYTES_MAX, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    partition_fetch_bytes: int = Field(default=RECORDS_BYTES_MAX, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    buffer_bytes: int = Field(default=8 * MIB, ge=64 * KIB)
    """Records that are fetched and not yet requested by the application; at this limit fetching pauses."""
    poll_records_max: int = Field(default=500, ge=1)
    on_undecodable: str = Field(default="raise", pattern="^(raise|skip)$")
    """How to handle a batch that cannot be decoded; raise: raise `UndecodableBatch` and keep the
    position before the batch; skip: skip the batch and log its offsets as an error."""

    # groups
    group_id: str | None = Field(default=None, strict=True, min_length=1, max_length=GROUP_ID_LENGTH_MAX)
    """The group for subscriptions and committed offsets."""
    group_instance_id: str | None = Field(
        default=None, strict=True, min_length=1, max_length=GROUP_ID_LENGTH_MAX
    )
    """A name that outlives the process: static membership (KIP-345)."""
    client_id: str = Field(default="strandline", strict=True, max_length=GROUP_ID_LENGTH_MAX)
    """The prefix of this client's member ids; `group describe` shows it."""
    rebalance_protocol: str = Field(default="eager", pattern="^(eager|cooperative)$")
    """eager: revoke all partitions before each rebalance (V0); cooperative: revoke only those that
    move (V1, KIP-429)."""
    session_timeout_ms: int = Field(default=10_000, ge=1, le=INTERVAL_MS_MAX)
    """A member that sends no heartbeat for this long is removed from the group."""
    heartbeat_interval_ms: int = Field(default=1_000, ge=1, le=INTERVAL_MS_MAX, validate_default=True)
    """At most `session_timeout_ms`; with a longer interval the session would expire between heartbeats."""
    max_poll_interval_ms: int = Field(default=300_000, ge=1, le=INTERVAL_MS_MAX)
    """The longest time between two get calls; a member that takes longer leaves the group. Also how
    long a rebalance waits for this member."""
    enable_auto_commit: bool = True
    """Commit processed records automatically."""
    auto_commit_interval_ms: int = Field(default=5_000, ge=1)
    """How often offsets are committed between rebalances; the offsets of revoked partitions are
    committed before the revocation."""
    offsets_refresh_ms: int = Field(default=600_000, ge=1)
    """How often a consumer with `enable_auto_commit` and manually assigned partitions commits
    unchanged offsets again. It must be less than the brokers' `offsets_retention_ms`, or the
    offsets of an idle consumer expire."""
    api_timeout_ms: int = Field(default=60_000, ge=1)
    """How long a commit, or a request for committed offsets, is retried."""
    topics_refresh_ms: int = Field(default=5_000, ge=1)
    """How often the leader of a group checks for new or deleted partitions and topics."""

    @field_validator("heartbeat_interval_ms")
    @classmethod
    def _within_a_session(cls, interval_ms: int, info: ValidationInfo) -> int:
        session_ms = info.data.get("session_timeout_ms", interval_ms)  # missing if it is invalid itself
        if interval_ms > session_ms:
            raise ValueError(f"more than session_timeout_ms = {session_ms}")
        return interval_ms


class StreamsSettings(ClientSettings):
    """One member of a stream application."""

    application_id: str = Field(strict=True, min_length=1, max_length=GROUP_ID_LENGTH_MAX)
    """The group id of all members, and the prefix of the application's own topics."""
    state_dir: Path
    """The folder of the state stores; several members on one machine may share it."""

    @field_validator("state_dir", mode="before")
    @classmethod
    def _somewhere(cls, folder: object) -> object:
        if folder == "":
            raise ValueError("give a folder; for the current one say '.'")
        return folder

    application_server: str = Field(default="", strict=True, max_length=GROUP_ID_LENGTH_MAX)
    """The address at which this member answers queries for its state, in a format of the
    application's choice. Other members look it up by key."""
    client_id: str = Field(default="streams", strict=True, max_length=GROUP_ID_LENGTH_MAX)
    num_standbys: int = Field(default=0, ge=0, le=10)
    """Copies of each task's state that other members keep up to date."""
    acceptable_lag: int = Field(default=1_000, ge=0)
    """A learner is ready once its state is at most this number of records behind."""
    commit_interval_ms: int = Field(default=100, ge=1)
    commit_bytes: int = Field(default=128 * KIB, ge=1, le=RECORDS_BYTES_MAX // 2)
    """A commit is made before the interval ends once this much state has changed. A commit is one
    message of at most 512 KiB, so a single record may change at most the rest of that."""
    slice_ms: int = Field(default=20, ge=1)
    """How long records are processed before the rest of the program runs."""
    slice_records_max: int = Field(default=5_000, ge=1)
    leave_timeout_ms: int = Field(default=60_000, ge=0)
    """How long a leaving member may hand its tasks over; then it closes those that are left."""
    replication_factor: int | None = Field(default=None, ge=1, le=100)
    """Replication factor of the application's own topics; None: that of its input topics."""
    offset_reset: str = Field(default="earliest", pattern="^(earliest|latest|none)$")
    """Where to begin in an input topic without a processed record."""
    on_undecodable: str = Field(default="raise", pattern="^(raise|skip)$")
    """How to handle an input batch that cannot be decoded; raise: end the application with
    `UndecodableBatch`; skip: skip the batch and log its offsets as an error."""
    session_timeout_ms: int = Field(default=10_000, ge=1, le=INTERVAL_MS_MAX)
    heartbeat_interval_ms: int = Field(default=1_000, ge=1, le=INTERVAL_MS_MAX)
    max_poll_interval_ms: int = Field(default=300_000, ge=1, le=INTERVAL_MS_MAX)
    topics_refresh_ms: int = Field(default=5_000, ge=1)
    delivery_timeout_ms: int = Field(default=120_000, ge=1)
    progress_interval_ms: int = Field(default=1_000, ge=10)
    """How often restore progress is reported to the group's events."""


SettingsT = TypeVar("SettingsT", bound=BaseModel)


def load(cls: type[SettingsT], **given: Any) -> SettingsT:
    """Build settings from the given values, the environment and the file.

    Raises SettingsError that names the first invalid setting, its value and the allowed values.
    """
    try:
        return cls(**{k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        value = "" if first["type"] == "missing" else f" = {first['input']!r}"
        variable = f"STRANDLINE_{name.upper()}" if issubclass(cls, BaseSettings) else name
        raise SettingsError(f"setting {name}{value}: {first['msg']} (set {variable})") from None
    except (OSError, ValueError) as error:  # an unreadable or malformed file
        raise SettingsError(f"settings file {os.environ.get('STRANDLINE_CONFIG')!r}: {error}") from error
