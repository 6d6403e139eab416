"""Reads one range of offsets at a time, exactly: from its first offset to its last, each record once.

It stands over the same reader as a consumer, which outlives changes of leaders and deaths of brokers. What
it adds is an end, and the certainty that all of it is of one topic: a topic that is deleted and created
again under its name goes on at any offset as if nothing had happened. Leader epochs grow over the whole
cluster, so a batch of an epoch that was known when the topic's id was looked at is of that topic; for a
later one the id is looked at again, by who knows of that epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from strandline.client.backoff import backoff_s
from strandline.client.client import Client
from strandline.client.cluster import TOPIC_WAIT_MS
from strandline.client.messages import LATEST
from strandline.client.offsets import list_offsets
from strandline.client.retry import Tries
from strandline.config import MIB, ConsumerSettings, load
from strandline.consumer.reader import Reader
from strandline.consumer.records import FetchedBatch
from strandline.consumer.wakeups import News
from strandline.errors import OffsetOutOfRange, StrandlineError
from strandline.ids import NO_EPOCH
from strandline.pipeline.core import ranges
from strandline.pipeline.core.ranges import DataLoss, OffsetRange
from strandline.pipeline.errors import DataLost, ReadStalled
from strandline.pipeline.reading.cluster_facts import describe
from strandline.ports import Clock, Transport

logger = logging.getLogger(__name__)

BUFFER_BYTES: Final = 16 * MIB
"""What is fetched ahead of who decodes it."""
CHUNK_BYTES: Final = 4 * MIB
"""What is handed out at once if it comes in time: what Spark is given in one piece costs a fixed time."""
GATHER_S_MAX: Final = 0.2
"""How long what is there waits for more."""
LOOK_S: Final = 1.0
"""How long nothing may come before it is looked at why."""
ASK_S: Final = 1.0
"""How long a leader is asked where its log begins and ends, before that is given up for this time."""


class RangeReader(Client[ConsumerSettings]):
    """One client, for one range after the other."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = load(ConsumerSettings, offset_reset="none", buffer_bytes=BUFFER_BYTES)
        super().__init__("range reader", bootstrap, settings, transport, clock)
        self._news = News(self._clock)
        self._reader = Reader(
            cluster=self._cluster,
            scope=self._scope,
            news=self._news,
            committed=None,
            settings=self._settings,
            clock=self._clock,
        )
        self._reading: _Reading | None = None

    async def start(self) -> None:
        await super().start()
        self._reader.start()

    def _failed(self, error: BaseException) -> None:
        super()._failed(error)
        self._news.arrived()

    # --- one range ---------------------------------------------------------------------------

    async def begin(self, wanted: OffsetRange, *, timeout_s: float, fail_on_data_loss: bool) -> None:
        """Read this range from now on, and no other.

        `timeout_s` is how long nothing may come of it. Raises DataLost if its topic is not that any more.
        """
        self.end()
        self._scope.check()
        reading = _Reading(wanted, timeout_s, fail_on_data_loss, self._clock.monotonic())
        self._reading = reading
        await self._check_topic(reading)
        if not reading.over:
            self._reader.add([wanted.name])
            self._reader.seek(wanted.name, reading.at)

    async def next(self, bytes_max: int = CHUNK_BYTES) -> list[FetchedBatch]:
        """The batches that come next, about `bytes_max` at a time; none at the end of the range.

        The last one may reach beyond the end: who decodes it has to stop there. Raises DataLost, and
        ReadStalled if nothing came for too long; without `fail_on_data_loss` what is lost is left out, with a
        warning.
        """
        reading = self._reading
        if reading is None:
            return []
        chunk: list[FetchedBatch] = []
        size = 0
        while not reading.over and size < min(bytes_max, CHUNK_BYTES):
            self._scope.check()
            batch = self._take(reading)
            if batch is not None:
                chunk.append(batch)
                size += batch.size
                continue
            patience_s = GATHER_S_MAX if chunk else min(LOOK_S, reading.timeout_s / 4)
            if not await self._news.wait(self._clock.monotonic() + patience_s):
                if chunk:
                    break
                await self._look(reading)
            elif not chunk:
                await self._heed(reading)
        chunk = await self._of_this_topic(reading, chunk)
        if reading.over and not chunk:
            self.end()
        return chunk

    def end(self) -> None:
        """Read no more of the range."""
        if self._reading is not None:
            self._reader.drop([self._reading.wanted.name])
            self._reading = None

    def _take(self, reading: _Reading) -> FetchedBatch | None:
        """The next batch that has come. There is room for others then."""
        positions = self._reader.positions
        state = positions.find(reading.wanted.name)
        if state is None or not state.buffered:
            return None
        batch = positions.take(state, state.buffered[0].size)
        state.processed = state.position = batch.next_offset
        reading.at = batch.next_offset
        reading.came_at = self._clock.monotonic()
        reading.refusals = 0
        if reading.over:
            self._reader.drop([state.name])
        else:
            self._reader.wake(state.broker)
        return batch

    # --- what may be wrong -------------------------------------------------------------------

    async def _heed(self, reading: _Reading) -> None:
        """There is news: of batches, or of why there are none."""
        error = self._news.error(reading.wanted.name)
        if isinstance(error, OffsetOutOfRange):
            self._news.forget(reading.wanted.name)
            await self._look(reading)
            reading.refusals += 1
            if not reading.over:
                await self._clock.sleep(backoff_s(self._settings, reading.refusals))
                self._reader.seek(reading.wanted.name, reading.at)
        elif error is not None and not error.retriable:
            raise error

    async def _look(self, reading: _Reading) -> None:
        """Nothing comes: is it lost, or late?"""
        await self._check_topic(reading)
        if reading.over:
            return
        name, at, end = reading.wanted.name, reading.at, reading.wanted.end
        found = await list_offsets(
            self._cluster, {name: LATEST}, self._settings, self._clock, timeout_s=ASK_S
        )
        listed = found[name]
        if isinstance(listed, StrandlineError):
            self._check_patience(reading, listed.message)
        elif at < listed.log_start_offset:
            self._lose(reading, ranges.begun_later(name, at, listed.log_start_offset, end))
            if not reading.over:
                self._reader.seek(name, reading.at)
        elif at < listed.high_watermark:
            self._check_patience(reading, "its leader has it, and does not send it")
        elif self._waited_s(reading) >= reading.timeout_s:
            # A change of leader hides what is committed for a moment (KIP-207), but never for so long.
            self._lose(reading, ranges.ended_earlier(name, at, end, listed.high_watermark))

    async def _of_this_topic(self, reading: _Reading, chunk: list[FetchedBatch]) -> list[FetchedBatch]:
        """The batches that are, which are all of them but for a topic that was just created again."""
        later = [batch for batch in chunk if batch.header.leader_epoch > reading.epoch]
        if later:
            epoch = max(batch.header.leader_epoch for batch in later)
            if not await self._check_topic(reading, epoch, at=later[0].base_offset):
                return [batch for batch in chunk if batch.header.leader_epoch <= reading.epoch]
        return chunk

    async def _check_topic(self, reading: _Reading, epoch: int = NO_EPOCH, *, at: int | None = None) -> bool:
        """Is the range of the topic that has its name now, as who knows of this leader epoch says?

        If not, what was to be read from `at` on is lost.
        """
        name, wanted, at = reading.wanted.name, reading.wanted, reading.at if at is None else at
        missed_at: float | None = None
        tries = Tries(self._settings, self._clock)
        while True:
            try:
                topic = (await describe(self._cluster, [wanted.topic])).get(wanted.topic)
            except StrandlineError as error:
                if not error.retriable:
                    raise
                self._check_patience(reading, error.message)
            else:
                if topic is None or wanted.partition >= len(topic.partitions):
                    now = self._clock.monotonic()
                    missed_at = now if missed_at is None else missed_at
                    if now - missed_at >= min(TOPIC_WAIT_MS / 1000, reading.timeout_s):
                        self._lose(reading, ranges.deleted(name, at))
                        return False
                elif wanted.topic_id not in ("", topic.topic_id):
                    self._lose(reading, ranges.created_again(name, at, wanted.topic_id, topic.topic_id))
                    return False
                elif (known := topic.partitions[wanted.partition].leader_epoch) >= epoch:
                    reading.epoch = max(reading.epoch, known)
                    return True
                else:
                    self._check_patience(reading, f"nobody knows of leader epoch {epoch} of {name}")
            await tries.pause()

    def _waited_s(self, reading: _Reading) -> float:
        return self._clock.monotonic() - reading.came_at

    def _check_patience(self, reading: _Reading, why: str) -> None:
        waited_s = self._waited_s(reading)
        if waited_s >= reading.timeout_s:
            raise ReadStalled(
                f"{reading.wanted}: nothing came from offset {reading.at} on for {waited_s:.1f} s "
                f"(pollTimeoutMs = {reading.timeout_s * 1000:.0f}): {why}"
            )

    def _lose(self, reading: _Reading, loss: DataLoss) -> None:
        """Raises DataLost if that is to be an error, else goes on behind what is lost."""
        lose(loss, fail=reading.fail_on_data_loss)
        reading.at = reading.wanted.end if loss.end is None else loss.end
        reading.came_at = self._clock.monotonic()
        if reading.over:
            self._reader.drop([reading.wanted.name])


class _Reading:
    """How far a range has been read."""

    def __init__(
        self, wanted: OffsetRange, timeout_s: float, fail_on_data_loss: bool, began_at: float
    ) -> None:
        self.wanted = wanted
        self.timeout_s = timeout_s
        self.fail_on_data_loss = fail_on_data_loss
        self.at = wanted.start
        self.came_at = began_at
        """When something last came (monotonic seconds)."""
        self.epoch: int = NO_EPOCH
        """Batches of leader epochs until this one are of the topic wanted."""
        self.refusals = 0

    @property
    def over(self) -> bool:
        return self.at >= self.wanted.end


def lose(loss: DataLoss, *, fail: bool) -> None:
    """Raises DataLost, or warns."""
    if fail:
        raise DataLost(f"{loss}. failOnDataLoss=false goes on with what there is")
    logger.warning("%s; going on with what there is, as failOnDataLoss is false", loss)
