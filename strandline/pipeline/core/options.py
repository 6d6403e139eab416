"""The options of the source, which Spark passes as a dictionary of texts with keys in any case.

Names and meanings are Kafka's. Every error names the option as documented, its value, and what to change.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from strandline.ids import INTERNAL_PREFIX, TopicPartition
from strandline.pipeline.core import offsets
from strandline.pipeline.core.connection import (
    BOOTSTRAP,
    KAFKA_BOOTSTRAP,
    Connection,
    connection,
    is_secret,
    security_options,
    text_of,
)
from strandline.pipeline.core.numbers import decimal
from strandline.pipeline.core.offsets import EARLIEST, LATEST, Offsets
from strandline.pipeline.errors import InvalidOption
from strandline.vocabulary.topics import is_topic_name

GROUP_IDS: Final = ("kafka.group.id", "groupIdPrefix")
"""Accepted for compatibility with Kafka's source; this source is in no group."""

ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN = "assign", "subscribe", "subscribePattern"
_SELECTIONS: Final = (ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN)

ISOLATION: Final = "kafka.isolation.level"
READ_UNCOMMITTED: Final = "read_uncommitted"
READ_COMMITTED: Final = "read_committed"

SOURCE_OPTIONS: Final = (
    BOOTSTRAP,
    KAFKA_BOOTSTRAP,
    *_SELECTIONS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    ISOLATION,
    "pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "commitGroup",
    *GROUP_IDS,
)
SPARKS_OWN: Final = ("path",)
"""Options that Spark adds."""
STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commitGroup")
BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")

INT64_MAX: Final = 2**63 - 1
MINUTES_MS: Final = 60_000
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": MINUTES_MS, "min": MINUTES_MS, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Selection:
    """What to read: these partitions, these topics, or all topics whose whole name matches a pattern."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str = ""

    def __str__(self) -> str:
        """The option as it was given."""
        if self.partitions:
            assigned: dict[str, list[int]] = {}
            for name in self.partitions:
                assigned.setdefault(name.topic, []).append(name.partition)
            return f"{ASSIGN} = {json.dumps(assigned)}"
        if self.topics:
            return f"{SUBSCRIBE} = {','.join(self.topics)}"
        return f"{SUBSCRIBE_PATTERN} = {self.pattern}"

    def covers(self, name: TopicPartition) -> bool:
        """Whether this partition is to be read, if it exists."""
        if self.partitions:
            return name in self.partitions
        return name.topic in self.topics if self.topics else bool(self.matching([name.topic]))

    def matching(self, names: Iterable[str]) -> list[str]:
        """The topics that match the pattern. Internal topics match only a pattern that begins with `__`."""
        regex = re.compile(self.pattern)
        internal = self.pattern.startswith(INTERNAL_PREFIX)
        return sorted(
            name
            for name in names
            if regex.fullmatch(name) and (internal or not name.startswith(INTERNAL_PREFIX))
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: exactly one of these. LATEST and EARLIEST may replace an offset."""

    edge: int | None = None
    """LATEST or EARLIEST, for all partitions."""
    offsets: Offsets | None = None
    time_ms: int | None = None
    """The time of the first record that is not older, in all partitions; milliseconds since the Unix epoch.
    """
    times_ms: Offsets | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a reader. `stream`: whether it is a stream reader."""

    connection: Connection
    selection: Selection
    stream: bool
    starting: Bound
    ending: Bound
    time_missing_is_latest: bool
    """If every record is older than the starting time: begin at the end, instead of an error."""
    fail_on_data_loss: bool
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int
    min_partitions: int
    max_records: int | None
    include_headers: bool
    isolation: str
    """As of a consumer."""
    poll_timeout_ms: int
    retries: int | None
    """Of a driver's request; None: as `ClusterFacts` says."""
    retry_interval_ms: int
    commit_group: str | None


def source_options(given: Mapping[str, str], *, stream: bool) -> SourceOptions:
    """Parse the options of a batch or stream reader. Raises InvalidOption."""
    read = _Options(given)
    read.check_names(stream)
    least, most = read.whole("minOffsetsPerTrigger", 1), read.whole("maxOffsetsPerTrigger", 1)
    if least is not None and most is not None and least > most:
        raise InvalidOption(f"minOffsetsPerTrigger = {least} is more than maxOffsetsPerTrigger = {most}")
    strategy = read.one_of("startingOffsetsByTimestampStrategy", ("error", "latest"))
    retries, interval_ms = (
        read.whole("fetchOffset.numRetries", 0),
        read.whole("fetchOffset.retryIntervalMs", 0),
    )
    return SourceOptions(
        connection=connection(given),
        selection=_selection(read),
        stream=stream,
        starting=_bound(
            read, "starting", LATEST if stream else EARLIEST, forbidden=None if stream else LATEST
        ),
        ending=_bound(read, "ending", LATEST, forbidden=EARLIEST),
        time_missing_is_latest=strategy == "latest",
        fail_on_data_loss=read.flag("failOnDataLoss", True),
        max_offsets=most,
        min_offsets=least,
        max_trigger_delay_ms=read.duration_ms("maxTriggerDelay", 15 * MINUTES_MS),
        min_partitions=read.whole("minPartitions", 1) or 0,
        max_records=read.whole("maxRecordsPerPartition", 1),
        include_headers=read.flag("includeHeaders", False),
        isolation=read.one_of(ISOLATION, (READ_UNCOMMITTED, READ_COMMITTED)),
        poll_timeout_ms=read.whole("pollTimeoutMs", 1) or 120_000,
        retries=retries,
        retry_interval_ms=1_000 if interval_ms is None else interval_ms,
        commit_group=read.text("commitGroup"),
    )


