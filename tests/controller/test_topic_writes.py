"""Packing a topic's writes into multis (PLATFORM: a multi above ZooKeeper's limit breaks the connection)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.cluster import PlacedTopic
from controller.topic_writes import HEAD_BYTES_MAX, OPERATION_BYTES, creation_steps, deletion_step, pack
from strandline.adapters import queue_znodes, znodes
from strandline.config import MULTI_BYTES_MAX, ZNODE_BYTES_MAX
from strandline.ids import BrokerEpoch, BrokerId, TopicId
from strandline.metadata import Endpoint, Registration
from strandline.ports import Create, Delete

TOPIC_ID = TopicId("0" * 32)


@settings(deadline=None, max_examples=20)
@given(
    partitions=st.integers(1, 2_000),
    replication_factor=st.integers(1, 3),
    name_length=st.integers(1, 249),
)
def test_all_is_written_once_in_multis_below_the_limit_each_partition_whole_in_one(
    partitions: int, replication_factor: int, name_length: int
) -> None:
    """DESIGN §3: writes that belong together go into one multi."""
    name = "n" * name_length
    assigned = tuple(BrokerId(b) for b in range(replication_factor))
    live = {b: Registration(Endpoint(b, "h", 1), BrokerEpoch(2**40)) for b in assigned}
    topic = PlacedTopic(TOPIC_ID, [assigned] * partitions)
    multis = pack(creation_steps(name, topic, live, at_ms=2**41))
    placed, requested = [], []
    for operations in multis:
        creates = [op for op in operations if isinstance(op, Create)]
        assert len(creates) == len(operations)
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
    assert placed == list(range(partitions))
    assert len({change.request_id for change in requested}) == partitions * replication_factor


def test_a_partition_is_deleted_after_its_children_and_the_isr_first() -> None:
    step = deletion_step("t", TOPIC_ID, 0, ["isr", "leader", "replicas"], (BrokerId(1),), at_ms=0)
    path = znodes.partition("t", 0)
    assert step.operations == tuple(
        Delete(p) for p in (f"{path}/isr", f"{path}/leader", f"{path}/replicas", path)
    )


def test_no_step_is_one_empty_multi() -> None:
    assert pack([]) == [[]]
