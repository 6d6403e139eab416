"""Binds the names in a group to the callers that made them: member ids, instances, ids about to join.

Only where callers are distinguished. An anonymous caller owns nothing: its name may be taken over by a caller
with a principal, so that clients can move from a listener without names to one with names. A member that was
loaded from the log belongs to the first caller that speaks for it: the log has no principals.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.errors import FencedInstanceId, GroupAuthorizationFailed, UnknownMemberId
from strandline.security.principal import ANONYMOUS, Principal


def owner_after(owner: Principal | None, by: Principal | None, what: str) -> Principal | None:
    """The owner of a name, once this caller has used it. Raises GroupAuthorizationFailed if it is another's.

    None as the owner: not known; as the caller: callers are not distinguished.
    """
    if by is None or by == owner:
        return owner
    if owner is None or owner == ANONYMOUS:
        return by
    raise GroupAuthorizationFailed(f"{by} did not join as {what}")


def check_instance(statics: Mapping[str, str], group: str, member: str, instance: str | None) -> None:
    """`statics`: the member of each instance of the group. Raises UnknownMemberId, or FencedInstanceId for a
    member whose instance is another process by now (KIP-345)."""
    if instance is None:
        return
    current = statics.get(instance)
    if current is None:
        raise UnknownMemberId(f"group {group} has no instance {instance!r}")
    if current != member:
        raise FencedInstanceId(
            f"instance {instance!r} of group {group} is member {current!r} now, not {member!r}"
        )
