"""How a call shows its session: the metadata `authorization: Bearer [session]` (RFC 6750)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

AUTHORIZATION: Final = "authorization"
_SCHEME: Final = "Bearer "


def bearer_metadata(session: str) -> tuple[tuple[str, str], ...]:
    return ((AUTHORIZATION, _SCHEME + session),)


def shown_session(metadata: Iterable[tuple[str, str | bytes]] | None) -> str | None:
    """The session that a call with this metadata shows; None if it shows none."""
    shown = next((value for name, value in metadata or () if name == AUTHORIZATION), None)
    if not isinstance(shown, str) or not shown.startswith(_SCHEME):
        return None
    return shown[len(_SCHEME) :]
