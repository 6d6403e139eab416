"""Producers of all versions of the protocol have transactions, with the errors that each of them knows."""

from __future__ import annotations

import pytest

from strandline.broker.kafka.handlers.transactions.producers import TransactionProducersApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer, InitProducerIdRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.broker.kafka.wire.transactions.producers import (
    AddedToTransaction,
    AddOffsetsRequest,
    AddPartitionsRequest,
    EndTransactionAnswer,
    EndTransactionRequest,
    PartitionAdded,
    PartitionsOfTransaction,
)
from strandline.broker.transactions.handlers import TransactionHandlers
from strandline.security.access import Access
from tests.broker.kafka.support.asking import called
from tests.broker.support.access import OPEN
from tests.broker.transactions.live import NEW_ID
from tests.broker.transactions.test_handlers import granted, handling
from tests.waiting import eventually

FENCED, OLD_EPOCH, ABORTABLE, NOT_ATTEMPTED, UNKNOWN_TOPIC = 90, 47, 120, 55, 3
NO_RIGHT_TO_ID, NO_RIGHT_TO_CLUSTER, WRONG_ID = 53, 31, 49
INIT = InitProducerIdRequest("payments")


def api(handlers: TransactionHandlers, access: Access = OPEN) -> TransactionProducersApi:
    return TransactionProducersApi(handlers, access)


def adding(epoch: int, *topics: OfTopic[int], verify_only: bool = False) -> AddPartitionsRequest:
    return AddPartitionsRequest((PartitionsOfTransaction("payments", NEW_ID, epoch, topics, verify_only),))


ORDERS = OfTopic("orders", (1, 0))


async def test_a_client_of_the_first_protocol_has_transactions() -> None:
    """Its epoch stays."""
    async with handling() as (handlers, found, _):
        producers = api(handlers)
        identity = await producers.init(INIT, called(apis.INIT_PRODUCER_ID, 1))
        assert identity == InitProducerIdAnswer(NEW_ID, 0)
        found.leaders.confirmed.set()
        for commit in (True, False):
            added = await producers.add_partitions(adding(0, ORDERS), called(apis.ADD_PARTITIONS_TO_TXN, 3))
            results = (PartitionAdded(1), PartitionAdded(0))
            assert added.results == (AddedToTransaction("payments", (OfTopic("orders", results),)),)
            offsets = AddOffsetsRequest("payments", NEW_ID, 0, "group")
            assert (await producers.add_offsets(offsets, called(apis.ADD_OFFSETS_TO_TXN, 3))).error == 0
            end = EndTransactionRequest("payments", NEW_ID, 0, commit)
            ended = await producers.end(end, called(apis.END_TXN, 4))
            assert (ended.error, ended.producer_epoch) == (0, 0)

            async def complete() -> bool:
                return (await found.state()).value.startswith("Complete")

            await eventually(complete)


async def test_the_end_gives_the_next_epoch_to_a_client_that_takes_it() -> None:
    """KIP-890"""
    async with handling() as (handlers, _, _):
        producers = api(handlers)
        await producers.init(INIT, called(apis.INIT_PRODUCER_ID, 5))
        await producers.add_partitions(adding(0, ORDERS), called(apis.ADD_PARTITIONS_TO_TXN, 5))
        end = EndTransactionRequest("payments", NEW_ID, 0, commit=True)
        assert await producers.end(end, called(apis.END_TXN, 5)) == EndTransactionAnswer(0, NEW_ID, 1)


