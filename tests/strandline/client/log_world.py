"""Brokers in memory with topics whose leaders, ends and ids change as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from strandline.adapters.codecs.log import EPOCH_ENDS, LIST_OFFSETS, METADATA, PARTITION_COUNTS
from strandline.adapters.system.clock import SystemClock
from strandline.errors import (
    BrokerNotAvailable,
    LeaderHint,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OutcomeUnknown,
    StrandlineError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicId, TopicPartition
from strandline.ports import Method, Request, Response, Stream
from strandline.records import BatchHeader, encode_values, gap_batch
from strandline.vocabulary.log import (
    EARLIEST,
    LATEST,
    EpochQuery,
    FetchAnswer,
    Fetched,
    FetchPartition,
    FetchRequest,
    ListedEpochEnd,
    ListedOffset,
    MetadataAnswer,
    MetadataQuery,
    OffsetQuery,
)
from strandline.vocabulary.log_position import UNDEFINED, EpochEnd, LogPosition, Match, compare
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint, PartitionMetadata, TopicMetadata

POLL_S, POLLS = 0.002, 10
"""How long a fetch waits if there are no records."""
CLOCK = SystemClock()


class Log:
    """One partition. Everything in it is committed below `watermark` (None: all)."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = 0
        self.watermark: int | None = None
        self.leader = 1
        self.epoch = 1
        self.read_from = 0
        """The offset of the last fetch."""

    @property
    def end(self) -> int:
        return BatchHeader.parse(self.batches[-1]).next_offset if self.batches else self.start

    @property
    def high_watermark(self) -> int:
        return self.end if self.watermark is None else min(self.watermark, self.end)

    def write(self, count: int, *, value: bytes = b"v", timestamp_ms: int = 0) -> None:
        """One batch of this number of records."""
        values = [value] * count
        self.batches.append(
            encode_values(values, timestamp_ms, base_offset=self.end, leader_epoch=self.epoch)
        )

    def leave_out(self, count: int) -> None:
        """Skip this number of offsets, as if compaction had taken the records."""
        self.batches.append(gap_batch(self.end, self.end + count, self.epoch))

    def forget(self, start: int) -> None:
        """As retention does."""
        self.batches = [one for one in self.batches if BatchHeader.parse(one).next_offset > start]
        self.start = start

    def cut(self, end: int) -> None:
        """As a leader does that was elected without the records from there on."""
        self.batches = [one for one in self.batches if BatchHeader.parse(one).next_offset <= end]

    def lead(self, broker: int) -> None:
        self.leader, self.epoch = broker, self.epoch + 1

    def epoch_end(self, epoch: int) -> EpochEnd:
        """As the epoch cache of a broker."""
        headers = list(map(BatchHeader.parse, self.batches))
        if epoch >= self.epoch:
            return EpochEnd(self.epoch, self.high_watermark) if epoch == self.epoch else UNDEFINED
        later = [header.base_offset for header in headers if header.leader_epoch > epoch]
        known = [header.leader_epoch for header in headers if header.leader_epoch <= epoch]
        return EpochEnd(max(known, default=epoch), min(later, default=self.end))

    def fetch(self, wanted: FetchPartition) -> Fetched:
        below, self.read_from = self.high_watermark, wanted.offset
        error: StrandlineError | None = None
        records = b""
        if not self.start <= wanted.offset <= self.end:
            error = OffsetOutOfRange(f"{wanted.offset} is outside {self.start}..{self.end}")
        else:
            for one in self.batches:
                header = BatchHeader.parse(one)
                if header.next_offset > wanted.offset and header.next_offset <= below:
                    if records and len(records) + len(one) > wanted.bytes_max:
                        break
                    records += one
        return Fetched(wanted.name, error, below, self.start, records)


