"""The tables of the messages that a broker serves."""

from __future__ import annotations

from typing import Final

from tests.broker.kafka.support.schemas import F, Field, Schema

THROTTLE: Final = "throttle_time_ms"


def topics(*partition: Field) -> Field:
    return F("topics", [F("name", "string"), F("partitions", list(partition))])


PRODUCE: Final = Schema(
    0, "Produce", 0, 9, 9,
    [
        F("transactional_id", "string", 3, null_since=3),
        F("acks", "int16"),
        F("timeout_ms", "int32"),
        topics(F("partition", "int32"), F("records", "bytes", null_since=0)),
    ],
    [
        topics(
            F("partition", "int32"),
            F("error", "int16"),
            F("base_offset", "int64"),
            F("log_append_time_ms", "int64", 2),
            F("log_start_offset", "int64", 5),
            F("record_errors", [F("batch_index", "int32"), F("message", "string", null_since=0)], 8),
            F("message", "string", 8, null_since=8),
        ),
        F(THROTTLE, "int32", 1),
    ],
)  # fmt: skip
FETCH: Final = Schema(
    1, "Fetch", 4, 12, 12,
    [
        F("replica", "int32"),
        F("wait_ms", "int32"),
        F("bytes_min", "int32"),
        F("bytes_max", "int32"),
        F("isolation_level", "int8"),
        F("session_id", "int32", 7),
        F("session_epoch", "int32", 7),
        topics(
            F("partition", "int32"),
            F("leader_epoch", "int32", 9),
            F("offset", "int64"),
            F("last_fetched_epoch", "int32", 12),
            F("log_start_offset", "int64", 5),
            F("bytes_max", "int32"),
        ),
        F("forgotten", [F("name", "string"), F("partitions", ["int32"])], 7),
        F("rack", "string", 11),
    ],
    [
        F(THROTTLE, "int32"),
        F("error", "int16", 7),
        F("session_id", "int32", 7),
        topics(
            F("partition", "int32"),
            F("error", "int16"),
            F("high_watermark", "int64"),
            F("last_stable_offset", "int64"),
            F("log_start_offset", "int64", 5),
            F("aborted", [F("producer_id", "int64"), F("first_offset", "int64")], null_since=0),
            F("preferred_read_replica", "int32", 11),
            F("records", "bytes", null_since=0),
        ),
    ],
)  # fmt: skip
LIST_OFFSETS: Final = Schema(
    2, "ListOffsets", 1, 7, 6,
    [
        F("replica", "int32"),
        F("isolation_level", "int8", 2),
        topics(F("partition", "int32"), F("leader_epoch", "int32", 4), F("timestamp_ms", "int64")),
    ],
    [
        F(THROTTLE, "int32", 2),
        topics(
            F("partition", "int32"),
            F("error", "int16"),
            F("timestamp_ms", "int64"),
            F("offset", "int64"),
            F("leader_epoch", "int32", 4),
        ),
    ],
)  # fmt: skip
METADATA: Final = Schema(
    3, "Metadata", 0, 12, 9,
    [
        F("topics", [F("topic_id", "uuid", 10), F("name", "string", null_since=10)], null_since=1),
        F("auto_create", "bool", 4),
        F("cluster_operations", "bool", 8, 10),
        F("topic_operations", "bool", 8),
    ],
    [
        F(THROTTLE, "int32", 3),
        F(
            "brokers",
            [
                F("broker", "int32"),
                F("host", "string"),
                F("port", "int32"),
                F("rack", "string", 1, null_since=1),
            ],
        ),
        F("cluster_id", "string", 2, null_since=2),
        F("controller", "int32", 1),
        F(
            "topics",
            [
                F("error", "int16"),
                F("name", "string", null_since=12),
                F("topic_id", "uuid", 10),
                F("is_internal", "bool", 1),
                F(
                    "partitions",
                    [
                        F("error", "int16"),
                        F("partition", "int32"),
                        F("leader", "int32"),
                        F("leader_epoch", "int32", 7),
                        F("replicas", ["int32"]),
                        F("isr", ["int32"]),
                        F("offline", ["int32"], 5),
                    ],
                ),
                F("operations", "int32", 8),
            ],
        ),
        F("operations", "int32", 8, 10),
    ],
)  # fmt: skip
FIND_COORDINATOR: Final = Schema(
    10, "FindCoordinator", 0, 4, 3,
    [F("key", "string", 0, 3), F("kind", "int8", 1), F("keys", ["string"], 4)],
    [
        F(THROTTLE, "int32", 1),
        F("error", "int16", 0, 3),
        F("message", "string", 1, 3, null_since=1),
        F("broker", "int32", 0, 3),
        F("host", "string", 0, 3),
        F("port", "int32", 0, 3),
        F(
            "found",
            [
                F("key", "string"),
                F("broker", "int32"),
                F("host", "string"),
                F("port", "int32"),
                F("error", "int16"),
                F("message", "string", null_since=4),
            ],
            4,
        ),
    ],
)  # fmt: skip
CREATE_TOPICS: Final = Schema(
    19, "CreateTopics", 0, 7, 5,
    [
        F(
            "topics",
            [
                F("name", "string"),
                F("partitions", "int32"),
                F("replication_factor", "int16"),
                F("assignments", [F("partition", "int32"), F("brokers", ["int32"])]),
                F("configs", [F("name", "string"), F("value", "string", null_since=0)]),
            ],
        ),
        F("timeout_ms", "int32"),
        F("validate_only", "bool", 1),
    ],
    [
        F(THROTTLE, "int32", 2),
        F(
            "topics",
            [
                F("name", "string"),
                F("topic_id", "uuid", 7),
                F("error", "int16"),
                F("message", "string", 1, null_since=1),
                F("partitions", "int32", 5),
                F("replication_factor", "int16", 5),
                F(
                    "configs",
                    [
                        F("name", "string"),
                        F("value", "string", null_since=5),
                        F("read_only", "bool"),
                        F("source", "int8"),
                        F("sensitive", "bool"),
                    ],
                    5,
                    null_since=5,
                ),
            ],
        ),
    ],
)  # fmt: skip
API_VERSIONS: Final = Schema(
    18, "ApiVersions", 0, 3, 3,
    [F("software_name", "string", 3), F("software_version", "string", 3)],
    [
        F("error", "int16"),
        F("served", [F("api", "int16"), F("first", "int16"), F("last", "int16")]),
        F(THROTTLE, "int32", 1),
    ],
)  # fmt: skip
INIT_PRODUCER_ID: Final = Schema(
    22, "InitProducerId", 0, 4, 2,
    [
        F("transactional_id", "string", null_since=0),
        F("timeout_ms", "int32"),
        F("producer_id", "int64", 3),
        F("producer_epoch", "int16", 3),
    ],
    [
        F(THROTTLE, "int32"),
        F("error", "int16"),
        F("producer_id", "int64"),
        F("producer_epoch", "int16"),
    ],
)  # fmt: skip
OFFSET_FOR_LEADER_EPOCH: Final = Schema(
    23, "OffsetForLeaderEpoch", 2, 4, 4,
    [
        F("replica", "int32", 3),
        topics(F("partition", "int32"), F("current_epoch", "int32"), F("epoch", "int32")),
    ],
    [
        F(THROTTLE, "int32"),
        topics(
            F("error", "int16"), F("partition", "int32"), F("epoch", "int32"), F("end_offset", "int64")
        ),
    ],
)  # fmt: skip

SCHEMAS: Final = (
    PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, CREATE_TOPICS, INIT_PRODUCER_ID,
    OFFSET_FOR_LEADER_EPOCH,
)  # fmt: skip
"""Every API but ApiVersions."""
