"""Connects a consumer with its group: subscription, membership and automatic commits."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from strandline.client.cluster import Cluster
from strandline.client.coordinator import Coordinator
from strandline.client.reading.partition_reader import PartitionReader
from strandline.client.scope import Scope
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.assigned.membership import AssignedMembership
from strandline.consumer.core.assigned.schedule import AssignedSchedule
from strandline.consumer.core.assigned.settings import AssignedSettings
from strandline.consumer.core.assignors.assignor import Assignor
from strandline.consumer.core.heartbeat import HeartbeatReport, HeartbeatSchedule, Refused, Schedule
from strandline.consumer.core.member_settings import MemberSettings
from strandline.consumer.core.member_states import State
from strandline.consumer.core.membership import Membership
from strandline.consumer.delivery import RecordDelivery
from strandline.consumer.group.assigned_member import AssignedMember
from strandline.consumer.group.classic_member import ClassicMember
from strandline.consumer.group.commits import Commits, Identity
from strandline.consumer.group.committed import Committed
from strandline.consumer.group.handover import Handover
from strandline.consumer.group.heartbeat_task import HeartbeatTask
from strandline.consumer.group.heartbeat_thread import HeartbeatThread
from strandline.consumer.group.heartbeats import Heartbeats
from strandline.consumer.group.listener import Listening, RebalanceListener
from strandline.consumer.group.member import Member, MemberParts
from strandline.consumer.group.refresh import Refresh
from strandline.consumer.group.topics import Topics, name_of
from strandline.errors import InvalidRequest, RebalanceInProgress, StrandlineError
from strandline.host import Host
from strandline.ids import TopicId
from strandline.ports import Transport
from strandline.vocabulary.groups import JOINS, NO_GENERATION, GroupMetadata, TaskChange

logger = logging.getLogger(__name__)

UNSETTLED_S: Final = 0.5
"""The pause before another look for a topic that is missing, or seems to be deleted."""
CLOSE_COMMIT_S_MAX: Final = 3.0
"""The longest time that a close waits for the coordinator."""
CLOSE_LISTENER_S_MAX: Final = 10.0
"""The longest time that a close waits for a call of the listener."""


class Group:
    """The group of one consumer with a `group_id`, which subscribes, or assigns its partitions by hand."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        assignors: Sequence[Assignor],
        cluster: Cluster,
        reader: PartitionReader,
        delivery: RecordDelivery,
        scope: Scope,
        settings: ConsumerSettings,
        transport: Transport,
        host: Host,
    ) -> None:
        self._id = coordinator.name
        self._settings = settings
        self._transport = transport
        self._host = host
        self._clock = clock = host.clock
        self._scope = scope
        self._reader = reader
        self._delivery = delivery
        self._topics = Topics(cluster, clock)
        self._listening = Listening(delivery.raise_next, limit_s=settings.max_poll_interval_ms / 1000)
        self.commits = Commits(
            coordinator,
            reader=reader,
            delivery=delivery,
            identity=self._identity,
            on_refused=self._commit_refused,
            in_listener=lambda: self._listening.inside,
            settings=settings,
            clock=clock,
        )
        committed = Committed(coordinator, settings)
        self._refresh = Refresh(self.commits, committed, reader=reader, settings=settings, clock=clock)
        self._handover = Handover(
            reader=reader,
            delivery=delivery,
            commits=self.commits,
            listening=self._listening,
            settings=settings,
            owned=lambda: self._member.core.owned,
        )
        self._member = self._make_member(coordinator, assignors)
        self._wanted: frozenset[str] | None = None
        """The topics subscribed to; None while there is no subscription, or a pattern not yet resolved."""
        self._pattern: re.Pattern[str] | None = None
        self._pending_assign: Callable[[], None] | None = None
        """Assigns partitions by hand; it waits until the member has left the group."""
        self._look_again = asyncio.Event()
        self._started = False
        self._watching = False
        self._committing = True
        """False from a failed automatic commit until one succeeds: the error is logged once."""

    def _make_member(self, coordinator: Coordinator, assignors: Sequence[Assignor]) -> Member:
        settings = self._settings
        if settings.group_protocol == "consumer":
            schedule = AssignedSchedule(self._id, settings)
            core = AssignedMembership(AssignedSettings.of(self._id, settings))
            parts = self._parts(coordinator, self._make_heartbeats(schedule))
            return AssignedMember(core, schedule, parts, self._host.new_id)
        classic_schedule = HeartbeatSchedule(self._id, settings)
        classic_core = Membership(MemberSettings.of(self._id, settings), assignors)
        parts = self._parts(coordinator, self._make_heartbeats(classic_schedule))
        return ClassicMember(classic_core, classic_schedule, parts)

    def _parts(self, coordinator: Coordinator, heartbeats: Heartbeats) -> MemberParts:
        self._heartbeats = heartbeats
        return MemberParts(
            coordinator=coordinator,
            delivery=self._delivery,
            handover=self._handover,
            heartbeats=heartbeats,
            topics=self._topics,
            rebalances=self._delivery.measures.rebalances,
            scope=self._scope,
            settings=self._settings,
            clock=self._clock,
            on_fatal=self._delivery.fail,
            on_settled=self._continue,
        )

    def _make_heartbeats(self, schedule: Schedule[Any]) -> Heartbeats:
        if self._host.blocking_transport is not None:
            return HeartbeatThread(
                self._id,
                schedule=schedule,
                delivery=self._delivery,
                clock=self._clock,
                report=self._post,
                transport=self._host.blocking_transport(),
                threads=self._host.threads,
            )
        return HeartbeatTask(
            self._id,
            schedule=schedule,
            delivery=self._delivery,
            clock=self._clock,
            report=self._post,
            transport=self._transport,
            scope=self._scope,
        )

    # --- life --------------------------------------------------------------------------------

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = True
        if self._settings.enable_auto_commit:
            self._scope.spawn(self._commit_periodically(), "auto commit")
            self._scope.spawn(self._refresh.run(), "offsets refresh")

    def check_outside(self) -> None:
        """Raises InvalidRequest within a listener: a departure would wait for its end."""
        self._listening.check_outside("stop its consumer")

    async def leave(self, drain_s: float) -> None:
        """Commit what is processed, release everything, and leave. Waits `drain_s` seconds at most for the
        records in hand."""
        if not self._started:
            return
        self._started = False
        self._loop.call_later(drain_s, self._delivery.abandon)
        self._listening.shorten(CLOSE_LISTENER_S_MAX)
        self._handover.commit_s = min(self._handover.commit_s, CLOSE_COMMIT_S_MAX)
        if self.subscribed or self.leaving:
            self._forget_subscription()
            await self._member.leave("the consumer was closed")
        elif self._settings.enable_auto_commit:
            await self._commit_processed(CLOSE_COMMIT_S_MAX)

    async def end(self) -> None:
        """End the heartbeats."""
        if not await self._heartbeats.close():
            logger.info("group %s: the last heartbeat has not ended yet", self._id)

    # --- the subscription --------------------------------------------------------------------

    @property
    def subscribed(self) -> bool:
        return self._wanted is not None or self._pattern is not None

    @property
    def leaving(self) -> bool:
        """True while the partitions of an earlier subscription are still being released."""
        return not self.subscribed and not self._member.has_left

    @property
    def may_assign(self) -> bool:
        """True if partitions may come to be assigned, or are still being released."""
        return self.subscribed or self.leaving or self._pending_assign is not None

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
        self._reader.on_recreated = self._recreated
        if not self._watching:
            self._watching = True
            self._member.start()
            self._scope.spawn(self._watch_topics(), "topics")
        self._reader.subscribed = True
        self._pending_assign = None
        self._pattern = pattern
        if self._pattern is None:
            self._want(names)
        self._look_again.set()

    def _recreated(self, topic: str, before: TopicId, now: TopicId) -> None:
        self._scope.spawn(self._listening.recreated(topic, before, now), f"{topic} was made anew")

    def unsubscribe(self) -> None:
        """Release everything in order and leave, in the background. The listener is still called for it."""
        self._forget_subscription()
        self._member.depart("the consumer unsubscribed")

    def assign_once_left(self, assign: Callable[[], None] | None) -> None:
        """Call `assign` once the partitions of the subscription are released."""
        self._pending_assign = assign
        self._continue()

    def enforce_rebalance(self, reason: str) -> None:
        if not self.subscribed:
            raise InvalidRequest("this consumer is subscribed to nothing: there is no rebalance to ask for")
        self._member.enforce_rebalance(reason)

    def _forget_subscription(self) -> None:
        self._wanted = self._pattern = self._pending_assign = None

    def _want(self, names: frozenset[str]) -> None:
        self._wanted = names
        if not self._member.departing:
            pattern = "" if self._pattern is None else name_of(self._pattern)
            self._member.subscribe(names, pattern)

    def _continue(self) -> None:
        """The member has carried out everything: begin what waited for its departure."""
        if self._wanted is not None and self._member.core.state is State.LEFT:
            self._want(self._wanted)
        elif self._pending_assign is not None and not self.leaving:
            assign, self._pending_assign = self._pending_assign, None
            assign()
        elif not self.may_assign:
            self._delivery.reconsider()

    async def _watch_topics(self) -> None:
        """Resolve the pattern, and report changed topics to the core: often if this member leads."""
        resolved_at = float("-inf")
        failing = False
        while True:
            self._look_again.clear()
            now = self._clock.monotonic()
            try:
                stale = now - resolved_at >= self._settings.metadata_max_age_ms / 1000
                if self._pattern is not None and (stale or self._member.core.watched or not self._settled):
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
                    await self._look_again.wait()
                resolved_at = float("-inf")
            except TimeoutError:
                pass

    @property
    def _settled(self) -> bool:
        """False while a topic is missing that may be created soon, or seems to be deleted."""
        matching = self.subscription() if self._pattern is not None else frozenset()
        found = self._pattern is None or bool(matching)
        return found and self._topics.settled(self._member.core.watched | matching)

    async def _resolve(self) -> None:
        pattern = self._pattern
        assert pattern is not None
        names = frozenset(await self._topics.matching(pattern))
        if pattern is self._pattern and names != self._wanted:
            self._want(names)

    async def _recount(self) -> None:
        watched = self._member.core.watched
        if watched:
            counts = await self._topics.counts(watched)
            self._member.note_counts(counts)

    # --- membership --------------------------------------------------------------------------

    def metadata(self) -> GroupMetadata:
        core, settings = self._member.core, self._settings
        return GroupMetadata(
            self._id,
            core.member,
            core.generation,
            settings.group_instance_id,
            settings.rebalance_protocol,
            core.protocol,
        )

    def _identity(self) -> Identity:
        """The identity for commits. Raises RebalanceInProgress for a member that is in no generation."""
        if not self.subscribed and not self.leaving:
            return Identity()
        if self._member.core.generation in (NO_GENERATION, JOINS):
            raise RebalanceInProgress(f"this consumer is in no generation of group {self._id} now")
        return Identity(self._member.core.member, self._member.core.generation)

    def _commit_refused(self, identity: Identity, error: StrandlineError) -> bool:
        return self._member.commit_refused(identity.member, identity.generation, error)

    def report_tasks(self, changes: Sequence[TaskChange]) -> None:
        self._member.report_tasks(changes)

    def extend_processing(self, seconds: float) -> None:
        self._heartbeats.extend(seconds)

    def polled(self) -> None:
        """A get call begins. Raises InvalidRequest within a listener: no record arrives before its end."""
        self._listening.check_outside("ask its consumer for records")
        self.commits.lost.clear()
        self._member.polled()

    def _post(self, report: HeartbeatReport) -> None:
        """Pass the report to the loop, unless that has ended. From any thread."""
        self._delivery.interrupt()
        try:
            self._loop.call_soon_threadsafe(self._on_heartbeat, report)
        except RuntimeError:
            logger.debug("the event loop has ended before the consumer: %s", report)

    def _on_heartbeat(self, report: HeartbeatReport) -> None:
        rebalance = isinstance(report, Refused) and isinstance(report.error, RebalanceInProgress)
        if rebalance and self._pattern is not None and self._member.core.state is State.STABLE:
            # The member that began it may know a topic that this one does not: join with that topic, too.
            self._scope.spawn(self._resolve_then(report), "topics of a rebalance")
        else:
            self._member.on_heartbeat(report)

    async def _resolve_then(self, report: HeartbeatReport) -> None:
        try:
            async with asyncio.timeout(UNSETTLED_S):
                if self._pattern is not None:
                    await self._resolve()
        except (StrandlineError, TimeoutError) as error:
            logger.info("group %s: joins with the topics of before: %s", self._id, error)
        self._member.on_heartbeat(report)

    # --- automatic commits -------------------------------------------------------------------

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
