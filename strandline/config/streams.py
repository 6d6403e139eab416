"""The settings of a stream application."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from strandline.config.client import ClientSettings
from strandline.config.limits import GROUP_ID_LENGTH_MAX, INTERVAL_MS_MAX, KIB, RECORDS_BYTES_MAX

AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE: Final = "exactly_once"


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
    processing_guarantee: str = Field(default=AT_LEAST_ONCE, pattern=f"^({AT_LEAST_ONCE}|{EXACTLY_ONCE})$")
    """at_least_once: stores have each record once, and topics may have an output twice after a crash;
    exactly_once: outputs, stores and offsets of a commit are one transaction, of which readers of committed
    records see all or nothing. All members have the same one."""
    transaction_timeout_ms: int = Field(default=10_000, ge=1, le=INTERVAL_MS_MAX)
    """With exactly_once: a commit that takes longer is aborted. It is also the longest time for which the
    commit of a member that was killed keeps its successors, and readers of committed records, waiting."""
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
    state_cleanup_delay_ms: int = Field(default=600_000, ge=1)
    """How long the store of a task that has left this member stays on disk, from which it would be restored
    faster if it came back."""
    progress_interval_ms: int = Field(default=1_000, ge=10)
    """How often restore progress is reported to the group's events."""
