"""ACLs in ZooKeeper: their paths, their JSON, and the notices of their changes (docs/design.md, "ZooKeeper").

`/acl/literal/TOPIC/tides` has the ACLs of one pattern; the name is percent-encoded, since a group's name may
have a slash. Each write adds a notice below `/security/changes`, so that one watch is enough for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from strandline.adapters.zookeeper.znodes import UnreadableZnode, dump, reading
from strandline.security.acls import (
    EVERY,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.principal import Principal
from strandline.vocabulary.parsing.typed_json import text, unreadable_as

ACL: Final = "/acl"
CHANGES: Final = "/security/changes"
CHANGE_PREFIX: Final = f"{CHANGES}/change-"
"""The path prefix for a sequential create."""

_FOLDERS: Final = {PatternType.LITERAL: "literal", PatternType.PREFIXED: "prefixed"}
_OF_FOLDER: Final = {folder: pattern_type for pattern_type, folder in _FOLDERS.items()}
ACL_FOLDERS: Final[dict[tuple[ResourceType, PatternType], str]] = {
    (resource_type, pattern_type): f"{ACL}/{folder}/{resource_type.name}"
    for pattern_type, folder in _FOLDERS.items()
    for resource_type in ResourceType
    if resource_type is not ResourceType.ANY
}
"""The folder of each kind of pattern: its children are the patterns' names."""
SKELETON: Final = (*ACL_FOLDERS.values(), CHANGES)
"""Persistent paths that a process with an authorizer creates at its start if they are missing."""

ANYONE: Final = Principal(EVERY)


def encoded(name: str, safe: str = EVERY) -> str:
    """The name of a resource, or of a user, as a znode's: it may have a slash."""
    return {".": "%2E", "..": "%2E%2E"}.get(name) or quote(name, safe=safe)


def pattern_path(pattern: ResourcePattern) -> str:
    return f"{ACL_FOLDERS[pattern.resource_type, pattern.pattern_type]}/{encoded(pattern.name)}"


def load_pattern(resource_type: ResourceType, pattern_type: PatternType, child: str) -> ResourcePattern:
    """The pattern of a child of a folder. Raises UnreadableZnode if no pattern has this path."""
    path = f"{ACL_FOLDERS[resource_type, pattern_type]}/{child}"
    with unreadable_as(UnreadableZnode, "the path", path):
        pattern = ResourcePattern(resource_type, unquote(child, errors="strict"), pattern_type)
        if pattern_path(pattern) != path:
            raise ValueError(f"it is written {pattern_path(pattern)}")
        return pattern


def dump_bindings(bindings: Iterable[AclBinding]) -> bytes:
    """The bindings of one pattern."""
    return dump(
        [
            {
                "principal": str(binding.principal),
                "host": binding.host,
                "operation": binding.operation.name,
                "permission": binding.permission.name,
            }
            for binding in sorted(bindings)
        ]
    )


def load_bindings(pattern: ResourcePattern, data: bytes) -> tuple[AclBinding, ...]:
    """Raises UnreadableZnode."""
    with reading(pattern_path(pattern), data) as raw:
        if not isinstance(raw, list):
            raise ValueError("it is not a list")
        return tuple(_load_binding(pattern, fields) for fields in raw)


def _load_binding(pattern: ResourcePattern, fields: Any) -> AclBinding:
    return AclBinding(
        pattern,
        Principal.parse(text(fields["principal"])),
        text(fields["host"]),
        Operation[text(fields["operation"])],
        Permission[text(fields["permission"])],
    )


def refusing(pattern: ResourcePattern) -> AclBinding:
    """Stands for the ACLs of a znode that cannot be read. One of them may have been a DENY, so everything is
    denied until the znode is mended."""
    return AclBinding(pattern, ANYONE, EVERY, Operation.ALL, Permission.DENY)


def dump_change(patterns: Sequence[ResourcePattern]) -> bytes:
    """The notice that these patterns have other ACLs now."""
    return dump({"acl": [pattern_path(pattern).removeprefix(f"{ACL}/") for pattern in patterns]})


def load_change(path: str, data: bytes) -> tuple[ResourcePattern, ...]:
    """The patterns whose ACLs have changed; none if the notice is about something else.

    Raises UnreadableZnode.
    """
    with reading(path, data) as raw:
        return tuple(_load_path(text(each)) for each in raw.get("acl", ()))


def _load_path(path: str) -> ResourcePattern:
    folder, resource_type, child = path.split("/")
    return load_pattern(ResourceType[resource_type], _OF_FOLDER[folder], child)
