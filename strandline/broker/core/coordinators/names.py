"""Names that clients choose, and that records keep."""

from __future__ import annotations

from strandline.config.limits import TOPIC_NAME_LENGTH_MAX
from strandline.errors import InvalidRequest, InvalidTopic, StrandlineError
from strandline.ids import TopicPartition


def wrong_text(value: str, length_max: int) -> str | None:
    """The problem with an id or the like; None if it is valid."""
    if len(value) > length_max:
        return f"has {len(value)} characters, more than {length_max}"
    if not value.isprintable():
        for character in value:
            if ord(character) < 32 or 127 <= ord(character) < 160:
                return f"has the control character {character!r}"
    return None


def check_name(name: TopicPartition) -> StrandlineError | None:
    """The problem with the name of a partition; None if it is valid."""
    if not name.topic or wrong_text(name.topic, TOPIC_NAME_LENGTH_MAX) is not None:
        return InvalidTopic(f"topic {name.topic[:TOPIC_NAME_LENGTH_MAX]!r} is no topic's name")
    if name.partition < 0:
        return InvalidRequest(f"{name}: partition {name.partition} is negative")
    return None
