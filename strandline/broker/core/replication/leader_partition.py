"""A led partition: the commit loop of Kafka's design V3 as a pure machine.

event methods   note what happened: an append, a follower's position, a change of the live brokers,
                the outcome of a write to ZooKeeper
step(now)       the design's loop body: late members leave, caught-up ones return (both in
                ZooKeeper first), the HW moves to the least LEO of the ISR, requests commit,
                and a reassignment advances (Kafka's design V3, checkReassignedReplicas)

driver (`broker/replicas/leadership.py`) carries the effects out in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final, Generic

from strandline.broker.core.replication import reassignment
from strandline.broker.core.replication.closing import Closing
from strandline.broker.core.replication.commit_queue import CommitQueue, Ticket
from strandline.broker.core.replication.effects import (
    Acknowledge,
    AdvanceWatermark,
    CloseReplicas,
    CompleteReassignment,
    CutOff,
    Effect,
    StepDown,
    TimeOut,
    WriteIsr,
)
from strandline.broker.core.replication.isr import (
    NO_SUBSCRIPTION,
    InSyncReplicas,
    IsrChange,
    Progress,
    SubscriptionId,
    is_late,
    may_join,
    why_changed,
)
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.core.replication.returns import Returns
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, Offset
from strandline.vocabulary.metadata import IsrMember, PartitionState, Registration

COPIES_MIN: Final = 2
"""With fewer members in sync, none waits for its return."""
PAST_SUBSCRIPTIONS_MAX: Final = 1_000
"""Unassigned brokers whose last subscription a leader remembers."""


class LeaderPartition(Generic[Ticket]):
    """One leadership: one partition, one epoch.

    Offsets are exclusive ends. `log_end_offset` is the leader's own LEO as far as it counts for the
    HW: with `flush.messages=1` it follows the fsync, not the append.
    """

    def __init__(
        self,
        *,
        me: BrokerId,
        epoch: LeaderEpoch,
        log_end_offset: Offset,
        high_watermark: Offset,
        assignment: PartitionAssignment,
        members: tuple[IsrMember, ...],
        version: int,
        live: Mapping[BrokerId, Registration],
        suspects: Set[BrokerEpoch] = frozenset(),
        silent: Set[BrokerEpoch] = frozenset(),
        min_insync: int,
        keep_in_sync_s: float,
        close_s: float,
        queue_entries_max: int,
        now: float,
        lossy_epoch: LeaderEpoch = NO_EPOCH,
    ) -> None:
        assert any(member.broker == me for member in members), f"leader {me} is not in the ISR {members}"
        assert high_watermark <= log_end_offset, f"HW {high_watermark} above LEO {log_end_offset}"
        self.me = me
        self.epoch = epoch
        self.lossy_epoch = lossy_epoch
        """The `lossy_epoch` of `isr`, passed on with every write."""
        self.epoch_start = log_end_offset
        self.log_end_offset = log_end_offset
        self.accepted_end = log_end_offset
        """The log's own end, which the driver sets: above `log_end_offset` while records wait for a sync."""
        self.high_watermark = high_watermark
        self.assignment = assignment
        self.min_insync = min_insync
        self.keep_in_sync_s = keep_in_sync_s
        self.isr = InSyncReplicas(members, version)
        self.queue: CommitQueue[Ticket] = CommitQueue(epoch, queue_entries_max)
        self.isr_writable = True
        """False while the link to ZooKeeper is down: changes of the ISR are parked."""
        self.handing_over = False
        """True while nothing may be appended, because the leadership is given up once all is committed."""
        self._live = live
        self._suspects = suspects
        self._silent = silent
        # The lag timers start at the election: a follower has KeepInSyncTime to appear (I9).
        self._followers = {
            broker: Progress(None, Offset(-1), log_end_offset, now)
            for broker in assignment.replicas
            if broker != me
        }
        self._past_subscriptions: dict[BrokerId, SubscriptionId] = {}
        """Last subscriptions of unassigned brokers: their earlier reports do not count (I2)."""
        self._closing = Closing(close_s)
        """The closing of AR − RAR, in this epoch and for the present reassignment."""
        self._completing = False
        self._returns = Returns()
        self._return_due: float | None = None
        """When a follower may join that has all but the right moment."""

    # --- queries ---------------------------------------------------------------------------

    @property
    def knows_watermark(self) -> bool:
        """False for a new leader until its HW has reached the LEO of its election (H1, KIP-207)."""
        return self.high_watermark >= self.epoch_start

    @property
    def enough_in_sync(self) -> bool:
        return self.isr.size_min() >= self.min_insync

    @property
    def state(self) -> PartitionState:
        return self._record(self.me, self.isr.members)

    @property
    def catching_up(self) -> tuple[BrokerId, ...]:
        """CUR: assigned, not in the ISR, and fetching."""
        return tuple(
            broker
            for broker, progress in self._followers.items()
            if broker not in self.isr and progress.broker_epoch is not None
        )

    def follower_end(self, broker: BrokerId) -> Offset:
        """The follower's LEO as last reported in this epoch, -1 if it never was."""
        progress = self._followers.get(broker)
        return Offset(-1) if progress is None else progress.log_end_offset

    def progress_of(self, broker: BrokerId) -> Progress | None:
        """What is known of a follower, to be read only; None if it does not count here."""
        return self._followers.get(broker)

    def any_behind(self, log_end: int) -> bool:
        """True if a follower lacks something below this offset, or does not fetch."""
        return any(
            progress.behind_since is not None or progress.log_end_offset < log_end
            for progress in self._followers.values()
        )

    def next_wakeup(self) -> float | None:
        """When `step` has to be called even if no event arrives."""
        moments = [
            progress.behind_since + self.keep_in_sync_s
            for broker, progress in self._followers.items()
            if progress.behind_since is not None and broker in self.isr and self._may_write_isr()
        ]
        if self.queue.next_deadline is not None:
            moments.append(self.queue.next_deadline)
        if self._closing.due is not None and self._may_write_isr() and self._held_by():
            moments.append(self._closing.due)
        if self._return_due is not None and self._may_write_isr():
            moments.append(self._return_due)
        return min(moments, default=None)

    # --- events ----------------------------------------------------------------------------

    def appended(self, log_end_offset: Offset, now: float) -> None:
        """The leader's own log reaches this far."""
        assert log_end_offset >= self.log_end_offset, f"LEO {self.log_end_offset} → {log_end_offset}"
        self.log_end_offset = log_end_offset
        for progress in self._followers.values():
            if progress.behind_since is None:
                progress.set_target(log_end_offset, now)

    def fetched(
        self,
        broker: BrokerId,
        broker_epoch: BrokerEpoch,
        log_end_offset: Offset,
        now: float,
        *,
        subscription: int = 0,
    ) -> None:
        """A follower's position, reported in this epoch (H2) and checked against the leader's log (T6).

        It may lie beyond the leader's own `log_end_offset` while that waits for an fsync. Subscriptions
        are numbered upwards in one life of a follower. A report of an older subscription, or of an older
        life, was read late from a broken stream: the follower may have lost those records since (I2, I6).
        """
        progress = self._followers.get(broker)
        subscription_id = (broker_epoch, subscription)
        if progress is None:
            # Not assigned, or the assignment is not known here yet: it may read, but does not count. If it is
            # assigned later it has to subscribe again, because its reports until then are ignored (I2).
            self._remember(
                broker, max(subscription_id, self._past_subscriptions.get(broker, NO_SUBSCRIPTION))
            )
            return
        if subscription_id >= progress.subscription_id:
            progress.subscription_id, progress.broker_epoch = subscription_id, broker_epoch
            progress.note_position(log_end_offset, self.log_end_offset, now)

    def stopped_fetching(
        self, broker: BrokerId, broker_epoch: BrokerEpoch, now: float, *, subscription: int = 0
    ) -> None:
        """This subscription ended, and no newer one has begun.

        Its last report stands until the follower is late. It is late after KeepInSyncTime even if nothing
        is appended: its log may have failed.
        """
        progress = self._followers.get(broker)
        if progress is not None and progress.subscription_id == (broker_epoch, subscription):
            progress.broker_epoch = None
            if progress.behind_since is None:
                progress.behind_since = now

    def outdated(self, broker: BrokerId, broker_epoch: BrokerEpoch, subscription: int) -> bool:
        """True if this subscription began before the broker was assigned again: it must subscribe anew.

        Also true for a broker that was cut off because it did not close.
        """
        if broker in self._closing.cut_off:
            return True
        progress = self._followers.get(broker)
        return progress is not None and (broker_epoch, subscription) < progress.subscription_id

    def assign(self, assignment: PartitionAssignment, min_insync: int, now: float) -> None:
        """The present replicas and the reassignment, as ZooKeeper holds them.

        A newly assigned broker has reported nothing yet; its reports from an earlier assignment do not count
        (I2). A broker that is no longer assigned counts until it has left the ISR.
        """
        before = self.assignment
        if (assignment.reassignment, assignment.reassignment_version) != (
            before.reassignment,
            before.reassignment_version,
        ):
            if assignment.reassignment is None:
                self._closing.completed(assignment.replicas)
            else:  # another reassignment, or the same one was requested again
                self._closing.ask_again()
        self.assignment, self.min_insync = assignment, min_insync
        for broker in assignment.replicas:
            if broker != self.me and broker not in self._followers:
                life, subscription = self._past_subscriptions.get(broker, NO_SUBSCRIPTION)
                subscription_id = (life, subscription + 1)
                self._followers[broker] = Progress(
                    None, Offset(-1), self.log_end_offset, now, subscription_id
                )
        self._forget_unassigned()

    def _forget_unassigned(self) -> None:
        counting = self.isr.maximal()
        for broker in tuple(self._followers):
            if broker not in self.assignment.replicas and broker not in counting:
                self._remember(broker, self._followers.pop(broker).subscription_id)

    def _remember(self, broker: BrokerId, subscription_id: SubscriptionId) -> None:
        """Any client may claim to be a broker, so the oldest are forgotten beyond a bound."""
        self._past_subscriptions.pop(broker, None)
        self._past_subscriptions[broker] = subscription_id
        if len(self._past_subscriptions) > PAST_SUBSCRIPTIONS_MAX:
            del self._past_subscriptions[next(iter(self._past_subscriptions))]

    def close_again(self) -> None:
        """No replica was asked to close: the reason for asking has changed, or may have."""
        self._closing.ask_again()

    def live_changed(
        self,
        live: Mapping[BrokerId, Registration],
        suspects: Set[BrokerEpoch] = frozenset(),
        silent: Set[BrokerEpoch] = frozenset(),
    ) -> None:
        """The live brokers, the suspected ones of them, and those that do not answer this leader, as new
        objects (never changed in place: H4)."""
        self._live, self._suspects, self._silent = live, suspects, silent

    def isr_read(self, state: PartitionState, version: int) -> StepDown | None:
        """The content of the `isr` znode after a write of this leader, also after a failed one (I4).

        If it has this epoch, adopt it: a lost reply costs nothing. With another epoch or leader, step down.
        """
        if state.leader != self.me or state.leader_epoch != self.epoch:
            return StepDown(state)
        self.isr.settle(state.isr, version)
        self._completing = self.handing_over = False
        self._forget_unassigned()
        return None

    def join_refused(self, member: IsrMember) -> None:
        """Its registration is not the known one: it is shutting down, or is gone (I7). Its next life may have
        begun to fetch meanwhile, and is not refused."""
        progress = self._followers.get(member.broker)
        if progress is not None:
            progress.refused = member.broker_epoch

    # --- the loop --------------------------------------------------------------------------

    def step(self, now: float) -> list[Effect[Ticket]]:
        """One turn of that design's loop, for all queued requests at once (group commit)."""
        effects: list[Effect[Ticket]] = []
        if self._closing.is_overdue(now) and self._may_write_isr():
            cut = self._closing.cut(self._held_by())
            effects += [CutOff(cut, self._closing.timeout_s)] if cut else []
        if self._may_write_isr() and (write := self._change_isr(now)) is not None:
            effects.append(write)
        if self._advance():
            effects.append(AdvanceWatermark(self.high_watermark))
        if done := self.queue.committed(self.high_watermark):
            effects.append(Acknowledge(done))
        if late := self.queue.expired(now):
            effects.append(TimeOut(late))
        if not self._completing and (move := self._reassign(now)) is not None:
            effects.append(move)
        return effects

    def _may_write_isr(self) -> bool:
        return self.isr_writable and self.isr.change is None

    def _change_isr(self, now: float) -> WriteIsr | None:
        # Every append and every report comes here: lists, since a generator costs a call for each element.
        stay = [
            member
            for member in self.isr.members
            if member.broker == self.me
            or (
                member.broker in self._followers
                and not is_late(member, self._followers[member.broker], self._live, now, self.keep_in_sync_s)
                and self._why_out(member.broker) is None
            )
        ]
        stay = self._without_doubtful(stay)
        present = {member.broker for member in stay}
        joined = [
            IsrMember(broker, self._live[broker].epoch)
            for broker, progress in self._followers.items()
            if broker not in present
            and broker in self.assignment.replicas
            and not (self._closing.asked and broker not in self.assignment.target)
            and may_join(progress, self._live.get(broker), self.high_watermark, self.epoch_start)
            and progress.broker_epoch not in self._silent
            and not self._overdue(progress, now)
        ]
        joined = self._in_time(joined, stay, now)
        after = self._ranked(stay + joined)
        if after == self.isr.members:
            return None
        for member in self.isr.members:
            if member.broker not in present:
                self._returns.left(member, now)
        for member in joined:
            self._returns.returned(member, now)
        change: IsrChange = self.isr.propose(after)
        before, now_in = {m.broker for m in change.before}, {m.broker for m in after}
        return WriteIsr(
            self._record(self.me, after),
            change.version,
            left=tuple(sorted(before - now_in)),
            joined=tuple(sorted(now_in - before)),
            entering=tuple(member for member in after if member not in change.before),
            reason=why_changed(
                change.before, after, self._live, self._suspects | self._silent, self._why_out
            ),
        )

    def _in_time(self, candidates: list[IsrMember], stay: list[IsrMember], now: float) -> list[IsrMember]:
        """The candidates that may return now. All of them, if too few members are left that answer: a commit,
        or the record's second copy, is worth more than calm."""
        self._return_due = None
        if not candidates or len(self._trusted(stay)) < max(self.min_insync, COPIES_MIN):
            return candidates
        due = {member: self._returns.earliest(member.broker, member.broker_epoch) for member in candidates}
        self._return_due = min((at for at in due.values() if at > now), default=None)
        return [member for member, at in due.items() if at <= now]

    def _without_doubtful(self, members: list[IsrMember]) -> list[IsrMember]:
        """The members without those that do not answer, and without suspects that do not fetch, if enough are
        left. Below min.insync.replicas nothing would commit without the others either, and a leader that
        cannot reach any follower would prevent its followers, which can reach each other, from electing one
        of them."""
        trusted = self._trusted(members)
        return trusted if len(trusted) >= self.min_insync else members

    def _trusted(self, members: list[IsrMember]) -> list[IsrMember]:
        if not self._suspects and not self._silent:
            return members
        return [member for member in members if member.broker == self.me or not self._is_doubtful(member)]

    def _is_doubtful(self, member: IsrMember) -> bool:
        if member.broker_epoch in self._silent:
            return True
        fetches = self._followers[member.broker].broker_epoch == member.broker_epoch
        return member.broker_epoch in self._suspects and not fetches

    def _why_out(self, broker: BrokerId) -> str | None:
        """Why a member that is neither gone nor late has to leave; None: it may stay.

        It is not assigned now, or was asked to close and has closed, or has not closed in time.
        """
        if broker in self._closing.cut_off:
            return f"did not close within {self._closing.timeout_s:g} s"
        if broker not in self.assignment.replicas:
            return "is closed"
        closed = self._closing.asked and broker not in self.assignment.target
        return "is closed" if closed and self._followers[broker].broker_epoch is None else None

    def _held_by(self) -> list[BrokerId]:
        """Members of the ISR that still fetch after the request to close; none while RAR is not in sync."""
        wanted = self.assignment.reassignment
        if wanted is None or not reassignment.may_close(wanted, self.isr.maximal(), self.min_insync):
            return []
        return [
            broker
            for broker, progress in self._followers.items()
            if broker in self.isr
            and broker not in wanted.target
            and broker not in self._closing.cut_off
            and progress.broker_epoch is not None
        ]

    def _overdue(self, progress: Progress, now: float) -> bool:
        """True if it is behind for KeepInSyncTime, so that it would have to leave again in the same turn."""
        return progress.behind_since is not None and now - progress.behind_since >= self.keep_in_sync_s

    def _ranked(self, members: list[IsrMember]) -> tuple[IsrMember, ...]:
        """In the order of their assignment; those that are not assigned come last."""
        ranks = {broker: rank for rank, broker in enumerate(self.assignment.replicas)}
        return tuple(sorted(members, key=lambda member: ranks.get(member.broker, len(ranks))))

    def _advance(self) -> bool:
        """HW = least LEO of the maximal ISR; frozen below min in-sync (H5); it never moves back."""
        if not self.enough_in_sync:
            return False
        candidate = self.log_end_offset
        for broker in self.isr.maximal():
            if broker == self.me:
                continue
            progress = self._followers.get(broker)
            if progress is None:
                return False
            if progress.log_end_offset < candidate:
                candidate = progress.log_end_offset
        if candidate <= self.high_watermark:
            return False
        self.high_watermark = candidate
        return True

    # --- reassignment ------------------------------------------------------------------------

    def _reassign(self, now: float) -> CloseReplicas | CompleteReassignment | None:
        """Kafka's design V3: both branches of checkReassignedReplicas and completePartitionReassignment."""
        self.handing_over = False
        wanted = self.assignment.reassignment
        if wanted is None or not self._may_write_isr():
            return None
        target, in_sync = wanted.target, self.isr.maximal()
        if not reassignment.may_close(wanted, in_sync, self.min_insync):
            return None
        leaving = reassignment.leaving(self.me, self.assignment)
        others = tuple(broker for broker in leaving if broker != self.me)
        if others and not self._closing.asked:
            self._closing.ask(now)
            return CloseReplicas(others, self.assignment)
        trusted = {b: each for b, each in self._live.items() if each.epoch not in self._suspects}
        successor = reassignment.next_leader(self.me, target, self.isr.members, trusted)
        if successor is None or any(broker in in_sync for broker in others):
            return None
        self.handing_over = successor != self.me
        end = max(self.log_end_offset, self.accepted_end)
        behind = self.high_watermark < end or self.follower_end(successor) < 0
        if self.handing_over and (self.queue or behind):
            return None
        members = tuple(member for member in self.isr.members if member.broker in target)
        after = tuple(sorted(members, key=lambda member: target.index(member.broker)))
        self._completing = True
        leader = NO_BROKER if self.handing_over else self.me
        reasons = [f"broker {broker} {self._why_out(broker)}" for broker in sorted(self._closing.cut_off)]
        return CompleteReassignment(
            self._record(leader, after),
            self.isr.propose(after).version,
            self.assignment,
            leaving,
            successor,
            ", ".join(reasons),
        )

    def _record(self, leader: BrokerId, members: tuple[IsrMember, ...]) -> PartitionState:
        return PartitionState(leader, self.epoch, members, lossy_epoch=self.lossy_epoch)

    def resign(self) -> list[Ticket]:
        """End this leadership; returns the requests whose outcome is now unknown (H6)."""
        return self.queue.drain()
