"""What is set and unset for a client's changes of a topic's configs."""

from __future__ import annotations

import pytest

from strandline.broker.kafka.configs.changes import (
    Alteration,
    check_broker_changes,
    increment,
    replacement,
)
from strandline.broker.kafka.configs.topic_names import BROKER_THROTTLES
from strandline.broker.kafka.wire.admin.configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    ConfigChange,
    GivenConfig,
)
from strandline.broker.metadata.topic_outlines import TopicOutline
from strandline.errors import InvalidConfig, InvalidRequest, UnknownServerError
from strandline.ids import TopicId

THROTTLED = "leader.replication.throttled.replicas"


def topic(**config: str) -> TopicOutline:
    return TopicOutline(
        "t", TopicId("i"), 1, 3, {name.replace("_", "."): value for name, value in config.items()}
    )


def test_a_replacement_unsets_what_it_does_not_name() -> None:
    found = replacement(
        topic(retention_ms="1", segment_ms="2", flush_ms="3"),
        [
            GivenConfig("retention.ms", "1"),
            GivenConfig("segment.ms", "7"),
            GivenConfig("preallocate", "false"),
        ],
    )
    assert found == Alteration({"segment.ms": "7"}, ["flush.ms"])


def test_a_replacement_that_names_a_config_twice_is_refused() -> None:
    """As an increment is: one of its values would be dropped silently."""
    twice = [GivenConfig("segment.ms", "7"), GivenConfig("segment.ms", "8")]
    with pytest.raises(InvalidRequest, match=r"segment\.ms stands more than once"):
        replacement(topic(), twice)


def test_a_replacement_by_what_is_there_changes_nothing() -> None:
    """Of internal topics, a change would be refused."""
    assert (
        replacement(topic(cleanup_policy="compact"), [GivenConfig("cleanup.policy", "compact")])
        == Alteration()
    )


def test_single_changes_leave_the_others() -> None:
    found = increment(
        topic(retention_ms="1", segment_ms="2", flush_ms="3"),
        [
            ConfigChange("retention.ms", SET, "5"),
            ConfigChange("segment.ms", DELETE, None),
            ConfigChange("segment.bytes", DELETE, None),
            ConfigChange("compression.type", DELETE, None),
        ],
    )
    assert found == Alteration({"retention.ms": "5"}, ["segment.ms"])


@pytest.mark.parametrize(
    ("now", "operation", "value", "expected"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "delete, compact", "compact,delete"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "delete", None),
        (None, SUBTRACT, "delete", ""),
    ],
)
def test_lists_grow_and_shrink_from_what_is_in_force(
    now: str | None, operation: int, value: str, expected: str | None
) -> None:
    there = topic() if now is None else topic(cleanup_policy=now)
    found = increment(there, [ConfigChange("cleanup.policy", operation, value)])
    assert found == Alteration({} if expected is None else {"cleanup.policy": expected})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (ConfigChange("retention.ms", APPEND, "1"), InvalidConfig),
        (ConfigChange("retention.ms", SET, None), InvalidRequest),
        (ConfigChange("retention.ms", 4, "1"), UnknownServerError),
        (ConfigChange("nonsense", SET, "1"), InvalidConfig),
        (ConfigChange(THROTTLED, APPEND, "0:1"), InvalidConfig),
    ],
)
def test_changes_that_cannot_be(change: ConfigChange, error: type[Exception]) -> None:
    with pytest.raises(error):
        increment(topic(), [change])


def test_what_is_not_set_may_be_deleted_also_if_it_is_not_known() -> None:
    """MirrorMaker deletes what has its default at the source, in one request with what it sets."""
    changes = [
        ConfigChange("retention.ms", SET, "5"),
        ConfigChange("config.of.tomorrow", DELETE, None),
        ConfigChange(THROTTLED, DELETE, None),
    ]
    assert increment(topic(), changes) == Alteration({"retention.ms": "5"})


def test_the_throttles_of_a_broker_may_be_deleted_and_nothing_else() -> None:
    check_broker_changes([ConfigChange(name, DELETE, None) for name in BROKER_THROTTLES])
    rate = "leader.replication.throttled.rate"
    for refused in (
        [ConfigChange(rate, SET, "1000")],
        [ConfigChange(rate, DELETE, None), ConfigChange("num.io.threads", DELETE, None)],
        None,
    ):
        with pytest.raises(InvalidRequest, match="restart it"):
            check_broker_changes(refused)


def test_one_config_is_changed_once() -> None:
    with pytest.raises(InvalidRequest, match="more than once"):
        increment(
            topic(), [ConfigChange("retention.ms", SET, "1"), ConfigChange("retention.ms", DELETE, None)]
        )
