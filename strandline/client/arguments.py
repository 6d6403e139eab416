"""Checks arguments before anything is sent. Each function raises InvalidRequest with the argument's name, its
value, and what is expected.

A type checker finds such errors earlier; these checks are for callers without one, and for untyped values.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from strandline.errors import InvalidRequest
from strandline.ids import NO_EPOCH, TopicId, TopicPartition, is_topic_id, named_twice
from strandline.vocabulary.groups import CommittedOffset
from strandline.vocabulary.log_position import LogPosition

INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1

_A_PARTITION: Final = "a TopicPartition(topic, partition)"


def text(what: str, given: object) -> str:
    """A string that UTF-8 can encode."""
    if not isinstance(given, str):
        raise InvalidRequest(f"{what} = {given!r}: give a string")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{what} = {given!r}: give text that UTF-8 can write") from error
    return given


def whole(what: str, given: Any, least: int, most: int) -> int:
    """A whole number within these bounds; neither a bool nor a fraction."""
    try:
        number = None if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise InvalidRequest(f"{what} = {given!r}: give a whole number from {least} to {most}")
    return number


def brokers(what: str, given: Iterable[Any]) -> tuple[int, ...]:
    """The ids of brokers, each of them once."""
    ids = tuple(whole(what, each, 0, INT32_MAX) for each in given)
    if (twice := named_twice(ids)) is not None:
        raise InvalidRequest(f"{what} = {twice} is named twice: name each broker once")
    return ids


def offset(name: TopicPartition, given: object) -> int:
    """The offset of a record, or of the next one."""
    return whole(f"offset of {name}", given, 0, INT64_MAX)


def position(name: TopicPartition, given: object) -> LogPosition:
    """An offset, or an offset with the log that it belongs to."""
    if not isinstance(given, LogPosition):
        return LogPosition(offset(name, given))
    return LogPosition(
        offset(name, given.offset),
        _topic_id(f"topic id of {name}", given.topic_id),
        whole(f"leader epoch of {name}", given.leader_epoch, NO_EPOCH, INT32_MAX),
    )


def _topic_id(what: str, given: object) -> TopicId:
    """The id of a topic; empty: not known."""
    topic_id = text(what, given)
    if topic_id and not is_topic_id(topic_id):
        raise InvalidRequest(f"{what} = {given!r}: give 32 digits, each from 0 to 9 or from a to f, or none")
    return TopicId(topic_id)


def partition(given: object) -> TopicPartition:
    """A partition's name, also from a plain pair."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise InvalidRequest(f"partition = {given!r}: give {_A_PARTITION}")
    topic, number = given
    return TopicPartition(
        text(f"topic of partition {number!r}", topic),
        whole(f"number of a partition of topic {topic!r}", number, 0, INT32_MAX),
    )


def partitions(given: Iterable[object]) -> list[TopicPartition]:
    """Several partitions' names."""
    if isinstance(given, str | bytes | TopicPartition) or not isinstance(given, Iterable):
        raise InvalidRequest(f"partitions = {given!r}: give several, each {_A_PARTITION}")
    return [partition(name) for name in given]


def by_partition(what: str, given: object) -> dict[TopicPartition, Any]:
    """A mapping with partitions' names as its keys; the values are not checked."""
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"{what} = {given!r}: give a mapping, each key {_A_PARTITION}")
    return {partition(name): value for name, value in given.items()}


def offsets(given: object) -> dict[TopicPartition, LogPosition]:
    """An offset, or a position, by partition."""
    return {name: position(name, value) for name, value in by_partition("offsets", given).items()}


def commits(given: object) -> dict[TopicPartition, CommittedOffset]:
    """The offsets to commit, by partition."""
    return {name: _commit(name, value) for name, value in by_partition("offsets", given).items()}


def _commit(name: TopicPartition, given: Any) -> CommittedOffset:
    """An offset, an offset with metadata, a CommittedOffset, or a LogPosition."""
    match given:
        case CommittedOffset():
            entry = given
        case (at, metadata) if isinstance(given, tuple):
            entry = CommittedOffset(at, metadata=metadata)
        case _:
            return CommittedOffset.of(position(name, given))
    checked = CommittedOffset.of(position(name, entry.position))
    return replace(checked, metadata=text(f"metadata of {name}", entry.metadata))
