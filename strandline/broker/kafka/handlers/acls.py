"""Passes CreateAcls, DeleteAcls and DescribeAcls on to the active controller."""

from __future__ import annotations

from itertools import groupby
from typing import TypeVar

from strandline.adapters.codecs.acls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of, message_of, text_of
from strandline.broker.kafka.handlers.controller import ControllerFor, Deadline, check_count, made
from strandline.broker.kafka.wire.admin.acls import (
    Acl,
    AclsOfPattern,
    CreateAclsAnswer,
    CreateAclsRequest,
    DeleteAclsAnswer,
    DeleteAclsRequest,
    DeletedAcl,
    DeletedByFilter,
    DescribeAclsAnswer,
    DescribeAclsRequest,
    Entry,
    Outcome,
    Pattern,
)
from strandline.errors import InvalidRequest, SecurityDisabled, StrandlineError, UnknownServerError
from strandline.ports import Clock
from strandline.security.access import Access
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
from strandline.security.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER, Right
from strandline.vocabulary.admin import DeletedAcls

Number = TypeVar("Number", ResourceType, PatternType, Operation, Permission)


class AclsApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, controller: ControllerFor, access: Access, clock: Clock) -> None:
        self._controller = controller
        self._access = access
        self._clock = clock

    async def describe(self, request: DescribeAclsRequest, call: Call) -> DescribeAclsAnswer:
        try:
            self._check(call, DESCRIBE_CLUSTER)
            if _finds_nothing(request.wanted):
                return DescribeAclsAnswer(_told(None))
            controller = self._controller(call.caller)
            bindings = await controller.ask(DESCRIBE_ACLS, _filter(request.wanted), Deadline(self._clock))
        except StrandlineError as error:
            return DescribeAclsAnswer(_outcome(error))
        by_pattern = groupby(bindings, lambda each: each.pattern)
        return DescribeAclsAnswer(
            _told(None),
            tuple(AclsOfPattern(_pattern(of), tuple(map(_entry, each))) for of, each in by_pattern),
        )

    async def create(self, request: CreateAclsRequest, call: Call) -> CreateAclsAnswer:
        """Each ACL has an outcome of its own, also one that cannot be."""
        errors: dict[int, StrandlineError | None] = {}
        try:
            self._check(call, ALTER_CLUSTER)
            check_count(request.acls, "ACLs")
            wanted, wrong = made(request.acls, _binding)
            errors |= wrong
            if wanted:
                controller = self._controller(call.caller)
                results = await controller.ask(CREATE_ACLS, list(wanted.values()), Deadline(self._clock))
                errors |= {at: result.error for at, result in zip(wanted, results, strict=True)}
        except StrandlineError as error:
            errors = {at: errors.get(at, error) for at in range(len(request.acls))}
        return CreateAclsAnswer(tuple(_told(errors[at]) for at in range(len(request.acls))))

    async def delete(self, request: DeleteAclsRequest, call: Call) -> DeleteAclsAnswer:
        found: dict[int, DeletedByFilter] = {}
        try:
            self._check(call, ALTER_CLUSTER)
            check_count(request.filters, "filters")
            wanted, wrong = made(request.filters, _filter)
            found |= {at: DeletedByFilter(_outcome(error)) for at, error in wrong.items()}
            if wanted:
                controller = self._controller(call.caller)
                results = await controller.ask(DELETE_ACLS, list(wanted.values()), Deadline(self._clock))
                found |= {at: _deleted(result) for at, result in zip(wanted, results, strict=True)}
        except StrandlineError as error:
            refused = DeletedByFilter(_outcome(error))
            found = dict.fromkeys(range(len(request.filters)), refused) | found
        return DeleteAclsAnswer(tuple(found[at] for at in range(len(request.filters))))

    def _check(self, call: Call, right: Right) -> None:
        if not self._access.enforced:
            raise SecurityDisabled("the broker has no authorizer: set authorizer = acl to use ACLs")
        self._access.check(call.caller, right)


def _outcome(error: StrandlineError | None) -> Outcome:
    return Outcome(code_of(error), message_of(error))


def _told(error: StrandlineError | None) -> Outcome:
    return Outcome(code_of(error), None if isinstance(error, UnknownServerError) else text_of(error))


def _known(kind: type[Number], number: int) -> Number:
    try:
        return kind(number)
    except ValueError:
        raise InvalidRequest(f"{kind.__name__} {number} is not known") from None


def _binding(acl: Acl) -> AclBinding:
    """Raises InvalidRequest; UnknownServerError for what only filters have, as Kafka's brokers answer."""
    of_filters = (
        acl.pattern.resource_type == ResourceType.ANY,
        acl.pattern.pattern_type in (PatternType.ANY, PatternType.MATCH),
        acl.entry.operation == Operation.ANY,
        acl.entry.permission == Permission.ANY,
    )
    if any(of_filters):
        raise UnknownServerError(
            "an ACL is about one type, pattern, operation and permission: filters have ANY"
        )
    return AclBinding(
        ResourcePattern(
            _known(ResourceType, acl.pattern.resource_type),
            acl.pattern.name or "",
            _known(PatternType, acl.pattern.pattern_type),
        ),
        Principal.parse(acl.entry.principal or ""),
        acl.entry.host or "",
        _known(Operation, acl.entry.operation),
        _known(Permission, acl.entry.permission),
    )


def _filter(acl: Acl) -> AclFilter:
    """Raises InvalidRequest."""
    return AclFilter(
        _known(ResourceType, acl.pattern.resource_type),
        acl.pattern.name,
        _known(PatternType, acl.pattern.pattern_type),
        None if acl.entry.principal is None else Principal.parse(acl.entry.principal),
        acl.entry.host,
        _known(Operation, acl.entry.operation),
        _known(Permission, acl.entry.permission),
    )


def _finds_nothing(wanted: Acl) -> bool:
    """Whether no ACL can have such a name, host or principal."""
    given = (wanted.pattern.name, wanted.entry.host, wanted.entry.principal)
    principal = wanted.entry.principal
    return "" in given or (principal is not None and ":" not in principal)


def _pattern(pattern: ResourcePattern) -> Pattern:
    return Pattern(pattern.resource_type, pattern.name, pattern.pattern_type)


def _entry(binding: AclBinding) -> Entry:
    return Entry(str(binding.principal), binding.host, binding.operation, binding.permission)


def _deleted(found: DeletedAcls) -> DeletedByFilter:
    return DeletedByFilter(
        Outcome(),
        tuple(
            DeletedAcl(_outcome(each.error), Acl(_pattern(each.binding.pattern), _entry(each.binding)))
            for each in found.matched
        ),
    )
