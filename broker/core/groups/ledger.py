"""The ledger of who owns which partitions, as the members report it.

It is what the coordinator knows about a member that vanishes: what it still had is lost. It lives in
memory: after a change of coordinator it is empty until the members report again. Then a member that
vanishes is only said to have left, which ends all that it owned.
"""

from __future__ import annotations

from typing import Final

from broker.core.groups.desk import Desk
from broker.core.groups.effects import EventKind, Token
from broker.core.groups.group import Group
from broker.core.groups.limits import cut
from strandline.errors import IllegalGeneration, InvalidRequest
from strandline.groups import OwnershipKind, ReportOwnership

_EVENTS: Final = {
    OwnershipKind.ASSIGNED: EventKind.ASSIGNED,
    OwnershipKind.REVOKED: EventKind.REVOKED,
    OwnershipKind.LOST: EventKind.LOST,
}


def report_ownership(desk: Desk[Token], group: Group[Token], token: Token, request: ReportOwnership) -> None:
    """Enter what a member did and publish it, in its order.

    A report may be of an earlier generation: the member did it then. Raises UnknownMemberId for who is no
    member (any longer): what it had was published as lost when it went. Raises IllegalGeneration for a
    generation that has not been, InvalidRequest for more partitions than a commit may have.
    """
    member = group.find(request.member, None)
    most = desk.limits.offsets_per_commit_max
    for change in request.changes:
        if change.generation > group.generation:
            raise IllegalGeneration(
                f"member {member.member!r} reports of generation {change.generation}; group {group.name} "
                f"is in generation {group.generation}"
            )
        if len(change.partitions) > most:
            raise InvalidRequest(
                f"member {member.member!r} reports {len(change.partitions)} partitions, more than {most}",
                limit=most,
            )
    for change in request.changes:
        if change.kind is OwnershipKind.ASSIGNED:
            member.owned.update(dict.fromkeys(change.partitions))
        else:
            for name in change.partitions:
                member.owned.pop(name, None)
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
