"""User requests to the controller, on a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.security.acl_znodes import CHANGES
from strandline.adapters.zookeeper.security.folder_reader import FolderReader
from strandline.adapters.zookeeper.security.user_znodes import USER_FOLDER, load_user_change, user_path
from strandline.controller.security.notices import NOTICES_KEPT, NOTICES_MAX
from strandline.controller.security.users import USERS_MAX
from strandline.errors import InvalidRequest, NotController, OutcomeUnknown, ResourceNotFound, StrandlineError
from strandline.security.login.credentials import (
    EVERY_MECHANISM,
    ITERATIONS_DEFAULT,
    UserChange,
    make_credential,
)
from strandline.security.login.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from strandline.vocabulary.admin import UserDescription, UserResult
from tests.controller.support.running import Activate, running
from tests.controller.support.znodes_seen import noticed
from tests.waiting import eventually

CREDENTIALS = {
    mechanism: make_credential(mechanism, "wonderland", b"0123456789abcdef")
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)
}


def given(user: str, mechanism: str = SCRAM_SHA_512) -> UserChange:
    return UserChange(user, mechanism, CREDENTIALS[mechanism])


def taken(user: str, mechanism: str = EVERY_MECHANISM) -> UserChange:
    return UserChange(user, mechanism)


def described(user: str, *mechanisms: str) -> UserDescription:
    return UserDescription(user, dict.fromkeys(mechanisms, ITERATIONS_DEFAULT))


def errors(results: Sequence[UserResult]) -> list[type | None]:
    return [None if each.error is None else type(each.error) for each in results]


async def test_users_are_set_described_and_deleted(active: Activate) -> None:
    """A11: each change has a notice. Without its last credential a user is gone."""
    async with active([]) as (session, controller, _):
        admin = controller.admin
        wanted = [given("alice"), given("a/b"), given("alice", SCRAM_SHA_256)]
        assert await admin.alter_users(wanted) == [UserResult("alice"), UserResult("a/b")]
        both = described("alice", SCRAM_SHA_256, SCRAM_SHA_512)
        assert await admin.describe_users([]) == [described("a/b", SCRAM_SHA_512), both]
        assert await admin.describe_users(["alice"]) == [both]
        assert sorted(await noticed(session, load_user_change)) == ["a/b", "alice"]
        stored = await FolderReader(session, USER_FOLDER).read("alice")
        assert stored.value == CREDENTIALS

        removed = [taken("alice", SCRAM_SHA_512), taken("a/b", SCRAM_SHA_512)]
        assert errors(await admin.alter_users(removed)) == [None, None]
        assert await admin.describe_users([]) == [described("alice", SCRAM_SHA_256)]
        assert errors(await admin.alter_users([taken("alice")])) == [None]
        assert await session.exists(user_path("alice")) is None
        assert await session.exists(user_path("a/b")) is None
        assert await admin.describe_users([]) == []
        assert len(await noticed(session, load_user_change)) == 5


async def test_each_user_has_an_outcome_of_its_own(active: Activate) -> None:
    """All changes of a user happen, or none of them."""
    async with active([]) as (session, controller, _):
        results = await controller.admin.alter_users(
            [
                taken("nobody"), given("alice"), given("bob"), taken("bob", SCRAM_SHA_256), given("carol"),
                given("carol"), given("dave"), taken("dave"),
            ]
        )  # fmt: skip
        assert [each.user for each in results] == ["nobody", "alice", "bob", "carol", "dave"]
        assert errors(results) == [ResourceNotFound, None, ResourceNotFound, InvalidRequest, InvalidRequest]
        assert await controller.admin.describe_users([]) == [described("alice", SCRAM_SHA_512)]
        missing, alice, wrong = await controller.admin.describe_users(["bob", "alice", "x" * 250])
        assert isinstance(missing.error, ResourceNotFound) and alice.error is None
        assert isinstance(wrong.error, InvalidRequest)
        assert await noticed(session, load_user_change) == ["alice"]


async def test_a_user_that_is_unreadable_is_mended_or_deleted(active: Activate) -> None:
    async with active([]) as (session, controller, _):
        await controller.admin.alter_users([given("alice"), given("bob")])
        for name in ("alice", "bob"):
            await session.set(user_path(name), b"[" * 100_000)
        assert await controller.admin.describe_users([]) == [described("alice"), described("bob")]
        assert errors(await controller.admin.alter_users([taken("alice"), given("bob")])) == [None, None]
        assert await controller.admin.describe_users([]) == [described("bob", SCRAM_SHA_512)]


async def test_a_member_gets_no_password(active: Activate) -> None:
    """A3: it could not log in by it. What is there can be removed."""
    async with active([]) as (_, controller, _):
        await controller.admin.alter_users([given("broker-1"), given("controller-2")])
    rules = {"controller_id": 2, "authorizer": "acl", "super_users": "User:root"}
    async with active([], **rules) as (_, controller, _):
        refused = await controller.admin.alter_users([given("broker-1"), given("alice")])
        assert errors(refused) == [InvalidRequest, None]
        assert errors(await controller.admin.alter_users([taken("broker-1")])) == [None]
        refused = await controller.admin.alter_users([given("broker-1")])
        assert errors(refused) == [InvalidRequest]
        assert await controller.admin.describe_users([]) == [
            described("alice", SCRAM_SHA_512), described("controller-2", SCRAM_SHA_512),
        ]  # fmt: skip


async def test_the_next_controller_has_the_users(zookeeper: str) -> None:
    async with running(zookeeper, 1) as one:
        await one.wait_active()
        await one.admin.alter_users([given("alice")])
        async with running(zookeeper, 2) as two:
            await two.wait_knows(1)
            with pytest.raises(NotController):
                await two.admin.alter_users([given("bob")])
            await one.stop()
            await two.wait_active()
            assert await two.admin.describe_users([]) == [described("alice", SCRAM_SHA_512)]


async def test_requests_at_the_same_time_lose_nothing(active: Activate) -> None:
    async with active([]) as (_, controller, _):
        async with asyncio.TaskGroup() as tasks:
            for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
                for number in range(10):
                    tasks.create_task(controller.admin.alter_users([given(f"u{number}", mechanism)]))
        assert await controller.admin.describe_users([]) == [
            described(f"u{number}", SCRAM_SHA_256, SCRAM_SHA_512) for number in range(10)
        ]


async def test_a_deposed_controller_changes_no_user(active: Activate) -> None:
    """Its write is fenced, as all of its writes (CORRECTNESS E5). The end of the term may reach the request
    before the refusal of its write."""
    async with active([]) as (session, controller, _):
        current = await session.get(znodes.CONTROLLER_EPOCH)
        await session.set(znodes.CONTROLLER_EPOCH, b"", version=current.version)
        error: StrandlineError | None
        try:
            (result,) = await controller.admin.alter_users([given("alice")])
            error = result.error
        except StrandlineError as ended:
            error = ended
        assert isinstance(error, OutcomeUnknown)
        assert await session.exists(user_path("alice")) is None


async def test_new_users_beyond_a_bound_are_refused(active: Activate) -> None:
    """Those that there are can still be changed."""
    requests = [
        [given("alice"), *[given(f"u{number}") for number in range(USERS_MAX)]],
        [given("alice"), *[given(f"{number:ü>249}") for number in range(400)]],
    ]
    async with active([]) as (_, controller, _):
        await controller.admin.alter_users([given("alice")])
        for changes in requests:
            results = await controller.admin.alter_users(changes)
            assert errors(results) == [None, *[InvalidRequest] * (len(changes) - 1)]
        assert await controller.admin.describe_users([]) == [described("alice", SCRAM_SHA_512)]


async def test_old_notices_are_removed_without_an_authorizer(active: Activate) -> None:
    async with active([], reconcile_ms=50) as (session, controller, _):
        await controller.admin.alter_users([given(f"u{number}") for number in range(NOTICES_MAX + 10)])

        async def few() -> bool:
            return NOTICES_KEPT <= len(await session.children(CHANGES)) <= NOTICES_MAX

        await eventually(few, what="old notices are removed")
