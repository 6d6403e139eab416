"""DescribeClientQuotas and AlterClientQuotas (KIP-546). Types and names are as the client sent them: the
handler knows which exist."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    FLOAT64,
    INT8,
    MESSAGE,
    STRING,
    Array,
    Struct,
    row,
    throttle,
)


class EntityPart(NamedTuple):
    """A user or a client id. `name` None: the default."""

    kind: str
    name: str | None


# --- DescribeClientQuotas ---------------------------------------------------------------------


class Component(NamedTuple):
    """A part that entities have to have."""

    kind: str
    match_type: int
    match: str | None


class DescribeQuotasRequest(NamedTuple):
    components: tuple[Component, ...]
    strict: bool


class QuotaValue(NamedTuple):
    key: str
    value: float


class DescribedQuotas(NamedTuple):
    entity: tuple[EntityPart, ...]
    values: tuple[QuotaValue, ...]


class DescribeQuotasAnswer(NamedTuple):
    """`entries` is None with an error."""

    error: int = 0
    message: str | None = ""
    entries: tuple[DescribedQuotas, ...] | None = None


_PART: Final = Struct(EntityPart, STRING("entity_type", "kind"), STRING("entity_name", "name", nullable=0))
_ENTITY: Final = row("entity", Array(_PART))
_COMPONENT: Final = Struct(
    Component, STRING("entity_type", "kind"), INT8("match_type"), STRING("match", nullable=0)
)
DESCRIBE_REQUEST: Final = Struct(DescribeQuotasRequest, row("components", Array(_COMPONENT)), BOOL("strict"))
_VALUE: Final = Struct(QuotaValue, STRING("key"), FLOAT64("value"))
_DESCRIBED: Final = Struct(DescribedQuotas, _ENTITY, row("values", Array(_VALUE)))
DESCRIBE_ANSWER: Final = Struct(
    DescribeQuotasAnswer,
    throttle(),
    ERROR,
    MESSAGE,
    row("entries", Array(_DESCRIBED, large=True), nullable=0),
)


# --- AlterClientQuotas ------------------------------------------------------------------------


class QuotaOperation(NamedTuple):
    key: str
    value: float
    remove: bool


class AlteredQuotas(NamedTuple):
    """What a request wants for one entity."""

    entity: tuple[EntityPart, ...]
    operations: tuple[QuotaOperation, ...]


class AlterQuotasRequest(NamedTuple):
    entries: tuple[AlteredQuotas, ...]
    validate_only: bool


class AlteredEntity(NamedTuple):
    """What became of it."""

    error: int
    message: str | None
    entity: tuple[EntityPart, ...]


class AlterQuotasAnswer(NamedTuple):
    entries: tuple[AlteredEntity, ...]


_OPERATION: Final = Struct(QuotaOperation, STRING("key"), FLOAT64("value"), BOOL("remove"))
_ALTERATION: Final = Struct(AlteredQuotas, _ENTITY, row("ops", Array(_OPERATION), "operations"))
ALTER_REQUEST: Final = Struct(AlterQuotasRequest, row("entries", Array(_ALTERATION)), BOOL("validate_only"))
_ALTERED: Final = Struct(AlteredEntity, ERROR, MESSAGE, _ENTITY)
ALTER_ANSWER: Final = Struct(AlterQuotasAnswer, throttle(), row("entries", Array(_ALTERED, large=True)))
