"""Assigns as evenly as subscriptions allow, and otherwise keeps the previous assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Final

from strandline.consumer.core.assignors.assignor import MemberSubscription, in_order, subscribers_by_topic
from strandline.consumer.core.assignors.balance import balanced
from strandline.consumer.core.claims import settle
from strandline.ids import TopicPartition

Owned = Mapping[int, list[int]]
"""index of the topic → the partitions of it that a member owns, ascending."""


class StickyAssignor:
    """Keeps the promises of Kafka's "sticky" and "cooperative-sticky" with another algorithm. The name
    decides how the group carries out an assignment, not what is assigned.

    Loads are as even as possible: no partition, nor a chain of them, could be moved so that one
    member has less and another one, with at least two fewer, more. With equal subscriptions loads
    differ by at most one, and as many partitions stay in place as any even assignment allows; with
    different ones every partition stays that an exchange with unowned partitions could keep in
    place.
    """

    def __init__(self, name: str = "sticky") -> None:
        self.name: Final = name

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        """See `Assignor.assign`."""
        order = in_order(members)
        number = {member: place for place, member in enumerate(order)}
        subscribers = subscribers_by_topic(members, partitions)
        topics = list(subscribers)
        counts = [partitions[topic] for topic in topics]
        owned = _owned(members, order, dict(zip(topics, counts, strict=True)))
        held = balanced(
            counts,
            [sum(1 << number[member] for member in subscribers[topic]) for topic in topics],
            [{topic: len(numbers) for topic, numbers in own.items()} for own in owned],
        )
        return dict(zip(order, _hand_out(topics, counts, owned, held), strict=True))


def _hand_out(
    topics: Sequence[str], counts: Sequence[int], owned: Sequence[Owned], held: Sequence[Mapping[int, int]]
) -> list[list[TopicPartition]]:
    """The partitions of each member's shares: as many of its own as may stay, then any free ones."""
    kept = [
        {topic: own.get(topic, [])[:share] for topic, share in shares.items()}
        for own, shares in zip(owned, held, strict=True)
    ]
    rest = [set(range(count)) for count in counts]
    for own in kept:
        for topic, numbers in own.items():
            rest[topic].difference_update(numbers)
    free = [iter(sorted(numbers)) for numbers in rest]
    return [
        sorted(
            TopicPartition(topics[topic], number)
            for topic, share in shares.items()
            for number in chain(own[topic], islice(free[topic], share - len(own[topic])))
        )
        for own, shares in zip(kept, held, strict=True)
    ]


def _owned(
    members: Mapping[str, MemberSubscription], order: list[str], partitions: Mapping[str, int]
) -> list[dict[int, list[int]]]:
    """What each member owns by a valid claim, of partitions that exist."""
    place = {topic: place for place, topic in enumerate(partitions)}
    owned: dict[str, dict[int, list[int]]] = {member: {} for member in order}
    for (topic, number), member in sorted(settle(members).owners.items()):
        if number < partitions.get(topic, 0):
            owned[member].setdefault(place[topic], []).append(number)
    return [owned[member] for member in order]
