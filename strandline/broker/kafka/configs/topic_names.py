"""Kafka's names of topic configs: those that strandline has, and those of which one value is true here.

Frameworks and tools set many of Kafka's names when they create a topic. A name that is not strandline's is
taken if its value describes what strandline does anyway, and refused with the reason otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.broker.kafka.configs.kinds import Kind
from strandline.records.scan import BROKER_DECOMPRESSED_BYTES_MAX

_FOREVER: Final = str(2**63 - 1)


@dataclass(frozen=True, slots=True)
class OwnConfig:
    """A config that strandline has under the same name."""

    name: str
    kind: Kind
    broker_name: str
    """Kafka's name for the default of all topics."""
    documentation: str


@dataclass(frozen=True, slots=True)
class FixedConfig:
    """A config with one value here. Clients read it; that of a topic they may also set."""

    name: str
    kind: Kind
    value: str
    documentation: str
    """Why the value is what it is."""


@dataclass(frozen=True, slots=True)
class IgnoredConfig:
    """A config of Kafka's inner workings that changes nothing here. Clients may set any value of its type,
    and read this one."""

    name: str
    kind: Kind
    value: str
    documentation: str


OWN: Final = (
    OwnConfig(
        "cleanup.policy", Kind.LIST, "log.cleanup.policy",
        "delete: remove old segments by retention. compact: keep the last record of each key. Or both.",
    ),
    OwnConfig(
        "compression.type", Kind.STRING, "compression.type",
        "producer: batches are stored as they come. uncompressed or a codec: those of another are compressed "
        "anew.",
    ),
    OwnConfig(
        "compression.gzip.level", Kind.INT, "compression.gzip.level",
        "At which gzip compresses anew: 1 to 9, or -1 for its default.",
    ),
    OwnConfig(
        "compression.lz4.level", Kind.INT, "compression.lz4.level",
        "At which lz4 compresses anew: 1 to 17; 9 is the fast compressor.",
    ),
    OwnConfig(
        "compression.zstd.level", Kind.INT, "compression.zstd.level",
        "At which zstd compresses anew: -131072 to 22.",
    ),
    OwnConfig(
        "delete.retention.ms", Kind.LONG, "log.cleaner.delete.retention.ms",
        "How long a tombstone is kept after the first compaction that reached it.",
    ),
    OwnConfig(
        "flush.messages", Kind.LONG, "log.flush.interval.messages",
        "Records between two fsyncs of a log. With 1, a record is acknowledged after the fsync.",
    ),
    OwnConfig(
        "flush.ms", Kind.LONG, "log.flush.interval.ms", "The longest time between two fsyncs of a log."
    ),
    OwnConfig(
        "index.interval.bytes", Kind.INT, "log.index.interval.bytes",
        "Bytes of records between two entries of a segment's index.",
    ),
    OwnConfig(
        "max.compaction.lag.ms", Kind.LONG, "log.cleaner.max.compaction.lag.ms",
        "A compacted log with a dirty segment that began longer ago is compacted, however little is dirty.",
    ),
    OwnConfig(
        "max.message.bytes", Kind.INT, "message.max.bytes",
        "The largest batch of records, as it is stored. Above 16 MiB, those are in force.",
    ),
    OwnConfig(
        "message.timestamp.after.max.ms", Kind.LONG, "log.message.timestamp.after.max.ms",
        "With CreateTime, a batch is refused whose latest record lies further in the future than this.",
    ),
    OwnConfig(
        "message.timestamp.before.max.ms", Kind.LONG, "log.message.timestamp.before.max.ms",
        "With CreateTime, a batch is refused whose first record is older than this.",
    ),
    OwnConfig(
        "message.timestamp.type", Kind.STRING, "log.message.timestamp.type",
        "CreateTime: records have the times that their producer gave. LogAppendTime: that of the append.",
    ),
    OwnConfig(
        "min.cleanable.dirty.ratio", Kind.DOUBLE, "log.cleaner.min.cleanable.ratio",
        "A log is compacted once more than this fraction of it was written since the last compaction.",
    ),
    OwnConfig(
        "min.compaction.lag.ms", Kind.LONG, "log.cleaner.min.compaction.lag.ms",
        "A record is not compacted away before this age.",
    ),
    OwnConfig(
        "min.insync.replicas", Kind.INT, "min.insync.replicas",
        "With fewer replicas in sync, writes with acks=all are refused. Unset, it is 2 for three replicas or "
        "more, else 1.",
    ),
    OwnConfig(
        "retention.bytes", Kind.LONG, "log.retention.bytes",
        "The size of a partition beyond which old segments are deleted; -1: no limit.",
    ),
    OwnConfig(
        "retention.ms", Kind.LONG, "log.retention.ms",
        "The age at which segments are deleted; -1: no limit.",
    ),
    OwnConfig("segment.bytes", Kind.INT, "log.segment.bytes", "The size at which a new segment begins."),
    OwnConfig("segment.ms", Kind.LONG, "log.roll.ms", "The age at which a new segment begins."),
    OwnConfig(
        "unclean.leader.election.enable", Kind.BOOLEAN, "unclean.leader.election.enable",
        "Whether a replica that was not in sync may become the leader, with a loss of records.",
    ),
)  # fmt: skip

