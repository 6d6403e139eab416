"""How a call says what its client calls itself: quotas may be for a client id."""

from __future__ import annotations

from typing import Final

from strandline.adapters.call_metadata import Metadata, ShownMetadata, shown
from strandline.config.limits import GROUP_ID_LENGTH_MAX

METADATA_NAME: Final = "strandline-client-id-bin"


def client_id_metadata(client_id: str) -> Metadata:
    """The metadata of a call of this client."""
    return ((METADATA_NAME, client_id.encode()),) if client_id else ()


def shown_client_id(metadata: ShownMetadata) -> str:
    """The client id of a call with this metadata, cut to the longest that a client of ours has; "": none."""
    said = shown(metadata, METADATA_NAME)
    return said.decode(errors="replace")[:GROUP_ID_LENGTH_MAX] if isinstance(said, bytes) else ""
