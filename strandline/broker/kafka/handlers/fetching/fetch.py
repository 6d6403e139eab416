"""Answers Fetch requests, and bounds the memory of all of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Final

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.fetching.answering import (
    Elsewhere,
    FetchAnswers,
    is_unread,
    positions_of,
    unread,
)
from strandline.broker.kafka.handlers.fetching.asking import Asking, InSession, Whole
from strandline.broker.kafka.handlers.fetching.sessions import FetchSessions
from strandline.broker.kafka.handlers.topic_ids import with_names
from strandline.broker.kafka.wire.fetch import (
    IDS_SINCE,
    ISOLATION_LEVELS,
    FetchAnswer,
    FetchedPartition,
    FetchRequest,
)
from strandline.broker.kafka.wire.topics import answering, each_partition
from strandline.broker.log.fetch_budget import FetchBudget
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.reads import POLLED_MAX, answer_bytes
from strandline.config.services.broker import BrokerSettings
from strandline.errors import ErrorCode, NotLeaderOrFollower
from strandline.ids import BrokerId
from strandline.ports import Caller, Clock, Reply
from strandline.records import BatchHeader
from strandline.security.quotas.model import Quota
from strandline.tasks import Slices
from strandline.vocabulary.log import Fetched, FetchPartition

READS_MAX: Final = 100
"""Reads of one partition for one answer, while they find no record."""


class FetchApi:
    """Fetch, for all connections of one broker."""

    def __init__(
        self,
        log: Handlers,
        made: FetchAnswers,
        sessions: FetchSessions,
        settings: BrokerSettings,
        live: Callable[[], Container[BrokerId]],
        clock: Clock,
    ) -> None:
        """`live` has the brokers that are alive."""
        self.reads = log.reads
        self._log = log
        self._made = made
        self._sessions = sessions
        self._live = live
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
        if (refused := self._refused(request, call)) is not None:
            await reply(refused)
            return
        asking = self._asking(request, call)
        if isinstance(asking, KafkaCode):
            await reply(FetchAnswer((), int(asking)))
            return
        bytes_max = request.bytes_max
        if call.bill is not None:
            if call.bill.owed(Quota.CONSUMER_BYTE_RATE):
                await reply(asking.nothing())  # as Kafka: nothing until the client has waited
                return
            bytes_max = call.bill.fetchable(bytes_max)
        owner = call.caller.connection
        async with self.asked.taken(owner, asking.size):
            await self.reads.fetchable(
                asking.watched,
                call.caller,
                wait_ms=request.wait_ms,
                bytes_min=0 if asking.at_once else request.bytes_min,
                bytes_max=bytes_max,
                bound=self._bound,
            )
            async with self._answers.taken(owner, answer_bytes(bytes_max, self._bound)) as has:
                wanted = asking.watched.due
                elsewhere = self._made.elsewhere(wanted, request, call)
                found = await self._read(wanted, elsewhere, bytes_max, call.caller)
                read = sum(len(each.records) for each in found)
                has(read)  # the first batch may be larger
                if call.bill is not None:
                    if call.bill.owed(Quota.CONSUMER_BYTE_RATE):
                        await reply(asking.nothing())  # others have used the quota up meanwhile
                        return
                    call.bill.charge(Quota.CONSUMER_BYTE_RATE, read)
                await reply(asking.answer(wanted, found, elsewhere))

    def wait(
        self, request: FetchRequest, call: Call, done: Callable[[FetchAnswer | None], None]
    ) -> Callable[[], None] | None:
        """See `Wait`. A poll of a few partitions for any record waits so while nothing is at its positions:
        nearly each poll of a consumer that has read everything. If its time ends, its answer is short."""
        if request.bytes_min != 1 or (call.bill is not None and call.bill.owed(Quota.CONSUMER_BYTE_RATE)):
            return None
        if self._refused(request, call) is not None:
            return None
        asking = self._asking(request, call)
        if isinstance(asking, KafkaCode) or asking.begins_session:
            return None
        if max(asking.size, len(asking.watched.due)) > POLLED_MAX or asking.at_once:
            return None
        asking.settle_now()
        return _Poll(self, asking, request, call, done).begin()

    def _asking(self, request: FetchRequest, call: Call) -> Asking | KafkaCode:
        live = self._sessions.of(request, call)
        if isinstance(live, KafkaCode):
            return live
        if live is not None:
            return InSession(live, request, call, self._made, self._sessions)
        request = request._replace(topics=with_names(request.topics, self._log))
        return Whole(request, call, self.reads, self._made, self._sessions)

    def _refused(self, request: FetchRequest, call: Call) -> FetchAnswer | None:
        """The answer to an isolation level that there is not, and to a follower that is no broker."""
        if request.isolation_level not in ISOLATION_LEVELS:
            return _unserved(request, call)
        if request.replica < 0 or BrokerId(request.replica) in self._live():
            return None
        positions = positions_of(request, with_names(request.topics, self._log))
        error = NotLeaderOrFollower(f"{request.replica} is no broker")
        each = [
            (position, unread(position) if is_unread(position) else Fetched(position.name, error))
            for position in positions
        ]
        return self._made.of(each, request, call, 0, {})

    async def _read(
        self, wanted: Sequence[FetchPartition], elsewhere: Elsewhere, bytes_max: int, caller: Caller
    ) -> list[Fetched]:
        """What is at these positions, without the records that the client is to read elsewhere."""
        if not elsewhere:
            return await self._records(wanted, bytes_max, caller)
        here = [position for position in wanted if position.name not in elsewhere]
        away = [position for position in wanted if position.name in elsewhere]
        records = iter(await self._records(here, bytes_max, caller))
        offsets = iter(await self.reads.without_records(away, caller))
        return [next(offsets if position.name in elsewhere else records) for position in wanted]

    async def _records(
        self, wanted: Sequence[FetchPartition], bytes_max: int, caller: Caller
    ) -> list[Fetched]:
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

    __slots__ = ("_api", "_asking", "_call", "_done", "_poll", "_request", "_size")

    def __init__(
        self,
        api: FetchApi,
        asking: Asking,
        request: FetchRequest,
        call: Call,
        done: Callable[[FetchAnswer | None], None],
    ) -> None:
        self._api = api
        self._asking = asking
        self._request = request
        self._call = call
        self._done = done
        self._size = asking.size

    def begin(self) -> Callable[[], None] | None:
        """See `Wait`."""
        if not self._api.asked.take_now(self._call.caller.connection, self._size):
            return None
        poll = self._api.reads.poll(
            self._asking.watched, self._call.caller, wait_ms=self._request.wait_ms, ended=self._ended
        )
        if poll is None:
            self._give_back()
            return None
        self._poll = poll
        return self._end

    def _ended(self, arrived: bool) -> None:
        self._give_back()
        wanted = self._asking.watched.due
        found = None if arrived else self._api.reads.with_nothing_new(wanted)
        self._done(None if found is None else self._asking.answer(wanted, found, {}))

    def _end(self) -> None:
        self._poll.cancel()
        self._give_back()

    def _give_back(self) -> None:
        self._api.asked.give_back(self._call.caller.connection, self._size)


def _unserved(request: FetchRequest, call: Call) -> FetchAnswer:
    """To a request of an isolation level that there is not. Early versions have an error of each partition
    only, and later ones have no topics beside an error of the whole."""
    code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    if call.version >= IDS_SINCE:
        return FetchAnswer((), code)
    each = (
        FetchedPartition(asked.partition, code, aborted=()) for _, asked in each_partition(request.topics)
    )
    return FetchAnswer(answering(request.topics, each), code)


def end_without_records(batches: bytes) -> int | None:
    """The offset after these batches if there are some, and none of them has a record."""
    position, end = 0, None
    while position < len(batches):
        header = BatchHeader.parse(batches, position)
        if header.record_count:
            return None
        position, end = header.end, header.next_offset
    return end
