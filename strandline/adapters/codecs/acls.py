"""The RPCs of `strandline.v1.Admin` about ACLs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

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
from strandline.config.limits import ACLS_PER_REQUEST_MAX
from strandline.errors import InvalidRequest
from strandline.ports import Listener
from strandline.rpc import admin_pb2
from strandline.security.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.principal import Principal
from strandline.vocabulary.admin import AclResult, DeletedAcls

Number = TypeVar("Number", bound=IntEnum)


def _known(kind: type[Number], number: int) -> Number:
    try:
        return kind(number)
    except ValueError:
        raise InvalidRequest(f"{number} is not a {kind.__name__}") from None


def _write_binding(binding: AclBinding, to: Listener) -> admin_pb2.AclBinding:
    return admin_pb2.AclBinding(
        resource_type=binding.pattern.resource_type,
        name=binding.pattern.name,
        pattern_type=binding.pattern.pattern_type,
        principal=str(binding.principal),
        host=binding.host,
        operation=binding.operation,
        permission=binding.permission,
    )


def _read_binding(message: Any) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            _known(ResourceType, message.resource_type),
            message.name,
            _known(PatternType, message.pattern_type),
        ),
        Principal.parse(message.principal),
        message.host,
        _known(Operation, message.operation),
        _known(Permission, message.permission),
    )


def _write_filter(wanted: AclFilter, to: Listener) -> admin_pb2.AclFilter:
    return admin_pb2.AclFilter(
        resource_type=wanted.resource_type,
        name=wanted.name or "",
        pattern_type=wanted.pattern_type,
        principal="" if wanted.principal is None else str(wanted.principal),
        host=wanted.host or "",
        operation=wanted.operation,
        permission=wanted.permission,
    )


def _read_filter(message: Any) -> AclFilter:
    return AclFilter(
        _known(ResourceType, message.resource_type),
        message.name or None,
        _known(PatternType, message.pattern_type),
        Principal.parse(message.principal) if message.principal else None,
        message.host or None,
        _known(Operation, message.operation),
        _known(Permission, message.permission),
    )


_BINDING: Final = MessageCodec(admin_pb2.AclBinding, _write_binding, _read_binding)
_FILTER: Final = MessageCodec(admin_pb2.AclFilter, _write_filter, _read_filter)
_ONE_BINDING: Final = Part(_write_binding, _read_binding)
_RESULT: Final = shape(admin_pb2.AclResult, AclResult, binding=_ONE_BINDING, error=ERROR)

CREATE_ACLS: Final[Call[Sequence[AclBinding], Sequence[AclResult]]] = call(
    "/strandline.v1.Admin/CreateAcls",
    only(admin_pb2.CreateAclsRequest, "bindings", many(_BINDING, at_most(ACLS_PER_REQUEST_MAX, "ACLs"))),
    only(admin_pb2.CreateAclsResponse, "results", many(_RESULT)),
)
DELETE_ACLS: Final[Call[Sequence[AclFilter], Sequence[DeletedAcls]]] = call(
    "/strandline.v1.Admin/DeleteAcls",
    only(admin_pb2.DeleteAclsRequest, "filters", many(_FILTER, at_most(ACLS_PER_REQUEST_MAX, "filters"))),
    only(
        admin_pb2.DeleteAclsResponse,
        "results",
        many(shape(admin_pb2.DeletedAcls, DeletedAcls, matched=many(_RESULT))),
    ),
)
DESCRIBE_ACLS: Final[Call[AclFilter, Sequence[AclBinding]]] = call(
    "/strandline.v1.Admin/DescribeAcls",
    only(admin_pb2.DescribeAclsRequest, "filter", Part(_write_filter, _read_filter)),
    only(admin_pb2.DescribeAclsResponse, "bindings", many(_BINDING)),
)
