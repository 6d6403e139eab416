"""Answers ListTransactions and DescribeTransactions."""

from __future__ import annotations

from typing import Final

from strandline.adapters.patterns import Pattern, pattern_of
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of
from strandline.broker.kafka.wire.topics import by_topic
from strandline.broker.kafka.wire.transactions.tools import (
    DescribedState,
    DescribeTransactionsAnswer,
    DescribeTransactionsRequest,
    ListedState,
    ListTransactionsAnswer,
    ListTransactionsRequest,
)
from strandline.broker.transactions.handlers import TransactionHandlers
from strandline.errors import ErrorCode, StrandlineError
from strandline.ports import Clock
from strandline.vocabulary.transactions import ListedTransaction, TransactionState

STATES: Final = frozenset({*(state.value for state in TransactionState), "PrepareEpochFence"})
"""Those that Kafka knows."""


class TransactionToolsApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, transactions: TransactionHandlers, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    async def list(
        self, request: ListTransactionsRequest, call: Call, size: AnswerSize
    ) -> ListTransactionsAnswer:
        """The transactional ids that this broker coordinates. A tool asks every broker."""
        unknown = tuple([state for state in request.states if state not in STATES])
        try:
            pattern = pattern_of(request.pattern) if request.pattern else None
            listed = await self._transactions.list(None, call.caller)
        except StrandlineError as error:
            return ListTransactionsAnswer(error=code_of(error))
        wanted, now_ms = _Wanted(request, pattern), self._clock.wall_ms()
        found = list[ListedState]()
        for each in listed:
            if wanted.has(each, now_ms):
                found.append(ListedState(each.transactional_id, each.producer_id, each.state.value))
            await size.add(each.transactional_id)
        return ListTransactionsAnswer(unknown, tuple(found))

    async def describe(
        self, request: DescribeTransactionsRequest, call: Call, size: AnswerSize
    ) -> DescribeTransactionsAnswer:
        found = [await self._describe_one(each, call, size) for each in request.transactional_ids]
        return DescribeTransactionsAnswer(tuple(found))

    async def _describe_one(self, transactional_id: str, call: Call, size: AnswerSize) -> DescribedState:
        """Tools ask again for those that get COORDINATOR_LOAD_IN_PROGRESS, since the answer is full."""
        await size.add(transactional_id)
        if size.full:
            return DescribedState(transactional_id, int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        try:
            found = await self._transactions.describe(transactional_id, call.caller)
        except StrandlineError as error:
            return DescribedState(transactional_id, code_of(error))
        topics = by_topic((name.topic, name.partition) for name in sorted(found.partitions))
        await size.add(*(topic.name for topic in topics), entries=len(found.partitions))
        return DescribedState(
            transactional_id,
            0,
            found.state.value,
            found.timeout_ms,
            found.started_ms,
            found.producer.producer_id,
            found.producer.producer_epoch,
            topics,
        )


class _Wanted:
    """What a request lists."""

    def __init__(self, request: ListTransactionsRequest, pattern: Pattern | None) -> None:
        self._states = frozenset(request.states)
        self._producers = frozenset(request.producer_ids)
        self._duration_ms = request.duration_ms
        self._pattern = pattern

    def has(self, each: ListedTransaction, now_ms: int) -> bool:
        return (
            each.state is not TransactionState.DEAD
            and (not self._states or each.state.value in self._states)
            and (not self._producers or each.producer_id in self._producers)
            and (self._duration_ms < 0 or now_ms - each.started_ms > self._duration_ms)
            and (self._pattern is None or self._pattern.matches(each.transactional_id))
        )
