"""The ledger of who owns which partitions, as the members report it.

It is what the coordinator knows about a member that vanishes: what it still had is lost. It lives in
memory: after a change of coordinator it is empty until the members report again. Then a member that
vanishes is only said to have left, which ends all that it owned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from strandline.broker.core.groups.effects import EventKind, Token
from strandline.broker.core.groups.kept import OWNED_BYTES
from strandline.broker.core.groups.limits import cut
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.turn import Desk
from strandline.errors import IllegalGeneration, InvalidRequest
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import OwnershipChange, OwnershipKind, ReportOwnership

_EVENTS: Final = {
    OwnershipKind.ASSIGNED: EventKind.ASSIGNED,
    OwnershipKind.REVOKED: EventKind.REVOKED,
    OwnershipKind.LOST: EventKind.LOST,
}


def report_ownership(
    desk: Desk[Token],
    group: Group[Token],
    token: Token,
    request: ReportOwnership,
    missing: Collection[TopicPartition] = (),
) -> None:
    """Enter what a member did and publish it, in its order.

    A report may be of an earlier generation: the member did it then. Raises UnknownMemberId for who is no
    member (any longer): what it had was published as lost when it went. Raises IllegalGeneration for a
    generation that has not been, InvalidRequest for more partitions than a commit may have, in all changes
    together or owned after them. What is `missing` is left out of what a member took: it does not exist.
    """
    member = group.find(request.member, None)
    most = desk.limits.offsets_per_commit_max
    for change in request.changes:
        if change.generation > group.generation:
            raise IllegalGeneration(
                f"member {member.member!r} reports of generation {change.generation}; group {group.name} "
                f"is in generation {group.generation}"
            )
    reported = sum(len(change.partitions) for change in request.changes)
    if reported > most:
        raise InvalidRequest(
            f"member {member.member!r} reports {reported} partitions, more than {most}", limit=most
        )
    changes = [_existing(change, missing) for change in request.changes]
    owned = _owned_after(member.owned, changes)
    if len(owned) > most:
        raise InvalidRequest(
            f"member {member.member!r} would own {len(owned)} partitions, more than {most}", limit=most
        )
    added = (len(owned) - len(member.owned)) * OWNED_BYTES
    desk.kept.check(max(0, added), f"the report of member {member.member!r}")
    group.own(member, owned)
    for change in changes:
        desk.publish(
            _EVENTS[change.kind],
            group.name,
            change.generation,
            at_ms=change.at_ms,
            member=member.member,
            reason=cut(change.reason),
            partitions=change.partitions,
        )
    desk.answer(token, None)


def _existing(change: OwnershipChange, missing: Collection[TopicPartition]) -> OwnershipChange:
    """The change without what was taken and does not exist."""
    if change.kind is not OwnershipKind.ASSIGNED or not missing:
        return change
    return replace(change, partitions=tuple(name for name in change.partitions if name not in missing))


def _owned_after(
    owned: Mapping[TopicPartition, None], changes: Iterable[OwnershipChange]
) -> dict[TopicPartition, None]:
    after = dict(owned)
    for change in changes:
        if change.kind is OwnershipKind.ASSIGNED:
            after.update(dict.fromkeys(change.partitions))
        else:
            for name in change.partitions:
                after.pop(name, None)
    return after
