"""A broker's operations for transactions, in the values of `vocabulary/transactions.py`: no gRPC here, so
that another listener can call them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from strandline.broker.coordinators.finding import CoordinatorFinder
from strandline.broker.core.transactions.limits import check_transactional_id
from strandline.broker.core.transactions.requests import AbortTransaction, End, Initialize
from strandline.broker.transactions.coordinators import TransactionCoordinators
from strandline.broker.transactions.partition import TransactionPartition
from strandline.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidRequest,
    LeaderNotAvailable,
    OperationNotAttempted,
    StrandlineError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from strandline.ids import INTERNAL_PREFIX, NO_PRODUCER, TopicPartition
from strandline.ports import Caller, Clock
from strandline.security.access import Access
from strandline.security.acls import CLUSTER_NAME
from strandline.security.rights import (
    ALTER_CLUSTER,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    READ_GROUP,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from strandline.serving.unfinished import unfinished_noted
from strandline.tasks import Slices
from strandline.vocabulary.asks import Answered, Asks
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.transactions import (
    AddPartitions,
    AdmissionBatch,
    Admitted,
    DescribedTransaction,
    DescribeTransaction,
    EndTransaction,
    InitTransactions,
    ListedTransaction,
    ListTransactions,
    PartitionResults,
)

PATIENCE_S: Final = 0.05
"""For how long a producer waits here, and not at its own pace, for the end of its last transaction."""
PAUSE_S: Final = 0.001
PAUSE_S_MAX: Final = 0.004
"""The pauses between two looks: the first one, which doubles, and the longest one."""

Missing = Callable[[Iterable[TopicPartition]], Awaitable[Set[TopicPartition]]]
"""Those of these partitions that do not exist."""
PlaceOfGroup = Callable[[str], Awaitable[TopicPartition]]
"""The partition of `__consumer_offsets` that has the group's offsets. Raises CoordinatorNotAvailable."""


