"""The configs of a group as Kafka clients read and change them, with the errors of a broker of Kafka 4.4."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.configs.group_names import group_configs, group_increment, group_replacement
from strandline.broker.kafka.handlers.configs import ConfigsApi
from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.configs import (
    APPEND,
    BROKER_FILE,
    DEFAULT_VALUE,
    DELETE,
    GROUP,
    GROUP_OWN,
    SET,
    AlterConfigsRequest,
    ConfigChange,
    DescribeConfigsRequest,
    GivenConfig,
    IncrementalAlterConfigsRequest,
    Resource,
    ResourceChanges,
    ResourceConfigs,
    WantedConfigs,
)
from strandline.broker.metadata.topic_outlines import TopicOutlines
from strandline.errors import InvalidConfig, InvalidRequest, StrandlineError, UnknownServerError
from strandline.vocabulary.configs.groups import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    AlterGroupConfigs,
    GroupConfigAlteration,
    GroupConfigResult,
    GroupConfigs,
)
from strandline.vocabulary.metadata import Endpoint
from tests.broker.kafka.support.asking import called
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK, settings
from tests.broker.support.seat import seated

CALL = called(apis.DESCRIBE_CONFIGS, 4)
LONG = {SESSION_TIMEOUT: "50000"}
T = TypeVar("T")


async def soon(answer: Awaitable[T]) -> T:
    return await answer


def test_a_group_has_all_configs_and_says_where_they_come_from() -> None:
    found = {each.name: each for each in group_configs(LONG, settings())}
    assert sorted(found) == [
        "consumer.assignment.interval.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
    ]
    own, default = found[SESSION_TIMEOUT], found[HEARTBEAT_INTERVAL]
    assert (own.value, own.source, own.read_only) == ("50000", GROUP_OWN, False)
    assert [each.name for each in own.synonyms] == [SESSION_TIMEOUT, "group.consumer.session.timeout.ms"]
    assert (default.value, default.source) == ("5000", DEFAULT_VALUE)
    set_here = settings(group_consumer_heartbeat_interval_ms=700)
    found = {each.name: each for each in group_configs({}, set_here)}
    assert (found[HEARTBEAT_INTERVAL].value, found[HEARTBEAT_INTERVAL].source) == ("700", BROKER_FILE)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (ConfigChange(SESSION_TIMEOUT, SET, None), InvalidRequest),
        (ConfigChange(SESSION_TIMEOUT, APPEND, "1"), InvalidConfig),
        (ConfigChange(SESSION_TIMEOUT, 9, "1"), UnknownServerError),
    ],
)
def test_a_change_that_cannot_be_is_refused(change: ConfigChange, error: type[StrandlineError]) -> None:
    with pytest.raises(error):
        group_increment("g", [change])


def test_a_config_stands_once() -> None:
    with pytest.raises(InvalidRequest):
        group_increment("g", [ConfigChange("a", DELETE, None)] * 2)
    for given in ([GivenConfig("a", "1")] * 2, [GivenConfig("a", None)]):
        with pytest.raises(InvalidRequest):
            group_replacement("g", given)


async def test_the_controller_describes_and_alters_groups(tmp_path: Path) -> None:
    """One request to it for all groups. `AlterConfigs` replaces what a group has."""

    def answer(asked: Any) -> Any:
        if isinstance(asked, AlterGroupConfigs):
            return [GroupConfigResult(each.group, InvalidConfig("no")) for each in asked.alterations]
        return [GroupConfigs(each, LONG) for each in asked]

    async with seated(tmp_path) as seat:
        controller = MemoryController(answer)
        own = Endpoint(seat.manager.settings.broker_id, "b", 1)
        requests = partial(ControllerRequests, controller.link)
        api = ConfigsApi(
            requests,
            TopicOutlines(lambda: seat.coordination, soon, CLOCK),
            seat.manager.settings,
            own,
            OPEN,
            CLOCK,
        )
        names = [WantedConfigs(Resource(GROUP, name), (SESSION_TIMEOUT,)) for name in ("g", "h", "")]
        described = await api.describe(DescribeConfigsRequest(tuple(names)), CALL, AnswerSize(CLOCK))
        changes = (
            ResourceChanges(Resource(GROUP, "g"), (ConfigChange(SESSION_TIMEOUT, SET, "1"),)),
            ResourceChanges(Resource(GROUP, ""), (ConfigChange(SESSION_TIMEOUT, SET, "50000"),)),
        )
        altered = await api.alter_incrementally(IncrementalAlterConfigsRequest(changes, True), CALL)
        replaced = ResourceConfigs(Resource(GROUP, "g"), (GivenConfig(SESSION_TIMEOUT, "50000"),))
        await api.alter(AlterConfigsRequest((replaced,), False), CALL)
    assert [(each.error, [one.value for one in each.configs]) for each in described.resources] == [
        (0, ["50000"]),
        (0, ["50000"]),
        (42, []),
    ]
    assert [each.error for each in altered.outcomes] == [40, 42]
    assert controller.asked == [
        ("DescribeGroupConfigs", ["g", "h"]),
        (
            "AlterGroupConfigs",
            AlterGroupConfigs((GroupConfigAlteration("g", {SESSION_TIMEOUT: "1"}, []),), validate_only=True),
        ),
        ("AlterGroupConfigs", AlterGroupConfigs((GroupConfigAlteration("g", LONG, replace=True),))),
    ]
