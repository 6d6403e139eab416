"""CreateAcls, DeleteAcls and DescribeAcls: the rules about who may do what. Numbers are as the client sent
them: the handler knows which exist."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Steps, Writer

_ACL_BYTES_MIN: Final = 7


class Pattern(NamedTuple):
    """`name` None, in a filter: all."""

    resource_type: int
    name: str | None
    pattern_type: int


class Entry(NamedTuple):
    """`principal` and `host` None, in a filter: all."""

    principal: str | None
    host: str | None
    operation: int
    permission: int


class Acl(NamedTuple):
    """One ACL, or a filter for ACLs."""

    pattern: Pattern
    entry: Entry


class Outcome(NamedTuple):
    error: int = 0
    message: str | None = None


def _read_acl(reader: Reader, *, nullable: bool) -> Acl:
    text = reader.nullable_string if nullable else reader.string
    pattern = Pattern(reader.int8(), text(), reader.int8())
    return Acl(pattern, Entry(text(), text(), reader.int8(), reader.int8()))


def _write_pattern(writer: Writer, pattern: Pattern) -> None:
    writer.int8(pattern.resource_type)
    writer.string(pattern.name)
    writer.int8(pattern.pattern_type)


def _write_entry(writer: Writer, entry: Entry) -> None:
    writer.string(entry.principal)
    writer.string(entry.host)
    writer.int8(entry.operation)
    writer.int8(entry.permission)
    writer.tags()


def _write_outcome(writer: Writer, outcome: Outcome) -> None:
    writer.int16(outcome.error)
    writer.string(outcome.message)


# --- DescribeAcls -----------------------------------------------------------------------------


class DescribeAclsRequest(NamedTuple):
    wanted: Acl


class AclsOfPattern(NamedTuple):
    pattern: Pattern
    entries: tuple[Entry, ...]


class DescribeAclsAnswer(NamedTuple):
    outcome: Outcome
    patterns: tuple[AclsOfPattern, ...] = ()


def read_describe(reader: Reader, version: int) -> DescribeAclsRequest:
    return DescribeAclsRequest(_read_acl(reader, nullable=True))


def write_describe(writer: Writer, answer: DescribeAclsAnswer, version: int) -> Steps:
    def write_pattern(found: AclsOfPattern) -> None:
        _write_pattern(writer, found.pattern)
        writer.array(found.entries, lambda entry: _write_entry(writer, entry))
        writer.tags()

    writer.throttle_time()
    _write_outcome(writer, answer.outcome)
    yield from writer.large_array(answer.patterns, write_pattern)
    writer.tags()


# --- CreateAcls -------------------------------------------------------------------------------


class CreateAclsRequest(NamedTuple):
    acls: tuple[Acl, ...]


class CreateAclsAnswer(NamedTuple):
    outcomes: tuple[Outcome, ...]


def read_create(reader: Reader, version: int) -> CreateAclsRequest:
    def read_acl(reader: Reader) -> Acl:
        acl = _read_acl(reader, nullable=False)
        reader.tags()
        return acl

    return CreateAclsRequest(reader.array(read_acl, bytes_min=_ACL_BYTES_MIN))


def write_create(writer: Writer, answer: CreateAclsAnswer, version: int) -> None:
    def write_outcome(outcome: Outcome) -> None:
        _write_outcome(writer, outcome)
        writer.tags()

    writer.throttle_time()
    writer.array(answer.outcomes, write_outcome)
    writer.tags()


# --- DeleteAcls -------------------------------------------------------------------------------


class DeleteAclsRequest(NamedTuple):
    filters: tuple[Acl, ...]


class DeletedAcl(NamedTuple):
    outcome: Outcome
    acl: Acl


class DeletedByFilter(NamedTuple):
    outcome: Outcome
    acls: tuple[DeletedAcl, ...] = ()


class DeleteAclsAnswer(NamedTuple):
    filters: tuple[DeletedByFilter, ...]


def read_delete(reader: Reader, version: int) -> DeleteAclsRequest:
    def read_filter(reader: Reader) -> Acl:
        wanted = _read_acl(reader, nullable=True)
        reader.tags()
        return wanted

    return DeleteAclsRequest(reader.array(read_filter, bytes_min=_ACL_BYTES_MIN))


def write_delete(writer: Writer, answer: DeleteAclsAnswer, version: int) -> Steps:
    def write_acl(deleted: DeletedAcl) -> None:
        _write_outcome(writer, deleted.outcome)
        _write_pattern(writer, deleted.acl.pattern)
        _write_entry(writer, deleted.acl.entry)

    writer.throttle_time()
    writer.length(len(answer.filters))
    for found in answer.filters:
        _write_outcome(writer, found.outcome)
        yield from writer.large_array(found.acls, write_acl)
        writer.tags()
    writer.tags()
