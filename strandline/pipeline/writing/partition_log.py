"""A partition's log for the exactly-once writer: appends, reads and ends, over changes of its leader."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from strandline.adapters.codecs.log import FETCH, LIST_OFFSETS, PRODUCE, answer_to, result_of
from strandline.client.broker_stream import CallStream, answer_limit_s
from strandline.client.cluster import TOPIC_WAIT_MS, Cluster, Leader
from strandline.client.retry import retry
from strandline.config.client import ClientSettings
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import (
    LeaderNotAvailable,
    OffsetNotAvailable,
    OffsetOutOfRange,
    StrandlineError,
    UnknownLeaderEpoch,
    UnknownTopicId,
)
from strandline.ids import ACKS_ALL, TopicId, TopicPartition
from strandline.pipeline.writing.exactly_once import Acked, LogEnd
from strandline.ports import Clock
from strandline.records import iterate
from strandline.vocabulary.log import (
    LATEST,
    Fetched,
    FetchPartition,
    FetchRequest,
    ListedOffset,
    OffsetQuery,
    ProduceEntry,
)

FETCH_WAIT_MS: Final = 500

T = TypeVar("T")


class ClusterPartitionLog:
    """A `PartitionLog` on brokers, of the topic with this id. Each request is retried for `delivery_s`, over
    changes of leader."""

    def __init__(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        cluster: Cluster,
        settings: ClientSettings,
        clock: Clock,
        *,
        delivery_s: float,
    ) -> None:
        self._name = name
        self._topic_id = topic_id
        self._foreign_since: float | None = None
        """When a leader first had another topic of the name."""
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._delivery_s = delivery_s
        answer_s = answer_limit_s(settings)
        self._produce = CallStream(cluster, PRODUCE, answer_s)
        self._fetch = CallStream(cluster, FETCH, answer_s + FETCH_WAIT_MS / 1000)
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self._produce.close()
        self._fetch.close()

    # --- appending -----------------------------------------------------------------------------

    async def append(self, records: bytes) -> Acked:
        async def send() -> Acked:
            leader = await self._cluster.led_by(self._name)
            number = next(self._numbers)
            timeout_ms = self._settings.request_timeout_ms
            entry = ProduceEntry(self._name, records, ACKS_ALL, timeout_ms, number, topic_id=self._topic_id)
            result = await self._produce.call(leader.broker, [entry], partial(result_of, number))
            if result.error is not None:
                raise result.error
            return Acked(result.base_offset, result.appended)

        return await self._retried("write to", send)

    async def _retried(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry for `delivery_s`. Raises a permanent refusal, and at the end the last error."""

        def follow(error: StrandlineError) -> None:
            if not isinstance(error, OffsetNotAvailable | UnknownLeaderEpoch):
                self._cluster.follow(self._name, error)

        try:
            return await retry(
                attempt,
                f"{self._name} waits",
                settings=self._settings,
                clock=self._clock,
                limit_s=self._delivery_s,
                retriable=self._may_pass,
                on_retry=follow,
            )
        except UnknownTopicId as error:
            raise UnknownTopicId(
                f"{self._name} is not the topic that this batch is written to: {error.message}. What was "
                "written is gone with that topic: run the whole batch again, all of it goes to the new one"
            ) from error
        except StrandlineError as error:
            if not error.retriable:
                raise
            raise type(error)(
                f"could not {what} {self._name} in {self._delivery_s:.0f} s: {error.message}"
            ) from error

    def _may_pass(self, error: StrandlineError) -> bool:
        """Whether another try may succeed. A broker learns of a new topic after a moment."""
        if not isinstance(error, UnknownTopicId):
            return error.retriable
        now = self._clock.monotonic()
        if self._foreign_since is None:
            self._foreign_since = now
        return now - self._foreign_since < TOPIC_WAIT_MS / 1000

    # --- reading -------------------------------------------------------------------------------

    async def end(self) -> LogEnd:
        wanted: ListedOffset | None = None

        async def settled() -> LogEnd:
            nonlocal wanted
            listed = await self._listed()
            if wanted is None or listed.leader_epoch != wanted.leader_epoch:
                wanted = listed
            if listed.high_watermark < wanted.log_end_offset:
                raise OffsetNotAvailable(
                    f"{self._name} is committed up to {listed.high_watermark} of {wanted.log_end_offset}"
                )
            return LogEnd(listed.log_start_offset, wanted.log_end_offset, listed.leader_epoch)

        return await self._retried("see the end of", settled)

    async def _listed(self) -> ListedOffset:
        leader = await self._cluster.led_by(self._name)
        for answer in await self._cluster.call(
            leader.broker, LIST_OFFSETS, [OffsetQuery(self._name, LATEST)]
        ):
            if answer.name == self._name:
                if answer.error is not None:
                    raise answer.error
                return answer
        raise LeaderNotAvailable(f"broker {leader.broker} said nothing about {self._name}")

    async def batch_at(self, offset: int) -> bytes:
        return (await self._fetched(offset, 1))[0]

    async def read(self, start: int, end: int) -> AsyncIterator[bytes]:
        position = start
        while position < end:
            records, log_start = await self._fetched(position, RECORDS_BYTES_MAX)
            if not records:
                position = log_start
                continue
            yield records
            for header in iterate(records):
                position = header.next_offset

    async def _fetched(self, offset: int, bytes_max: int) -> tuple[bytes, int]:
        """Batches from a committed offset on, at most this size or one batch; none if the log starts after
        it. Also returns the start of the log."""

        async def fetch() -> tuple[bytes, int]:
            leader = await self._cluster.led_by(self._name)
            answer = await self._ask(leader, offset, bytes_max)
            if isinstance(answer.error, OffsetOutOfRange):
                listed = await self._listed()
                if offset < listed.log_start_offset:
                    return b"", listed.log_start_offset
                raise OffsetNotAvailable(f"{self._name} ends before {offset}: {answer.error.message}")
            if answer.error is not None:
                raise answer.error
            if not answer.records:
                raise OffsetNotAvailable(f"{self._name} has nothing committed at {offset} yet")
            return answer.records, answer.log_start_offset

        return await self._retried("read from", fetch)

    async def _ask(self, leader: Leader, offset: int, bytes_max: int) -> Fetched:
        number = next(self._numbers)
        wanted = FetchPartition(self._name, offset, leader.epoch, bytes_max)
        request = FetchRequest(number, FETCH_WAIT_MS, 1, RECORDS_BYTES_MAX, [wanted])
        response = await self._fetch.call(leader.broker, request, partial(answer_to, number))
        for answer in response.partitions:
            if answer.name == self._name:
                return answer
        raise OffsetNotAvailable(f"broker {leader.broker} said nothing about {self._name}")
