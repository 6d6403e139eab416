"""One group: its members, the protocol they agree on, and the state of its generation.

Bookkeeping only; the cost of a change does not grow with the group. The decisions are in `rebalance` and
`member_requests`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups.limits import GROUP_BYTES_MAX, GroupLimits
from strandline.broker.core.groups.records import GENERATION_MAX, GroupValue, ReadTopics
from strandline.broker.core.groups.state.consumers import COUNTED_AS, Consumers
from strandline.broker.core.groups.state.member import Member
from strandline.broker.core.groups.state.offsets import Offsets
from strandline.broker.core.groups.state.owners import check_instance, owner_after
from strandline.broker.core.groups.state.states import GroupState, transition
from strandline.broker.core.groups.state_bytes import (
    GROUP_BYTES,
    PENDING_BYTES,
    PendingMember,
    StateBytes,
    read_bytes,
)
from strandline.broker.core.groups.stored import GroupRecord, KindKey, within_limits
from strandline.errors import (
    IllegalGeneration,
    InvalidRequest,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.ids import TopicPartition
from strandline.security.principal import Principal
from strandline.vocabulary.groups import (
    CONSUMER,
    DescribedGroup,
    GroupProtocol,
    JoinAnswer,
    Joined,
    JoinGroup,
    LeftMember,
    ListedGroup,
)

Leaves = list[tuple[Call[tuple[LeftMember, ...]], tuple[LeftMember, ...]]]
"""Calls of members that leave, with their answers."""


def next_generation(generation: int) -> int:
    """The generation after this one: the last number is followed by 1, as in Kafka."""
    return generation + 1 if generation < GENERATION_MAX else 1


@dataclass(slots=True)
class Barrier:
    """How long a group in PreparingRebalance waits for its members.

    An empty group waits for the initial delay, and again each time new members joined meanwhile, but not
    beyond `until_s`. Any other group waits until all members are there.
    """

    until_s: float
    initial: bool
    newcomers: bool = False
    timed_out: bool = False  # it waits for no member, only for the log


class Group:
    """One group. `members` is in the order in which they joined."""

    __slots__ = (
        "_all_bytes",
        "_joining",
        "_own_bytes",
        "_stored_bytes",
        "_supported",
        "announced",
        "assign_write",
        "barrier",
        "caused_by",
        "consumers",
        "empty_since_ms",
        "generation",
        "leader",
        "leave_write",
        "leaves",
        "leftover",
        "members",
        "name",
        "offsets",
        "pending",
        "protocol",
        "protocol_type",
        "read_topics",
        "reason",
        "recovered",
        "removals",
        "start_write",
        "state",
        "statics",
        "unsynced",
    )

    def __init__(self, name: str, now_ms: int, state_bytes: StateBytes) -> None:
        self.name = name
        self._all_bytes = state_bytes  # of the whole coordinator
        self._own_bytes = 0  # the group's own share of these, without its offsets
        self.add_bytes(GROUP_BYTES)
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""  # the type of its present or past members
        self.protocol = ""  # the chosen one; empty while there is none
        self.leader = ""  # in `members`, or empty
        self.members: dict[str, Member] = {}
        self.statics: dict[str, str] = {}  # member by instance
        self.pending: dict[str, PendingMember] = {}  # by ids that were given and not yet used, oldest first
        self.unsynced: set[str] = set()  # members that have not yet asked for their assignment
        self.barrier: Barrier | None = None  # only in PreparingRebalance
        self.start_write: int | None = None  # the write of the last generation's start, while in flight
        self.assign_write: int | None = None  # the write of this generation's assignment, while in flight
        self.leaves: Leaves = []  # of members that the log does not know to have left yet
        self.leave_write: int | None = None  # the write that says so of earlier ones, while in flight
        self.recovered = False  # its generation began elsewhere and has no assignment yet
        self.announced = False  # the start of this generation was published, its end was not
        self.reason = ""
        self.caused_by = ""
        self.consumers: Consumers | None = None  # of the consumer protocol; then it has no other members
        self.leftover: dict[KindKey, int] = {}
        """What the log may still have of the other kind of group, until it is known to have the tombstones:
        each write of the group has them, too (`Turn.append`). With the last write before there was need of
        each."""
        self.empty_since_ms = now_ms
        self.offsets = Offsets(state_bytes)
        self.read_topics = ReadTopics()
        self.removals = 0  # removals of offsets in flight
        self._supported: Counter[str] = Counter()  # members by protocol
        self._joining = 0  # members whose join waits
        self._stored_bytes = 0

    # --- state -------------------------------------------------------------------------------

    def become(self, wanted: GroupState) -> None:
        """Change the state. The assignment of a generation that is left behind is dropped."""
        self.state = transition(self.name, self.state, wanted)
        self.assign_write = None
        if wanted is not GroupState.PREPARING_REBALANCE:
            self.barrier = None

    @property
    def vacant(self) -> bool:
        """True for a group without members of either protocol."""
        return self.state is GroupState.EMPTY and not (self.consumers and self.consumers.core.members)

    @property
    def members_count(self) -> int:
        """Of either protocol."""
        return len(self.members) if self.consumers is None else len(self.consumers.core.members)

    @property
    def shown_state(self) -> str:
        """In the words of Kafka's tools, which have others for groups of the consumer protocol."""
        if self.consumers is None or self.state is GroupState.DEAD:
            return self.state.value
        return self.consumers.core.state.value

    @property
    def counted_state(self) -> GroupState:
        """The nearest state of the classic protocol: one whose members move rebalances."""
        if self.consumers is None or self.state is GroupState.DEAD:
            return self.state
        return COUNTED_AS[self.consumers.core.state]

    @property
    def new(self) -> bool:
        """True for a group that has never had a generation, and never was of the consumer protocol."""
        return not self.generation and self.consumers is None and not self.leftover

    def set_consumers(self, consumers: Consumers | None) -> None:
        """The group becomes one of the consumer protocol, or of the classic one."""
        if self.consumers is not None:
            self.add_bytes(-self.consumers.bytes)
        self.consumers = consumers

    def forget_generations(self) -> None:
        """The group's record is gone: it begins anew."""
        self.generation, self.protocol_type = 0, ""
        self.set_read_topics(ReadTopics())

    @property
    def starting(self) -> bool:
        """True until the members of a generation are notified of it."""
        return self.state is GroupState.COMPLETING_REBALANCE and self.start_write is not None

    def become_dead(self, reason: str) -> None:
        """Become Dead, without members and unfinished work: only name, generation and offsets remain."""
        for member_id in tuple(self.pending):
            self.remove_pending(member_id)
        self.set_consumers(None)
        self.add_bytes(GROUP_BYTES - self._own_bytes)
        self.read_topics = ReadTopics()
        self.state = GroupState.DEAD
        self.members.clear()
        self.statics.clear()
        self.unsynced.clear()
        self._supported.clear()
        self._joining = self._stored_bytes = 0
        self.barrier = self.start_write = self.assign_write = self.leave_write = None
        self.leaves.clear()
        self.recovered = self.announced = False
        self.leader = self.protocol = self.caused_by = ""
        self.reason = reason

    def summary(self) -> str:
        """The group's state in words, for a log line."""
        return (
            f"state {self.state.value}, generation {self.generation}, {len(self.members)} members "
            f"({', '.join(list(self.members)[:3])}), {len(self.pending)} pending, leader {self.leader!r}, "
            f"protocol {self.protocol!r} of type {self.protocol_type!r}, {len(self.offsets)} offsets, "
            f"writes {self.start_write} and {self.assign_write}"
        )

    # --- members -----------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        assert member.member not in self.members, f"{member.member} is a member of {self.name} already"
        self.members[member.member] = member
        if member.instance is not None:
            self.statics[member.instance] = member.member
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        del self.members[member.member]
        if member.instance is not None and self.statics[member.instance] == member.member:
            del self.statics[member.instance]
        if self.leader == member.member:
            self.leader = ""
        self.unsynced.discard(member.member)
        self._count(member, -1)
        if member.joining is not None:
            self._joining -= 1

    def update(self, member: Member, request: JoinGroup) -> None:
        """Adopt what a known member says in a new join."""
        self._count(member, -1)
        member.adopt(request)
        self._count(member, 1)

    def set_assignment(self, member: Member, assignment: bytes) -> None:
        """Set the member's assignment in this generation."""
        self.add_bytes(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def set_owned(self, member: Member, owned: dict[TopicPartition, None]) -> None:
        """Set the partitions that the member reports to own."""
        self._count(member, -1)
        member.owned = owned
        self._count(member, 1)

    def set_read_topics(self, read: ReadTopics) -> None:
        """Set since when the group reads its topics (`read_topics`)."""
        self.add_bytes(read_bytes(read) - read_bytes(self.read_topics))
        self.read_topics = read

    def add_pending(self, member_id: str, pending: PendingMember) -> None:
        """An id was given; a member of this caller is expected to join with it."""
        self.pending[member_id] = self._all_bytes.given[self.name, member_id] = pending
        self.add_bytes(PENDING_BYTES)

    def remove_pending(self, member_id: str) -> None:
        if member_id in self.pending:
            del self.pending[member_id], self._all_bytes.given[self.name, member_id]
            self.add_bytes(-PENDING_BYTES)

    def release_bytes(self) -> None:
        """The coordinator has dropped this group."""
        self.add_bytes(-self._own_bytes)

    def add_bytes(self, added: int) -> None:
        self._own_bytes += added
        self._all_bytes.total += added

    def unassign(self, member: Member) -> None:
        """Drop the assignment: the next one is made for what the member says now."""
        self._count(member, -1)
        member.assignment, member.assigned_for = b"", None
        self._count(member, 1)

    def _count(self, member: Member, sign: int) -> None:
        self._stored_bytes += sign * member.stored_bytes
        self.add_bytes(sign * member.state_bytes)
        for protocol in member.protocols:
            self._supported[protocol.name] += sign
            if not self._supported[protocol.name]:
                del self._supported[protocol.name]

    def check_pending(self, member_id: str, by: Principal | None) -> None:
        """Raises GroupAuthorizationFailed if the id was given to another caller."""
        owner_after(self.pending[member_id].owner, by, f"member {member_id!r} of group {self.name!r}")

    def find(self, member: str, instance: str | None, by: Principal | None) -> Member:
        """The member that sent a request, by this caller. Raises UnknownMemberId, or FencedInstanceId for a
        member whose instance is another process by now (KIP-345); GroupAuthorizationFailed for a member of
        another caller."""
        check_instance(self.statics, self.name, member, instance)
        found = self.members.get(member)
        if found is None:
            raise UnknownMemberId(f"group {self.name} has no member {member!r}")
        found.principal = owner_after(found.principal, by, f"member {member!r} of group {self.name!r}")
        return found

    def current(self, member_id: str, instance: str | None, generation: int, by: Principal | None) -> Member:
        """The member that sent a request, if it names the generation in force (G1).

        Raises as `find` does, or IllegalGeneration; RebalanceInProgress if the member has joined since.
        """
        member = self.find(member_id, instance, by)
        if generation not in (self.generation, member.epoch or self.generation):
            if member.joining is not None and next_generation(generation) == self.generation:
                raise self.rebalances()
            raise IllegalGeneration(
                f"member {member_id!r} speaks of generation {generation}; group {self.name} is in "
                f"generation {self.generation}"
            )
        return member

    def wait_to_join(self, member: Member, call: Call[JoinAnswer]) -> Call[JoinAnswer] | None:
        """Let the member's join wait; returns the call that waited before, if there was one."""
        before, member.joining = member.joining, call
        if before is None:
            self._joining += 1
        return before

    def take_joining(self, member: Member) -> Call[JoinAnswer] | None:
        """Take the member's waiting join, if there is one."""
        call, member.joining = member.joining, None
        if call is not None:
            self._joining -= 1
        return call

    @property
    def complete(self) -> bool:
        """True once all members wait to join, and no given id is still unused."""
        return self._joining == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of its members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- what the members agree on -----------------------------------------------------------

    def agrees(self, protocol_type: str, protocols: tuple[GroupProtocol, ...], member: str) -> bool:
        """True if all but `member` itself support one of these."""
        if not self.members:
            return True
        current = self.members.get(member)
        others = len(self.members) - (current is not None)
        own = {protocol.name for protocol in current.protocols} if current is not None else set()
        return protocol_type == self.protocol_type and any(
            self._supported[protocol.name] - (protocol.name in own) == others for protocol in protocols
        )

    def supported(self) -> list[str]:
        """The protocols that all members support."""
        return sorted(name for name, count in self._supported.items() if count == len(self.members))

    def check_room(self, added: int) -> None:
        """Raises InvalidRequest if the group's record would grow beyond the bound of a record."""
        self._all_bytes.check(max(0, added), f"group {self.name}")
        total = self._stored_bytes + len(self.protocol_type) + added
        if total > GROUP_BYTES_MAX:
            raise InvalidRequest(
                f"so group {self.name} would be {total} bytes, more than {GROUP_BYTES_MAX}",
                limit=GROUP_BYTES_MAX,
            )

    def elect_leader(self) -> str:
        """The leader stays while it is a member; else the first member leads."""
        return self.leader if self.leader in self.members else next(iter(self.members))

    def choose_protocol(self) -> str:
        """The protocol with the most votes; among equals the one that the leader prefers."""
        candidates = set(self.supported())
        assert candidates, f"the members of {self.name} support nothing together: {dict(self._supported)}"
        votes = Counter(member.vote(candidates) for member in self.members.values())
        leader = self.members[self.elect_leader()]
        order = [protocol.name for protocol in leader.protocols]
        return max(votes, key=lambda name: (votes[name], -order.index(name)))

    # --- views for others --------------------------------------------------------------------

    def joined(self, member: Member, *, skip_assignment: bool = False) -> Joined:
        """The answer that admits this member to the generation."""
        joined_answer = Joined(
            member.member,
            self.generation,
            self.protocol,
            self.leader,
            skip_assignment=skip_assignment,
            reason=self.reason,
            caused_by=self.caused_by,
        )
        if member.member != self.leader:
            return joined_answer
        return replace(
            joined_answer, members=tuple(m.for_leader(self.protocol) for m in self.members.values())
        )

    def described(self) -> DescribedGroup:
        return DescribedGroup(
            self.name,
            self.state.value,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            tuple(member.described(self.protocol) for member in self.members.values()),
            self.reason,
            self.caused_by,
        )

    def listed(self) -> ListedGroup:
        if self.consumers is None:
            return ListedGroup(self.name, self.protocol_type, self.state.value)
        return ListedGroup(self.name, CONSUMER, self.shown_state, CONSUMER)

    @property
    def logged(self) -> bool:
        """True if the log may hold members of this group."""
        return self.generation > 0 and bool(self.protocol)

    def record(
        self, assignments: Mapping[str, bytes] | None, now_ms: int, *, gathers: bool = False
    ) -> GroupRecord:
        """The group's record for the log, with these assignments; None: its members have none yet. `gathers`:
        they gather for a new generation. The record has no leader then, so that a coordinator that loads it
        has them gather; it has their last assignments, which they may not have given up yet."""
        if gathers:
            assignments = {member.member: member.assignment for member in self.members.values()}
        given = assignments or {}
        value = GroupValue(
            self.protocol_type,
            self.generation,
            self.protocol or None,
            None if gathers else self.leader or None,
            now_ms,
            tuple(m.stored(self.protocol, given.get(m.member, b"")) for m in self.members.values()),
        )
        return GroupRecord(self.name, value, self.read_topics, assigns=assignments is not None)

    @classmethod
    def loaded(
        cls, record: GroupRecord, value: GroupValue, limits: GroupLimits, state_bytes: StateBytes
    ) -> Group:
        """The group as the coordinator that wrote the record had it: with the generation decided, and nothing
        of the record replayed yet."""
        group = cls(record.group, value.at_ms, state_bytes)
        group.set_read_topics(record.read_topics)
        group.generation = value.generation
        group.protocol_type = value.protocol_type
        group.protocol = value.protocol or ""
        for stored in value.members:
            group.add(Member.loaded(stored, group.protocol, within_limits(stored, limits)))
        group.leader = value.leader if value.leader in group.members else ""
        if group.members:
            group.announced = group.recovered = True
            group.state = GroupState.COMPLETING_REBALANCE
        return group

    def replay(self, value: GroupValue) -> None:
        """The log has this assignment of a generation: it is in force, unless the group has gone on since."""
        if (self.state, self.generation) != (GroupState.COMPLETING_REBALANCE, value.generation):
            return
        self.become(GroupState.STABLE)
        self.recovered = False
        assignments = {stored.member: stored.assignment for stored in value.members}
        for member in self.members.values():
            self.set_assignment(member, assignments.get(member.member, b""))

    def rebalances(self) -> StrandlineError:
        """The error that makes the members join again."""
        caused_by = f" (caused by {self.caused_by})" if self.caused_by else ""
        return RebalanceInProgress(
            f"group {self.name} rebalances (generation {self.generation}): {self.reason}{caused_by}"
        )
