"""The settings of a consumer: fetching, positions, and its group."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from strandline.config.client import ClientSettings
from strandline.config.limits import GROUP_ID_LENGTH_MAX, INTERVAL_MS_MAX, KIB, MIB, RECORDS_BYTES_MAX


class ConsumerSettings(ClientSettings):
    offset_reset: str = Field(default="latest", pattern="^(earliest|latest|none)$")
    """Where to begin without a valid position; none: raise `OffsetOutOfRange`."""
    offset_reset_timestamp_ms: int | None = Field(default=None, ge=0)
    """Begin instead with the first record that is not older than this (ms since 1970)."""
    isolation_level: str = Field(default="read_uncommitted", pattern="^(read_uncommitted|read_committed)$")
    """read_committed: only records of transactions that are committed, and those outside of transactions, up
    to the first one of an open transaction (KIP-98)."""
    fetch_wait_ms: int = Field(default=500, ge=0)
    fetch_min_bytes: int = Field(default=1, ge=1)
    fetch_bytes: int = Field(default=RECORDS_BYTES_MAX, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    partition_fetch_bytes: int = Field(default=RECORDS_BYTES_MAX, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    buffer_bytes: int = Field(default=8 * MIB, ge=64 * KIB)
    """Records that are fetched and not yet requested by the application; at this limit fetching pauses."""
    poll_records_max: int = Field(default=500, ge=1)
    poll_bytes_max: int = Field(default=64 * MIB, ge=1 * KIB)
    """One get call hands out no further batch once its records have this many bytes, decompressed."""
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
    group_protocol: str = Field(default="classic", pattern="^(classic|consumer)$")
    """classic: the members of the group assign its partitions, by `assignors` and `rebalance_protocol`;
    consumer: its coordinator does, and no member stops for a rebalance (KIP-848)."""
    group_remote_assignor: str | None = Field(
        default=None, strict=True, min_length=1, max_length=GROUP_ID_LENGTH_MAX
    )
    """The assignor of the coordinator that this member asks for: uniform or range. None: the coordinator
    chooses. Only for `group_protocol="consumer"`."""
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

    @property
    def stable(self) -> bool:
        """True if only what is below the last stable offset is read."""
        return self.isolation_level == "read_committed"

    @property
    def never_resets(self) -> bool:
        """True if a position that is not valid is an error."""
        return self.offset_reset == "none" and self.offset_reset_timestamp_ms is None

    @field_validator("group_remote_assignor")
    @classmethod
    def _of_a_coordinator(cls, assignor: str | None, info: ValidationInfo) -> str | None:
        if assignor is not None and info.data.get("group_protocol") == "classic":
            raise ValueError('only for group_protocol="consumer"')
        return assignor

    @field_validator("heartbeat_interval_ms")
    @classmethod
    def _within_a_session(cls, interval_ms: int, info: ValidationInfo) -> int:
        session_ms = info.data.get("session_timeout_ms", interval_ms)  # missing if it is invalid itself
        if interval_ms > session_ms:
            raise ValueError(f"more than session_timeout_ms = {session_ms}")
        return interval_ms
