"""The partitions of a topic that is made anew under its name, with more or fewer of them."""

from __future__ import annotations

import pytest

from strandline.ids import TopicId, TopicPartition
from strandline.producer.core.batch import PartitionQueue
from strandline.producer.routes import Route

OLD, NEW = TopicId("0" * 31 + "1"), TopicId("0" * 31 + "2")


@pytest.mark.parametrize("count", [1, 3, 5])
@pytest.mark.parametrize("turn", [0, 2, 4])
def test_a_topic_that_is_made_anew_keeps_the_queues_of_partitions_that_it_still_has(
    count: int, turn: int
) -> None:
    queues = [PartitionQueue[str](TopicPartition("t", number), None, 100, OLD) for number in range(3)]
    route = Route("t", OLD, list(queues), 100, turn=turn)
    assert route.begin_anew(NEW, count) == queues[count:]
    assert route.queues == queues[:count]
    assert route.sticky in route.queues
