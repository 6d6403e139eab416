"""Who leads now, in answers that refuse a request because of it (KIP-951).

A client goes to the new leader at once, without asking for metadata. Both are tagged fields, so clients that
do not know them skip them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from strandline.broker.kafka.wire.fields import Tagged, Writer
from strandline.broker.kafka.wire.metadata import BrokerAddress


class CurrentLeader(NamedTuple):
    broker: int
    leader_epoch: int


def leader_tags(number: int, leader: CurrentLeader | None) -> list[Tagged]:
    """The field of a partition, with this number; none if the leader is not known."""
    if leader is None:
        return []
    field = Writer(flexible=True)
    field.int32(leader.broker)
    field.int32(leader.leader_epoch)
    field.tags()
    return [(number, field)]


def endpoint_tags(number: int, endpoints: Sequence[BrokerAddress]) -> list[Tagged]:
    """The field of a whole answer with the addresses of the leaders that it names."""
    if not endpoints:
        return []
    field = Writer(flexible=True)

    def write_endpoint(endpoint: BrokerAddress) -> None:
        field.int32(endpoint.broker)
        field.string(endpoint.host)
        field.int32(endpoint.port)
        field.string(endpoint.rack)
        field.tags()

    field.array(endpoints, write_endpoint)
    return [(number, field)]
