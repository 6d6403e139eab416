"""The state machine of a group member whose coordinator assigns (KIP-848), until it leaves.

Its inputs are events, its outputs the effects for the driver; states and effects are those of a member whose
leader assigns, without the states of a rebalance: there is none that the member would take part in. Each
answer to a heartbeat may name the partitions that the member is to have. It takes those that are new, and
releases those that are missing, while it goes on reading all others; then it says what it owns, and the
coordinator gives to others what was released. A member owns a partition from its `Assign` until the release
of a `Revoke` has ended, or until `Lose`.

A member whom the coordinator has given up (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID) loses everything at once
and joins again, with epoch 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from strandline import states
from strandline.consumer.core.assigned.settings import AssignedSettings
from strandline.consumer.core.member_effects import (
    Assign,
    Effect,
    Fatal,
    FindCoordinator,
    Level,
    LogLine,
    Lose,
    Revoke,
    Say,
    SendFarewell,
    StopHeartbeat,
)
from strandline.consumer.core.member_log import few
from strandline.consumer.core.member_states import IN_GROUP, Awaited, Next, Pending, Search, State
from strandline.consumer.core.ownership import Partitions
from strandline.errors import (
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupIdNotFound,
    InvalidRequest,
    NotCoordinator,
    Outcome,
    StrandlineError,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.groups import JOINS, NO_GENERATION, NO_MEMBER, ConsumerBeat

EXPELLED: Final = (FencedMemberEpoch, UnknownMemberId, GroupIdNotFound)
"""The coordinator may have given the member's partitions to others."""

_S = State
_ENDS: Final = frozenset({_S.OVERDUE, _S.LEFT, _S.FATAL})

LEGAL: Final[dict[State, frozenset[State]]] = {
    _S.UNJOINED: frozenset({_S.JOINING, _S.LEFT}),
    _S.JOINING: frozenset({_S.JOINING, _S.STABLE}) | _ENDS,
    _S.STABLE: frozenset({_S.RELEASING, _S.JOINING}) | _ENDS,
    # A partial release may be followed by a full one, if the member leaves meanwhile.
    _S.RELEASING: frozenset({_S.RELEASING, _S.STABLE, _S.JOINING}) | _ENDS,
    _S.OVERDUE: frozenset({_S.JOINING, _S.LEFT}),
    _S.LEFT: frozenset({_S.JOINING}),
    _S.FATAL: frozenset(),
}
"""The transitions of this kind of member: it joins, and is stable with the first answer."""


