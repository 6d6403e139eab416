"""Offsets of partitions as JSON, in users' options and in Spark's checkpoints.

Both have Kafka's format, `{"orders": {"0": 12, "1": 7}}`. Spark compares the offsets of a stream as text, so
they are always in the same order: topics by name, partitions by number. A stream's offsets have more keys,
which no topic name can equal and any of which may be missing:

* `@ids`: the topics' ids. A topic that was deleted and created again under its name is another one, and
offsets of the old one do not apply to it.
* `@epochs`: the leader epoch of the record before each offset. A log that has lost that record is not the one
that was read.
* `@since`: in the end of a batch that does not begin where the one before ended, its begin. It is stored
nowhere else: a query that is killed in its first batch would compute its start again, and `latest` would have
moved by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Self

from strandline.ids import NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.pipeline.core.numbers import decimal
from strandline.pipeline.errors import InvalidOption
from strandline.vocabulary.log_position import LogPosition
from strandline.vocabulary.topics import is_topic_name

LATEST: Final = -1
"""Instead of an offset: after the last committed record."""
EARLIEST: Final = -2
"""Instead of an offset: the start of the log."""

IDS: Final = "@ids"
EPOCHS: Final = "@epochs"
SINCE: Final = "@since"

Offsets = Mapping[TopicPartition, int]


def parse(option: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    """A number for each partition, from a user's option. Raises InvalidOption for one below `least`."""
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _object(option, text).items():
        if not isinstance(numbers, dict):
            raise InvalidOption(f"{option}: {topic!r} has {numbers!r}: give its partitions, as in {_SHAPE}")
        for partition, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 2**63:
                raise InvalidOption(
                    f"{option}: {topic} partition {partition} has {number!r}: "
                    f"give a whole number from {least}"
                )
            found[TopicPartition(topic, _partition(option, topic, partition))] = number
    _check_some(option, text, found)
    return found


def parse_partitions(option: str, text: str) -> list[TopicPartition]:
    """Partitions by topic, in the format of `assign`: `{"orders": [0, 1]}`. Raises InvalidOption."""
    found: dict[TopicPartition, None] = {}
    for topic, numbers in _object(option, text).items():
        if not isinstance(numbers, list):
            raise InvalidOption(
                f'{option}: {topic!r} has {numbers!r}: give a list, as in {{"orders": [0, 1]}}'
            )
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise InvalidOption(f"{option}: {topic} has partition {number!r}: give whole numbers from 0")
            found[TopicPartition(topic, number)] = None
    _check_some(option, text, found)
    return sorted(found)


_SHAPE: Final = '{"orders": {"0": 12, "1": 7}}'


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        given = json.loads(text, object_pairs_hook=partial(_once, option))
    except ValueError as error:
        raise InvalidOption(f"{option} = {text!r} is not JSON ({error}): write it as {_SHAPE}") from None
    if not isinstance(given, dict):
        raise InvalidOption(f"{option} = {text!r}: give an object by topic, as in {_SHAPE}")
    for topic in given:
        if not is_topic_name(topic):
            raise InvalidOption(f"{option}: no topic can have the name {topic!r}")
    return given


def _once(option: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object with unique names: of two numbers, the intended one would be unclear."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidOption(f"{option} has {name!r} twice: give it once")
        found[name] = value
    return found


def _partition(option: str, topic: str, text: str) -> int:
    number = decimal(text)
    if number is None or number < 0 or str(number) != text or len(text) > 10:
        raise InvalidOption(f"{option}: {topic} has partition {text!r}: give its number, as in {_SHAPE}")
    return number


def _check_some(option: str, text: str, found: Mapping[TopicPartition, object]) -> None:
    if not found:
        raise InvalidOption(f"{option} = {text!r} names no partition")


def as_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, both in order."""
    written: dict[str, dict[str, int]] = {}
    for name in sorted(offsets):
        written.setdefault(name.topic, {})[str(name.partition)] = offsets[name]
    return written


def as_text(offsets: Offsets) -> str:
    """Offsets as text for a message."""
    return json.dumps(as_json(offsets))


def listed(names: Iterable[TopicPartition], *, most: int = 10) -> str:
    """Partitions as text for a message, limited to `most` names."""
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(map(str, ordered[:most])) + more


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The position of a stream. `offsets` are those to read next; `ids` are of their topics, `epochs` of the
    records before them, as far as they are known."""

    offsets: Offsets
    ids: Mapping[str, str] = field(default_factory=dict)
    since: Offsets | None = None
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    def topic_id(self, topic: str) -> TopicId:
        return TopicId(self.ids.get(topic, NO_TOPIC_ID))

    def at(self, name: TopicPartition) -> LogPosition:
        """The position in one partition. Raises KeyError."""
        return LogPosition(self.offsets[name], self.topic_id(name.topic), self.epochs.get(name, NO_EPOCH))

    def moved(self, to: Mapping[TopicPartition, LogPosition]) -> Self:
        """With other positions in some partitions of the same topics."""
        offsets = {name: position.offset for name, position in to.items()}
        epochs = {name: position.leader_epoch for name, position in to.items()}
        return replace(self, offsets={**self.offsets, **offsets}, epochs={**self.epochs, **epochs})

    def as_json(self) -> dict[str, Any]:
        written: dict[str, Any] = dict(as_json(self.offsets))
        topics = {name.topic for name in self.offsets}
        ids = {topic: self.ids[topic] for topic in sorted(topics) if topic in self.ids}
        if ids:
            written[IDS] = ids
        epochs = {
            name: epoch for name, epoch in self.epochs.items() if name in self.offsets and epoch != NO_EPOCH
        }
        if epochs:
            written[EPOCHS] = as_json(epochs)
        if self.since is not None:
            written[SINCE] = as_json(self.since)
        return written

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """The inverse of `as_json`. Raises InvalidOption for data that strandline did not write."""
        try:
            since = written.get(SINCE)
            return cls(
                _offsets({topic: by for topic, by in written.items() if not topic.startswith("@")}),
                {str(topic): str(id_) for topic, id_ in written.get(IDS, {}).items()},
                None if since is None else _offsets(since),
                _offsets(written.get(EPOCHS, {})),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidOption(
                f"the checkpoint has the offsets {json.dumps(written)}, which strandline did not write "
                f"({error}): is its folder that of another query?"
            ) from None


def _offsets(written: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, by_partition in written.items()
        for partition, offset in by_partition.items()
    }
