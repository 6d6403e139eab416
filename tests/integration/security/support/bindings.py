"""ACLs of alice, and of others."""

from __future__ import annotations

from typing import Final

from strandline.security.acls import AclBinding, PatternType, Permission, ResourcePattern
from strandline.security.principal import Principal
from strandline.security.rights import Right

ALICE: Final = Principal("alice")


def binding(
    right: Right,
    name: str,
    *,
    kind: PatternType = PatternType.LITERAL,
    principal: Principal = ALICE,
    host: str = "*",
    permission: Permission = Permission.ALLOW,
) -> AclBinding:
    return AclBinding(ResourcePattern(right.of, name, kind), principal, host, right.operation, permission)
