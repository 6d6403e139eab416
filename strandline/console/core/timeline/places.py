"""Where an event's record is, as one whole number, and as the id that an address has.

A number takes a third of the memory of a tuple, and the timeline keeps hundreds of thousands.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from strandline.ids import GROUP_EVENTS_TOPIC, STATE_CHANGES_TOPIC, TRANSACTIONS_TOPIC

OFFSET_BITS: Final = 44
PARTITION_BITS: Final = 16
OFFSETS_END: Final = 1 << OFFSET_BITS
PARTITIONS_END: Final = 1 << PARTITION_BITS

Ref = int
"""The place of an event: its source, the partition and the offset, packed."""

NO_REF: Final[Ref] = -1
"""Of something that no event says."""


class Source(IntEnum):
    """Where an event is from."""

    STATE = 0
    """A record of `__state_changes`."""
    GROUP = 1
    """A record of `__group_events`."""
    SEEN = 2
    """What the console itself saw; no record says it."""
    TRANSACTION = 3
    """A record of `__transaction_state`, which is read only for a transactional id that is looked at."""


TOPICS: Final = {
    Source.STATE: STATE_CHANGES_TOPIC,
    Source.GROUP: GROUP_EVENTS_TOPIC,
    Source.TRANSACTION: TRANSACTIONS_TOPIC,
}
_WORDS: Final = {Source.STATE: "state", Source.GROUP: "group", Source.TRANSACTION: "transaction"}


def pack(source: Source, partition: int, offset: int) -> Ref:
    """Raises ValueError for a place that no topic has."""
    if not (0 <= partition < PARTITIONS_END and 0 <= offset < OFFSETS_END):
        raise ValueError(f"partition {partition}, offset {offset} is no place of an event")
    return (source << PARTITION_BITS | partition) << OFFSET_BITS | offset


def unpack(ref: Ref) -> tuple[Source, int, int]:
    """The source, the partition and the offset."""
    above = ref >> OFFSET_BITS
    return Source(above >> PARTITION_BITS), above & (PARTITIONS_END - 1), ref & (OFFSETS_END - 1)


def event_id(ref: Ref) -> str | None:
    """The id of an event, None for NO_REF: `state/PARTITION/OFFSET`, also `group/…` and
    `transaction/…`; `seen/N`."""
    if ref == NO_REF:
        return None
    source, partition, offset = unpack(ref)
    return f"seen/{offset}" if source is Source.SEEN else f"{_WORDS[source]}/{partition}/{offset}"


def parse_id(text: str) -> Ref:
    """The place that an id names. Raises ValueError."""
    word, *numbers = text.split("/")
    if all(each.isascii() and each.isdigit() and len(each) < 20 for each in numbers):
        if word == "seen" and len(numbers) == 1:
            return pack(Source.SEEN, 0, int(numbers[0]))
        for source, known in _WORDS.items():
            if word == known and len(numbers) == 2:
                return pack(source, int(numbers[0]), int(numbers[1]))
    raise ValueError(f"{text[:100]!r} is no id of an event, such as state/0/17, group/0/17 or seen/17")