@pytest.mark.parametrize(
    ("init", "add", "offsets", "end", "error"), [(3, 1, 1, 1, OLD_EPOCH), (4, 2, 2, 2, FENCED)]
)
async def test_a_fenced_producer_hears_it_in_a_number_that_it_knows(
    init: int, add: int, offsets: int, end: int, error: int
) -> None:
    """As from Kafka 4.4: INVALID_PRODUCER_EPOCH in earlier versions."""
    async with handling() as (handlers, _, _):
        producers = api(handlers)
        for _ in range(3):
            await producers.init(INIT, called(apis.INIT_PRODUCER_ID, 5))
        again = INIT._replace(producer_id=NEW_ID, epoch=0)
        assert (await producers.init(again, called(apis.INIT_PRODUCER_ID, init))).error == error
        added = await producers.add_partitions(adding(0, ORDERS), called(apis.ADD_PARTITIONS_TO_TXN, add))
        assert [each.error for each in added.results[0].topics[0].partitions] == [error, error]
        asked = AddOffsetsRequest("payments", NEW_ID, 0, "group")
        assert (await producers.add_offsets(asked, called(apis.ADD_OFFSETS_TO_TXN, offsets))).error == error
        ended = EndTransactionRequest("payments", NEW_ID, 0, commit=True)
        assert (await producers.end(ended, called(apis.END_TXN, end))).error == error


async def test_half_an_identity_is_a_mistake() -> None:
    async with handling() as (handlers, _, _):
        half = INIT._replace(producer_id=NEW_ID)
        assert (await api(handlers).init(half, called(apis.INIT_PRODUCER_ID, 5))).error == 42


async def test_one_partition_that_is_not_there_keeps_the_others_out() -> None:
    async with handling() as (handlers, _, _):
        producers = api(handlers)
        await producers.init(INIT, called(apis.INIT_PRODUCER_ID, 5))
        request = adding(0, ORDERS, OfTopic("nowhere", (0,)))
        added = await producers.add_partitions(request, called(apis.ADD_PARTITIONS_TO_TXN, 3))
        orders, nowhere = added.results[0].topics
        assert [each.error for each in orders.partitions] == [NOT_ATTEMPTED, NOT_ATTEMPTED]
        assert [each.error for each in nowhere.partitions] == [UNKNOWN_TOPIC]


async def test_brokers_ask_about_several_transactions() -> None:
    """KIP-890: from version 4 on."""
    async with handling() as (handlers, _, _):
        producers = api(handlers)
        await producers.init(INIT, called(apis.INIT_PRODUCER_ID, 5))
        verify = adding(0, ORDERS, verify_only=True).transactions[0]
        unknown = verify._replace(transactional_id="unknown")
        request = AddPartitionsRequest((verify, unknown))
        for version in (4, 5):
            added = await producers.add_partitions(request, called(apis.ADD_PARTITIONS_TO_TXN, version))
            first, second = added.results
            assert [each.error for each in first.topics[0].partitions] == [ABORTABLE, ABORTABLE]
            assert [each.error for each in second.topics[0].partitions] == [WRONG_ID, WRONG_ID]
            of_none = adding(0, ORDERS, OfTopic("nowhere", (0,)))
            added = await producers.add_partitions(of_none, called(apis.ADD_PARTITIONS_TO_TXN, version))
            orders, nowhere = added.results[0].topics
            assert [each.error for each in orders.partitions] == [NOT_ATTEMPTED, NOT_ATTEMPTED]
            assert [each.error for each in nowhere.partitions] == [UNKNOWN_TOPIC]


async def test_a_client_without_rights_is_refused_in_each_answer() -> None:
    """A3"""
    rights = granted()
    async with handling(rights) as (handlers, _, _):
        producers = api(handlers, rights)
        assert (await producers.init(INIT, called(apis.INIT_PRODUCER_ID, 5))).error == NO_RIGHT_TO_ID
        added = await producers.add_partitions(adding(0, ORDERS), called(apis.ADD_PARTITIONS_TO_TXN, 3))
        assert {each.error for each in added.results[0].topics[0].partitions} == {NO_RIGHT_TO_ID}
        added = await producers.add_partitions(adding(0, ORDERS), called(apis.ADD_PARTITIONS_TO_TXN, 5))
        assert (added.error, added.results) == (NO_RIGHT_TO_CLUSTER, ())
        end = EndTransactionRequest("payments", NEW_ID, 0, commit=True)
        assert (await producers.end(end, called(apis.END_TXN, 5))).error == NO_RIGHT_TO_ID
