"""Requests for APIs and versions that are not served: what the log and the metrics call them, and why.

The client hears nothing but the end of its connection: Kafka's protocol has no answer to an unknown API.
"""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.fields import MalformedRequest

OTHER: Final = "other"
"""An API that Kafka does not have either."""

_TOKENS: Final = ": there are no delegation tokens"
_NO_SHARES: Final = ": there are no share groups (KIP-932), so use a consumer"
_NO_STREAMS: Final = ": leave group.protocol=streams out (KIP-1071)"
_ZOOKEEPER: Final = ": the metadata is in ZooKeeper, and no quorum of Kafka's"
_TELEMETRY: Final = ": clients' metrics are not collected (KIP-714)"

UNSERVED: Final = {
    34: ("AlterReplicaLogDirs", ": a broker has one directory"),
    38: ("CreateDelegationToken", _TOKENS),
    39: ("RenewDelegationToken", _TOKENS),
    40: ("ExpireDelegationToken", _TOKENS),
    41: ("DescribeDelegationToken", _TOKENS),
    55: ("DescribeQuorum", _ZOOKEEPER),
    57: ("UpdateFeatures", ": each version of strandline has its features"),
    71: ("GetTelemetrySubscriptions", _TELEMETRY),
    72: ("PushTelemetry", _TELEMETRY),
    76: ("ShareGroupHeartbeat", _NO_SHARES),
    77: ("ShareGroupDescribe", _NO_SHARES),
    78: ("ShareFetch", _NO_SHARES),
    79: ("ShareAcknowledge", _NO_SHARES),
    80: ("AddRaftVoter", _ZOOKEEPER),
    81: ("RemoveRaftVoter", _ZOOKEEPER),
    88: ("StreamsGroupHeartbeat", _NO_STREAMS),
    89: ("StreamsGroupDescribe", _NO_STREAMS),
    90: ("DescribeShareGroupOffsets", _NO_SHARES),
    91: ("AlterShareGroupOffsets", _NO_SHARES),
    92: ("DeleteShareGroupOffsets", _NO_SHARES),
    93: ("StreamsGroupTopologyDescriptionUpdate", _NO_STREAMS),
    94: ("UnregisterController", _ZOOKEEPER),
}
"""APIs that clients may ask for though they are not named to them: their names in Kafka, and what the log
says beside the name."""


class UnservedRequest(MalformedRequest):
    """The API, or its version, is not served. `request` is the API's name, or OTHER."""

    def __init__(self, message: str, request: str) -> None:
        super().__init__(message)
        self.request = request


def unserved_api(key: int) -> UnservedRequest:
    if key not in UNSERVED:
        return UnservedRequest(f"API {key} is not served", OTHER)
    name, why = UNSERVED[key]
    return UnservedRequest(f"API {key} ({name}) is not served{why}", name)


def unserved_version(name: str, version: int, first: int, last: int) -> UnservedRequest:
    return UnservedRequest(f"{name} version {version} is not served: {first} to {last} are", name)
