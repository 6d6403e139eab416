"""What an assignor knows of a member."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from strandline.ids import PartitionKey, TopicId


class Subscriber(NamedTuple):
    name: str
    """Orders members among equals: it outlives the process of a static member."""
    topics: frozenset[TopicId]
    """Those that exist."""
    before: Set[PartitionKey]
    """Its last target."""
