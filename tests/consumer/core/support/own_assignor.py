"""A user's own assignor that does all that one can."""

from __future__ import annotations

from collections.abc import Mapping

from strandline.consumer.core.assignors.assignor import MemberSubscription
from strandline.consumer.core.assignors.registry import BUILT_IN
from strandline.ids import TopicPartition


class OwnAssignor:
    """Assigns like the sticky one, sends each member its own name, and records its calls."""

    def __init__(self, name: str = "own") -> None:
        self.name = name
        self.log: list[str] = []
        """Its calls, in order."""
        self.releases: frozenset[TopicPartition] = frozenset()
        self.to_send: dict[str, bytes] = {}
        """In place of the members' names."""
        self.heard: list[tuple[bytes, frozenset[TopicPartition], int]] = []
        self.fails = ""
        """Which of its functions raises."""

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        self._called("assign")
        return BUILT_IN["sticky"].assign(members, partitions)

    def assign_with_user_data(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
        self._called("assign_with_user_data")
        sent = self.to_send or {member: member.encode() for member in members}
        return BUILT_IN["sticky"].assign(members, partitions), sent

    def subscription_user_data(self) -> bytes:
        self._called("subscription_user_data")
        return b"for the leader"

    def release_before_join(self) -> frozenset[TopicPartition]:
        self._called("release_before_join")
        return self.releases

    def on_assignment(self, user_data: bytes, assigned: frozenset[TopicPartition], generation: int) -> None:
        self._called("on_assignment")
        self.heard.append((user_data, assigned, generation))

    def _called(self, name: str) -> None:
        self.log.append(name)
        if name == self.fails:
            raise ZeroDivisionError("oops")
