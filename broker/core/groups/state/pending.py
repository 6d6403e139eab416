"""Members that were given an id and have not joined with it yet (KIP-394)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from strandline.security.principal import ANONYMOUS, Principal


@dataclass(frozen=True, slots=True)
class PendingMember:
    """`owner`: the principal to which the id belongs; None: callers are not distinguished."""

    owner: Principal | None
    host: str

    @property
    def caller(self) -> Principal | str:
        """Who asked for the id: its principal, or the address of a caller without a name."""
        return self.host if self.owner is None or self.owner == ANONYMOUS else self.owner


def first_of_most(pending: Mapping[str, PendingMember], newcomer: PendingMember) -> str:
    """The oldest of the ids of the caller that has most of them, with the one that the newcomer asks for.
    `pending` has one at least, oldest first."""
    counts = Counter(each.caller for each in pending.values())
    if newcomer.caller in counts:
        counts[newcomer.caller] += 1
    most = max(counts.values())
    return next(member for member, each in pending.items() if counts[each.caller] == most)
