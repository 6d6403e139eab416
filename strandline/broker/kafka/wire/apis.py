"""The versions of each API that are served, and the declarations of their messages.

A version is served only if every one between the first and the last is. Some ends have a reason of their own:

* Produce begins at 0 although versions below 3 are refused: librdkafka before 2.11.1 does not compress for a
  broker whose Produce begins later. FindCoordinator begins at 0 for its consumers.
* SaslHandshake begins at 1: after version 0 the messages of a login would come without headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from strandline.broker.kafka.wire import coordinator, fetch, metadata, offsets, produce, producer_id, sasl
from strandline.broker.kafka.wire.admin import (
    acls,
    cluster,
    configs,
    placement,
    quotas,
    replicas,
    resources,
    topic_changes,
    topic_partitions,
    users,
)
from strandline.broker.kafka.wire.fields import Reader, Steps, Writer
from strandline.broker.kafka.wire.groups import administration, consumers, membership
from strandline.broker.kafka.wire.groups import offsets as group_offsets
from strandline.broker.kafka.wire.table.compiled import reading, writing
from strandline.broker.kafka.wire.table.rows import NEVER, Struct
from strandline.broker.kafka.wire.transactions import markers, producers, tools

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ApiWire(Generic[Request, Answer]):
    """One API: its versions, both ends included, and how bytes become values and back."""

    key: int
    name: str
    first: int
    last: int
    flexible_since: int
    request: Struct[Request]
    answer: Struct[Answer]

    @property
    def versions(self) -> range:
        """Those that are served."""
        return range(self.first, self.last + 1)

    def flexible(self, version: int) -> bool:
        """Whether lengths are varints, and structures end with tags."""
        return version >= self.flexible_since

    def read(self, reader: Reader, version: int) -> Request:
        """Reads the whole request. Raises MalformedRequest."""
        request: Request = reading(self.request, version, self.flexible(version))(reader)
        return request

    def write(self, writer: Writer, answer: Answer, version: int) -> Steps | None:
        """Writes an answer: at once, or in steps if it may be large."""
        return writing(self.answer, version, self.flexible(version))(writer, answer)

    def read_answer(self, reader: Reader, version: int) -> Answer:
        """The client's part. Raises MalformedRequest."""
        answer: Answer = reading(self.answer, version, self.flexible(version))(reader)
        return answer

    def write_request(self, writer: Writer, request: Request, version: int) -> None:
        """The client's part."""
        for _ in writing(self.request, version, self.flexible(version))(writer, request) or ():
            pass


PRODUCE: Final = ApiWire(0, "Produce", 0, 13, 9, produce.REQUEST, produce.ANSWER)
FETCH: Final = ApiWire(1, "Fetch", 4, 18, 12, fetch.REQUEST, fetch.ANSWER)
LIST_OFFSETS: Final = ApiWire(2, "ListOffsets", 1, 11, 6, offsets.LIST_REQUEST, offsets.LIST_ANSWER)
METADATA: Final = ApiWire(3, "Metadata", 0, 13, 9, metadata.REQUEST, metadata.ANSWER)
FIND_COORDINATOR: Final = ApiWire(10, "FindCoordinator", 0, 6, 3, coordinator.REQUEST, coordinator.ANSWER)
INIT_PRODUCER_ID: Final = ApiWire(22, "InitProducerId", 0, 5, 2, producer_id.REQUEST, producer_id.ANSWER)
OFFSET_FOR_LEADER_EPOCH: Final = ApiWire(
    23, "OffsetForLeaderEpoch", 2, 4, 4, offsets.ENDS_REQUEST, offsets.ENDS_ANSWER
)

# --- logins -----------------------------------------------------------------------------------

SASL_HANDSHAKE: Final = ApiWire(
    17, "SaslHandshake", 0, 1, NEVER, sasl.HANDSHAKE_REQUEST, sasl.HANDSHAKE_ANSWER
)
SASL_AUTHENTICATE: Final = ApiWire(
    36, "SaslAuthenticate", 0, 2, 2, sasl.AUTHENTICATE_REQUEST, sasl.AUTHENTICATE_ANSWER
)

# --- groups -----------------------------------------------------------------------------------

