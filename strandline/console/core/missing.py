"""What is known of a topic or a group that the cluster does not have."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.places import NO_REF


@dataclass(frozen=True, slots=True)
class Missing:
    """Since when it is gone, in milliseconds since 1970, None if that is not known; and the page that lists
    those that there are."""

    since_ms: int | None
    list_path: str
    list_name: str


def deleted_ms(rows: Rows, topic: str) -> int | None:
    """When the last topic of this name was deleted; None if no event says that it was."""
    row = rows.known_partition(topic, 0)
    if row is None or not row.lives:
        return None
    last = row.lives[-1]
    return None if last.deleted_by == NO_REF else last.deleted_ms
