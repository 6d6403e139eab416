"""The broker's own coordinator of groups in place of the model: the same questions, its real answers.

Its log is in memory, and what it appends is written at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.broker.core.coordinators.effects import Answer as Answered
from strandline.broker.core.coordinators.effects import Append, Instant
from strandline.broker.core.groups.coordinator import Coordinator as Core
from strandline.broker.core.groups.effects import Effect
from strandline.broker.core.groups.requests import DescribeGroup, Join
from strandline.errors import NotCoordinator, StrandlineError
from strandline.vocabulary.groups import (
    DescribedGroup,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberIdGiven,
    SyncGroup,
)
from tests.broker.core.groups.support.stage import LIMITS, Numbered
from tests.consumer.core.support.group_coordinator import Answer, Phase, Token

ASIDE: Token = 0
"""The correlation of this adapter's own requests."""


class RealCoordinator:
    def __init__(self) -> None:
        self.core = Core(LIMITS)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.at_s = 0.0
        self.removed: list[str] = []
        self.answers: list[tuple[Token, Answer]] = []
        self.members: tuple[str, ...] = ()
        self.generation = 0
        self._aside: object = None
        self._ids = 0
        self._play(self.core.loaded(self.now))

    @property
    def now(self) -> Instant:
        return Instant(self.at_s, 1_700_000_000_000 + round(self.at_s * 1000))

    @property
    def phase(self) -> Phase:
        described = self._describe()
        return Phase.EMPTY if described is None else _PHASES[described.state]

    def join(self, token: Token, request: JoinGroup) -> None:
        self._ids += 1
        self._play(
            self.core.handle(
                Numbered(str(token)), Join(request, f"{request.client_id}-{self._ids}", "h"), self.now
            )
        )

    def sync(self, token: Token, request: SyncGroup) -> None:
        self._play(self.core.handle(Numbered(str(token)), request, self.now))

    def heartbeat(self, token: Token, member: str, generation: int, instance: str | None = None) -> None:
        request = Heartbeat("g", member, generation, instance)
        self._play(self.core.handle(Numbered(str(token)), request, self.now))

    def refusal(self, member: str, generation: int) -> StrandlineError | None:
        """The error that a heartbeat would get."""
        self.heartbeat(ASIDE, member, generation)
        return self._aside if isinstance(self._aside, StrandlineError) else None

    def remove(self, name: str, reason: str) -> None:
        described = self._describe()
        members = () if described is None else described.members
        instance = next((member.instance for member in members if member.member == name), None)
        request = LeaveGroup("g", (LeavingMember(name, instance, reason),))
        self._play(self.core.handle(Numbered(str(ASIDE)), request, self.now))

    def rebalance(self, reason: str) -> None:
        """This coordinator takes no requests for a rebalance."""

    def time_is_up(self) -> None:
        """A minute passes: the sessions of all members that do not wait for an answer end, and every
        rebalance."""
        self._later(61)

    def session_passes(self, beats: Iterable[tuple[str, int]]) -> None:
        """Long enough for idle ids to expire: those that were given out and never used."""
        for _ in range(3):
            for member, generation in beats:
                self.refusal(member, generation)
            self._later(5)

    def _later(self, seconds: float) -> None:
        end = self.at_s + seconds
        while (deadline := self.core.next_deadline()) is not None and deadline <= end:
            self.at_s = max(self.at_s, deadline)
            self._play(self.core.tick(self.now))
        self.at_s = end

    def hand_over(self) -> None:
        """Another broker reads the log, and coordinates from there on."""
        self._play(self.core.unload(NotCoordinator("moved")), look=False)
        self.core = Core(LIMITS)
        for key, value in self.log:
            self.core.load(key, value, self.now.wall_ms)
        self._play(self.core.loaded(self.now))

    def _play(self, effects: list[Effect], *, look: bool = True) -> None:
        for effect in effects:
            match effect:
                case Answered(call, value):
                    token = int(str(call))
                    if token == ASIDE:
                        self._aside = value
                        continue
                    assert value is None or isinstance(
                        value, Joined | MemberIdGiven | bytes | StrandlineError
                    )
                    self.answers.append((token, value))
                case Append():
                    self.log.extend(effect.records)
                    self._play(self.core.appended(effect.write_id, None, self.now))
        if look:
            self._look()

    def _look(self) -> None:
        described = self._describe()
        before = self.members
        self.members = () if described is None else tuple(m.member for m in described.members)
        self.generation = 0 if described is None else described.generation
        self.removed += [name for name in before if name not in self.members]

    def _describe(self) -> DescribedGroup | None:
        (answer,) = self.core.handle(Numbered(str(ASIDE)), DescribeGroup("g"), self.now)
        assert isinstance(answer, Answered)
        return answer.value if isinstance(answer.value, DescribedGroup) else None


_PHASES = {
    "Empty": Phase.EMPTY,
    "PreparingRebalance": Phase.PREPARING,
    "CompletingRebalance": Phase.COMPLETING,
    "Stable": Phase.STABLE,
    "Dead": Phase.EMPTY,
}