class AssignedMembership:
    """The state machine. Every method returns the effects to carry out, in order."""

    watched: Final = frozenset[str]()
    """The coordinator watches the topics."""

    def __init__(self, settings: AssignedSettings) -> None:
        self._settings = settings
        self.state = State.UNJOINED
        self.member = NO_MEMBER
        self.generation = NO_GENERATION
        """The member's epoch, as of the last answer."""
        self.topics: tuple[str, ...] = ()
        self._owned: dict[TopicPartition, TopicId] = {}
        self._target: Mapping[TopicPartition, TopicId] = {}
        """What the coordinator wants this member to have."""
        self._assigned = False
        """True from the first assignment since the member joined."""
        self._joined_in: int | None = None
        """The epoch of the first answer since then; None before it."""
        self._heard = 0
        """Calls of `answered`."""
        self._unsaid = False
        """True while a join waits for a coordinator. Once it is said, it is repeated until it is answered."""
        self._waits = False
        """True while a join waits for another process of this instance, which may be gone already."""
        self._pending = Pending()
        self._releasing: Partitions = ()
        self._next = Next.STAY
        self._reason = ""
        self._search = Search()

    @property
    def protocol(self) -> str:
        """The assignor that the member asks for; empty: the coordinator chooses."""
        return self._settings.assignor or ""

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """From the `Assign` on, until a release has ended or `Lose`."""
        return frozenset(self._owned)

    # --- calls of the application ------------------------------------------------------------

    def subscribed(self, topics: Iterable[str], member: str) -> list[Effect]:
        """Subscribe to these topics, and no others. They need not exist. `member` is the id to join with, if
        the member is in no group."""
        self.topics = tuple(sorted(set(topics)))
        if self.state in (State.UNJOINED, State.LEFT):
            self.member = member
            return self._join(f"subscribed to {few(self.topics)}")
        return [self._say()] if self.state in IN_GROUP and not self._leaving else []

    def polled(self, member: str) -> list[Effect]:
        """The application requested records; this matters only to an overdue member, which joins with this
        id."""
        if self.state is not State.OVERDUE:
            return []
        self.member = member
        return self._join("records are asked for again")

    def poll_overdue(self) -> list[Effect]:
        """No get call came for longer than `max_poll_interval_ms`: leave, and let others read."""
        if self.state not in IN_GROUP:
            return []
        reason = "no get call within max_poll_interval_ms"
        effects: list[Effect] = [LogLine(Level.WARNING, f"{self._name} leaves: {reason}")]
        return effects + self._lose(reason) + self._depart(State.LEFT if self._leaving else State.OVERDUE)

    def enforced(self) -> list[Effect]:
        """Raises InvalidRequest: a member cannot ask for another assignment."""
        raise InvalidRequest(
            f'{self._name} has group_protocol="consumer": its coordinator assigns anew when members or '
            "topics change, and at no other time"
        )

    def leave(self, reason: str) -> list[Effect]:
        """Release everything, then leave. The place of a static member is kept for its session timeout."""
        if self.state in (State.UNJOINED, State.OVERDUE):
            self._enter(State.LEFT)
        elif self.state is State.RELEASING:
            self._next, self._reason = Next.LEAVE, reason
        elif self.state in IN_GROUP:
            return self._leave(reason)
        return []

    # --- the coordinator ---------------------------------------------------------------------

    def coordinator_found(self) -> list[Effect]:
        self._search.found()
        return [self._say()] if self.state is State.JOINING and self._unsaid else []

    def coordinator_lost(self) -> list[Effect]:
        """The connection broke, or another broker coordinates now. The membership stays valid."""
        return self._seek("the coordinator was lost") if self.state in IN_GROUP else []

    def answered(self, epoch: int, answer: ConsumerBeat) -> list[Effect]:
        """A heartbeat of this epoch was answered with another epoch or with an assignment."""
        self._heard += 1
        of_before = answer.member != self.member or epoch != self.generation
        if self.state not in IN_GROUP or of_before:
            return []
        self.generation = answer.epoch
        self._joined_in = answer.epoch if self._joined_in is None else self._joined_in
        if answer.assignment is None:
            return []
        named = ((answer.names.get(key.topic_id), key) for key in answer.assignment)
        self._target = {
            TopicPartition(name, key.partition): key.topic_id for name, key in named if name is not None
        }
        return self._reconcile()

    def heartbeat_failed(self, member: str, epoch: int, error: StrandlineError) -> list[Effect]:
        """A heartbeat of this member in this epoch was refused."""
        return self._refused(member, error, "heartbeat") if epoch == self.generation else []

    def commit_failed(self, member: str, epoch: int, error: StrandlineError) -> list[Effect]:
        """A commit of this member was refused. One from before it joined again says nothing about it: it has
        kept its id."""
        of_before = self._joined_in is None or epoch < self._joined_in
        if of_before or not isinstance(error, EXPELLED):
            return []
        return self._refused(member, error, "commit")

    def _refused(self, member: str, error: StrandlineError, what: str) -> list[Effect]:
        if self.state not in IN_GROUP or member != self.member:
            return []
        match error:
            case _ if isinstance(error, EXPELLED) and self.generation != JOINS:
                return self._expelled(error, what)
            case NotCoordinator() | CoordinatorNotAvailable():
                return self.coordinator_lost()
            case UnreleasedInstanceId() if self.generation == JOINS:
                return self._wait(error)
            case _ if error.outcome is Outcome.FATAL:
                return self._fail(error)
        return []

    def _wait(self, error: StrandlineError) -> list[Effect]:
        """The schedule repeats the join. A process that was killed is out after its session timeout, so its
        successor need not be started once more."""
        waited, self._waits = self._waits, True
        return [] if waited else [LogLine(Level.WARNING, f"{self._name} waits: {error.message}")]

    # --- the assignment ----------------------------------------------------------------------

    def released(self, number: int) -> list[Effect]:
        """The driver has drained, committed and called on_revoked."""
        if not self._pending.take(Awaited.RELEASE, number):
            return []
        for name in self._releasing:
            del self._owned[name]
        self._releasing = ()
        if self._next is Next.LEAVE:
            return self._leave(self._reason)
        self._enter(State.STABLE)
        return [self._say(), *self._reconcile()]

    def _reconcile(self) -> list[Effect]:
        """Take what is new, and release what the target lacks, one release at a time."""
        if self.state is State.RELEASING:
            return []
        removed = tuple(sorted(n for n, topic_id in self._owned.items() if self._target.get(n) != topic_id))
        added = tuple(sorted(self._target.keys() - self._owned.keys()))
        effects: list[Effect] = []
        if added or removed or not self._assigned:
            kept = len(self._owned) - len(removed)
            summary = f"{len(added)} added, {len(removed)} to be revoked, {kept} kept"
            effects.append(LogLine(Level.INFO, f"{self._name} in epoch {self.generation}: {summary}"))
        if added or not self._assigned:
            self._owned |= {name: self._target[name] for name in added}
            effects.append(Assign(added, tuple(sorted(self._owned)), self.generation))
        self._assigned = True
        if removed:
            return [*effects, *self._release(removed, "the coordinator gives them to others", Next.STAY)]
        if self.state is State.JOINING:
            self._enter(State.STABLE)
        return effects

    def _release(self, partitions: Partitions, reason: str, then: Next) -> list[Effect]:
        self._enter(State.RELEASING)
        self._releasing, self._reason, self._next = partitions, reason, then
        return [Revoke(self._pending.begin(Awaited.RELEASE), partitions, reason)]

    # --- joining and leaving -----------------------------------------------------------------

    def _join(self, reason: str) -> list[Effect]:
        self._enter(State.JOINING)
        self.generation = JOINS
        self._target, self._assigned, self._joined_in = {}, False, None
        self._unsaid, self._waits = not self._search.known, False
        first = self._seek(reason) if self._unsaid else [self._say()]
        return [LogLine(Level.INFO, f"{self._name} joins: {reason}"), *first]

    def _say(self) -> Say:
        """What the member was given and takes next counts as owned: what is left out is given up."""
        self._unsaid = False
        items = (*self._owned.items(), *self._target.items())
        owned = tuple({PartitionKey(topic_id, PartitionId(name.partition)): None for name, topic_id in items})
        request = self._settings.heartbeat(self.member, self.generation, self.topics, owned)
        return Say(request, self._heard)

    def _leave(self, reason: str) -> list[Effect]:
        if self._owned:
            return self._release(tuple(sorted(self._owned)), reason, Next.LEAVE)
        return self._depart(State.LEFT)

    def _depart(self, state: State) -> list[Effect]:
        """Leave the group, owning nothing."""
        assert not self._owned, f"{self._name} departs with {sorted(self._owned)}"
        effects: list[Effect] = [StopHeartbeat()]
        if self.member != NO_MEMBER:
            effects.append(SendFarewell(self._settings.farewell(self.member)))
        self._enter(state)
        self.member, self.generation = NO_MEMBER, NO_GENERATION
        return effects

    def _lose(self, reason: str) -> list[Effect]:
        lost = tuple(sorted(self._owned))
        self._owned.clear()
        return [Lose(lost, reason)] if lost else []

    def _expelled(self, error: StrandlineError, what: str) -> list[Effect]:
        reason = f"{what} refused: {error.message}"
        effects: list[Effect] = [LogLine(Level.WARNING, f"{self._name}: {reason}"), *self._lose(reason)]
        if self._leaving:
            self.member = NO_MEMBER
            return effects + self._depart(State.LEFT)
        return [*effects, StopHeartbeat(), *self._join(reason)]

    def _fail(self, error: StrandlineError) -> list[Effect]:
        """End the member: it cannot stay in the group."""
        reason = f"fatal: {error.message}"
        effects: list[Effect] = [LogLine(Level.ERROR, f"{self._name}: {reason}"), *self._lose(reason)]
        if self.generation == JOINS:
            self.member = NO_MEMBER  # it never joined; the instance may be another process
        return [*effects, *self._depart(State.FATAL), Fatal(error)]

    def _seek(self, reason: str) -> list[Effect]:
        return [FindCoordinator(reason)] if self._search.lost() else []

    def _enter(self, wanted: State) -> None:
        """Every transition. Pending answers of the previous state are ignored from here on."""
        self.state = states.transition(self._name, self.state, wanted, LEGAL)
        self._pending.drop()

    @property
    def _leaving(self) -> bool:
        """True while a release before leaving is in progress."""
        return self.state is State.RELEASING and self._next is Next.LEAVE

    @property
    def _name(self) -> str:
        return f"member {self.member or '(new)'} of group {self._settings.group}"
