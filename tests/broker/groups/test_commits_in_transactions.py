"""A commit in a transaction asks its coordinator first. The answer is for this transaction alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.handlers.groups.offsets import GroupOffsetsApi
from strandline.broker.kafka.wire.apis import TXN_OFFSET_COMMIT
from strandline.broker.kafka.wire.groups.offsets import OffsetToCommit, TxnOffsetCommitRequest
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.broker.metadata.existing_partitions import TopicsNow
from strandline.errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    ErrorCode,
    GroupAuthorizationFailed,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    NotCoordinator,
    ProducerFenced,
    StrandlineError,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from strandline.ids import OFFSETS_TOPIC, TopicId, TopicPartition
from strandline.security.access import Access
from strandline.security.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from strandline.vocabulary.groups import CommittedOffset, OffsetCommit
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from strandline.vocabulary.transactions import PartitionResults, TxnOffsetCommit
from tests.broker.groups.live import ORDERS, Live, live
from tests.broker.groups.test_transactional_offsets import PLACE, PRODUCER, end, offsets_replica, stable
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import settings
from tests.waiting import eventually

TOPIC_ID = TopicId("0" * 32)
REQUEST = TxnOffsetCommit("t", PRODUCER, OffsetCommit("g", "", -1, {ORDERS: CommittedOffset(5)}))


class Here:
    """A view of a cluster in which this broker leads the one partition of `__consumer_offsets`."""

    async def describe(self, topics: Collection[str]) -> tuple[ClusterMetadata, list[str]]:
        partitions = (PartitionMetadata(0, 1, 5, (1,), (1,)),)
        return ClusterMetadata("c", (), None, (TopicMetadata(OFFSETS_TOPIC, TOPIC_ID, partitions),)), []

    async def topics_now(self, names: object) -> TopicsNow:
        return TopicsNow()


@dataclass(slots=True)
class Admission:
    """A coordinator of transactions: it answers as a test says."""

    answer: StrandlineError | None = None
    asked: list[tuple[str, ProducerIdentity, bool]] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def admit(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> PartitionResults:
        assert partitions == [PLACE]
        self.asked.append((transactional_id, producer, add))
        if self.meanwhile is not None:
            await self.meanwhile()
        return {PLACE: self.answer}


@asynccontextmanager
async def handling(admission: Admission, access: Access = OPEN) -> AsyncIterator[tuple[GroupHandlers, Live]]:
    async with live(offsets_replica()) as one:
        await eventually(lambda: one.partition.active)
        led = SimpleNamespace(topic_id=TOPIC_ID, get={0: one.partition}.get)
        yield (
            GroupHandlers(
                cast(Any, None),
                cast(Any, Here()),
                cast(Any, led),
                cast(Any, None),
                settings(),
                access,
                admission,
            ),
            one,
        )


def allowing(*rights: tuple[Operation, ResourceType, str]) -> Access:
    authorizer = Authorizer(Rules())
    authorizer.take(
        Acls(
            1,
            [
                AclBinding(
                    ResourcePattern(kind, name, PatternType.LITERAL),
                    CALLER.principal, "*", operation, Permission.ALLOW,
                )
                for operation, kind, name in rights
            ],
        )
    )  # fmt: skip
    return Access(authorizer)


OWN_ID = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "t")
OWN_GROUP = (Operation.READ, ResourceType.GROUP, "g")


# --- the coordinator's answer -------------------------------------------------------------------


async def test_an_admitted_commit_is_pending() -> None:
    admission = Admission()
    async with handling(admission) as (handlers, one):
        assert await handlers.commit_in_transaction(REQUEST, CALLER) == {ORDERS: None}
        assert admission.asked == [("t", PRODUCER, True)]
        assert (await one.committed("g"), await stable(one) is None) == (None, False)
        await end(one, commit=True)
        assert await stable(one) == 5


@pytest.mark.parametrize(
    "error", [ProducerFenced("old"), TransactionAbortable("not in it"), InvalidProducerIdMapping("whose?")]
)
async def test_a_refusal_of_the_coordinator_is_the_answer(error: StrandlineError) -> None:
    async with handling(Admission(error)) as (handlers, one):
        with pytest.raises(type(error)):
            await handlers.commit_in_transaction(REQUEST, CALLER)
        assert await stable(one) is None


@pytest.mark.parametrize("error", [ConcurrentTransactions("soon"), NotCoordinator("elsewhere")])
async def test_what_another_try_may_change_sends_no_client_to_another_broker(error: StrandlineError) -> None:
    """It is the transaction's coordinator that is elsewhere."""
    async with handling(Admission(error)) as (handlers, _):
        with pytest.raises(CoordinatorLoading):
            await handlers.commit_in_transaction(REQUEST, CALLER)


