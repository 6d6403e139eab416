"""The consumer's side of its group: what it subscribes to, who it is there, and what it commits."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from strandline.client.cluster import Cluster
from strandline.client.coordinator import Coordinator
from strandline.client.scope import Scope
from strandline.config import ConsumerSettings
from strandline.consumer.core.assignors.assignor import Assignor
from strandline.consumer.core.member_requests import MemberSettings
from strandline.consumer.core.member_states import State
from strandline.consumer.core.membership import Membership
from strandline.consumer.delivery import HandOut
from strandline.consumer.group.commits import Commits, Identity
from strandline.consumer.group.committed import Committed
from strandline.consumer.group.handover import Handover
from strandline.consumer.group.heartbeat import Heart, HeartNews, Refused
from strandline.consumer.group.listener import Listening, RebalanceListener
from strandline.consumer.group.member import Member
from strandline.consumer.group.refresh import Refresh
from strandline.consumer.group.topics import Topics
from strandline.consumer.reader import Reader
from strandline.errors import InvalidRequest, RebalanceInProgress, StrandlineError
from strandline.ports import Clock
from strandline.vocabulary.groups import NO_GENERATION, TaskChange

logger = logging.getLogger(__name__)

UNSETTLED_S: Final = 0.5
"""How soon to look again for a topic that is not there, or that seems gone."""
HEART_END_S_MAX: Final = 1.0
CLOSE_COMMIT_S_MAX: Final = 3.0
"""A close waits no longer for a coordinator that does not answer."""
CLOSE_LISTENER_S_MAX: Final = 10.0
"""A close waits no longer for a call of the listener."""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """What a consumer is in its group now. `generation` is -1 while it is in none."""

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None
    rebalance_protocol: str
    assignor: str


class Group:
    """For one consumer with a `group_id`, whether it subscribes or assigns its partitions itself."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        assignors: Sequence[Assignor],
        cluster: Cluster,
        reader: Reader,
        handout: HandOut,
        scope: Scope,
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._id = group_id = coordinator.group
        self._settings = settings
        self._clock = clock
        self._scope = scope
        self._reader = reader
        self._handout = handout
        self._topics = Topics(cluster, clock)
        self._listening = Listening(handout.tell, limit_s=settings.max_poll_interval_ms / 1000)
        self._core = Membership(MemberSettings.of(group_id, settings), assignors)
        self.commits = Commits(
            coordinator,
            reader=reader,
            handout=handout,
            identity=self._identity,
            on_refused=self._commit_refused,
            in_listener=lambda: self._listening.inside,
            settings=settings,
            clock=clock,
        )
        self._refresh = Refresh(
            self.commits,
            Committed(coordinator, settings, clock),
            reader=reader,
            settings=settings,
            clock=clock,
        )
        self._handover = Handover(
            reader=reader,
            handout=handout,
            commits=self.commits,
            listening=self._listening,
            settings=settings,
            owned=lambda: self._core.owned,
        )
        self._heart = Heart(group_id, handout=handout, settings=settings, clock=clock, post=self._post)
        self._member = Member(
            self._core,
            coordinator=coordinator,
            handout=handout,
            handover=self._handover,
            heart=self._heart,
            topics=self._topics,
            scope=scope,
            settings=settings,
            clock=clock,
            on_fatal=handout.fail,
            on_settled=self._go_on,
        )
        self._wanted: frozenset[str] | None = None
        """The topics subscribed to; None while there is no subscription, or a pattern not yet resolved."""
        self._pattern: re.Pattern[str] | None = None
        self._next: Callable[[], None] | None = None
        """What is assigned by hand once the member is out of the group."""
        self._look = asyncio.Event()
        self._started = False
        self._watching = False
        self._committing = True
        """False after a commit failed, until one succeeds: the reason is told once."""

    # --- life --------------------------------------------------------------------------------

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = True
        if self._settings.enable_auto_commit:
            self._scope.spawn(self._commit_periodically(), "auto commit")
            self._scope.spawn(self._refresh.run(), "offsets refresh")

    def check_outside(self) -> None:
        """Raises InvalidRequest within a listener, which a departure would wait for."""
        self._listening.check_outside("stop its consumer")

    async def leave(self, drain_s: float) -> None:
        """Commit what is processed, give everything up, and leave; wait for what is in hand so long."""
        if not self._started:
            return
        self._started = False
        self._loop.call_later(drain_s, self._handout.abandon)
        self._listening.shorten(CLOSE_LISTENER_S_MAX)
        self._handover.commit_s = min(self._handover.commit_s, CLOSE_COMMIT_S_MAX)
        if self.subscribed or self.leaving:
            self._forget_subscription()
            await self._member.leave("the consumer was closed")
        elif self._settings.enable_auto_commit:
            await self._commit_processed(CLOSE_COMMIT_S_MAX)

    async def end(self) -> None:
        """The thread ends too."""
        thread = self._heart.close()
        if thread is not None:
            await asyncio.to_thread(thread.join, HEART_END_S_MAX)

    # --- the subscription --------------------------------------------------------------------

    @property
    def subscribed(self) -> bool:
        return self._wanted is not None or self._pattern is not None

    @property
    def leaving(self) -> bool:
        """True while what was subscribed to before is still being given up."""
        return not self.subscribed and not self._member.gone

    def subscription(self) -> frozenset[str]:
        return self._wanted or frozenset()

    def subscribe(
        self,
        names: frozenset[str],
        pattern: re.Pattern[str] | None,
        listener: RebalanceListener | None,
    ) -> None:
        if listener is not None and not isinstance(listener, RebalanceListener):
            raise InvalidRequest(f"{listener!r} is not a RebalanceListener")
        self._listening.listener = listener
        if not self._watching:
            self._watching = True
            self._member.start()
            self._scope.spawn(self._watch_topics(), "topics")
        self._reader.subscribed = True
        self._next = None
        self._pattern = pattern
        if self._pattern is None:
            self._want(names)
        self._look.set()

    def unsubscribe(self) -> None:
        """Give everything up in order and leave, behind the scenes; the listener stays for that."""
        self._forget_subscription()
        self._member.depart("the consumer unsubscribed")

    def when_out(self, assign: Callable[[], None] | None) -> None:
        """Assign by hand, but not before all that was subscribed to is given up."""
        self._next = assign
        self._go_on()

    def enforce_rebalance(self, reason: str) -> None:
        if not self.subscribed:
            raise InvalidRequest("this consumer is subscribed to nothing: there is no rebalance to ask for")
        self._member.feed(self._core.enforced(reason, self._member.now_ms))

    def _forget_subscription(self) -> None:
        self._wanted = self._pattern = self._next = None

    def _want(self, names: frozenset[str]) -> None:
        self._wanted = names
        if not self._member.departing:
            self._member.feed(self._core.subscribed(names, self._member.now_ms))

    def _go_on(self) -> None:
        """What was asked for while the member was still leaving begins now."""
        if self._wanted is not None and self._core.state is State.LEFT:
            self._want(self._wanted)
        elif self._next is not None and not self.leaving:
            assign, self._next = self._next, None
            assign()

    async def _watch_topics(self) -> None:
        """Resolve the pattern, and tell the core what changed: often if this member leads."""
        resolved_at = float("-inf")
        failing = False
        while True:
            self._look.clear()
            now = self._clock.monotonic()
            try:
                stale = now - resolved_at >= self._settings.metadata_max_age_ms / 1000
                if self._pattern is not None and (stale or self._core.watched or not self._settled):
                    await self._resolve()
                    resolved_at = now
                await self._recount()
                failing = False
            except StrandlineError as error:
                level = logging.DEBUG if failing else logging.INFO
                logger.log(level, "group %s: topics cannot be looked at now: %s", self._id, error)
                failing = True
            pause_s = self._settings.topics_refresh_ms / 1000
            if not self._settled:
                pause_s = min(pause_s, UNSETTLED_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self._look.wait()
                resolved_at = float("-inf")
            except TimeoutError:
                pass

    @property
    def _settled(self) -> bool:
        """False while something is not there that may come, or seems gone and may have been there."""
        matching = self.subscription() if self._pattern is not None else frozenset()
        found = self._pattern is None or bool(matching)
        return found and self._topics.settled(self._core.watched | matching)

    async def _resolve(self) -> None:
        pattern = self._pattern
        assert pattern is not None
        names = frozenset(await self._topics.matching(pattern))
        if pattern is self._pattern and names != self._wanted:
            self._want(names)

    async def _recount(self) -> None:
        watched = self._core.watched
        if watched:
            counts = await self._topics.counts(watched)
            self._member.feed(self._core.metadata_changed(counts, self._member.now_ms))

    # --- who it is ---------------------------------------------------------------------------

    def metadata(self) -> GroupMetadata:
        core, settings = self._core, self._settings
        return GroupMetadata(
            self._id,
            core.member,
            core.generation,
            settings.group_instance_id,
            settings.rebalance_protocol,
            core.protocol,
        )

    def _identity(self) -> Identity:
        """As whom to commit. Raises RebalanceInProgress for a member that is in no generation."""
        if not self.subscribed and not self.leaving:
            return Identity()
        if self._core.generation == NO_GENERATION:
            raise RebalanceInProgress(f"this consumer is in no generation of group {self._id} now")
        return Identity(self._core.member, self._core.generation)

    def _commit_refused(self, identity: Identity, error: StrandlineError) -> bool:
        return self._member.commit_refused(identity.member, identity.generation, error)

    def report_tasks(self, changes: Sequence[TaskChange]) -> None:
        self._member.report_tasks(changes)

    def extend_processing(self, seconds: float) -> None:
        self._heart.extend(seconds)

    def polled(self) -> None:
        """A get call begins. Raises InvalidRequest within a listener: no record comes before it returns."""
        self._listening.check_outside("ask its consumer for records")
        self.commits.lost.clear()
        self._member.polled()

    def _post(self, news: HeartNews) -> None:
        """From the heart's thread to the loop, unless that is closed by now."""
        self._handout.interrupt()
        try:
            self._loop.call_soon_threadsafe(self._heard, news)
        except RuntimeError:
            logger.debug("the event loop has ended before the consumer: %s", news)

    def _heard(self, news: HeartNews) -> None:
        fresh = isinstance(news, Refused) and isinstance(news.error, RebalanceInProgress)
        if fresh and self._pattern is not None and self._core.state is State.STABLE:
            # Whoever began it may have seen a topic that this member has not: join with it at once.
            self._scope.spawn(self._resolve_then(news), "topics of a rebalance")
        else:
            self._member.heard(news)

    async def _resolve_then(self, news: HeartNews) -> None:
        try:
            async with asyncio.timeout(UNSETTLED_S):
                if self._pattern is not None:
                    await self._resolve()
        except (StrandlineError, TimeoutError) as error:
            logger.info("group %s: joins with the topics of before: %s", self._id, error)
        self._member.heard(news)

    # --- committing by itself ----------------------------------------------------------------

    async def _commit_periodically(self) -> None:
        while True:
            await self._clock.sleep(self._settings.auto_commit_interval_ms / 1000)
            await self._commit_processed(self._settings.request_timeout_ms / 1000)

    async def _commit_processed(self, timeout_s: float) -> None:
        try:
            await self.commits.commit_processed(timeout_s=timeout_s)
            self._committing = True
        except RebalanceInProgress as error:
            logger.debug("group %s: offsets are committed after the rebalance: %s", self._id, error)
        except StrandlineError as error:
            level = logging.WARNING if self._committing else logging.DEBUG
            logger.log(level, "group %s: processed offsets are not committed yet: %s", self._id, error)
            self._committing = False