OFFSET_COMMIT: Final = ApiWire(
    8, "OffsetCommit", 2, 10, 8, group_offsets.COMMIT_REQUEST, group_offsets.COMMIT_ANSWER
)
OFFSET_FETCH: Final = ApiWire(
    9, "OffsetFetch", 1, 10, 6, group_offsets.FETCH_REQUEST, group_offsets.FETCH_ANSWER
)
TXN_OFFSET_COMMIT: Final = ApiWire(
    28, "TxnOffsetCommit", 0, 6, 3, group_offsets.TXN_COMMIT_REQUEST, group_offsets.TXN_COMMIT_ANSWER
)
JOIN_GROUP: Final = ApiWire(11, "JoinGroup", 0, 9, 6, membership.JOIN_REQUEST, membership.JOIN_ANSWER)
HEARTBEAT: Final = ApiWire(
    12, "Heartbeat", 0, 4, 4, membership.HEARTBEAT_REQUEST, membership.HEARTBEAT_ANSWER
)
LEAVE_GROUP: Final = ApiWire(13, "LeaveGroup", 0, 5, 4, membership.LEAVE_REQUEST, membership.LEAVE_ANSWER)
SYNC_GROUP: Final = ApiWire(14, "SyncGroup", 0, 5, 4, membership.SYNC_REQUEST, membership.SYNC_ANSWER)
CONSUMER_GROUP_HEARTBEAT: Final = ApiWire(
    68, "ConsumerGroupHeartbeat", 0, 1, 0, consumers.HEARTBEAT_REQUEST, consumers.HEARTBEAT_ANSWER
)
CONSUMER_GROUP_DESCRIBE: Final = ApiWire(
    69, "ConsumerGroupDescribe", 0, 1, 0, consumers.DESCRIBE_REQUEST, consumers.DESCRIBE_ANSWER
)
DESCRIBE_GROUPS: Final = ApiWire(
    15, "DescribeGroups", 0, 6, 5, administration.DESCRIBE_REQUEST, administration.DESCRIBE_ANSWER
)
LIST_GROUPS: Final = ApiWire(
    16, "ListGroups", 0, 5, 3, administration.LIST_REQUEST, administration.LIST_ANSWER
)
DELETE_GROUPS: Final = ApiWire(
    42, "DeleteGroups", 0, 3, 2, administration.DELETE_REQUEST, administration.DELETE_ANSWER
)
OFFSET_DELETE: Final = ApiWire(
    47, "OffsetDelete", 0, 0, NEVER, group_offsets.DELETE_REQUEST, group_offsets.DELETE_ANSWER
)

# --- transactions -----------------------------------------------------------------------------

ADD_PARTITIONS_TO_TXN: Final = ApiWire(
    24, "AddPartitionsToTxn", 0, 5, 3, producers.ADD_PARTITIONS_REQUEST, producers.ADD_PARTITIONS_ANSWER
)
ADD_OFFSETS_TO_TXN: Final = ApiWire(
    25, "AddOffsetsToTxn", 0, 4, 3, producers.ADD_OFFSETS_REQUEST, producers.ADD_OFFSETS_ANSWER
)
END_TXN: Final = ApiWire(26, "EndTxn", 0, 5, 3, producers.END_REQUEST, producers.END_ANSWER)
WRITE_TXN_MARKERS: Final = ApiWire(27, "WriteTxnMarkers", 1, 2, 1, markers.REQUEST, markers.ANSWER)
DESCRIBE_TRANSACTIONS: Final = ApiWire(
    65, "DescribeTransactions", 0, 0, 0, tools.DESCRIBE_REQUEST, tools.DESCRIBE_ANSWER
)
LIST_TRANSACTIONS: Final = ApiWire(66, "ListTransactions", 0, 2, 0, tools.LIST_REQUEST, tools.LIST_ANSWER)

# --- admin ------------------------------------------------------------------------------------

