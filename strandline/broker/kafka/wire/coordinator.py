"""FindCoordinator: the broker that coordinates a group, or a transactional id."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    ERROR,
    INT8,
    INT32,
    STRING,
    Array,
    Inline,
    One,
    Struct,
    inline,
    row,
    throttle,
)

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
SEVERAL_SINCE: Final = 4
"""The first version with several keys in one request (KIP-699)."""


class FindCoordinatorRequest(NamedTuple):
    """One key before version 4, several from there on."""

    keys: tuple[str, ...]
    kind: int = GROUP


class FoundCoordinator(NamedTuple):
    key: str
    error: int = 0
    message: str | None = None
    broker: int = -1
    host: str = ""
    port: int = -1


class FindCoordinatorAnswer(NamedTuple):
    """One for each key, in the order of the request."""

    found: tuple[FoundCoordinator, ...]


REQUEST: Final = Struct(
    FindCoordinatorRequest,
    row("key", One(STRING), "keys", until=3),
    INT8("key_type", "kind", since=1),
    row("coordinator_keys", Array(STRING), "keys", since=4),
)
_KEY: Final = STRING("key", since=4, absent="")
_ADDRESS: Final = (INT32("node_id", "broker"), STRING("host"), INT32("port"))
_ERROR: Final = (ERROR, STRING("error_message", "message", since=1, nullable=1))
ANSWER: Final = Struct(
    FindCoordinatorAnswer,
    throttle(since=1),
    inline("found", One(Inline(Struct(FoundCoordinator, _KEY, *_ERROR, *_ADDRESS))), until=3),
    row("coordinators", Array(Struct(FoundCoordinator, _KEY, *_ADDRESS, *_ERROR)), "found", since=4),
)
