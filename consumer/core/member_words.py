"""What a member of a group says about itself to people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from strandline.errors import InconsistentGroupProtocol
from strandline.groups import Joined
from strandline.ids import TopicPartition

NAMES_MAX: Final = 5
"""More are counted instead."""


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    if not names:
        return "nothing"
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def cause_of(answer: Joined) -> str:
    """Why a generation came to be, and who caused it and leads it."""
    by = f" (caused by {answer.caused_by})" if answer.caused_by else ""
    return f": {answer.reason or 'no reason given'}{by}; {answer.leader} leads"


def not_a_superset(
    owned: Iterable[TopicPartition],
    assigned: Iterable[TopicPartition],
    revoked: Iterable[TopicPartition],
    missing: Iterable[TopicPartition],
) -> InconsistentGroupProtocol:
    """The assignment takes away what it does not revoke: a defect, or members that do not fit together."""

    def named(partitions: Iterable[TopicPartition]) -> str:
        return "[" + ", ".join(map(str, sorted(partitions))) + "]"

    return InconsistentGroupProtocol(
        f"the assignment lacks {named(missing)}: owned {named(owned)}, revoked {named(revoked)},"
        f" assigned {named(assigned)}"
    )
