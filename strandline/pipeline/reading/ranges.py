"""Reads one range of offsets at a time, exactly: from its first offset to its last, each record once.

The reader of partitions survives changes of leaders and deaths of brokers. This adds an end, and the
certainty that all records belong to one topic: a topic that is deleted and created again under
its name would otherwise be read on unnoticed. Leader epochs grow over the whole cluster, so a batch with an
epoch that was known when the topic's id was read belongs to that topic; for a later epoch the id is read
again, from a broker that knows that epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from strandline.adapters.system_host import client_host
from strandline.client.backoff import backoff_s
from strandline.client.cluster import TOPIC_WAIT_MS
from strandline.client.reading.client import ReadingClient
from strandline.client.reading.records import FetchedBatch
from strandline.client.retry import Tries
from strandline.config.consumer import ConsumerSettings
from strandline.config.limits import MIB
from strandline.config.load import load
from strandline.errors import OffsetOutOfRange, StrandlineError
from strandline.host import Host
from strandline.ids import NO_EPOCH, TopicId
from strandline.pipeline.core import ranges
from strandline.pipeline.core.ranges import DataLoss, OffsetRange
from strandline.pipeline.errors import DataLost, ReadStalled
from strandline.pipeline.reading.cluster_facts import describe
from strandline.vocabulary.log import LATEST
from strandline.vocabulary.log_position import same_topic

logger = logging.getLogger(__name__)

BUFFER_BYTES: Final = 16 * MIB
"""The fetched data that may wait to be decoded."""
CHUNK_BYTES: Final = 4 * MIB
"""The most that is returned at once: each piece costs Spark a fixed time."""
GATHER_S_MAX: Final = 0.2
"""How long arrived batches wait for more."""
LOOK_S: Final = 1.0
"""How long nothing may arrive before the reason is looked up."""
ASK_S: Final = 1.0
"""How long a leader may take to report where its log begins and ends; then this attempt is given up."""


class RangeReader(ReadingClient):
    """One client, for one range after the other."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        host: Host | None = None,
        **connecting: Any,
    ) -> None:
        """`connecting`: settings of its connections, and the isolation level."""
        settings = load(ConsumerSettings, offset_reset="none", buffer_bytes=BUFFER_BYTES, **connecting)
        host = client_host(settings, host)
        super().__init__(
            "range reader", bootstrap, settings, host.transport(None), host.clock, follows_topics=False
        )
        self._reading: _Reading | None = None

    # --- one range ---------------------------------------------------------------------------

    async def begin(self, wanted: OffsetRange, *, timeout_s: float, fail_on_data_loss: bool) -> None:
        """Read this range from now on, and no other.

        `timeout_s`: how long nothing may arrive. Raises DataLost if its topic was replaced.
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
        """The next batches, about `bytes_max` at a time; none at the end of the range.

        The last one may reach beyond the end: the decoder must stop there. Raises DataLost, and ReadStalled
        if nothing arrives for too long; without `fail_on_data_loss` lost offsets are skipped, with a warning.
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
                if batch.record_count:
                    chunk.append(batch)
                    size += batch.size
                continue
            wait_s = GATHER_S_MAX if chunk else min(LOOK_S, reading.timeout_s / 4)
            if not await self._wakeups.wait(self._clock.monotonic() + wait_s):
                if chunk:
                    break
                await self._look(reading)
            elif not chunk:
                await self._handle_event(reading)
        chunk = await self._of_this_topic(reading, chunk)
        if reading.over and not chunk:
            self.end()
        return chunk

    def end(self) -> None:
        """Stop reading the range."""
        if self._reading is not None:
            self._reader.drop([self._reading.wanted.name])
            self._reading = None

    def _take(self, reading: _Reading) -> FetchedBatch | None:
        """The next arrived batch, which makes room for others."""
        batch = self._reader.take(reading.wanted.name)
        if batch is None:
            return None
        reading.at = batch.next_offset
        reading.arrived_at = self._clock.monotonic()
        reading.refusals = 0
        if reading.over:
            self._reader.drop([reading.wanted.name])
        return batch

    # --- problems ----------------------------------------------------------------------------

    async def _handle_event(self, reading: _Reading) -> None:
        """Handle an event: batches arrived, or an error explains why there are none."""
        error = self._wakeups.error(reading.wanted.name)
        if isinstance(error, OffsetOutOfRange):
            self._wakeups.forget(reading.wanted.name)
            await self._look(reading)
            reading.refusals += 1
            if not reading.over:
                await self._clock.sleep(backoff_s(self._settings, reading.refusals))
                self._reader.seek(reading.wanted.name, reading.at)
        elif error is not None and not error.retriable:
            raise error

    async def _look(self, reading: _Reading) -> None:
        """Nothing arrives: find out whether it is lost or late."""
        await self._check_topic(reading)
        if reading.over:
            return
        name, at, end = reading.wanted.name, reading.at, reading.wanted.end
        try:
            listed = (await self._reader.finder.list({name: LATEST}, ASK_S))[name]
        except StrandlineError as error:
            self._check_timeout(reading, error.message)
            return
        if at < listed.log_start_offset:
            self._lose(reading, ranges.begun_later(name, at, listed.log_start_offset, end))
            if not reading.over:
                self._reader.seek(name, reading.at)
        elif at < listed.offset:
            self._check_timeout(reading, "its leader has it, and does not send it")
        elif self._waited_s(reading) >= reading.timeout_s:
            # A change of leader hides committed records for a moment (KIP-207), but never for this long.
            self._lose(reading, ranges.ended_earlier(name, at, end, listed.offset))

    async def _of_this_topic(self, reading: _Reading, chunk: list[FetchedBatch]) -> list[FetchedBatch]:
        """The batches that belong to the topic: all of them, unless the topic was just created again."""
        later = [batch for batch in chunk if batch.header.leader_epoch > reading.epoch]
        if later:
            epoch = max(batch.header.leader_epoch for batch in later)
            if not await self._check_topic(reading, epoch, at=later[0].base_offset):
                return [batch for batch in chunk if batch.header.leader_epoch <= reading.epoch]
        return chunk

    async def _check_topic(self, reading: _Reading, epoch: int = NO_EPOCH, *, at: int | None = None) -> bool:
        """Whether the topic of the range still has its name, by a broker that knows this leader epoch, and
        that of the plan.

        If not, the rest from `at` on is lost.
        """
        name, wanted, at = reading.wanted.name, reading.wanted, reading.at if at is None else at
        epoch = max(epoch, wanted.leader_epoch)
        missed_at: float | None = None
        tries = Tries(self._settings, self._clock)
        while True:
            try:
                topic = (await describe(self._cluster, [wanted.topic])).get(wanted.topic)
            except StrandlineError as error:
                if not error.retriable:
                    raise
                self._check_timeout(reading, error.message)
            else:
                if topic is None or wanted.partition >= len(topic.partitions):
                    now = self._clock.monotonic()
                    missed_at = now if missed_at is None else missed_at
                    if now - missed_at >= min(TOPIC_WAIT_MS / 1000, reading.timeout_s):
                        self._lose(reading, ranges.deleted(name, at))
                        return False
                elif (known := topic.partitions[wanted.partition].leader_epoch) < epoch:
                    self._check_timeout(reading, f"no broker knows leader epoch {epoch} of {name}")
                elif not same_topic(TopicId(wanted.topic_id), topic.topic_id):
                    self._lose(reading, ranges.created_again(name, at, wanted.topic_id, topic.topic_id))
                    return False
                else:
                    reading.epoch = max(reading.epoch, known)
                    return True
            await tries.pause()

    def _waited_s(self, reading: _Reading) -> float:
        return self._clock.monotonic() - reading.arrived_at

    def _check_timeout(self, reading: _Reading, why: str) -> None:
        waited_s = self._waited_s(reading)
        if waited_s >= reading.timeout_s:
            raise ReadStalled(
                f"{reading.wanted}: nothing came from offset {reading.at} on for {waited_s:.1f} s "
                f"(pollTimeoutMs = {reading.timeout_s * 1000:.0f}): {why}"
            )

    def _lose(self, reading: _Reading, loss: DataLoss) -> None:
        """Raises DataLost if that is to be an error, else continues after the lost offsets."""
        lose(loss, fail=reading.fail_on_data_loss)
        reading.at = reading.wanted.end if loss.end is None else loss.end
        reading.arrived_at = self._clock.monotonic()
        if reading.over:
            self._reader.drop([reading.wanted.name])


class _Reading:
    """The progress in a range."""

    def __init__(
        self, wanted: OffsetRange, timeout_s: float, fail_on_data_loss: bool, began_at: float
    ) -> None:
        self.wanted = wanted
        self.timeout_s = timeout_s
        self.fail_on_data_loss = fail_on_data_loss
        self.at = wanted.start
        self.arrived_at = began_at
        """When something last arrived (monotonic seconds)."""
        self.epoch: int = NO_EPOCH
        """Batches with leader epochs up to this one belong to the wanted topic."""
        self.refusals = 0

    @property
    def over(self) -> bool:
        return self.at >= self.wanted.end


def lose(loss: DataLoss, *, fail: bool) -> None:
    """Raises DataLost, or warns."""
    if fail:
        raise DataLost(f"{loss}. failOnDataLoss=false goes on with what there is")
    logger.warning("%s; going on with what there is, as failOnDataLoss is false", loss)
