"""A group in one thread: real members, a coordinator, and all messages between them.

A test decides when, and in which order, messages arrive. No member may be assigned a partition that another
member of the group owns; this is checked with every effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from strandline.consumer.core.assignors.assignor import Assignor
from strandline.consumer.core.assignors.registry import BUILT_IN
from strandline.consumer.core.member_effects import (
    Assign,
    DelayJoin,
    Effect,
    Fatal,
    FindCoordinator,
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
from strandline.consumer.core.member_settings import MemberSettings
from strandline.consumer.core.member_states import State
from strandline.consumer.core.membership import Membership
from strandline.errors import OutcomeUnknown, StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import Joined, MemberIdGiven, OwnershipKind
from tests.consumer.core.support.group_coordinator import Answer, Coordinator
from tests.consumer.core.support.real_coordinator import RealCoordinator
from tests.consumer.core.support.spoken import spoken

NOW_MS = 1_000_000


class Violation(AssertionError):
    """A rule of the group was broken."""


@dataclass(eq=False)
class Node:
    """A process with one member. `view` is what it knows of the topics."""

    name: str
    cooperative: bool
    membership: Membership
    view: dict[str, int]
    alive: bool = True
    instance: str | None = None
    heartbeat: tuple[str, int] | None = None
    holds: set[TopicPartition] = field(default_factory=set)
    """The partitions that it may be reading, for as long as the group counts it as a member."""
    reported: set[TopicPartition] = field(default_factory=set)
    """The same, by its reports."""


@dataclass(eq=False)
class Todo:
    """A pending step: a request, an answer, or a step that a driver takes without one."""

    node: Node
    what: str
    act: Callable[[], None]
    on_failure: Callable[[StrandlineError], list[Effect]] | None = None
    """How the node hears that the request, or its answer, was lost."""


class World:
    def __init__(
        self,
        topics: Mapping[str, int],
        *,
        assignor: str | Assignor = "sticky",
        coordinator: Coordinator | RealCoordinator | None = None,
        log: list[str] | None = None,
        membership: type[Membership] = Membership,
    ) -> None:
        self.topics = dict(topics)
        """How many partitions there really are."""
        self.coordinator = coordinator or Coordinator()
        self.nodes: dict[str, Node] = {}
        self.todo: list[Todo] = []
        self.late: list[Todo] = []
        """Calls that were given up, and are still in flight."""
        self.log = log
        self._membership = membership
        self._assignor = BUILT_IN[assignor] if isinstance(assignor, str) else assignor
        self._waiting: dict[int, tuple[Node, Callable[[Answer], None], Todo]] = {}
        self._tokens = count(1)

    # --- what happens to a group -------------------------------------------------------------

    def start(
        self,
        name: str,
        topics: Iterable[str],
        *,
        cooperative: bool = True,
        instance: str | None = None,
        kind: type[Membership] | None = None,
    ) -> Node:
        settings = MemberSettings("g", cooperative, 10_000, 60_000, instance, name)
        kind = kind or self._membership
        node = Node(name, cooperative, kind(settings, [self._assignor]), dict(self.topics))
        node.instance = instance
        self.nodes[name] = node
        self.carry_out(node, node.membership.subscribed(topics, NOW_MS))
        return node

    def crash(self, name: str) -> None:
        """The process is gone. The group counts it in until its session ends."""
        node = self.nodes.pop(name)
        node.alive = False
        node.holds.clear()
        self.todo = [todo for todo in self.todo if todo.node is not node or todo.what.startswith("→")]

    def expire(self, member: str) -> None:
        """The session of a member ends, whether or not it lives."""
        self._say(f"session of {member} ends")
        self.coordinator.remove(member, "session timed out")
        self.settle_calls()

    def refresh(self, node: Node) -> None:
        """The node reads what topics there are."""
        node.view = dict(self.topics)
        topics = set(node.membership.topics) | node.membership.watched
        counts = {topic: node.view.get(topic, 0) for topic in topics}
        self.carry_out(node, node.membership.metadata_changed(counts, NOW_MS))

    def beat(self, node: Node) -> None:
        """A heartbeat, with the member id and generation that the node last got."""
        if node.heartbeat is None:
            return
        member, generation = node.heartbeat

        def failed(error: StrandlineError) -> list[Effect]:
            return node.membership.heartbeat_failed(member, generation, error, NOW_MS)

        def answered(answer: Answer) -> None:
            if isinstance(answer, StrandlineError):
                self.carry_out(node, failed(answer))

        send = self.coordinator.heartbeat
        self._call(
            node, "heartbeat", lambda token: send(token, member, generation, node.instance), answered, None
        )

    # --- what is under way -------------------------------------------------------------------

    def happen(self, todo: Todo) -> None:
        self.todo.remove(todo)
        todo.act()

    def fail(self, todo: Todo, *, late: bool) -> None:
        """The node gives a call up: its request or answer is lost, or comes after all (`late`)."""
        if todo.what[0] not in "→←":
            return  # a driver's own steps happen
        self.todo.remove(todo)
        if late:
            self.late.append(todo)
        on_failure, todo.on_failure = todo.on_failure, None
        if on_failure is not None and todo.node.alive:
            self._say(f"{todo.node.name}: {todo.what} {'is late' if late else 'is lost'}")
            self.carry_out(todo.node, on_failure(OutcomeUnknown("the connection broke")))

    def come_late(self, todo: Todo) -> None:
        self.late.remove(todo)
        todo.act()

    def hand_over(self) -> None:
        """Another broker coordinates. It may count in again whom the last one removed without writing that
        down; if so it has written down nothing that gave away what that member owns."""
        self.coordinator.hand_over()
        self.settle_calls()
        for node in self.nodes.values():
            if node.membership.member in self.coordinator.members:
                self._take(node, node.membership.owned - node.holds)

    def cut(self, node: Node) -> None:
        """The connection breaks: no call of the node that the coordinator holds is answered."""
        for token, (caller, _, todo) in list(self._waiting.items()):
            if caller is node:
                del self._waiting[token]
                if todo.on_failure is not None and node.alive:
                    self.carry_out(node, todo.on_failure(OutcomeUnknown("the connection broke")))

    def run(self, steps_max: int = 2_000) -> None:
        """Everything that is under way happens, first come first served, with heartbeats in between."""
        for _ in range(steps_max):
            if self.todo:
                self.happen(self.todo[0])
                continue
            self.beat_all()
            if not self.todo:
                return
        raise Violation(f"still not settled after {steps_max} steps: {self}")

    def beat_all(self) -> None:
        """Heartbeats of the members that would learn something new."""
        for node in list(self.nodes.values()):
            refused_with = self.coordinator.refusal(*node.heartbeat) if node.heartbeat else None
            if refused_with is not None and node.membership.state in (State.STABLE, State.RELEASING):
                self.beat(node)

    def wait_a_session(self) -> None:
        """The sessions of silent members end; a call that the coordinator holds does that too."""
        beats = [node.heartbeat for node in self.nodes.values() if node.heartbeat is not None]
        self.coordinator.session_passes(beats)
        self.settle_calls()

    def settle_calls(self) -> None:
        """The coordinator's answers set out, and those that it counts no more hold nothing for the group."""
        for member in self.coordinator.removed:
            for node in self.nodes.values():
                if node.membership.member == member:
                    node.holds.clear()
        self.coordinator.removed.clear()
        answers, self.coordinator.answers = self.coordinator.answers, []
        for token, answer in answers:
            if token not in self._waiting:
                continue  # its caller gave it up
            node, then, sent = self._waiting.pop(token)

            def deliver(
                node: Node = node, then: Callable[[Answer], None] = then, answer: Answer = answer
            ) -> None:
                if node.alive:
                    then(answer)

            self.todo.append(Todo(node, f"← {sent.what[2:]}", deliver, sent.on_failure))

    def _call(
        self,
        node: Node,
        what: str,
        send: Callable[[int], None],
        then: Callable[[Answer], None],
        on_failure: Callable[[StrandlineError], list[Effect]] | None,
    ) -> None:
        def arrive() -> None:
            token = next(self._tokens)
            self._waiting[token] = (node, then, todo)
            send(token)
            self.settle_calls()

        todo = Todo(node, f"→ {what}", arrive, on_failure)
        self.todo.append(todo)

    # --- a driver ----------------------------------------------------------------------------

    def carry_out(self, node: Node, effects: list[Effect]) -> None:
        for effect in effects:
            self._carry_out(node, effect)

    def _carry_out(self, node: Node, effect: Effect) -> None:
        core = node.membership
        self._say(f"  {node.name}: {spoken(effect)}" if not isinstance(effect, Report) else "")
        match effect:
            case SendJoin():
                self._join(node, effect)
            case SendSync():
                self._sync(node, effect)
            case SendLeave():
                self._leave(node, effect)
            case FindCoordinator():
                self._locally(node, "finds", lambda: core.coordinator_found(NOW_MS))
            case DelayJoin(number, _):
                self._locally(node, "pauses", lambda: core.backed_off(number, NOW_MS))
            case NeedMetadata():
                self._locally(node, "looks", lambda: _look(node, effect))
            case Revoke():
                self._locally(node, "releases", lambda: _release(node, effect))
            case Assign(added, owned, _):
                self._take(node, frozenset(added))
                if set(owned) != core.owned:
                    raise Violation(f"{node.name} was assigned {owned}, owns {core.owned}")
            case Lose(partitions, _):
                node.holds -= set(partitions)
            case StartHeartbeat(member, generation):
                node.heartbeat = (member, generation)
            case StopHeartbeat():
                node.heartbeat = None
            case Report():
                _book(node, effect)
            case Fatal(error):
                raise Violation(f"{node.name}: {error}")
            case LogLine():
                pass

    def _join(self, node: Node, effect: SendJoin) -> None:
        core, number = node.membership, effect.number

        def joined(answer: Answer) -> None:
            if isinstance(answer, StrandlineError):
                self.carry_out(node, core.join_failed(number, answer, NOW_MS))
            else:
                assert isinstance(answer, Joined | MemberIdGiven)
                self.carry_out(node, core.joined(number, answer, NOW_MS))

        self._call(
            node,
            "join",
            lambda token: self.coordinator.join(token, effect.request),
            joined,
            lambda error: core.join_failed(number, error, NOW_MS),
        )

    def _sync(self, node: Node, effect: SendSync) -> None:
        core, number = node.membership, effect.number

        def synced(answer: Answer) -> None:
            if isinstance(answer, StrandlineError):
                self.carry_out(node, core.sync_failed(number, answer, NOW_MS))
            else:
                assert isinstance(answer, bytes)
                self.carry_out(node, core.synced(number, answer, NOW_MS))

        self._call(
            node,
            "sync",
            lambda token: self.coordinator.sync(token, effect.request),
            synced,
            lambda error: core.sync_failed(number, error, NOW_MS),
        )

    def _leave(self, node: Node, effect: SendLeave) -> None:
        def leave(_token: int) -> None:
            for leaving in effect.request.members:
                self.coordinator.remove(leaving.member, leaving.reason)

        self._call(node, "leave", leave, lambda _answer: None, None)

    def _take(self, node: Node, added: frozenset[TopicPartition]) -> None:
        if node.membership.member not in self.coordinator.members:
            return  # an answer that took longer than its session: the next heartbeat will show it
        for other in self.nodes.values():
            both = other.holds & added
            if other is not node and both:
                raise Violation(f"{node.name} is assigned {sorted(both)}, which {other.name} owns")
        node.holds |= added

    def _locally(self, node: Node, what: str, act: Callable[[], list[Effect]]) -> None:
        def happens() -> None:
            if node.alive:
                self.carry_out(node, act())

        self.todo.append(Todo(node, what, happens))

    def _say(self, line: str) -> None:
        if self.log is not None and line:
            self.log.append(line)

    def __str__(self) -> str:
        nodes = ", ".join(f"{n.name} {n.membership.state.value}" for n in self.nodes.values())
        return f"{nodes}; group {self.coordinator.phase.value}; under way {[t.what for t in self.todo]}"


def _look(node: Node, effect: NeedMetadata) -> list[Effect]:
    known = {topic: node.view[topic] for topic in effect.topics if topic in node.view}
    return node.membership.metadata(effect.number, known, NOW_MS)


def _release(node: Node, effect: Revoke) -> list[Effect]:
    # A Lose that came first ended this release, and the partitions belong to another member now.
    effects = node.membership.released(effect.number, NOW_MS)
    if effects:
        node.holds -= set(effect.partitions)
    return effects


def _book(node: Node, report: Report) -> None:
    for change in report.request.changes:
        if change.kind is OwnershipKind.ASSIGNED:
            node.reported |= set(change.partitions)
        elif not node.reported >= set(change.partitions):
            raise Violation(f"{node.name} reports {change}, having reported {node.reported}")
        else:
            node.reported -= set(change.partitions)
