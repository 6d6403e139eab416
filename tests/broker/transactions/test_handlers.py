"""What a broker does for producers and tools of transactions, with the rights of the caller (A3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Set
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from strandline.broker.transactions.handlers import TransactionHandlers
from strandline.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    GroupAuthorizationFailed,
    InvalidRequest,
    LeaderNotAvailable,
    OperationNotAttempted,
    StrandlineError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from strandline.ids import OFFSETS_TOPIC, BrokerId, TopicPartition
from strandline.security.access import Access
from strandline.security.acls import AclBinding, Permission, ResourcePattern
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from strandline.security.principal import Principal
from strandline.security.rights import (
    ALTER_CLUSTER,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    READ_GROUP,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import (
    AddPartitions,
    AdmissionBatch,
    EndTransaction,
    InitTransactions,
    TransactionState,
)
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import CLOCK
from tests.broker.transactions.live import NEW_ID, A, B, Live, live
from tests.waiting import eventually

ALICE = replace(CALLER, principal=Principal("alice"))
INIT = InitTransactions("payments", 60_000)
NOWHERE = TopicPartition("nowhere", 0)


def granted(*rights: tuple[Right, str]) -> Access:
    """Alice's rights."""
    authorizer = Authorizer(Rules())
    bindings = [
        AclBinding(ResourcePattern(right.of, name), ALICE.principal, "*", right.operation, Permission.ALLOW)
        for right, name in rights
    ]
    authorizer.take(Acls(1, tuple(bindings)))
    return Access(authorizer)


class Here:
    """Finds each id's coordinator in the one partition; fulfils what handlers need of `CoordinatorFinder`."""

    def __init__(self, found: Live) -> None:
        self.partition = found.partition

    async def here(self, key: str) -> Any:
        return self.partition


class Ids:
    def __init__(self) -> None:
        self.given = 0
        self.away = False

    async def new(self) -> int:
        if self.away:
            raise LeaderNotAvailable("no ZooKeeper")
        self.given += 1
        return NEW_ID + self.given - 1


async def missing(names: Iterable[TopicPartition]) -> Set[TopicPartition]:
    return {name for name in names if name == NOWHERE}


async def place_of_group(group: str) -> TopicPartition:
    return TopicPartition(OFFSETS_TOPIC, len(group))


@asynccontextmanager
async def handling(access: Access = OPEN) -> AsyncIterator[tuple[TransactionHandlers, Live, Ids]]:
    async with live() as found:
        await found.serving()
        ids = Ids()
        handlers = TransactionHandlers(
            cast(Any, [found.partition]),
            cast(Any, Here(found)),
            missing,
            place_of_group,
            ids.new,
            access,
            CLOCK,
            partitions_max=100,
        )
        yield handlers, found, ids


async def test_a_producer_id_is_taken_only_where_one_is_needed() -> None:
    async with handling() as (handlers, _, ids):
        assert await handlers.init(INIT, CALLER) == ProducerIdentity(NEW_ID, 0)
        assert await handlers.init(INIT, CALLER) == ProducerIdentity(NEW_ID, 1)
        assert ids.given == 1
        ids.away = True
        await handlers.init(INIT, CALLER)
        with pytest.raises(CoordinatorNotAvailable):
            await handlers.init(replace(INIT, transactional_id="another"), CALLER)
        with pytest.raises(InvalidRequest):
            await handlers.init(replace(INIT, transactional_id=""), CALLER)


async def test_offsets_are_part_of_a_transaction_as_a_partition_is() -> None:
    async with handling() as (handlers, found, _):
        producer = await handlers.init(INIT, CALLER)
        await handlers.add_partitions(AddPartitions("payments", producer, (A,)), CALLER)
        await handlers.add_offsets("payments", producer, "group", CALLER)
        described = await handlers.describe("payments", CALLER)
        assert set(described.partitions) == {A, TopicPartition(OFFSETS_TOPIC, 5)}
        await handlers.end(EndTransaction("payments", producer, commit=False, next_epoch=True), CALLER)
        await eventually(lambda: bool(found.leaders.sent))
        assert found.leaders.sent[0][0].partitions == set(described.partitions)


