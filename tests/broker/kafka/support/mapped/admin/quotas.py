"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.quotas import (
    AlteredEntity,
    AlteredQuotas,
    AlterQuotasAnswer,
    AlterQuotasRequest,
    Component,
    DescribedQuotas,
    DescribeQuotasAnswer,
    DescribeQuotasRequest,
    EntityPart,
    QuotaOperation,
    QuotaValue,
)
from strandline.broker.kafka.wire.apis import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def entity(parts: list[Values]) -> tuple[EntityPart, ...]:
    return tuple(EntityPart(each["entity_type"], each["entity_name"]) for each in parts)


def describe_request(asked: Values, version: int) -> DescribeQuotasRequest:
    return DescribeQuotasRequest(
        tuple(
            Component(each["entity_type"], each["match_type"], each["match"]) for each in asked["components"]
        ),
        asked["strict"],
    )


def describe_answer(found: Values, version: int) -> DescribeQuotasAnswer:
    entries = found["entries"]
    return DescribeQuotasAnswer(
        found["error_code"],
        found["error_message"],
        None
        if entries is None
        else tuple(
            DescribedQuotas(
                entity(entry["entity"]),
                tuple(QuotaValue(each["key"], each["value"]) for each in entry["values"]),
            )
            for entry in entries
        ),
    )


def alter_request(asked: Values, version: int) -> AlterQuotasRequest:
    return AlterQuotasRequest(
        tuple(
            AlteredQuotas(
                entity(entry["entity"]),
                tuple(QuotaOperation(each["key"], each["value"], each["remove"]) for each in entry["ops"]),
            )
            for entry in asked["entries"]
        ),
        asked["validate_only"],
    )


def alter_answer(found: Values, version: int) -> AlterQuotasAnswer:
    return AlterQuotasAnswer(
        tuple(
            AlteredEntity(each["error_code"], each["error_message"], entity(each["entity"]))
            for each in found["entries"]
        )
    )


MAPPED: Final = (
    Mapped(DESCRIBE_CLIENT_QUOTAS, describe_request, describe_answer),
    Mapped(ALTER_CLIENT_QUOTAS, alter_request, alter_answer),
)
