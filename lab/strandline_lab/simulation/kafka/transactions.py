"""A transactional producer, request by request, in the versions of older clients or of newer ones.

Older clients name the partitions of a transaction before they write, and keep their epoch (KIP-98). Newer
ones write at once, and get another epoch with each end (KIP-890). A request is sent again until it is
answered; each batch of a partition follows the answer to the one before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.coordinator import GROUP, TRANSACTION, FindCoordinatorRequest
from strandline.broker.kafka.wire.groups.offsets import (
    GroupWanted,
    OffsetFetchAnswer,
    OffsetFetchRequest,
    OffsetToCommit,
    TxnOffsetCommitRequest,
)
from strandline.broker.kafka.wire.produce import PartitionRecords, ProduceAnswer, ProduceRequest
from strandline.broker.kafka.wire.producer_id import InitProducerIdRequest
from strandline.broker.kafka.wire.topics import OfTopic, each_partition
from strandline.broker.kafka.wire.transactions.producers import (
    AddOffsetsRequest,
    AddPartitionsRequest,
    EndTransactionRequest,
    PartitionsOfTransaction,
)
from strandline.errors import ErrorCode
from strandline.ids import ACKS_ALL
from strandline.records import pack
from strandline.records.header import TRANSACTIONAL
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import NO_PRODUCER
from strandline_lab.simulation.kafka.client import AGAIN_S, LOOK_AGAIN, KafkaClient
from strandline_lab.simulation.kafka.connection import Disconnected, KafkaConnection
from strandline_lab.simulation.kafka.messages import FIND_COORDINATOR, Api, only

Request = TypeVar("Request")
Answer = TypeVar("Answer")

PATIENCE_S: Final = 20.0
"""A request is not sent again after this time."""
TIMEOUT_MS: Final = 1_000
"""Of a Produce request."""
STABLE: Final = only(apis.OFFSET_FETCH, 7)
"""The first version that may ask for offsets that no open transaction replaces (KIP-447)."""


class Spoken(NamedTuple):
    """The versions that a client speaks."""

    raises: bool
    """Each end gives it the next epoch, and leaders add what it writes to (KIP-890)."""
    init: Api[InitProducerIdRequest, Any]
    add: Api[AddPartitionsRequest, Any]
    add_offsets: Api[AddOffsetsRequest, Any]
    produce: Api[ProduceRequest, ProduceAnswer]
    commit_offsets: Api[TxnOffsetCommitRequest, Any]
    end: Api[EndTransactionRequest, Any]


def _spoken(
    raises: bool, init: int, add: int, add_offsets: int, produce: int, commit_offsets: int, end: int
) -> Spoken:
    return Spoken(
        raises,
        only(apis.INIT_PRODUCER_ID, init),
        only(apis.ADD_PARTITIONS_TO_TXN, add),
        only(apis.ADD_OFFSETS_TO_TXN, add_offsets),
        only(apis.PRODUCE, produce),
        only(apis.TXN_OFFSET_COMMIT, commit_offsets),
        only(apis.END_TXN, end),
    )


OLD: Final = _spoken(False, init=1, add=2, add_offsets=2, produce=7, commit_offsets=2, end=2)
V1: Final = _spoken(False, init=4, add=3, add_offsets=3, produce=11, commit_offsets=3, end=4)
V2: Final = _spoken(True, init=5, add=3, add_offsets=3, produce=12, commit_offsets=5, end=5)


class Fenced(Exception):
    """This producer is over: another one has its transactional id, or its transaction was ended for it."""


class Abortable(Exception):
    """Nothing is left of this transaction but its abort."""


class GaveUp(Exception):
    """A request was not answered in PATIENCE_S: it may have been done."""


_FENCING: Final = frozenset({
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED,
})  # fmt: skip
_ABORTABLE: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
_MOVED: Final = frozenset({
    ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT,
})  # fmt: skip
_AGAIN: Final = _MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}  # fmt: skip
_NO_ANSWER: Final = int(ErrorCode.REQUEST_TIMED_OUT)


class TransactionalProducer:
    """Every method raises Fenced, Abortable, GaveUp."""

    def __init__(
        self,
        client: KafkaClient,
        transactional_id: str,
        group: str,
        spoken: Spoken,
        timeout_ms: int,
        on_request: Callable[[str], None],
        *,
        used_up: bool = False,
    ) -> None:
        """`timeout_ms`: of its transactions. `on_request` gets the name of each request before it leaves.
        `used_up`: the next producer may have another producer id."""
        self.identity = NO_PRODUCER
        self.unresolved = False
        """A batch may have been written or not: only another epoch goes on."""
        self._client = client
        self._id = transactional_id
        self._group = group
        self._spoken = spoken
        self._timeout_ms = timeout_ms
        self._on_request = on_request
        self._fencing = _FENCING | {ErrorCode.INVALID_PRODUCER_ID_MAPPING} if used_up else _FENCING
        self._sequences: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        """By partition, the offset after the last batch that was acknowledged."""
        self._late: dict[asyncio.Task[ProduceAnswer], None] = {}
        """Batches whose answers do not matter."""
        self._coordinators: dict[int, str] = {}
        """Addresses, by the kind of coordinator."""

    @property
    def _held(self) -> tuple[int, int]:
        return self.identity.producer_id, self.identity.producer_epoch

    @property
    def names_partitions(self) -> bool:
        """It names the partitions of a transaction before it writes."""
        return not self._spoken.raises

    async def create_internal_topics(self) -> None:
        """Those of both coordinators, which a broker creates when it is first asked for one."""
        await self._coordinated_topic(TRANSACTION)
        await self._coordinated_topic(GROUP)

    async def _coordinated_topic(self, kind: int) -> None:
        while True:
            try:
                await self._coordinator(kind)
            except Disconnected:
                await self._client.host.clock.sleep(AGAIN_S)
            else:
                return

    async def initialize(self) -> None:
        """Takes the transactional id, or the next epoch of the identity that it has (KIP-360)."""
        request = InitProducerIdRequest(self._id, self._timeout_ms, *self._held)
        answer = await self._coordinated("init", self._spoken.init, request, lambda found: found.error)
        self._take(ProducerIdentity(answer.producer_id, answer.producer_epoch))

    def _take(self, identity: ProducerIdentity) -> None:
        if identity != self.identity:
            self._sequences.clear()
            self.unresolved = False
        self.identity = identity

    async def add_partitions(self, partitions: Sequence[int]) -> None:
        topic = OfTopic(self._client.topic, tuple(partitions))
        request = AddPartitionsRequest((PartitionsOfTransaction(self._id, *self._held, (topic,)),))
        await self._coordinated(
            "add partitions",
            self._spoken.add,
            request,
            lambda found: _first(each.error for _, each in each_partition(found.results[0].topics)),
        )

    async def add_offsets(self) -> None:
        request = AddOffsetsRequest(self._id, *self._held, self._group)
        await self._coordinated("add offsets", self._spoken.add_offsets, request, lambda found: found.error)

    async def commit_offset(self, partition: int, offset: int) -> None:
        """In the transaction, for the group."""
        topic = OfTopic(self._client.topic, (OffsetToCommit(partition, offset, -1, ""),))
        request = TxnOffsetCommitRequest(self._id, self._group, *self._held, (topic,))
        await self._coordinated(
            "commit offsets",
            self._spoken.commit_offsets,
            request,
            lambda found: _first(each.error for _, each in each_partition(found.topics)),
            kind=GROUP,
        )

    async def end(self, *, commit: bool) -> None:
        request = EndTransactionRequest(self._id, *self._held, commit)
        answer = await self._coordinated("end", self._spoken.end, request, lambda found: found.error)
        if self._spoken.raises:
            self._take(ProducerIdentity(answer.producer_id, answer.producer_epoch))

    async def offset(self, partition: int) -> int:
        """The group's offset, which no open transaction is going to replace; 0 if it has none."""
        wanted = GroupWanted(self._group, (OfTopic(self._client.topic, (partition,)),))
        request = OffsetFetchRequest((wanted,), True)
        answer = await self._coordinated("fetch offsets", STABLE, request, _error_of_offsets, kind=GROUP)
        [(_, found)] = each_partition(answer.groups[0].topics)
        return max(0, found.offset)

    # --- batches -----------------------------------------------------------------------------

    async def write(self, partition: int, values: Sequence[bytes], key: bytes | None = None) -> int:
        """Writes a batch in which each value is its own key, or has this one. Returns the offset of the first
        value."""
        request = self._batch(partition, values, key)
        self.unresolved = True
        offset = await self._written(partition, request)
        self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
        self._ends[partition] = offset + len(values)
        self.unresolved = False
        return offset

    def write_late(self, partition: int, values: Sequence[bytes]) -> None:
        """Sends a batch once, and waits for nothing: the next request may overtake it."""
        request = self._batch(partition, values, None)
        self.unresolved = True
        self._on_request("write")
        sent = asyncio.get_running_loop().create_task(self._sent(partition, request))
        self._late[sent] = None
        sent.add_done_callback(self._forget)

    def _forget(self, sent: asyncio.Task[ProduceAnswer]) -> None:
        del self._late[sent]
        if not sent.cancelled():
            sent.exception()

    async def _sent(self, partition: int, request: ProduceRequest) -> ProduceAnswer:
        """Raises Disconnected."""
        connection = await self._client.connection(self._client.led(partition).broker)
        return await self._client.ask(connection, self._spoken.produce, request)

    def _batch(self, partition: int, values: Sequence[bytes], key: bytes | None) -> ProduceRequest:
        at_ms = self._client.host.clock.wall_ms()
        packed = pack([(key or value, value, (), at_ms) for value in values])
        sequence = self._sequences.get(partition, 0)
        producer_id, epoch = self._held
        batch = replace(packed, attributes=packed.attributes | TRANSACTIONAL).seal(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        topic = OfTopic(self._client.topic, (PartitionRecords(partition, memoryview(batch)),))
        return ProduceRequest(ACKS_ALL, TIMEOUT_MS, (topic,), self._id)

    async def _written(self, partition: int, request: ProduceRequest) -> int:
        ends_s = self._ends_s()
        while True:
            self._on_request("write")
            try:
                answer = await self._sent(partition, request)
            except Disconnected:
                error = _NO_ANSWER
            else:
                [(_, produced)] = each_partition(answer.topics)
                error = produced.error
                if not error:
                    return produced.base_offset
                if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    self._forgotten(partition, produced.log_start_offset)
            if error not in LOOK_AGAIN:
                self._refuse(f"a batch of {self._client.topic}-{partition}", error)
            await self._wait(ends_s)
            await self._client.refresh()

    def _forgotten(self, partition: int, log_start: int) -> None:
        """A replica that began behind all batches of this producer does not know it. Raises Abortable."""
        if self._ends.get(partition, log_start) < log_start:
            raise Abortable(f"all batches of {self._client.topic}-{partition} were deleted")

    # --- coordinators ------------------------------------------------------------------------

    async def _coordinated(
        self,
        what: str,
        api: Api[Request, Answer],
        request: Request,
        error_of: Callable[[Answer], int],
        *,
        kind: int = TRANSACTION,
    ) -> Answer:
        ends_s = self._ends_s()
        while True:
            self._on_request(what)
            try:
                answer = await self._client.ask(await self._coordinator(kind), api, request)
            except Disconnected:
                error = _NO_ANSWER
            else:
                error = error_of(answer)
                if not error:
                    return answer
            if error in _MOVED:
                self._coordinators.pop(kind, None)
            elif error not in _AGAIN:
                self._refuse(what, error)
            await self._wait(ends_s)

    async def _coordinator(self, kind: int) -> KafkaConnection:
        """Raises Disconnected, also if there is none."""
        if kind not in self._coordinators:
            key = self._group if kind == GROUP else self._id
            found = await self._client.ask_any(FIND_COORDINATOR, FindCoordinatorRequest((key,), kind))
            (coordinator,) = found.found
            if coordinator.error:
                raise Disconnected(f"there is no coordinator: error {coordinator.error}")
            self._coordinators[kind] = f"{coordinator.host}:{coordinator.port}"
        return await self._client.connection_to(self._coordinators[kind])

    def _refuse(self, what: str, error: int) -> None:
        """Raises what an error means, which no further try changes."""
        if error in self._fencing:
            raise Fenced(f"{what}: error {error}")
        if error in _ABORTABLE:
            raise Abortable(f"{what}: error {error}")
        self._client.wrong.append(f"{self._client.name}: {what} failed with error {error}")
        raise Fenced(f"{what}: error {error}")

    def _ends_s(self) -> float:
        return self._client.host.clock.monotonic() + PATIENCE_S

    async def _wait(self, ends_s: float) -> None:
        clock = self._client.host.clock
        if clock.monotonic() > ends_s:
            raise GaveUp
        await clock.sleep(self._client.random.uniform(0, AGAIN_S))


def _error_of_offsets(answer: OffsetFetchAnswer) -> int:
    (group,) = answer.groups
    return group.error or _first(each.error for _, each in each_partition(group.topics))


def _first(errors: Any) -> int:
    return next((each for each in errors if each), 0)
