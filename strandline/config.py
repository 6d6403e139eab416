"""Every setting and every limit, with its default, its unit and its bounds.

Settings are read from (strongest first) keyword arguments or flags, the environment
(`STRANDLINE_…`), and a TOML file named by `STRANDLINE_CONFIG`. A wrong one is refused at start by
`SettingsError`, which names it. Units and bounds stand last in a name: `_ms`, `_bytes`, `_max`.
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

KIB: Final = 1024
MIB: Final = 1024 * KIB

RECORDS_BYTES_MAX: Final = 512 * KIB
"""Records in one message of a stream: past this protobuf's copies halve the rate."""

MESSAGE_BYTES_MAX: Final = 4 * MIB
"""What a gRPC peer accepts in one message: room to answer an oversized batch with a typed error
instead of a broken stream."""

DECOMPRESSED_BYTES_MAX: Final = 64 * MIB
"""What the records of one batch may grow to: a few hundred bytes can be made to claim gigabytes."""

SEGMENT_INDEX_ROWS_MAX: Final = 1_000_000
"""16 bytes each in memory; a segment whose index is full is rolled."""

PRODUCERS_PER_PARTITION_MAX: Final = 10_000
PRODUCER_EXPIRY_MS: Final = 7 * 24 * 3600 * 1000

TOPIC_NAME_LENGTH_MAX: Final = 249
GROUP_ID_LENGTH_MAX: Final = 249
"""Also of member, instance and client ids, of tasks, and of reasons."""
GROUP_REQUEST_ELEMENTS_MAX: Final = 20_000
"""Offsets, partitions, members or changes in one request to a coordinator, counted before work begins."""
TASK_CHANGES_SENT_MAX: Final = 100
"""That a member puts into one report; a broker takes at least so many."""
INTERVAL_MS_MAX: Final = 2**31 - 1
"""Of times that members tell their coordinator: what its messages have room for."""
PARTITIONS_PER_TOPIC_MAX: Final = 10_000
TOPICS_PER_REQUEST_MAX: Final = 1_000
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""That one request to the controller may name, to reassign them or to have other leaders."""
REPLICAS_PER_BROKER_MAX: Final = 20_000
TOPIC_CHANGES_IN_FLIGHT_MAX: Final = 64
"""Topics that one request has created or deleted at the same time."""

ZOOKEEPER_READS_IN_FLIGHT_MAX: Final = 1_000
ZNODE_BYTES_MAX: Final = 512 * KIB
"""Half of ZooKeeper's limit of 1 MB, which shows as a lost connection when it is broken."""

REQUESTS_PER_ZNODE_MAX: Final = 1_000
STATE_ENTRY_BYTES_MAX: Final = 192 * KIB
"""Of state-change requests in one znode, as they are queued: there their ends are written beside them."""

STATE_QUEUE_ENTRIES_MAX: Final = 10_000
"""Znodes in one broker's queue: ZooKeeper lists the children of a znode in one message of at most 1 MB."""

MULTI_BYTES_MAX: Final = 896 * KIB
"""Paths and data of one `multi`; what is left of that limit is for its headers."""

OUTBOX_EVENTS_MAX: Final = 10_000
"""Events that a broker keeps on its disk until `__state_changes` has them; then the oldest go."""

METRICS_TOPICS_MAX: Final = 1_000
"""Topics that have a label of their own in a broker's metrics; the others are summed under `__others`."""
METRICS_CONNECTIONS_MAX: Final = 8
"""Scrapes answered at the same time; another one hangs up on the oldest."""


