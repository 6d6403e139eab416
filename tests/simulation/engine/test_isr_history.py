"""The judges take this from ZooKeeper's log: events that a full trail had no room for (Q6)."""

from __future__ import annotations

import pytest

from strandline import TopicPartition
from strandline.broker.core.state_changes.events import isr_changed
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.simulation.engine.zookeeper.isr_history import IsrWrite, crowded_out
from strandline.vocabulary.metadata import IsrMember, PartitionState
from strandline.vocabulary.state_changes import StateChangeEvent

ISR = PartitionState(BrokerId(1), LeaderEpoch(5), (IsrMember(BrokerId(1), BrokerEpoch(10)),))
EVENTS_MAX = 3


def events(*versions: int) -> tuple[StateChangeEvent, ...]:
    key = PartitionKey(TopicId("1f"), PartitionId(0))
    return tuple(isr_changed("t", key, ISR, version, at_ms=0, reason="") for version in versions)


@pytest.mark.parametrize(
    ("before", "after", "missing"),
    [
        ((1, 2, 3), (2, 3, 4), (1,)),
        ((1, 2, 3), (3, 4), ()),  # those that are in the topic make room
        ((1, 2), (1, 2, 3), ()),
    ],
)
def test_a_trail_loses_events_only_if_it_is_full(
    before: tuple[int, ...], after: tuple[int, ...], missing: tuple[int, ...]
) -> None:
    first, then = (
        PartitionState(ISR.leader, ISR.leader_epoch, ISR.isr, trail=events(*each)) for each in (before, after)
    )
    write = IsrWrite(TopicPartition("t", 0), 1, first, then, ())
    assert crowded_out(write, EVENTS_MAX) == list(events(*missing))
