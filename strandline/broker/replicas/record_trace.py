"""Writes a line of the log for each step of chosen records' way through this broker.

The chosen records of a partition are those at offsets 0, N, 2N… An offset is the same record at every broker,
so the leader and its followers choose the same ones: nothing about it is on the wire, and nothing is kept
between two steps. A step is a move of an end (of a log, of the HW, of what a follower has): the chosen
records are those that the end passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from strandline.broker.core.record_steps import EVENT, RecordStep, Step
from strandline.broker.core.replication.produce_ticket import OnProduced, ProduceOutcome
from strandline.errors import StrandlineError
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import Clock

logger = structlog.get_logger(__name__)

MOVE_RECORDS_MAX: Final = 10
"""Records of one move that are traced, the first ones: a follower that catches up passes many at once."""
LINES_PER_S_MAX: Final = 1_000
NONE: Final = range(0)


def chosen(begin: int, end: int, every: int) -> range:
    """The multiples of `every` in begin..end (exclusive), at most the first `MOVE_RECORDS_MAX`."""
    first = begin + -begin % every
    return range(first, min(end, first + MOVE_RECORDS_MAX * every), every) if first < end else NONE


class RecordTraces:
    """Of one broker. Without `every` there are none."""

    def __init__(self, broker: BrokerId, every: int, clock: Clock) -> None:
        self.broker = broker
        self.every = every
        self.clock = clock
        self._second = 0
        self._lines = 0

    def of(self, name: TopicPartition, epoch: Callable[[], int]) -> RecordTrace | None:
        """For a replica of this partition; `epoch`: the leader epoch that it knows."""
        return RecordTrace(self, name, epoch) if self.every else None

    def write(self, step: RecordStep) -> None:
        """Write its line, unless this second has too many already."""
        if (second := int(self.clock.monotonic())) != self._second:
            self._second, lost, self._lines = second, max(0, self._lines - LINES_PER_S_MAX), 0
            if lost:
                logger.warning("steps of records were left out", count=lost, a_second=LINES_PER_S_MAX)
        self._lines += 1
        if self._lines <= LINES_PER_S_MAX:
            logger.info(EVENT, **step.fields())


class RecordTrace:
    """Of one replica."""

    __slots__ = ("_epoch", "_name", "_traces")

    def __init__(self, traces: RecordTraces, name: TopicPartition, epoch: Callable[[], int]) -> None:
        self._traces = traces
        self._name = name
        self._epoch = epoch

    def now(self) -> float:
        """A time for `produced`."""
        return self._traces.clock.monotonic()

    def passed(self, step: Step, begin: int, end: int, *, follower: BrokerId | None = None) -> None:
        """The records begin..end take this step now."""
        for offset in chosen(begin, end, self._traces.every):
            self._traces.write(self._step(step, offset, follower=follower))

    def produced(self, begin: int, end: int, received: float, acks: int, done: OnProduced) -> OnProduced:
        """The records begin..end were received and are appended. Returns `done`, for their outcome."""
        offsets = chosen(begin, end, self._traces.every)
        for offset in offsets:
            earlier_us = round((self.now() - received) * 1e6)
            self._traces.write(self._step(Step.RECEIVED, offset, acks=acks, earlier_us=earlier_us))
            self._traces.write(self._step(Step.APPENDED, offset))
        if not offsets:
            return done

        def answered(outcome: ProduceOutcome) -> None:
            error = outcome.message if isinstance(outcome, StrandlineError) else None
            for offset in offsets:
                self._traces.write(self._step(Step.ANSWERED, offset, error=error))
            done(outcome)

        return answered

    def _step(
        self,
        step: Step,
        offset: int,
        *,
        follower: BrokerId | None = None,
        acks: int | None = None,
        error: str | None = None,
        earlier_us: int | None = None,
    ) -> RecordStep:
        traces, name = self._traces, self._name
        return RecordStep(
            step,
            name.topic,
            name.partition,
            offset,
            traces.broker,
            self._epoch(),
            follower,
            acks,
            error,
            earlier_us,
        )
