"""What the console last saw of the cluster."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from strandline.vocabulary.admin import BrokerDescription, OngoingReassignment
from strandline.vocabulary.metadata import Endpoint, TopicMetadata

DEPARTED_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of the cluster. Times are milliseconds since 1970.

    A part that was never read is None or empty. Every part stays as it was read last; the `problem` of a part
    says why it could not be read since.
    """

    cluster_id: str = ""
    brokers: tuple[Endpoint, ...] = ()
    """Those that are alive, as a broker knows them."""
    topics: tuple[TopicMetadata, ...] = ()
    """With their partitions: leaders, replicas, in-sync replicas."""
    read_at_ms: int | None = None
    """When the three above were read."""
    problem: str = ""
    unanswered: bool = False
    """Whether the problem is that no broker answers."""
    departed: tuple[Endpoint, ...] = ()
    """Brokers that were alive at an earlier reading, as they were known then; at most DEPARTED_MAX."""

    controller: Endpoint | None = None
    """The active one."""
    described: tuple[BrokerDescription, ...] = ()
    """The brokers as the active controller knows them, also those that are gone and have queued requests."""
    moves: tuple[OngoingReassignment, ...] = ()
    """The reassignments under way."""
    described_at_ms: int | None = None
    """When the three above were read."""
    controller_problem: str = ""

    def with_brokers(self, alive: tuple[Endpoint, ...]) -> Seen:
        """The same with these brokers alive, and no others."""
        now = {each.id for each in alive}
        gone = {each.id: each for each in (*self.departed, *self.brokers) if each.id not in now}
        return replace(self, brokers=alive, departed=tuple(gone.values())[-DEPARTED_MAX:])

    @property
    def is_old(self) -> bool:
        """Whether the brokers and topics are as they were, and how they are now is not known."""
        return bool(self.problem)

    def of_topics(self, names: Collection[str]) -> Seen:
        """The same without the topics that are not named."""
        return replace(
            self,
            topics=tuple(topic for topic in self.topics if topic.name in names),
            moves=tuple(move for move in self.moves if move.name.topic in names),
        )
