"""One partition of `__consumer_offsets` that this broker leads in one leader epoch: runs its groups.

Carries out the decisions of the `Coordinator` of `broker/core/groups`. It is made when a leadership begins
and discarded when that ends; the next leadership, here or elsewhere, reads the log anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Final

import structlog

from strandline.broker.core.coordinators.effects import Answer, Append, Call, Instant
from strandline.broker.core.groups.coordinator import Coordinator, GroupOffsets
from strandline.broker.core.groups.effects import Effect, Failed, GroupEvent, Publish
from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.groups.appender import Appender
from strandline.broker.replicas.leadership import STORAGE_RETRY_S, Leadership
from strandline.config.limits import KIB
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    CorruptMessage,
    LeaderHint,
    NotCoordinator,
    NotLeaderOrFollower,
    StorageBusy,
    StrandlineError,
    UnsupportedCompression,
)
from strandline.ids import OFFSETS_TOPIC
from strandline.ports import Clock
from strandline.records import BatchHeader, Record, decode_batch, iterate
from strandline.security.principal import Principal
from strandline.vocabulary.asks import Answered, Asks

logger = structlog.get_logger(__name__)

LOAD_BYTES_AT_ONCE: Final = 64 * KIB
LOAD_RECORDS_AT_ONCE: Final = 500
"""After this many records other work of the broker has its turn."""
LOADING_NOTICE_S: Final = 3.0
"""A wait for in-sync replicas that lasts longer is logged, and again each LOADING_NOTICE_AGAIN_S."""
LOADING_NOTICE_AGAIN_S: Final = 60.0
UNREADABLE_LOGGED_MAX: Final = 20
"""Log lines about unreadable records in one load; the line at its end has their number."""


class Waiting(Call[Answered]):
    """One call that waits for its answer. One whose caller went away is cancelled: its answer is dropped."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: asyncio.Future[Answered | StrandlineError] = asyncio.get_running_loop().create_future()

    def deliver(self, answer: Answered | StrandlineError) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


@dataclass(slots=True)
class _Loaded:
    records: int = 0
    unreadable: int = 0


