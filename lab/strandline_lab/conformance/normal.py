"""Replaces what two systems must choose on their own, so that the rest of an answer can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from strandline_lab.conformance.batches import described
from strandline_lab.conformance.definitions import NO_ID

LEFT_OUT: Final = frozenset({"ThrottleTimeMs", "ApiKeys", "FinalizedFeaturesEpoch"})
"""How long a client is to wait is a matter of load; the versions of all APIs have a table of their own."""
TEXTS: Final = frozenset({"ErrorMessage", "BatchIndexErrorMessage", "Documentation"})
NODES: Final = frozenset({"NodeId", "ControllerId", "LeaderId", "Leader"})
EPOCHS: Final = frozenset({"LeaderEpoch", "CommittedLeaderEpoch", "EndOffsetLeaderEpoch", "CoordinatorEpoch"})
REPLICAS: Final = frozenset({
    "ReplicaNodes", "IsrNodes", "Replicas", "AddingReplicas", "RemovingReplicas", "EligibleLeaderReplicas",
    "LastKnownElr",
})  # fmt: skip
TIMES: Final = ("Time", "Timestamp", "TimeMs", "TimestampMs", "MaxTimestamp", "LastTimestamp")
OPAQUE: Final = {
    "ClusterId": "(cluster)",
    "LogDir": "(folder)",
    "MemberId": "(a member)",
    "Leader": "(a member)",
}
COUNTED: Final = {
    "Port": "(port)", "SessionId": "(session)", "PartitionSize": "(size)", "TotalBytes": "(size)",
    "UsableBytes": "(size)",
}  # fmt: skip
DEFAULT_SOURCES: Final = (3, 4, 5)
"""A setting of all brokers, of one, or of none: what is a default here is set in the other system."""
HOUR_MS: Final = 3_600_000
EARLY_MS: Final = HOUR_MS - 100_000
LATE_MS: Final = 2 * HOUR_MS
"""A run begins an hour after its `start_ms`, so that times which cases give are not those of the run."""
ALL_REPLICAS: Final = 3

IDENTITY: Final = (
    "Name", "TopicName", "Topic", "TopicId", "PartitionIndex", "PartitionId", "Partition", "Index", "GroupId",
    "Key", "ResourceType", "ResourceName", "PatternType", "Principal", "Operation", "NodeId", "BrokerId",
    "MemberId", "GroupInstanceId", "User", "Mechanism", "TransactionalId", "Entity", "EntityType",
    "EntityName",
)  # fmt: skip
"""The fields by which elements of an array are sorted, and told apart."""


@dataclass(frozen=True, slots=True)
class Known:
    """What one system chose: ids of topics, and values that the case took, by their names."""

    topics: Mapping[UUID, str]
    taken: Mapping[str, Any]
    start_ms: int
    only: str = ""
    """Elements of the outermost arrays whose names begin otherwise are left out."""


def normal(value: Any, known: Known, name: str = "") -> Any:
    """A part of an answer in the form in which it is compared. Arrays are sorted."""
    match value:
        case dict():
            return {
                field: normal(each, known, field) for field, each in value.items() if field not in LEFT_OUT
            }
        case list() if value and isinstance(value[0], dict):
            return sorted((normal(each, known) for each in value), key=identity)
        case list() if name in REPLICAS:
            return sorted(value) if len(value) in (0, ALL_REPLICAS) else f"({len(value)} brokers)"
        case list():
            return sorted((normal(each, known) for each in value), key=str)
        case UUID():
            return "(none)" if value == NO_ID else known.topics.get(value, "(id)")
        case bytes():
            return normal(described(value), known) if name == "Records" else value.hex()
        case str():
            return _text(value, known, name)
        case bool() | None:
            return value
        case int():
            return _number(value, known, name)
        case _:
            return value


def whole(answer: Any, known: Known) -> Any:
    """An answer in the form in which it is compared."""
    if isinstance(answer, dict) and known.only:
        answer = {name: _only(each, known.only) for name, each in answer.items()}
    return normal(answer, known)


def _only(value: Any, prefix: str) -> Any:
    if not isinstance(value, list):
        return value
    return [each for each in value if not isinstance(each, dict) or identity(each)[0].startswith(prefix)]


def identity(element: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells an element of an array from the others."""
    return tuple(str(element[name]) for name in IDENTITY if name in element)


def _text(value: str, known: Known, name: str) -> str:
    for taken, each in known.taken.items():
        if each == value and value:
            return f"({taken})"
    if name in TEXTS:
        return "(text)" if value else value
    return OPAQUE[name] if value and name in OPAQUE else value


def _number(value: int, known: Known, name: str) -> Any:
    if name in NODES:
        return "(broker)" if value >= 0 else value
    if name in EPOCHS:
        return "(epoch)" if value >= 0 else value
    if name == "ConfigSource":
        return "(default)" if value in DEFAULT_SOURCES else value
    if name in COUNTED:
        return COUNTED[name] if value > 0 else value
    if name == "ProducerId" and value >= 0:
        return "(producer)" if value > 0 or known.taken else value
    if name.endswith(TIMES) and value > HOUR_MS:
        since = value - known.start_ms
        return since if since < EARLY_MS or since > LATE_MS else "(now)"
    return value
