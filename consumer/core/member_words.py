"""What a member of a group says about itself to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.consumer.core.ownership import Received
from strandline.vocabulary.groups import Joined

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


def change_of(received: Received) -> str:
    """What an assignment changes."""
    added, removed = len(received.added), len(received.removed)
    return f"{added} added, {removed} to be revoked, {received.kept} kept"
