"""Quotas that Kafka clients ask for, as the controller gets them."""

from __future__ import annotations

from functools import partial

import pytest

from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.handlers.quotas.client_quotas import QuotasApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.quotas import (
    AlteredQuotas,
    AlterQuotasRequest,
    Component,
    DescribedQuotas,
    DescribeQuotasRequest,
    EntityPart,
    QuotaOperation,
    QuotaValue,
)
from strandline.errors import ErrorCode, InvalidRequest
from strandline.security.audit.entry import source_of
from strandline.security.quotas.model import (
    ANY,
    DEFAULT,
    EntityQuotas,
    Quota,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilter,
)
from strandline.vocabulary.admin import AlterClientQuotas, QuotaResult
from tests.broker.kafka.support.asking import called
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK

CALL = called(apis.ALTER_CLIENT_QUOTAS, 1)
ALICE = EntityPart("user", "alice")
ADDRESS = EntityPart("ip", "192.0.2.1")
RATE = QuotaOperation("producer_byte_rate", 1000.0, remove=False)
CONNECTIONS = QuotaOperation("connection_creation_rate", 10.0, remove=False)


def api(controller: MemoryController) -> QuotasApi:
    return QuotasApi(partial(ControllerRequests, controller.link), OPEN, CLOCK)


async def test_each_entity_has_its_outcome_and_what_cannot_be_never_reaches_the_controller() -> None:
    def answer(asked: AlterClientQuotas) -> list[QuotaResult]:
        return [
            QuotaResult(each.entity, InvalidRequest("x") if each.entity.user else None)
            for each in asked.alterations
        ]

    controller = MemoryController(answer)
    app = EntityPart("client-id", None)
    remove = QuotaOperation("consumer_byte_rate", 0.0, remove=True)
    wrong = [
        AlteredQuotas((), (RATE,)),
        AlteredQuotas((ADDRESS,), (RATE,)),
        AlteredQuotas((ALICE, ALICE), (RATE,)),
        AlteredQuotas((EntityPart("user", ""),), (RATE,)),
        AlteredQuotas((ALICE,), (RATE, RATE._replace(value=1.0))),
        AlteredQuotas((ALICE,), (CONNECTIONS,)),
        AlteredQuotas((ALICE, ADDRESS), (CONNECTIONS,)),
        AlteredQuotas((EntityPart("client-id", None), ADDRESS), (CONNECTIONS,)),
        AlteredQuotas((EntityPart("ip", "no address"),), (CONNECTIONS,)),
        AlteredQuotas((EntityPart("ip", ""),), (CONNECTIONS,)),
        AlteredQuotas((ADDRESS,), (CONNECTIONS._replace(value=1.5),)),
        AlteredQuotas((ADDRESS,), (CONNECTIONS._replace(key="connection_rate"),)),
        AlteredQuotas((ALICE,), (QuotaOperation("producer_byte_rate", -1.0, remove=False),)),
    ]
    entries = (*wrong, AlteredQuotas((app,), (RATE, remove)), AlteredQuotas((ALICE,), (RATE,)))
    answered = await api(controller).alter(AlterQuotasRequest(entries, validate_only=True), CALL)
    refused = int(ErrorCode.INVALID_REQUEST)
    assert [each.error for each in answered.entries] == [refused] * len(wrong) + [0, refused]
    assert [each.entity for each in answered.entries] == [each.entity for each in entries]
    limits = {Quota.PRODUCER_BYTE_RATE: 1000.0, Quota.CONSUMER_BYTE_RATE: None}
    alterations = (
        QuotaAlteration(QuotaEntity(None, DEFAULT), limits),
        QuotaAlteration(QuotaEntity("alice"), {Quota.PRODUCER_BYTE_RATE: 1000.0}),
    )
    assert controller.asked == [("AlterClientQuotas", AlterClientQuotas(alterations, validate_only=True))]
    assert controller.callers == [source_of(CALL.caller)]  # for its audit log