CREATE_TOPICS: Final = ApiWire(
    19, "CreateTopics", 0, 7, 5, topic_changes.CREATE_REQUEST, topic_changes.CREATE_ANSWER
)
DELETE_TOPICS: Final = ApiWire(
    20, "DeleteTopics", 0, 6, 4, topic_changes.DELETE_REQUEST, topic_changes.DELETE_ANSWER
)
CREATE_PARTITIONS: Final = ApiWire(
    37, "CreatePartitions", 0, 3, 2, topic_changes.GROW_REQUEST, topic_changes.GROW_ANSWER
)
DESCRIBE_ACLS: Final = ApiWire(29, "DescribeAcls", 1, 3, 2, acls.DESCRIBE_REQUEST, acls.DESCRIBE_ANSWER)
CREATE_ACLS: Final = ApiWire(30, "CreateAcls", 1, 3, 2, acls.CREATE_REQUEST, acls.CREATE_ANSWER)
DELETE_ACLS: Final = ApiWire(31, "DeleteAcls", 1, 3, 2, acls.DELETE_REQUEST, acls.DELETE_ANSWER)
DESCRIBE_CONFIGS: Final = ApiWire(
    32, "DescribeConfigs", 1, 4, 4, configs.DESCRIBE_REQUEST, configs.DESCRIBE_ANSWER
)
ALTER_CONFIGS: Final = ApiWire(33, "AlterConfigs", 0, 2, 2, configs.ALTER_REQUEST, configs.ALTER_ANSWER)
INCREMENTAL_ALTER_CONFIGS: Final = ApiWire(
    44, "IncrementalAlterConfigs", 0, 1, 1, configs.INCREMENTAL_REQUEST, configs.ALTER_ANSWER
)
DESCRIBE_CLIENT_QUOTAS: Final = ApiWire(
    48, "DescribeClientQuotas", 0, 1, 1, quotas.DESCRIBE_REQUEST, quotas.DESCRIBE_ANSWER
)
ALTER_CLIENT_QUOTAS: Final = ApiWire(
    49, "AlterClientQuotas", 0, 1, 1, quotas.ALTER_REQUEST, quotas.ALTER_ANSWER
)
DELETE_RECORDS: Final = ApiWire(21, "DeleteRecords", 0, 2, 2, replicas.DELETE_REQUEST, replicas.DELETE_ANSWER)
DESCRIBE_LOG_DIRS: Final = ApiWire(
    35, "DescribeLogDirs", 1, 5, 2, replicas.DIRS_REQUEST, replicas.DIRS_ANSWER
)
ELECT_LEADERS: Final = ApiWire(43, "ElectLeaders", 0, 2, 2, placement.ELECT_REQUEST, placement.ELECT_ANSWER)
ALTER_PARTITION_REASSIGNMENTS: Final = ApiWire(
    45, "AlterPartitionReassignments", 0, 1, 0, placement.REASSIGN_REQUEST, placement.REASSIGN_ANSWER
)
LIST_PARTITION_REASSIGNMENTS: Final = ApiWire(
    46, "ListPartitionReassignments", 0, 0, 0, placement.LIST_REQUEST, placement.LIST_ANSWER
)
DESCRIBE_USERS: Final = ApiWire(
    50, "DescribeUserScramCredentials", 0, 0, 0, users.DESCRIBE_REQUEST, users.DESCRIBE_ANSWER
)
ALTER_USERS: Final = ApiWire(
    51, "AlterUserScramCredentials", 0, 0, 0, users.ALTER_REQUEST, users.ALTER_ANSWER
)
DESCRIBE_CLUSTER: Final = ApiWire(60, "DescribeCluster", 0, 2, 0, cluster.REQUEST, cluster.ANSWER)
DESCRIBE_TOPIC_PARTITIONS: Final = ApiWire(
    75, "DescribeTopicPartitions", 0, 0, 0, topic_partitions.REQUEST, topic_partitions.ANSWER
)
UNREGISTER_BROKER: Final = ApiWire(
    64, "UnregisterBroker", 0, 0, 0, cluster.UNREGISTER_REQUEST, cluster.UNREGISTER_ANSWER
)
LIST_CONFIG_RESOURCES: Final = ApiWire(
    74, "ListConfigResources", 0, 1, 0, resources.REQUEST, resources.ANSWER
)
DESCRIBE_PRODUCERS: Final = ApiWire(
    61, "DescribeProducers", 0, 0, 0, replicas.PRODUCERS_REQUEST, replicas.PRODUCERS_ANSWER
)
