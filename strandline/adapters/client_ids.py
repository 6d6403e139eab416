"""How a call says what its client calls itself: quotas may be for a client id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from strandline.config.limits import GROUP_ID_LENGTH_MAX

METADATA_NAME: Final = "strandline-client-id-bin"

Metadata = tuple[tuple[str, bytes], ...]


def client_id_metadata(client_id: str) -> Metadata:
    """The metadata of a call of this client."""
    return ((METADATA_NAME, client_id.encode()),) if client_id else ()


def shown_client_id(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The client id of a call with this metadata, cut to the longest that a client of ours has; "": none."""
    shown = next((value for name, value in metadata or () if name == METADATA_NAME), b"")
    return shown.decode(errors="replace")[:GROUP_ID_LENGTH_MAX] if isinstance(shown, bytes) else ""
