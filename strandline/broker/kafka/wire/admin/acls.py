"""CreateAcls, DeleteAcls and DescribeAcls: the rules about who may do what. Numbers are as the client sent
them: the handler knows which exist."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    ERROR,
    INT8,
    MESSAGE,
    STRING,
    Array,
    Row,
    Struct,
    inline,
    row,
    throttle,
)


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


def _pattern(type_name: str) -> Row:
    kind = INT8(type_name, "pattern_type")
    return inline("pattern", Struct(Pattern, INT8("resource_type"), STRING("resource_name", "name"), kind))


_PATTERN: Final = _pattern("pattern_type")
_RULE: Final = (INT8("operation"), INT8("permission_type", "permission"))
_ENTRY: Final = Struct(Entry, STRING("principal"), STRING("host"), *_RULE)
_PATTERN_FILTER: Final = Struct(
    Pattern,
    INT8("resource_type_filter", "resource_type"),
    STRING("resource_name_filter", "name", nullable=0),
    INT8("pattern_type_filter", "pattern_type"),
)
_ENTRY_FILTER: Final = Struct(
    Entry,
    STRING("principal_filter", "principal", nullable=0),
    STRING("host_filter", "host", nullable=0),
    *_RULE,
)
_FILTER: Final = Struct(Acl, inline("pattern", _PATTERN_FILTER), inline("entry", _ENTRY_FILTER))
_OUTCOME: Final = Struct(Outcome, ERROR, MESSAGE)


# --- DescribeAcls -----------------------------------------------------------------------------


class DescribeAclsRequest(NamedTuple):
    wanted: Acl


class AclsOfPattern(NamedTuple):
    pattern: Pattern
    entries: tuple[Entry, ...]


class DescribeAclsAnswer(NamedTuple):
    outcome: Outcome
    patterns: tuple[AclsOfPattern, ...] = ()


DESCRIBE_REQUEST: Final = Struct(DescribeAclsRequest, inline("wanted", _FILTER))
_OF_PATTERN: Final = Struct(AclsOfPattern, _PATTERN, row("acls", Array(_ENTRY), "entries"))
DESCRIBE_ANSWER: Final = Struct(
    DescribeAclsAnswer,
    throttle(),
    inline("outcome", _OUTCOME),
    row("resources", Array(_OF_PATTERN, large=True), "patterns"),
)


# --- CreateAcls -------------------------------------------------------------------------------


class CreateAclsRequest(NamedTuple):
    acls: tuple[Acl, ...]


class CreateAclsAnswer(NamedTuple):
    outcomes: tuple[Outcome, ...]


_CREATED: Final = Struct(Acl, _pattern("resource_pattern_type"), inline("entry", _ENTRY))
CREATE_REQUEST: Final = Struct(CreateAclsRequest, row("creations", Array(_CREATED), "acls"))
CREATE_ANSWER: Final = Struct(CreateAclsAnswer, throttle(), row("results", Array(_OUTCOME), "outcomes"))


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


DELETE_REQUEST: Final = Struct(DeleteAclsRequest, row("filters", Array(_FILTER)))
_ACL: Final = Struct(Acl, _PATTERN, inline("entry", _ENTRY))
_DELETED: Final = Struct(DeletedAcl, inline("outcome", _OUTCOME), inline("acl", _ACL))
_BY_FILTER: Final = Struct(
    DeletedByFilter, inline("outcome", _OUTCOME), row("matching_acls", Array(_DELETED, large=True), "acls")
)
DELETE_ANSWER: Final = Struct(
    DeleteAclsAnswer, throttle(), row("filter_results", Array(_BY_FILTER), "filters")
)
