"""The RPC of members whose coordinator assigns."""

from __future__ import annotations

from strandline.adapters.codecs.consumer_groups import CONSUMER_HEARTBEAT
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.ports import Listener
from strandline.vocabulary.groups import ConsumerBeat

HERE, GONE = (PartitionKey(TopicId(letter * 32), PartitionId(0)) for letter in "ab")


def test_a_topic_that_is_gone_has_no_name() -> None:
    """G24: partitions of two deleted topics are not the same ones of a topic without a name."""
    sent = ConsumerBeat("m", 3, 5_000, (HERE, GONE), {HERE.topic_id: "t"})
    encoded = CONSUMER_HEARTBEAT.served.encode(sent, Listener.INTERNAL)
    assert CONSUMER_HEARTBEAT.decode(encoded) == sent
