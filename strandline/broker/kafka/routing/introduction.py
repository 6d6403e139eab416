"""Answers ApiVersions: which versions of which APIs are served, which of Kafka's features there are, and
whether this is the broker that the client means.

It answers clients of any version, so that they learn which versions to use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.routing.unserved import UnservedRequest, unserved_version
from strandline.broker.kafka.wire.api_versions import (
    ANSWER,
    FLEXIBLE_SINCE,
    LAST,
    REQUEST,
    ApiVersionsAnswer,
    ApiVersionsRequest,
    FinalizedFeature,
    ServedVersions,
    SupportedFeature,
)
from strandline.broker.kafka.wire.fields import MalformedRequest, Part, Reader, Writer
from strandline.broker.kafka.wire.header import RequestHeader, frame
from strandline.broker.kafka.wire.table.compiled import reading, writing
from strandline.errors import ErrorCode

FEATURE_LEVELS: Final[Mapping[str, int]] = {
    "group.version": 1,
    "share.version": 0,
    "streams.version": 0,
    "transaction.version": 2,
}
"""Kafka's features that clients ask for, each with its level; 0: it is not there. Every broker of this
version has these levels."""
FEATURES_EPOCH: Final = 3
"""Rises with each change of a level: clients keep the levels of the highest epoch that they have seen."""

_NAME: Final = re.compile(r"(?![.-])[A-Za-z0-9.-]+(?<![.-])")
_SUPPORTED: Final = tuple(SupportedFeature(name, 0, level) for name, level in FEATURE_LEVELS.items())
_FINALIZED: Final = tuple(
    FinalizedFeature(name, level, level) for name, level in FEATURE_LEVELS.items() if level
)


class Place(NamedTuple):
    """The broker that a client has reached, and its cluster."""

    cluster_id: str
    broker: int


@dataclass(frozen=True, slots=True)
class Introduction:
    """ApiVersions as it arrived, and its answer."""

    header: RequestHeader
    client: ApiVersionsRequest
    version: int
    """That of the answer."""
    parts: list[Part]
    unserved: UnservedRequest | None
    """Why it is not the version of the request, if that is not served."""


def introduction(
    reader: Reader, header: RequestHeader, served: tuple[ServedVersions, ...], here: Place | None
) -> Introduction:
    """Reads the rest of the request and answers it. `here` is None before the broker knows its cluster.

    An unknown version, or a body that cannot be read, is answered in version 0 with the whole table: such a
    client looks for a version that both sides know (KIP-511)."""
    version, unserved = header.version, None
    reader.flexible = version >= FLEXIBLE_SINCE
    try:
        if not 0 <= version <= LAST:
            raise (unserved := unserved_version("ApiVersions", version, 0, LAST))
        reader.tags()
        client = reading(REQUEST, version, reader.flexible)(reader)
    except MalformedRequest:
        client, version = ApiVersionsRequest(), 0
        answer = ApiVersionsAnswer(served, int(KafkaCode.UNSUPPORTED_VERSION))
    else:
        named = version < FLEXIBLE_SINCE or is_named(client)
        answer = _answer(served, misplaced(client, here) if named else int(ErrorCode.INVALID_REQUEST))
    body = Writer(flexible=version >= FLEXIBLE_SINCE)
    writing(ANSWER, version, body.flexible)(body, answer)
    return Introduction(header, client, version, frame(header, body), unserved)


def is_named(client: ApiVersionsRequest) -> bool:
    """Whether the client's software and its version have names by Kafka's rule (KIP-511): letters, digits,
    dots and hyphens, the last two not at an end."""
    return all(map(_NAME.fullmatch, (client.software_name, client.software_version)))


def misplaced(client: ApiVersionsRequest, here: Place | None) -> int:
    """The error of a client that means another broker, since an address has changed hands: it has to begin
    anew with its bootstrap addresses (KIP-1242). 0 if it is right, or does not say."""
    if (client.cluster_id is None) != (client.broker == -1):
        return int(ErrorCode.INVALID_REQUEST)
    if here is None or client.cluster_id is None or (client.cluster_id, client.broker) == here:
        return 0
    return int(KafkaCode.REBOOTSTRAP_REQUIRED)


def _answer(served: tuple[ServedVersions, ...], error: int) -> ApiVersionsAnswer:
    if error:
        return ApiVersionsAnswer(error=error)
    return ApiVersionsAnswer(served, 0, _SUPPORTED, FEATURES_EPOCH, _FINALIZED)
