"""Which operations a caller may do, as the bits of one number (KIP-430)."""

from __future__ import annotations

from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.acls import CLUSTER_NAME, OPERATIONS, ResourceType
from strandline.security.rights import Right


def operations_of(access: Access, caller: Caller, of: ResourceType, name: str = CLUSTER_NAME) -> int:
    """Those on the resource. Without an authorizer, all that exist for its type."""
    allowed = (each for each in OPERATIONS[of] if access.allowed(caller, Right(each, of), name))
    return sum(1 << each for each in allowed)