class _Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="STRANDLINE_", extra="ignore", frozen=True)

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
    """Where a broker or a controller listens, and what it takes from those who connect to it."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=0, ge=0, le=65535)
    """0: any free one."""
    advertised_host: str | None = None
    """The name under which clients and brokers reach this one; None: `host`."""
    advertised_port: int | None = Field(default=None, ge=1, le=65535)
    external_port: int | None = Field(default=None, ge=0, le=65535)
    """Listen here too, for clients in another network; None: do not. They are told external addresses."""
    external_host: str = "localhost"
    """The name under which those clients reach this one, at the external port."""
    handshake_timeout_ms: int = Field(default=5_000, ge=100)
    """A connection that is not an HTTP/2 connection by then is closed."""
    connection_calls_max: int = Field(default=1_000, ge=1)
    """Calls and streams of one connection at the same time; further ones wait at the client."""
    calls_max: int = Field(default=10_000, ge=10)
    """Calls and streams of all connections to a listener at the same time; further ones are refused."""
    call_headers_bytes_max: int = Field(default=8 * KIB, ge=1 * KIB)
    """A call with larger headers is refused."""


class BrokerSettings(ListenerSettings):
    """One broker."""

    broker_id: int = Field(ge=0, le=2**31 - 1)
    data_dir: Path
    rack: str = ""

    # replication
    keep_in_sync_ms: int = Field(default=2_000, ge=10)
    """KeepInSyncTime: how long a member of the ISR may stay behind (Kafka's replication design V3)."""
    push_window: int = Field(default=2, ge=1, le=64)
    """Messages on a replication stream that the follower has not acknowledged yet."""
    push_bytes_max: int = Field(default=RECORDS_BYTES_MAX, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    watermark_push_delay_ms: int = Field(default=5, ge=0)
    """A HW without records waits this long for records to travel with."""
    watermark_checkpoint_ms: int = Field(default=5_000, ge=10)
    commit_queue_entries_max: int = Field(default=20_000, ge=1)
    """Requests that may wait under one partition's HW; more are refused, retriable."""
    session_margin_ms: int = Field(default=500, ge=0)
    """A leader cut off from ZooKeeper stops acks=0/1 this long before its session could expire (E1)."""
    election_step_ms: int = Field(default=150, ge=1)
    """Each rank in the order of succession waits this much longer than the one before (no herd)."""
    probe_timeout_ms: int = Field(default=200, ge=1)
    """For the TCP probe that tells a dead leader from a broken stream."""
    reconcile_ms: int = Field(default=5_000, ge=50)
    """How often a broker compares what it does with what ZooKeeper says."""
    preferred_leader_check_ms: int = Field(default=30_000, ge=50)
    """How often a leader that is not the first assigned replica looks whether that one may lead again; it
    must have been in sync for as long."""
    reassignment_bytes_per_s: int = Field(default=0, ge=0)
    """What a leader sends, over all partitions, to replicas that a reassignment adds; 0: without a bound.
    Members of the ISR, and replicas that are nearly caught up, are never slowed down."""
    reassignment_close_ms: int = Field(default=30_000, ge=1)
    """How long a replica that a reassignment takes away may fetch on after it was asked to close; then the
    leader goes on without it, and says so."""
    reassignment_near_bytes: int = Field(default=1 * MIB, ge=0)
    """How near the end of the log a replica is not held back any more."""
    fetcher_retry_ms: int = Field(default=50, ge=1)
    handover_ms: int = Field(default=5_000, ge=0)
    """How long a clean shutdown takes at most to hand its leaderships over, also while ZooKeeper does not
    answer; then it closes its logs."""

    # serving
    fetch_wait_ms_max: int = Field(default=30_000, ge=0)
    produce_timeout_ms_max: int = Field(default=60_000, ge=1)
    metadata_wait_ms_max: int = Field(default=10_000, ge=0)
    produce_entries_in_flight_max: int = Field(default=2_000, ge=1)
    """Entries of one produce stream without an answer; the stream is not read beyond."""
    fetches_in_flight_max: int = Field(default=16, ge=1)
    """Requests of one fetch stream without an answer; the stream is not read beyond."""
    fetch_connection_bytes_max: int = Field(default=16 * MIB, ge=RECORDS_BYTES_MAX)
    """Answers to fetches of one connection that were read from disk and are not written to it yet."""
    fetch_bytes_max: int = Field(default=128 * MIB, ge=RECORDS_BYTES_MAX)
    """The same over all connections. Up to twice as much, a connection without any may have one."""
    fetch_connection_partitions_max: int = Field(default=100_000, ge=20_000)
    """Partitions in fetches of one connection without an answer; its streams are not read beyond."""
    fetch_partitions_max: int = Field(default=500_000, ge=20_000)
    """The same over all connections."""
    leader_waits_max: int = Field(default=100_000, ge=1)
    """Partitions for whose leaders clients wait; further questions are answered at once."""
    list_offsets_ms_max: int = Field(default=5_000, ge=1)
    """For the partitions of one ListOffsets; those that are left then are refused, retriable."""
    metadata_age_ms_max: int = Field(default=500, ge=0)
    """How old a broker's picture of partitions that it does not host may be. A topic that takes long to read
    stands for ten times as long, at most 5 s."""
    metadata_read_ms_max: int = Field(default=2_000, ge=1)
    """ZooKeeper answers a client's question within this, or the broker answers with what it read last."""

    # groups
    offsets_topic_partitions: int = Field(default=12, ge=1, le=1_000)
    """Partitions of `__consumer_offsets`, when it is created."""
    offsets_topic_replication_factor: int = Field(default=3, ge=1, le=100)
    """With fewer brokers alive at its creation: as many as there are."""
    group_initial_rebalance_delay_ms: int = Field(default=200, ge=0)
    """An empty group waits this long for more members before its first generation."""
    group_session_timeout_ms_min: int = Field(default=500, ge=1)
    group_session_timeout_ms_max: int = Field(default=1_800_000, ge=1)
    group_rebalance_timeout_ms_max: int = Field(default=1_800_000, ge=1)
    group_members_max: int = Field(default=2_000, ge=1)
    group_member_bytes_max: int = Field(default=128 * KIB, ge=1)
    """Metadata of one member over all its protocols, and one member's assignment."""
    groups_max: int = Field(default=100_000, ge=1)
    """Of one coordinator partition."""
    group_state_bytes_max: int = Field(default=64 * MIB, ge=64 * KIB)
    """What one coordinator partition keeps in memory for its groups: members, offsets, reported ownership."""
    offset_metadata_bytes_max: int = Field(default=4 * KIB, ge=0)
    offsets_per_commit_max: int = Field(default=10_000, ge=1, le=GROUP_REQUEST_ELEMENTS_MAX)
    task_changes_per_report_max: int = Field(default=1_000, ge=TASK_CHANGES_SENT_MAX)
    offsets_retention_ms: int = Field(default=7 * 24 * 3600 * 1000, ge=1)
    """Offsets of a group without members, and then the group, are forgotten after this."""
    offsets_expiry_check_ms: int = Field(default=60_000, ge=10)
    group_append_timeout_ms: int = Field(default=5_000, ge=1)
    """How long what a coordinator writes may wait under the high watermark."""
    group_events_topic_partitions: int = Field(default=1, ge=1, le=1_000)
    """Partitions of `__group_events`, when it is created. A group's events are all in one."""
    events_waiting_max: int = Field(default=20_000, ge=1)
    """Events that wait to be written to an internal topic; beyond it the oldest are dropped, and counted."""

    # the life of state changes
    state_changes_topic_partitions: int = Field(default=1, ge=1, le=1_000)
    """Partitions of `__state_changes`, when it is created; all about one partition is in one of them."""
    state_changes_topic_replication_factor: int = Field(default=3, ge=1, le=100)
    """With fewer brokers alive at its creation: as many as there are."""
    isr_trail_events_max: int = Field(default=16, ge=1, le=256)
    """Events that a partition's `isr` znode keeps until `__state_changes` has them."""

    # metrics
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Prometheus metrics over HTTP: /metrics on this port of `host`; 0: any free one; None: not at all."""

    # storage
    retention_check_ms: int = Field(default=60_000, ge=50)
    compaction_check_ms: int = Field(default=15_000, ge=50)
    """How often a broker looks for logs that are worth compacting."""
    compaction_map_bytes: int = Field(default=128 * MIB, ge=1 * KIB)
    """Memory for the keys of the one log that is being compacted; more keys take several passes."""
    flush_check_ms: int = Field(default=1_000, ge=10)
    producer_expiry_ms: int = Field(default=PRODUCER_EXPIRY_MS, ge=1)
    producers_per_partition_max: int = Field(default=PRODUCERS_PER_PARTITION_MAX, ge=1)
    boot_id_file: Path = Path("/proc/sys/kernel/random/boot_id")
    """Names the running kernel: after another boot the page cache is gone (CORRECTNESS E2)."""
    crash_points: str = ""
    """Tests only: named points at which this process dies or meets a defect: `name` or `name:nth`, commas."""


class ControllerSettings(ListenerSettings):
    """One controller."""

    controller_id: int = Field(default=0, ge=0)
    reconcile_ms: int = Field(default=5_000, ge=50)
    """How often the active one makes sure that it still is, and goes on with deletions that were left."""
    standby_poll_ms: int = Field(default=250, ge=10)
    """How often the others look whether there is an active one."""
    reassignments_in_flight_max: int = Field(default=20, ge=1)
    """Partitions that a drain moves at the same time."""
    mend_after_ms: int = Field(default=10_000, ge=50)
    """What looks wrong for so long, and is nobody's work in progress, the reconcile loop mends."""
    queue_coalesce_requests: int = Field(default=1_000, ge=1)
    """From so many requests on, a dead broker's queue is searched for those that later ones supersede."""
    multi_bytes_max: int = Field(default=MULTI_BYTES_MAX, ge=72 * KIB, le=MULTI_BYTES_MAX)
    """Paths and data of what is written to ZooKeeper at once. A topic that needs more is written in parts."""
    queue_merge_znodes: int = Field(default=STATE_QUEUE_ENTRIES_MAX // 2, ge=2, le=STATE_QUEUE_ENTRIES_MAX)
    """From so many znodes on, a dead broker's queue is put together into fewer."""
    events_waiting_max: int = Field(default=20_000, ge=1)
    """Events that wait to be written to an internal topic; beyond it the oldest are dropped, and counted."""
    state_change_streams_max: int = Field(default=32, ge=1)
    """Calls of StateChanges that are answered at the same time."""
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """As a broker's."""
    crash_points: str = ""


class ClientSettings(BaseModel):
    """What producer, consumer and admin share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    request_timeout_ms: int = Field(default=10_000, ge=1)
    """For one try of one request."""
    retry_backoff_ms: int = Field(default=20, ge=1)
    retry_backoff_ms_max: int = Field(default=500, ge=1)
    metadata_max_age_ms: int = Field(default=60_000, ge=1)
    connect_timeout_ms: int = Field(default=5_000, ge=1)


class ProducerSettings(ClientSettings):
    acks: int = Field(default=-1, ge=-1, le=1)
    """-1 all in-sync replicas, 1 the leader, 0 nobody."""
    enable_idempotence: bool = True
    linger_ms: float = Field(default=0, ge=0)
    batch_bytes: int = Field(default=256 * KIB, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    buffer_bytes: int = Field(default=32 * MIB, ge=64 * KIB)
    """`send` waits while this much is under way."""
    in_flight_per_partition_max: int = Field(default=5, ge=1, le=5)
    """Five is what a broker remembers of an idempotent producer."""
    delivery_timeout_ms: int = Field(default=120_000, ge=1)
    compression: str = Field(default="none", pattern="^(none|gzip|snappy|lz4|zstd)$")
    gapless: bool = False
    """Once a batch has failed, whatever is sent to its partition after it fails, too: no record is ever
    appended behind one that is missing."""

    @field_validator("gapless")
    @classmethod
    def _needs_idempotence(cls, gapless: bool, info: ValidationInfo) -> bool:
        given = info.data  # what is wrong itself is missing there
        if gapless and not (given.get("acks", -1) == -1 and given.get("enable_idempotence", True)):
            raise ValueError("needs acks=-1 and enable_idempotence")
        return gapless


class ConsumerSettings(ClientSettings):
    offset_reset: str = Field(default="latest", pattern="^(earliest|latest|none)$")
    """Where to begin without a valid position; none: `OffsetOutOfRange` is raised."""
    offset_reset_timestamp_ms: int | None = Field(default=None, ge=0)
    """Begin with the first record not older than this (ms since 1970) instead."""
    fetch_wait_ms: int = Field(default=500, ge=0)
    fetch_min_bytes: int = Field(default=1, ge=1)
    fetch_bytes: int = Field(default=RECORDS_BYTES_MAX, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    partition_fetch_bytes: int = Field(default=RECORDS_BYTES_MAX, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    buffer_bytes: int = Field(default=8 * MIB, ge=64 * KIB)
    """Fetched and not yet asked for; beyond it fetching pauses."""
    poll_records_max: int = Field(default=500, ge=1)
    on_undecodable: str = Field(default="raise", pattern="^(raise|skip)$")
    """What to do about a batch that cannot be decoded; raise: `UndecodableBatch`, and the position stays
    before it; skip: it is left out, and an error in the log names its offsets."""

    # groups
    group_id: str | None = Field(default=None, strict=True, min_length=1, max_length=GROUP_ID_LENGTH_MAX)
    """The group to subscribe in, and whose offsets are committed."""
    group_instance_id: str | None = Field(
        default=None, strict=True, min_length=1, max_length=GROUP_ID_LENGTH_MAX
    )
    """A name that outlives the process: static membership (KIP-345)."""
    client_id: str = Field(default="strandline", strict=True, max_length=GROUP_ID_LENGTH_MAX)
    """How coordinators name its members, and `group describe` shows them."""
    rebalance_protocol: str = Field(default="eager", pattern="^(eager|cooperative)$")
    """eager: give everything up before each rebalance (V0); cooperative: only what moves (V1, KIP-429)."""
    session_timeout_ms: int = Field(default=10_000, ge=1, le=INTERVAL_MS_MAX)
    """A member that is not heard of for this long is out."""
    heartbeat_interval_ms: int = Field(default=1_000, ge=1, le=INTERVAL_MS_MAX, validate_default=True)
    """At most `session_timeout_ms`: who is heard of less often would be out."""
    max_poll_interval_ms: int = Field(default=300_000, ge=1, le=INTERVAL_MS_MAX)
    """Between two get calls; who takes longer leaves the group. Also how long others wait in a rebalance."""
    enable_auto_commit: bool = True
    """Commit by itself what is processed."""
    auto_commit_interval_ms: int = Field(default=5_000, ge=1)
    """How often, while nothing moves; what is given up is committed first."""
    offsets_refresh_ms: int = Field(default=600_000, ge=1)
    """How often a consumer with `enable_auto_commit` and partitions assigned by hand commits again what has
    not changed: less than the brokers' `offsets_retention_ms`, or its offsets expire while it is idle."""
    api_timeout_ms: int = Field(default=60_000, ge=1)
    """How long a commit, or a question for committed offsets, is tried."""
    topics_refresh_ms: int = Field(default=5_000, ge=1)
    """How often the leader of a group looks for partitions and topics that came or went."""

    @field_validator("heartbeat_interval_ms")
    @classmethod
    def _within_a_session(cls, interval_ms: int, info: ValidationInfo) -> int:
        session_ms = info.data.get("session_timeout_ms", interval_ms)  # missing if it is wrong itself
        if interval_ms > session_ms:
            raise ValueError(f"more than session_timeout_ms = {session_ms}")
        return interval_ms


class StreamsSettings(ClientSettings):
    """One member of a stream application."""

    application_id: str = Field(strict=True, min_length=1, max_length=GROUP_ID_LENGTH_MAX)
    """Of all members: their group's name, and the beginning of the names of its own topics."""
    state_dir: Path
    """Where stores lie; several members on one machine may share it."""

    @field_validator("state_dir", mode="before")
    @classmethod
    def _somewhere(cls, folder: object) -> object:
        if folder == "":
            raise ValueError("give a folder; for the current one say '.'")
        return folder

    application_server: str = Field(default="", strict=True, max_length=GROUP_ID_LENGTH_MAX)
    """Where this member can be asked for what it has, as it likes to say it: others find it by key."""
    client_id: str = Field(default="streams", strict=True, max_length=GROUP_ID_LENGTH_MAX)
    num_standbys: int = Field(default=0, ge=0, le=10)
    """Copies of each task's state that are kept up to date beside the one that runs."""
    acceptable_lag: int = Field(default=1_000, ge=0)
    """A learner is ready once its state is at most so many records behind."""
    commit_interval_ms: int = Field(default=100, ge=1)
    commit_bytes: int = Field(default=128 * KIB, ge=1, le=RECORDS_BYTES_MAX // 2)
    """Changed state that is committed before the interval is over: a commit is one message of at most
    512 KiB, so one record may change what is left of that."""
    slice_ms: int = Field(default=20, ge=1)
    """How long records are processed at a time before the rest of the program has its turn."""
    slice_records_max: int = Field(default=5_000, ge=1)
    leave_timeout_ms: int = Field(default=60_000, ge=0)
    """How long one that leaves hands over; then it goes with what is left."""
    replication_factor: int | None = Field(default=None, ge=1, le=100)
    """Of its own topics; None: that of the topics it reads."""
    offset_reset: str = Field(default="earliest", pattern="^(earliest|latest|none)$")
    """Where to begin in a topic of which nothing was processed yet."""
    on_undecodable: str = Field(default="raise", pattern="^(raise|skip)$")
    """What to do about a batch of an input that cannot be decoded; raise: the application ends with
    `UndecodableBatch`; skip: it is left out, and an error in the log names its offsets."""
    session_timeout_ms: int = Field(default=10_000, ge=1, le=INTERVAL_MS_MAX)
    heartbeat_interval_ms: int = Field(default=1_000, ge=1, le=INTERVAL_MS_MAX)
    max_poll_interval_ms: int = Field(default=300_000, ge=1, le=INTERVAL_MS_MAX)
    topics_refresh_ms: int = Field(default=5_000, ge=1)
    delivery_timeout_ms: int = Field(default=120_000, ge=1)
    progress_interval_ms: int = Field(default=1_000, ge=10)
    """How often the progress of what restores is told to the group's events."""


SettingsT = TypeVar("SettingsT", bound=BaseModel)


def load(cls: type[SettingsT], **given: Any) -> SettingsT:
    """Build settings from what is given, the environment and the file.

    Raises SettingsError that names the first wrong setting, its value and what is wanted.
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