def includes_headers(given: Mapping[str, str]) -> bool:
    """Whether there is a column for headers. Raises InvalidOption."""
    return _Options(given).flag("includeHeaders", False)


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """Raises InvalidOption for an unknown name, with the closest known one; also for a secret, which would be
    seen in query plans."""
    connecting = [f"{prefix}{name}" for name in security_options() for prefix in ("", "kafka.")]
    names = {name.lower(): name for name in (*known, *SPARKS_OWN, *connecting)}
    for key in given:
        if key.lower() in names:
            continue
        if is_secret(key.lower().replace(".", "_")):
            raise InvalidOption(
                f"an option {key!r} would be seen in query plans: put the secret into a file, which the "
                "driver and every executor can read, and name that"
            )
        nearest = difflib.get_close_matches(key.lower(), names, n=1)
        hint = f"did you mean {names[nearest[0]]}?" if nearest else f"known are {', '.join(sorted(known))}"
        if key.lower().startswith("kafka."):
            hint = (
                "settings of Kafka's clients mean nothing here; of those only kafka.bootstrap.servers, "
                f"{ISOLATION}, kafka.group.id and those of connections are "
                f"known{', ' + hint if nearest else ''}"
            )
        raise InvalidOption(f"there is no option {key!r}: {hint}")


class _Options:
    """Typed access to option texts."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {key.lower(): value.strip() for key, value in given.items()}

    def check_names(self, stream: bool) -> None:
        refuse_unknown(self._given, SOURCE_OPTIONS)
        for name in BATCH_ONLY if stream else STREAM_ONLY:
            if name.lower() in self._given:
                other = "a stream has no end" if stream else "it is for streams (spark.readStream)"
                raise InvalidOption(f"{name} = {self._given[name.lower()]!r}: {other}, leave it out")

    def text(self, name: str) -> str | None:
        """None if the option is absent. Raises InvalidOption if it is empty."""
        return text_of(self._given, name)

    def whole(self, name: str, least: int) -> int | None:
        found = self.text(name)
        if found is None:
            return None
        number = decimal(found)
        if number is None or not least <= number <= INT64_MAX:
            raise InvalidOption(f"{name} = {found!r}: give a whole number from {least}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        found = self.text(name)
        if found is None:
            return default
        if found.lower() not in ("true", "false"):
            raise InvalidOption(f"{name} = {found!r}: give true or false")
        return found.lower() == "true"

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices; the first one is the default."""
        found = self.text(name)
        if found is None:
            return choices[0]
        if found.lower() not in choices:
            raise InvalidOption(f"{name} = {found!r}: give {' or '.join(choices)}")
        return found.lower()

    def duration_ms(self, name: str, default: int) -> int:
        """A number with a unit, as in `15m`."""
        found = self.text(name)
        if found is None:
            return default
        match = re.fullmatch(r"(\d{1,12})\s*([a-z]+)", found.lower())
        if match is None or match[2] not in _UNITS_MS:
            raise InvalidOption(
                f"{name} = {found!r}: give a number with one of {', '.join(_UNITS_MS)}, as in 15m"
            )
        return int(match[1]) * _UNITS_MS[match[2]]


def _selection(read: _Options) -> Selection:
    given = [name for name in _SELECTIONS if read.text(name) is not None]
    if len(given) != 1:
        what = "none of them is given" if not given else f"{' and '.join(given)} are given"
        raise InvalidOption(f"one of {', '.join(_SELECTIONS)} says what to read: {what}")
    text = read.text(given[0]) or ""
    if given[0] == ASSIGN:
        return Selection(partitions=tuple(offsets.parse_partitions(ASSIGN, text)))
    if given[0] == SUBSCRIBE:
        topics = dict.fromkeys(topic.strip() for topic in text.split(","))
        for topic in topics:
            if not is_topic_name(topic):
                raise InvalidOption(f"{SUBSCRIBE} = {text!r}: no topic can have the name {topic!r}")
        return Selection(topics=tuple(sorted(topics)))
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidOption(f"{SUBSCRIBE_PATTERN} = {text!r} is no regular expression: {error}") from None
    return Selection(pattern=text)


def _bound(read: _Options, which: str, default: int, *, forbidden: int | None) -> Bound:
    """In this order: a time for all partitions, times by partition, offsets. `forbidden` is the edge at which
    nothing would be read, or reading would not end."""
    for_all = read.whole(f"{which}Timestamp", 0)
    by_partition, by_offset = f"{which}OffsetsByTimestamp", f"{which}Offsets"
    times, given = read.text(by_partition), read.text(by_offset)
    if for_all is not None:
        return Bound(time_ms=for_all)
    if times is not None:
        return Bound(times_ms=offsets.parse(by_partition, times, least=0))
    edges = {"latest": LATEST, "earliest": EARLIEST}
    words = [word for word, edge in edges.items() if edge != forbidden]
    if given is None:
        return Bound(edge=default)
    if given.lower() in edges:
        edge = edges[given.lower()]
        if edge == forbidden:
            raise InvalidOption(
                f"{by_offset} = {given!r}: nothing would be read; give {words[0]}, or offsets"
            )
        return Bound(edge=edge)
    if not given.startswith("{"):
        raise InvalidOption(f"{by_offset} = {given!r}: give {' or '.join(words)}, or offsets as JSON")
    found = offsets.parse(by_offset, given, least=EARLIEST)
    for name, offset in found.items():
        if offset == forbidden:
            raise InvalidOption(
                f"{by_offset}: {name} has {offset}, which is {'latest' if offset == LATEST else 'earliest'}: "
                "nothing would be read; give an offset"
            )
    return Bound(offsets=found)
