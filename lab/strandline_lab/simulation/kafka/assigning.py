"""How the leader of a group of Kafka clients assigns partitions: `range`, and `cooperative-sticky`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from strandline.ids import TopicPartition
from strandline.vocabulary.parsing.consumer_protocol import COOPERATIVE_STICKY, Assignment, Subscription

EAGER: Final = 0
"""The version of an assignment that names partitions only: both protocols have it."""


def assign(
    protocol: str, members: Mapping[str, Subscription], partitions: Sequence[TopicPartition]
) -> dict[str, Assignment]:
    """An assignment for each member. All of them are subscribed to the one topic."""
    if protocol == COOPERATIVE_STICKY:
        shares = _cooperative(members, partitions)
    else:
        shares = _range(sorted(members), partitions)
    return {member: Assignment(EAGER, tuple(share)) for member, share in shares.items()}


def _range(members: Sequence[str], partitions: Sequence[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Neighbouring partitions for each member; the first members get one more."""
    each, more = divmod(len(partitions), len(members))
    shares: dict[str, list[TopicPartition]] = {}
    begin = 0
    for place, member in enumerate(members):
        end = begin + each + (place < more)
        shares[member] = list(partitions[begin:end])
        begin = end
    return shares


def _cooperative(
    members: Mapping[str, Subscription], partitions: Sequence[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """Members keep what they own, as far as it is their share. What they own beyond that is assigned to
    no member now: its owner gives it up, and all join again (KIP-429)."""
    owners = _owners(members)
    shares: dict[str, list[TopicPartition]] = {member: [] for member in sorted(members)}
    for partition in partitions:
        if partition in owners:
            shares[owners[partition]].append(partition)
    each, more = divmod(len(partitions), len(members))
    rooms = {
        member: each + (place < more)
        for place, member in enumerate(sorted(shares, key=lambda name: -len(shares[name])))
    }
    shares = {member: owned[: rooms[member]] for member, owned in shares.items()}
    for partition in partitions:
        if partition not in owners:
            max(shares.items(), key=lambda share: rooms[share[0]] - len(share[1]))[1].append(partition)
    return shares


def _owners(members: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """The claims of the latest generations. Partitions that several members claim in one have no owner."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member, subscription in members.items():
        for partition in subscription.owned:
            claims.setdefault(partition, []).append((subscription.owned_generation, member))
    owners = {}
    for partition, made in claims.items():
        latest, member = max(made)
        if Counter(generation for generation, _ in made)[latest] == 1:
            owners[partition] = member
    return owners
