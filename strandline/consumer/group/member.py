"""The consumer as a member of its group: carries out what the membership's core decides.

One task carries out the effects one after the other, so that a join never overtakes a listener. Calls to
the coordinator have tasks of their own. Every loop here ends with an answer, with a pause that grows to
`retry_backoff_ms_max`, or with the consumer.

What members have in common is here. A `ClassicMember` has a leader that assigns, an `AssignedMember` a
coordinator that does.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from strandline.client.coordinator import Coordinator
from strandline.client.scope import Scope
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.heartbeat import HeartbeatReport, News, Overdue, Refused, Stopped
from strandline.consumer.core.member_effects import (
    Assign,
    Effect,
    Fatal,
    FindCoordinator,
    Level,
    LogLine,
    Lose,
    Revoke,
    SendFarewell,
    SendLeave,
    StopHeartbeat,
)
from strandline.consumer.core.member_states import IN_GROUP, State
from strandline.consumer.delivery import RecordDelivery
from strandline.consumer.group.handover import Handover
from strandline.consumer.group.heartbeats import METHODS, Heartbeats
from strandline.consumer.group.topics import Topics
from strandline.consumer.measures import Rebalances
from strandline.errors import (
    BrokerNotAvailable,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.groups import ConsumerHeartbeat, LeaveGroup, TaskChange

logger = logging.getLogger(__name__)

LEAVE_S_MAX: Final = 2.0
"""The longest time for a request to leave. Without it the coordinator waits for the end of the session."""

REBALANCE_END_S_MAX: Final = 3.0
"""The longest time that a departure waits for the end of a rebalance."""

REBALANCING: Final = frozenset({State.JOINING, State.ASSIGNING, State.SYNCING})

_LEVELS: Final = {Level.INFO: logging.INFO, Level.WARNING: logging.WARNING, Level.ERROR: logging.ERROR}


class Core(Protocol):
    """What is known of a membership, with a leader that assigns or a coordinator."""

    @property
    def state(self) -> State: ...

    @property
    def member(self) -> str: ...

    @property
    def generation(self) -> int:
        """Or the member's epoch."""
        ...

    @property
    def protocol(self) -> str: ...

    @property
    def owned(self) -> frozenset[TopicPartition]: ...

    @property
    def watched(self) -> frozenset[str]:
        """Topics of which this member has to know the partitions."""
        ...


@dataclass(frozen=True, slots=True)
class MemberParts:
    """What a member works with."""

    coordinator: Coordinator
    delivery: RecordDelivery
    handover: Handover
    heartbeats: Heartbeats
    topics: Topics
    rebalances: Rebalances
    scope: Scope
    settings: ConsumerSettings
    clock: Clock
    on_fatal: Callable[[Exception], None]
    on_settled: Callable[[], None]