FIXED: Final = (
    FixedConfig(
        "message.timestamp.difference.max.ms", Kind.LONG, _FOREVER,
        "Removed from Kafka: use message.timestamp.before.max.ms and message.timestamp.after.max.ms.",
    ),
    FixedConfig("remote.storage.enable", Kind.BOOLEAN, "false", "There is no tiered storage."),
    FixedConfig(
        "leader.replication.throttled.replicas", Kind.LIST, "",
        "Replicas are throttled by a reassignment, not by topic.",
    ),
    FixedConfig(
        "follower.replication.throttled.replicas", Kind.LIST, "",
        "Replicas are throttled by a reassignment, not by topic.",
    ),
)  # fmt: skip

_NO_TIERS: Final = "Ignored: there is no tiered storage."

IGNORED: Final = (
    IgnoredConfig(
        "errors.deadletterqueue.group.enable", Kind.BOOLEAN, "false", "Ignored: there are no share groups."
    ),
    IgnoredConfig(
        "file.delete.delay.ms", Kind.LONG, "60000", "Ignored: open readers keep the files that they read."
    ),
    IgnoredConfig(
        "message.downconversion.enable", Kind.BOOLEAN, "false",
        "Ignored: no client reads an old format of messages.",
    ),
    IgnoredConfig(
        "message.format.version", Kind.STRING, "3.0-IV1", "Ignored: one format of messages is stored."
    ),
    IgnoredConfig("local.retention.bytes", Kind.LONG, "-2", _NO_TIERS),
    IgnoredConfig("local.retention.ms", Kind.LONG, "-2", _NO_TIERS),
    IgnoredConfig(
        "max.decompressed.message.bytes", Kind.INT, str(2**31 - 9),
        f"Ignored: where a broker decompresses a batch, {BROKER_DECOMPRESSED_BYTES_MAX} is its bound.",
    ),
    IgnoredConfig("preallocate", Kind.BOOLEAN, "false", "Ignored: segments grow as they are written."),
    IgnoredConfig("remote.copy.lag.bytes", Kind.LONG, "-1", _NO_TIERS),
    IgnoredConfig("remote.copy.lag.ms", Kind.LONG, "0", _NO_TIERS),
    IgnoredConfig("remote.log.copy.disable", Kind.BOOLEAN, "false", _NO_TIERS),
    IgnoredConfig("remote.log.delete.on.disable", Kind.BOOLEAN, "false", _NO_TIERS),
    IgnoredConfig("segment.index.bytes", Kind.INT, "10485760", "Ignored: an index grows as it needs."),
    IgnoredConfig("segment.jitter.ms", Kind.LONG, "0", "Ignored: segment.ms holds exactly."),
)  # fmt: skip

REMOVED: Final = frozenset(
    {"message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"}
)
"""Names that Kafka 4 has no more: tools still set them, and clients are not shown them."""

BROKER_THROTTLES: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Throttles of Kafka's brokers. `kafka-reassign-partitions --verify` deletes them, set or not."""

TopicConfigName = OwnConfig | FixedConfig | IgnoredConfig

BY_NAME: Final[dict[str, TopicConfigName]] = {each.name: each for each in (*OWN, *FIXED, *IGNORED)}
