"""The options and the columns of the sink, checked before anything is written.

Spark passes options as a dictionary of texts with keys in any case. Every error names the option or the
column, the value, and what to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strandline.config.limits import INTERVAL_MS_MAX, KIB, RECORDS_BYTES_MAX
from strandline.ids import INTERNAL_PREFIX
from strandline.pipeline.core.connection import BOOTSTRAP, KAFKA_BOOTSTRAP, Connection, connection
from strandline.pipeline.core.numbers import decimal
from strandline.pipeline.core.options import refuse_unknown
from strandline.pipeline.errors import InvalidOption, InvalidSchema
from strandline.records import Codec
from strandline.vocabulary.topics import is_topic_name

TOPIC: Final = "topic"
COMPRESSION: Final = "compression"
BATCH_BYTES: Final = "batchBytes"
DELIVERY_TIMEOUT_MS: Final = "deliveryTimeoutMs"
REQUEST_TIMEOUT_MS: Final = "requestTimeoutMs"

SINK_OPTIONS: Final = (
    BOOTSTRAP,
    KAFKA_BOOTSTRAP,
    TOPIC,
    COMPRESSION,
    BATCH_BYTES,
    DELIVERY_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
)
SPARKS_OWN: Final = ("checkpointLocation", "queryName")
"""Options that Spark passes for a streaming query."""

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
_BYTES: Final = ("binary", "string")
COLUMN_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS_TYPE,),
    "timestamp": ("timestamp",),
}
"""The sink's columns, with Spark's names of their types."""
PASSED_OVER: Final = ("offset", "timestamptype")
"""Columns of the source that describe a record's position; they are ignored, so that what was read can be
written."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """How to write. `topic` None: each row names its topic."""

    connection: Connection
    topic: str | None
    codec: Codec
    batch_bytes: int
    delivery_timeout_ms: int
    request_timeout_ms: int


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a writer. Raises InvalidOption."""
    refuse_unknown(given, (*SINK_OPTIONS, *SPARKS_OWN))
    texts = {key.lower(): value.strip() for key, value in given.items()}
    topic = texts.get(TOPIC)
    if topic is not None:
        check_topic(topic, f"{TOPIC} = {topic!r}")
    compression = texts.get(COMPRESSION, "none").lower()
    names = [codec.name.lower() for codec in Codec]
    if compression not in names:
        raise InvalidOption(f"{COMPRESSION} = {compression!r}: give one of {', '.join(names)}")
    return SinkOptions(
        connection=connection(given),
        topic=topic,
        codec=Codec.named(compression),
        batch_bytes=_whole(texts, BATCH_BYTES, RECORDS_BYTES_MAX, KIB, RECORDS_BYTES_MAX),
        delivery_timeout_ms=_whole(texts, DELIVERY_TIMEOUT_MS, 120_000, 1, INTERVAL_MS_MAX),
        request_timeout_ms=_whole(texts, REQUEST_TIMEOUT_MS, 10_000, 1, INTERVAL_MS_MAX),
    )


def check_topic(name: str, what: str) -> None:
    """Raises InvalidOption for an illegal name, or that of an internal topic."""
    if name.startswith(INTERNAL_PREFIX):
        raise InvalidOption(f"{what}: topics whose names begin with {INTERNAL_PREFIX} are the system's own")
    if not is_topic_name(name):
        raise InvalidOption(f"{what}: no topic can have this name")


def check_columns(columns: Sequence[tuple[str, str]], options: SinkOptions) -> None:
    """Check a DataFrame's columns, pairs of (name, Spark's name of the type). Raises InvalidSchema,
    InvalidOption."""
    listed = ", ".join(f"{name} {kind}" for name, kind in columns) or "none"
    names = [name.lower() for name, _ in columns]
    for number, (name, kind) in enumerate(columns):
        if names[number] in PASSED_OVER:
            continue
        known = COLUMN_TYPES.get(names[number])
        if known is None:
            raise InvalidSchema(
                f"the sink knows no column {name!r}: select {', '.join(COLUMN_TYPES)} or some of them; "
                f"the columns are {listed}"
            )
        if kind not in known:
            raise InvalidSchema(f"column {name} is {kind}: cast it to {' or '.join(known)}")
        if names[number] in names[:number]:
            raise InvalidSchema(f"there are two columns {name!r}; the columns are {listed}")
    if "value" not in names:
        raise InvalidSchema(f"there is no column value: give one, binary or string; the columns are {listed}")
    if options.topic is None and "topic" not in names:
        raise InvalidOption(f"no topic: give the option {TOPIC}, or a column topic; the columns are {listed}")


def _whole(texts: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    given = texts.get(name.lower())
    if given is None:
        return default
    number = decimal(given.strip())
    if number is None or not least <= number <= most:
        raise InvalidOption(f"{name} = {given!r}: give a whole number from {least} to {most}")
    return number
