"""The decision whether ACLs allow an operation, by Kafka's rules.

A binding counts if its pattern covers the resource, and its principal, host and operation match. Any DENY
that counts wins over every ALLOW. An ALLOW of READ, WRITE, DELETE or ALTER allows DESCRIBE too, and one of
ALTER_CONFIGS allows DESCRIBE_CONFIGS; a DENY implies nothing. If no binding counts, the operation is denied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from strandline.security.acls import (
    EVERY,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.principal import Principal

_ALLOWED_ALSO_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_ALLOWED_BY: Final = {
    operation: frozenset({operation, Operation.ALL, *_ALLOWED_ALSO_BY.get(operation, ())})
    for operation in Operation
}
"""The operations whose ALLOW allows this one."""


class Ground(Enum):
    """Why an operation is allowed or denied, if no binding decided."""

    OFF = "no authorizer is set"
    SUPER_USER = "the principal is a super user"
    MEMBER = "the principal is a broker's or a controller's"
    NO_ACL = "no ACL allows it"
    NO_ACL_FOUND = "no ACL is about this resource, and allow_everyone_if_no_acl_found is true"
    NOT_LOADED = "the ACLs are not known yet"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an operation is allowed, and the binding or the rule that decided."""

    allowed: bool
    why: AclBinding | Ground

    def __str__(self) -> str:
        why = self.why.value if isinstance(self.why, Ground) else str(self.why)
        return f"{'allowed' if self.allowed else 'denied'}: {why}"


_Named = Mapping[str, tuple[AclBinding, ...]]
"""The bindings of each pattern of one resource type and pattern type, by the pattern's name."""
_NOTHING: Final[_Named] = {}


class Acls:
    """The ACLs of a cluster at one version. Never changed: another version is another object."""

    __slots__ = ("_lengths", "_literal", "_prefixed", "patterns", "version")

    def __init__(self, version: int, bindings: Iterable[AclBinding] = ()) -> None:
        self.version = version
        collected: dict[ResourcePattern, list[AclBinding]] = {}
        for binding in sorted(set(bindings)):
            collected.setdefault(binding.pattern, []).append(binding)
        self._build({pattern: tuple(of) for pattern, of in collected.items()})

    def _build(self, patterns: Mapping[ResourcePattern, tuple[AclBinding, ...]]) -> None:
        self.patterns = patterns
        literal: dict[ResourceType, dict[str, tuple[AclBinding, ...]]] = {}
        prefixed: dict[ResourceType, dict[str, tuple[AclBinding, ...]]] = {}
        for pattern, bindings in patterns.items():
            kind = literal if pattern.pattern_type is PatternType.LITERAL else prefixed
            kind.setdefault(pattern.resource_type, {})[pattern.name] = bindings
        self._literal: Mapping[ResourceType, _Named] = literal
        self._prefixed: Mapping[ResourceType, _Named] = prefixed
        self._lengths = {of: sorted({len(name) for name in names}) for of, names in prefixed.items()}

    def replaced(self, version: int, changes: Mapping[ResourcePattern, Iterable[AclBinding]]) -> Acls:
        """Another version, in which these patterns have these bindings: none removes the pattern."""
        patterns = dict(self.patterns)
        for pattern, bindings in changes.items():
            patterns.pop(pattern, None)
            if kept := tuple(sorted({each for each in bindings if each.pattern == pattern})):
                patterns[pattern] = kept
        other = Acls(version)
        other._build(patterns)
        return other

    def __iter__(self) -> Iterator[AclBinding]:
        for pattern in sorted(self.patterns):
            yield from self.patterns[pattern]

    def __len__(self) -> int:
        return sum(map(len, self.patterns.values()))

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """The bindings that the filter matches, in order."""
        return [binding for binding in self if wanted.matches(binding)]

    def about(self, of: ResourceType, name: str) -> Iterator[tuple[AclBinding, ...]]:
        """The bindings of each pattern that covers the resource."""
        literal = self._literal.get(of, _NOTHING)
        if (bindings := literal.get(name)) is not None:
            yield bindings
        if name != EVERY and (bindings := literal.get(EVERY)) is not None:
            yield bindings
        if (prefixed := self._prefixed.get(of)) is None:
            return
        for length in self._lengths[of]:
            if length > len(name):
                return
            if (bindings := prefixed.get(name[:length])) is not None:
                yield bindings

    def of_type(self, of: ResourceType) -> Iterator[tuple[AclBinding, ...]]:
        """The bindings of each pattern of the type."""
        yield from self._literal.get(of, _NOTHING).values()
        yield from self._prefixed.get(of, _NOTHING).values()


def is_about(binding: AclBinding, principal: Principal, host: str) -> bool:
    """Whether a binding counts for this caller; `host` is a plain address."""
    named = binding.principal
    return (named == principal or (named.name == EVERY and named.kind == principal.kind)) and (
        binding.host in (host, EVERY)
    )


def _counts(binding: AclBinding, principal: Principal, host: str, operation: Operation) -> bool:
    if binding.permission is Permission.DENY:
        matches = binding.operation in (operation, Operation.ALL)
    else:
        matches = binding.operation in _ALLOWED_BY[operation]
    return matches and is_about(binding, principal, host)


def decide(
    acls: Acls, principal: Principal, host: str, operation: Operation, of: ResourceType, name: str
) -> Decision:
    """Whether the ACLs allow the operation on the resource; `host` is a plain address.

    `NO_ACL_FOUND`, which is denied here, says that no ACL is about the resource at all.
    """
    found = False
    allows: AclBinding | None = None
    for bindings in acls.about(of, name):
        found = True
        for binding in bindings:
            if not _counts(binding, principal, host, operation):
                continue
            if binding.permission is Permission.DENY:
                return Decision(False, binding)
            allows = allows or binding
    if allows is not None:
        return Decision(True, allows)
    return Decision(False, Ground.NO_ACL if found else Ground.NO_ACL_FOUND)


def decide_any(
    acls: Acls, principal: Principal, host: str, operation: Operation, of: ResourceType
) -> Decision:
    """Whether the ACLs allow the operation on at least one resource of the type (KIP-679).

    An ALLOW counts unless a DENY covers all that it allows.
    """
    allows: list[AclBinding] = []
    denies: list[AclBinding] = []
    for bindings in acls.of_type(of):
        for binding in bindings:
            if _counts(binding, principal, host, operation):
                (denies if binding.permission is Permission.DENY else allows).append(binding)
    literal = {deny.pattern.name: deny for deny in denies if deny.pattern.pattern_type is PatternType.LITERAL}
    prefixed = {
        deny.pattern.name: deny for deny in denies if deny.pattern.pattern_type is PatternType.PREFIXED
    }
    if EVERY in literal:
        return Decision(False, literal[EVERY])
    denied: AclBinding | None = None
    for allow in allows:
        name = allow.pattern.name
        by = None
        if allow.pattern != ResourcePattern(of, EVERY):
            if allow.pattern.pattern_type is PatternType.LITERAL:
                by = literal.get(name)
            by = by or next(
                (prefixed[name[:n]] for n in range(1, len(name) + 1) if name[:n] in prefixed), None
            )
        if by is None:
            return Decision(True, allow)
        denied = denied or by
    if denied is not None:
        return Decision(False, denied)
    return Decision(False, Ground.NO_ACL)
