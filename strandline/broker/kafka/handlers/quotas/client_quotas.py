"""Passes DescribeClientQuotas and AlterClientQuotas on to the active controller (KIP-546)."""

from __future__ import annotations

from typing import Final

from strandline.adapters.codecs.quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, code_of, message_of
from strandline.broker.kafka.handlers.controller import ControllerFor, Deadline, check_count, made
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
    QuotaValue,
)
from strandline.errors import InvalidRequest, StrandlineError
from strandline.ids import named_twice
from strandline.ports import Clock
from strandline.security.access import Access
from strandline.security.quotas.model import (
    ANY,
    DEFAULT,
    AnyName,
    EntityQuotas,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilter,
    parse_quota,
)
from strandline.security.rights import ALTER_CLUSTER_CONFIGS, DESCRIBE_CLUSTER_CONFIGS
from strandline.vocabulary.admin import AlterClientQuotas

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
KINDS: Final = (USER, CLIENT_ID, IP)
EXACT: Final = 0
DEFAULT_NAME: Final = 1
ANY_NAME: Final = 2
"""How a component is matched."""


class QuotasApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, controller: ControllerFor, access: Access, clock: Clock) -> None:
        self._controller = controller
        self._access = access
        self._clock = clock

    async def describe(self, request: DescribeQuotasRequest, call: Call) -> DescribeQuotasAnswer:
        try:
            self._access.check(call.caller, DESCRIBE_CLUSTER_CONFIGS)
            if (unknown := _unknown_kind(request)) is not None:
                return DescribeQuotasAnswer(int(KafkaCode.UNSUPPORTED_VERSION), unknown)
            if any(each.match_type == EXACT and each.match == "" for each in request.components):
                return DescribeQuotasAnswer(entries=())
            wanted = _filter(request)
            controller = self._controller(call.caller)
            found = await controller.ask(DESCRIBE_CLIENT_QUOTAS, wanted, Deadline(self._clock))
        except StrandlineError as error:
            return DescribeQuotasAnswer(code_of(error), message_of(error))
        return DescribeQuotasAnswer(entries=tuple([_described(each) for each in found]))

    async def alter(self, request: AlterQuotasRequest, call: Call) -> AlterQuotasAnswer:
        """Each entity has an outcome of its own."""
        entries = request.entries
        errors: dict[int, StrandlineError | None] = {}
        try:
            self._access.check(call.caller, ALTER_CLUSTER_CONFIGS)
            check_count(entries, "entities with quotas")
            wanted, wrong = made(entries, _alteration)
            errors |= wrong
            if wanted:
                asked = AlterClientQuotas(tuple(wanted.values()), request.validate_only)
                controller = self._controller(call.caller)
                results = await controller.ask(ALTER_CLIENT_QUOTAS, asked, Deadline(self._clock))
                errors |= {at: each.error for at, each in zip(wanted, results, strict=True)}
        except StrandlineError as error:
            errors = {at: errors.get(at) or error for at in range(len(entries))}
        return AlterQuotasAnswer(
            tuple(
                [
                    AlteredEntity(code_of(errors[at]), message_of(errors[at]), entry.entity)
                    for at, entry in enumerate(entries)
                ]
            )
        )


def _unknown_kind(request: DescribeQuotasRequest) -> str | None:
    """Says that a kind of entities is not known; None if all are."""
    for each in request.components:
        if each.kind not in (*KINDS, ""):
            return _unknown(each.kind)
    return None


def _unknown(kind: str) -> str:
    return f"{kind[:32]!r} has no quotas: {USER}, {CLIENT_ID} and {IP} may have"


def _filter(request: DescribeQuotasRequest) -> QuotaFilter:
    """Raises InvalidRequest."""
    names: dict[str, str | AnyName] = {}
    for component in request.components:
        _check_kind(component.kind, names)
        names[component.kind] = _wanted(component)
    return QuotaFilter(names.get(USER), names.get(CLIENT_ID), request.strict, names.get(IP))


def _wanted(component: Component) -> str | AnyName:
    """Raises InvalidRequest."""
    if component.match_type == EXACT and component.match:
        return component.match
    if component.match is None and component.match_type in (DEFAULT_NAME, ANY_NAME):
        return DEFAULT if component.match_type == DEFAULT_NAME else ANY
    raise InvalidRequest(f"match type {component.match_type} with {component.match!r} for a {component.kind}")


def _alteration(entry: AlteredQuotas) -> QuotaAlteration:
    """Raises InvalidRequest."""
    names: dict[str, str] = {}
    for kind, name in entry.entity:
        _check_kind(kind, names)
        if name == DEFAULT:
            raise InvalidRequest(f"a {kind} has no name; null is the default")
        names[kind] = DEFAULT if name is None else name
    if (twice := named_twice(each.key for each in entry.operations)) is not None:
        raise InvalidRequest(f"quota {twice[:100]!r} stands more than once for one entity")
    entity = QuotaEntity(names.get(USER), names.get(CLIENT_ID), names.get(IP))
    return QuotaAlteration(
        entity,
        {parse_quota(each.key): None if each.remove else each.value for each in entry.operations},
    )


def _check_kind(kind: str, known: dict[str, str] | dict[str, str | AnyName]) -> None:
    if kind not in KINDS:
        raise InvalidRequest(_unknown(kind))
    if kind in known:
        raise InvalidRequest(f"{kind} stands more than once")


def _described(found: EntityQuotas) -> DescribedQuotas:
    entity = found.entity
    parts = ((USER, entity.user), (CLIENT_ID, entity.client_id), (IP, entity.ip))
    return DescribedQuotas(
        tuple([EntityPart(kind, name or None) for kind, name in parts if name is not None]),
        tuple([QuotaValue(str(quota), limit) for quota, limit in sorted(found.limits.items())]),
    )
