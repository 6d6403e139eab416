"""`strandline transaction`: lists, describes and aborts transactions, and finds those that hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from strandline.cli.shell.clock import now
from strandline.cli.shell.command import Group, Invocation, pass_invocation, run
from strandline.cli.shell.numbers import FiniteRange
from strandline.cli.transaction.view import (
    abort_command,
    described_json,
    hanging_json,
    listed_json,
    shortened,
    since,
)
from strandline.errors import StrandlineError
from strandline.ids import INTERNAL_PREFIX, OFFSETS_TOPIC, TopicPartition
from strandline.report.text.durations import age
from strandline.report.text.partition_names import compact
from strandline.vocabulary.transactions import TransactionState

if TYPE_CHECKING:
    from strandline.client.admin.transactions import HangingTransactions, TransactionDescription
    from strandline.vocabulary.transactions import ListedTransaction

HANGING_S: Final = 900.0
"""As old as no transaction gets that a coordinator ends: the default of `transaction_max_timeout_ms`."""


@click.group(cls=Group)
def transaction() -> None:
    """List, describe and abort transactions, and find those that hang."""


@transaction.command("list")
@click.option(
    "--state", "states", type=click.Choice([state.value for state in TransactionState]), multiple=True,
    help="Only ids in this state; may be repeated.",
)  # fmt: skip
@click.option(
    "--older-than", "age_s", type=FiniteRange(min=0), metavar="S",
    help="Only transactions that are open for more than S seconds.",
)  # fmt: skip
@pass_invocation
def list_(invocation: Invocation, states: tuple[str, ...], age_s: float | None) -> None:
    """List the transactional ids of all brokers, with their producers and states; the oldest transaction
    first."""
    from strandline import Admin

    async def main() -> list[ListedTransaction]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            return await admin.list_transactions()

    listed, now_ms = run(main), _now_ms()
    found = [
        each
        for each in listed
        if (not states or each.state.value in states)
        and (age_s is None or (since(each.started_ms, now_ms) or 0) > age_s * 1000)
    ]
    found.sort(key=lambda each: (each.started_ms < 0, each.started_ms))
    if invocation.out.json:
        for each in found:
            invocation.out.emit(listed_json(each, now_ms))
    elif found:
        invocation.out.table(
            ("transactional id", "producer", "state", "open for"),
            [
                (
                    shortened(each.transactional_id),
                    each.producer_id,
                    each.state.value,
                    age(since(each.started_ms, now_ms)),
                )
                for each in found
            ],
        )


@transaction.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@pass_invocation
def describe(invocation: Invocation, ids: tuple[str, ...]) -> None:
    """Show the transactional ids ID…: the state, the producer, the coordinator, and the partitions of an open
    or ending transaction."""
    from strandline import Admin
    from strandline.client.admin.refusals import raise_first

    found: list[TransactionDescription] = []
    unknown: list[tuple[str, StrandlineError]] = []

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            for each in ids:
                try:
                    found.append(await admin.describe_transaction(each))
                except StrandlineError as error:
                    unknown.append((each, error))

    run(main)
    now_ms = _now_ms()
    for number, each in enumerate(found):
        if invocation.out.json:
            invocation.out.emit(described_json(each, now_ms))
        else:
            if number:
                invocation.out.line("")
            _show(invocation, each, now_ms)
    raise_first(unknown)


def _show(invocation: Invocation, description: TransactionDescription, now_ms: int) -> None:
    out, found, coordinator = invocation.out, description.transaction, description.coordinator
    out.line(f"transactional id  {found.transactional_id}")
    out.line(f"state             {found.state.value}")
    out.line(f"producer          {found.producer.producer_id}, epoch {found.producer.producer_epoch}")
    out.line(f"timeout           {age(found.timeout_ms)}")
    out.line(f"open for          {age(since(found.started_ms, now_ms)) or '-'}")
    out.line(f"coordinator       broker {coordinator.id} at {coordinator.address}")
    out.line(f"partitions        {compact(found.partitions)}")


@transaction.command()
@click.argument("transactional_id", required=False, metavar="[ID]")
@click.option("--topic", metavar="TOPIC", help="The topic of a hanging transaction; instead of ID.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Its partition.")
@click.option(
    "--start-offset", type=click.IntRange(min=0), metavar="O", help="The offset at which it begins there."
)
@pass_invocation
def abort(
    invocation: Invocation,
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
) -> None:
    """Abort the open transaction of ID. A producer of strandline gets TransactionAbortable, and may begin the
    next one. Other clients are fenced: they fail, and have to start again.

    With --topic, --partition and --start-offset it aborts a hanging transaction in one partition:
    `transaction find-hanging` finds them. A transaction that a coordinator has is not aborted that way.
    """
    from strandline import Admin

    place = (topic, partition, start_offset)
    named, complete = place != (None, None, None), None not in place
    if named != complete or named == (transactional_id is not None):
        raise click.UsageError("name ID, or --topic, --partition and --start-offset")

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            if topic is not None and partition is not None and start_offset is not None:
                await admin.abort_hanging_transaction(TopicPartition(topic, partition), start_offset)
            elif transactional_id is not None:
                await admin.abort_transaction(transactional_id)

    run(main)
    if invocation.out.json:
        at = {"topic": topic, "partition": partition, "start_offset": start_offset}
        invocation.out.emit((at if named else {"transactional_id": transactional_id}) | {"aborted": True})
    elif named:
        invocation.out.line(f"aborted at offset {start_offset} of {topic}-{partition}")
    else:
        invocation.out.line(f"aborted {transactional_id}")


@transaction.command("find-hanging")
@click.argument("topics", nargs=-1, metavar="[TOPIC…]")
@click.option(
    "--older-than", "age_s", type=FiniteRange(min=0), metavar="S", default=HANGING_S, show_default=True,
    help="Only transactions that are open for more than S seconds.",
)  # fmt: skip
@pass_invocation
def find_hanging(invocation: Invocation, topics: tuple[str, ...], age_s: float) -> None:
    """Find transactions that are open in the logs of TOPIC…, or of all topics, and that no coordinator will
    end. Consumers that read committed records wait there without end.

    Each comes with the command that aborts it. All leaders and all coordinators are asked. The caller needs
    DESCRIBE on every transactional id: a transaction that it may not see seems to hang.
    """
    from strandline import Admin
    from strandline.client.admin.refusals import raise_first

    async def main() -> HangingTransactions:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            metadata = await admin.metadata(topics)
            names = [
                TopicPartition(topic.name, each.partition)
                for topic in metadata.topics
                if topic.name == OFFSETS_TOPIC or not topic.name.startswith(INTERNAL_PREFIX)
                for each in topic.partitions
            ]
            return await admin.hanging_transactions(names)

    hanging, now_ms = run(main), _now_ms()
    found = [each for each in hanging.found if (since(each.opened.began_ms, now_ms) or 0) > age_s * 1000]
    if invocation.out.json:
        for each in found:
            invocation.out.emit(hanging_json(each, now_ms))
    elif found:
        invocation.out.table(
            ("topic", "partition", "start offset", "producer", "epoch", "open for"),
            [
                (
                    *each.name,
                    each.opened.first_offset,
                    each.opened.producer.producer_id,
                    each.opened.producer.producer_epoch,
                    age(since(each.opened.began_ms, now_ms)),
                )
                for each in found
            ],
        )
        for each in found:
            invocation.out.note(f"to abort it: strandline {abort_command(each)}")
    elif not hanging.unknown:
        invocation.out.note("no transaction hangs")
    raise_first(hanging.unknown.items())


def _now_ms() -> int:
    return int(now().timestamp() * 1000)
