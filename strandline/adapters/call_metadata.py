"""What a call says beside its request: gRPC's metadata, names with values."""

from __future__ import annotations

from collections.abc import Iterable

Metadata = tuple[tuple[str, bytes], ...]
"""Of a call that is made. A name with bytes ends with `-bin`."""
ShownMetadata = Iterable[tuple[str, str | bytes]] | None
"""Of a call that is served."""


def shown(metadata: ShownMetadata, name: str) -> str | bytes | None:
    """The first value with this name; None: there is none."""
    return next((value for each, value in metadata or () if each == name), None)
