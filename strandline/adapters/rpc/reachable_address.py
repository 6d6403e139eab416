"""Chooses which of a member's two addresses an answer names.

A broker or a controller may listen at a second address, for clients outside the network that the members
share. A client that calls there is sent external addresses, of this and of all other members, wherever an
answer names one; a caller at the first address is sent those that the members use among themselves.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from strandline.ports import Listener
from strandline.rpc import common_pb2
from strandline.vocabulary.metadata import Endpoint

_listener: Final[ContextVar[Listener]] = ContextVar("listener", default=Listener.INTERNAL)
"""By which the call came in that is being answered. Each call is a task, and so has a context of its own."""


def answer_for(listener: Listener) -> None:
    """From now on this task, and those that it starts, answer a call that came in there."""
    _listener.set(listener)


def endpoint_to_wire(endpoint: Endpoint) -> common_pb2.Endpoint:
    """Where the caller that is being answered reaches this member."""
    host, port = address_for_caller(endpoint.host, endpoint.port, endpoint.external)
    return common_pb2.Endpoint(id=endpoint.id, host=host, port=port, rack=endpoint.rack)


def address_for_caller(host: str, port: int, external: tuple[str, int] | None) -> tuple[str, int]:
    """The address of a member that the caller can reach. A member with one address has it for all."""
    return external if external is not None and _listener.get() is Listener.EXTERNAL else (host, port)
