"""ACLs, as Kafka has them: which principal may do which operation on which resources.

The numbers of the enums are those of Kafka's protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import Final

from strandline.errors import InvalidRequest
from strandline.security.principal import Principal

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
EVERY: Final = "*"
"""As a literal pattern's name: each resource of the type. As a host: each address."""
RESOURCE_NAME_CHARS_MAX: Final = 249
"""The longest name that a topic, a group or a transactional id may have."""


class ResourceType(IntEnum):
    ANY = 1
    """In filters only."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    USER = 7


class PatternType(IntEnum):
    ANY = 1
    """In filters only."""
    MATCH = 2
    """In filters only: each pattern that matches the filter's name as the name of a resource."""
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    ANY = 1
    """In filters only."""
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(IntEnum):
    ANY = 1
    """In filters only."""
    DENY = 2
    ALLOW = 3


_TOPIC_OPERATIONS: Final = frozenset(
    {
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    }
)  # fmt: skip
_CLUSTER_OPERATIONS: Final = frozenset(
    {
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
    }
)  # fmt: skip
_GROUP_OPERATIONS: Final = frozenset(
    {
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    }
)  # fmt: skip
OPERATIONS: Final = {
    ResourceType.TOPIC: _TOPIC_OPERATIONS,
    ResourceType.GROUP: _GROUP_OPERATIONS,
    ResourceType.CLUSTER: _CLUSTER_OPERATIONS,
    ResourceType.TRANSACTIONAL_ID: frozenset({Operation.WRITE, Operation.DESCRIBE}),
    ResourceType.USER: frozenset({Operation.ALTER, Operation.DESCRIBE}),
}
"""The operations that exist for each type of resource, besides ALL."""


@dataclass(frozen=True, slots=True, order=True)
class ResourcePattern:
    """The resources that a binding is about. Raises InvalidRequest if there can be no such pattern."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __post_init__(self) -> None:
        if self.resource_type is ResourceType.ANY:
            raise InvalidRequest("an ACL is about one type of resource; ANY is for filters")
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise InvalidRequest(
                f"pattern type {self.pattern_type.name} is for filters; an ACL has LITERAL or PREFIXED"
            )
        _check_name(self.name)
        if self.resource_type is ResourceType.CLUSTER and self.name not in (CLUSTER_NAME, EVERY):
            raise InvalidRequest(f"the only resource of type CLUSTER is {CLUSTER_NAME!r}, not {self.name!r}")

    def covers(self, name: str) -> bool:
        """Whether the resource of this name is one of them."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, EVERY)

    def __str__(self) -> str:
        return f"{self.resource_type.name} {self.pattern_type.name} {self.name}"


def _check_name(name: str) -> None:
    if not name:
        raise InvalidRequest("the name of a resource is empty")
    if len(name) > RESOURCE_NAME_CHARS_MAX:
        raise InvalidRequest(
            f"the resource's name {name[:32]!r}… has {len(name)} characters; at most"
            f" {RESOURCE_NAME_CHARS_MAX} are allowed",
            limit=RESOURCE_NAME_CHARS_MAX,
        )
    if not is_unicode(name):
        raise InvalidRequest(f"the resource's name {name!r} is not Unicode")


def is_unicode(text: str) -> bool:
    """False for text with surrogates, which has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_address(host: str) -> str:
    """The one spelling of an IP address by which addresses are compared. Other text comes back as it is.

    It has no zone: gRPC tells the zone of a caller with a link-local address, and the Kafka port does not."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Address(int(address)))
    return str(address)


def checked_host(host: str) -> str:
    """`*`, or an IP address in its one spelling. Raises InvalidRequest for anything else: it would match no
    caller, so a DENY with it would deny nothing."""
    if host == EVERY:
        return host
    try:
        ip_address(host)
    except ValueError:
        raise InvalidRequest(f"host {host[:100]!r} is neither an IP address nor '*'") from None
    return plain_address(host)


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """One ACL. Raises InvalidRequest if it has a value of filters, or a host that is no address."""

    pattern: ResourcePattern
    principal: Principal
    host: str
    operation: Operation
    permission: Permission

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", checked_host(self.host))
        if self.operation is Operation.ANY:
            raise InvalidRequest("an ACL is about one operation, or ALL; ANY is for filters")
        if self.permission is Permission.ANY:
            raise InvalidRequest("an ACL has the permission ALLOW or DENY; ANY is for filters")

    def __str__(self) -> str:
        whom = f"{self.permission.name} {self.principal} from {self.host}"
        return f"{whom} {self.operation.name} on {self.pattern}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which bindings a request is about. None and ANY match everything; an empty name or host, as an unset
    variable gives it, is neither: raises InvalidRequest.

    The pattern type says how `name` is compared: ANY, LITERAL and PREFIXED with the name of a pattern, MATCH
    as the name of a resource, which a pattern covers or not.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: Principal | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def __post_init__(self) -> None:
        for kind, text in (("name", self.name), ("host", self.host)):
            if text == "":
                raise InvalidRequest(
                    f"the {kind} of the filter is empty: give one, or leave it out (null) for every {kind}"
                )

    def matches(self, binding: AclBinding) -> bool:
        return (
            self._matches_pattern(binding.pattern)
            and self.principal in (None, binding.principal)
            and (self.host is None or plain_address(self.host) == binding.host)
            and self.operation in (Operation.ANY, binding.operation)
            and self.permission in (Permission.ANY, binding.permission)
        )

    def _matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return pattern.covers(self.name)
        return self.name == pattern.name