class TransactionHandlers:
    """Every method raises NotCoordinator, CoordinatorLoading, CoordinatorNotAvailable, InvalidRequest,
    TransactionalIdAuthorizationFailed, and the coordinator's refusals."""

    def __init__(
        self,
        coordinators: TransactionCoordinators,
        finder: CoordinatorFinder[TransactionPartition],
        missing: Missing,
        place_of_group: PlaceOfGroup,
        new_producer_id: Callable[[], Awaitable[int]],
        access: Access,
        clock: Clock,
        partitions_max: int,
    ) -> None:
        """`partitions_max`: of one transaction."""
        self._partitions_max = partitions_max
        self._coordinators = coordinators
        self._finder = finder
        self._missing = missing
        self._place_of_group = place_of_group
        self._new_producer_id = new_producer_id
        self._access = access
        self._clock = clock

    # --- finding the coordinator -------------------------------------------------------------

    async def find_coordinator(self, transactional_id: str, caller: Caller) -> Endpoint:
        """The broker that leads the id's partition; the first call creates the topic."""
        (found,) = await self.find_coordinators([transactional_id], caller)
        if isinstance(found, StrandlineError):
            raise found
        return found

    async def find_coordinators(
        self, transactional_ids: Iterable[str], caller: Caller
    ) -> list[Endpoint | StrandlineError]:
        """For each id, the broker that leads its partition, or why there is none."""

        def check(transactional_id: str) -> None:
            if transactional_id:  # as in Kafka, one without a name is refused by its coordinator
                check_transactional_id(transactional_id)
            self._access.check(caller, DESCRIBE_TRANSACTIONAL_ID, transactional_id)

        return await self._finder.find_all(transactional_ids, check)

    # --- producers ---------------------------------------------------------------------------

    async def init(self, request: InitTransactions, caller: Caller) -> ProducerIdentity:
        """Answered once the identity is in the log. ConcurrentTransactions: the last transaction is being
        ended, or no new producer id is at hand."""
        partition = await self._for_producer(request.transactional_id, caller)
        given = request.producer
        if (given.producer_id == NO_PRODUCER) != (given.producer_epoch == NO_PRODUCER):
            raise InvalidRequest(f"half an identity: id {given.producer_id}, epoch {given.producer_epoch}")
        new_id = await self._id_for(partition, request)
        return await self._patiently(partition, Initialize(request, new_id))

    async def add_partitions(self, request: AddPartitions, caller: Caller) -> PartitionResults:
        """Answered once they are in the log. If one may not be added, none is: the others are
        OperationNotAttempted, as in Kafka."""
        partition = await self._for_producer(request.transactional_id, caller)
        self._check_count(request)
        refused = await self._not_to_be_added(request.partitions, self._refusals(request.partitions, caller))
        return await self._patiently(partition, request) if refused is None else refused

    def _check_count(self, request: AddPartitions) -> None:
        """Raises InvalidRequest, before each partition is looked at."""
        if len(request.partitions) > self._partitions_max:
            raise InvalidRequest(
                f"{len(request.partitions)} partitions at once, more than {self._partitions_max}",
                limit=self._partitions_max,
            )

    async def _not_to_be_added(
        self, names: Sequence[TopicPartition], refused: Mapping[TopicPartition, StrandlineError]
    ) -> PartitionResults | None:
        """None if each of them may be added."""
        missing = await self._missing([name for name in names if name not in refused])
        refused = {**refused, **{name: UnknownTopicOrPartition(f"{name} does not exist") for name in missing}}
        others = OperationNotAttempted("other partitions of the request cannot be added")
        return {name: refused.get(name, others) for name in names} if refused else None

    def _refusals(
        self, names: Sequence[TopicPartition], caller: Caller
    ) -> dict[TopicPartition, StrandlineError]:
        """No client writes to a topic of the system, also one with every right."""
        refused = self._access.split(caller, WRITE_TOPIC, names, lambda name: name.topic).refusals
        for name in names:
            if name.topic.startswith(INTERNAL_PREFIX):
                refused[name] = TopicAuthorizationFailed(f"topic {name.topic!r} is the system's own")
        return refused

    async def add_offsets(
        self, transactional_id: str, producer: ProducerIdentity, group: str, caller: Caller
    ) -> None:
        """Adds the group's partition of `__consumer_offsets`. Raises GroupAuthorizationFailed."""
        partition = await self._for_producer(transactional_id, caller)
        self._access.check(caller, READ_GROUP, group)
        name = await self._place_of_group(group)
        results = await self._patiently(partition, AddPartitions(transactional_id, producer, (name,)))
        if (error := results[name]) is not None:
            raise error

    async def end(self, request: EndTransaction, caller: Caller) -> ProducerIdentity:
        """Answered once the decision is in the log: from then on it stands, and markers follow."""
        partition = await self._for_producer(request.transactional_id, caller)
        new_id = await self._id_for(partition, request)
        return await partition.ask(End(request, new_id))

    async def _for_producer(self, transactional_id: str, caller: Caller) -> TransactionPartition:
        self._access.check(caller, WRITE_TRANSACTIONAL_ID, transactional_id)
        check_transactional_id(transactional_id)
        return await self._finder.here(transactional_id)

    async def _patiently(self, partition: TransactionPartition, request: Asks[Answered]) -> Answered:
        """Asks again for a moment while the producer's last transaction is being ended, which mostly takes a
        few milliseconds. Its client would ask again, too, after 20 ms or more."""
        ends_at, pause_s = self._clock.monotonic() + PATIENCE_S, PAUSE_S
        while True:
            try:
                return await partition.ask(request)
            except ConcurrentTransactions:
                if self._clock.monotonic() + pause_s > ends_at:
                    raise
            await self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _id_for(
        self, partition: TransactionPartition, request: InitTransactions | EndTransaction
    ) -> int:
        """A producer id that no other producer has, if this request needs one."""
        if not partition.needs_producer_id(request):
            return NO_PRODUCER
        try:
            return await self._new_producer_id()
        except LeaderNotAvailable as error:
            raise CoordinatorNotAvailable(error.message) from error

    # --- leaders -----------------------------------------------------------------------------

    async def admit(self, batch: AdmissionBatch, caller: Caller) -> Sequence[Admitted]:
        """Answers leaders of partitions, each question alone. The leader has checked its client's rights.
        Raises as `Access.check_broker`."""
        self._access.check_broker(caller, batch.broker_id)
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(self._admit(each)) for each in batch.admissions]
        return [each.result() for each in asked]

    async def admit_existing(self, question: AddPartitions) -> Admitted:
        """One question of a caller with the rights of a broker, which need not lead the partitions."""
        try:
            self._check_count(question)
        except InvalidRequest as error:
            return error
        refused = await self._not_to_be_added(question.partitions, {})
        return await self._admit(question) if refused is None else refused

    async def _admit(self, question: AddPartitions) -> Admitted:
        try:
            return await self._ask(question.transactional_id, question)
        except StrandlineError as error:
            return error

    async def _ask(self, transactional_id: str, request: Asks[Answered]) -> Answered:
        partition = await self._finder.here(transactional_id)
        return await partition.ask(request)

    # --- tools -------------------------------------------------------------------------------

    async def describe(self, transactional_id: str, caller: Caller) -> DescribedTransaction:
        """Its partitions are those of topics that the caller may see."""
        self._access.check(caller, DESCRIBE_TRANSACTIONAL_ID, transactional_id)
        check_transactional_id(transactional_id)
        found = await self._ask(transactional_id, DescribeTransaction(transactional_id))
        refused = self._access.refusals(caller, DESCRIBE_TOPIC, {name.topic for name in found.partitions})
        return replace(found, partitions=tuple(n for n in found.partitions if n.topic not in refused))

    async def list(self, request: None, caller: Caller) -> Sequence[ListedTransaction]:
        """The transactional ids that this broker coordinates and the caller may see; all of them, or
        CoordinatorLoading."""
        partitions = list(self._coordinators)
        for partition in partitions:
            partition.check()
        visible, slices = list[ListedTransaction](), Slices(self._clock)
        for partition in partitions:
            for each in await partition.ask(ListTransactions()):
                if slices.used_up:
                    await slices.next()
                if self._access.allowed(caller, DESCRIBE_TRANSACTIONAL_ID, each.transactional_id):
                    visible.append(each)
        return visible

    async def abort(self, transactional_id: str, caller: Caller) -> None:
        """For administrators: aborts what is open, and fences its producer. Answered once the decision is in
        the log. Raises ClusterAuthorizationFailed, TransactionalIdNotFound, InvalidTransactionState."""
        self._access.check(caller, ALTER_CLUSTER)

        def noted(error: StrandlineError | None = None) -> None:
            self._access.changed(
                caller, ALTER_CLUSTER, CLUSTER_NAME, error, transactional_id=transactional_id
            )

        with unfinished_noted(noted):
            await self._ask(transactional_id, AbortTransaction(transactional_id))
        noted()
