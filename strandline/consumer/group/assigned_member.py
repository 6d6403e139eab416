"""A member whose coordinator assigns: says what it has to say in heartbeats, and hears of its partitions in
their answers (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from strandline.consumer.core.assigned.membership import AssignedMembership
from strandline.consumer.core.assigned.schedule import AssignedSchedule
from strandline.consumer.core.heartbeat import News, Refused
from strandline.consumer.core.member_effects import Effect, Say
from strandline.consumer.core.member_states import State
from strandline.consumer.group.member import Member, MemberParts
from strandline.errors import StaleMemberEpoch, StrandlineError
from strandline.vocabulary.groups import TaskChange


class AssignedMember(Member):
    """`new_id` returns an id for a member that joins (KIP-1082)."""

    core: AssignedMembership

    def __init__(
        self,
        core: AssignedMembership,
        schedule: AssignedSchedule,
        parts: MemberParts,
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(core, parts)
        self._schedule = schedule
        self._new_id = new_id

    def subscribe(self, names: frozenset[str], pattern: str) -> None:
        self.feed(self.core.subscribed(names, self._new_id()))

    def enforce_rebalance(self, reason: str) -> None:
        self.feed(self.core.enforced())

    def polled(self) -> None:
        if self.core.state is State.OVERDUE:
            self.feed(self.core.polled(self._new_id()))

    def note_counts(self, counts: Mapping[str, int]) -> None:
        """The coordinator watches the topics."""

    def report_tasks(self, changes: Sequence[TaskChange]) -> None:
        """Tasks are moved by a leader: there is none here."""

    def commit_refused(self, member: str, generation: int, error: StrandlineError) -> bool:
        """A stale epoch is a new one by the time of another try: its answer is on the way."""
        if isinstance(error, StaleMemberEpoch):
            return True
        self.feed(self.core.commit_failed(member, generation, error))
        return False

    def on_news(self, news: News) -> None:
        self.feed(self.core.answered(news.beat.generation, news.answer))

    async def _before_leaving(self) -> None:
        """Nothing: the coordinator knows what the member owns."""

    # --- effects -----------------------------------------------------------------------------

    def _carry_out_own(self, effect: Effect) -> None:
        if not isinstance(effect, Say):
            raise TypeError(f"{effect!r} is no effect of a member whose coordinator assigns")
        say = effect
        self._heartbeats.change(lambda now: self._schedule.say(say.request, say.heard, now))

    def _leave_core(self, reason: str) -> list[Effect]:
        return self.core.leave(reason)

    def _core_overdue(self) -> list[Effect]:
        return self.core.poll_overdue()

    def _released(self, number: int) -> list[Effect]:
        return self.core.released(number)

    def _coordinator_found(self) -> list[Effect]:
        return self.core.coordinator_found()

    def _coordinator_lost(self, refused: Refused) -> None:
        if refused.beat.member == self.core.member:
            self.feed(self.core.coordinator_lost())

    def _heartbeat_failed(self, refused: Refused) -> None:
        beat = refused.beat
        self.feed(self.core.heartbeat_failed(beat.member, beat.generation, refused.error))
