"""Fetches the assigned partitions that one broker leads, over one stream at a time.

The next fetch is sent as soon as an answer arrives, before the owner of the reader has its records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from strandline.adapters.codecs.log import FETCH
from strandline.client.broker_stream import BrokerStream
from strandline.client.cluster import Cluster
from strandline.client.core.effects import Effect
from strandline.client.core.positions import Positions
from strandline.client.metrics import Window
from strandline.config.consumer import ConsumerSettings
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock, Stream
from strandline.vocabulary.log import FetchAnswer, FetchRequest

FETCHES_IN_FLIGHT_MAX: Final = 4
"""One may be a long poll for partitions at their ends; the others are for partitions added meanwhile."""


class FetchMeasures:
    """What the fetchers of one reader measure."""

    __slots__ = ("bytes", "ms")

    def __init__(self, clock: Clock) -> None:
        self.bytes = Window(clock)
        """Bytes of each answer to a fetch."""
        self.ms = Window(clock)
        """Times of fetches."""


class Fetcher(BrokerStream[FetchRequest, FetchAnswer]):
    """Fetches the assigned partitions that one broker leads."""

    def __init__(
        self,
        broker: int,
        *,
        cluster: Cluster,
        positions: Positions[Any],
        carry_out: Callable[[list[Effect]], None],
        measures: FetchMeasures,
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        super().__init__(
            broker,
            FETCH,
            cluster=cluster,
            settings=settings,
            clock=clock,
            answer_s=(settings.fetch_wait_ms + settings.request_timeout_ms) / 1000,
        )
        self._positions = positions
        self._carry_out = carry_out
        self._measures = measures
        self._settings = settings
        self._unanswered: dict[int, float] = {}
        """When each fetch in flight was written (monotonic seconds), the oldest first."""

    def _has_work(self) -> bool:
        return any(state.broker == self._broker for state in self._positions)

    def _led(self) -> list[TopicPartition]:
        return [state.name for state in self._positions if state.broker == self._broker]

    def _opened(self) -> None:
        self._unanswered = {}

    def _lost(self, error: StrandlineError) -> None:
        self._carry_out(self._positions.lost(self._broker, error))

    def _oldest_at(self) -> float | None:
        return next(iter(self._unanswered.values()), None)

    async def _write(self, stream: Stream[FetchRequest, FetchAnswer]) -> None:
        settings = self._settings
        while True:
            self._wanted.clear()
            while len(self._unanswered) < FETCHES_IN_FLIGHT_MAX:
                plan = self._positions.plan(self._broker)
                if plan is None:
                    break
                self._unanswered[plan.number] = self._clock.monotonic()
                await stream.write(
                    FetchRequest(
                        plan.number,
                        settings.fetch_wait_ms,
                        settings.fetch_min_bytes,
                        settings.fetch_bytes,
                        plan.wanted,
                    )
                )
            await self._wanted.wait()

    async def _read(self, stream: Stream[FetchRequest, FetchAnswer]) -> None:
        while True:
            answer = await stream.read()
            took_s = self._clock.monotonic() - self._unanswered.pop(answer.correlation_id)
            self._measures.ms.add(took_s * 1000)
            self._measures.bytes.add(sum(len(each.records) for each in answer.partitions))
            self._carry_out(self._positions.answered(answer.correlation_id, answer.partitions))
            self._wanted.set()
