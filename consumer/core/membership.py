"""A member of a consumer group, from its first join to its leaving (KIP-429).

What happened goes in, what the driver has to do comes out. The states and their order are in
`member_states`, the effects in `member_effects`. What a member owns is `owned`: from its `Assign` until
the release of a `Revoke` has ended, or until `Lose`. Times are milliseconds of the wall clock.

A rebalance begins in one of five ways, KIP-429's (a) to (e), and each goes through `_rejoin`, so that an
eager member never joins with partitions (CORRECTNESS G5):

    a  the subscription or the partition counts changed   keep everything, and say what is owned
    b  REBALANCE_IN_PROGRESS                              the same
    c  MEMBER_ID_REQUIRED                                 the same, with the member id
    d  UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION              reset just that, lose everything, join again
    e  NEEDS_REJOIN                                       release what was named, join again at once

Just before a join is sent, the assignors are asked what the member gives up for it: that is released first,
and then the join goes out whatever they would say by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import count

from strandline.consumer.core.assignors.assignor import Assignor, AssignorFailed, released_first
from strandline.consumer.core.leader import Consensus
from strandline.consumer.core.leading import Leading
from strandline.consumer.core.member_effects import (
    Assign,
    BackOff,
    Effect,
    Fatal,
    FindCoordinator,
    Level,
    Lose,
    NeedMetadata,
    Report,
    Revoke,
    SendJoin,
    SendLeave,
    SendSync,
    StartHeartbeat,
    StopHeartbeat,
    Tell,
)
from strandline.consumer.core.member_requests import MemberSettings
from strandline.consumer.core.member_states import IN_GROUP, State, transition
from strandline.consumer.core.member_words import cause_of, change_of, few
from strandline.consumer.core.ownership import Ownership, Partitions
from strandline.consumer.core.receiving import take
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


class _Then(Enum):
    """What follows a release."""

    JOIN = "join"
    SEND = "send the join that it came before"
    STAY = "stay"
    LEAVE = "leave"


class Membership:
    """The state machine. Every method returns what to do, in order."""

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor]) -> None:
        self._settings = settings
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self.state = State.UNJOINED
        self.member = NO_MEMBER
        self.generation = NO_GENERATION
        self.protocol = ""
        """Name of the assignor of this generation."""
        self.topics: tuple[str, ...] = ()
        self._owned = Ownership()
        self._leading: Leading | None = None
        """Not None while this member leads its generation."""
        self._joined_topics: tuple[str, ...] = ()
        """What the last join asked for."""
        self._numbers = count(1)
        self._number = 0
        """Names the one answer that is waited for."""
        self._asked = False
        """True while a JoinGroup is under way; its state may be a pause or a search instead."""
        self._pausing = False
        self._attempts = 0
        """Failures since the last assignment."""
        self._beating = False
        self._coordinator_known = False
        self._coordinator_sought = False
        self._why = ""
        """Why the member joins, releases or leaves."""
        self._enforced: str | None = None
        """Why another rebalance is asked for, once this one has ended."""
        self._releasing: Partitions = ()
        self._then = _Then.STAY

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """From the `Assign` on, until a release has ended or `Lose`."""
        return self._owned.partitions

    @property
    def watched(self) -> frozenset[str]:
        """Topics whose partition counts `metadata_changed` should tell: those of the group, if it leads."""
        return frozenset() if self._leading is None else self._leading.topics

    # --- what the application does -----------------------------------------------------------

    def subscribed(self, topics: Iterable[str], now_ms: int) -> list[Effect]:
        """These topics are wanted, and no others. They need not exist."""
        self.topics = tuple(sorted(set(topics)))
        if self.state in (State.UNJOINED, State.LEFT):
            return self._rejoin(f"subscribed to {few(self.topics)}", now_ms)
        return self._settle(now_ms) if self.state is State.STABLE else []

    def polled(self, now_ms: int) -> list[Effect]:
        """Records are asked for. Only an overdue member need be told."""
        if self.state is State.OVERDUE:
            return self._rejoin("records are asked for again", now_ms)
        return []

    def poll_overdue(self, now_ms: int) -> list[Effect]:
        """Nobody asked for records for longer than `max_poll_interval_ms`: others go on instead."""
        if self.state not in IN_GROUP:
            return []
        reason = "no get call within max_poll_interval_ms"
        effects: list[Effect] = [Tell(Level.WARNING, f"{self._who} leaves: {reason}")]
        effects += self._lose(reason, now_ms)
        return effects + self._depart(State.LEFT if self._leaving else State.OVERDUE, reason)

    def enforced(self, reason: str, now_ms: int) -> list[Effect]:
        """A rebalance is asked for (KIP-568): at once, or one more after the one that is under way. An
        overdue member joins with the next get call anyway. Raises InvalidRequest outside the group."""
        if self.state is State.OVERDUE:
            return []
        if self.state not in IN_GROUP or self._leaving:
            raise InvalidRequest(f"{self._who} is {self.state.value}: in no group that could rebalance")
        if self._enforced is None:
            self._enforced = reason
        return self._settle(now_ms) if self.state is State.STABLE else []

    def leave(self, reason: str, now_ms: int) -> list[Effect]:
        """Release everything, then leave. A static member stays known until its session ends (KIP-345)."""
        if self.state in (State.UNJOINED, State.OVERDUE):
            self._enter(State.LEFT)
        elif self.state is State.RELEASING:
            self._then, self._why = _Then.LEAVE, reason
        elif self.state in IN_GROUP:
            return self._leave(reason)
        return []

    # --- the coordinator ---------------------------------------------------------------------

    def coordinator_found(self, now_ms: int) -> list[Effect]:
        self._coordinator_known, self._coordinator_sought = True, False
        if self.state is State.JOINING and not (self._asked or self._pausing):
            return self._send_join(now_ms)
        return []

    def coordinator_lost(self, now_ms: int) -> list[Effect]:
        """The connection broke, or another broker coordinates now. The membership stands."""
        return self._seek("the coordinator was lost") if self.state in IN_GROUP else []

    def backed_off(self, number: int, now_ms: int) -> list[Effect]:
        """The pause is over."""
        if self.state is State.JOINING and self._pausing and number == self._number:
            self._pausing = False
            return self._send_join(now_ms)
        return []

    def heartbeat_failed(
        self, member: str, generation: int, error: StrandlineError, now_ms: int
    ) -> list[Effect]:
        """A heartbeat that was sent as this member, in this generation, was refused."""
        return self._refused(member, generation, error, "heartbeat", now_ms)

    def commit_failed(
        self, member: str, generation: int, error: StrandlineError, now_ms: int
    ) -> list[Effect]:
        """A commit that was sent as this member, in this generation, was refused."""
        return self._refused(member, generation, error, "commit", now_ms)

    def _refused(
        self, member: str, generation: int, error: StrandlineError, what: str, now_ms: int
    ) -> list[Effect]:
        if self.state not in IN_GROUP or (member, generation) != (self.member, self.generation):
            return []  # it speaks of what this member no longer is (CORRECTNESS G4)
        match error:
            case IllegalGeneration() if self.state is State.JOINING:
                pass  # of the generation that it is leaving: the next may be there, its answer on the way
            case UnknownMemberId() | IllegalGeneration():
                effects = self._expelled(error, what, now_ms)
                return effects if self.state is State.LEFT else effects + self._send_join(now_ms)
            case FencedInstanceId():
                return self._fail(error, now_ms)
            case RebalanceInProgress() if self.state is State.STABLE:
                return self._rejoin(error.message, now_ms)
            case RebalanceInProgress() if self._then is _Then.STAY and self.state is State.RELEASING:
                self._then, self._why = _Then.JOIN, error.message
            case NotCoordinator() | CoordinatorNotAvailable():
                return self.coordinator_lost(now_ms)
        return []

    # --- joining -----------------------------------------------------------------------------

    def joined(self, number: int, answer: Joined | MemberIdGiven, now_ms: int) -> list[Effect]:
        if self.state is not State.JOINING or not self._asked or number != self._number:
            return self._abandon(answer.member)
        self._asked = False
        if isinstance(answer, MemberIdGiven):
            given_before, self.member = self.member != NO_MEMBER, answer.member
            return self._try_again() if given_before else self._send_join(now_ms)
        # Whoever commits from here on, in a listener too, commits in the new generation (CORRECTNESS G11).
        self.member, self.generation = answer.member, answer.generation
        self.protocol = answer.protocol
        self._beating = True
        leads = answer.leader == answer.member
        effects: list[Effect] = [
            StartHeartbeat(self.member, self.generation),
            Tell(Level.INFO, f"{self._who} joined generation {self.generation}{cause_of(answer)}"),
        ]
        if not leads:
            self._leading = None
            return effects + self._sync({})
        self._leading = Leading(answer.members, self._joined_topics, skip=answer.skip_assignment)
        effects += [Tell(Level.WARNING, f"{self._who}: {text}") for text in self._leading.unreadable]
        self._enter(State.ASSIGNING)
        self._number = next(self._numbers)
        return [*effects, NeedMetadata(self._number, tuple(sorted(self._leading.topics)))]

    def join_failed(self, number: int, error: StrandlineError, now_ms: int) -> list[Effect]:
        if self.state is not State.JOINING or not self._asked or number != self._number:
            return []
        self._asked = False
        return self._failed(error, "join", now_ms)

    def metadata(self, number: int, partitions: Mapping[str, int], now_ms: int) -> list[Effect]:
        """Partition counts of what `NeedMetadata` asked for; a topic that does not exist is absent or 0."""
        if self.state is not State.ASSIGNING or number != self._number:
            return []
        assert self._leading is not None
        assignor = self._assignors.get(self.protocol)
        if assignor is None:
            error = InconsistentGroupProtocol(f"the group assigns by {self.protocol!r}, unknown here")
            return self._fail(error, now_ms)
        self._leading.know(partitions)
        try:
            plan = self._leading.assign(self.member, assignor)
        except StrandlineError as error:
            return self._fail(error, now_ms)
        if plan is None:
            return self._sync({})
        effects: list[Effect] = []
        if plan.report.consensus is Consensus.MIXED:
            effects.append(Tell(Level.WARNING, f"{self._who}: {plan.report}"))
        elif plan.report.revoked:
            effects.append(Tell(Level.INFO, f"{self._who}: {plan.report}"))
        return effects + self._sync({name: a.encode() for name, a in plan.assignments.items()})

    def metadata_changed(self, partitions: Mapping[str, int], now_ms: int) -> list[Effect]:
        """Partition counts that were just read; 0 for a topic that does not exist, others unknown."""
        if self._leading is not None:
            self._leading.saw(partitions)
        return self._settle(now_ms) if self.state is State.STABLE else []

    # --- after the sync ----------------------------------------------------------------------

    def synced(self, number: int, data: bytes, now_ms: int) -> list[Effect]:
        if self.state is not State.SYNCING or number != self._number:
            return []
        try:
            taken = take(
                data,
                self._owned,
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
        words = f"{self._who} in generation {self.generation}: {change_of(received)}"
        effects: list[Effect] = [Tell(Level.INFO, words)]
        if added:
            effects.append(self._report(OwnershipKind.ASSIGNED, added, "", now_ms))
        if added or received.first or not self._settings.cooperative:
            effects.append(Assign(added, self._owned.all, self.generation))
        if removed:
            then = _Then.JOIN if taken.rejoin else _Then.STAY
            return effects + self._release(removed, "partitions move between members", then)
        if taken.rejoin:
            return effects + self._rejoin("partitions move between members", now_ms)
        if taken.stale:
            return effects + self._rejoin("its subscription changed while it was away", now_ms)
        self._enter(State.STABLE)
        if self._leading is not None:
            self._leading.returned(taken.note)
        return effects + self._settle(now_ms)

    def sync_failed(self, number: int, error: StrandlineError, now_ms: int) -> list[Effect]:
        if self.state is not State.SYNCING or number != self._number:
            return []
        if isinstance(error, RebalanceInProgress):
            return self._rejoin(error.message, now_ms)
        return self._failed(error, "sync", now_ms)

    def released(self, number: int, now_ms: int) -> list[Effect]:
        """The driver has drained, committed and called on_revoked."""
        if self.state is not State.RELEASING or number != self._number:
            return []
        effects: list[Effect] = [self._report(OwnershipKind.REVOKED, self._releasing, self._why, now_ms)]
        self._owned.release(self._releasing)
        self._releasing = ()
        if self._then is _Then.LEAVE:
            return effects + self._leave(self._why)
        if self._then is _Then.JOIN:
            return effects + self._rejoin(self._why, now_ms)
        if self._then is _Then.SEND:
            return effects + self._send_join(now_ms, asked=True)
        self._enter(State.STABLE)
        return effects + self._settle(now_ms)

    # --- the steps ---------------------------------------------------------------------------

    def _settle(self, now_ms: int) -> list[Effect]:
        """Stable, unless something changed since the join that led here, or another one is asked for."""
        enforced, self._enforced = self._enforced, None
        if enforced is not None:
            return self._rejoin(enforced, now_ms)
        if self._joined_topics != self.topics:
            return self._rejoin(f"subscribed to {few(self.topics)}", now_ms)
        change = None if self._leading is None else self._leading.change()
        return [] if change is None else self._rejoin(change, now_ms)

    def _rejoin(self, reason: str, now_ms: int) -> list[Effect]:
        """Prepare, then join: an eager member gives everything back before, a cooperative one nothing."""
        self._why = reason
        if self.owned and not self._settings.cooperative:
            return self._release(self._owned.all, reason, _Then.JOIN)
        return self._send_join(now_ms)

    def _send_join(self, now_ms: int, *, asked: bool = False) -> list[Effect]:
        """`asked`: what the assignors wanted released before this join, is."""
        self._enter(State.JOINING)
        self._pausing = False
        if not self._coordinator_known:
            return self._seek(self._why)
        assignors = self._assignors.values()
        try:
            first = () if asked else released_first(assignors, self.owned)
            if first:
                return self._release(first, self._why, _Then.SEND)
            request = self._settings.join(self.member, self.topics, self._owned, assignors, self._why)
        except AssignorFailed as error:
            return self._fail(error, now_ms)
        self._asked = True
        self._number = next(self._numbers)
        self._joined_topics = self.topics
        return [SendJoin(self._number, request)]

    def _try_again(self) -> list[Effect]:
        """Join after a pause."""
        self._enter(State.JOINING)
        self._asked, self._pausing = False, True
        self._attempts += 1
        self._number = next(self._numbers)
        return [BackOff(self._number, self._attempts)]

    def _failed(self, error: StrandlineError, what: str, now_ms: int) -> list[Effect]:
        """A join or a sync was refused, or its answer is lost."""
        if isinstance(error, UnknownMemberId | IllegalGeneration):
            effects = self._expelled(error, what, now_ms)
            if self._attempts:
                return effects + self._try_again()
            self._attempts = 1
            return effects + self._send_join(now_ms)
        if error.outcome is Outcome.FATAL:
            return self._fail(error, now_ms)
        self._why = f"{what} failed: {error.message}"
        lost = error.outcome is Outcome.UNKNOWN or isinstance(error, NotCoordinator | CoordinatorNotAvailable)
        return [*self._try_again(), *(self._seek(self._why) if lost else [])]

    def _sync(self, assignments: Mapping[str, bytes]) -> list[Effect]:
        self._enter(State.SYNCING)
        self._number = next(self._numbers)
        request = self._settings.sync(self.member, self.generation, self.protocol, assignments)
        return [SendSync(self._number, request)]

    def _release(self, partitions: Partitions, reason: str, then: _Then) -> list[Effect]:
        self._enter(State.RELEASING)
        self._number = next(self._numbers)
        self._releasing, self._why, self._then = partitions, reason, then
        return [Revoke(self._number, partitions, reason)]

    def _leave(self, reason: str) -> list[Effect]:
        if self.owned:
            return self._release(self._owned.all, reason, _Then.LEAVE)
        return self._depart(State.LEFT, reason)

    def _depart(self, state: State, reason: str) -> list[Effect]:
        """Out of the group, owning nothing. A static member is known until its session ends (KIP-345)."""
        assert not self.owned, f"{self._who} departs with {self.owned}"
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
        """The group went on without this member: reset what the error says and no more (CORRECTNESS G3)."""
        reason = f"{what} refused: {error.message}"
        effects: list[Effect] = [Tell(Level.WARNING, f"{self._who}: {reason}"), *self._lose(reason, now_ms)]
        effects += self._stop_heartbeat()
        self._forget(type(error))
        if self._leaving:
            return effects + self._depart(State.LEFT, self._why)
        self._why = reason
        return effects

    def _forget(self, error: type[StrandlineError]) -> None:
        self.generation = NO_GENERATION
        self._owned.forget()
        self._leading = None
        if error is UnknownMemberId:
            self.member = NO_MEMBER

    def _fail(self, error: StrandlineError, now_ms: int) -> list[Effect]:
        """The group and this member cannot go on together."""
        reason = f"fatal: {error.message}"
        effects: list[Effect] = [Tell(Level.ERROR, f"{self._who}: {reason}"), *self._lose(reason, now_ms)]
        if isinstance(error, FencedInstanceId):
            self.member = NO_MEMBER  # another process has this place now: it is not ours to leave
        return [*effects, *self._depart(State.FATAL, reason), Fatal(error)]

    def _seek(self, reason: str) -> list[Effect]:
        self._coordinator_known = False
        if self._coordinator_sought:
            return []
        self._coordinator_sought = True
        return [FindCoordinator(reason)]

    def _abandon(self, member: str) -> list[Effect]:
        """A join succeeded that nobody waits for any more: the group must not wait for that member."""
        if self._settings.instance is not None or member in (NO_MEMBER, self.member):
            return []
        return [self._farewell(member, "its join was given up")]

    def _stop_heartbeat(self) -> list[Effect]:
        beating, self._beating = self._beating, False
        return [StopHeartbeat()] if beating else []

    def _farewell(self, member: str, reason: str) -> SendLeave:
        return SendLeave(self._settings.farewell(member, reason))

    def _report(self, kind: OwnershipKind, partitions: Partitions, reason: str, now_ms: int) -> Report:
        request = self._settings.report(self.member, self.generation, kind, partitions, reason, now_ms)
        return Report(request)

    def _enter(self, wanted: State) -> None:
        """Every transition. What was waited for before counts for nothing from here on."""
        self.state = transition(self._who, self.state, wanted)
        self._asked = self._pausing = False

    @property
    def _leaving(self) -> bool:
        """True while everything is released, or what is to be released before that."""
        return self.state is State.RELEASING and self._then is _Then.LEAVE

    @property
    def _who(self) -> str:
        return f"member {self.member or '(new)'} of group {self._settings.group}"
