"""There are no transactions: tools that look for them learn it, with the errors of a broker of Kafka 4.4."""

from __future__ import annotations

from strandline.broker.kafka.handlers.describing.transactions import describe_transactions, list_transactions
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.transactions import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TransactionRefusal,
)
from tests.broker.kafka.support.asking import called

NOT_FOUND, INVALID = 105, 42


async def test_no_transaction_is_listed() -> None:
    asked = ListTransactionsRequest(("Ongoing", "Nope"))
    found = await list_transactions(asked, called(apis.LIST_TRANSACTIONS, 2))
    assert (found.error, found.unknown_states) == (0, ("Nope",))


async def test_no_transaction_is_found() -> None:
    asked = DescribeTransactionsRequest(("t", ""))
    found = await describe_transactions(asked, called(apis.DESCRIBE_TRANSACTIONS, 0))
    assert found.transactions == (TransactionRefusal("t", NOT_FOUND), TransactionRefusal("", INVALID))
