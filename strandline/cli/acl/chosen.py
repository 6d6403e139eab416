"""From the options of `strandline acl` to ACLs and filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import click

from strandline.security.acls import (
    CLUSTER_NAME,
    EVERY,
    OPERATIONS,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that a command names."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    cluster: bool = False

    def named(self) -> list[tuple[ResourceType, str]]:
        return [
            *((ResourceType.TOPIC, name) for name in self.topics),
            *((ResourceType.GROUP, name) for name in self.groups),
            *((ResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_ids),
            *([(ResourceType.CLUSTER, CLUSTER_NAME)] if self.cluster else []),
        ]


@dataclass(frozen=True, slots=True)
class Grants:
    """Who may do what, or may not."""

    allow: tuple[Principal, ...] = ()
    deny: tuple[Principal, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    producer: bool = False
    consumer: bool = False


def operations_for(of: ResourceType, grants: Grants) -> Sequence[Operation]:
    """The operations that a command means for a type of resource. Raises click.UsageError."""
    if not (grants.producer or grants.consumer):
        wanted = grants.operations or (Operation.ALL,)
        for operation in wanted:
            if operation is not Operation.ALL and operation not in OPERATIONS[of]:
                there = ", ".join(sorted(each.name for each in OPERATIONS[of]))
                raise click.UsageError(f"{operation.name} is no operation on a {of.name}: ALL, {there}")
        return wanted
    meant: list[Operation] = []
    if grants.producer and of is ResourceType.TOPIC:
        meant += [Operation.WRITE, Operation.DESCRIBE, Operation.CREATE]
    if grants.producer and of is ResourceType.TRANSACTIONAL_ID:
        meant += [Operation.WRITE, Operation.DESCRIBE]
    if grants.consumer and of is ResourceType.TOPIC:
        meant += [Operation.READ, Operation.DESCRIBE]
    if grants.consumer and of is ResourceType.GROUP:
        meant += [Operation.READ]
    return list(dict.fromkeys(meant))


def bindings(resources: Resources, pattern_type: PatternType, grants: Grants) -> list[AclBinding]:
    """The ACLs that a command means. Raises click.UsageError, InvalidRequest."""
    named = resources.named()
    if not named:
        raise click.UsageError("name a resource: --topic, --group, --cluster or --transactional-id")
    if grants.consumer and not (resources.topics and resources.groups):
        raise click.UsageError("--consumer needs --topic and --group")
    if grants.producer and not resources.topics:
        raise click.UsageError("--producer needs --topic")
    if (grants.producer or grants.consumer) and (grants.operations or grants.deny):
        raise click.UsageError("--producer and --consumer choose the operations, and allow them")
    return [
        AclBinding(_pattern(of, name, pattern_type), principal, host, operation, permission)
        for of, name in named
        for principal, host, permission in _whom(grants)
        for operation in operations_for(of, grants)
    ]


def _pattern(of: ResourceType, name: str, pattern_type: PatternType) -> ResourcePattern:
    """The cluster has one name, and no other begins with it."""
    return ResourcePattern(of, name, PatternType.LITERAL if of is ResourceType.CLUSTER else pattern_type)


def _whom(grants: Grants) -> Iterable[tuple[Principal, str, Permission]]:
    if grants.allow_hosts and not grants.allow:
        raise click.UsageError("--allow-host needs --allow-principal")
    if grants.deny_hosts and not grants.deny:
        raise click.UsageError("--deny-host needs --deny-principal")
    yield from product(grants.allow, grants.allow_hosts or (EVERY,), [Permission.ALLOW])
    yield from product(grants.deny, grants.deny_hosts or (EVERY,), [Permission.DENY])


def exact(binding: AclBinding) -> AclFilter:
    """The filter for this ACL alone."""
    pattern = binding.pattern
    return AclFilter(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission,
    )


def filters(
    resources: Resources, pattern_type: PatternType, principals: Sequence[Principal]
) -> list[AclFilter]:
    """Filters for all ACLs of these resources, or of all, and of these principals, or of all."""
    every: list[tuple[ResourceType, str | None]] = [*resources.named()] or [(ResourceType.ANY, None)]
    return [
        AclFilter(of, name, pattern_type, principal)
        for of, name in every
        for principal in principals or (None,)
    ]


def as_json(binding: AclBinding) -> dict[str, Any]:
    return {
        "resource_type": binding.pattern.resource_type.name,
        "name": binding.pattern.name,
        "pattern_type": binding.pattern.pattern_type.name,
        "principal": str(binding.principal),
        "host": binding.host,
        "operation": binding.operation.name,
        "permission": binding.permission.name,
    }