async def test_an_answer_from_before_the_end_of_a_transaction_admits_nothing_to_the_next() -> None:
    """KIP-890, for transactions v1: the marker comes between the answer and the write."""
    request, admission = replace(REQUEST, add=False), Admission()
    async with handling(admission) as (handlers, one):
        await handlers.commit_in_transaction(request, CALLER)

        async def aborted() -> None:
            await end(one, commit=False)

        admission.meanwhile = aborted
        with pytest.raises(InvalidTransactionState):
            await handlers.commit_in_transaction(request, CALLER)
        assert await stable(one) is None


# --- rights -------------------------------------------------------------------------------------


async def test_it_needs_the_transactional_id_and_the_group() -> None:
    admission = Admission()
    async with handling(admission, allowing(OWN_GROUP)) as (handlers, _):
        with pytest.raises(TransactionalIdAuthorizationFailed):
            await handlers.commit_in_transaction(REQUEST, CALLER)
    async with handling(admission, allowing(OWN_ID)) as (handlers, _):
        with pytest.raises(GroupAuthorizationFailed):
            await handlers.commit_in_transaction(REQUEST, CALLER)
    assert not admission.asked


async def test_a_topic_that_the_caller_may_not_read_is_refused_alone() -> None:
    """As from Kafka, the coordinator is asked about nothing if none is left."""
    admission = Admission()
    async with handling(admission, allowing(OWN_ID, OWN_GROUP)) as (handlers, _):
        results = await handlers.commit_in_transaction(REQUEST, CALLER)
        assert isinstance(results[ORDERS], TopicAuthorizationFailed) and not admission.asked


# --- versions of Kafka's protocol ---------------------------------------------------------------


async def answered(handlers: GroupHandlers, version: int, group: str = "g") -> int:
    offset = OffsetToCommit(ORDERS.partition, 5, -1, None)
    topics = (OfTopic(ORDERS.topic, (offset,)),)
    request = TxnOffsetCommitRequest("t", group, PRODUCER.producer_id, PRODUCER.producer_epoch, topics)
    call = Call(RequestHeader(TXN_OFFSET_COMMIT.key, version, 1, "c"), CALLER)
    answer = await GroupOffsetsApi(handlers).commit_in_transaction(request, call)
    return answer.topics[0].partitions[0].error


async def test_only_later_versions_add_the_group_to_the_transaction() -> None:
    """KIP-890: earlier clients have sent AddOffsetsToTxn."""
    admission = Admission()
    async with handling(admission) as (handlers, _):
        assert [await answered(handlers, version) for version in (0, 3, 4, 5)] == [0] * 4
        assert [add for _, _, add in admission.asked] == [False, False, False, True]


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (ProducerFenced("old"), {0: ErrorCode.INVALID_PRODUCER_EPOCH, 5: ErrorCode.INVALID_PRODUCER_EPOCH}),
        (
            TransactionAbortable("not in it"),
            {3: ErrorCode.INVALID_TXN_STATE, 4: ErrorCode.TRANSACTION_ABORTABLE},
        ),
        (
            ConcurrentTransactions("soon"),
            {1: ErrorCode.COORDINATOR_NOT_AVAILABLE, 2: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS},
        ),
    ],
    ids=["fenced", "abortable", "loading"],
)
async def test_clients_get_errors_that_their_version_knows(
    error: StrandlineError, codes: dict[int, ErrorCode]
) -> None:
    async with handling(Admission(error)) as (handlers, _):
        assert {version: await answered(handlers, version) for version in codes} == codes


async def test_an_error_of_the_whole_request_is_each_partitions() -> None:
    async with handling(Admission()) as (handlers, _):
        assert await answered(handlers, 5, group="") == ErrorCode.INVALID_GROUP_ID
