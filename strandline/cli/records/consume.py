"""`strandline consume`: prints the records of topics."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.records.start import Start, from_option
from strandline.cli.records.subscription import Membership, Stop, group_options, report_changes, subscribe
from strandline.cli.shell.command import Command, Invocation, pass_invocation, run
from strandline.cli.shell.numbers import FiniteRange
from strandline.report.text.records import record_json

if TYPE_CHECKING:
    import asyncio

    from strandline import Consumer, ConsumerRecord
    from strandline.ids import TopicPartition
    from strandline.vocabulary.groups import GroupMetadata

POLL_MS: Final = 250
POLL_RECORDS_MAX: Final = 500


async def assign_from(
    consumer: Consumer, topics: Sequence[str], partition: int | None, start: Start
) -> list[TopicPartition]:
    """Assigns the partitions of `topics` (or the given one of each), and seeks to the start of reading.

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
    """The offset in each partition where reading begins."""
    match start:
        case "earliest":
            return await consumer.beginning_offsets(partitions)
        case "latest":
            return await consumer.end_offsets(partitions)
        case int():
            return dict.fromkeys(partitions, start)
        case datetime():
            # Where no record is recent enough, the next one will be. The ends are read first, so that no
            # record
            # is missed between the two reads.
            offsets = await consumer.end_offsets(partitions)
            found = await consumer.offsets_for_times(dict.fromkeys(partitions, int(start.timestamp() * 1000)))
            return offsets | {each: at.offset for each, at in found.items() if at is not None}


class Limits:
    """Limits of reading: a number of records, a time without records, or `stop` being set."""

    def __init__(
        self, max_records: int | None, idle_exit_s: float | None, stop: asyncio.Event | None = None
    ) -> None:
        from strandline.adapters.system.clock import SystemClock

        self._monotonic = SystemClock().monotonic
        self._idle_exit_s = idle_exit_s
        self._stop = stop
        self.left = max_records
        """Records still wanted; None without a limit."""
        self.last_record_at: float | None = self._monotonic()
        """The time of the last record; None before the limit applies."""

    def note(self, records: int = 0) -> None:
        """Notes that records came."""
        self.last_record_at = self._monotonic()
        if self.left is not None:
            self.left -= records

    @property
    def next(self) -> int:
        """The records to take at once."""
        return POLL_RECORDS_MAX if self.left is None else min(self.left, POLL_RECORDS_MAX)

    @property
    def reached(self) -> bool:
        if self.left == 0 or (self._stop is not None and self._stop.is_set()):
            return True
        if self._idle_exit_s is None or self.last_record_at is None:
            return False
        return self._monotonic() - self.last_record_at >= self._idle_exit_s


async def read_until(
    consumer: Consumer,
    write: Callable[[Sequence[ConsumerRecord]], None],
    limits: Limits,
    between: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Passes every record to `write`, until a limit is reached. Awaits `between` before each read."""
    while not limits.reached:
        if between is not None:
            await between()
        batches = await consumer.getmany(timeout_ms=POLL_MS, max_records=limits.next)
        for records in batches.values():
            write(records)
            limits.note(len(records))


isolation_option = click.option(
    "--isolation", type=click.Choice(["committed", "uncommitted"]), default="uncommitted", show_default=True,
    help="Leave out records of transactions that are open or aborted, or read all.",
)  # fmt: skip


@click.command(cls=Command)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@from_option
@click.option("--partition", type=click.IntRange(min=0), help="Read this partition only.")
@click.option("--max-records", type=click.IntRange(min=1), help="End after this many records.")
@click.option(
    "--idle-exit", type=FiniteRange(min=0), metavar="S", help="End after S seconds without a record."
)
@click.option("--key-separator", metavar="S", help="For text: print the key and S before each value.")
@click.option(
    "--on-undecodable", type=click.Choice(["raise", "skip"]), default="raise", show_default=True,
    help="How to treat a batch that cannot be decoded: end with its offsets, or skip and log it.",
)  # fmt: skip
@isolation_option
@group_options
@pass_invocation
def consume(
    invocation: Invocation,
    topics: tuple[str, ...],
    start: Start,
    partition: int | None,
    max_records: int | None,
    idle_exit: float | None,
    key_separator: str | None,
    on_undecodable: str,
    isolation: str,
    membership: Membership,
) -> None:
    """Print the records of TOPIC…, including new ones, until Ctrl-C or a limit.

    As text, a line is a value, byte for byte. As JSON, bytes that are not UTF-8 are base64, and a field such
    as value_encoding says so.

    With --group it prints its share, starts at the group's committed offsets (or at --from if there are
    none), commits what it printed, and reports on standard error the partitions that it gains and loses.
    SIGTERM and Ctrl-C let it leave the group cleanly.
    """
    settings = membership.settings(start, partition)
    separator = key_separator.encode() if key_separator else None
    reading = {
        "on_undecodable": on_undecodable,
        "isolation_level": f"read_{isolation}",
        **invocation.client_settings(),
    }

    def write(records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            if invocation.out.json:
                invocation.out.emit(record_json(record))
            else:
                sys.stdout.buffer.writelines(_text_line(record, separator))
        sys.stdout.flush()

    async def alone() -> bool:
        async with Consumer(invocation.bootstrap_servers(), offset_reset="none", **reading) as consumer:
            await assign_from(consumer, topics, partition, start)
            await read_until(consumer, write, Limits(max_records, idle_exit))
        return False

    async def as_member(settings: Mapping[str, Any]) -> bool:
        stop = Stop()
        limits = Limits(max_records, idle_exit, stop.event)
        limits.last_record_at = None  # waiting for the group does not count as idle

        def on_change(event: str, partitions: Sequence[TopicPartition], who: GroupMetadata) -> None:
            limits.note()
            named = ", ".join(map(str, partitions)) or "nothing"
            invocation.out.note(f"{event} {named} (generation {who.generation})")

        async with Consumer(invocation.bootstrap_servers(), **settings, **reading) as consumer:
            await subscribe(consumer, topics, report_changes(consumer, on_change))
            await read_until(consumer, write, limits)
        return stop.interrupted

    from strandline import Consumer

    if run(alone if settings is None else partial(as_member, settings)):
        raise KeyboardInterrupt


def _text_line(record: ConsumerRecord, separator: bytes | None) -> tuple[bytes, ...]:
    """The parts of a line: a value may be large, and is not copied."""
    value = record.value or b""
    return (value, b"\n") if separator is None else (record.key or b"", separator, value, b"\n")
