"""How a call shows its session: the metadata `authorization: Bearer [session]` (RFC 6750)."""

from __future__ import annotations

from typing import Final

from strandline.adapters.call_metadata import ShownMetadata, shown

AUTHORIZATION: Final = "authorization"
_SCHEME: Final = "Bearer "


def bearer_metadata(session: str) -> tuple[tuple[str, str], ...]:
    return ((AUTHORIZATION, _SCHEME + session),)


def shown_session(metadata: ShownMetadata) -> str | None:
    """The session that a call with this metadata shows; None if it shows none."""
    value = shown(metadata, AUTHORIZATION)
    if not isinstance(value, str) or not value.startswith(_SCHEME):
        return None
    return value[len(_SCHEME) :]
