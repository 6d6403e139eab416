"""Records which partitions each member owns, as the members report it.

From it the coordinator knows what a member loses when it vanishes. It is held in memory: after a change of
coordinator it is empty until the members report again. Until then, a member that vanishes is only reported
as having left, which ends all that it owned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups.effects import EventKind
from strandline.broker.core.groups.limits import cut
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.state_bytes import OWNED_BYTES
from strandline.errors import IllegalGeneration, InvalidRequest
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import OwnershipChange, OwnershipKind, ReportOwnership

_EVENTS: Final = {
    OwnershipKind.ASSIGNED: EventKind.ASSIGNED,
    OwnershipKind.REVOKED: EventKind.REVOKED,
    OwnershipKind.LOST: EventKind.LOST,
}


def report_ownership(
    turn: Turn,
    group: Group,
    call: Call[None],
    request: ReportOwnership,
    missing: Collection[TopicPartition] = (),
) -> None:
    """Note the changes that a member reports, and publish them in its order.

    A report may be about an earlier generation, in which the member made the change. Raises UnknownMemberId
    if the sender is not a member (any longer): its partitions were published as lost when it left. Raises
    IllegalGeneration for a generation that has not begun, InvalidRequest for more partitions than a commit
    may have, in all changes together or owned after them. `missing` partitions do not exist: they are left
    out of the partitions that a member took.
    """
    member = group.find(request.member, None, turn.by)
    most = turn.limits.offsets_per_commit_max
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
    turn.state_bytes.check(max(0, added), f"the report of member {member.member!r}")
    group.set_owned(member, owned)
    publish_changes(turn, group, member.member, changes)
    turn.answer(call, None)


def publish_changes(turn: Turn, group: Group, member_id: str, changes: Iterable[OwnershipChange]) -> None:
    """Publish the changes of a member, in its order."""
    for change in changes:
        turn.publish(
            _EVENTS[change.kind],
            group.name,
            change.generation,
            at_ms=change.at_ms,
            member=member_id,
            reason=cut(change.reason),
            partitions=change.partitions,
        )


def _existing(change: OwnershipChange, missing: Collection[TopicPartition]) -> OwnershipChange:
    """The change without assigned partitions that do not exist."""
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
