"""Requests to the controller about configs of groups, on a real ZooKeeper."""

from __future__ import annotations

import json

from strandline.adapters.zookeeper.security.group_config_znodes import GROUP_CONFIGS, load_group_change
from strandline.errors import InvalidConfig, InvalidRequest
from strandline.vocabulary.configs.groups import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    AlterGroupConfigs,
    GroupConfigAlteration,
    GroupConfigResult,
    GroupConfigs,
)
from tests.controller.support.running import Activate
from tests.controller.support.znodes_seen import noticed
from tests.waiting import eventually


def one(group: str, *, validate_only: bool = False, **change: object) -> AlterGroupConfigs:
    return AlterGroupConfigs((GroupConfigAlteration(group, **change),), validate_only)  # type: ignore[arg-type]


async def test_configs_are_set_described_and_removed(active: Activate) -> None:
    """Each write has a notice; a repeated one writes nothing; a group without configs has no znode."""
    async with active([]) as (session, controller, _):
        admin = controller.admin
        for _ in range(2):
            wanted = one("a/b", set={SESSION_TIMEOUT: "50000"})
            assert await admin.alter_group_configs(wanted) == [GroupConfigResult("a/b")]
        assert await noticed(session, load_group_change) == ["a/b"]
        stored = json.loads((await session.get(f"{GROUP_CONFIGS}/a%2Fb")).data)
        assert stored == {SESSION_TIMEOUT: "50000"}
        await admin.alter_group_configs(one("a/b", set={HEARTBEAT_INTERVAL: "6000"}))
        both = GroupConfigs("a/b", {SESSION_TIMEOUT: "50000", HEARTBEAT_INTERVAL: "6000"})
        assert await admin.describe_group_configs(()) == [both]
        assert await admin.describe_group_configs(["x", "a/b"]) == [GroupConfigs("x"), both]
        await admin.alter_group_configs(one("a/b", unset=[SESSION_TIMEOUT]))
        assert await admin.describe_group_configs(()) == [GroupConfigs("a/b", {HEARTBEAT_INTERVAL: "6000"})]
        await admin.alter_group_configs(one("a/b", replace=True))
        assert await session.children(GROUP_CONFIGS) == []


async def test_a_refused_group_leaves_the_others(active: Activate) -> None:
    async with active([]) as (session, controller, _):
        wanted = AlterGroupConfigs(
            (
                GroupConfigAlteration("wrong", {SESSION_TIMEOUT: "1"}),
                GroupConfigAlteration("", {SESSION_TIMEOUT: "50000"}),
                GroupConfigAlteration("right", {SESSION_TIMEOUT: "50000"}),
                GroupConfigAlteration("twice"),
                GroupConfigAlteration("twice"),
            )
        )
        errors = [type(each.error) for each in await controller.admin.alter_group_configs(wanted)]
        assert errors == [InvalidConfig, InvalidRequest, type(None), InvalidRequest, InvalidRequest]
        assert await session.children(GROUP_CONFIGS) == ["right"]


async def test_a_trial_is_judged_and_writes_nothing(active: Activate) -> None:
    async with active([]) as (session, controller, _):
        for value, error in (("50000", type(None)), ("1", InvalidConfig)):
            wanted = one("g", set={SESSION_TIMEOUT: value}, validate_only=True)
            (result,) = await controller.admin.alter_group_configs(wanted)
            assert type(result.error) is error
        assert await session.children(GROUP_CONFIGS) == []


async def test_configs_changed_by_hand_are_found_and_garbage_is_none(active: Activate) -> None:
    async with active([], reconcile_ms=50) as (session, controller, _):
        await session.create(f"{GROUP_CONFIGS}/hand", b'{"consumer.session.timeout.ms": "50000"}')
        await session.create(f"{GROUP_CONFIGS}/garbage", b"[")

        async def known() -> bool:
            return await controller.admin.describe_group_configs(()) == [
                GroupConfigs("hand", {SESSION_TIMEOUT: "50000"})
            ]

        await eventually(known)
