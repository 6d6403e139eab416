"""What the leader of a generation knows of its group, as long as it leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strandline.consumer.core.assignors.assignor import Assignor, TellsMembers
from strandline.consumer.core.leader import ParsedMember, Plan, plan
from strandline.consumer.core.notes import beside, note, same_counts
from strandline.consumer.core.protocol import EAGER_VERSION, Assignment, Subscription
from strandline.errors import InconsistentGroupProtocol
from strandline.vocabulary.groups import GroupMember


class Leading:
    """The members and the partition counts that the plan was made with, and those seen since.

    A static leader that returns within a generation makes no plan: the group's assignment stands
    (KIP-814). It cannot remember which counts that was made with, nor any static member what it subscribed
    to, so the plan has a note of that in their assignments, which the group keeps (CORRECTNESS G13); beside
    what the assignor tells them, if it does.
    """

    def __init__(self, members: Sequence[GroupMember], topics: Sequence[str], *, skip: bool) -> None:
        self._members: dict[str, ParsedMember] = {}
        self._strangers: list[str] = []
        self.unreadable: list[str] = []
        """A line for each member whose subscription cannot be read. Those get nothing."""
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

    def know(self, partitions: Mapping[str, int]) -> None:
        """The counts to assign with."""
        self._planned = {topic: n for topic, n in partitions.items() if n > 0 and topic in self.topics}
        self._seen = {topic: self._planned.get(topic, 0) for topic in self.topics}

    def saw(self, partitions: Mapping[str, int]) -> None:
        """Counts that were read later, of some topics; 0 for one that does not exist."""
        self._seen.update((topic, n) for topic, n in partitions.items() if topic in self.topics)

    def assign(self, leader: str, assignor: Assignor) -> Plan | None:
        """The plan, or None if one stands. Raises AssignorFailed."""
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
                data = note(member.subscription.topics, counts)
                if isinstance(assignor, TellsMembers):
                    data = beside(data, assignments[name].user_data)
                assignments[name] = replace(assignments[name], user_data=data)
        return Plan(assignments, made.report)

    def returned(self, written: bytes) -> None:
        """The leader's own assignment came, with this note; of a plan that stands, its counts may be old."""
        if self._skip and self._members:
            assert self._planned is not None
            self._outdated = not same_counts(written, self._planned)

    def change(self) -> str | None:
        """What makes the plan an old one, if anything does."""
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
