"""The reader learns who leads the partitions that it is given."""

from __future__ import annotations

import pytest

from strandline.errors import BrokerNotAvailable, StrandlineError, TopicAuthorizationFailed
from strandline.ids import NO_BROKER, TopicPartition
from tests.consumer.brokers import Parts
from tests.waiting import eventually

A = TopicPartition("t", 0)


class Located(Parts):
    """A consumer that is given a partition whose position it knows, while no broker tells who leads it."""

    def __init__(self, error: StrandlineError) -> None:
        super().__init__()
        self.brokers.topics["t"] = 1
        self.brokers.leaders[A] = 1
        self.brokers.metadata_error = error

    async def begin(self) -> None:
        self.reader.start()
        self.reader.add([A])
        self.reader.seek(A, 7)
        await eventually(lambda: self.wakeups.error(A) is not None, what="the error")

    @property
    def leader(self) -> int:
        return self.reader.positions[A].broker


async def test_it_asks_for_a_leader_until_a_broker_answers() -> None:
    async with Located(BrokerNotAvailable("none is there")) as parts:
        await parts.begin()
        with pytest.raises(BrokerNotAvailable, match="none is there"):
            parts.wakeups.raise_new()
        assert parts.leader == NO_BROKER
        parts.brokers.metadata_error = None
        await eventually(lambda: parts.leader == 1, what="the leader")
        assert parts.wakeups.error(A) is None, "what was in the way is over"


async def test_it_does_not_ask_again_where_it_may_not_read() -> None:
    async with Located(TopicAuthorizationFailed("not yours")) as parts:
        await parts.begin()
        parts.brokers.metadata_error = None
        await parts.clock.sleep(10.0)
        assert parts.leader == NO_BROKER
        with pytest.raises(TopicAuthorizationFailed, match="not yours"):
            parts.wakeups.raise_standing()
