"""Refusals: what was refused of a request, and why a group with members is left alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from strandline.errors import StrandlineError
from strandline.vocabulary.groups import DescribedMember

NAMED_MAX: Final = 5
"""The most members that a refusal names."""


def raise_first(outcomes: Iterable[tuple[object, StrandlineError | None]]) -> None:
    """Raise the first error, if there is one. The others are its notes, each with what it is about."""
    refused = [(about, error) for about, error in outcomes if error is not None]
    if refused:
        (_, first), *others = refused
        for about, error in others:
            first.add_note(f"{about}: {error.message}")
        raise first


def has_members(group: str, members: Sequence[DescribedMember]) -> str:
    """The message of a NonEmptyGroup; it names the members, if they are known."""
    named = ", ".join(f"{m.member} (client {m.client_id} at {m.host})" for m in members[:NAMED_MAX])
    more = f" and {len(members) - NAMED_MAX} more" if len(members) > NAMED_MAX else ""
    them = f": {named}{more}" if named else ""
    return f"group {group!r} has members{them}; stop them first, they would go on as if nothing had happened"
