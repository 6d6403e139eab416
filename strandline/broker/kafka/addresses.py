"""Chooses the addresses that Kafka clients get.

A client goes where Metadata and FindCoordinator send it. As with gRPC, a broker may listen twice, and a
client of the external port gets external addresses.
"""

from __future__ import annotations

from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.ports import Listener
from strandline.vocabulary.metadata import Endpoint


def kafka_address(endpoint: Endpoint, to: Listener) -> BrokerAddress | None:
    """Where a Kafka client of that listener reaches the broker; None if the broker serves no such client."""
    external = endpoint.kafka_external if to is Listener.EXTERNAL else None
    address = external or endpoint.kafka
    if address is None:
        return None
    host, port = address
    return BrokerAddress(endpoint.id, host, port, endpoint.rack or None)
