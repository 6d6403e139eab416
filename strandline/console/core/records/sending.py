"""What sending one record would do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.console.core.changes import Effect, Table
from strandline.console.core.records.shown import As, shown
from strandline.console.core.words import bytes_, counted
from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.vocabulary.metadata import TopicMetadata

TEXT_CHARS_MAX: Final = 2 * RECORDS_BYTES_MAX
"""The longest text of a key or a value: two digits a byte."""
HEADERS_MAX: Final = 100
SHOWN_CHARS: Final = 2_000


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to send. `partition` None: the key decides, and without a key the producer.

    Raises InvalidRequest for more bytes than a producer puts into one batch.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    def __post_init__(self) -> None:
        if self.size > RECORDS_BYTES_MAX:
            raise InvalidRequest(f"the record has {self.size} bytes: give {RECORDS_BYTES_MAX} at most")

    @property
    def size(self) -> int:
        return sum(len(each or b"") for each in (self.key, self.value, *(value for _, value in self.headers)))


def bytes_of(name: str, text: str, form: str) -> bytes | None:
    """Reads a key or a value: as `text`, as `hex`, or `null`. Raises InvalidRequest."""
    match form:
        case "null":
            if text:
                raise InvalidRequest(f"{name} is null, but {len(text)} characters are given: leave them out")
            return None
        case "hex":
            try:
                return bytes.fromhex(text)
            except ValueError:
                raise InvalidRequest(f"{name} = {text[:50]!r}: give pairs of hexadecimal digits") from None
        case _:
            return text.encode()


def headers_of(text: str) -> tuple[tuple[str, bytes], ...]:
    """Reads headers, one `name=value` a line. Raises InvalidRequest."""
    lines = [line for line in re.split(r"\r?\n", text) if line.strip()]
    if len(lines) > HEADERS_MAX:
        raise InvalidRequest(f"headers has {len(lines)} lines: give {HEADERS_MAX} at most")
    headers = []
    for line in lines:
        name, equals, value = line.partition("=")
        if not (name and equals):
            raise InvalidRequest(f"headers line {line[:50]!r}: give name=value")
        headers.append((name, value.encode()))
    return tuple(headers)


def sending(record: NewRecord, topic: TopicMetadata) -> Effect:
    """The effect of sending it. Raises UnknownTopicOrPartition, InvalidRequest."""
    count = len(topic.partitions)
    if record.partition is not None and record.partition >= count:
        raise UnknownTopicOrPartition(
            f"{topic.name} has {counted(count, 'partition')}, there is no {record.partition}"
        )
    compacts = "compact" in topic.config.get("cleanup.policy", "")
    if compacts and record.key is None:
        raise InvalidRequest(f"topic {topic.name} is compacted: a record needs a key")
    where = f"partition {record.partition}"
    if record.partition is None:
        where = (
            "the partition of its key" if record.key is not None else "a partition that the producer chooses"
        )
    warnings = []
    if record.value is None:
        warnings.append(
            "It has no value: compaction then removes this key, and later this record too."
            if compacts
            else "It has no value: some consumers do not expect that."
        )
    parts = [("key", record.key), ("value", record.value), *record.headers]
    rows = []
    for number, (name, data) in enumerate(parts):
        part = shown(data, As.AUTO, SHOWN_CHARS)
        cut = "…" if part.cut else ""
        about = name if number < 2 else f"header {name}"
        rows.append((about, part.kind, "–" if data is None else bytes_(part.size), f"{part.text}{cut}"))
    return Effect(
        f"Send a record to topic {topic.name}",
        (
            f"One record of {bytes_(record.size)} is appended to {where} of topic {topic.name}.",
            "It is acknowledged once all in-sync replicas have it. It cannot be taken back.",
        ),
        {"topic_id": topic.topic_id, "partitions": count, "compacts": compacts},
        (Table.of("The record", ("part", "shown as", "size", "content"), rows),),
        tuple(warnings),
    )
