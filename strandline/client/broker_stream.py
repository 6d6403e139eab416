"""Streams to one broker: with many requests in flight for throughput, or with one call after another."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from strandline.client.cluster import Cluster
from strandline.client.retry import Tries
from strandline.config.client import ClientSettings
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock, Method, Stream
from strandline.tasks import until_failure

logger = logging.getLogger(__name__)

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
T = TypeVar("T")

ANSWER_GRACE: Final = 1.25
"""A healthy broker answers within the request timeout; a client gives up after this many of them."""


def answer_limit_s(settings: ClientSettings) -> float:
    """Seconds after which a client gives up a broker that has not answered."""
    return ANSWER_GRACE * settings.request_timeout_ms / 1000


def _no_answer(broker: int, limit_s: float) -> OutcomeUnknown:
    return OutcomeUnknown(f"broker {broker} has not answered for {limit_s:.1f} s")


class BrokerStream(ABC, Generic[RequestT, ResponseT]):
    """Keeps a stream to one broker open while there is work for it, and reopens it when it breaks.

    `run` is its task; `wake` reports that there may be work. A request that stays unanswered for `answer_s`
    seconds breaks the stream. A subclass writes and reads, and handles the requests that were in flight on a
    broken stream.
    """

    def __init__(
        self,
        broker: int,
        method: Method[RequestT, ResponseT],
        *,
        cluster: Cluster,
        settings: ClientSettings,
        clock: Clock,
        answer_s: float,
    ) -> None:
        self._broker = broker
        self._method = method
        self._cluster = cluster
        self._clock = clock
        self._answer_s = answer_s
        self._tries = Tries(settings, clock)
        self._wanted = asyncio.Event()
        self._stream: Stream[RequestT, ResponseT] | None = None
        """The open stream; None while there is none."""

    def wake(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await self._wanted.wait()
            if not self._has_work():
                self._wanted.clear()
                continue
            try:
                stream = await self._cluster.open(self._broker, self._method)
            except BrokerNotAvailable as error:
                self._tries.log(logger, f"no stream to broker {self._broker}", error)
                for name in self._led():
                    self._cluster.doubt(name)
                await self._tries.pause()
                continue
            self._tries.reset()
            await self._exchange(stream)

    async def _exchange(self, stream: Stream[RequestT, ResponseT]) -> None:
        """Write and read until the stream breaks."""
        self._stream = stream
        self._opened()
        try:
            error = await until_failure(
                StrandlineError, self._write(stream), self._read(stream), self._watch()
            )
            logger.info("the stream to broker %d ended: %s", self._broker, error)
            self._lost(error)
        finally:
            self._stream = None
            self._wanted.set()  # for work that arrived and was not written to this stream
            stream.close()

    async def _watch(self) -> None:
        """Raises OutcomeUnknown when the broker leaves a request unanswered for too long."""
        while True:
            await self._clock.sleep(self._answer_s / 5)
            self._check_silence()

    def _check_silence(self) -> float:
        """For how long the oldest request has been unanswered, seconds. Raises OutcomeUnknown if too long."""
        oldest_at = self._oldest_at()
        silent_s = 0.0 if oldest_at is None else self._clock.monotonic() - oldest_at
        if silent_s > self._answer_s:
            raise _no_answer(self._broker, self._answer_s)
        return silent_s

    @abstractmethod
    def _has_work(self) -> bool:
        """True if a stream is needed."""

    @abstractmethod
    def _led(self) -> Iterable[TopicPartition]:
        """The partitions that this broker leads, as far as the client knows."""

    @abstractmethod
    def _opened(self) -> None:
        """A new stream begins: nothing is in flight."""

    @abstractmethod
    async def _write(self, stream: Stream[RequestT, ResponseT]) -> None:
        """Write requests in an endless loop, and wait for `_wanted` when there are none."""

    @abstractmethod
    async def _read(self, stream: Stream[RequestT, ResponseT]) -> None:
        """Read answers in an endless loop."""

    @abstractmethod
    def _oldest_at(self) -> float | None:
        """When the oldest unanswered request was written (monotonic seconds); None if all are answered."""

    @abstractmethod
    def _lost(self, error: StrandlineError) -> None:
        """The stream broke with this error."""


class CallStream(Generic[RequestT, ResponseT]):
    """Calls to one broker at a time, one after the other, over a stream that stays open in between."""

    def __init__(self, cluster: Cluster, method: Method[RequestT, ResponseT], answer_s: float) -> None:
        self._cluster = cluster
        self._method = method
        self._answer_s = answer_s
        self._open: tuple[int, Stream[RequestT, ResponseT]] | None = None

    async def call(self, broker: int, request: RequestT, pick: Callable[[ResponseT], T | None]) -> T:
        """The first result of `pick` that is not None; it is called with each response.

        Opens a stream if none is open to this broker. Raises BrokerNotAvailable, OutcomeUnknown after
        `answer_s` seconds, and the error that broke the stream. An error closes the stream.
        """
        if self._open is None or self._open[0] != broker:
            self.close()
            self._open = broker, await self._cluster.open(broker, self._method)
        stream = self._open[1]
        try:
            async with asyncio.timeout(self._answer_s):
                await stream.write(request)
                while (picked := pick(await stream.read())) is None:
                    pass
                return picked
        except TimeoutError:
            self.close()
            raise _no_answer(broker, self._answer_s) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None
