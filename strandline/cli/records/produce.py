"""`strandline produce`: sends each line of standard input as a record."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.shell.command import FAILED, Command, Invocation, pass_invocation, run
from strandline.errors import SettingsError, StrandlineError

if TYPE_CHECKING:
    import asyncio

    from strandline import RecordMetadata
    from strandline.producer.transactions import Transaction

ACKS: Final = {"all": -1, "1": 1, "0": 0}
CHUNK_BYTES: Final = 256 * 1024
ABORT_S: Final = 5.0
"""How long an interrupted command waits for the abort of its transaction."""

acks_option = click.option(
    "--acks", type=click.Choice(list(ACKS)), default="all", show_default=True,
    help="Replicas that must have a record before it counts: all in-sync replicas, the leader, none.",
)  # fmt: skip
compression_option = click.option(
    "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none", show_default=True,
)  # fmt: skip
timeout_option = click.option(
    "--delivery-timeout-ms", type=click.IntRange(min=1), metavar="MS", default=120_000, show_default=True,
    help="Time after which a record without an acknowledgement has failed.",
)  # fmt: skip


@dataclass(slots=True)
class Tally:
    """Counts the records by outcome."""

    acked: int = 0
    failed: int = 0
    first_error: str | None = None
    complete: bool = False
    """The whole input was sent: what there is to commit is being committed."""

    def show(self, invocation: Invocation, topic: str) -> None:
        """Prints the counts, and the reason of the first failure."""
        if invocation.out.json:
            result: dict[str, Any] = {"topic": topic, "acked": self.acked, "failed": self.failed}
            if self.first_error is not None:
                result["error"] = self.first_error
            invocation.out.emit(result, flush=True)
            return
        invocation.out.line(f"acked {self.acked}, failed {self.failed}")
        sys.stdout.flush()
        if self.first_error is not None:
            invocation.out.note(f"error: {self.first_error}")

    def count(self, future: asyncio.Future[RecordMetadata]) -> None:
        """Counts the outcome of one record."""
        error = future.exception()
        if error is None:
            self.acked += 1
        else:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Counts a failed record; keeps the first reason."""
        self.failed += 1
        if self.first_error is None:
            self.first_error = str(error)

    def interrupt_transaction(self) -> None:
        """No record counts, or it is not known whether all do."""
        self.acked, self.failed = 0, self.acked + self.failed
        unknown, none = "whether the transaction is committed is not known", "the transaction is aborted"
        self.first_error = f"interrupted: {unknown if self.complete else none}"


@asynccontextmanager
async def _aborting(transaction: Transaction | None) -> AsyncIterator[None]:
    """Ctrl-C and SIGTERM abort the transaction before they end the command."""
    if transaction is None:
        yield
        return
    import asyncio
    import signal

    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        yield
    except asyncio.CancelledError:
        with suppress(TimeoutError, StrandlineError):
            async with asyncio.timeout(ABORT_S):
                await transaction.abort()
        raise


async def stdin_lines() -> AsyncIterator[bytes]:
    """The lines of standard input without their ends, as soon as they arrive.

    It uses no thread, since Ctrl-C could not interrupt a blocked one. A terminal, pipe or socket wakes the
    event loop; a file never blocks, so it is simply read.
    """
    import asyncio

    descriptor = 0
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(descriptor, readable.set)
        polled = True
    except OSError:
        polled = False
    rest = b""
    try:
        while True:
            if polled:
                await readable.wait()
                readable.clear()
            else:
                await asyncio.sleep(0)  # lets the records read so far go out
            chunk = os.read(descriptor, CHUNK_BYTES)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line
        if rest:
            yield rest
    finally:
        if polled:
            loop.remove_reader(descriptor)


@click.command(cls=Command)
@click.argument("topic")
@click.option("--key-separator", metavar="S", help="The key of a line is its text before the first S.")
@click.option("--partition", type=click.IntRange(min=0), help="Send everything to this partition.")
@acks_option
@compression_option
@timeout_option
@click.option(
    "--transactional-id", metavar="ID",
    help="Send the input in one transaction of the producer ID: the cluster has all of it, or nothing.",
)  # fmt: skip
@pass_invocation
def produce(
    invocation: Invocation,
    topic: str,
    key_separator: str | None,
    partition: int | None,
    acks: str,
    compression: str,
    delivery_timeout_ms: int,
    transactional_id: str | None,
) -> None:
    """Send each line of standard input as a record to TOPIC.

    Ends with the number of acknowledged and failed records; exits with 1 if any failed. With
    --transactional-id the transaction is committed at the end of the input. It is aborted if a record failed,
    on Ctrl-C and SIGTERM, and after a minute.
    """
    if sys.stdin is None:
        raise SettingsError("standard input is closed: give it the lines to produce")
    from strandline import Admin, Producer

    separator = key_separator.encode() if key_separator else None
    tally = Tally()

    async def main() -> None:
        bootstrap, connection = invocation.bootstrap_servers(), invocation.client_settings()
        async with Admin(bootstrap, **connection) as admin:
            await admin.metadata([topic])  # reports an unknown topic before it waits for input
        async with (
            Producer(
                bootstrap,
                **connection,
                acks=ACKS[acks],
                compression=compression,
                delivery_timeout_ms=delivery_timeout_ms,
                transactional_id=transactional_id,
            ) as producer,
            nullcontext() if transactional_id is None else producer.transaction() as transaction,
            _aborting(transaction),
        ):
            with invocation.out.progress(f"producing to {topic}") as advance:
                async for line in stdin_lines():
                    key, value = _split(line, separator)
                    try:
                        future = await producer.send(topic, value, key, partition=partition)
                    except StrandlineError as error:
                        if transactional_id is not None:
                            raise  # all of the input, or nothing
                        tally.fail(error)
                    else:
                        future.add_done_callback(tally.count)
                    advance(1)
                await producer.flush()
            tally.complete = True

    try:
        run(main)
    except KeyboardInterrupt:
        if transactional_id is not None:
            tally.interrupt_transaction()
        tally.show(invocation, topic)  # without a transaction, acknowledged records stay acknowledged
        raise
    tally.show(invocation, topic)
    if tally.failed:
        click.get_current_context().exit(FAILED)


def _split(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    """Key and value of a line; a line without the separator has no key."""
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    return (key, value) if found else (None, line)
