"""The configuration of topics, under Kafka's names, with defaults, units and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from strandline.config.limits import KIB, MIB, STORED_BATCH_BYTES_MAX
from strandline.errors import InvalidConfig
from strandline.vocabulary.parsing.typed_json import INT32_MAX, INT64_MAX

SHOWN_CHARS_MAX: Final = 64
PRODUCERS_CODEC: Final = "producer"
GZIP_DEFAULT: Final = -1
LZ4_FAST: Final = 9


class TopicConfig(BaseModel):
    """A topic's configuration under Kafka's names (`min.insync.replicas`, …).

    Values cross the wire and ZooKeeper as text; `parse` reads them and `overrides` writes them.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda n: n.replace("_", "."),
        defer_build=True,  # the first build of a process looks for plugins in every installed package
    )

    min_insync_replicas: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """None: 2 with a replication factor of 3 or more, else 1. In force is the replication factor if that is
    smaller."""
    retention_ms: int = Field(default=7 * 24 * 3600 * 1000, ge=-1)
    retention_bytes: int = Field(default=-1, ge=-1)
    segment_bytes: int = Field(default=256 * MIB, ge=1 * KIB, le=2**31 - 1)
    segment_ms: int = Field(default=7 * 24 * 3600 * 1000, ge=1)
    index_interval_bytes: int = Field(default=4 * KIB, ge=0)
    max_message_bytes: int = Field(default=1_048_588, ge=0, le=INT32_MAX)
    """The largest batch, as it is stored; above 16 MiB, those are in force. strandline's producers make none
    larger than 512 KiB."""
    message_timestamp_type: str = Field(default="CreateTime", pattern="^(CreateTime|LogAppendTime)$")
    """CreateTime: records have the times that their producer gave. LogAppendTime: that of the append."""
    message_timestamp_before_max_ms: int = Field(default=2**63 - 1, ge=0)
    """With CreateTime, a batch is refused whose first record is older than this."""
    message_timestamp_after_max_ms: int = Field(default=3600 * 1000, ge=0)
    """With CreateTime, a batch is refused whose latest record lies further in the future than this, by the
    leader's clock. Internal topics have no such bounds."""
    flush_messages: int = Field(default=2**63 - 1, ge=1)
    """1: fsync before the acknowledgement, on the leader and on every follower."""
    flush_ms: int = Field(default=2**63 - 1, ge=0)
    cleanup_policy: str = Field(default="delete", pattern="^(delete|compact|compact,delete|delete,compact)$")
    """delete: remove old segments by retention; compact: keep the last record of each key."""
    min_cleanable_dirty_ratio: float = Field(default=0.5, ge=0, le=1)
    """A log is compacted once more than this fraction of its compactable bytes was written since
    the last compaction."""
    min_compaction_lag_ms: int = Field(default=0, ge=0)
    """A record is not compacted away before this age."""
    max_compaction_lag_ms: int = Field(default=2**63 - 1, ge=1)
    """A compacted log with a dirty segment that began longer ago is compacted, however little is dirty. Its
    segments are filled for no longer."""
    compression_type: str = Field(
        default=PRODUCERS_CODEC, pattern="^(producer|uncompressed|gzip|snappy|lz4|zstd)$"
    )
    """producer: batches are stored as they come. Else the leader compresses those of another codec anew."""
    compression_gzip_level: int = Field(default=GZIP_DEFAULT, ge=-1, le=9)
    """-1: the library's default."""
    compression_lz4_level: int = Field(default=LZ4_FAST, ge=1, le=17)
    """9: the fast compressor, as in Kafka."""
    compression_zstd_level: int = Field(default=3, ge=-131_072, le=22)
    delete_retention_ms: int = Field(default=24 * 3600 * 1000, ge=0)
    """How long a tombstone is kept after the first compaction that reached it."""
    unclean_leader_election_enable: bool = False

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def has_append_times(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch in force."""
        return min(self.max_message_bytes, STORED_BATCH_BYTES_MAX)

    @property
    def segment_age_ms_max(self) -> int:
        """A segment is sealed by the first append after this time: what is filled is not compacted."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    def min_insync(self, replication_factor: int) -> int:
        """The bound in force for a partition with this number of replicas."""
        if self.min_insync_replicas is not None:
            return min(self.min_insync_replicas, replication_factor)
        return 2 if replication_factor >= 3 else 1

    @field_validator("compression_gzip_level")
    @classmethod
    def _gzip_level(cls, level: int) -> int:
        if level == 0:
            raise ValueError("give -1 for the default, or 1 to 9")
        return level

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> Self:
        """Parse text values. Raises InvalidConfig that names the first invalid one."""
        for name in values:
            if name not in _names():
                raise InvalidConfig(f"unknown topic config {name!r}; known are {', '.join(_names())}")
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            wrong = f"give at most {_most(name)}" if first["type"] == "int_parsing_size" else first["msg"]
            raise InvalidConfig(f"topic config {name}={_shown(first['input'])}: {wrong}") from None

    @classmethod
    def parse_new(cls, values: Mapping[str, str]) -> Self:
        """As `parse`, for values that a caller gives: numbers also have to fit the types that Kafka gives
        them. Earlier versions stored others, which stay readable: a log is not left closed for them."""
        config = cls.parse(values)
        for name in values:
            value, most = getattr(config, name.replace(".", "_")), _most(name)
            if isinstance(value, int) and value > most:
                raise InvalidConfig(
                    f"topic config {name}={_shown(values[name])}: give at most {most}", limit=most
                )
        return config

    def overrides(self) -> dict[str, str]:
        """The values that were set, as text under Kafka's names."""
        dumped = self.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in dumped.items()}


@cache
def _names() -> list[str]:
    return sorted(field.alias or name for name, field in TopicConfig.model_fields.items())


def _most(name: str) -> int:
    return INT32_MAX if name == "index.interval.bytes" else INT64_MAX


def _shown(value: str) -> str:
    """A value as an error shows it."""
    return repr(value if len(value) <= SHOWN_CHARS_MAX else f"{value[:SHOWN_CHARS_MAX]}…")
