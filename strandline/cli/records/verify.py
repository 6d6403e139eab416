"""`strandline verify`: clients for fault tests, with one JSON line for each event of a record.

Every line has `event`, `seq` (a number that rises by one a line), `at` (wall time, ms since 1970) and
`monotonic_ms` (comparable between the processes of one machine). The events:

* `sent`: `record` (a number from 0), `topic`, `key`, `value`
* `acked`: `record`, `topic`, `partition`, `offset` (-1 if the broker no longer knows it)
* `failed`: `record`, `topic`, `code` (Kafka's number), `error`, `outcome` (retriable, fatal or
  unknown outcome), `message`
* `assigned`: `topic`, `partitions`: the partitions that the consumer reads; for a member, the added ones,
  with `member`, `generation` and `at_ms` (wall time of the notification)
* `revoked`, `lost`: the same, for partitions that it gave up in time, and for those that were taken from it
* `received`: `topic`, `partition`, `offset`, `timestamp`, `key`, `value`
* `handled`, `commit_acked`, with --by-hand: `topic`, `partition`, `offset`: the member has finished with a
  record; its commit of all offsets below `offset` was acknowledged
* `watermark`, with --watermarks: `topic`, `partition`, `offset`: the high watermark that it received, and
  `proven`: its lower bound, since all records below it had been received before the request
* `error`: `topic`, and the fields of `failed`: the client cannot continue, and exits with 1
* `summary`: the last line, with the counts
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.records.consume import Limits, assign_from, isolation_option, read_until
from strandline.cli.records.produce import ACKS, acks_option, compression_option, timeout_option
from strandline.cli.records.start import Start, from_option
from strandline.cli.records.subscription import Membership, group_options, report_changes, subscribe
from strandline.cli.shell.command import FAILED, Group, Invocation, pass_invocation, run
from strandline.cli.shell.numbers import FiniteRange
from strandline.cli.shell.output import Output
from strandline.errors import ErrorCode, Outcome, StrandlineError
from strandline.report.text.records import shown

if TYPE_CHECKING:
    import asyncio

    from strandline import Consumer, ConsumerRecord
    from strandline.ids import TopicPartition
    from strandline.vocabulary.groups import GroupMetadata

WATERMARK_S_MAX: Final = 1.0
"""Time that reading waits for high watermarks: no broker reports them while there is no leader."""


class History:
    """Writes each line at once, so that a killed client has written all events."""

    def __init__(self) -> None:
        from strandline.adapters.system.clock import SystemClock

        self._clock = SystemClock()
        self._out = Output(json=True)
        self._sequence = itertools.count()

    @contextmanager
    def summarized(self, topic: str, counts: Mapping[str, int]) -> Iterator[None]:
        """Writes the summary as the last line at the end of the block, after the error if there was one."""
        try:
            yield
        except StrandlineError as error:
            self.note("error", topic=topic, **failure(error))
            raise
        finally:
            self.note("summary", topic=topic, **counts)

    def owned(self, event: str, topic: str, partitions: Sequence[TopicPartition], who: GroupMetadata) -> None:
        """Writes that a member's partitions were added or removed."""
        self.note(
            event,
            topic=topic,
            partitions=[each.partition for each in partitions],
            member=who.member_id,
            generation=who.generation,
            at_ms=self._clock.wall_ms(),
        )

    def note(self, event: str, **facts: Any) -> None:
        """Writes one line."""
        line = {
            "event": event,
            "seq": next(self._sequence),
            "at": self._clock.wall_ms(),
            "monotonic_ms": round(self._clock.monotonic() * 1000, 3),
            **facts,
        }
        self._out.emit(line, flush=True)


class ProducerLines:
    """Writes a line for each step of a producer's records, and counts them."""

    def __init__(self, lines: History, topic: str, counts: dict[str, int]) -> None:
        self._lines = lines
        self._topic = topic
        self._counts = counts

    def sent(self, record: int, key: bytes | None, value: bytes, partition: int | None) -> None:
        self._note("sent", record, **shown("key", key), **shown("value", value))

    def acked(self, record: int, partition: int, offset: int) -> None:
        self._note("acked", record, partition=partition, offset=offset)

    def failed(self, record: int, error: BaseException) -> None:
        self._note("failed", record, **failure(error))

    def _note(self, event: str, record: int, **facts: Any) -> None:
        self._counts[event] += 1
        self._lines.note(event, record=record, topic=self._topic, **facts)


