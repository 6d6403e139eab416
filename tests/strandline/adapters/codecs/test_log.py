"""What is written by hand is what protobuf would have written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.adapters.codecs.log import (
    DESCRIBE_REPLICAS,
    EPOCH_ENDS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PARTITION_COUNTS,
    PRODUCE,
    SERVED_PRODUCE,
)
from strandline.adapters.codecs.messages import Call
from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.config.limits import PARTITIONS_DESCRIBED_MAX
from strandline.errors import InvalidRequest, LeaderHint, NotLeaderOrFollower, UnknownTopicOrPartition
from strandline.ids import ACKS_ALL, NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.ports import Listener
from strandline.rpc import log_pb2
from strandline.vocabulary.log import (
    LATEST,
    DescribedReplicas,
    EpochQuery,
    FetchAnswer,
    Fetched,
    FetchPartition,
    FetchRequest,
    LeaderWait,
    ListedEpochEnd,
    ListedOffset,
    MetadataAnswer,
    MetadataQuery,
    OffsetQuery,
    ProduceEntry,
    ProduceResult,
    ProducerIdentity,
    ReplicaProgress,
    ReplicasQuery,
)
from strandline.vocabulary.log_position import EpochEnd
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint, PartitionMetadata, TopicMetadata

NAME = TopicPartition("orders", 7)

entries = st.builds(
    ProduceEntry,
    st.builds(TopicPartition, st.text(max_size=300), st.integers(0, 2**31 - 1)),
    st.binary(min_size=1, max_size=20_000),
    st.sampled_from([-1, 0, 1]),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**64 - 1),
    internal=st.just(False),
    expected_offset=st.none(),
    topic_id=st.sampled_from([NO_TOPIC_ID, TopicId("0" * 31 + "7")]),
    any_first_sequence=st.just(False),
)


@given(st.lists(entries, max_size=4))
def test_a_produce_request_is_read_as_it_was_meant(given_entries: list[ProduceEntry]) -> None:
    wanted = log_pb2.ProduceRequest()
    for entry in given_entries:
        wanted.entries.add(
            correlation_id=entry.correlation_id,
            topic=entry.name.topic,
            partition=entry.name.partition,
            acks=entry.acks,
            timeout_ms=entry.timeout_ms,
            records=entry.records,
            topic_id=entry.topic_id,
            transactional_id=entry.transactional_id,
        )
    assert log_pb2.ProduceRequest.FromString(PRODUCE.encode(given_entries)) == wanted
    decoded = SERVED_PRODUCE.decode(PRODUCE.encode(given_entries))
    assert list(decoded.entries) == given_entries
    alone = [each.name for each in given_entries if each.acks != ACKS_ALL]
    assert decoded.unreplicated == tuple(dict.fromkeys(alone))


def test_a_writer_of_internal_topics_marks_its_requests() -> None:
    """`PartitionRecords.internal`: without it a broker refuses names that begin with `__`."""
    entry = ProduceEntry(TopicPartition("__group_events", 0), b"records", internal=True)
    request = log_pb2.ProduceRequest.FromString(PRODUCE.encode([entry]))
    assert [(found.internal, found.records) for found in request.entries] == [(True, b"records")]


def test_a_batch_in_a_transaction_names_its_transactional_id_and_the_message_says_so() -> None:
    name = TopicPartition("orders", 0)
    entries = [ProduceEntry(name, b"plain"), ProduceEntry(name, b"in one", transactional_id="payments")]
    for sent in ([entries[0]], entries):
        message = SERVED_PRODUCE.decode(PRODUCE.encode(sent))
        assert list(message.entries) == sent
        assert message.transactional is (sent is entries)


def test_results_come_with_their_errors() -> None:
    response = log_pb2.ProduceResponse()
    response.results.add(correlation_id=1, base_offset=7, appended=True)
    response.results.add(
        correlation_id=2, base_offset=-1, error=error_to_wire(NotLeaderOrFollower("no"), Listener.INTERNAL)
    )
    first, second = PRODUCE.decode(response.SerializeToString())
    assert first == ProduceResult(1, None, 7, appended=True)
    assert isinstance(second.error, NotLeaderOrFollower) and second.correlation_id == 2
    assert not second.appended


CLUSTER = ClusterMetadata(
    "c",
    (Endpoint(1, "h", 2, "r"),),
    Endpoint(9, "h", 3),
    (TopicMetadata("t", TopicId("id"), (PartitionMetadata(0, 1, 5, (1, 2), (1,)),), {"retention.ms": "7"}),),
    "why",
)
EXCHANGES: list[tuple[Call[Any, Any], Any, Any]] = [
    (
        FETCH,
        FetchRequest(
            9,
            500,
            1,
            1_000,
            [
                FetchPartition(NAME, 7, 5, 100, TopicId("id"), 4),
                FetchPartition(NAME, 7, 5, 100, last_epoch=0),
            ],
        ),
        FetchAnswer(
            9,
            [
                Fetched(NAME, None, 8, 1, b"records", 5, topic_id=TopicId("id")),
                Fetched(NAME, None, 8, 1, b"", 5, diverging=EpochEnd(4, 6)),
            ],
        ),
    ),
    (
        LIST_OFFSETS,
        (OffsetQuery(NAME, LATEST, TopicId("id")),),
        (ListedOffset(NAME, None, 1, 2, 3, 4, 5, 6, TopicId("id")),),
    ),
    (
        EPOCH_ENDS,
        (EpochQuery(NAME, 4, 5, TopicId("id")),),
        (ListedEpochEnd(NAME, None, 4, 6, TopicId("id")),),
    ),
    (
        METADATA,
        MetadataQuery(("t",), (LeaderWait(NAME, 5),), 100),
        MetadataAnswer(CLUSTER, {}),
    ),
    (METADATA, MetadataQuery(None), MetadataAnswer(ClusterMetadata("", (), None, ()), {})),
    (PARTITION_COUNTS, ("t",), {"t": 3}),
    (
        DESCRIBE_REPLICAS,
        (ReplicasQuery(NAME),),
        (
            DescribedReplicas(
                NAME,
                None,
                1,
                -1,
                3,
                4,
                5,
                2,
                (ReplicaProgress(1, True, False, True, False, 6, 7, 8, 9, 10, 11),),
                TopicId("i"),
            ),
        ),
    ),
    (INIT_PRODUCER_ID, None, ProducerIdentity(2**62, 0)),
]


@pytest.mark.parametrize(("rpc", "request_", "answer"), EXCHANGES, ids=[each[0].path for each in EXCHANGES])
def test_values_survive_the_wire_in_both_directions(
    rpc: Call[Any, Any], request_: object, answer: object
) -> None:
    assert rpc.served.decode(rpc.encode(request_)) == request_
    assert rpc.decode(rpc.served.encode(answer, Listener.INTERNAL)) == answer


def test_a_topic_that_is_not_described_has_its_error() -> None:
    answer = MetadataAnswer(CLUSTER, {"no": UnknownTopicOrPartition("no such topic")})
    found = METADATA.decode(METADATA.served.encode(answer, Listener.INTERNAL))
    assert found.cluster == CLUSTER
    assert isinstance(found.errors["no"], UnknownTopicOrPartition)


def test_an_answer_names_the_addresses_of_the_listener_that_was_called() -> None:
    """Without an external address, a member has one address for all callers."""
    two, one = Endpoint(1, "in", 1, external=("out", 2)), Endpoint(2, "in", 3)
    hidden = NotLeaderOrFollower("no", leader=LeaderHint(1, "in", 1, 5, ("out", 2)))
    answer = MetadataAnswer(ClusterMetadata("", (two, one), two, ()), {"t": hidden})
    for to, (host, port) in ((Listener.INTERNAL, ("in", 1)), (Listener.EXTERNAL, ("out", 2))):
        found = METADATA.decode(METADATA.served.encode(answer, to))
        assert found.cluster.brokers == (Endpoint(1, host, port), Endpoint(2, "in", 3))
        assert found.cluster.controller == Endpoint(1, host, port)
        assert found.errors["t"].leader == LeaderHint(1, host, port, 5)


def test_a_request_describes_a_bounded_number_of_partitions() -> None:
    """Its answer is longer than it: each partition may have a hundred replicas."""
    asked = [ReplicasQuery(NAME)] * (PARTITIONS_DESCRIBED_MAX + 1)
    assert len(DESCRIBE_REPLICAS.served.decode(DESCRIBE_REPLICAS.encode(asked[1:]))) == len(asked) - 1
    with pytest.raises(InvalidRequest, match="1001 partitions"):
        DESCRIBE_REPLICAS.served.decode(DESCRIBE_REPLICAS.encode(asked))


def test_a_client_that_names_no_epoch_has_none() -> None:
    """A client of an earlier version leaves the field out; epoch 0 is an epoch."""
    request = log_pb2.FetchRequest()
    request.partitions.add(topic="t", fetch_offset=7, leader_epoch=5, max_bytes=100)
    (wanted,) = FETCH.served.decode(request.SerializeToString()).partitions
    assert (wanted.topic_id, wanted.last_epoch) == (NO_TOPIC_ID, NO_EPOCH)
