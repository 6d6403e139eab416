"""Answers ListTransactions and DescribeTransactions: there are none, and tools that look learn it."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.wire.admin.transactions import (
    DescribeTransactionsAnswer,
    DescribeTransactionsRequest,
    ListTransactionsAnswer,
    ListTransactionsRequest,
    TransactionRefusal,
)
from strandline.errors import ErrorCode

STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)
"""Those that Kafka knows."""


async def list_transactions(request: ListTransactionsRequest, call: Call) -> ListTransactionsAnswer:
    return ListTransactionsAnswer(tuple([state for state in request.states if state not in STATES]))


async def describe_transactions(
    request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsAnswer:
    unknown, wrong = int(KafkaCode.TRANSACTIONAL_ID_NOT_FOUND), int(ErrorCode.INVALID_REQUEST)
    return DescribeTransactionsAnswer(
        tuple([TransactionRefusal(each, unknown if each else wrong) for each in request.transactional_ids])
    )
