"""The settings of a producer."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from strandline.config.client import ClientSettings
from strandline.config.limits import (
    GROUP_ID_LENGTH_MAX,
    INTERVAL_MS_MAX,
    KIB,
    MIB,
    PRODUCER_BATCHES_REMEMBERED,
    RECORDS_BYTES_MAX,
)
from strandline.ids import ACKS_ALL


class ProducerSettings(ClientSettings):
    acks: int = Field(default=ACKS_ALL, ge=-1, le=1)
    """-1: all in-sync replicas acknowledge; 1: the leader; 0: no acknowledgement."""
    enable_idempotence: bool = True
    linger_ms: float = Field(default=0, ge=0)
    batch_bytes: int = Field(default=256 * KIB, ge=1 * KIB, le=RECORDS_BYTES_MAX)
    buffer_bytes: int = Field(default=32 * MIB, ge=64 * KIB)
    """`send` waits while the records that are not yet acknowledged exceed this size."""
    in_flight_per_partition_max: int = Field(
        default=PRODUCER_BATCHES_REMEMBERED, ge=1, le=PRODUCER_BATCHES_REMEMBERED
    )
    """A broker remembers the last ten batches of an idempotent producer."""
    delivery_timeout_ms: int = Field(default=120_000, ge=1)
    compression: str = Field(default="none", pattern="^(none|gzip|snappy|lz4|zstd)$")
    gapless: bool = False
    """After a batch has failed, all later records for its partition fail too, so that no record is
    ever appended after a missing one."""
    transactional_id: str | None = Field(
        default=None, strict=True, min_length=1, max_length=GROUP_ID_LENGTH_MAX
    )
    """The name under which this producer has transactions. It outlives the process: a producer that starts
    with it fences the one before, and ends its transaction."""
    transaction_timeout_ms: int = Field(default=60_000, ge=1, le=INTERVAL_MS_MAX)
    """A transaction that is open for longer is aborted; at most the brokers' `transaction_max_timeout_ms`."""

    @field_validator("acks", mode="before")
    @classmethod
    def _as_a_number(cls, acks: object) -> object:
        if acks == "all":
            raise ValueError("give -1, which stands for all in-sync replicas")
        return acks

    @field_validator("gapless", "transactional_id")
    @classmethod
    def _needs_idempotence(cls, wanted: bool | str | None, info: ValidationInfo) -> bool | str | None:
        given = info.data  # invalid fields are missing there
        all_ack = given.get("acks", ACKS_ALL) == ACKS_ALL
        if wanted and not (all_ack and given.get("enable_idempotence", True)):
            raise ValueError("needs acks=-1 (--acks all) and enable_idempotence")
        return wanted