class LogWorld:
    """`Transport` to brokers 1 and 2 at `broker1:1` and `broker2:1`. `dead` ones do not answer."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[str, list[Log]]] = {}
        self.dead: set[int] = set()
        self.refusals: int | None = None
        """The dead are back after this number of attempts to reach one."""
        self.asked: list[str] = []
        """RPCs by the last part of their path."""
        self.known: dict[str, tuple[str, list[tuple[int, int]]]] | None = None
        """The brokers' knowledge of topics if they are behind: id, and leader and epoch of each partition."""
        self.streams: list[_Stream] = []

    def create(
        self, topic: str, partitions: int = 1, *, topic_id: str = "first", epoch: int = 1
    ) -> list[Log]:
        logs = [Log() for _ in range(partitions)]
        for log in logs:
            log.epoch = epoch
        self.topics[topic] = (topic_id, logs)
        return logs

    def kill(self, broker: int) -> None:
        self.dead.add(broker)
        for stream in self.streams:
            if stream.broker == broker:
                stream.broken.set()

    def fall_behind(self) -> None:
        """From now on brokers answer with their present knowledge of topics, until `known` is None again."""
        self.known = {
            name: (topic_id, [(log.leader, log.epoch) for log in logs])
            for name, (topic_id, logs) in self.topics.items()
        }

    def log(self, name: TopicPartition) -> Log | None:
        _, logs = self.topics.get(name.topic, ("", []))
        return logs[name.partition] if name.partition < len(logs) else None

    # --- Transport ---------------------------------------------------------------------------

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        await asyncio.sleep(0)
        broker = self._alive(address)
        self.asked.append(method.path.rsplit("/", 1)[-1])
        given: Any = request
        answer: Any
        if method.path == METADATA.path:
            answer = self._metadata(given)
        elif method.path == PARTITION_COUNTS.path:
            answer = {name: len(logs) for name, (_, logs) in self.topics.items()}
        elif method.path == EPOCH_ENDS.path:
            answer = [self._ended(broker, query) for query in given]
        else:
            assert method.path == LIST_OFFSETS.path
            answer = [self._listed(broker, query) for query in given]
        return answer  # type: ignore[no-any-return]  # the method's own

    def _alive(self, address: str) -> int:
        broker = int(address[len("broker") : -len(":1")])
        if broker in self.dead and self.refusals is not None:
            self.refusals -= 1
            if self.refusals < 0:
                self.dead.clear()
        if broker in self.dead:
            raise BrokerNotAvailable(f"{address} is unreachable from here")
        return broker

    def _metadata(self, query: MetadataQuery) -> MetadataAnswer:
        known = self.known
        if known is None:
            self.fall_behind()
            assert self.known is not None
            known, self.known = self.known, None
        names = list(query.topics or known)
        topics = tuple(
            TopicMetadata(
                name,
                TopicId(known[name][0]),
                tuple(
                    PartitionMetadata(number, leader, epoch, (1, 2), (1, 2))
                    for number, (leader, epoch) in enumerate(known[name][1])
                ),
            )
            for name in names
            if name in known
        )
        errors: dict[str, StrandlineError] = {
            name: UnknownTopicOrPartition(name) for name in names if name not in known
        }
        brokers = tuple(Endpoint(number, f"broker{number}", 1) for number in (1, 2))
        return MetadataAnswer(ClusterMetadata("c", brokers, None, topics), errors)

    def _listed(self, broker: int, query: OffsetQuery) -> ListedOffset:
        log = self.log(query.name)
        if log is None or log.leader != broker:
            return ListedOffset(query.name, NotLeaderOrFollower("not here"), -1, -1, -1, -1, -1, -1)
        offset = {LATEST: log.high_watermark, EARLIEST: log.start}.get(query.timestamp_ms, -1)
        if query.timestamp_ms >= 0:
            headers = map(BatchHeader.parse, log.batches)
            offset = next((h.base_offset for h in headers if h.max_timestamp >= query.timestamp_ms), -1)
        return ListedOffset(
            query.name, None, offset, -1, log.epoch, log.high_watermark, log.start, log.end,
            TopicId(self.topics[query.name.topic][0]),
        )  # fmt: skip

    def _ended(self, broker: int, query: EpochQuery) -> ListedEpochEnd:
        log = self.log(query.name)
        if log is None or log.leader != broker:
            return ListedEpochEnd(query.name, NotLeaderOrFollower("not here"))
        end = log.epoch_end(query.epoch)
        return ListedEpochEnd(query.name, None, *end, TopicId(self.topics[query.name.topic][0]))

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        await asyncio.sleep(0)
        stream: Any = _Stream(self, self._alive(address))
        self.streams.append(stream)
        return stream  # type: ignore[no-any-return]  # of the method's messages

    async def close(self) -> None:
        for stream in self.streams:
            stream.broken.set()


class _Stream:
    """Fetches from one broker."""

    def __init__(self, world: LogWorld, broker: int) -> None:
        self.world = world
        self.broker = broker
        self.broken = asyncio.Event()
        self.requests: asyncio.Queue[FetchRequest] = asyncio.Queue()

    async def write(self, request: FetchRequest) -> None:
        self._check()
        self.requests.put_nowait(request)

    async def read(self) -> FetchAnswer:
        async with asyncio.TaskGroup() as tasks:
            answer = tasks.create_task(self._answer())
            broken = tasks.create_task(self.broken.wait())
            await asyncio.wait((answer, broken), return_when=asyncio.FIRST_COMPLETED)
            answer.cancel()
            broken.cancel()
        self._check()
        return answer.result()

    async def _answer(self) -> FetchAnswer:
        """As soon as there is something to say, or after a while."""
        request = await self.requests.get()
        answers: Sequence[Fetched] = []
        for _ in range(POLLS):
            answers = [self._fetched(wanted) for wanted in request.partitions]
            if any(answer.error or answer.records or answer.diverging for answer in answers):
                break
            await CLOCK.sleep(POLL_S)
        return FetchAnswer(request.correlation_id, answers)

    def _fetched(self, wanted: FetchPartition) -> Fetched:
        log = self.world.log(wanted.name)
        if log is None:
            return Fetched(wanted.name, UnknownTopicOrPartition("not here"), -1, -1, b"")
        if log.leader != self.broker or wanted.leader_epoch != log.epoch:
            leader = LeaderHint(log.leader, f"broker{log.leader}", 1, log.epoch)
            return Fetched(wanted.name, NotLeaderOrFollower("not here", leader=leader), -1, -1, b"")
        topic_id = TopicId(self.world.topics[wanted.name.topic][0])
        end = log.epoch_end(wanted.last_epoch)
        kept = LogPosition(wanted.offset, wanted.topic_id, wanted.last_epoch)
        match compare(kept, topic_id, end):
            case Match.ANOTHER_TOPIC:
                return Fetched(wanted.name, UnknownTopicId(f"this is {topic_id}"), -1, -1, b"")
            case Match.CUT:
                return Fetched(wanted.name, None, log.high_watermark, log.start, b"", diverging=end)
        return log.fetch(wanted)._replace(topic_id=topic_id)

    def _check(self) -> None:
        if self.broken.is_set():
            raise OutcomeUnknown(f"broker {self.broker} is gone")

    async def finish(self) -> None:
        self.close()

    def close(self) -> None:
        self.broken.set()
