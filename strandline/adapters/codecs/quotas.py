"""The RPCs of `strandline.v1.Admin` about quotas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strandline.adapters.codecs.messages import (
    ERROR,
    Call,
    MessageCodec,
    Part,
    at_most,
    call,
    many,
    only,
    shape,
)
from strandline.config.limits import QUOTAS_PER_REQUEST_MAX
from strandline.ports import Listener
from strandline.rpc import quota_pb2
from strandline.security.quotas.model import (
    ANY,
    AnyName,
    EntityQuotas,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilter,
    parse_quota,
)
from strandline.vocabulary.admin import AlterClientQuotas, QuotaResult


def _write_entity(entity: QuotaEntity, to: Listener) -> quota_pb2.QuotaEntity:
    return quota_pb2.QuotaEntity(user=entity.user, client_id=entity.client_id, ip=entity.ip)


def _read_entity(message: Any) -> QuotaEntity:
    return QuotaEntity(
        message.user if message.HasField("user") else None,
        message.client_id if message.HasField("client_id") else None,
        message.ip if message.HasField("ip") else None,
    )


def _write_alteration(alteration: QuotaAlteration, to: Listener) -> quota_pb2.QuotaAlteration:
    limits = alteration.limits.items()
    return quota_pb2.QuotaAlteration(
        entity=_write_entity(alteration.entity, to),
        set={str(quota): limit for quota, limit in limits if limit is not None},
        unset=[str(quota) for quota, limit in limits if limit is None],
    )


def _read_alteration(message: Any) -> QuotaAlteration:
    limits: dict[Any, float | None] = {parse_quota(name): None for name in message.unset}
    limits |= {parse_quota(name): limit for name, limit in message.set.items()}
    return QuotaAlteration(_read_entity(message.entity), limits)


def _write_filter(wanted: QuotaFilter, to: Listener) -> quota_pb2.QuotaFilter:
    return quota_pb2.QuotaFilter(
        user=None if isinstance(wanted.user, AnyName) else wanted.user,
        any_user=isinstance(wanted.user, AnyName),
        client_id=None if isinstance(wanted.client_id, AnyName) else wanted.client_id,
        any_client_id=isinstance(wanted.client_id, AnyName),
        strict=wanted.strict,
        ip=None if isinstance(wanted.ip, AnyName) else wanted.ip,
        any_ip=isinstance(wanted.ip, AnyName),
    )


def _read_filter(message: Any) -> QuotaFilter:
    return QuotaFilter(
        ANY if message.any_user else message.user if message.HasField("user") else None,
        ANY if message.any_client_id else message.client_id if message.HasField("client_id") else None,
        message.strict,
        ANY if message.any_ip else message.ip if message.HasField("ip") else None,
    )


def _write_quotas(quotas: EntityQuotas, to: Listener) -> quota_pb2.EntityQuotas:
    limits = {str(quota): limit for quota, limit in quotas.limits.items()}
    return quota_pb2.EntityQuotas(entity=_write_entity(quotas.entity, to), limits=limits)


def _read_quotas(message: Any) -> EntityQuotas:
    limits = {parse_quota(name): limit for name, limit in message.limits.items()}
    return EntityQuotas(_read_entity(message.entity), limits)


_ENTITY: Final = Part(_write_entity, _read_entity)
_ALTERATIONS: Final = many(
    MessageCodec(quota_pb2.QuotaAlteration, _write_alteration, _read_alteration),
    at_most(QUOTAS_PER_REQUEST_MAX, "quotas"),
)

ALTER_CLIENT_QUOTAS: Final[Call[AlterClientQuotas, Sequence[QuotaResult]]] = call(
    "/strandline.v1.Admin/AlterClientQuotas",
    shape(quota_pb2.AlterClientQuotasRequest, AlterClientQuotas, alterations=_ALTERATIONS),
    only(
        quota_pb2.AlterClientQuotasResponse,
        "results",
        many(shape(quota_pb2.QuotaResult, QuotaResult, entity=_ENTITY, error=ERROR)),
    ),
)
DESCRIBE_CLIENT_QUOTAS: Final[Call[QuotaFilter, Sequence[EntityQuotas]]] = call(
    "/strandline.v1.Admin/DescribeClientQuotas",
    only(quota_pb2.DescribeClientQuotasRequest, "filter", Part(_write_filter, _read_filter)),
    only(
        quota_pb2.DescribeClientQuotasResponse,
        "entities",
        many(MessageCodec(quota_pb2.EntityQuotas, _write_quotas, _read_quotas)),
    ),
)
