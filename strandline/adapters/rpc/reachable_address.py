"""Chooses which of a member's two addresses an answer names.

A broker or a controller may listen at a second address, for clients outside the network that the members
share. A client that calls there is sent external addresses, of this and of all other members, wherever an
answer names one; a caller at the first address is sent those that the members use among themselves.
"""

from __future__ import annotations

from strandline.ports import Listener
from strandline.rpc import common_pb2
from strandline.vocabulary.metadata import Endpoint


def endpoint_to_wire(endpoint: Endpoint, to: Listener) -> common_pb2.Endpoint:
    """Where a caller at that listener reaches this member."""
    host, port = reachable_address(endpoint.host, endpoint.port, endpoint.external, to)
    return common_pb2.Endpoint(id=endpoint.id, host=host, port=port, rack=endpoint.rack)


def reachable_address(
    host: str, port: int, external: tuple[str, int] | None, to: Listener
) -> tuple[str, int]:
    """The address of a member for callers at that listener. A member with one address has it for all."""
    return external if external is not None and to is Listener.EXTERNAL else (host, port)
