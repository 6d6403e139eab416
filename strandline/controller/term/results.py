"""Chooses the error that a client gets for its request."""

from __future__ import annotations

from strandline.errors import NotController, OutcomeUnknown, StrandlineError
from strandline.ports import SessionEnded


def for_user(error: StrandlineError) -> StrandlineError:
    """The error for a client. NotController would mean that the request had no effect, which is unknown once
    it has begun."""
    if isinstance(error, NotController | SessionEnded):
        return OutcomeUnknown(f"{error.message}: look what became of it, and ask the next controller")
    return error
