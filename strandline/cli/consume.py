"""`strandline consume`: print the records of topics."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from strandline.cli.command import Command, Invocation, pass_invocation, run
from strandline.cli.output import json_line, shown

if TYPE_CHECKING:
    from strandline import Consumer, ConsumerRecord
    from strandline.ids import TopicPartition

POLL_MS: Final = 250
OFFSET_MAX: Final = 2**63 - 1

Start = Literal["earliest", "latest"] | int | datetime


class StartType(click.ParamType[Start]):
    """Where to begin: `earliest`, `latest`, an offset, or a time in ISO 8601 (local if it names no zone)."""

    name = "start"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """Read one value; a wrong one is wrong usage."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # click converts a converted default again
        if value == "earliest":
            return "earliest"
        if value == "latest":
            return "latest"
        try:
            if value.isdecimal() and int(value) <= OFFSET_MAX:
                return int(value)
            time = datetime.fromisoformat(value)
            if time.timestamp() >= 0:  # before 1970 lie the numbers that mean earliest and latest
                return time
        except (ValueError, OverflowError):  # also of a time that the clock of this zone cannot show
            pass
        self.fail(
            f"{value!r} is neither earliest, latest, an offset below 2^63 nor a time such as "
            "2026-11-20T14:30 from 1970 on",
            param,
            ctx,
        )


from_option = click.option(
    "--from", "start", type=StartType(), default="latest", show_default=True,
    metavar="earliest|latest|OFFSET|TIME", help="Where to begin; TIME in ISO 8601.",
)  # fmt: skip


async def assign_from(
    consumer: Consumer, topics: Sequence[str], partition: int | None, start: Start
) -> list[TopicPartition]:
    """Assign the partitions of `topics` (or the one given of each) and go to where reading begins.

    Raises UnknownTopicOrPartition, OffsetOutOfRange.
    """
    from strandline import TopicPartition

    partitions = [
        TopicPartition(topic, number)
        for topic in topics
        for number in ([partition] if partition is not None else await consumer.partitions_for(topic))
    ]
    offsets = await _offsets(consumer, partitions, start)
    consumer.assign(partitions)
    for each, offset in offsets.items():
        consumer.seek(each, offset)
    return partitions


async def _offsets(
    consumer: Consumer, partitions: Sequence[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """Where in each partition reading begins."""
    match start:
        case "earliest":
            return await consumer.beginning_offsets(partitions)
        case "latest":
            return await consumer.end_offsets(partitions)
        case int():
            return dict.fromkeys(partitions, start)
        case datetime():
            # Where no record is that young, the next one will be: the ends are asked for first, so
            # that none slips through between the two.
            offsets = await consumer.end_offsets(partitions)
            found = await consumer.offsets_for_times(dict.fromkeys(partitions, int(start.timestamp() * 1000)))
            return offsets | {each: at.offset for each, at in found.items() if at is not None}


def record_json(record: ConsumerRecord) -> dict[str, Any]:
    """A record as JSON; keys and values that are not UTF-8 are base64 and marked (`shown`)."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **shown("key", record.key),
        **shown("value", record.value),
        "headers": [{"key": name, **shown("value", value)} for name, value in record.headers],
    }


@click.command(cls=Command)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@from_option
@click.option("--partition", type=click.IntRange(min=0), help="Read this partition only.")
@click.option("--max-records", type=click.IntRange(min=1), help="End after so many records.")
@click.option(
    "--idle-exit", type=click.FloatRange(min=0), metavar="S", help="End after S seconds without any."
)
@click.option("--key-separator", metavar="S", help="As text: print the key and S before each value.")
@pass_invocation
def consume(
    invocation: Invocation,
    topics: tuple[str, ...],
    start: Start,
    partition: int | None,
    max_records: int | None,
    idle_exit: float | None,
    key_separator: str | None,
) -> None:
    """Print the records of TOPIC…, those to come too, until Ctrl-C or a limit.

    As text a line is a value, byte for byte. As JSON, bytes that are not UTF-8 are base64, and a
    field such as value_encoding says so.
    """
    from strandline import Consumer
    from strandline.adapters.clock import SystemClock

    clock = SystemClock()
    separator = key_separator.encode() if key_separator else None

    def write(records: Sequence[ConsumerRecord]) -> None:
        if invocation.out.json:
            sys.stdout.write("".join(json_line(record_json(record)) for record in records))
            sys.stdout.flush()
        else:
            sys.stdout.buffer.write(b"".join(_text_line(record, separator) for record in records))
            sys.stdout.buffer.flush()

    async def main() -> None:
        left = max_records
        async with Consumer(invocation.bootstrap_servers(), offset_reset="none") as consumer:
            await assign_from(consumer, topics, partition, start)
            heard = clock.monotonic()
            while left is None or left > 0:
                batches = await consumer.getmany(timeout_ms=POLL_MS, max_records=left)
                now = clock.monotonic()
                for records in batches.values():
                    write(records)
                    left = left if left is None else left - len(records)
                    heard = now
                if idle_exit is not None and now - heard >= idle_exit:
                    break

    run(main)


def _text_line(record: ConsumerRecord, separator: bytes | None) -> bytes:
    value = record.value or b""
    return value + b"\n" if separator is None else (record.key or b"") + separator + value + b"\n"
