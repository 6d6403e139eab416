"""What an assignor is: who of a group's members reads which partition, decided by the group's leader.

An assignor only says where everything should be in the end. How it gets there without two owners at a time
(KIP-429) is not its concern: `consumer.core.leader` splits its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from strandline.groups import NO_GENERATION
from strandline.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member as an assignor sees it.

    `owned` is what it claims since `owned_generation`: it may be stale, and others may claim the same.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    owned_generation: int = NO_GENERATION
    instance: str | None = None
    user_data: bytes = b""


class Assignor(Protocol):
    """A way to assign. All members of a group know it under the same name."""

    @property
    def name(self) -> str: ...

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        """Every member's partitions, by member id.

        `partitions` has the number of partitions of each topic that exists. Each partition that somebody
        subscribes to goes to exactly one of its subscribers. The answer depends on the arguments only, not
        on their order: another leader would say the same.
        """
        ...


@runtime_checkable
class TellsLeader(Protocol):
    """An assignor that also sends something of its own from each member to the leader."""

    def subscription_user_data(self) -> bytes:
        """What `MemberSubscription.user_data` is to be for this member; asked before each join."""
        ...


def user_data_of(assignor: Assignor) -> bytes:
    """What a member puts into its subscription for this assignor."""
    return assignor.subscription_user_data() if isinstance(assignor, TellsLeader) else b""


def in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Member ids, static members first and by instance, the others by id.

    Ids are drawn anew with each life of a member, instances are not, so a static member that comes back has
    its old place (KIP-345), and members that come and go move none of those before them.
    """

    def place(member: str) -> tuple[bool, str, str]:
        instance = members[member].instance
        return instance is None, instance or "", member

    return sorted(members, key=place)


def subscribers_by_topic(
    members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
) -> dict[str, list[str]]:
    """Who subscribes to each topic that exists, `in_order`; topics by name."""
    subscribers: dict[str, list[str]] = {}
    for member in in_order(members):
        for topic in set(members[member].topics):
            if topic in partitions:
                subscribers.setdefault(topic, []).append(member)
    return dict(sorted(subscribers.items()))
