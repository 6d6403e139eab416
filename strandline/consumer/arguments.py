"""Checks the arguments of a consumer's calls. Each function raises InvalidRequest with the argument's name,
its value, and what is expected (`strandline.client.arguments`)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from strandline.client.arguments import INT64_MAX, by_partition, text, whole
from strandline.config.limits import GROUP_ID_LENGTH_MAX, INTERVAL_MS_MAX
from strandline.consumer.core.assignors.assignor import Assignor
from strandline.consumer.core.assignors.registry import named
from strandline.errors import InvalidRequest, SettingsError
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import TaskChange
from strandline.vocabulary.topics import check_topic_name

# --- the group ----------------------------------------------------------------------------------


def assignors(given: object) -> list[Assignor]:
    """Assignors by name, and the user's own objects. Raises SettingsError, as for any other setting."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise SettingsError(f"assignors {given!r}: give several, the most wanted first, as in ('sticky',)")
    found = [named(one) for one in given]
    if not found:
        raise SettingsError("assignors: none is given; a group needs one that all its members know")
    names: set[str] = set()
    for one in found:
        name = getattr(one, "name", None)
        if not isinstance(name, str) or not callable(getattr(one, "assign", None)):
            raise SettingsError(f"assignor {one!r}: give a name, or an object with a name and `assign`")
        if not 0 < len(name) <= GROUP_ID_LENGTH_MAX:
            raise SettingsError(f"assignor {one!r}: its name {name!r} has {len(name)} characters")
        if name in names:
            raise SettingsError(f"assignors: {name!r} stands there twice")
        names.add(name)
    return found


def subscription(topics: object, pattern: object) -> tuple[frozenset[str], re.Pattern[str] | None]:
    """The topics, or the pattern. Raises InvalidTopic for an invalid topic name."""
    if (topics is None) == (pattern is None):
        raise InvalidRequest("subscribe to topics, or to a pattern of their names")
    if topics is None:
        return frozenset(), _pattern(pattern)
    if isinstance(topics, str):
        raise InvalidRequest(f"subscribe to several topics: [{topics!r}]")
    if isinstance(topics, bytes) or not isinstance(topics, Iterable):
        raise InvalidRequest(f"topics {topics!r}: give several names, as in ['tides']")
    names = list(topics)
    if not names or "" in names:
        raise InvalidRequest("no topic is named; `unsubscribe` ends a subscription")
    for name in names:
        check_topic_name(text("topic", name))
    return frozenset(names), None


def _pattern(given: object) -> re.Pattern[str]:
    if isinstance(given, re.Pattern) and isinstance(given.pattern, str):
        return given
    if not isinstance(given, str):
        raise InvalidRequest(f"pattern = {given!r}: give a string, or a compiled pattern of one")
    try:
        return re.compile(given)
    except re.error as error:
        raise InvalidRequest(f"pattern = {given!r}: {error}") from error


def task_changes(given: object) -> list[TaskChange]:
    """Changes of a member's tasks."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidRequest(f"changes = {given!r}: give several TaskChange")
    return [_task_change(change) for change in given]


def _task_change(given: object) -> TaskChange:
    if not isinstance(given, TaskChange):
        raise InvalidRequest(f"change = {given!r}: give a TaskChange(kind, task, at_ms)")
    if not 0 < len(text("task", given.task)) <= GROUP_ID_LENGTH_MAX:
        raise InvalidRequest(f"task = {given.task!r}: give a name of 1 to {GROUP_ID_LENGTH_MAX} characters")
    whole(f"at_ms of task {given.task}", given.at_ms, 0, INT64_MAX)
    text(f"reason of task {given.task}", given.reason)
    counts: tuple[object, ...] = (given.lag, given.remaining_ms)
    if not all(isinstance(count, int) for count in counts):
        raise InvalidRequest(f"change = {given!r}: give lag and remaining_ms as whole numbers")
    rate: object = given.records_per_s
    if not isinstance(rate, int | float):
        raise InvalidRequest(f"change = {given!r}: give records_per_s as a number")
    return given


def reason(given: object) -> str:
    """The reason for a request, for humans."""
    said = text("reason", given)
    if not said:
        raise InvalidRequest("reason = '': say why")
    return said


def processing_s(given: object) -> float:
    """The longest time for processing, in seconds."""
    return _amount("seconds", given, INTERVAL_MS_MAX // 1000)


# --- what is read -------------------------------------------------------------------------------


def timeout_ms(given: object) -> float:
    """The longest time to wait for the first record, in milliseconds."""
    return _amount("timeout_ms", given, INTERVAL_MS_MAX)


def max_records(given: object) -> int | None:
    """The largest number of records; None: the default."""
    return None if given is None else whole("max_records", given, 1, INT64_MAX)


def timestamps(given: object) -> dict[TopicPartition, int]:
    """A time by partition, in milliseconds since the Unix epoch."""
    wanted = by_partition("timestamps", given)
    return {name: whole(f"timestamp for {name}", at, 0, INT64_MAX) for name, at in wanted.items()}


def _amount(what: str, given: object, most: int) -> float:
    """A number, whole or not."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= most:
        raise InvalidRequest(f"{what} = {given!r}: give a number from 0 to {most}")
    return given
