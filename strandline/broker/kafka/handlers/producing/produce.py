"""Appends the batches of Produce requests, and answers when the last of their outcomes is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from strandline.broker.core.replication.produce_ticket import ProduceOutcome
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, code_of, produce_code
from strandline.broker.kafka.handlers.leader_hints import LeaderHints
from strandline.broker.kafka.handlers.producing.batch_shape import one_batch
from strandline.broker.kafka.handlers.producing.refused_firsts import Place, RefusedFirsts, Sequenced
from strandline.broker.kafka.handlers.topic_ids import unknown_id, with_names
from strandline.broker.kafka.wire.leaders import CurrentLeader
from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.broker.kafka.wire.produce import (
    LEADERS_SINCE,
    PartitionRecords,
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
    WrongRecord,
)
from strandline.broker.kafka.wire.topics import OfTopic, answering, count, each_partition, with_partitions
from strandline.broker.log.handlers import Handlers
from strandline.broker.transactions.rights import TransactionRights
from strandline.errors import CorruptMessage, ErrorCode, InvalidRecord, StrandlineError, UnknownProducerId
from strandline.ids import ACKS_ALL, TopicPartition
from strandline.ports import Clock, Reply
from strandline.records.header import Bytes, in_transaction
from strandline.security.quotas.model import Quota
from strandline.security.rights import WRITE_TRANSACTIONAL_ID
from strandline.tasks import Slices
from strandline.vocabulary.log import ProduceEntry, Rights, Transactional

BATCHES_FIRST: Final = 3
"""The first version whose batches have the format of the log."""
ADDS_PARTITIONS_SINCE: Final = 12
"""From this version on, the producer's transaction has a partition as soon as it writes there."""
AT_ONCE_MAX: Final = 64
"""Batches of one request that are appended without a pause for other tasks."""
OLD_FORMAT: Final = "message formats 0 and 1 are not stored: use a client that speaks Produce 3 or later"


BY_THE_LOG: Final = frozenset({
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR,
})  # fmt: skip
"""Refusals that depend on the log: beside them, Kafka's brokers say where it starts."""
SAID_BY_CODE: Final = BY_THE_LOG | {
    ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.UNKNOWN_TOPIC_ID,
}  # fmt: skip
"""Refusals without a text, unless records are named."""


class UnacknowledgedFailed(StrandlineError):
    """A batch that was sent with acks=0 was not appended. Closing the connection is the only answer."""


