"""What is written by hand is what protobuf would have written (DESIGN §11 Services)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.client.wire.produce import PRODUCE, Entry, Result
from strandline.errors import NotLeaderOrFollower
from strandline.ids import TopicPartition
from strandline.rpc import log_pb2

entries = st.builds(
    Entry,
    st.integers(0, 2**64 - 1),
    st.builds(TopicPartition, st.text(max_size=300), st.integers(0, 2**31 - 1)),
    st.sampled_from([-1, 0, 1]),
    st.integers(0, 2**31 - 1),
    st.binary(min_size=1, max_size=20_000),
)


@given(st.lists(entries, max_size=4))
def test_a_produce_request_is_read_as_it_was_meant(given_entries: list[Entry]) -> None:
    wanted = log_pb2.ProduceRequest()
    for entry in given_entries:
        wanted.entries.add(
            correlation_id=entry.correlation_id,
            topic=entry.name.topic,
            partition=entry.name.partition,
            acks=entry.acks,
            timeout_ms=entry.timeout_ms,
            records=entry.records,
        )
    assert PRODUCE.encode(given_entries) == wanted.SerializeToString()


def test_who_writes_the_systems_own_topics_says_so() -> None:
    """`PartitionRecords.internal`: without it a broker refuses names that begin with `__`."""
    entry = Entry(1, TopicPartition("__group_events", 0), -1, 5, b"records", internal=True)
    request = log_pb2.ProduceRequest.FromString(PRODUCE.encode([entry]))
    assert [(found.internal, found.records) for found in request.entries] == [(True, b"records")]


def test_results_come_with_their_errors() -> None:
    response = log_pb2.ProduceResponse()
    response.results.add(correlation_id=1, base_offset=7, appended=True)
    response.results.add(correlation_id=2, base_offset=-1, error=error_to_wire(NotLeaderOrFollower("no")))
    first, second = PRODUCE.decode(response.SerializeToString())
    assert first == Result(1, None, 7, appended=True)
    assert isinstance(second.error, NotLeaderOrFollower) and second.correlation_id == 2
    assert not second.appended
