"""A client of the classic protocol on the stage of `play`, as Kafka's clients are: an eager one gives all up
before it joins, a cooperative one what an assignment takes from it, and joins again (KIP-429)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from strandline.broker.core.groups.requests import Join
from strandline.errors import FencedInstanceId, RebalanceInProgress, StrandlineError, UnknownMemberId
from strandline.ids import PartitionId, PartitionKey, TopicPartition
from strandline.vocabulary.asks import Asks
from strandline.vocabulary.groups import (
    GroupProtocol,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberIdGiven,
    SyncGroup,
)
from strandline.vocabulary.parsing.consumer_protocol import (
    COOPERATIVE_STICKY,
    EAGER_VERSION,
    RELEASED_VERSION,
    Assignment,
    Subscription,
)
from tests.broker.core.groups.support.stage import HOST, REBALANCE_MS, SESSION_MS

if TYPE_CHECKING:
    from tests.broker.core.consumer_groups.play import Play

GROUP = "readers"
STEPS_MAX = 12


class ClassicClient:
    """`act` goes on until the client has to wait. `owned`: what it reads now."""

    def __init__(
        self,
        play: Play,
        name: str,
        topics: tuple[str, ...],
        *,
        cooperative: bool = False,
        instance: str | None = None,
    ) -> None:
        self.play = play
        self.name = name
        self.topics = topics
        self.cooperative = cooperative
        self.instance = instance
        self.member = ""
        self.generation = -1
        self.owned: frozenset[TopicPartition] = frozenset()
        self.gone = False
        self._protocol = COOPERATIVE_STICKY if cooperative else "range"
        self._joining: str | None = None
        self._syncing: str | None = None
        self._stable = False

    @property
    def keys(self) -> frozenset[PartitionKey]:
        """What it reads, by ids."""
        found = ((self.play.topics.get(name.topic), name.partition) for name in self.owned)
        return frozenset(PartitionKey(topic.topic_id, PartitionId(n)) for topic, n in found if topic)

    def act(self) -> list[str]:
        """All that it can do now, in words."""
        said = list[str]()
        for _ in range(STEPS_MAX):
            some = self._step()
            said += some
            if not some or some[-1] in ("stays", "waits"):
                return said
        raise AssertionError(f"{self.name} does not come to rest: {said}")

    def beat(self) -> str:
        """One heartbeat, and no more."""
        answer = self._asked(Heartbeat(GROUP, self.member, self.generation, self.instance))
        return type(answer).__name__ if isinstance(answer, StrandlineError) else "stays"

    def leave(self) -> None:
        self.gone, self.owned = True, frozenset()
        self.play.stage.ask(LeaveGroup(GROUP, (LeavingMember(self.member, self.instance),)))

    def lose_answers(self) -> None:
        """The connection breaks: it asks again."""
        if self._joining is not None or self._syncing is not None:
            self._joining = self._syncing = None
            self._stable = False

    def _asked(self, request: Asks[Any]) -> Any:
        return self.play.stage.answers.get(self.play.stage.ask(request))

    def _step(self) -> list[str]:
        if self.gone:
            return []
        answers = self.play.stage.answers
        if self._joining is not None:
            if self._joining not in answers:
                return ["waits"]
            answer, self._joining = answers[self._joining], None
            return self._joined(answer)
        if self._syncing is not None:
            if self._syncing not in answers:
                return ["waits"]
            answer, self._syncing = answers[self._syncing], None
            return self._synced(answer)
        if not self._stable:
            self.join()
            return ["joins"]
        answer = self._asked(Heartbeat(GROUP, self.member, self.generation, self.instance))
        return ["stays"] if answer is None else self._refused(answer)

    def join(self) -> None:
        self._stable = False
        if not self.cooperative:
            self.owned = frozenset()
        version = RELEASED_VERSION if self.cooperative else EAGER_VERSION
        said = Subscription(version, self.topics, tuple(sorted(self.owned)), self.generation)
        request = JoinGroup(
            GROUP, self.member, SESSION_MS, REBALANCE_MS, "consumer",
            (GroupProtocol(self._protocol, said.encode()),), self.instance, "client",
        )  # fmt: skip
        topics = {name: self.play.topics.get(name) for name in self.play.stage.core.needed_for(request)}
        made = self.play.ids[self.name] = self.play.ids.get(self.name, 0) + 1
        new = self.name if made == 1 else f"{self.name}{made}"
        self._joining = self.play.stage.ask(Join(request, new, HOST, topics))

    def _joined(self, answer: Any) -> list[str]:
        if isinstance(answer, StrandlineError):
            return self._refused(answer)
        if isinstance(answer, MemberIdGiven):
            self.member = answer.member
            return ["has an id"]
        assert isinstance(answer, Joined)
        self.member, self.generation = answer.member, answer.generation
        plan: dict[str, bytes] = {}
        if answer.leader == answer.member and not answer.skip_assignment:
            plan = self._plan(answer)
        request = SyncGroup(
            GROUP, self.member, self.generation, "consumer", answer.protocol, plan, self.instance
        )
        self._syncing = self.play.stage.ask(request)
        leads = " and leads" if plan else ""
        return [f"is in generation {self.generation}{leads}"]

    def _plan(self, answer: Joined) -> dict[str, bytes]:
        """Even shares; what one member has, and another is to get, waits for the next generation."""
        said = {each.member: Subscription.decode(each.metadata) for each in answer.members}
        names = [TopicPartition(t, n) for t in "tu" for n in range(self.play.partitions_of(t))]
        shares: dict[str, list[TopicPartition]] = {member: [] for member in said}
        owners = {name: member for member, each in said.items() for name in each.owned}
        for name in names:
            readers = [member for member, each in said.items() if name.topic in each.topics]
            if readers:
                member = min(readers, key=lambda one: (len(shares[one]), owners.get(name) != one))
                shares[member].append(name)
        for member, share in shares.items():
            shares[member] = [name for name in share if owners.get(name, member) == member]
        return {m: Assignment(EAGER_VERSION, tuple(share)).encode() for m, share in shares.items()}

    def _synced(self, answer: Any) -> list[str]:
        if isinstance(answer, StrandlineError):
            return self._refused(answer)
        assigned = frozenset(Assignment.decode(answer).assigned if answer else ())
        revoked = self.owned - assigned
        self.owned = assigned
        self._stable = True
        said = f"reads {_named(assigned)}"
        if revoked:
            self._stable = False
            return [f"{said}, and gives {_named(revoked)} up"]
        return [said]

    def _refused(self, error: StrandlineError) -> list[str]:
        self._stable = False
        match error:
            case RebalanceInProgress():
                pass
            case FencedInstanceId():
                self.gone, self.owned = True, frozenset()
            case _ if error.retriable and not isinstance(error, UnknownMemberId):
                pass
            case _:
                self.owned, self.generation = frozenset(), -1
                if isinstance(error, UnknownMemberId):
                    self.member = ""
        return [type(error).__name__]


def _named(names: Iterable[TopicPartition]) -> str:
    return " ".join(map(str, sorted(names))) or "nothing"
