"""A client that asks a broker which does not lead learns the leader from the refusal (KIP-951)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strandline.broker.kafka.handlers.leader_hints import LeaderHints
from strandline.broker.kafka.handlers.producing.produce import ProduceApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.leaders import CurrentLeader
from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.broker.kafka.wire.produce import PartitionRecords, ProduceAnswer, ProduceRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.ids import ACKS_ALL, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.ports import Listener
from strandline.vocabulary.metadata import Endpoint, Registration
from tests.broker.kafka.support.asking import called, fetch_api, log_handlers, no_rights
from tests.broker.support.replicas import CLOCK, NAME, batch
from tests.broker.support.seat import Seat, seated

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
WITH_PORT = Endpoint(1, "h", 1, "r", kafka=("k1", 9094), kafka_external=("out", 29_092))


class Cluster:
    """Broker 2 has a replica that follows broker 1."""

    def __init__(self, seat: Seat, endpoint: Endpoint = WITH_PORT) -> None:
        seat.replica.leader, seat.replica.leader_epoch = BrokerId(1), LeaderEpoch(5)
        self.suspected: list[BrokerId] = []
        self.handlers, self.rights = log_handlers(seat), no_rights(seat)
        live = {BrokerId(1): Registration(endpoint, BrokerEpoch(10))}
        self.hints = LeaderHints(self.handlers.leader_hint, lambda: live, lambda: self.suspected)

    def produced(self, version: int, listener: Listener = Listener.INTERNAL) -> ProduceAnswer:
        answers: list[ProduceAnswer] = []
        partitions = (PartitionRecords(NAME.partition, memoryview(batch("x"))),)
        asked = ProduceRequest(ACKS_ALL, 1_000, (OfTopic(NAME.topic, partitions),))
        api = ProduceApi(self.handlers, self.rights, self.hints, CLOCK)
        assert api.begin(asked, called(apis.PRODUCE, version, listener), answers.append)
        (answer,) = answers
        return answer


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    async with seated(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    ("listener", "host", "port"), [(Listener.INTERNAL, "k1", 9094), (Listener.EXTERNAL, "out", 29_092)]
)
async def test_a_refused_batch_names_the_leader_and_its_address(
    seat: Seat, listener: Listener, host: str, port: int
) -> None:
    answer = Cluster(seat).produced(10, listener)
    (found,) = answer.topics[0].partitions
    assert (found.error, found.leader) == (NOT_LEADER, CurrentLeader(1, 5))
    assert answer.endpoints == (BrokerAddress(1, host, port, "r"),)


async def test_a_leader_that_the_client_cannot_reach_is_not_named(seat: Seat) -> None:
    """It is suspected, has no Kafka port, or the client is too old for it."""
    cluster, without = Cluster(seat), Cluster(seat, Endpoint(1, "h", 1))
    old = cluster.produced(9)
    cluster.suspected = [BrokerId(1)]
    for answer in (old, cluster.produced(10), without.produced(10)):
        (found,) = answer.topics[0].partitions
        assert (found.error, found.leader, answer.endpoints) == (NOT_LEADER, None, ())


async def test_a_refused_read_names_the_leader(seat: Seat) -> None:
    answers: list[FetchAnswer] = []

    async def reply(answer: FetchAnswer) -> None:
        answers.append(answer)

    cluster = Cluster(seat)
    asked = FetchRequest(
        0, 0, 1_000, 0, (OfTopic(NAME.topic, (PartitionPosition(NAME.partition, -1, 0, 1_000),)),)
    )
    await fetch_api(cluster.handlers, hints=cluster.hints).handle(asked, called(apis.FETCH, 12), reply)
    (found,) = answers[0].topics[0].partitions
    assert (found.error, found.leader) == (NOT_LEADER, CurrentLeader(1, 5))