def failure(error: BaseException) -> dict[str, Any]:
    """The facts of an error. One without a code of its own counts as an unknown server error."""
    code, outcome = ErrorCode.UNKNOWN_SERVER_ERROR, Outcome.UNKNOWN
    if isinstance(error, StrandlineError):
        code, outcome = error.code, error.outcome
    return {
        "code": int(code),
        "error": type(error).__name__,
        "outcome": outcome.value,
        "message": str(error),
    }


def ended_by_sigterm() -> asyncio.Event:
    """An event that SIGTERM sets: the client then ends cleanly, with its summary."""
    import asyncio
    import signal

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    return ended


@click.group(cls=Group)
def verify() -> None:
    """Clients for fault tests: JSON lines of all records sent, acked, failed or received."""


@verify.command("produce")
@click.argument("topic")
@click.option("--rate", type=FiniteRange(min=0, min_open=True), metavar="N", help="Records a second.")
@click.option("--max-records", type=click.IntRange(min=1), help="End after this many records.")
@click.option("--partition", type=click.IntRange(min=0), help="Send everything to this partition.")
@click.option("--keys", type=click.IntRange(min=1), help="Give the records this many keys in turn.")
@click.option("--value-prefix", default="", help="Each value is this prefix and the record's number.")
@acks_option
@compression_option
@timeout_option
@pass_invocation
def verify_produce(
    invocation: Invocation,
    topic: str,
    rate: float | None,
    max_records: int | None,
    partition: int | None,
    keys: int | None,
    value_prefix: str,
    acks: str,
    compression: str,
    delivery_timeout_ms: int,
) -> None:
    """Send numbered records to TOPIC until SIGTERM or --max-records; exit with 1 if any failed."""
    from strandline import Producer
    from strandline.cli.load.feed import Feeder
    from strandline.cli.load.pace import Pace

    lines = History()
    counts = {"sent": 0, "acked": 0, "failed": 0}

    async def main() -> None:
        stop = ended_by_sigterm()
        async with Producer(
            invocation.bootstrap_servers(),
            **invocation.client_settings(),
            acks=ACKS[acks],
            compression=compression,
            delivery_timeout_ms=delivery_timeout_ms,
        ) as producer:
            feeder = Feeder(producer, topic, ProducerLines(lines, topic, counts))
            pace = Pace(rate)
            for record in itertools.islice(itertools.count(), max_records):
                if await pace.stopped(stop):
                    break
                key = None if keys is None else b"%d" % (record % keys)
                await feeder.send(key, f"{value_prefix}{record}".encode(), partition=partition)
            await producer.flush()

    with lines.summarized(topic, counts):
        run(main)
    if counts["failed"]:
        click.get_current_context().exit(FAILED)


