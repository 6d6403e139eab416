"""Constants of brokers and controllers: what tunes the inside of one mechanism, or is for tests alone.

They are fields so that tests and the simulation can vary them, through the constructor. A process that a test
starts takes them from variables with the prefix TEST_PREFIX. No settings file changes one, and no other
variable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from strandline.config.limits import (
    KIB,
    MULTI_BYTES_MAX,
    REASSIGNMENT_NEAR_BYTES,
    STATE_QUEUE_ENTRIES_MAX,
    TASK_CHANGES_SENT_MAX,
)

TEST_PREFIX: Final = "test_"
"""What a variable has between `STRANDLINE_` and the name of a constant."""


FOR_TESTS: Final = ("boot_id_file", "crash_points")
"""These are no part of any mechanism: only tests have a use for them."""


class Constants(BaseModel):
    """What the constants of all services have in common."""

    model_config = ConfigDict(frozen=True, defer_build=True)


def constants_of(cls: type[BaseModel]) -> dict[str, object]:
    """The constants of a class of settings, with their values."""
    return {
        name: info.default
        for base in cls.__mro__
        if issubclass(base, Constants) and Constants in base.__bases__
        for name, info in base.model_fields.items()
    }


class ZooKeeperConstants(Constants):
    """Of all that use ZooKeeper."""

    zookeeper_reconnect_delay_max_ms: int = Field(default=300, ge=10)
    """The longest pause between two attempts to reach a server again."""


class BrokerConstants(Constants):
    """Of a broker."""

    push_window: int = Field(default=2, ge=1, le=64)
    """Messages on a replication stream that the follower has not yet acknowledged."""
    watermark_push_delay_ms: int = Field(default=5, ge=0)
    """How long a new HW waits for records to be sent with, before it is sent alone."""
    watermark_checkpoint_ms: int = Field(default=5_000, ge=10)
    """How often the high watermarks are written to disk."""
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
    preferred_leader_check_ms: int = Field(default=30_000, ge=50)
    """How often a leader that is not the first assigned replica checks whether the first one can
    lead again. That replica must have been in sync for this long."""
    reassignment_close_ms: int = Field(default=30_000, ge=1)
    """How long a replica that a reassignment removes may continue to fetch after it was asked to
    close. Then the leader completes the reassignment without it, and reports this."""
    reassignment_near_bytes: int = Field(default=REASSIGNMENT_NEAR_BYTES, ge=0)
    """A replica that is closer than this to the end of the log is not throttled."""
    fetcher_retry_ms: int = Field(default=50, ge=1)
    """The pause between two attempts to reach a leader, or to register."""
    metadata_wait_ms_max: int = Field(default=10_000, ge=0)
    """The longest time that a metadata request may wait for another leader."""
    produce_entries_in_flight_max: int = Field(default=2_000, ge=1)
    """Unanswered entries of one produce stream; at this limit the stream is not read."""
    fetches_in_flight_max: int = Field(default=16, ge=1)
    """Unanswered requests of one fetch stream; at this limit the stream is not read."""
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
    task_changes_per_report_max: int = Field(default=1_000, ge=TASK_CHANGES_SENT_MAX)
    """Changes in one report of a stream application's tasks; one with more is refused."""
    offsets_expiry_check_ms: int = Field(default=60_000, ge=10)
    """How often a coordinator looks for offsets that are older than `offsets_retention_ms`."""
    group_append_timeout_ms: int = Field(default=5_000, ge=1)
    """How long a coordinator's record may wait for the high watermark."""
    transaction_append_timeout_ms: int = Field(default=5_000, ge=1)
    """How long a record of a coordinator of transactions may wait for the high watermark."""
    events_waiting_max: int = Field(default=20_000, ge=1)
    """Events that wait to be written to an internal topic; beyond it the oldest are dropped and counted."""
    isr_trail_events_max: int = Field(default=16, ge=1, le=256)
    """Events that a partition's `isr` znode keeps until `__state_changes` has them."""
    kafka_requests_in_flight_max: int = Field(default=64, ge=1)
    """Unanswered requests of one connection of a Kafka client; at this limit it is not read. Only Produce has
    several."""
    kafka_frame_ms_max: int = Field(default=30_000, ge=100)
    """How long one request of a Kafka client may take to arrive; then the connection is closed."""
    kafka_write_ms_max: int = Field(default=30_000, ge=100)
    """A Kafka client that reads nothing of its answers for this long is disconnected."""
    compaction_check_ms: int = Field(default=15_000, ge=50)
    """How often a broker checks which logs are worth compacting."""
    flush_check_ms: int = Field(default=1_000, ge=10)
    """How often a broker looks for logs that `flush.ms` or `flush.messages` wants on disk."""
    boot_id_file: Path = Path("/proc/sys/kernel/random/boot_id")
    """Identifies the running kernel: after a reboot the page cache is lost (CORRECTNESS E2)."""
    crash_points: str = ""
    """Tests only: named points at which this process dies or fails, `name` or `name:nth`, comma-separated."""


class ControllerConstants(Constants):
    """Of a controller."""

    standby_poll_ms: int = Field(default=250, ge=10)
    """How often a standby controller checks whether there is an active one."""
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
    """As a broker's."""
