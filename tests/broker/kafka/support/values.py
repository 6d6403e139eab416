"""Any answers of a broker, and how its values look in the tables of `messages`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from strandline.broker.kafka.wire import coordinator, fetch, metadata, offsets, produce, producer_id
from strandline.broker.kafka.wire.admin import topic_changes
from strandline.broker.kafka.wire.metadata import NO_TOPIC_ID
from strandline.broker.kafka.wire.topics import OfTopic, Topics
from tests.broker.kafka.support.schemas import SHORT_TEXT

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = SHORT_TEXT
MAYBE_TEXT = SHORT_TEXT | st.none()
INTS = st.lists(INT32, max_size=3).map(tuple)
IDS = st.binary(min_size=16, max_size=16).map(bytes.hex)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


def by_topic(partition: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return some(st.builds(OfTopic, TEXT, some(partition)))


ANSWERS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "Produce": st.builds(
        produce.ProduceAnswer,
        by_topic(st.builds(produce.ProducedPartition, INT32, INT16, INT64, INT64, MAYBE_TEXT)),
    ),
    "Fetch": st.builds(
        fetch.FetchAnswer,
        by_topic(
            st.builds(fetch.FetchedPartition, INT32, INT16, INT64, INT64, INT64, st.binary(max_size=50))
        ),
        INT16,
        st.booleans(),
    ),
    "ListOffsets": st.builds(
        offsets.ListOffsetsAnswer,
        by_topic(st.builds(offsets.OffsetAtTime, INT32, INT16, INT64, INT64, INT32)),
    ),
    "Metadata": st.builds(
        metadata.MetadataAnswer,
        some(st.builds(metadata.BrokerAddress, INT32, TEXT, INT32, MAYBE_TEXT)),
        MAYBE_TEXT,
        INT32,
        some(
            st.builds(
                metadata.TopicFacts, TEXT, INT16, IDS, st.booleans(),
                some(st.builds(metadata.PartitionFacts, INT32, INT16, INT32, INT32, INTS, INTS, INTS)),
            )
        ),
    ),
    "FindCoordinator": st.builds(
        coordinator.FindCoordinatorAnswer,
        st.builds(coordinator.FoundCoordinator, TEXT, INT16, MAYBE_TEXT, INT32, TEXT, INT32).map(
            lambda found: (found,)
        ),
    ),
    "CreateTopics": st.builds(
        topic_changes.CreateTopicsAnswer,
        some(
            st.builds(
                topic_changes.CreatedTopic, TEXT, INT16, MAYBE_TEXT, IDS, INT32, INT16,
                st.none() | some(
                    st.builds(
                        topic_changes.CreatedConfig, TEXT, MAYBE_TEXT, st.booleans(), st.integers(0, 5),
                        st.booleans(),
                    )
                ),
            )
        ),
    ),
    "InitProducerId": st.builds(producer_id.InitProducerIdAnswer, INT64, INT16, INT16),
    "OffsetForLeaderEpoch": st.builds(
        offsets.EpochEndsAnswer, by_topic(st.builds(offsets.PartitionEpochEnd, INT32, INT16, INT32, INT64))
    ),
}  # fmt: skip
"""By the name of the API."""


def shown(value: Any) -> Any:
    """A broker's value as a table's: structures are mappings by the names of their fields."""
    if hasattr(value, "_asdict"):
        return {name: shown(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [shown(each) for each in value]
    return bytes(value) if isinstance(value, memoryview) else value


def part(value: Any, other: Any) -> bool:
    """True if the two are equal in all fields that both have."""
    if isinstance(value, dict):
        return all(part(value[name], other[name]) for name in value.keys() & other.keys())
    if isinstance(value, list):
        return len(value) == len(other) and all(map(part, value, other))
    return bool(value == other)


def expected_answer(name: str, answer: Any, version: int) -> dict[str, Any]:
    """What a client of this version reads from a broker's answer."""
    found: dict[str, Any] = shown(answer)
    if name == "FindCoordinator" and version < 4:
        return dict(found["found"][0])
    if name == "Fetch":
        aborted: list[object] | None = [] if found.pop("aborted") else None
        for topic in found["topics"]:
            for partition in topic["partitions"]:
                partition["aborted"] = aborted
    return found


def _topics(values: dict[str, Any], make: Callable[[dict[str, Any]], Any]) -> Topics[Any]:
    return tuple(OfTopic(each["name"], tuple(map(make, each["partitions"]))) for each in values["topics"])


def expected_request(name: str, values: dict[str, Any]) -> Any:
    """The broker's value for what a client sent."""
    get = values.get
    match name:
        case "Produce":
            topics = _topics(values, lambda p: produce.PartitionRecords(p["partition"], p["records"]))
            return produce.ProduceRequest(
                get("acks", 0), get("timeout_ms", 0), topics, get("transactional_id")
            )
        case "Fetch":
            topics = _topics(
                values,
                lambda p: fetch.PartitionPosition(
                    p["partition"], p.get("leader_epoch", -1), p["offset"], p["bytes_max"]
                ),
            )
            return fetch.FetchRequest(
                values["wait_ms"], values["bytes_min"], values["bytes_max"], values["isolation_level"],
                topics, get("session_id", 0), get("session_epoch", -1),
            )  # fmt: skip
        case "ListOffsets":
            return offsets.ListOffsetsRequest(
                _topics(
                    values,
                    lambda p: offsets.PartitionTime(
                        p["partition"], p.get("leader_epoch", -1), p["timestamp_ms"]
                    ),
                )
            )
        case "FindCoordinator":
            keys = tuple(values["keys"]) if "keys" in values else (values["key"],)
            return coordinator.FindCoordinatorRequest(keys, get("kind", 0))
        case "CreateTopics":
            return topic_changes.CreateTopicsRequest(
                tuple(_wanted_topic(each) for each in values["topics"]),
                values["timeout_ms"],
                get("validate_only", False),
            )
        case "InitProducerId":
            return producer_id.InitProducerIdRequest(values["transactional_id"])
        case "OffsetForLeaderEpoch":
            return offsets.EpochEndsRequest(_topics(values, lambda p: offsets.PartitionEpoch(**p)))
        case _:
            return _metadata(values)


def _metadata(values: dict[str, Any]) -> metadata.MetadataRequest:
    asked = values["topics"]
    before_null = "auto_create" not in values
    wanted = None
    if asked is not None:
        wanted = tuple(metadata.TopicWanted(t["name"], t.get("topic_id", NO_TOPIC_ID)) for t in asked)
    return metadata.MetadataRequest(wanted, True if before_null else values["auto_create"])


def _wanted_topic(values: dict[str, Any]) -> topic_changes.WantedTopic:
    return topic_changes.WantedTopic(
        values["name"],
        values["partitions"],
        values["replication_factor"],
        tuple(topic_changes.GivenReplicas(**each) for each in values["assignments"]),
        tuple(topic_changes.GivenConfig(**each) for each in values["configs"]),
    )