@pytest.mark.parametrize(
    ("components", "wanted"),
    [
        ((), QuotaFilter()),
        ((Component("user", 0, "alice"), Component("client-id", 1, None)), QuotaFilter("alice", DEFAULT)),
        ((Component("client-id", 2, None),), QuotaFilter(client_id=ANY)),
        ((Component("ip", 0, "192.0.2.1"),), QuotaFilter(ip="192.0.2.1")),
        ((Component("ip", 1, None),), QuotaFilter(ip=DEFAULT)),
        ((Component("ip", 2, None),), QuotaFilter(ip=ANY)),
    ],
)
async def test_quotas_are_described_as_kafka_writes_them(
    components: tuple[Component, ...], wanted: QuotaFilter
) -> None:
    limits = {Quota.REQUEST_PERCENTAGE: 12.5, Quota.CONSUMER_BYTE_RATE: 5.0}
    controller = MemoryController(lambda _: [EntityQuotas(QuotaEntity("alice", DEFAULT), limits)])
    found = await api(controller).describe(DescribeQuotasRequest(components, strict=False), CALL)
    assert controller.asked == [("DescribeClientQuotas", wanted)]
    values = (QuotaValue("consumer_byte_rate", 5.0), QuotaValue("request_percentage", 12.5))
    assert found.entries == (DescribedQuotas((ALICE, EntityPart("client-id", None)), values),)


@pytest.mark.parametrize(
    "component",
    [
        Component("ip", 2, "x"), Component("user", 0, None),
        Component("user", 1, "x"), Component("user", 3, None),
    ],
)  # fmt: skip
async def test_a_filter_that_cannot_be_is_refused(component: Component) -> None:
    controller = MemoryController(lambda _: [])
    asked = DescribeQuotasRequest((component,), strict=False)
    found = await api(controller).describe(asked, CALL)
    assert (found.error, found.entries, controller.asked) == (ErrorCode.INVALID_REQUEST, None, [])


async def test_what_nobody_is_called_has_no_quota_and_another_kind_is_of_another_version() -> None:
    """As from Kafka's brokers."""
    controller = MemoryController(lambda _: [])
    found = [
        await api(controller).describe(DescribeQuotasRequest((component,), strict=False), CALL)
        for component in (Component("user", 0, ""), Component("planet", 0, "earth"))
    ]
    assert [(each.error, each.entries) for each in found] == [(0, ()), (35, None)]
    assert controller.asked == []


async def test_an_address_and_each_other_one_have_a_rate_of_connections() -> None:
    """KIP-612."""
    limits = {Quota.CONNECTION_CREATION_RATE: 10.0}
    entities = (QuotaEntity(ip=DEFAULT), QuotaEntity(ip="192.0.2.1"))
    setting = MemoryController(lambda asked: [QuotaResult(each.entity) for each in asked.alterations])
    entries = tuple([AlteredQuotas((part,), (CONNECTIONS,)) for part in (EntityPart("ip", None), ADDRESS)])
    answered = await api(setting).alter(AlterQuotasRequest(entries, validate_only=False), CALL)
    assert [(each.error, each.entity) for each in answered.entries] == [(0, each.entity) for each in entries]
    ((_, asked),) = setting.asked
    assert asked.alterations == tuple([QuotaAlteration(each, limits) for each in entities])
    controller = MemoryController(lambda _: [EntityQuotas(each, limits) for each in entities])
    wanted = DescribeQuotasRequest((Component("ip", 2, None),), strict=False)
    found = await api(controller).describe(wanted, CALL)
    values = (QuotaValue("connection_creation_rate", 10.0),)
    assert found.entries == tuple([DescribedQuotas(each.entity, values) for each in entries])


@pytest.mark.parametrize("other", [Component("user", 0, "alice"), Component("client-id", 2, None)])
async def test_a_filter_of_addresses_stands_alone(other: Component) -> None:
    controller = MemoryController(lambda _: [])
    for components in ((Component("ip", 2, None), other), (other, Component("ip", 0, "192.0.2.1"))):
        asked = DescribeQuotasRequest(components, strict=False)
        assert (await api(controller).describe(asked, CALL)).error == ErrorCode.INVALID_REQUEST
    assert controller.asked == []
