"""Packing a topic's writes into multis (PLATFORM: a multi above ZooKeeper's limit breaks the connection)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.adapters.system_host import new_id
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.adapters.zookeeper.requests.sizes import OPERATION_BYTES
from strandline.config.limits import MULTI_BYTES_MAX, STATE_ENTRY_BYTES_MAX, ZNODE_BYTES_MAX
from strandline.controller.core.cluster import PlacedTopic
from strandline.controller.term.writes import (
    HEAD_BYTES_MAX,
    Multi,
    Stamp,
    Whole,
    creation_steps,
    joined,
    pack,
    pack_each,
    pack_wholes,
)
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, TopicId
from strandline.ports import Create
from strandline.vocabulary.metadata import Endpoint, Registration
from strandline.vocabulary.state_changes import RequestState

TOPIC_ID = TopicId("0" * 32)
STAMP = Stamp(2**41, new_id)


@settings(deadline=None, max_examples=20)
@given(
    partitions=st.integers(1, 2_000),
    replication_factor=st.integers(1, 3),
    name_length=st.integers(1, 249),
)
def test_all_is_written_once_in_multis_below_the_limit_each_partition_whole_in_one(
    partitions: int, replication_factor: int, name_length: int
) -> None:
    """Writes that belong together go into one multi."""
    name = "n" * name_length
    assigned = tuple(BrokerId(b) for b in range(replication_factor))
    live = {b: Registration(Endpoint(b, "h", 1), BrokerEpoch(2**40)) for b in assigned}
    topic = PlacedTopic(TOPIC_ID, [assigned] * partitions)
    multis = pack(creation_steps(name, topic, live, STAMP))
    placed, requested = [], []
    for multi in multis:
        creates = [op for op in multi.operations if isinstance(op, Create)]
        assert len(creates) == len(multi.operations)
        sizes = [len(op.path) + len(op.data) + OPERATION_BYTES for op in creates]
        assert sum(sizes) + HEAD_BYTES_MAX <= MULTI_BYTES_MAX
        assert all(len(op.data) <= ZNODE_BYTES_MAX for op in creates)
        here = [int(op.path.split("/")[4]) for op in creates if op.path.endswith("/isr")]
        placed += here
        entries = [op for op in creates if op.sequential]
        assert len(entries) == replication_factor
        for entry in entries:
            changes = queue_znodes.load_state_changes(entry.data)
            assert [change.key.partition for change in changes] == here
            requested += changes
        queued = [change for entry in entries for change in queue_znodes.load_state_changes(entry.data)]
        assert [change for _, change in multi.requested] == queued
    assert placed == list(range(partitions))
    assert len({change.request_id for change in requested}) == partitions * replication_factor


def test_the_requests_of_many_topics_share_one_znode_a_broker_as_far_as_it_has_room() -> None:
    """A broker later writes the ends of the requests beside them."""
    one = [(BrokerId(1),)] * 3
    topics = {f"t{number}": PlacedTopic(TopicId(f"{number:032}"), one) for number in range(400)}
    wholes = [Whole.of(creation_steps(name, topic, {}, STAMP), name) for name, topic in topics.items()]
    lots = pack_wholes(wholes)
    assert [each.meant for lot in lots for each in lot] == list(topics)
    assert 1 < len(lots) < 4
    for lot in lots:
        (entry,) = (op for op in joined(lot).operations if isinstance(op, Create) and op.sequential)
        assert len(entry.data) <= STATE_ENTRY_BYTES_MAX
        asked = [change.topic for change in queue_znodes.load_state_changes(entry.data)]
        assert asked == [each.meant for each in lot for _ in range(3)]


def test_no_step_is_one_empty_multi() -> None:
    assert pack([]) == [Multi(())]


def test_each_multi_comes_with_the_meaning_of_its_steps() -> None:
    """A caller that writes several partitions at once must report the outcome of each."""
    steps = creation_steps("t", PlacedTopic(TOPIC_ID, [(BrokerId(1),)] * 3_000), {}, STAMP)
    packed = pack_each(zip(steps, range(len(steps)), strict=True))
    assert len(packed) > 1
    assert [number for _, numbers in packed for number in numbers] == list(range(3_000))
    for multi, numbers in packed:
        assert [change.key.partition for _, change in multi.requested] == numbers


def test_the_requests_that_a_multi_queues_are_recorded() -> None:
    """Kafka's design V2, goal 7: the life of a request begins with the requester, the broker and the
    reason."""
    (multi,) = pack(creation_steps("t", PlacedTopic(TOPIC_ID, [(BrokerId(1), BrokerId(2))]), {}, STAMP))
    facts_of_events = [(event.broker, event.state, event.requester, event.at_ms) for event in multi.events()]
    assert facts_of_events == [(broker, RequestState.REQUESTED, NO_BROKER, STAMP.at_ms) for broker in (1, 2)]
    assert {event.reason for event in multi.events()} == {"topic created"}
