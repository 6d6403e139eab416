"""ACL requests to the controller, on a real ZooKeeper."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.security.acl_znodes import CHANGES, load_change, pattern_path, refusing
from strandline.controller.security import acls as requests
from strandline.controller.security.notices import NOTICES_KEPT, NOTICES_MAX
from strandline.errors import InvalidRequest, NotController, OutcomeUnknown, SecurityDisabled, StrandlineError
from strandline.security.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.principal import Principal
from strandline.vocabulary.admin import AclResult
from tests.controller.support.running import Activate, running
from tests.controller.support.znodes_seen import noticed
from tests.waiting import eventually

SECURE = {"authorizer": "acl", "super_users": "User:root"}
ALICE = Principal("alice")


def acl(
    name: str,
    operation: Operation = Operation.READ,
    *,
    of: ResourceType = ResourceType.TOPIC,
    pattern_type: PatternType = PatternType.LITERAL,
    principal: Principal = ALICE,
) -> AclBinding:
    return AclBinding(ResourcePattern(of, name, pattern_type), principal, "*", operation, Permission.ALLOW)


PREFIXED, GROUP, USER = PatternType.PREFIXED, ResourceType.GROUP, ResourceType.USER


@pytest.mark.parametrize(
    ("unfit", "why"),
    [
        (acl("*", pattern_type=PREFIXED), r"for every topic use '\*' with the pattern type literal"),
        (acl("*", of=GROUP, pattern_type=PREFIXED), r"for every group use '\*'"),
        (acl("a/b"), "would cover nothing: topic name 'a/b'"),
        (acl("tides*"), "would cover nothing"),
        (acl("team ", pattern_type=PREFIXED), "would cover nothing"),
        (acl("team-*", pattern_type=PREFIXED), "would cover nothing"),
        (acl("."), "would cover nothing"),
        (acl("a\nb", of=GROUP), "no control characters"),
        (acl("a\nb", Operation.WRITE, of=ResourceType.TRANSACTIONAL_ID), "no control characters"),
        (acl("a\nb", Operation.ALTER, of=USER), "cannot be printed"),
        (acl("tides", principal=Principal("alice", "user")), "begins with 'User:', in these letters"),
        (acl("tides", principal=Principal("staff", "Group")), "would cover nothing"),
        (
            acl("tides", Operation.WRITE, of=GROUP),
            "a GROUP has ALL, ALTER_CONFIGS, DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ",
        ),
        (acl("tides", Operation.CLUSTER_ACTION), "CLUSTER_ACTION on TOPIC LITERAL tides would cover nothing"),
    ],
)
async def test_an_acl_that_could_cover_nothing_is_refused_by_itself(
    active: Activate, unfit: AclBinding, why: str
) -> None:
    """A19: it would look like a right, or a denial. The others of its request are created."""
    async with active([], **SECURE) as (_, controller, _):
        refused, done = await controller.admin.create_acls([unfit, acl("tides")])
        assert isinstance(refused.error, InvalidRequest) and done.error is None
        assert re.search(why, refused.error.message), refused.error.message
        assert await controller.admin.describe_acls(AclFilter()) == [acl("tides")]


async def test_an_acl_may_be_about_what_is_not_there_yet(active: Activate) -> None:
    """A19"""
    wanted = [acl("*"), acl(".", pattern_type=PREFIXED), acl("x" * 249, pattern_type=PREFIXED)]
    wanted += [acl("*", of=GROUP), acl("a/b *", of=GROUP), acl("*x", of=GROUP, pattern_type=PREFIXED)]
    wanted += [acl("kafka-cluster", Operation.ALTER, of=ResourceType.CLUSTER)]
    async with active([], **SECURE) as (_, controller, _):
        assert await controller.admin.create_acls(wanted) == [AclResult(each) for each in wanted]


async def test_acls_are_created_described_and_deleted(active: Activate) -> None:
    """Each write has a notice; a repeated one writes nothing."""
    async with active([], **SECURE) as (session, controller, _):
        wanted = [acl("tides"), acl("tides", Operation.WRITE), acl("a/b", of=ResourceType.GROUP)]
        assert await controller.admin.create_acls(wanted) == [AclResult(each) for each in wanted]
        assert await controller.admin.create_acls(wanted) == [AclResult(each) for each in wanted]
        assert await controller.admin.describe_acls(AclFilter()) == sorted(wanted)
        assert await noticed(session, load_change) == [wanted[0].pattern, wanted[2].pattern]
        written = json.loads((await session.get("/acl/literal/TOPIC/tides")).data)
        assert [each["operation"] for each in written] == ["READ", "WRITE"]

        one, other = await controller.admin.delete_acls(
            [AclFilter(operation=Operation.WRITE), AclFilter(name="no such")]
        )
        assert one.matched == (AclResult(wanted[1]),)
        assert other.matched == ()
        await controller.admin.delete_acls([AclFilter(resource_type=ResourceType.TOPIC)])
        assert await session.exists("/acl/literal/TOPIC/tides") is None
        assert await controller.admin.describe_acls(AclFilter()) == [wanted[2]]
        assert len(await noticed(session, load_change)) == 4


async def test_the_next_controller_has_the_acls(zookeeper: str) -> None:
    async with running(zookeeper, 1, **SECURE) as one:
        await one.wait_active()
        await one.admin.create_acls([acl("tides")])
        async with running(zookeeper, 2, **SECURE) as two:
            await two.wait_knows(1)
            with pytest.raises(NotController):
                await two.admin.create_acls([acl("waves")])
            await one.stop()
            await two.wait_active()
            assert await two.admin.describe_acls(AclFilter()) == [acl("tides")]


async def test_requests_at_the_same_time_lose_nothing(active: Activate) -> None:
    async with active([], **SECURE) as (_, controller, _):
        wanted = [acl("tides", principal=Principal(f"u{number}")) for number in range(20)]
        async with asyncio.TaskGroup() as tasks:
            for each in wanted:
                tasks.create_task(controller.admin.create_acls([each]))
        assert set(await controller.admin.describe_acls(AclFilter())) == set(wanted)


async def test_a_deposed_controller_changes_nothing(active: Activate) -> None:
    """Its write is fenced, as all of its writes (CORRECTNESS E5). The end of the term may reach the request
    before the refusal of its write."""
    async with active([], **SECURE) as (session, controller, _):
        current = await session.get(znodes.CONTROLLER_EPOCH)
        await session.set(znodes.CONTROLLER_EPOCH, b"", version=current.version)
        error: StrandlineError | None
        try:
            (result,) = await controller.admin.create_acls([acl("tides")])
            error = result.error
        except StrandlineError as ended:
            error = ended
        assert isinstance(error, OutcomeUnknown)
        assert await session.exists("/acl/literal/TOPIC/tides") is None


async def test_a_request_beyond_a_bound_writes_nothing(active: Activate) -> None:
    async with active([], **SECURE) as (_, controller, _):
        many = [acl(f"n{number}") for number in range(requests.ACLS_MAX + 1)]
        results = await controller.admin.create_acls(many)
        assert all(isinstance(result.error, InvalidRequest) for result in results)
        long = [acl(f"{number:0>249}".replace("0", "ü")) for number in range(1_000)]
        results = await controller.admin.create_acls(long)
        assert all(isinstance(result.error, InvalidRequest) for result in results)
        assert await controller.admin.describe_acls(AclFilter()) == []


async def test_unreadable_acls_are_replaced_by_deleting_them(active: Activate) -> None:
    """Nothing is added to what cannot be read."""
    async with active([], **SECURE) as (session, controller, _):
        tides = acl("tides").pattern
        await controller.admin.create_acls([acl("tides")])
        await session.set(pattern_path(tides), b"[" * 100_000)
        (result,) = await controller.admin.create_acls([acl("tides", Operation.WRITE)])
        assert isinstance(result.error, InvalidRequest)
        (deleted,) = await controller.admin.delete_acls([AclFilter(name="tides")])
        assert [each.error for each in deleted.matched] == [None]
        assert await session.exists(pattern_path(tides)) is None


async def test_acls_changed_by_hand_are_found(active: Activate) -> None:
    async with active([], **SECURE, reconcile_ms=50) as (session, controller, _):
        path = pattern_path(acl("tides").pattern)
        await session.create(path, b"x")

        async def described() -> bool:
            return await controller.admin.describe_acls(AclFilter()) == [refusing(acl("tides").pattern)]

        await eventually(described, what="the unreadable znode denies")


async def test_old_notices_are_removed_and_the_newest_stay(active: Activate) -> None:
    async with active([], **SECURE, reconcile_ms=50) as (session, controller, _):
        await controller.admin.create_acls([acl(f"n{number}") for number in range(NOTICES_MAX + 10)])

        async def few() -> bool:
            return NOTICES_KEPT <= len(await session.children(CHANGES)) <= NOTICES_MAX

        await eventually(few, what="old notices are removed")
        assert max(await session.children(CHANGES)).endswith("1009")


async def test_without_an_authorizer_there_are_no_acls(active: Activate) -> None:
    async with active([]) as (session, controller, _):
        for ask in (
            controller.admin.create_acls([acl("tides")]),
            controller.admin.delete_acls([AclFilter()]),
            controller.admin.describe_acls(AclFilter()),
        ):
            with pytest.raises(SecurityDisabled):
                await ask
        assert await session.exists("/acl") is None
