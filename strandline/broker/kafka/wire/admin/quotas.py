"""DescribeClientQuotas and AlterClientQuotas (KIP-546). Types and names are as the client sent them: the
handler knows which exist."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Steps, Writer

_COMPONENT_BYTES_MIN: Final = 3
_PART_BYTES_MIN: Final = 2
_OPERATION_BYTES_MIN: Final = 10
_ENTRY_BYTES_MIN: Final = 2


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
    message: str | None = None
    entries: tuple[DescribedQuotas, ...] | None = None


def read_describe(reader: Reader, version: int) -> DescribeQuotasRequest:
    def read_component(reader: Reader) -> Component:
        component = Component(reader.string(), reader.int8(), reader.nullable_string())
        reader.tags()
        return component

    components = reader.array(read_component, bytes_min=_COMPONENT_BYTES_MIN)
    return DescribeQuotasRequest(components, reader.boolean())


def write_describe(writer: Writer, answer: DescribeQuotasAnswer, version: int) -> Steps:
    def write_value(value: QuotaValue) -> None:
        writer.string(value.key)
        writer.float64(value.value)
        writer.tags()

    def write_entry(entry: DescribedQuotas) -> None:
        _write_entity(writer, entry.entity)
        writer.array(entry.values, write_value)
        writer.tags()

    writer.throttle_time()
    writer.int16(answer.error)
    writer.string(answer.message)
    if answer.entries is None:
        writer.array(None, write_entry)
    else:
        yield from writer.large_array(answer.entries, write_entry)
    writer.tags()


def _write_entity(writer: Writer, entity: tuple[EntityPart, ...]) -> None:
    def write_part(part: EntityPart) -> None:
        writer.string(part.kind)
        writer.string(part.name)
        writer.tags()

    writer.array(entity, write_part)


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


def read_alter(reader: Reader, version: int) -> AlterQuotasRequest:
    def read_part(reader: Reader) -> EntityPart:
        part = EntityPart(reader.string(), reader.nullable_string())
        reader.tags()
        return part

    def read_operation(reader: Reader) -> QuotaOperation:
        operation = QuotaOperation(reader.string(), reader.float64(), reader.boolean())
        reader.tags()
        return operation

    def read_entry(reader: Reader) -> AlteredQuotas:
        entity = reader.array(read_part, bytes_min=_PART_BYTES_MIN)
        entry = AlteredQuotas(entity, reader.array(read_operation, bytes_min=_OPERATION_BYTES_MIN))
        reader.tags()
        return entry

    return AlterQuotasRequest(reader.array(read_entry, bytes_min=_ENTRY_BYTES_MIN), reader.boolean())


def write_alter(writer: Writer, answer: AlterQuotasAnswer, version: int) -> Steps:
    def write_entry(altered: AlteredEntity) -> None:
        writer.int16(altered.error)
        writer.string(altered.message)
        _write_entity(writer, altered.entity)
        writer.tags()

    writer.throttle_time()
    yield from writer.large_array(answer.entries, write_entry)
    writer.tags()
