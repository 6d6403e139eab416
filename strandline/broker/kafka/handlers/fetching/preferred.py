"""Which replica a client reads from (KIP-392): one in its own rack, if the partition has one in sync."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from strandline.broker.kafka.addresses import kafka_address
from strandline.ids import NO_BROKER, BrokerId, TopicPartition
from strandline.ports import Listener
from strandline.vocabulary.metadata import Endpoint, Registration


class PreferredReplicas:
    """The choice of a leader, for the partitions that it leads."""

    def __init__(
        self,
        in_sync: Callable[[TopicPartition], Sequence[BrokerId]],
        live: Callable[[], Mapping[BrokerId, Registration]],
        suspected: Callable[[], Collection[BrokerId]],
        own: Endpoint,
    ) -> None:
        """`in_sync`: the ISR of a partition that this broker leads; empty for others."""
        self._in_sync = in_sync
        self._live = live
        self._suspected = suspected
        self._own = own

    def of(self, name: TopicPartition, rack: str, to: Listener) -> BrokerId:
        """A follower in this rack that a client of that listener can reach; NO_BROKER if it is to read here.
        Partitions spread over several of them."""
        if not rack or rack == self._own.rack:
            return NO_BROKER
        live, suspected = self._live(), self._suspected()
        near = sorted(
            broker
            for broker in self._in_sync(name)
            if broker in live and broker not in suspected and _serves(live[broker], rack, to)
        )
        return near[name.partition % len(near)] if near else NO_BROKER


def _serves(registration: Registration, rack: str, to: Listener) -> bool:
    endpoint = registration.endpoint
    return registration.follower_fetch and endpoint.rack == rack and kafka_address(endpoint, to) is not None
