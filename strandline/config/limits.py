"""The limits that several packages share, and that no setting changes."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

RECORDS_BYTES_MAX: Final = 512 * KIB
"""Records in one message of a stream, or one batch if that is larger. strandline's own clients make no
larger batches: with larger messages, protobuf's copies halve the rate."""

STORED_BATCH_BYTES_MAX: Final = 16 * MIB
"""The largest batch that any topic takes, also if its config allows more: a leader checks and writes a batch
in one turn of its event loop. A request by gRPC has at most MESSAGE_BYTES_MAX."""

MESSAGE_BYTES_MAX: Final = 4 * MIB
"""The largest request that a broker or a controller accepts by gRPC. It leaves room to answer an
oversized batch with a typed error instead of a broken stream."""

ANSWER_BYTES_MAX: Final = MESSAGE_BYTES_MAX + STORED_BATCH_BYTES_MAX
"""The largest message that a gRPC client accepts: what it asked about, each with its answer, and one
batch of any size."""

DECOMPRESSED_BYTES_MAX: Final = 64 * MIB
"""The largest decompressed size of one batch's records: a few hundred bytes can claim to expand to
gigabytes."""

SEGMENT_INDEX_ROWS_MAX: Final = 1_000_000
"""16 bytes each in memory; a segment whose index is full is rolled."""

PRODUCERS_PER_PARTITION_MAX: Final = 10_000
OPEN_TRANSACTIONS_PER_PARTITION_MAX: Final = 50_000
PRODUCER_BATCHES_REMEMBERED: Final = 10
"""Batches of a producer that a partition remembers, and so the most that an idempotent producer has in flight
there. Kafka's brokers remember five, and its clients rely on no more."""
PRODUCER_EXPIRY_MS: Final = 7 * 24 * 3600 * 1000

TOPIC_NAME_LENGTH_MAX: Final = 249
GROUP_ID_LENGTH_MAX: Final = 249
"""Also the limit for member, instance and client ids, task names, and reasons."""
GROUP_REQUEST_ELEMENTS_MAX: Final = 20_000
"""Offsets, partitions, members or changes in one request to a coordinator, counted before work begins."""
TRANSACTIONAL_ID_LENGTH_MAX: Final = 1_024
"""Kafka Streams makes one of a group id, a UUID and a number, so that it is longer than a group id."""
MARKERS_PER_CALL_MAX: Final = 2_000
"""Markers of transactions in one call from a coordinator to a leader."""
LOGS_PER_CALL_MAX: Final = 100
"""Partitions in one question about open transactions."""
OPEN_IN_LOG_SHOWN_MAX: Final = 200
"""Open transactions of one partition in an answer: those that began first."""
ADMISSIONS_PER_CALL_MAX: Final = 2_000
"""Partitions that a leader asks about in one call to a coordinator of transactions, unless a single question
has more."""
TASK_CHANGES_SENT_MAX: Final = 100
"""Task changes that a member puts into one report; a broker accepts at least this number."""
INTERVAL_MS_MAX: Final = 2**31 - 1
"""The longest interval that a member may send to its coordinator: the messages have 32 bits for it."""
PARTITIONS_PER_TOPIC_MAX: Final = 10_000
TOPICS_PER_REQUEST_MAX: Final = 1_000
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""Partitions that one request to the controller may name, to reassign them or to change their leaders."""
PARTITIONS_DESCRIBED_MAX: Final = 1_000
"""Partitions of which one request may ask how far their replicas are."""
ACLS_PER_REQUEST_MAX: Final = 1_000
"""ACLs that one request may create, or filters by which it may delete ACLs."""
USERS_PER_REQUEST_MAX: Final = 1_000
"""Credentials that one request may change, or users whose credentials it may describe."""
QUOTAS_PER_REQUEST_MAX: Final = 1_000
"""Entities whose quotas one request may change."""
GROUP_CONFIGS_PER_REQUEST_MAX: Final = 1_000
"""Groups whose configs one request may change or ask for by name."""
REPLICAS_PER_BROKER_MAX: Final = 20_000
TOPIC_CHANGES_IN_FLIGHT_MAX: Final = 64
"""Topics that one request changes at the same time, if each has writes of its own."""

SIMULATION_SEED_MAX: Final = 2**53 - 1
"""The largest seed of a simulation: a plan is JSON, of which some readers change larger numbers."""

ZOOKEEPER_READS_IN_FLIGHT_MAX: Final = 1_000
ZOOKEEPER_BULK_READS_IN_FLIGHT_MAX: Final = 200
"""Reads in flight of work that may read every partition of the cluster. Elections and leases use the same
connection, and from 1,000 unanswered requests on a ZooKeeper server stops reading from all of them (its
`globalOutstandingLimit`)."""
ZNODE_BYTES_MAX: Final = 512 * KIB
"""Half of ZooKeeper's limit of 1 MB; exceeding that limit looks like a lost connection."""

BALANCE_REASONS_BYTES_MAX: Final = 16 * KIB
"""What a balance keeps of why it has skipped moves. It counts those for whose reasons there is no room."""

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

REASSIGNMENT_NEAR_BYTES: Final = 1 * MIB
"""A replica that is closer than this to the end of the log is not throttled: the constant
`reassignment_near_bytes`. Clients estimate with it how long a throttled copy takes."""

CONSOLE_LISTEN: Final = "127.0.0.1:8088"
"""Where a console listens by default."""
