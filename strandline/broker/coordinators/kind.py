"""What a kind of coordinators keeps, in the words of its messages."""

from __future__ import annotations

from typing import NamedTuple

from strandline.ids import TopicName


class LogLines(NamedTuple):
    """Written out for each kind, so that a search for a line finds it (docs/run/troubleshooting.md)."""

    loaded: str
    not_read: str
    waiting: str
    """For in-sync replicas, before the log may be read."""
    unreadable: str
    """Of one record."""
    not_written: str
    failed: str
    """A turn of the core, for one key."""


class Kind(NamedTuple):
    topic: TopicName
    one: str
    """What a key names: `group`."""
    all: str
    """Its plural."""
    lines: LogLines
