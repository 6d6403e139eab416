"""The consumer as a member of its group: carries out what the membership's core decides.

One task carries out the effects one after the other, so that a join never overtakes a listener. Calls to
the coordinator have tasks of their own. Every loop here ends with an answer, with a pause that grows to
`retry_backoff_ms_max`, or with the consumer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from strandline.adapters.codecs.groups import LEAVE_GROUP, SYNC_GROUP
from strandline.client.backoff import backoff_s
from strandline.client.coordinator import Coordinator
from strandline.client.retry import retry
from strandline.client.scope import Scope
from strandline.client.waits import Notice, noticed
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.heartbeat import HeartbeatReport, Overdue, Stopped
from strandline.consumer.core.member_effects import (
    Assign,
    DelayJoin,
    Effect,
    Fatal,
    FindCoordinator,
    Level,
    LogLine,
    Lose,
    NeedMetadata,
    Report,
    Revoke,
    SendJoin,
    SendLeave,
    SendSync,
    StartHeartbeat,
    StopHeartbeat,
)
from strandline.consumer.core.member_states import IN_GROUP, State
from strandline.consumer.core.membership import Membership
from strandline.consumer.delivery import RecordDelivery
from strandline.consumer.group.handover import Handover
from strandline.consumer.group.heartbeats import Heartbeats
from strandline.consumer.group.reports import Reports
from strandline.consumer.group.topics import Topics
from strandline.consumer.measures import Rebalances
from strandline.errors import (
    BrokerNotAvailable,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    IllegalGeneration,
    NotCoordinator,
    OutcomeUnknown,
    RebalanceInProgress,
    StrandlineError,
)
from strandline.ports import Clock
from strandline.vocabulary.groups import NO_GENERATION, LeaveGroup, ReportTasks, TaskChange

logger = logging.getLogger(__name__)

JOIN_MARGIN_S: Final = 5.0
"""How much longer than the rebalance timeout a join may take (as in Kafka's clients)."""
HELD_NOTICE_S: Final = 5.0
"""A join or a sync that is held for longer is logged."""
LEAVE_S_MAX: Final = 2.0
"""The longest time for LeaveGroup. Without it the coordinator waits for the end of the session."""
LAST_REPORTS_S_MAX: Final = 1.0
"""The longest time that LeaveGroup waits for the reports before it."""

REBALANCE_END_S_MAX: Final = 3.0
"""The longest time that a departure waits for the end of a rebalance."""

_REBALANCING: Final = frozenset({State.JOINING, State.ASSIGNING, State.SYNCING})

_LEVELS: Final = {Level.INFO: logging.INFO, Level.WARNING: logging.WARNING, Level.ERROR: logging.ERROR}


class Member:
    """Only this class changes `core`, apart from callers that give the effects of an event to `feed`."""

    def __init__(
        self,
        core: Membership,
        *,
        coordinator: Coordinator,
        delivery: RecordDelivery,
        handover: Handover,
        heartbeats: Heartbeats,
        topics: Topics,
        rebalances: Rebalances,
        scope: Scope,
        settings: ConsumerSettings,
        clock: Clock,
        on_fatal: Callable[[Exception], None],
        on_settled: Callable[[], None],
    ) -> None:
        self.core = core
        self._coordinator = coordinator
        self._delivery = delivery
        self._handover = handover
        self._heartbeats = heartbeats
        self._topics = topics
        self._rebalances = rebalances
        self._scope = scope
        self._settings = settings
        self._clock = clock
        self._on_fatal = on_fatal
        self._on_settled = on_settled
        self._reports = Reports(coordinator, settings, clock)
        self._queue: deque[Effect] = deque()
        self._queued = asyncio.Event()
        self._settled = asyncio.Event()
        self._joining = 0
        """Joins in progress: an answer with another generation may be on its way."""
        self._leaving = 0
        """LeaveGroup calls in progress."""
        self._failing = Notice(clock)
        """Of joins and syncs that fail until a rebalance has ended."""
        self.departing = False
        """True while a departure waits for a rebalance to end."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._scope.spawn(self._work(), "membership")
        self._scope.spawn(self._reports.run(), "reports")

    @property
    def now_ms(self) -> int:
        return self._clock.wall_ms()

    def feed(self, effects: list[Effect]) -> None:
        """Carry these out, after all earlier effects."""
        for effect in effects:
            if isinstance(effect, LogLine):
                logger.log(_LEVELS[effect.level], "%s", effect.text)
                continue
            if isinstance(effect, Assign | Revoke | Lose):
                self._handover.prepare(effect)
            self._queue.append(effect)
        self._note_state()
        self._queued.set()

    def _note_state(self) -> None:
        """Time rebalances; and during one the loop comes first: the application lets it run after each
        record."""
        self._rebalances.became(self.core.state)
        if self.core.state not in _REBALANCING:
            self._failing.over()
        busy = bool(self._queue) or self.core.state is not State.STABLE
        self._delivery.yields_often = busy and self.core.state in IN_GROUP

    async def leave(self, reason: str) -> None:
        """Release everything in order, then leave. Returns at the end of that."""
        await self._depart(reason)
        while not self.has_left:
            await self._changed()

    def depart(self, reason: str) -> None:
        """As `leave`, in the background."""
        if self.core.state in _REBALANCING:
            if not self.departing:
                self._scope.spawn(self._depart(reason), "departure")
        elif self.core.state is not State.UNJOINED:
            self.feed(self.core.leave(reason, self.now_ms))

    async def _depart(self, reason: str) -> None:
        """Wait for the end of a rebalance, then leave.

        During a rebalance the generation may end at any moment, and the next one has no assignment at first,
        so the commits of a release may be refused. Offsets that are processed by now are committed before
        the wait, in case it takes long.
        """
        self.departing = True
        self._handover.hold_all()
        try:
            async with asyncio.timeout(REBALANCE_END_S_MAX):
                if self.core.state in _REBALANCING:
                    await self._handover.commit_early()
                while self.core.state in _REBALANCING:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            pass
        finally:
            self.departing = False
        self.feed(self.core.leave(reason, self.now_ms))
        self._handover.holding = False

    async def _changed(self) -> None:
        """Wait until all effects are carried out. Raises the error that made the consumer fail."""
        self._settled.clear()
        self._scope.check()
        await self._settled.wait()

    @property
    def has_left(self) -> bool:
        """True if the member is out of the group, and every LeaveGroup has ended."""
        ended = self.core.state in (State.UNJOINED, State.LEFT, State.FATAL)
        return ended and not self._queue and not self._leaving

    # --- effects -----------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            while True:
                while self._queue:
                    await self._carry_out(self._queue[0])
                    self._queue.popleft()
                self._settled.set()
                self._note_state()
                self._queued.clear()
                self._on_settled()
                await self._queued.wait()
        finally:
            self._settled.set()

    async def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Assign():
                await self._handover.assign(effect)
            case Revoke():
                if await self._handover.revoke(effect):
                    self.feed(self.core.released(effect.number, self.now_ms))
            case Lose():
                await self._handover.lose(effect)
            case StartHeartbeat(member, generation):
                self._heartbeats.start(member, generation)
            case StopHeartbeat():
                self._heartbeats.stop()
            case DelayJoin(number, attempt):
                self._loop.call_later(backoff_s(self._settings, attempt), self._backed_off, number)
            case Report(request):
                self._reports.put(request)
            case Fatal(error):
                self._on_fatal(error)
            case SendLeave(request):
                self._leaving += 1
                self._scope.spawn(self._leave(request), "leave")
            case FindCoordinator():
                self._scope.spawn(self._find(), "coordinator")
            case SendJoin():
                self._scope.spawn(self._join(effect), "join")
            case SendSync():
                self._scope.spawn(self._sync(effect), "sync")
            case NeedMetadata():
                self._scope.spawn(self._count(effect), "partitions")

    def _backed_off(self, number: int) -> None:
        self.feed(self.core.backed_off(number, self.now_ms))

    # --- the coordinator ---------------------------------------------------------------------

    async def _find(self) -> None:
        try:
            found = await self._coordinator.find()
        except StrandlineError as error:
            self._on_fatal(error)
            return
        self._heartbeats.aim(found.address)
        self.feed(self.core.coordinator_found(self.now_ms))

    @property
    def _held_s(self) -> float:
        """How long a join or a sync may take: the coordinator holds it for the other members."""
        rebalance_s = self._settings.max_poll_interval_ms / 1000
        return max(self._settings.request_timeout_ms / 1000, rebalance_s + JOIN_MARGIN_S)

    def _noticed(self, request: str) -> AbstractContextManager[None]:
        return noticed(
            f"group {self._settings.group_id}: {request} is not answered, as other members have not come yet",
            HELD_NOTICE_S,
        )

    def _note_failure(self, error: StrandlineError) -> None:
        """A join or a sync has failed. A coordinator that was found anew meanwhile does not end the wait."""
        if not isinstance(error, RebalanceInProgress):
            self._failing.log(f"group {self._settings.group_id}: no rebalance has succeeded", error)

    async def _join(self, effect: SendJoin) -> None:
        self._joining += 1
        try:
            known = await self._coordinator.find()
            with self._coordinator.watching(known), self._noticed("JoinGroup"):
                answer = await self._heartbeats.join(known.address, effect.request, self._held_s)
        except StrandlineError as error:
            self._note_failure(error)
            self.feed(self.core.join_failed(effect.number, error, self.now_ms))
        else:
            self.feed(self.core.joined(effect.number, answer, self.now_ms))
        finally:
            self._joining -= 1

    async def _sync(self, effect: SendSync) -> None:
        try:
            with self._noticed("SyncGroup"):
                data = await self._coordinator.call(SYNC_GROUP, effect.request, timeout_s=self._held_s)
        except StrandlineError as error:
            self._note_failure(error)
            self.feed(self.core.sync_failed(effect.number, error, self.now_ms))
        else:
            self.feed(self.core.synced(effect.number, data, self.now_ms))

    async def _count(self, effect: NeedMetadata) -> None:
        """Ask for partition counts until a broker answers: the leader cannot assign without them."""
        counts = await retry(
            lambda: self._topics.counts(effect.topics),
            f"the leader of group {self._settings.group_id} cannot assign",
            settings=self._settings,
            clock=self._clock,
            retriable=lambda _error: True,
            level=logging.WARNING,
        )
        self.feed(self.core.metadata(effect.number, counts, self.now_ms))

    async def _leave(self, request: LeaveGroup) -> None:
        """Send the reports that wait, as long as there is time, then LeaveGroup. A partition whose release is
        not reported counts as lost."""
        try:
            await self._reports.flushed(LAST_REPORTS_S_MAX)
            async with asyncio.timeout(LEAVE_S_MAX):
                _ = await self._coordinator.call(LEAVE_GROUP, request)
        except (StrandlineError, TimeoutError) as error:
            logger.info(
                "group %s: the coordinator does not know that a member left: %s", request.group, error
            )
        finally:
            self._leaving -= 1
            self._settled.set()
            self._queued.set()

    def report_tasks(self, changes: Sequence[TaskChange]) -> None:
        """Report changes of tasks. A member without a generation sends none: they would be refused."""
        core = self.core
        if changes and core.generation != NO_GENERATION:
            group = self._coordinator.name
            self._reports.put_tasks(ReportTasks(group, core.member, core.generation, tuple(changes)))

    # --- heartbeats --------------------------------------------------------------------------

    def on_heartbeat(self, report: HeartbeatReport) -> None:
        """Handle a report of the heartbeats, on the loop."""
        if isinstance(report, Stopped):
            logger.error("group %s: the heartbeats ended", self._settings.group_id, exc_info=report.error)
            self._on_fatal(report.error)
            return
        beat = report.beat
        if isinstance(report, Overdue):
            if beat.member == self.core.member:
                self._overdue(report)
            return
        match report.error:
            case NotCoordinator() | CoordinatorNotAvailable() | BrokerNotAvailable() | OutcomeUnknown():
                self._coordinator.lost_at(report.address, report.error)
                if (beat.member, beat.generation) == (self.core.member, self.core.generation):
                    self.feed(self.core.coordinator_lost(self.now_ms))
            case CoordinatorLoading():
                pass
            case error:
                if not self._may_be_outdated(error):
                    self.feed(self.core.heartbeat_failed(beat.member, beat.generation, error, self.now_ms))

    def commit_refused(self, member: str, generation: int, error: StrandlineError) -> bool:
        """True if another try may succeed, with the member id and generation of that time."""
        if self._may_be_outdated(error):
            return True
        self.feed(self.core.commit_failed(member, generation, error, self.now_ms))
        return False

    def _may_be_outdated(self, error: StrandlineError) -> bool:
        """True if the error may refer to the old generation. The coordinator ends a generation when it
        answers a join, the member when it receives the answer. In between a refusal means nothing: the
        answer of the join shows whether the member is still in the group (CORRECTNESS G4)."""
        return self._joining > 0 and isinstance(error, IllegalGeneration)

    def _overdue(self, report: Overdue) -> None:
        logger.warning(
            "group %s: no get call for %.1f s, max_poll_interval_ms=%d: this consumer leaves, and joins "
            "again with the next one. If that comes again and again, raise max_poll_interval_ms, lower "
            "poll_records_max, or call extend_processing",
            self._settings.group_id,
            report.silent_s,
            self._settings.max_poll_interval_ms,
        )
        self.feed(self.core.poll_overdue(self.now_ms))
        if self._delivery.asking:
            self.polled()  # a get call has begun meanwhile, and is still in progress

    def polled(self) -> None:
        """A get call begins."""
        if self.core.state is State.OVERDUE:
            self.feed(self.core.polled(self.now_ms))
