"""One partition of a coordinators' topic that this broker leads in one leader epoch: runs its core.

It is made when a leadership begins and discarded when that ends; the next leadership, here or elsewhere,
reads the log anew.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from strandline.broker.coordinators.appender import Appender
from strandline.broker.coordinators.kind import Kind
from strandline.broker.coordinators.loading import Loading
from strandline.broker.core.coordinators.effects import Answer, Append, Call, Failed, Instant
from strandline.broker.replicas.leadership import Leadership
from strandline.errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    LeaderHint,
    NotCoordinator,
    NotLeaderOrFollower,
    StrandlineError,
)
from strandline.ports import Clock
from strandline.records import Headers, Record
from strandline.vocabulary.asks import Answered

logger = structlog.get_logger(__name__)

NOT_WRITTEN_AGAIN_S: Final = 1.0
"""Writes that fail within this time after one that was logged are not logged: a log that takes no records
refuses all of them, and they are tried again."""

Own = TypeVar("Own")
"""The effects that only this kind of coordinators has."""
Own_co = TypeVar("Own_co", covariant=True)
Effects = Iterable[Answer[Any] | Append | Failed | Own]


class Core(Protocol[Own_co]):
    """The decisions. Each method but `load` returns effects, to be carried out in their order."""

    def load(self, key: bytes, value: bytes | None, wall_ms: int, headers: Headers = ()) -> None:
        """Replays one record of the log, in the log's order. None is a tombstone; `wall_ms` is the record's
        own time. Raises a StrandlineError, without any change, for a record that no coordinator writes."""

    def loaded(self, now: Instant) -> Effects[Own_co]:
        """The log is read to its end: serve."""

    def unload(self, error: StrandlineError) -> Effects[Own_co]:
        """Another broker leads the partition: all waiting and later calls are answered with `error`."""

    def appended(self, write_id: int, error: StrandlineError | None, now: Instant) -> Effects[Own_co]:
        """The result of an Append, exactly once: None if it is committed."""

    def tick(self, now: Instant) -> Effects[Own_co]:
        """Runs the timers that are due."""

    def next_deadline(self) -> float | None:
        """The monotonic time at which to call `tick`; None: not before the next call."""


class Waiting(Call[Answered]):
    """One call that waits for its answer. One whose caller went away is cancelled: its answer is dropped."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: asyncio.Future[Answered | StrandlineError] = asyncio.get_running_loop().create_future()

    def deliver(self, answer: Answered | StrandlineError) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a partition needs of its broker."""

    clock: Clock
    append_timeout_ms: int
    """How long a record may wait for the high watermark."""
    appends_max: int
    """Writes that wait for the one in flight."""
    hint: Callable[[], LeaderHint | None]
    holds_lease: Callable[[], bool]
    """True if the broker's session is certainly in force."""
    on_storage_failed: Callable[[], None]
    expiry_ms: Callable[[], int]


