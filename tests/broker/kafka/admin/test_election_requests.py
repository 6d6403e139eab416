"""Leaders that Kafka clients have elected, on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from strandline import NewTopic
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.placement import PREFERRED, UNCLEAN, ElectLeadersRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.testing import SimulatedCluster
from tests.broker.kafka.support.handlers import KafkaHandlers, kafka_brokers
from tests.virtual_time import on_virtual_time

TIMEOUT_MS: Final = 20_000
NOT_NEEDED = int(ErrorCode.ELECTION_NOT_NEEDED)
ELIGIBLE_MISSING = int(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """Three brokers, which give no leadership back by themselves."""
    with kafka_brokers(3, preferred_leader_check_ms=3_600_000) as cluster:
        yield cluster


class Elections(KafkaHandlers):
    async def create(self, name: str, *replicas: tuple[int, ...]) -> None:
        async with self.cluster.admin() as admin:
            await admin.create_topics([NewTopic(name, partitions=0, assignments=replicas)])

    async def elect(self, kind: int, topic: str, *partitions: int) -> dict[int, int]:
        """Error codes by partition."""
        asked = ElectLeadersRequest((OfTopic(topic, partitions),), TIMEOUT_MS, kind)
        (found,) = (await self.ask(apis.ELECT_LEADERS, asked)).topics
        return {each.partition: each.error for each in found.partitions}

    async def led_by(self, topic: str, *leaders: int) -> None:
        """Returns once they lead. Brokers do not learn of an election at once."""

        async def led() -> bool:
            async with self.cluster.admin() as admin:
                (found,) = await admin.describe_topics([topic])
            return [each.leader for each in found.partitions] == list(leaders)

        await self.until(led, f"{leaders} lead")


@on_virtual_time
async def test_preferred_leaders_are_elected(cluster: SimulatedCluster) -> None:
    """By a handover. The leader that hands over stays until then."""
    client = Elections(cluster)
    await client.create("led", (2, 1), (1, 2))
    await client.led_by("led", 2, 1)
    cluster.kill(2)
    await client.led_by("led", 1, 1)
    cluster.start(2)

    async def elected() -> bool:
        found = await client.elect(PREFERRED, "led", 0, 1, 2)
        first = found.pop(0)
        assert found == {1: NOT_NEEDED, 2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert first in (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)  # it is not in sync yet
        return first == 0

    await client.until(elected, "broker 2 is elected")
    await client.led_by("led", 2, 1)
    everywhere = (await client.ask(apis.ELECT_LEADERS, ElectLeadersRequest(None, TIMEOUT_MS))).topics
    assert "led" not in [each.name for each in everywhere], "only partitions with another leader"


@on_virtual_time
async def test_an_unclean_election_gives_a_partition_a_leader_that_lost_all_in_sync(
    cluster: SimulatedCluster,
) -> None:
    """CORRECTNESS E2: only an administrator allows it, and only where no replica may lead without a loss."""
    client = Elections(cluster)
    await client.create("lost", (2, 3))
    await client.led_by("lost", 2)
    assert await client.elect(UNCLEAN, "lost", 0) == {0: NOT_NEEDED}
    cluster.kill(3)
    async with cluster.producer() as producer:
        await producer.send_and_wait("lost", b"x")
    cluster.kill(2)
    await client.led_by("lost", -1)
    assert await client.elect(UNCLEAN, "lost", 0) == {0: ELIGIBLE_MISSING}
    cluster.start(3)

    async def elected() -> bool:
        (error,) = (await client.elect(UNCLEAN, "lost", 0)).values()
        assert error in (0, ELIGIBLE_MISSING)  # it has not said yet what its log has
        return error == 0

    await client.until(elected, "broker 3 is elected")
    await client.led_by("lost", 3)
