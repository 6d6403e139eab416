"""ListConfigResources: what has configs."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.admin.configs import CLIENT_METRICS
from strandline.broker.kafka.wire.table.rows import ERROR, INT8, STRING, Array, Struct, row, throttle


class ListResourcesRequest(NamedTuple):
    """Types of resources; empty: all. Version 0 asks for client metrics alone (KIP-714)."""

    kinds: tuple[int, ...]


class ListedResource(NamedTuple):
    name: str
    kind: int = CLIENT_METRICS


class ListResourcesAnswer(NamedTuple):
    error: int = 0
    resources: tuple[ListedResource, ...] = ()


REQUEST: Final = Struct(
    ListResourcesRequest, row("resource_types", Array(INT8), "kinds", since=1, absent=(CLIENT_METRICS,))
)
_LISTED: Final = Struct(
    ListedResource, STRING("resource_name", "name"), INT8("resource_type", "kind", since=1)
)
ANSWER: Final = Struct(
    ListResourcesAnswer,
    throttle(),
    ERROR,
    row("config_resources", Array(_LISTED, large=True), "resources"),
)
