"""Who owns what in a group, as a matrix of partitions and members. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from strandline.console.core.member_names import ID_CHARS_SHOWN, cut
from strandline.consumer.described.view import GroupView, MemberView, PartitionView
from strandline.ids import TopicPartition


class Hold(Enum):
    """What a member has to do with a partition."""

    OWNS = "owns"
    GIVEN = "given"
    """The leader assigned it; the member has not reported that it took it."""
    GIVES_UP = "gives up"
    """The member still owns it, and the leader assigned it no longer."""


@dataclass(frozen=True, slots=True)
class Row:
    """One partition: what each member of the shown columns has to do with it."""

    partition: PartitionView
    cells: tuple[Hold | None, ...]
    elsewhere: tuple[str, ...]
    """Members that have to do with it and whose columns are not shown."""

    @property
    def free(self) -> bool:
        """No member has to do with it."""
        return not self.elsewhere and not any(self.cells)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A part of the matrix: `rows` of `members`."""

    members: tuple[MemberView, ...]
    rows: tuple[Row, ...]


def matrix(
    view: GroupView, partitions: Sequence[PartitionView], members: Sequence[MemberView] | None = None
) -> Matrix:
    """The part of these partitions and members; members None: all."""
    columns = view.members if members is None else tuple(members)
    shown = {member.member for member in columns}
    holds = _holds(view.members)
    rows = []
    for partition in partitions:
        here = holds.get(partition.name, {})
        elsewhere = tuple(member for member in sorted(here) if member not in shown)
        rows.append(Row(partition, tuple(here.get(member.member) for member in columns), elsewhere))
    return Matrix(columns, tuple(rows))


def _holds(members: Sequence[MemberView]) -> Mapping[TopicPartition, Mapping[str, Hold]]:
    found: dict[TopicPartition, dict[str, Hold]] = {}
    for member in members:
        owned = frozenset(member.owned)
        # Without an assignment, as while a generation forms, a member gives nothing up that is known of.
        given = owned if member.assigned is None else frozenset(member.assigned)
        for name in owned | given:
            hold = (
                Hold.OWNS
                if name in owned and name in given
                else Hold.GIVES_UP
                if name in owned
                else Hold.GIVEN
            )
            found.setdefault(name, {})[member.member] = hold
    return found


def free_partitions(view: GroupView) -> int:
    """How many partitions no member owns or was given."""
    return sum(each.owner is None and each.assigned_to is None for each in view.partitions)


def labels(members: Sequence[MemberView]) -> dict[str, str]:
    """A short name for each member: its instance, or its client id; with a piece of its own id if another
    member has the same name."""
    names = {each.member: cut(each.instance or each.client_id or each.member) for each in members}
    times = Counter(names.values())
    return {
        each.member: name if times[name] == 1 else f"{name} {_own_id(each)}"
        for each in members
        for name in (names[each.member],)
    }


def _own_id(member: MemberView) -> str:
    """The part of the member's id that follows its client id, cut short."""
    return member.member.removeprefix(f"{member.client_id}-")[:ID_CHARS_SHOWN]