@verify.command("consume")
@click.argument("topic")
@from_option
@click.option("--partition", type=click.IntRange(min=0), help="Read this partition only.")
@click.option("--max-records", type=click.IntRange(min=1), help="End after this many records.")
@click.option(
    "--idle-exit", type=FiniteRange(min=0), metavar="S", help="End after S seconds without a record."
)
@click.option(
    "--watermarks", type=FiniteRange(min=0), metavar="S",
    help="Read the high watermarks every S seconds, with a line for each.",
)  # fmt: skip
@click.option("--by-hand", is_flag=True, help="Read one record at a time, and commit by hand; with --group.")
@click.option(
    "--block", type=FiniteRange(min=0, min_open=True), metavar="S",
    help="Block the event loop for S seconds from time to time; with --by-hand.",
)  # fmt: skip
@click.option(
    "--max-poll-interval-ms", type=click.IntRange(min=1), metavar="MS",
    help="Time that the work on one record may take; with --by-hand.",
)  # fmt: skip
@isolation_option
@group_options
@pass_invocation
def verify_consume(
    invocation: Invocation,
    topic: str,
    start: Start,
    partition: int | None,
    max_records: int | None,
    idle_exit: float | None,
    watermarks: float | None,
    by_hand: bool,
    block: float | None,
    max_poll_interval_ms: int | None,
    isolation: str,
    membership: Membership,
) -> None:
    """Read TOPIC until SIGTERM or a limit, with a line for every record received.

    With --group it reads its share, with a line for each change of its partitions. With --by-hand it works on
    one record at a time and commits some of them, with a line for each record and commit.
    """
    from strandline import Consumer, TopicPartition
    from strandline.cli.records.by_hand import ByHand

    settings = membership.settings(start, partition)
    _by_hand(settings, by_hand, block, max_poll_interval_ms)
    history = History()
    counts = {"received": 0}
    proven: dict[TopicPartition, int] = {}

    def received(records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            counts["received"] += 1
            name = TopicPartition(record.topic, record.partition)
            proven[name] = max(proven.get(name, 0), record.offset + 1)
            history.note(
                "received",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                timestamp=record.timestamp,
                **shown("key", record.key),
                **shown("value", record.value),
            )

    async def main() -> None:
        limits = Limits(max_records, idle_exit, ended_by_sigterm())

        def on_change(event: str, partitions: Sequence[TopicPartition], who: GroupMetadata) -> None:
            limits.note()
            history.owned(event, topic, partitions, who)

        given = settings or {"offset_reset": "none"}
        reading = {"isolation_level": f"read_{isolation}", **invocation.client_settings()}
        async with Consumer(invocation.bootstrap_servers(), **given, **reading) as consumer:
            if settings is None:
                partitions = await assign_from(consumer, [topic], partition, start)
                history.note("assigned", topic=topic, partitions=[each.partition for each in partitions])
            else:
                limits.last_record_at = None  # waiting for the group does not count as idle
                await subscribe(consumer, [topic], report_changes(consumer, on_change))
            between = None
            if watermarks is not None:
                between = Watermarks(consumer, proven, history, watermarks).ask
            read = (
                ByHand(consumer, history.note, block).read_until if by_hand else partial(read_until, consumer)
            )
            await read(received, limits, between)

    with history.summarized(topic, counts):
        run(main)


def _by_hand(
    settings: dict[str, Any] | None, by_hand: bool, block: float | None, max_poll_interval_ms: int | None
) -> None:
    """Sets the options of --by-hand for a member. Raises click.UsageError for options that exclude each
    other."""
    if not by_hand:
        if block is not None or max_poll_interval_ms is not None:
            raise click.UsageError("--block and --max-poll-interval-ms need --by-hand")
        return
    if settings is None:
        raise click.UsageError("--by-hand needs --group")
    settings["enable_auto_commit"] = False
    if max_poll_interval_ms is not None:
        settings["max_poll_interval_ms"] = max_poll_interval_ms


class Watermarks:
    """Reads the high watermarks of a consumer's partitions at an interval. `proven` is, by partition, one
    more than the highest offset received."""

    def __init__(
        self, consumer: Consumer, proven: Mapping[TopicPartition, int], history: History, every_s: float
    ) -> None:
        from strandline.adapters.system.clock import SystemClock

        self._consumer = consumer
        self._proven = proven
        self._history = history
        self._every_s = every_s
        self._monotonic = SystemClock().monotonic
        self._due = self._monotonic()

    async def ask(self) -> None:
        """Reads them if it is time. A failed read is tried again at the next call."""
        import asyncio

        if self._monotonic() < self._due:
            return
        self._due = self._monotonic() + self._every_s
        try:
            async with asyncio.timeout(WATERMARK_S_MAX):
                ends = await self._consumer.end_offsets(self._consumer.assignment())
        except TimeoutError:
            return
        except StrandlineError as error:
            if not error.retriable:
                raise
            return
        for name, offset in sorted(ends.items()):
            self._history.note(
                "watermark",
                topic=name.topic,
                partition=name.partition,
                offset=offset,
                proven=self._proven.get(name, 0),
            )