class CoordinatorPartition:
    """`run` is its task; of the other methods only `ask` awaits."""

    def __init__(
        self,
        leadership: Leadership,
        core: Coordinator,
        *,
        settings: BrokerSettings,
        clock: Clock,
        publish: Callable[[GroupEvent], None],
        hint: Callable[[], LeaderHint | None],
        holds_lease: Callable[[], bool],
        on_storage_failed: Callable[[], None],
        expiry_ms: Callable[[], int],
    ) -> None:
        self.leadership = leadership
        self.number = leadership.replica.name.partition
        self.active = False
        """True from the end of loading to the end of the leadership."""
        self._core = core
        self._clock = clock
        self._publish = publish
        self._hint = hint
        self._holds_lease = holds_lease
        self._on_storage_failed = on_storage_failed
        self._expiry_ms = expiry_ms
        self._appender = Appender(leadership, settings, clock, self._appended)
        self._gone_meanwhile: set[str] = set()
        """Topics that were deleted while the groups were being read."""
        self.followed: Set[str] | None = None
        """The incarnations with which its offsets were last compared."""
        self._ended = False
        self._wake = asyncio.Event()
        self._sleeping_until: float | None = None

    def ended(self) -> bool:
        """True once this broker no longer leads in this epoch."""
        return self._ended

    # --- requests ----------------------------------------------------------------------------

    async def ask(self, request: Asks[Answered], by: Principal | None = None) -> Answered:
        """The core's answer, however long it is held. Raises the core's refusal. `by`: as for the core.

        This broker may have been replaced without knowing. The log would fence its writes, but a heartbeat
        writes nothing: its member would still believe that it owns partitions that another member has been
        given. And a reader would see older offsets here after newer ones were committed there. So the brokers
        that would lead instead are asked first, unless they have just confirmed that they follow (E1, G1).

        A caller that goes away while it waits leaves a cancelled future behind; the core's later answer to it
        is dropped.
        """
        self.check()
        ask = self.leadership.assured if self._holds_lease() else self.leadership.confirmed
        if not await ask():
            raise self._not_coordinator()
        self.check()
        waiting = Waiting[Answered]()
        self._carry_out(self._core.handle(waiting, request, self._now(), by))
        answer = await waiting.answer
        if isinstance(answer, StrandlineError):
            raise answer
        return answer

    def check(self) -> None:
        """Raises NotCoordinator, CoordinatorLoading."""
        if self.ended():
            raise self._not_coordinator()
        if not self.active:
            raise CoordinatorLoading(f"the groups of {OFFSETS_TOPIC}-{self.number} are being read")

    def _not_coordinator(self) -> NotCoordinator:
        return NotCoordinator(
            f"this broker does not coordinate the groups of {OFFSETS_TOPIC}-{self.number}",
            leader=self._hint(),
        )

    def _now(self) -> Instant:
        return Instant(self._clock.monotonic(), self._clock.wall_ms(), self._expiry_ms())

    def states(self) -> Iterable[GroupState]:
        """The state of each known group."""
        return self._core.states()

    def committed(self) -> Iterable[GroupOffsets]:
        """What each group has committed; nothing while the groups are being read."""
        return self._core.committed() if self.active else ()

    @property
    def mark(self) -> int:
        """The last write, for a look at topics that begins now."""
        return self._core.mark

    def follow_topics(self, topics: SeenTopics) -> None:
        """Remove the offsets of topics that are gone or were made anew."""
        if self.active:
            self._carry_out(self._core.follow_topics(topics, self._now()))
        else:
            self._gone_meanwhile |= topics.gone

    def topics(self, without: Set[str]) -> set[str]:
        """The topics of offsets that were read in none of these incarnations, or whose one is not known."""
        return {
            name.topic
            for group in self.committed()
            for name, committed in group.offsets.everything().items()
            if committed.topic_id not in without
        }

    # --- effects -----------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer():
                    effect.deliver()
                case Append():
                    self._appender.add(effect)
                case Publish(event):
                    self._publish(event)
                case Failed(group, held, error):
                    logger.error(
                        "a group's turn failed: the group is Dead here, other groups continue",
                        partition=self.number,
                        group=group,
                        held=held,
                        reason=repr(error),
                        exc_info=error,
                    )
        deadline = self._core.next_deadline()
        if deadline is not None and (self._sleeping_until is None or deadline < self._sleeping_until):
            self._wake.set()

    def _appended(self, write_id: int, error: StrandlineError | None) -> None:
        if error is not None:
            error = self._as_group_error(error)
        self._carry_out(self._core.appended(write_id, error, self._now()))

    def _as_group_error(self, error: StrandlineError) -> StrandlineError:
        """A failed write, as an error that a member of a group can handle."""
        logger.warning(
            "a group's state was not written",
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
        """Read the groups, then run their timers, until the leadership ends."""
        try:
            await self._load()
        except StrandlineError as error:
            logger.error("groups not read", partition=self.number, reason=error.message)
            self._on_storage_failed()
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
        """Replay the log up to its end at the election, once all of that is committed (H1)."""
        await self._wait_for_watermark()
        began = self._clock.monotonic()
        log = self.leadership.replica.log
        offset, end = log.log_start_offset, self.leadership.core.epoch_start
        loaded = _Loaded()
        while (offset := max(offset, log.log_start_offset)) < end and not self.ended():
            try:
                data, next_offset = log.read_range(offset, LOAD_BYTES_AT_ONCE, below=end)
            except StorageBusy:
                await self._clock.sleep(STORAGE_RETRY_S)
                continue
            for header in iterate(data):
                await self._replay(self._readable(data, header, loaded), loaded, from_offset=offset)
                if self.ended():
                    return
            assert next_offset > offset, f"{log!r} has nothing to read at {offset} below {end}"
            offset = next_offset
        if self.ended():
            return
        self.active = True
        self._carry_out(self._core.loaded(self._now()))
        self.follow_topics(SeenTopics(self.mark, self._gone_meanwhile))
        logger.info(
            "groups loaded",
            partition=self.number,
            epoch=self.leadership.epoch,
            records=loaded.records,
            unreadable=loaded.unreadable,
            seconds=round(self._clock.monotonic() - began, 3),
        )

    async def _wait_for_watermark(self) -> None:
        """Clients hear meanwhile that the coordinator is loading: they wait, too."""
        replica, core, began = self.leadership.replica, self.leadership.core, self._clock.monotonic()
        notice_s = LOADING_NOTICE_S
        replica.listen(self._wake.set)
        try:
            while not self.ended() and not core.knows_watermark:
                self._wake.clear()
                left_s = notice_s - (self._clock.monotonic() - began)
                try:
                    async with asyncio.timeout(max(0.0, left_s)):
                        await self._wake.wait()
                except TimeoutError:
                    notice_s += LOADING_NOTICE_AGAIN_S
                    logger.warning(
                        "groups wait for in-sync replicas before they are read",
                        partition=self.number,
                        seconds=round(self._clock.monotonic() - began),
                        isr=sorted(core.isr.maximal()),
                        min_insync=core.min_insync,
                    )
        finally:
            replica.unlisten(self._wake.set)

    def _readable(self, data: bytes, header: BatchHeader, loaded: _Loaded) -> list[Record]:
        if header.is_control:
            return []
        try:
            return decode_batch(data, header)
        except (CorruptMessage, UnsupportedCompression) as error:
            self._report_unreadable(header.base_offset, error, loaded)
            return []

    async def _replay(self, records: list[Record], loaded: _Loaded, *, from_offset: int) -> None:
        for record in records:
            if self.ended():
                return
            if record.offset >= from_offset:
                try:
                    self._core.load(record.key or b"", record.value, record.timestamp, record.headers)
                except StrandlineError as error:
                    self._report_unreadable(record.offset, error, loaded)
            loaded.records += 1
            if loaded.records % LOAD_RECORDS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _report_unreadable(self, offset: int, error: StrandlineError, loaded: _Loaded) -> None:
        """The record is skipped: one unreadable record must not block all other groups."""
        loaded.unreadable += 1
        if loaded.unreadable <= UNREADABLE_LOGGED_MAX:
            logger.error(
                "a group's record cannot be read",
                partition=self.number,
                offset=offset,
                reason=error.message,
                exc_info=error.__cause__,
            )

    def end(self) -> None:
        """The leadership has ended: waiting calls are sent to the next coordinator."""
        if self.ended():
            return
        self._ended = True
        self.active = False
        self._appender.close()
        self._wake.set()
        self._carry_out(self._core.unload(self._not_coordinator()))