class ProduceApi:
    """Produce, for all connections of one broker."""

    def __init__(self, log: Handlers, rights: TransactionRights, hints: LeaderHints, clock: Clock) -> None:
        self._log = log
        self._rights = rights
        self._hints = hints
        self._clock = clock
        self._firsts = RefusedFirsts(log.topic_id)

    def begin(self, request: ProduceRequest, call: Call, done: Callable[[ProduceAnswer], None]) -> bool:
        """Appends at once, so that requests of one connection keep their order while they are replicated.

        With acks=1, only if this broker is sure at once that it still leads.
        """
        if request.acks == 0 or count(request.topics) > AT_ONCE_MAX:
            return False
        if (refused := self._refused(request, call)) is not None:
            done(refused)
            return True
        request = self._named(request)
        names = _names(request)
        if request.acks != ACKS_ALL and not self._log.standing.certain(names):
            return False
        wanted = self._log.recompression.wanted
        if any(map(wanted, names, (found.records for _, found in each_partition(request.topics)))):
            return False
        if request.transactional_id is not None and self._beginning(request, names, call):
            return False
        outcomes = self._outcomes(request, call, done)
        _charge(request, call)
        for position, (topic, found) in enumerate(_batches(request)):
            if (batch := self._taken(request, topic, found, outcomes, position)) is not None:
                self._append(request, topic, names[position], batch, outcomes, position, sure=True)
        outcomes.close()
        return True

    async def handle(self, request: ProduceRequest, call: Call, reply: Reply[ProduceAnswer]) -> None:
        """For many batches, for acks=0, for acks=1 while the leader is not sure that it still leads, and for
        the first batches of transactions, of which coordinators have to know.

        Raises UnacknowledgedFailed.
        """
        if (refused := self._refused(request, call)) is not None:
            await self._reply(request, refused, reply)
            return
        _charge(request, call)
        request = self._named(request)
        unsure = frozenset[TopicPartition]()
        if request.acks != ACKS_ALL:
            unsure = await self._log.standing.unsure(dict.fromkeys(_names(request)))
        rights = await self._rights_for(request, call)
        answer: asyncio.Future[ProduceAnswer] = asyncio.get_running_loop().create_future()
        done = partial(_resolve, answer)
        outcomes = self._outcomes(request, call, done)
        slices = Slices(self._clock)
        for position, (topic, found) in enumerate(_batches(request)):
            if slices.used_up:
                await slices.next()
            batch = self._taken(request, topic, found, outcomes, position)
            if batch is None:
                continue
            name = TopicPartition(topic.name, found.partition)
            if self._log.recompression.wanted(name, batch):
                anew = await self._log.recompression.of(name, batch, call.caller)
                if isinstance(anew, StrandlineError):
                    outcomes.note(position, _place(topic, found.partition), None, None, anew)
                    continue
                batch = anew
            right = rights.get(name)
            if isinstance(right, StrandlineError):
                outcomes.note(position, _place(topic, found.partition), None, None, right)
                continue
            sure = name not in unsure
            self._append(request, topic, name, batch, outcomes, position, sure=sure, transaction=right)
        outcomes.close()
        call.begun()
        await self._reply(request, await answer, reply)

    async def _reply(
        self, request: ProduceRequest, answer: ProduceAnswer, reply: Reply[ProduceAnswer]
    ) -> None:
        if request.acks != 0:
            await reply(answer)
            return
        for topic, found in each_partition(answer.topics):
            if found.error:
                raise UnacknowledgedFailed(
                    f"acks=0, error {found.error} for {topic}-{found.partition}: {found.message}"
                )

    def _refused(self, request: ProduceRequest, call: Call) -> ProduceAnswer | None:
        """The answer to a request that is refused as a whole; None: its batches may be appended."""
        if call.version < BATCHES_FIRST:
            return _all_refused(request, int(KafkaCode.UNSUPPORTED_VERSION), OLD_FORMAT)
        of = request.transactional_id
        if of is None:
            return None
        refusal = self._log.access.refusal(call.caller, WRITE_TRANSACTIONAL_ID, of)
        return None if refusal is None else _all_refused(request, code_of(refusal), refusal.message)

    # --- transactions ------------------------------------------------------------------------

    def _beginning(
        self, request: ProduceRequest, names: Iterable[TopicPartition], call: Call
    ) -> dict[TopicPartition, Bytes]:
        """The batches that would begin their producer's transaction in a log that the caller may write."""
        found = (each.records or b"" for _, each in each_partition(request.topics))
        batches = zip(names, found, strict=True)
        return {
            name: batch
            for name, batch in batches
            if self._rights.wanted(name, batch) and self._log.may_be_in_transaction(name.topic, call.caller)
        }

    async def _rights_for(self, request: ProduceRequest, call: Call) -> Rights:
        """From version 12 on the leader adds the partition to the transaction (KIP-890)."""
        if request.transactional_id is None:
            return {}
        beginning = self._beginning(request, _names(request), call)
        if not beginning:
            return {}
        return await self._rights.of(
            request.transactional_id, beginning, add=call.version >= ADDS_PARTITIONS_SINCE
        )

    def _named(self, request: ProduceRequest) -> ProduceRequest:
        """The request with the names of the topics that it asks for by id."""
        return request._replace(topics=with_names(request.topics, self._log))

    def _outcomes(
        self, request: ProduceRequest, call: Call, done: Callable[[ProduceAnswer], None]
    ) -> _Outcomes:
        return _Outcomes(request, call, self._hints, self._firsts, self._log_start, self._clock, done)

    def _log_start(self, name: TopicPartition) -> int:
        try:
            return self._log.replica(name).log.log_start_offset
        except StrandlineError:
            return -1

    def _taken(
        self,
        request: ProduceRequest,
        topic: OfTopic[PartitionRecords],
        found: PartitionRecords,
        outcomes: _Outcomes,
        position: int,
    ) -> bytes | None:
        """The batch for one partition; None if it is refused before any log is asked."""
        records = bytes(found.records or b"")
        if topic.unknown:
            place = _place(topic, found.partition)
            outcomes.note(position, place, Sequenced.of(records), None, unknown_id(topic.topic_id))
            return None
        batch = one_batch(records)
        if isinstance(batch, StrandlineError):
            message = batch.message if isinstance(batch, CorruptMessage) else None
            outcomes.found(position, ProducedPartition(found.partition, code_of(batch), message=message))
            return None
        if request.transactional_id is None and in_transaction(batch):
            code = int(KafkaCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            outcomes.found(position, ProducedPartition(found.partition, code))
            return None
        return batch

    def _append(
        self,
        request: ProduceRequest,
        topic: OfTopic[PartitionRecords],
        name: TopicPartition,
        records: bytes,
        outcomes: _Outcomes,
        position: int,
        *,
        sure: bool,
        transaction: Transactional | None = None,
    ) -> None:
        place, batch = _place(topic, name.partition), Sequenced.of(records)
        refusal = self._firsts.refusal(place, batch, self._clock.monotonic())
        any_first = refusal is None
        entry = ProduceEntry(
            name,
            records,
            request.acks,
            request.timeout_ms,
            topic_id=topic.topic_id,
            any_first_sequence=any_first,
        )
        note = partial(outcomes.note, position, place, batch, refusal)
        self._log.produce(entry, note, outcomes.call.caller, sure=sure, transaction=transaction)


class _Outcomes:
    """Collects the outcomes of one request."""

    def __init__(
        self,
        request: ProduceRequest,
        call: Call,
        hints: LeaderHints,
        firsts: RefusedFirsts,
        log_start: Callable[[TopicPartition], int],
        clock: Clock,
        done: Callable[[ProduceAnswer], None],
    ) -> None:
        self._asked = tuple(
            OfTopic(topic.name, tuple([found.partition for found in topic.partitions]), topic.topic_id)
            for topic in with_partitions(request.topics)
        )  # without the records: a batch may wait for a minute, and its frame is no longer counted
        self._names = _names(request)
        self._answered = request.acks != 0
        self._found: list[ProducedPartition | None] = [None] * len(self._names)
        self.call = call
        self._hints = hints
        self._firsts = firsts
        self._log_start = log_start
        self._clock = clock
        self._endpoints: dict[int, BrokerAddress] = {}
        self._done = done
        self._left = len(self._names) + 1  # one more until all are begun

    def note(
        self,
        position: int,
        place: Place,
        batch: Sequenced | None,
        refusal: StrandlineError | None,
        outcome: ProduceOutcome,
    ) -> None:
        """`refusal`: that of `RefusedFirsts` when the batch came."""
        name = self._names[position]
        if isinstance(outcome, StrandlineError):
            if refusal is not None and isinstance(outcome, UnknownProducerId):
                outcome = refusal
            self._firsts.note(place, batch, outcome, self._clock.monotonic())
            code = produce_code(outcome, self.call.version)
            found = self._refused(name, code, outcome)
        else:
            base, start = outcome.base_offset, outcome.log_start_offset
            found = ProducedPartition(name.partition, 0, base, start, append_time_ms=outcome.append_time_ms)
        self.found(position, found)

    def found(self, position: int, found: ProducedPartition) -> None:
        """The answer about one batch."""
        self._found[position] = found
        self.close()

    def _refused(self, name: TopicPartition, code: int, error: StrandlineError) -> ProducedPartition:
        """As from Kafka, there is no text beside a code that says it all. The refusals of acks=0 go to the
        broker's log, with a text."""
        start = self._log_start(name) if code in BY_THE_LOG else -1
        wrong = error.records if isinstance(error, InvalidRecord) else ()
        named = tuple(WrongRecord(index, _why(code)) for index in wrong)
        message = None if code in SAID_BY_CODE and not wrong and self._answered else error.message
        return ProducedPartition(name.partition, code, -1, start, message, self._leader(name, code), named)

    def _leader(self, name: TopicPartition, code: int) -> CurrentLeader | None:
        if self.call.version < LEADERS_SINCE:
            return None
        hint = self._hints.of(name, code, self.call.caller.listener)
        if hint is None:
            return None
        leader, address = hint
        self._endpoints[leader.broker] = address
        return leader

    def close(self) -> None:
        """One of the outcomes, or the loop that begins them, has ended."""
        self._left -= 1
        if self._left == 0:
            topics = answering(self._asked, self._outcomes())
            self._done(ProduceAnswer(topics, tuple(self._endpoints.values())))

    def _outcomes(self) -> Iterator[ProducedPartition]:
        for name, found in zip(self._names, self._found, strict=True):
            assert found is not None, f"no outcome for a batch of {name}"
            yield found


def _why(code: int) -> str:
    """Of one record: the text of its batch has the values."""
    wrong_time = code == ErrorCode.INVALID_TIMESTAMP
    return "its time is out of range" if wrong_time else "it has no key, and the topic is compacted by key"


def _charge(request: ProduceRequest, call: Call) -> None:
    if call.bill is not None:
        used = sum(len(found.records or b"") for _, found in each_partition(request.topics))
        call.bill.charge(Quota.PRODUCER_BYTE_RATE, used)


def _names(request: ProduceRequest) -> list[TopicPartition]:
    return [TopicPartition(topic, found.partition) for topic, found in each_partition(request.topics)]


def _place(topic: OfTopic[PartitionRecords], partition: int) -> Place:
    return Place(topic.topic_id or topic.name, partition, by_id=bool(topic.topic_id))


def _batches(request: ProduceRequest) -> Iterator[tuple[OfTopic[PartitionRecords], PartitionRecords]]:
    return ((topic, found) for topic in request.topics for found in topic.partitions)


def _resolve(answer: asyncio.Future[ProduceAnswer], value: ProduceAnswer) -> None:
    if not answer.done():
        answer.set_result(value)


def _all_refused(request: ProduceRequest, code: int, message: str) -> ProduceAnswer:
    refused = (
        ProducedPartition(found.partition, code, message=message)
        for _, found in each_partition(request.topics)
    )
    return ProduceAnswer(answering(request.topics, refused))
