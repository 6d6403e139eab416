"""A coordinator as a member sees one: Kafka's classic group protocol for one group, without time or a log.

A model for the members' tests. Calls are answered in `answers`, by token, when they are; sessions and
rebalances end when a test says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from strandline.errors import (
    IllegalGeneration,
    NotCoordinator,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.vocabulary.groups import GroupMember, Joined, JoinGroup, MemberIdGiven, SyncGroup

Token = int
Answer = Joined | MemberIdGiven | bytes | StrandlineError | None


class Phase(Enum):
    EMPTY = "empty"
    PREPARING = "preparing"
    COMPLETING = "completing"
    STABLE = "stable"


@dataclass
class Known:
    """A member of the group. `join` and `sync` are the tokens of its calls that wait."""

    request: JoinGroup
    join: Token | None = None
    sync: Token | None = None
    assignment: bytes = b""


class Coordinator:
    def __init__(self) -> None:
        self.phase = Phase.EMPTY
        self.generation = 0
        self.leader = ""
        self.members: dict[str, Known] = {}
        self.pending: set[str] = set()
        self.removed: list[str] = []
        """Every member that the group no longer knows, for tests that clean up after it."""
        self.answers: list[tuple[Token, Answer]] = []
        self._ids = 0
        self._cause = ("", "")

    def join(self, token: Token, request: JoinGroup) -> None:
        name = request.member
        if not name:
            self._ids += 1
            name = f"{request.client_id}-{self._ids}"
            self.pending.add(name)
            return self._answer(token, MemberIdGiven(name))
        known = self.members.get(name)
        if known is None:
            if name not in self.pending:
                return self._answer(token, UnknownMemberId(f"no member {name}"))
            self.pending.remove(name)
            self.members[name] = Known(request, join=token)
            return self._prepare(request.reason, name)
        same = known.request.protocols == request.protocols
        known.request = request
        if known.join is not None:
            self._answer(known.join, RebalanceInProgress("joined again"))
        if self.phase is Phase.COMPLETING and same:
            return self._answer(token, self._joined(name))
        if self.phase is Phase.STABLE and same and name != self.leader:
            return self._answer(token, self._joined(name))
        known.join = token
        return self._prepare(request.reason, name)

    def sync(self, token: Token, request: SyncGroup) -> None:
        error = self.refusal(request.member, request.generation)
        if error is not None:
            return self._answer(token, error)
        known = self.members[request.member]
        if self.phase is Phase.STABLE:
            return self._answer(token, known.assignment)
        known.sync = token
        if request.member == self.leader:
            for name, member in self.members.items():
                member.assignment = request.assignments.get(name, b"")
            self.phase = Phase.STABLE
            for member in self.members.values():
                if member.sync is not None:
                    self._answer(member.sync, member.assignment)
                    member.sync = None

    def heartbeat(self, token: Token, member: str, generation: int, _instance: str | None = None) -> None:
        self._answer(token, self.refusal(member, generation))

    def refusal(self, member: str, generation: int) -> StrandlineError | None:
        """The refusal of a heartbeat, and first of all of a sync."""
        if member not in self.members:
            return UnknownMemberId(f"no member {member}")
        if generation != self.generation:
            return IllegalGeneration(f"generation {generation}, not {self.generation}")
        if self.phase is Phase.PREPARING:
            return RebalanceInProgress("{} (caused by {})".format(*self._cause))
        return None

    def remove(self, name: str, reason: str) -> None:
        """It left, or its session ended."""
        self.pending.discard(name)
        known = self.members.pop(name, None)
        if known is None:
            return
        self.removed.append(name)
        for token in (known.join, known.sync):
            if token is not None:
                self._answer(token, UnknownMemberId(f"{name} left"))
        self._prepare(reason, name)

    def rebalance(self, reason: str) -> None:
        """An administrator wants a new generation."""
        if self.members:
            self._prepare(reason, "")

    def time_is_up(self) -> None:
        """Members that did not join the rebalance in time are removed."""
        if self.phase is Phase.PREPARING:
            for name in [name for name, known in self.members.items() if known.join is None]:
                del self.members[name]
                self.removed.append(name)
            self._complete()

    def session_passes(self, _beats: Iterable[tuple[str, int]]) -> None:
        """An unused member id delays no rebalance here."""
        self.pending.clear()

    def hand_over(self) -> None:
        """Another broker coordinates: what was written down stands, calls that wait are answered."""
        for known in self.members.values():
            for token in (known.join, known.sync):
                if token is not None:
                    self._answer(token, NotCoordinator("moved"))
            known.join = known.sync = None
        if self.phase is Phase.COMPLETING:  # an assignment that is not written
            self._prepare("the coordinator moved", "")

    def _prepare(self, reason: str, by: str) -> None:
        if self.phase is not Phase.PREPARING:
            self._cause = (reason, by)
        for known in self.members.values():
            if known.sync is not None:
                self._answer(known.sync, RebalanceInProgress(reason))
                known.sync = None
        self.phase = Phase.PREPARING
        self._complete()

    def _complete(self) -> None:
        if not self.members:
            self.phase, self.leader = Phase.EMPTY, ""
            return
        if any(known.join is None for known in self.members.values()):
            return
        self.generation += 1
        self.phase = Phase.COMPLETING
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        for name, known in self.members.items():
            assert known.join is not None
            self._answer(known.join, self._joined(name))
            known.join = None

    def _joined(self, name: str) -> Joined:
        members = tuple(GroupMember(n, k.request.protocols[0].metadata) for n, k in self.members.items())
        protocol = self.members[name].request.protocols[0].name
        return Joined(
            name,
            self.generation,
            protocol,
            self.leader,
            members if name == self.leader else (),
            reason=self._cause[0],
            caused_by=self._cause[1],
        )

    def _answer(self, token: Token, answer: Answer) -> None:
        self.answers.append((token, answer))
