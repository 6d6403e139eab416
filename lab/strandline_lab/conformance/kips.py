"""What Kafka's improvement proposals (KIPs) ask of a broker, by the APIs and versions that brought it.

`checks/doc_tables.py` compares this with what is served, for the matrix in docs/use/kafka.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Kip(NamedTuple):
    """One proposal. `needs`: an API, and the first version that has what the proposal brought."""

    number: int
    subject: str
    needs: Mapping[str, int]
    partly: str = ""
    """What is not done although the versions are served, or done without them."""

    def served(self, versions: Mapping[str, range]) -> bool:
        """Whether all versions that it needs are."""
        return all(since in versions.get(api, ()) for api, since in self.needs.items())


KIPS: Final = (
    Kip(35, "a client asks for the versions that are served", {"ApiVersions": 0}),
    Kip(48, "delegation tokens", {"CreateDelegationToken": 1}),
    Kip(98, "idempotent producers", {"InitProducerId": 0, "Produce": 3}),
    Kip(98, "transactions", {"AddPartitionsToTxn": 0, "EndTxn": 0}),
    Kip(107, "records before an offset are deleted", {"DeleteRecords": 0}),
    Kip(113, "sizes of logs by directory", {"DescribeLogDirs": 1}),
    Kip(113, "replicas move between directories", {"AlterReplicaLogDirs": 1}),
    Kip(124, "quotas of request time", {"DescribeClientQuotas": 0}),
    Kip(133, "configs are described", {"DescribeConfigs": 1}),
    Kip(140, "ACLs by requests", {"DescribeAcls": 1, "CreateAcls": 1, "DeleteAcls": 1}),
    Kip(195, "topics get more partitions", {"CreatePartitions": 0}),
    Kip(207, "no old end of a log from a new leader", {"ListOffsets": 5}),
    Kip(219, "a throttled client learns it before it has to wait", {"Produce": 6, "Fetch": 8}),
    Kip(226, "configs of brokers change while they run", {"IncrementalAlterConfigs": 0},
        "no: a broker reads its settings at its start"),
    Kip(227, "fetch sessions", {"Fetch": 7}),
    Kip(229, "groups are deleted", {"DeleteGroups": 0}),
    Kip(279, "a log's end by leader epoch", {"OffsetForLeaderEpoch": 2}),
    Kip(320, "readers notice that records were taken back",
        {"Fetch": 9, "ListOffsets": 4, "OffsetForLeaderEpoch": 2, "OffsetCommit": 6}),
    Kip(339, "single configs are set, deleted, appended to", {"IncrementalAlterConfigs": 0}),
    Kip(345, "static members", {"JoinGroup": 5, "LeaveGroup": 3}),
    Kip(360, "a producer recovers by a new epoch", {"InitProducerId": 3}),
    Kip(368, "a login is renewed on its connection", {"SaslAuthenticate": 1}),
    Kip(390, "levels of codecs by topic", {"CreateTopics": 0}),
    Kip(392, "fetch from the nearest replica", {"Fetch": 11}),
    Kip(394, "a member has its id before it joins", {"JoinGroup": 4}),
    Kip(405, "tiered storage", {"ListOffsets": 8}, "no: answered as by Kafka without it"),
    Kip(429, "cooperative rebalancing", {"JoinGroup": 0, "SyncGroup": 0}),
    Kip(430, "rights of the caller", {"Metadata": 8, "DescribeGroups": 3, "DescribeCluster": 0}),
    Kip(455, "replicas move by requests",
        {"AlterPartitionReassignments": 0, "ListPartitionReassignments": 0}),
    Kip(460, "leaders are elected by requests, unclean ones too", {"ElectLeaders": 1}),
    Kip(467, "which records of a batch were refused", {"Produce": 8}),
    Kip(496, "offsets of a group are deleted", {"OffsetDelete": 0}),
    Kip(511, "a client names its software", {"ApiVersions": 3}),
    Kip(516, "topics have ids: Metadata and DeleteTopics", {"Metadata": 10, "DeleteTopics": 6}),
    Kip(516, "topics have ids: Produce, Fetch and offsets of groups",
        {"Produce": 13, "Fetch": 13, "OffsetCommit": 10, "OffsetFetch": 10}),
    Kip(518, "groups by state", {"ListGroups": 4}),
    Kip(525, "configs of a new topic in the answer", {"CreateTopics": 5}),
    Kip(546, "quotas of users and clients by requests", {"DescribeClientQuotas": 0, "AlterClientQuotas": 0}),
    Kip(554, "SCRAM users by requests",
        {"DescribeUserScramCredentials": 0, "AlterUserScramCredentials": 0}),
    Kip(559, "a group's kind of protocol is checked", {"JoinGroup": 7, "SyncGroup": 5}),
    Kip(584, "features", {"ApiVersions": 3}, "all at level 0"),
    Kip(590, "requests of administrators at any broker", {"CreateTopics": 0}),
    Kip(599, "quotas of topics that are made and deleted", {"CreateTopics": 6, "DescribeClientQuotas": 0}),
    Kip(612, "quotas of connections by address", {"AlterClientQuotas": 0},
        "of addresses and their default, not of host names; a broker and a listener have no rate"),
    Kip(664, "producers of a partition", {"DescribeProducers": 0}),
    Kip(664, "hanging transactions are found and aborted",
        {"DescribeTransactions": 0, "ListTransactions": 0, "WriteTxnMarkers": 1}),
    Kip(699, "coordinators of several groups in one request", {"FindCoordinator": 4}),
    Kip(700, "the cluster described without topics", {"DescribeCluster": 0}),
    Kip(709, "offsets of several groups in one request", {"OffsetFetch": 8}),
    Kip(714, "clients push their metrics", {"GetTelemetrySubscriptions": 0, "PushTelemetry": 0}),
    Kip(734, "the offset of the latest time", {"ListOffsets": 7}),
    Kip(800, "a member says why it joins or leaves", {"JoinGroup": 8, "LeaveGroup": 5}),
    Kip(814, "a static leader that joins again assigns nothing", {"JoinGroup": 9}),
    Kip(827, "free bytes of a directory", {"DescribeLogDirs": 4}),
    Kip(848, "groups whose coordinator assigns", {"ConsumerGroupHeartbeat": 0, "ConsumerGroupDescribe": 0}),
    Kip(853, "voters of KRaft", {"DescribeQuorum": 2}, "no: ZooKeeper coordinates"),
    Kip(890, "transactions with an epoch each", {"EndTxn": 5, "AddPartitionsToTxn": 4}),
    Kip(932, "share groups", {"ShareFetch": 1, "ShareAcknowledge": 1}),
    Kip(951, "a refusal names the new leader", {"Produce": 10, "Fetch": 16}),
    Kip(966, "large topics described in parts", {"DescribeTopicPartitions": 0}),
    Kip(1000, "resources of client metrics are listed", {"ListConfigResources": 0}),
    Kip(1005, "the offset after what is tiered", {"ListOffsets": 9}),
    Kip(1043, "unknown groups are an error of their own", {"DescribeGroups": 6, "OffsetCommit": 9}),
    Kip(1071, "groups of Kafka Streams", {"StreamsGroupHeartbeat": 0}),
    Kip(1073, "brokers that are down", {"DescribeCluster": 2}),
    Kip(1102, "an answer has a client begin anew", {"Metadata": 13}),
    Kip(1142, "resources with configs are listed", {"ListConfigResources": 1}),
    Kip(1242, "a client names the cluster and the broker that it means", {"ApiVersions": 5}),
)  # fmt: skip