class Member(ABC):
    """Only this class and those below it change the core."""

    def __init__(self, core: Core, parts: MemberParts) -> None:
        self.core = core
        self._coordinator = parts.coordinator
        self._delivery = parts.delivery
        self._handover = parts.handover
        self._heartbeats = parts.heartbeats
        self._topics = parts.topics
        self._rebalances = parts.rebalances
        self._scope = parts.scope
        self._settings = parts.settings
        self._clock = parts.clock
        self._on_fatal = parts.on_fatal
        self._on_settled = parts.on_settled
        self._queue: deque[Effect] = deque()
        self._queued = asyncio.Event()
        self._settled = asyncio.Event()
        self._leaving = 0
        """Requests to leave in progress."""
        self.departing = False
        """True while a departure waits for a rebalance to end."""

    # --- the kinds of members ----------------------------------------------------------------

    @abstractmethod
    def subscribe(self, names: frozenset[str], pattern: str) -> None:
        """Subscribe to these topics, and no others. `pattern` names what chose them."""

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """The application requests a rebalance (KIP-568). Raises InvalidRequest if there can be none."""

    @abstractmethod
    def polled(self) -> None:
        """A get call begins."""

    @abstractmethod
    def note_counts(self, counts: Mapping[str, int]) -> None:
        """Partition counts of `core.watched`, just read; 0 for a topic that does not exist."""

    @abstractmethod
    def report_tasks(self, changes: Sequence[TaskChange]) -> None:
        """Report changes of tasks to the coordinator."""

    @abstractmethod
    def commit_refused(self, member: str, generation: int, error: StrandlineError) -> bool:
        """True if another try may succeed, with the member id and generation of that time."""

    @abstractmethod
    def _leave_core(self, reason: str) -> list[Effect]: ...

    @abstractmethod
    def _core_overdue(self) -> list[Effect]: ...

    @abstractmethod
    def _coordinator_found(self) -> list[Effect]: ...

    @abstractmethod
    def _coordinator_lost(self, refused: Refused) -> None:
        """The coordinator of this heartbeat cannot be reached, or is another one by now."""

    @abstractmethod
    def _heartbeat_failed(self, refused: Refused) -> None: ...

    @abstractmethod
    def _released(self, number: int) -> list[Effect]: ...

    @abstractmethod
    def _carry_out_own(self, effect: Effect) -> None:
        """An effect that only this kind of member knows."""

    @abstractmethod
    def on_news(self, news: News) -> None:
        """A heartbeat was answered with something new."""

    @abstractmethod
    async def _before_leaving(self) -> None:
        """What has to reach the coordinator before the member leaves."""

    # --- life --------------------------------------------------------------------------------

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._scope.spawn(self._work(), "membership")

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
        busy = bool(self._queue) or self.core.state is not State.STABLE
        self._delivery.yields_often = busy and self.core.state in IN_GROUP

    async def leave(self, reason: str) -> None:
        """Release everything in order, then leave. Returns at the end of that."""
        await self._depart(reason)
        while not self.has_left:
            await self._changed()

    def depart(self, reason: str) -> None:
        """As `leave`, in the background."""
        if self.core.state in REBALANCING:
            if not self.departing:
                self._scope.spawn(self._depart(reason), "departure")
        elif self.core.state is not State.UNJOINED:
            self.feed(self._leave_core(reason))

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
                if self.core.state in REBALANCING:
                    await self._handover.commit_early()
                while self.core.state in REBALANCING:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            pass
        finally:
            self.departing = False
        self.feed(self._leave_core(reason))
        self._handover.holding = False

    async def _changed(self) -> None:
        """Wait until all effects are carried out. Raises the error that made the consumer fail."""
        self._settled.clear()
        self._scope.check()
        await self._settled.wait()

    @property
    def has_left(self) -> bool:
        """True if the member is out of the group, and every request to leave has ended."""
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
                    self.feed(self._released(effect.number))
            case Lose():
                await self._handover.lose(effect)
            case StopHeartbeat():
                self._heartbeats.stop()
            case Fatal(error):
                self._on_fatal(error)
            case SendLeave(request) | SendFarewell(request):
                self._leaving += 1
                self._scope.spawn(self._leave(request), "leave")
            case FindCoordinator():
                self._scope.spawn(self._find(), "coordinator")
            case _:
                self._carry_out_own(effect)

    # --- the coordinator ---------------------------------------------------------------------

    async def _find(self) -> None:
        try:
            found = await self._coordinator.find()
        except StrandlineError as error:
            self._on_fatal(error)
            return
        self._heartbeats.aim(found.address)
        self.feed(self._coordinator_found())

    async def _leave(self, request: LeaveGroup | ConsumerHeartbeat) -> None:
        try:
            await self._before_leaving()
            async with asyncio.timeout(LEAVE_S_MAX):
                _ = await self._coordinator.call(METHODS[type(request)], request)
        except (StrandlineError, TimeoutError) as error:
            logger.info(
                "group %s: the coordinator does not know that a member left: %s", request.group, error
            )
        finally:
            self._leaving -= 1
            self._settled.set()
            self._queued.set()

    # --- heartbeats --------------------------------------------------------------------------

    def on_heartbeat(self, report: HeartbeatReport) -> None:
        """Handle a report of the heartbeats, on the loop."""
        match report:
            case Stopped(error):
                logger.error("group %s: the heartbeats ended", self._settings.group_id, exc_info=error)
                self._on_fatal(error)
            case Overdue():
                if report.beat.member == self.core.member:
                    self._overdue(report)
            case Refused():
                self._on_refused(report)
            case News():
                self.on_news(report)

    def _on_refused(self, refused: Refused) -> None:
        match refused.error:
            case NotCoordinator() | CoordinatorNotAvailable() | BrokerNotAvailable() | OutcomeUnknown():
                self._coordinator.lost_at(refused.address, refused.error)
                self._coordinator_lost(refused)
            case CoordinatorLoading():
                pass
            case _:
                self._heartbeat_failed(refused)

    def _overdue(self, report: Overdue) -> None:
        logger.warning(
            "group %s: no get call for %.1f s, max_poll_interval_ms=%d: this consumer leaves, and joins "
            "again with the next one. If that comes again and again, raise max_poll_interval_ms, lower "
            "poll_records_max, or call extend_processing",
            self._settings.group_id,
            report.silent_s,
            self._settings.max_poll_interval_ms,
        )
        self.feed(self._core_overdue())
        if self._delivery.asking:
            self.polled()  # a get call has begun meanwhile, and is still in progress
