"""Raises what was refused of a request, once the rest of it is done."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.errors import StrandlineError


def raise_first(outcomes: Iterable[tuple[object, StrandlineError | None]]) -> None:
    """Raise the first error, if there is one. The others are its notes, each with what it is about."""
    refused = [(about, error) for about, error in outcomes if error is not None]
    if refused:
        (_, first), *others = refused
        for about, error in others:
            first.add_note(f"{about}: {error.message}")
        raise first
