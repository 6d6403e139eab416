"""Coordinators of transactions in a cluster: found by clients, asked by leaders, replaced when they die."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from strandline.adapters.codecs import transactions as rpcs
from strandline.broker.transactions.transactions import Transactions
from strandline.errors import StrandlineError, TransactionAbortable
from strandline.ids import TopicPartition
from strandline.ports import Method, Request, Response
from strandline.testing import SimulatedCluster
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.transactions import (
    DescribedTransaction,
    EndTransaction,
    InitTransactions,
    PartitionResults,
    TransactionState,
)
from tests.integration.support.harness import FAULT_SETTINGS
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

SETTINGS = {**FAULT_SETTINGS, "transaction_state_topic_partitions": 3}
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
ID = "payments"
CALL_S = 5.0
DECIDED = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

pytestmark = pytest.mark.strandline(seed=1, broker_settings=SETTINGS)


class Producers:
    """The calls of a producer, repeated while no coordinator can answer."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self._transport = cluster.host.transport(None)
        self._addresses = dict(zip(cluster.broker_ids, cluster.bootstrap.split(","), strict=True))

    async def coordinator(self, *, other_than: int = -1) -> Endpoint:
        async def find() -> Endpoint | None:
            for address in self._addresses.values():
                try:
                    found = await self._call(address, rpcs.FIND_TRANSACTION_COORDINATOR, ID)
                except StrandlineError:
                    continue
                if found.id != other_than:
                    return found
            return None

        found = await eventually(find)
        assert found is not None
        return found

    async def ask(self, method: Method[Request, Response], request: Request) -> Response:
        """Raises an error after which a client does not ask again."""
        answers: list[Response] = []

        async def answered() -> bool:
            coordinator = await self.coordinator()
            try:
                answers.append(await self._call(coordinator.address, method, request))
            except StrandlineError as error:
                if not error.retriable:
                    raise
            return bool(answers)

        await eventually(answered)
        return answers[0]

    async def _call(self, address: str, method: Method[Request, Response], request: Request) -> Response:
        return await self._transport.call(address, method, request, timeout_s=CALL_S)

    async def init(self) -> ProducerIdentity:
        return await self.ask(rpcs.INIT_TRANSACTIONS, InitTransactions(ID, 60_000))

    async def end(self, producer: ProducerIdentity) -> ProducerIdentity:
        request = EndTransaction(ID, producer, commit=True, next_epoch=True)
        return await self.ask(rpcs.END_TRANSACTION, request)

    async def described(self) -> DescribedTransaction:
        return await self.ask(rpcs.DESCRIBE_TRANSACTION, ID)

    async def reaches(self, *states: TransactionState) -> None:
        async def there() -> bool:
            return (await self.described()).state in states

        await eventually(there)

    def at(self, broker: int) -> Transactions:
        """A broker's own part."""
        transactions = self.cluster._now.cluster.running[broker - self.cluster.broker_ids[0]].transactions
        assert transactions is not None
        return transactions

    async def admitted(
        self, broker: int, producer: ProducerIdentity, names: Collection[TopicPartition], *, add: bool
    ) -> PartitionResults:
        """What a leader on this broker hears from the coordinator."""
        return await self.at(broker).admission.admit(ID, producer, names, add=add)


async def orders(cluster: SimulatedCluster) -> Producers:
    await cluster.create_topic("orders", partitions=2)
    return Producers(cluster)


async def gone(cluster: SimulatedCluster) -> None:
    async with cluster.admin() as admin:
        await admin.delete_topics(["orders"])


@on_virtual_time
async def test_leaders_on_every_broker_ask_the_coordinator(cluster: SimulatedCluster) -> None:
    """KIP-890: by a call of members, or without one on the coordinator's own broker."""
    producers = await orders(cluster)
    producer = await producers.init()
    for broker in cluster.broker_ids:
        refused = await producers.admitted(broker, producer, [A], add=False)
        assert isinstance(refused[A], TransactionAbortable)
    for broker in cluster.broker_ids:
        assert await producers.admitted(broker, producer, [A], add=True) == {A: None}
        verified = await producers.admitted(broker, producer, [A, B], add=False)
        assert verified[A] is None and isinstance(verified[B], TransactionAbortable)
    found = await producers.described()
    assert (found.state, found.partitions) == (TransactionState.ONGOING, (A,))


@on_virtual_time
async def test_leaders_find_the_next_coordinator(cluster: SimulatedCluster) -> None:
    producers = await orders(cluster)
    producer = await producers.init()
    first = await producers.coordinator()
    others = [broker for broker in cluster.broker_ids if broker != first.id]
    assert await producers.admitted(others[0], producer, [A], add=True) == {A: None}
    cluster.kill(first.id)
    await producers.coordinator(other_than=first.id)

    async def verified() -> bool:
        answers = [await producers.admitted(broker, producer, [A], add=False) for broker in others]
        return answers == [{A: None}] * 2

    await eventually(verified)


@on_virtual_time
async def test_the_next_coordinator_ends_what_one_began(cluster: SimulatedCluster) -> None:
    """KIP-98: what was answered stands, and the transaction ends though its coordinator died; that its topic
    is deleted meanwhile keeps it from nothing."""
    producers = await orders(cluster)
    producer = await producers.init()
    first = await producers.coordinator()
    other = next(broker for broker in cluster.broker_ids if broker != first.id)
    assert await producers.admitted(other, producer, [A, B], add=True) == {A: None, B: None}
    following = await producers.end(producer)
    cluster.kill(first.id)
    await producers.coordinator(other_than=first.id)
    assert (await producers.described()).state in DECIDED
    await gone(cluster)
    await producers.reaches(TransactionState.COMPLETE_COMMIT)
    assert (await producers.described()).producer == following
    assert (await producers.init()).producer_id == producer.producer_id


@on_virtual_time
async def test_a_coordinator_that_hangs_and_wakes_decides_nothing_in_its_old_epoch(
    cluster: SimulatedCluster,
) -> None:
    """CORRECTNESS E1: the twin that took the id at the next coordinator is not fenced by the old one."""
    producers = await orders(cluster)
    await producers.init()
    old = await producers.coordinator()
    cluster.pause(old.id)
    await producers.coordinator(other_than=old.id)
    twin = await producers.init()
    cluster.resume(old.id)
    asked: list[Any] = []
    for _ in range(3):
        try:
            asked.append(await producers._call(old.address, rpcs.INIT_TRANSACTIONS, InitTransactions(ID, 1)))
        except StrandlineError as error:
            asked.append(error)
    assert all(isinstance(each, StrandlineError) and each.retriable for each in asked), asked
    assert (await producers.described()).producer == twin
