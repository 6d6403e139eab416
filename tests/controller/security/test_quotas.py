"""Quota requests to the controller, on a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterable

from strandline.adapters.zookeeper.security.quota_znodes import (
    QUOTA_FOLDER,
    QUOTAS,
    dump_limits,
    entity_child,
    load_quota_change,
)
from strandline.controller.security.facts import FACTS_MAX, NAMES_BYTES_MAX
from strandline.errors import InvalidRequest
from strandline.security.quotas.model import (
    ANY,
    DEFAULT,
    EntityQuotas,
    Quota,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilter,
)
from strandline.vocabulary.admin import QuotaResult
from tests.controller.support.running import Activate
from tests.controller.support.znodes_seen import noticed
from tests.waiting import eventually

RATE, WORK = Quota.PRODUCER_BYTE_RATE, Quota.REQUEST_PERCENTAGE
ALICE, APP = QuotaEntity("alice"), QuotaEntity(DEFAULT, "a/b")


async def test_quotas_are_set_described_and_removed(active: Activate) -> None:
    """Each write has a notice; a repeated one writes nothing; an entity without limits has no znode."""
    async with active([]) as (session, controller, _):
        admin = controller.admin
        wanted = [QuotaAlteration(ALICE, {RATE: 1000.0, WORK: 50.0}), QuotaAlteration(APP, {RATE: 5.0})]
        for _ in range(2):
            assert await admin.alter_client_quotas(wanted) == [QuotaResult(ALICE), QuotaResult(APP)]
        assert await noticed(session, load_quota_change) == [ALICE, APP]
        stored = json.loads((await session.get(f"{QUOTAS}/user=<default>,client-id=a%2Fb")).data)
        assert stored == {"producer_byte_rate": 5}
        alice = EntityQuotas(ALICE, {RATE: 1000.0, WORK: 50.0})
        assert await admin.describe_client_quotas(QuotaFilter(user="alice")) == [alice]
        assert len(await admin.describe_client_quotas(QuotaFilter(user=ANY))) == 2
        await admin.alter_client_quotas([QuotaAlteration(ALICE, {RATE: None, WORK: 60.0})])
        await admin.alter_client_quotas([QuotaAlteration(APP, {RATE: None})])
        assert await admin.describe_client_quotas(QuotaFilter()) == [EntityQuotas(ALICE, {WORK: 60.0})]
        assert await session.children(QUOTAS) == ["user=alice"]


async def test_addresses_have_quotas_beside_those_of_callers(active: Activate) -> None:
    async with active([]) as (session, controller, _):
        admin, rate = controller.admin, Quota.CONNECTION_CREATION_RATE
        address, each = QuotaEntity(ip="2001:db8::7"), QuotaEntity(ip=DEFAULT)
        wanted = [QuotaAlteration(address, {rate: 5.0}), QuotaAlteration(each, {rate: 9.0})]
        await admin.alter_client_quotas([*wanted, QuotaAlteration(ALICE, {RATE: 1.0})])
        assert json.loads((await session.get(f"{QUOTAS}/ip=2001%3Adb8%3A%3A7")).data) == {str(rate): 5}
        assert await noticed(session, load_quota_change) == [address, each, ALICE]
        both = [EntityQuotas(each, {rate: 9.0}), EntityQuotas(address, {rate: 5.0})]
        assert await admin.describe_client_quotas(QuotaFilter(ip=ANY)) == both
        assert await admin.describe_client_quotas(QuotaFilter(ip=DEFAULT)) == both[:1]
        assert await admin.describe_client_quotas(QuotaFilter(ip="2001:DB8::7")) == both[1:]
        await admin.alter_client_quotas([QuotaAlteration(address, {rate: None})])
        assert await session.children(QUOTAS) == ["ip=<default>", "user=alice"]


async def test_a_trial_writes_nothing(active: Activate) -> None:
    async with active([]) as (session, controller, _):
        wanted = [QuotaAlteration(ALICE, {RATE: 1000.0})]
        assert await controller.admin.alter_client_quotas(wanted, validate_only=True) == [QuotaResult(ALICE)]
        assert await session.children(QUOTAS) == []


async def test_an_entity_that_stands_twice_is_refused_and_others_are_not(active: Activate) -> None:
    async with active([]) as (session, controller, _):
        wanted = [QuotaAlteration(each, {RATE: 1.0}) for each in (ALICE, APP, ALICE)]
        first, good, second = await controller.admin.alter_client_quotas(wanted)
        assert isinstance(first.error, InvalidRequest) and isinstance(second.error, InvalidRequest)
        assert good == QuotaResult(APP)
        assert len(await session.children(QUOTAS)) == 1


async def test_quotas_changed_by_hand_are_found_and_garbage_is_none(active: Activate) -> None:
    async with active([], reconcile_ms=50) as (session, controller, _):
        await session.create(f"{QUOTAS}/user=alice", b'{"producer_byte_rate": 7}')
        await session.create(f"{QUOTAS}/user=bob", b"[" * 100_000)

        async def known() -> bool:
            found = await controller.admin.describe_client_quotas(QuotaFilter())
            return found == [EntityQuotas(ALICE, {RATE: 7.0})]

        await eventually(known)
        await controller.admin.alter_client_quotas([QuotaAlteration(QuotaEntity("bob"), {RATE: 8.0})])
        assert json.loads((await session.get(f"{QUOTAS}/user=bob")).data) == {"producer_byte_rate": 8}


async def test_an_unreadable_znode_is_removed_with_the_last_limit(active: Activate) -> None:
    async with active([]) as (session, controller, _):
        await session.create(f"{QUOTAS}/user=alice", b"[" * 100_000)
        alteration = QuotaAlteration(ALICE, {RATE: None})
        assert await controller.admin.alter_client_quotas([alteration]) == [QuotaResult(ALICE)]
        assert await session.children(QUOTAS) == []


async def test_of_too_many_entities_some_can_be_removed_but_none_added(active: Activate) -> None:
    """They were made by hand. A character of a name takes up to twelve bytes in a path."""
    long = [QuotaEntity("\U0001f30a" * 900 + str(number), "\U0001f30a" * 900) for number in range(30)]
    assert sum(len(entity_child(each)) for each in long) > NAMES_BYTES_MAX
    async with active([], reconcile_ms=50) as (session, controller, _):
        for each in long:
            await session.create(QUOTA_FOLDER.path_of(each), dump_limits({RATE: 1.0}))

        async def known() -> bool:
            return len(await controller.admin.describe_client_quotas(QuotaFilter())) == len(long)

        await eventually(known)
        one = QuotaAlteration(long[0], {RATE: None})
        assert await controller.admin.alter_client_quotas([one]) == [QuotaResult(long[0])]
        (added,) = await controller.admin.alter_client_quotas([QuotaAlteration(ALICE, {RATE: 1.0})])
        assert isinstance(added.error, InvalidRequest)


async def test_entities_and_their_names_are_bounded(active: Activate) -> None:
    """Each broker has all of them in memory, and ZooKeeper lists them in one message."""

    async def errors(entities: Iterable[QuotaEntity]) -> set[type[object]]:
        wanted = [QuotaAlteration(each, {RATE: 1.0}) for each in entities]
        return {type(each.error) for each in await controller.admin.alter_client_quotas(wanted)}

    async with active([]) as (session, controller, _):
        many = map(QuotaEntity, map(str, range(FACTS_MAX + 1)))
        assert await errors(many) == {InvalidRequest}
        long = [QuotaEntity(f"{number}".ljust(1_000, "x"), "y" * 1_000) for number in range(300)]
        assert await errors(long) == {InvalidRequest}
        assert await session.children(QUOTAS) == []
