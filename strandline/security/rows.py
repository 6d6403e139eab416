"""What a row says in the tables of calls: which rights a call needs, where that is decided, and what a caller
without them gets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from strandline.security.rights import Right


class Decided(Enum):
    """Where it is decided whether a caller may make a call."""

    BEFORE = "before anything is done (by its handler, of a Kafka API): the row has one right to the cluster"
    BY_HANDLER = "by its handler, for each entry of the request"
    MEMBERS_ONLY = "by its handler: only for members of this cluster, also without an authorizer"
    NOWHERE = "nowhere: any caller may make it"


@dataclass(frozen=True, slots=True)
class Row:
    """One call. `needs` and `refused` are for people; the rights are those that `needs` names."""

    decided: Decided
    rights: tuple[Right, ...] = ()
    needs: str = ""
    refused: str = ""


def before(right: Right, note: str = "") -> Row:
    """The right is to the cluster."""
    needs = f"{right}; {note}" if note else str(right)
    return Row(Decided.BEFORE, (right,), needs, "31")


def by_handler(*rights: Right, needs: str, refused: str) -> Row:
    return Row(Decided.BY_HANDLER, rights, needs, refused)


NOTHING: Final = Row(Decided.NOWHERE, needs="nothing")
