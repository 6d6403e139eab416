"""A member whose leader assigns: joins, syncs, and counts partitions for the leader (KIP-429)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

from strandline.adapters.codecs.groups import JOIN_GROUP, SYNC_GROUP
from strandline.client.backoff import backoff_s
from strandline.client.retry import retry
from strandline.client.waits import Notice, noticed
from strandline.consumer.core.heartbeat import Beat, HeartbeatSchedule, News, Refused
from strandline.consumer.core.member_effects import (
    DelayJoin,
    Effect,
    NeedMetadata,
    Report,
    SendJoin,
    SendSync,
    StartHeartbeat,
)
from strandline.consumer.core.member_states import State
from strandline.consumer.core.membership import Membership
from strandline.consumer.group.member import REBALANCING, Member, MemberParts
from strandline.consumer.group.reports import Reports
from strandline.errors import IllegalGeneration, RebalanceInProgress, StrandlineError
from strandline.vocabulary.groups import NO_GENERATION, Joined, MemberIdGiven, ReportTasks, TaskChange

logger = logging.getLogger(__name__)

JOIN_MARGIN_S: Final = 5.0
"""How much longer than the rebalance timeout a join may take (as in Kafka's clients)."""
HELD_NOTICE_S: Final = 5.0
"""A join or a sync that is held for longer is logged."""
LAST_REPORTS_S_MAX: Final = 1.0
"""The longest time that LeaveGroup waits for the reports before it. A partition whose release is not reported
counts as lost."""


class ClassicMember(Member):
    """Callers may give the effects of an event of `core` to `feed`."""

    core: Membership

    def __init__(self, core: Membership, schedule: HeartbeatSchedule, parts: MemberParts) -> None:
        super().__init__(core, parts)
        self._schedule = schedule
        self._reports = Reports(parts.coordinator, parts.settings, parts.clock)
        self._joining = 0
        """Joins in progress: an answer with another generation may be on its way."""
        self._failing = Notice(parts.clock)
        """Of joins and syncs that fail until a rebalance has ended."""

    def start(self) -> None:
        super().start()
        self._scope.spawn(self._reports.run(), "reports")

    def subscribe(self, names: frozenset[str], pattern: str) -> None:
        self.feed(self.core.subscribed(names, self.now_ms, pattern=pattern))

    def enforce_rebalance(self, reason: str) -> None:
        self.feed(self.core.enforced(reason, self.now_ms))

    def polled(self) -> None:
        if self.core.state is State.OVERDUE:
            self.feed(self.core.polled(self.now_ms))

    def note_counts(self, counts: Mapping[str, int]) -> None:
        self.feed(self.core.metadata_changed(counts, self.now_ms))

    def report_tasks(self, changes: Sequence[TaskChange]) -> None:
        """As `Member.report_tasks`. A member without a generation sends none: they would be refused."""
        core = self.core
        if changes and core.generation != NO_GENERATION:
            group = self._coordinator.name
            self._reports.put_tasks(ReportTasks(group, core.member, core.generation, tuple(changes)))

    def on_news(self, news: News) -> None:
        raise TypeError(f"{news!r} is for a member whose coordinator assigns")

    # --- effects -----------------------------------------------------------------------------

    def _note_state(self) -> None:
        super()._note_state()
        if self.core.state not in REBALANCING:
            self._failing.over()

    def _carry_out_own(self, effect: Effect) -> None:
        match effect:
            case StartHeartbeat(member, generation):
                beat = Beat(member, generation)
                self._heartbeats.change(lambda now: self._schedule.start(beat, now))
            case DelayJoin(number, attempt):
                self._loop.call_later(backoff_s(self._settings, attempt), self._backed_off, number)
            case Report(request):
                self._reports.put(request)
            case SendJoin():
                self._scope.spawn(self._join(effect), "join")
            case SendSync():
                self._scope.spawn(self._sync(effect), "sync")
            case NeedMetadata():
                self._scope.spawn(self._count(effect), "partitions")
            case _:
                raise TypeError(f"{effect!r} is no effect of a member whose leader assigns")

    def _backed_off(self, number: int) -> None:
        self.feed(self.core.backed_off(number, self.now_ms))

    def _leave_core(self, reason: str) -> list[Effect]:
        return self.core.leave(reason, self.now_ms)

    def _core_overdue(self) -> list[Effect]:
        return self.core.poll_overdue(self.now_ms)

    def _released(self, number: int) -> list[Effect]:
        return self.core.released(number, self.now_ms)

    async def _before_leaving(self) -> None:
        await self._reports.flushed(LAST_REPORTS_S_MAX)

    # --- the coordinator ---------------------------------------------------------------------

    def _coordinator_found(self) -> list[Effect]:
        return self.core.coordinator_found(self.now_ms)

    def _coordinator_lost(self, refused: Refused) -> None:
        if refused.beat == Beat(self.core.member, self.core.generation):
            self.feed(self.core.coordinator_lost(self.now_ms))

    def _heartbeat_failed(self, refused: Refused) -> None:
        beat, error = refused.beat, refused.error
        if not self._may_be_outdated(error):
            self.feed(self.core.heartbeat_failed(beat.member, beat.generation, error, self.now_ms))

    def commit_refused(self, member: str, generation: int, error: StrandlineError) -> bool:
        if self._may_be_outdated(error):
            return True
        self.feed(self.core.commit_failed(member, generation, error, self.now_ms))
        return False

    def _may_be_outdated(self, error: StrandlineError) -> bool:
        """True if the error may refer to the old generation. The coordinator ends a generation when it
        answers a join, the member when it receives the answer. In between a refusal means nothing: the
        answer of the join shows whether the member is still in the group (CORRECTNESS G4)."""
        return self._joining > 0 and isinstance(error, IllegalGeneration)

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
                answer = await self._ask_to_join(known.address, effect)
        except StrandlineError as error:
            self._note_failure(error)
            self.feed(self.core.join_failed(effect.number, error, self.now_ms))
        else:
            self.feed(self.core.joined(effect.number, answer, self.now_ms))
        finally:
            self._joining -= 1

    async def _ask_to_join(self, address: str, effect: SendJoin) -> Joined | MemberIdGiven:
        """Join, and send heartbeats for the new generation from the moment of the answer."""
        schedule = self._schedule
        number = self._heartbeats.change(lambda _: schedule.join_sent())

        def answered(answer: Joined | MemberIdGiven | None, now: float) -> None:
            schedule.join_answered(number, answer, now)

        return await self._heartbeats.ask(address, JOIN_GROUP, effect.request, self._held_s, answered)

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
