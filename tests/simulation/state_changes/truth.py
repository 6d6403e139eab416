"""The events as they really happened, seen from outside: each write as the server takes it, each record, each
removal.

No broker or controller knows this. A Violation says which rule was broken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from strandline.adapters.zookeeper import queue_znodes, znodes
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionKey
from strandline.ports import Check, Create, Delete, Operation, SetData
from strandline.vocabulary.state_changes import (
    ENDS,
    ChangeKind,
    End,
    RequestState,
    StateChange,
    StateChangeEvent,
)
from tests.simulation.state_changes.rules import Rule
from tests.simulation.state_changes.zookeeper import SimulatedSession
from tests.simulation.znode_tree import ZnodeTree


class Violation(AssertionError):
    """A rule was broken; the message says which, and what was seen."""


def check(holds: bool, rule: str, *seen: object) -> None:
    if not holds:
        raise Violation(f"{rule}: {seen}")


class Truth:
    """Fulfils `Observer`. Violations are kept, because a task deep in the code under test may cause them."""

    def __init__(self, broken: Rule | None) -> None:
        self.violations: list[Violation] = []
        self.record: list[StateChangeEvent] = []
        """`__state_changes`, in the order in which it was written."""
        self.requested: dict[str, tuple[BrokerId, StateChange]] = {}
        """Every request that ever stood in a queue, in the order in which they came."""
        self.elections: dict[tuple[PartitionKey, LeaderEpoch], BrokerId] = {}
        """Every leadership that ever stood in an `isr` znode."""
        self.known_assignment: Callable[[BrokerId, PartitionKey], tuple[BrokerId, ...] | None]
        """AR, as a broker knows it."""
        self.writes = 0
        self._broken = broken
        self._tree: ZnodeTree
        self._ends: dict[str, End] = {}
        self._recorded: defaultdict[str, set[RequestState]] = defaultdict(set)
        self._told_ends: dict[str, StateChangeEvent] = {}
        self._executing: dict[tuple[object, PartitionKey], str] = {}
        self._executed: dict[tuple[object, PartitionKey], int] = {}
        self._places: dict[str, int] = {}

    def watch(self, tree: ZnodeTree) -> None:
        self._tree = tree

    def raise_any(self) -> None:
        if self.violations:
            raise self.violations[0]

    # --- the server --------------------------------------------------------------------------

    def relaxed(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        if self._broken is Rule.INCARNATION:
            operations = [each for each in operations if not each.path.startswith(f"{znodes.TOPIC_IDS}/")]
        return [self._relax(operation) for operation in operations]

    def _relax(self, operation: Operation) -> Operation:
        match operation:
            case Check(path=path) if self._broken is Rule.ASSIGNED_VERSION and path.endswith("/replicas"):
                return Check(operation.path)
            case SetData(path=path, data=data) if self._broken is Rule.END_BY_COMPARE_AND_SET and _is_request(
                path
            ):
                return SetData(path, data)
            case Delete(path=path) if self._broken is Rule.END_BY_COMPARE_AND_SET and _is_request(path):
                return Delete(path)
            case _:
                return operation

    def before(self, session: SimulatedSession, operations: Sequence[Operation]) -> None:
        self._removals = [
            (each.path, self._tree.nodes[each.path].data)
            for each in operations
            if isinstance(each, Delete) and _is_request(each.path) and each.path in self._tree.nodes
        ]
        self._replaced = [
            (each.path, self._tree.nodes[each.path].data)
            for each in operations
            if isinstance(each, SetData) and _is_request(each.path) and each.path in self._tree.nodes
        ]
        self._epoch_before = self._version(znodes.CONTROLLER_EPOCH)

    def after(self, session: SimulatedSession, operations: Sequence[Operation]) -> None:
        self.writes += 1
        try:
            self._look(session, operations)
        except Violation as violation:
            self.violations.append(violation)

    def _look(self, session: SimulatedSession, operations: Sequence[Operation]) -> None:
        fence = operations[0]
        if isinstance(fence, Check) and fence.path == znodes.CONTROLLER_EPOCH:
            rule = "E5: a controller writes in its own epoch only"
            check(fence.version == self._epoch_before, rule, session.owner, fence, self._epoch_before)
        kept: set[str] = set()
        for operation in operations:
            match operation:
                case Create(path=path, data=data) | SetData(path=path, data=data) if _is_request(path):
                    kept |= self._queued(BrokerId(int(path.split("/")[3])), data)
                case SetData(path=path, data=data) if path.endswith("/isr"):
                    self._isr_written(path, data, session)
                case _:
                    pass
            parts = operation.path.split("/")
            if operation.path.startswith(znodes.TOPICS) and len(parts) > 4:
                self._check_members(parts[3], int(parts[4]))
        for path, data in (*self._removals, *self._replaced):
            for change in queue_znodes.load_state_changes(data):
                if change.request_id not in kept:
                    recorded = bool(self._recorded[change.request_id] & ENDS)
                    check(recorded, "Q2: what leaves its queue is recorded", path, change)

    def _queued(self, broker: BrokerId, data: bytes) -> set[str]:
        changes = queue_znodes.load_state_changes(data)
        for change in changes:
            self._places.setdefault(change.request_id, len(self._places))
            first = self.requested.setdefault(change.request_id, (broker, change))
            check(first[0] == broker, "Q2: a request stays in its queue", first, broker)
            before = self._ends.get(change.request_id)
            check(before is None or change.end == before, "Q2: one end in ZooKeeper", before, change)
            if change.end is not None:
                self._ends[change.request_id] = change.end
        return {change.request_id for change in changes}

    def _isr_written(self, path: str, data: bytes, session: SimulatedSession) -> None:
        _, _, _, name, number, _ = path.split("/")
        state = znodes.load_isr(name, int(number), data)
        topic = znodes.load_topic(name, self._tree.nodes[znodes.topic(name)].data)
        key = PartitionKey(topic.topic_id, int(number))  # type: ignore[arg-type]
        if state.leader == NO_BROKER:
            return
        leader = self.elections.get((key, state.leader_epoch))
        check(leader in (None, state.leader), "E6: one leader an epoch", leader, state)
        if leader is None:
            self.elections[key, state.leader_epoch] = state.leader
            known = self.known_assignment(state.leader, key)
            assigned = znodes.load_replicas(
                name, int(number), self._tree.nodes[znodes.replicas(name, int(number))].data
            )
            check(known in (None, assigned), "E16: elected by AR as it is", known, assigned, state)
            check(state.leader in assigned, "E16: a leader is assigned", key, assigned, state)

    def _check_members(self, name: str, number: int) -> None:
        isr = self._tree.nodes.get(znodes.isr(name, number))
        if isr is None:
            return
        state = znodes.load_isr(name, number, isr.data)
        assigned = set(
            znodes.load_replicas(name, number, self._tree.nodes[znodes.replicas(name, number)].data)
        )
        moving = self._tree.nodes.get(znodes.reassigned(name, number))
        if moving is not None:
            wanted = znodes.load_reassignment(name, number, moving.data)
            assigned.update(wanted.replicas, wanted.original)
        check(set(state.isr_ids) <= assigned, "E16: ISR is part of AR and RAR", name, state, assigned)

    def _version(self, path: str) -> int:
        node = self._tree.nodes.get(path)
        return -1 if node is None else node.version

    # --- the record --------------------------------------------------------------------------

    def recorded(self, events: Sequence[StateChangeEvent]) -> None:
        for event in events:
            self.record.append(event)
            if isinstance(event.command, ChangeKind):
                continue
            self._recorded[event.id].add(event.state)
            if event.state in ENDS:
                first = self._told_ends.setdefault(event.id, event)
                check(first == event, "Q2: one end in the record", first, event)

    def ends_of(self, request_id: str) -> set[RequestState]:
        return self._recorded[request_id] & ENDS

    def tells_election(self, key: PartitionKey, epoch: LeaderEpoch) -> bool:
        identity = f"elect-{key.topic_id}-{key.partition}-{epoch}"
        return any(event.id == identity for event in self.record)

    # --- brokers -----------------------------------------------------------------------------

    def begins(self, life: object, change: StateChange) -> None:
        """A broker executes this, in one life."""
        lane = (life, change.key)
        check(lane not in self._executing, "Q2: one at a time", self._executing.get(lane), change)
        place = self._places[change.request_id]
        last = self._executed.get(lane, -1)
        check(last <= place, "Q2: in the order of the queue", last, place, change)
        self._executing[lane], self._executed[lane] = change.request_id, place

    def ends(self, life: object, change: StateChange) -> None:
        self._executing.pop((life, change.key), None)

    def removed(self, broker: BrokerId, name: str, key: PartitionKey) -> None:
        """The data of a replica goes from a disk."""
        topic = self._tree.nodes.get(znodes.topic(name))
        isr = self._tree.nodes.get(znodes.isr(name, key.partition))
        if topic is None or isr is None or znodes.load_topic(name, topic.data).topic_id != key.topic_id:
            return
        state = znodes.load_isr(name, key.partition, isr.data)
        if broker in state:
            self.violations.append(Violation(f"Q1: broker {broker} removed what is in sync: {name} {state}"))

    def misled(self, broker: BrokerId, change: StateChange, key: PartitionKey) -> None:
        """A request removed a replica of this key."""
        if change.key != key:
            self.violations.append(Violation(f"Q1: broker {broker} removed {key} for {change}"))


def _is_request(path: str) -> bool:
    return path.startswith(f"{znodes.STATE}/") and path.count("/") == 4
