"""The state machine of a consumer group member, from its first join until it leaves (KIP-429).

Its inputs are events, its outputs the effects for the driver. The states and their order are in
`member_states`, the effects in `member_effects`. A member owns a partition (`owned`) from its `Assign` until
the release of a `Revoke` has ended, or until `Lose`. Times are milliseconds of the wall clock.

A rebalance begins in one of five ways, KIP-429's (a) to (e), and each goes through `_rejoin`, so
that an eager member never joins with partitions (CORRECTNESS G5):

    a  the subscription or the partition counts changed   keep everything, and claim it
    b  REBALANCE_IN_PROGRESS                              the same
    c  MEMBER_ID_REQUIRED                                 the same, with the member id
    d  UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION              reset only that, lose everything, join again
    e  NEEDS_REJOIN                                       release what is revoked, join again at once

Just before a join is sent, the assignors name partitions to revoke for it. Those are released
first, and then the join is sent without asking the assignors again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from strandline.consumer.core.assignors.assignor import Assignor, AssignorFailed, released_first
from strandline.consumer.core.leader_state import LeaderState
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
from strandline.consumer.core.member_log import cause_of, change_of, few, plan_lines
from strandline.consumer.core.member_settings import MemberSettings
from strandline.consumer.core.member_states import IN_GROUP, Awaited, Next, Pending, Search, State, transition
from strandline.consumer.core.ownership import Ownership, Partitions
from strandline.consumer.core.received_assignment import take
from strandline.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    NotCoordinator,
    Outcome,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import NO_GENERATION, NO_MEMBER, Joined, MemberIdGiven, OwnershipKind


class Membership:
    """The state machine. Every method returns the effects to carry out, in order."""

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor]) -> None:
        self._settings = settings
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self.state = State.UNJOINED
        self.member = NO_MEMBER
        self.generation = NO_GENERATION
        self.protocol = ""
        """Name of the assignor of this generation."""
        self.topics: tuple[str, ...] = ()
        self._pattern = ""
        """Names the pattern that chose the topics; empty: they were named."""
        self._owned = Ownership()
        self._leader: LeaderState | None = None
        """Not None while this member leads its generation."""
        self._joined_topics: tuple[str, ...] = ()
        self._joined_pattern = ""
        """The topics of the last join, and the pattern that chose them."""
        self._pending = Pending()
        self._attempts = 0
        """Failures since the last assignment."""
        self._heartbeating = False
        self._search = Search()
        self._reason = ""
        """Why the member joins, releases or leaves."""
        self._enforced: str | None = None
        """Why another rebalance was requested, to begin once this one has ended."""
        self._releasing: Partitions = ()
        self._next = Next.STAY

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """From the `Assign` on, until a release has ended or `Lose`."""
        return self._owned.partitions

    @property
    def watched(self) -> frozenset[str]:
        """Topics for which `metadata_changed` is needed: those of the group, if this member leads it."""
        return frozenset() if self._leader is None else self._leader.topics

    # --- calls of the application ------------------------------------------------------------

    def subscribed(self, topics: Iterable[str], now_ms: int, *, pattern: str = "") -> list[Effect]:
        """Subscribe to these topics, and no others. They need not exist. `pattern` names what chose them."""
        self.topics = tuple(sorted(set(topics)))
        self._pattern = pattern
        if self.state in (State.UNJOINED, State.LEFT):
            return self._rejoin(f"subscribed to {few(self.topics)}", now_ms)
        return self._settle(now_ms) if self.state is State.STABLE else []

    def polled(self, now_ms: int) -> list[Effect]:
        """The application requested records; this matters only to an overdue member."""
        if self.state is State.OVERDUE:
            return self._rejoin("records are asked for again", now_ms)
        return []

    def poll_overdue(self, now_ms: int) -> list[Effect]:
        """No get call came for longer than `max_poll_interval_ms`: leave, and let others read."""
        if self.state not in IN_GROUP:
            return []
        reason = "no get call within max_poll_interval_ms"
        effects: list[Effect] = [LogLine(Level.WARNING, f"{self._name} leaves: {reason}")]
        effects += self._lose(reason, now_ms)
        return effects + self._depart(State.LEFT if self._leaving else State.OVERDUE, reason)

    def enforced(self, reason: str, now_ms: int) -> list[Effect]:
        """The application requested a rebalance (KIP-568): begin it now, or after the one in progress. An
        overdue member joins at the next get call anyway. Raises InvalidRequest outside the group."""
        if self.state is State.OVERDUE:
            return []
        if self.state not in IN_GROUP or self._leaving:
            raise InvalidRequest(f"{self._name} is {self.state.value}: in no group that could rebalance")
        if self._enforced is None:
            self._enforced = reason
        return self._settle(now_ms) if self.state is State.STABLE else []

    def leave(self, reason: str, now_ms: int) -> list[Effect]:
        """Release everything, then leave. A static member stays until its session ends (KIP-345)."""
        if self.state in (State.UNJOINED, State.OVERDUE):
            self._enter(State.LEFT)
        elif self.state is State.RELEASING:
            self._next, self._reason = Next.LEAVE, reason
        elif self.state in IN_GROUP:
            return self._leave(reason)
        return []

    # --- the coordinator ---------------------------------------------------------------------

    def coordinator_found(self, now_ms: int) -> list[Effect]:
        self._search.found()
        if self.state is State.JOINING and self._pending.awaited is Awaited.NOTHING:
            return self._send_join(now_ms)
        return []

    def coordinator_lost(self, now_ms: int) -> list[Effect]:
        """The connection broke, or another broker coordinates now. The membership stays valid."""
        return self._seek("the coordinator was lost") if self.state in IN_GROUP else []

    def backed_off(self, number: int, now_ms: int) -> list[Effect]:
        """A pause has ended."""
        return self._send_join(now_ms) if self._pending.take(Awaited.PAUSE, number) else []

    def heartbeat_failed(
        self, member: str, generation: int, error: StrandlineError, now_ms: int
    ) -> list[Effect]:
        """A heartbeat with this member id and generation was refused."""
        return self._refused(member, generation, error, "heartbeat", now_ms)

    def commit_failed(
        self, member: str, generation: int, error: StrandlineError, now_ms: int
    ) -> list[Effect]:
        """A commit with this member id and generation was refused."""
        return self._refused(member, generation, error, "commit", now_ms)

    def _refused(
        self, member: str, generation: int, error: StrandlineError, what: str, now_ms: int
    ) -> list[Effect]:
        if self.state not in IN_GROUP or (member, generation) != (self.member, self.generation):
            return []  # it concerns an earlier id or generation (CORRECTNESS G4)
        match error:
            case IllegalGeneration() if self.state is State.JOINING:
                pass  # about the old generation: the next one may exist, its answer still on the way
            case UnknownMemberId() | IllegalGeneration():
                effects = self._expelled(error, what, now_ms)
                return effects if self.state is State.LEFT else effects + self._send_join(now_ms)
            case FencedInstanceId():
                return self._fail(error, now_ms)
            case RebalanceInProgress() if self.state is State.STABLE:
                return self._rejoin(error.message, now_ms)
            case RebalanceInProgress() if self._next is Next.STAY and self.state is State.RELEASING:
                self._next, self._reason = Next.JOIN, error.message
            case NotCoordinator() | CoordinatorNotAvailable():
                return self.coordinator_lost(now_ms)
        return []

    # --- joining -----------------------------------------------------------------------------

    def joined(self, number: int, answer: Joined | MemberIdGiven, now_ms: int) -> list[Effect]:
        if not self._pending.take(Awaited.JOIN, number):
            return self._abandon(answer.member)
        if isinstance(answer, MemberIdGiven):
            given_before, self.member = self.member != NO_MEMBER, answer.member
            return self._join_later() if given_before else self._send_join(now_ms)
        # Every commit from here on, also in a listener, is made in the new generation (CORRECTNESS G11).
        self.member, self.generation = answer.member, answer.generation
        self.protocol = answer.protocol
        self._heartbeating = True
        leads = answer.leader == answer.member
        effects: list[Effect] = [
            StartHeartbeat(self.member, self.generation),
            LogLine(Level.INFO, f"{self._name} joined generation {self.generation}{cause_of(answer)}"),
        ]
        if not leads:
            self._leader = None
            return effects + self._sync({})
        self._leader = LeaderState(answer.members, self._joined_topics, skip=answer.skip_assignment)
        effects += [LogLine(Level.WARNING, f"{self._name}: {text}") for text in self._leader.unreadable]
        self._enter(State.ASSIGNING)
        number = self._pending.begin(Awaited.METADATA)
        return [*effects, NeedMetadata(number, tuple(sorted(self._leader.topics)))]

    def join_failed(self, number: int, error: StrandlineError, now_ms: int) -> list[Effect]:
        return self._failed(error, "join", now_ms) if self._pending.take(Awaited.JOIN, number) else []

    def metadata(self, number: int, partitions: Mapping[str, int], now_ms: int) -> list[Effect]:
        """Partition counts for `NeedMetadata`; a topic that does not exist is absent or 0."""
        if not self._pending.take(Awaited.METADATA, number):
            return []
        assert self._leader is not None
        assignor = self._assignors.get(self.protocol)
        if assignor is None:
            error = InconsistentGroupProtocol(f"the group assigns by {self.protocol!r}, unknown here")
            return self._fail(error, now_ms)
        self._leader.set_counts(partitions)
        try:
            plan = self._leader.assign(self.member, assignor)
        except StrandlineError as error:
            return self._fail(error, now_ms)
        if plan is None:
            return self._sync({})
        effects: list[Effect] = [*plan_lines(self._name, plan.report)]
        return effects + self._sync({name: a.encode() for name, a in plan.assignments.items()})

    def metadata_changed(self, partitions: Mapping[str, int], now_ms: int) -> list[Effect]:
        """Partition counts just read; 0 for a topic that does not exist. Absent topics are unknown."""
        if self._leader is not None:
            self._leader.update_counts(partitions)
        return self._settle(now_ms) if self.state is State.STABLE else []

    # --- after the sync ----------------------------------------------------------------------

    def synced(self, number: int, data: bytes, now_ms: int) -> list[Effect]:
        if not self._pending.take(Awaited.SYNC, number):
            return []
        try:
            taken = take(
                data,
                self._owned,
                self.protocol,
                self._assignors.get(self.protocol),
                generation=self.generation,
                topics=self._joined_topics,
                static=self._settings.instance is not None,
            )
        except StrandlineError as error:
            return self._fail(error, now_ms)
        self._attempts = 0
        received = taken.received
        added, removed = received.added, received.removed
        summary = f"{self._name} in generation {self.generation}: {change_of(received)}"
        effects: list[Effect] = [LogLine(Level.INFO, summary)]
        if added:
            effects.append(self._report(OwnershipKind.ASSIGNED, added, "", now_ms))
        if added or received.first or not self._settings.cooperative:
            effects.append(Assign(added, self._owned.all, self.generation))
        if removed:
            then = Next.JOIN if taken.rejoin else Next.STAY
            return effects + self._release(removed, "partitions move between members", then)
        if taken.rejoin:
            return effects + self._rejoin("partitions move between members", now_ms)
        if taken.stale:
            return effects + self._rejoin("its subscription changed while it was away", now_ms)
        self._enter(State.STABLE)
        if self._leader is not None:
            self._leader.take_note(taken.note)
        return effects + self._settle(now_ms)

    def sync_failed(self, number: int, error: StrandlineError, now_ms: int) -> list[Effect]:
        if not self._pending.take(Awaited.SYNC, number):
            return []
        if isinstance(error, RebalanceInProgress):
            return self._rejoin(error.message, now_ms)
        return self._failed(error, "sync", now_ms)

    def released(self, number: int, now_ms: int) -> list[Effect]:
        """The driver has drained, committed and called on_revoked."""
        if not self._pending.take(Awaited.RELEASE, number):
            return []
        effects: list[Effect] = [self._report(OwnershipKind.REVOKED, self._releasing, self._reason, now_ms)]
        self._owned.release(self._releasing)
        self._releasing = ()
        if self._next is Next.LEAVE:
            return effects + self._leave(self._reason)
        if self._next is Next.JOIN:
            return effects + self._rejoin(self._reason, now_ms)
        if self._next is Next.SEND:
            return effects + self._send_join(now_ms, released=True)
        self._enter(State.STABLE)
        return effects + self._settle(now_ms)

    # --- internal steps -----------------------------------------------------------------------

    def _settle(self, now_ms: int) -> list[Effect]:
        """Stay stable, unless something changed since the last join, or a rebalance was requested."""
        enforced, self._enforced = self._enforced, None
        if enforced is not None:
            return self._rejoin(enforced, now_ms)
        if (self._joined_topics, self._joined_pattern) != (self.topics, self._pattern):
            return self._rejoin(f"subscribed to {few(self.topics)}", now_ms)
        change = None if self._leader is None else self._leader.change()
        return [] if change is None else self._rejoin(change, now_ms)

    def _rejoin(self, reason: str, now_ms: int) -> list[Effect]:
        """Prepare, then join: an eager member first releases everything, a cooperative one nothing."""
        self._reason = reason
        if self.owned and not self._settings.cooperative:
            return self._release(self._owned.all, reason, Next.JOIN)
        return self._send_join(now_ms)

    def _send_join(self, now_ms: int, *, released: bool = False) -> list[Effect]:
        """`released`: the partitions that the assignors named for this join are already released."""
        self._enter(State.JOINING)
        if not self._search.known:
            return self._seek(self._reason)
        assignors = self._assignors.values()
        try:
            first = () if released else released_first(assignors, self.owned)
            if first:
                return self._release(first, self._reason, Next.SEND)
            request = self._settings.join(self.member, self.topics, self._owned, assignors, self._reason)
            request = replace(request, pattern=self._pattern)
        except AssignorFailed as error:
            return self._fail(error, now_ms)
        self._joined_topics, self._joined_pattern = self.topics, self._pattern
        return [SendJoin(self._pending.begin(Awaited.JOIN), request)]

    def _join_later(self) -> list[Effect]:
        """Join after a pause."""
        self._enter(State.JOINING)
        self._attempts += 1
        return [DelayJoin(self._pending.begin(Awaited.PAUSE), self._attempts)]

    def _failed(self, error: StrandlineError, what: str, now_ms: int) -> list[Effect]:
        """A join or a sync was refused, or its answer was lost."""
        if isinstance(error, UnknownMemberId | IllegalGeneration):
            effects = self._expelled(error, what, now_ms)
            if self._attempts:
                return effects + self._join_later()
            self._attempts = 1
            return effects + self._send_join(now_ms)
        if error.outcome is Outcome.FATAL:
            return self._fail(error, now_ms)
        self._reason = f"{what} failed: {error.message}"
        lost = error.outcome is Outcome.UNKNOWN or isinstance(error, NotCoordinator | CoordinatorNotAvailable)
        return [*self._join_later(), *(self._seek(self._reason) if lost else [])]

    def _sync(self, assignments: Mapping[str, bytes]) -> list[Effect]:
        self._enter(State.SYNCING)
        request = self._settings.sync(self.member, self.generation, self.protocol, assignments)
        return [SendSync(self._pending.begin(Awaited.SYNC), request)]

    def _release(self, partitions: Partitions, reason: str, then: Next) -> list[Effect]:
        self._enter(State.RELEASING)
        self._releasing, self._reason, self._next = partitions, reason, then
        return [Revoke(self._pending.begin(Awaited.RELEASE), partitions, reason)]

    def _leave(self, reason: str) -> list[Effect]:
        if self.owned:
            return self._release(self._owned.all, reason, Next.LEAVE)
        return self._depart(State.LEFT, reason)

    def _depart(self, state: State, reason: str) -> list[Effect]:
        """Leave the group, owning nothing. A static member stays in it until its session ends (KIP-345)."""
        assert not self.owned, f"{self._name} departs with {self.owned}"
        effects = self._stop_heartbeat()
        self._enforced = None
        if self._settings.instance is None and self.member != NO_MEMBER:
            effects.append(self._farewell(self.member, reason))
        self._enter(state)
        self._forget(UnknownMemberId)
        return effects

    def _lose(self, reason: str, now_ms: int) -> list[Effect]:
        if not self.owned:
            return []
        lost = self._owned.lose()
        return [Lose(lost, reason), self._report(OwnershipKind.LOST, lost, reason, now_ms)]

    def _expelled(self, error: StrandlineError, what: str, now_ms: int) -> list[Effect]:
        """The group continued without this member: reset only what the error requires (CORRECTNESS G3)."""
        reason = f"{what} refused: {error.message}"
        effects: list[Effect] = [LogLine(Level.WARNING, f"{self._name}: {reason}")]
        effects += self._lose(reason, now_ms)
        effects += self._stop_heartbeat()
        self._forget(type(error))
        if self._leaving:
            return effects + self._depart(State.LEFT, self._reason)
        self._reason = reason
        return effects

    def _forget(self, error: type[StrandlineError]) -> None:
        self.generation = NO_GENERATION
        self._owned.forget()
        self._leader = None
        if error is UnknownMemberId:
            self.member = NO_MEMBER

    def _fail(self, error: StrandlineError, now_ms: int) -> list[Effect]:
        """End the member: it cannot stay in the group."""
        reason = f"fatal: {error.message}"
        effects: list[Effect] = [LogLine(Level.ERROR, f"{self._name}: {reason}")]
        effects += self._lose(reason, now_ms)
        if isinstance(error, FencedInstanceId):
            self.member = NO_MEMBER  # another process has this place now, so this one must not leave it
        return [*effects, *self._depart(State.FATAL, reason), Fatal(error)]

    def _seek(self, reason: str) -> list[Effect]:
        return [FindCoordinator(reason)] if self._search.lost() else []

    def _abandon(self, member: str) -> list[Effect]:
        """An abandoned join succeeded: leave, so that the group does not wait for that member."""
        if self._settings.instance is not None or member in (NO_MEMBER, self.member):
            return []
        return [self._farewell(member, "its join was given up")]

    def _stop_heartbeat(self) -> list[Effect]:
        """Also while a join is pending: its answer would start heartbeats that nothing stops."""
        needed, self._heartbeating = self._heartbeating or self._pending.awaited is Awaited.JOIN, False
        return [StopHeartbeat()] if needed else []

    def _farewell(self, member: str, reason: str) -> SendLeave:
        return SendLeave(self._settings.farewell(member, reason))

    def _report(self, kind: OwnershipKind, partitions: Partitions, reason: str, now_ms: int) -> Report:
        request = self._settings.report(self.member, self.generation, kind, partitions, reason, now_ms)
        return Report(request)

    def _enter(self, wanted: State) -> None:
        """Every transition. Pending answers of the previous state are ignored from here on."""
        self.state = transition(self._name, self.state, wanted)
        self._pending.drop()

    @property
    def _leaving(self) -> bool:
        """True while a release before leaving is in progress."""
        return self.state is State.RELEASING and self._next is Next.LEAVE

    @property
    def _name(self) -> str:
        return f"member {self.member or '(new)'} of group {self._settings.group}"
