"""The state of a group's leader during one generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strandline.consumer.core.assignors.assignor import Assignor, SendsAssignmentData
from strandline.consumer.core.leader_note import add_user_data, mark, note, same_counts
from strandline.consumer.core.leader_plan import ParsedMember, Plan, plan
from strandline.errors import InconsistentGroupProtocol
from strandline.vocabulary.groups import GroupMember
from strandline.vocabulary.parsing.consumer_protocol import (
    COOPERATIVE_STICKY,
    EAGER_VERSION,
    Assignment,
    Subscription,
)


class LeaderState:
    """The members and the partition counts of the current plan, and the counts read since.

    A static leader that returns within a generation makes no plan: the group's assignment stays in
    force (KIP-814). It cannot remember the partition counts of that plan, nor can a static member
    remember its subscription, so the plan puts a note of them into their assignments, which the
    group keeps (CORRECTNESS G13); the note stands beside the assignor's user data, if there is any.
    Nor could a static member remember that it had to join again after a revocation, where its
    assignment does not say so; its note then names no topics.
    """

    def __init__(self, members: Sequence[GroupMember], topics: Sequence[str], *, skip: bool) -> None:
        self._members: dict[str, ParsedMember] = {}
        self._strangers: list[str] = []
        self.unreadable: list[str] = []
        """A line for each member whose subscription cannot be decoded. Those members get no partitions."""
        for member in members:
            try:
                subscription = Subscription.decode(member.metadata)
            except InconsistentGroupProtocol as error:
                self._strangers.append(member.member)
                self.unreadable.append(f"member {member.member} gets nothing: {error.message}")
            else:
                self._members[member.member] = ParsedMember(subscription, member.instance)
        self.topics = frozenset(topics).union(*(m.subscription.topics for m in self._members.values()))
        self._skip = skip
        self._planned: dict[str, int] | None = None
        """None until the counts are known."""
        self._seen: dict[str, int] = {}
        self._outdated = False

    def set_counts(self, partitions: Mapping[str, int]) -> None:
        """Set the counts to assign with."""
        self._planned = {topic: n for topic, n in partitions.items() if n > 0 and topic in self.topics}
        self._seen = {topic: self._planned.get(topic, 0) for topic in self.topics}

    def update_counts(self, partitions: Mapping[str, int]) -> None:
        """Update the counts of some topics; 0 for one that does not exist."""
        self._seen.update((topic, n) for topic, n in partitions.items() if topic in self.topics)

    def assign(self, leader: str, assignor: Assignor) -> Plan | None:
        """The plan, or None if the previous assignment stays in force. Raises AssignorFailed."""
        if self._skip:
            return None
        assert self._planned is not None
        made = plan(self._members, self._planned, assignor)
        assignments = {
            **made.assignments,
            **{name: Assignment(EAGER_VERSION, ()) for name in self._strangers},
        }
        for name, member in self._members.items():
            if member.instance is not None:
                counts = self._planned if name == leader else None
                settled = assignor.name != COOPERATIVE_STICKY or name not in made.report.revoked
                data = note(member.subscription.topics if settled else (), counts)
                if isinstance(assignor, SendsAssignmentData):
                    data = add_user_data(data, assignments[name].user_data)
                if assignor.name == COOPERATIVE_STICKY:
                    data = mark(data)
                assignments[name] = replace(assignments[name], user_data=data)
        return Plan(assignments, made.report)

    def take_note(self, found: bytes) -> None:
        """Take the note of the leader's own assignment; a plan that stays in force may be outdated."""
        if self._skip and self._members:
            assert self._planned is not None
            self._outdated = not same_counts(found, self._planned)

    def change(self) -> str | None:
        """Why the plan is outdated, or None."""
        if self._outdated:
            return "partition counts changed while the leader was away"
        planned = self._planned
        if planned is None:
            return None
        for topic, number in sorted(self._seen.items()):
            before = planned.get(topic, 0)
            if number != before:
                return f"topic {topic} has {number} partitions, had {before}"
        return None
