"""ApiVersions: what a broker serves. The first request of most connections."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    ERROR,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Struct,
    row,
    throttle,
)

LAST: Final = 5
"""All versions from 0 to this one are served."""
FLEXIBLE_SINCE: Final = 3


class ApiVersionsRequest(NamedTuple):
    """The client's software, from version 3 on; empty before. From version 5 on, the cluster and the broker
    that the client takes this one for (KIP-1242); None and -1 if it does not know them."""

    software_name: str = ""
    software_version: str = ""
    cluster_id: str | None = None
    broker: int = -1


class ServedVersions(NamedTuple):
    """One API, and the versions of it that are served, both ends included."""

    api: int
    first: int
    last: int


class SupportedFeature(NamedTuple):
    """A feature of the cluster, and the levels at which a broker can have it (KIP-584)."""

    name: str
    first: int
    last: int


class FinalizedFeature(NamedTuple):
    """A feature that clients may use. Both levels are the same since Kafka 3.3."""

    name: str
    last: int
    first: int


class ApiVersionsAnswer(NamedTuple):
    """`error` 35: the request's version is not served, or its body is malformed. The table is there too.
    Other errors leave all else out. `features_epoch`: of `finalized`, at least 1; None: not known."""

    served: tuple[ServedVersions, ...] = ()
    error: int = 0
    supported: tuple[SupportedFeature, ...] = ()
    features_epoch: int | None = None
    finalized: tuple[FinalizedFeature, ...] = ()


REQUEST: Final = Struct(
    ApiVersionsRequest,
    STRING("client_software_name", "software_name", since=3),
    STRING("client_software_version", "software_version", since=3),
    STRING("cluster_id", since=5, nullable=5),
    INT32("node_id", "broker", since=5),
)
_SERVED: Final = Struct(
    ServedVersions, INT16("api_key", "api"), INT16("min_version", "first"), INT16("max_version", "last")
)
_SUPPORTED: Final = Struct(
    SupportedFeature, STRING("name"), INT16("min_version", "first"), INT16("max_version", "last")
)
_FINALIZED: Final = Struct(
    FinalizedFeature, STRING("name"), INT16("max_version_level", "last"), INT16("min_version_level", "first")
)
ANSWER: Final = Struct(
    ApiVersionsAnswer,
    ERROR,
    row("api_keys", Array(_SERVED), "served"),
    throttle(since=1),
    # Clients that ask in version 3 may refuse features that begin at level 0 (KAFKA-17011).
    row("supported_features", Array(_SUPPORTED), "supported", since=4, tag=0),
    INT64("finalized_features_epoch", "features_epoch", since=3, tag=1),
    row("finalized_features", Array(_FINALIZED), "finalized", since=3, tag=2),
)