async def test_a_partition_that_may_not_be_added_keeps_the_others_out() -> None:
    """As in Kafka: the whole transaction fails."""
    rights = granted(
        (WRITE_TRANSACTIONAL_ID, "payments"), (WRITE_TOPIC, "orders"), (WRITE_TOPIC, "nowhere"),
        (WRITE_TOPIC, OFFSETS_TOPIC),
    )  # fmt: skip
    async with handling(rights) as (handlers, _, _):
        producer = await handlers.init(INIT, ALICE)
        secret, own = TopicPartition("secret", 0), TopicPartition(OFFSETS_TOPIC, 1)
        for name, error in (
            (secret, TopicAuthorizationFailed),
            (own, TopicAuthorizationFailed),
            (NOWHERE, UnknownTopicOrPartition),
        ):
            request = AddPartitions("payments", producer, (A, name))
            answers = await handlers.add_partitions(request, ALICE)
            assert isinstance(answers[name], error)
            assert isinstance(answers[A], OperationNotAttempted)
        answers = await handlers.add_partitions(AddPartitions("payments", producer, (A, B)), ALICE)
        assert answers == {A: None, B: None}


async def test_each_operation_needs_its_right() -> None:
    producer = ProducerIdentity(NEW_ID, 0)
    end = EndTransaction("payments", producer, commit=True)
    async with handling(granted((DESCRIBE_TRANSACTIONAL_ID, "payments"))) as (handlers, _, _):
        for asked in (
            handlers.init(INIT, ALICE),
            handlers.add_partitions(AddPartitions("payments", producer, (A,)), ALICE),
            handlers.add_offsets("payments", producer, "g", ALICE),
            handlers.end(end, ALICE),
            handlers.describe("another", ALICE),
        ):
            with pytest.raises(TransactionalIdAuthorizationFailed):
                await asked
        with pytest.raises(ClusterAuthorizationFailed):
            await handlers.abort("payments", ALICE)
        with pytest.raises(ClusterAuthorizationFailed):
            await handlers.admit(AdmissionBatch(BrokerId(2), ()), ALICE)
    async with handling(granted((WRITE_TRANSACTIONAL_ID, "payments"))) as (handlers, _, _):
        producer = await handlers.init(INIT, ALICE)
        with pytest.raises(GroupAuthorizationFailed):
            await handlers.add_offsets("payments", producer, "g", ALICE)


async def test_a_tool_sees_what_its_caller_may_see() -> None:
    rights = granted(
        (WRITE_TRANSACTIONAL_ID, "payments"), (READ_GROUP, "g"), (WRITE_TOPIC, "orders"),
        (WRITE_TRANSACTIONAL_ID, "hidden"), (DESCRIBE_TOPIC, "orders"), (ALTER_CLUSTER, "kafka-cluster"),
    )  # fmt: skip
    async with handling(rights) as (handlers, found, _):
        producer = await handlers.init(INIT, ALICE)
        await handlers.init(replace(INIT, transactional_id="hidden"), ALICE)
        await handlers.add_partitions(AddPartitions("payments", producer, (A,)), ALICE)
        await handlers.add_offsets("payments", producer, "g", ALICE)
        assert (await handlers.describe("payments", ALICE)).partitions == (A,)
        assert [each.transactional_id for each in await handlers.list(None, ALICE)] == ["hidden", "payments"]
        assert await handlers.list(None, CALLER) == []
        await handlers.abort("payments", ALICE)
        assert await found.state() is TransactionState.PREPARE_ABORT
        with pytest.raises(TransactionalIdNotFound):
            await handlers.abort("unknown", ALICE)


async def test_leaders_are_answered_each_question_by_itself() -> None:
    async with handling(Access(Authorizer(None), lambda key: key is None)) as (handlers, _, _):
        producer = await handlers.init(INIT, CALLER)
        batch = AdmissionBatch(
            BrokerId(2),
            (AddPartitions("unknown", producer, (A,)), AddPartitions("payments", producer, (A, B))),
        )
        first, second = await handlers.admit(batch, CALLER)
        assert isinstance(first, StrandlineError)
        assert second == {A: None, B: None}
