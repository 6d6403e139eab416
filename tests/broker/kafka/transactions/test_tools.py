"""Tools see the transactions that a broker coordinates, as from a broker of Kafka 4.4."""

from __future__ import annotations

from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.handlers.transactions.tools import TransactionToolsApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.broker.kafka.wire.transactions.tools import (
    DescribedState,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.transactions import AddPartitions, InitTransactions
from tests.broker.kafka.support.asking import called
from tests.broker.support.access import CALLER
from tests.broker.support.replicas import CLOCK
from tests.broker.transactions.live import NEW_ID
from tests.broker.transactions.test_handlers import INIT, handling

NOT_FOUND, INVALID, UNREADABLE = 105, 42, 128
LIST, DESCRIBE = called(apis.LIST_TRANSACTIONS, 2), called(apis.DESCRIBE_TRANSACTIONS, 0)
NAMES = (TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("b", 0))


async def listed(api: TransactionToolsApi, request: ListTransactionsRequest) -> list[str]:
    answer = await api.list(request, LIST, AnswerSize(CLOCK))
    assert answer.error == 0
    return [each.transactional_id for each in answer.transactions]


async def test_what_is_listed_can_be_chosen() -> None:
    async with handling() as (handlers, _, _):
        producer = await handlers.init(INIT, CALLER)
        await handlers.add_partitions(AddPartitions("payments", producer, NAMES), CALLER)
        await handlers.init(InitTransactions("idle", 60_000), CALLER)
        api = TransactionToolsApi(handlers, CLOCK)
        request = ListTransactionsRequest()
        assert await listed(api, request) == ["idle", "payments"]
        assert await listed(api, request._replace(states=("Ongoing", "Nope"))) == ["payments"]
        assert await listed(api, request._replace(states=("Nope",))) == []
        assert await listed(api, request._replace(producer_ids=(NEW_ID + 1,))) == ["idle"]
        assert await listed(api, request._replace(pattern="pay.*")) == ["payments"]
        assert await listed(api, request._replace(pattern="")) == ["idle", "payments"]
        assert await listed(api, request._replace(duration_ms=60_000)) == [
            "idle"
        ]  # open since −1, as in Kafka
        answer = await api.list(request._replace(states=("Ongoing", "Nope")), LIST, AnswerSize(CLOCK))
        assert answer.unknown_states == ("Nope",)
        answer = await api.list(request._replace(pattern="(a"), LIST, AnswerSize(CLOCK))
        assert answer.error == UNREADABLE


async def test_a_transaction_is_described_with_its_partitions() -> None:
    async with handling() as (handlers, _, _):
        producer = await handlers.init(INIT, CALLER)
        await handlers.add_partitions(AddPartitions("payments", producer, NAMES), CALLER)
        api = TransactionToolsApi(handlers, CLOCK)
        request = DescribeTransactionsRequest(("payments", "unknown", ""))
        answer = await api.describe(request, DESCRIBE, AnswerSize(CLOCK))
        found, *others = answer.transactions
        assert others == [DescribedState("unknown", NOT_FOUND), DescribedState("", INVALID)]
        assert (found.error, found.state, found.timeout_ms) == (0, "Ongoing", 60_000)
        assert (found.producer_id, found.producer_epoch) == (NEW_ID, 0)
        assert found.topics == (OfTopic("a", (2,)), OfTopic("b", (0, 1)))
        assert found.started_ms > 0