class CoordinatorPartition(ABC, Generic[Own]):
    """`run` is its task; of the other methods only `_asked` awaits."""

    kind: Kind

    def __init__(self, leadership: Leadership, core: Core[Own], around: Surroundings) -> None:
        self.leadership = leadership
        self.number = leadership.replica.name.partition
        self.active = False
        """True from the end of loading to the end of the leadership."""
        self._core = core
        self._clock = around.clock
        self._around = around
        self._appender = Appender(
            leadership,
            self._clock,
            self._appended,
            timeout_ms=around.append_timeout_ms,
            waiting_max=around.appends_max,
        )
        self._ended = False
        self._log_again_s = 0.0
        self._wake = asyncio.Event()
        self._sleeping_until: float | None = None

    def ended(self) -> bool:
        """True once this broker no longer leads in this epoch."""
        return self._ended

    # --- requests ----------------------------------------------------------------------------

    async def _asked(self, handle: Callable[[Call[Answered]], Effects[Own]]) -> Answered:
        """The core's answer, however long it is held. Raises the core's refusal. `handle` hands the call in.

        This broker may have been replaced without knowing. The log would fence its writes, but a heartbeat
        writes nothing: its member would still believe that it owns partitions that another member has been
        given. And a reader would see older offsets here after newer ones were committed there. So the brokers
        that would lead instead are asked first, unless they have just confirmed that they follow (E1, G1).

        A caller that goes away while it waits leaves a cancelled future behind; the core's later answer to it
        is dropped.
        """
        self.check()
        ask = self.leadership.assured if self._around.holds_lease() else self.leadership.confirmed
        if not await ask():
            raise self._not_coordinator()
        self.check()
        waiting = Waiting[Answered]()
        self._carry_out(handle(waiting))
        answer = await waiting.answer
        if isinstance(answer, StrandlineError):
            raise answer
        return answer

    def check(self) -> None:
        """Raises NotCoordinator, CoordinatorLoading."""
        if self.ended():
            raise self._not_coordinator()
        if not self.active:
            raise CoordinatorLoading(f"the {self.kind.all} of {self.kind.topic}-{self.number} are being read")

    def _not_coordinator(self) -> NotCoordinator:
        return NotCoordinator(
            f"this broker does not coordinate the {self.kind.all} of {self.kind.topic}-{self.number}",
            leader=self._around.hint(),
        )

    def _now(self) -> Instant:
        return Instant(self._clock.monotonic(), self._clock.wall_ms(), self._around.expiry_ms())

    # --- effects -----------------------------------------------------------------------------

    def _carry_out(self, effects: Effects[Own]) -> None:
        for effect in effects:
            match effect:
                case Answer():
                    effect.deliver()
                case Append():
                    self._appender.add(effect)
                case Failed(name, held, error):
                    logger.error(
                        self.kind.lines.failed,
                        partition=self.number,
                        name=name,
                        held=held,
                        reason=repr(error),
                        exc_info=error,
                    )
                case _:
                    self._act(effect)
        deadline = self._core.next_deadline()
        if deadline is not None and (self._sleeping_until is None or deadline < self._sleeping_until):
            self._wake.set()

    @abstractmethod
    def _act(self, effect: Own) -> None:
        """Carries out an effect that only this kind has."""

    def _appended(self, write_id: int, error: StrandlineError | None) -> None:
        if error is not None:
            error = self._as_callers_error(error)
        self._carry_out(self._core.appended(write_id, error, self._now()))

    def _as_callers_error(self, error: StrandlineError) -> StrandlineError:
        """A failed write, as an error that a coordinator's caller can handle."""
        now_s = self._clock.monotonic()
        if now_s >= self._log_again_s:
            self._log_again_s = now_s + NOT_WRITTEN_AGAIN_S
            logger.warning(
                self.kind.lines.not_written,
                partition=str(self.leadership.replica.name),
                reason=error.message,
            )
        if isinstance(error, NotLeaderOrFollower):
            return self._not_coordinator()
        if error.retriable:
            return CoordinatorNotAvailable(f"not written: {error.message}")
        return error

    # --- loading and time --------------------------------------------------------------------

    async def run(self) -> None:
        """Reads the log, then runs the core's timers, until the leadership ends."""
        try:
            await self._load()
        except StrandlineError as error:
            logger.error(self.kind.lines.not_read, partition=self.number, reason=error.message)
            self._around.on_storage_failed()
        while not self.ended():
            self._wake.clear()
            now = self._now()
            deadline = self._core.next_deadline()
            if deadline is not None and deadline <= now.monotonic_s:
                self._carry_out(self._core.tick(now))
                await asyncio.sleep(0)
                continue
            self._sleeping_until = deadline
            try:
                async with asyncio.timeout(None if deadline is None else deadline - now.monotonic_s):
                    await self._wake.wait()
            except TimeoutError:
                continue
            finally:
                self._sleeping_until = None

    async def _load(self) -> None:
        loading = Loading(self.leadership, self, self.kind, self._clock, self.ended, self._wake)
        await loading.run()
        if self.ended():
            return
        self.active = True
        self._carry_out(self._core.loaded(self._now()))
        self._on_loaded()

    def replay(self, record: Record, producer_id: int | None) -> None:
        """As `Loads` says. Most kinds write nothing in transactions."""
        self._core.load(record.key or b"", record.value, record.timestamp, record.headers)

    def transaction_ended(self, producer_id: int, *, commit: bool) -> None:
        """As `Loads` says."""

    def _on_loaded(self) -> None:
        """Makes up for what came while the log was read."""

    def end(self) -> None:
        """The leadership has ended: waiting calls are sent to the next coordinator."""
        if self.ended():
            return
        self._ended = True
        self.active = False
        self._appender.close()
        self._wake.set()
        self._carry_out(self._core.unload(self._not_coordinator()))
