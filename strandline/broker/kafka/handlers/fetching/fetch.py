"""Answers Fetch requests, and bounds the memory of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.fetching.answering import FetchAnswers, positions
from strandline.broker.kafka.handlers.leader_hints import LeaderHints
from strandline.broker.kafka.wire.fetch import (
    FINAL_SESSION_EPOCH,
    FetchAnswer,
    FetchRequest,
    PartitionPosition,
)
from strandline.broker.kafka.wire.topics import OfTopic, named
from strandline.broker.log.fetch_budget import FetchBudget
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.reads import answer_bytes
from strandline.config.services.broker import BrokerSettings
from strandline.ports import Caller, Clock, Reply
from strandline.records import BatchHeader
from strandline.security.quotas.model import Quota
from strandline.tasks import Slices
from strandline.vocabulary.log import Fetched, FetchPartition

READS_MAX: Final = 100
"""Reads of one partition for one answer, while they find no record."""
POLLED_MAX: Final = 64
"""Partitions of one request that waits without a task: all are looked at in one turn of the loop."""


class FetchApi:
    """Fetch, for all connections of one broker."""

    def __init__(self, log: Handlers, hints: LeaderHints, settings: BrokerSettings, clock: Clock) -> None:
        self.reads = log.reads
        self._log = log
        self.made = FetchAnswers(hints)
        self._clock = clock
        self._bound = settings.kafka_fetch_bytes_max
        self._answers = FetchBudget(
            of_one=settings.fetch_connection_bytes_max, of_all=settings.fetch_bytes_max
        )
        """Bytes that were read and not yet written, by connection."""
        self.asked = FetchBudget(
            of_one=settings.fetch_connection_partitions_max, of_all=settings.fetch_partitions_max
        )
        """Partitions in unanswered requests, by connection."""

    async def handle(self, request: FetchRequest, call: Call, reply: Reply[FetchAnswer]) -> None:
        """Answered once there is enough to read, or the wait is over. The bytes of the answer count until the
        connection has taken them."""
        if _names_session(request):
            # No session is ever given out: the client has to send a whole request (KIP-227).
            await reply(FetchAnswer((), int(KafkaCode.FETCH_SESSION_ID_NOT_FOUND)))
            return
        if call.bill is not None:
            if call.bill.owed(Quota.CONSUMER_BYTE_RATE):
                await reply(FetchAnswer(()))  # as Kafka: nothing until the client has waited
                return
            request = request._replace(bytes_max=call.bill.fetchable(request.bytes_max))
        request = self._named(request)
        wanted = positions(request)
        owner = call.caller.connection
        async with self.asked.taken(owner, len(wanted)):
            await self.reads.fetchable(
                wanted,
                call.caller,
                wait_ms=request.wait_ms,
                bytes_min=0 if _has_unknown(request) else request.bytes_min,
                bytes_max=request.bytes_max,
                bound=self._bound,
            )
            async with self._answers.taken(owner, answer_bytes(request.bytes_max, self._bound)) as has:
                found = await self._read(wanted, request.bytes_max, call.caller)
                read = sum(len(each.records) for each in found)
                has(read)  # the first batch may be larger
                if call.bill is not None:
                    if call.bill.owed(Quota.CONSUMER_BYTE_RATE):
                        await reply(FetchAnswer(()))  # others have used the quota up meanwhile
                        return
                    call.bill.charge(Quota.CONSUMER_BYTE_RATE, read)
                await reply(self.made.of(request, call, found))

    def wait(
        self, request: FetchRequest, call: Call, done: Callable[[FetchAnswer | None], None]
    ) -> Callable[[], None] | None:
        """See `Wait`. A poll of a few partitions for any record waits so while nothing is at its positions:
        nearly each poll of a consumer that has read everything. If its time ends, its answer is short."""
        if request.bytes_min != 1 or _names_session(request):
            return None
        if call.bill is not None and call.bill.owed(Quota.CONSUMER_BYTE_RATE):
            return None
        request = self._named(request)
        wanted = positions(request)
        if len(wanted) > POLLED_MAX or _has_unknown(request):
            return None
        return _Poll(self, request, call, wanted, done).begin()

    def _named(self, request: FetchRequest) -> FetchRequest:
        """The request with the names of the topics that it asks for by id."""
        return request._replace(topics=named(request.topics, self._name_of))

    def _name_of(self, topic: OfTopic[PartitionPosition]) -> str | None:
        return self._log.name_of(topic.topic_id, (asked.partition for asked in topic.partitions))

    async def _read(self, wanted: Sequence[FetchPartition], bytes_max: int, caller: Caller) -> list[Fetched]:
        """As `Reads.read`, and goes on where it found no record.

        A log that was compacted has batches without records, one segment after the other. Ten answers in a
        row without a record make librdkafka report a message that is too large to be fetched.
        """
        found = await self.reads.read(wanted, bytes_max, caller, bound=self._bound)
        room = answer_bytes(bytes_max, self._bound) - sum(len(each.records) for each in found)
        slices = Slices(self._clock)
        for at, asked in enumerate(wanted):
            for _ in range(READS_MAX):
                after = end_without_records(found[at].records)
                if after is None or room <= 0:
                    break
                if slices.used_up:
                    await slices.next()
                further = asked._replace(offset=after)
                (read,) = await self.reads.read([further], room, caller, bound=self._bound)
                if not read.records:
                    break
                room -= len(read.records)
                found[at] = read
        return found


class _Poll:
    """One request that waits without a task."""

    __slots__ = ("_api", "_call", "_done", "_poll", "_request", "_wanted")

    def __init__(
        self,
        api: FetchApi,
        request: FetchRequest,
        call: Call,
        wanted: Sequence[FetchPartition],
        done: Callable[[FetchAnswer | None], None],
    ) -> None:
        self._api = api
        self._request = request
        self._call = call
        self._wanted = wanted
        self._done = done

    def begin(self) -> Callable[[], None] | None:
        """See `Wait`."""
        if not self._api.asked.take_now(self._call.caller.connection, len(self._wanted)):
            return None
        poll = self._api.reads.poll(
            self._wanted, self._call.caller, wait_ms=self._request.wait_ms, ended=self._ended
        )
        if poll is None:
            self._give_back()
            return None
        self._poll = poll
        return self._end

    def _ended(self, arrived: bool) -> None:
        self._give_back()
        found = None if arrived else self._api.reads.with_nothing_new(self._wanted)
        self._done(None if found is None else self._api.made.of(self._request, self._call, found))

    def _end(self) -> None:
        self._poll.cancel()
        self._give_back()

    def _give_back(self) -> None:
        self._api.asked.give_back(self._call.caller.connection, len(self._wanted))


def _has_unknown(request: FetchRequest) -> bool:
    return any(topic.unknown for topic in request.topics)


def _names_session(request: FetchRequest) -> bool:
    return request.session_id != 0 and request.session_epoch != FINAL_SESSION_EPOCH


def end_without_records(batches: bytes) -> int | None:
    """The offset after these batches if there are some, and none of them has a record."""
    position, end = 0, None
    while position < len(batches):
        header = BatchHeader.parse(batches, position)
        if header.record_count:
            return None
        position, end = header.end, header.next_offset
    return end
