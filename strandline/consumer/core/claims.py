"""Decides which member owns which partition, from the claims of a group's members.

If two members claim one partition, the claim of the newer generation is valid: the older claimant
has missed a rebalance. Of two claims with the same generation neither is valid (CORRECTNESS G2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from strandline.ids import TopicPartition


class Claimant(Protocol):
    """A member's subscription, as it was sent or as an assignor sees it."""

    @property
    def topics(self) -> tuple[str, ...]: ...
    @property
    def owned(self) -> tuple[TopicPartition, ...]: ...
    @property
    def owned_generation(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Claims:
    """`owners` has each valid claim, `void` the members whose claim on a partition is invalid."""

    owners: Mapping[TopicPartition, str]
    void: Mapping[TopicPartition, frozenset[str]]

    def unclaimed(self, partition: TopicPartition) -> bool:
        """True if no member can be reading it."""
        return partition not in self.owners and partition not in self.void


def settle(subscriptions: Mapping[str, Claimant]) -> Claims:
    """Evaluate all claims. A claim on a topic that its member does not subscribe to is invalid."""
    claimants: dict[TopicPartition, list[str]] = {}
    for member, subscription in subscriptions.items():
        for partition in dict.fromkeys(subscription.owned):
            claimants.setdefault(partition, []).append(member)
    topics = {member: frozenset(subscription.topics) for member, subscription in subscriptions.items()}
    owners: dict[TopicPartition, str] = {}
    void: dict[TopicPartition, frozenset[str]] = {}
    for partition, members in claimants.items():
        youngest = max(subscriptions[member].owned_generation for member in members)
        first = [member for member in members if subscriptions[member].owned_generation == youngest]
        rest = frozenset(members)
        if len(first) == 1 and partition.topic in topics[first[0]]:
            owners[partition] = first[0]
            rest -= {first[0]}
        if rest:
            void[partition] = rest
    return Claims(owners, void)
