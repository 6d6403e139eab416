"""`strandline state-changes`: shows the life of every state change, and the contents of the brokers'
queues."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from strandline.cli.shell.clock import now
from strandline.cli.shell.command import INTERRUPTED, Command, Invocation, pass_invocation, run
from strandline.report.text.durations import age

if TYPE_CHECKING:
    from strandline import Admin
    from strandline.vocabulary.admin import BrokerDescription


class TimeType(click.ParamType[datetime]):
    """A time in ISO 8601, local if it has no zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Reads one value; an invalid one is wrong usage."""
        if isinstance(value, datetime):
            return value
        with contextlib.suppress(ValueError, OverflowError):  # also a local time that does not exist
            time = datetime.fromisoformat(value)
            if time.timestamp() >= 0:
                return time
        self.fail(f"{value!r} is not a time such as 2026-11-20T14:30, from 1970 on", param, ctx)


@click.command("state-changes", cls=Command)
@click.option(
    "--broker", "brokers", type=click.IntRange(min=0), multiple=True, metavar="N",
    help="Only events about this broker; may be repeated.",
)  # fmt: skip
@click.option("--topic", metavar="T", help="Only this topic, which may be deleted.")
@click.option(
    "--partition", type=click.IntRange(min=0), metavar="P", help="Only this partition; with --topic."
)
@click.option(
    "--since", type=TimeType(), metavar="TIME", help="Only events from this time on; TIME in ISO 8601."
)
@click.option("--follow", is_flag=True, help="Also show new events, until Ctrl-C.")
@click.option("--backlog", is_flag=True, help="Show the length of each broker's queue instead.")
@pass_invocation
def state_changes(
    invocation: Invocation,
    brokers: tuple[int, ...],
    topic: str | None,
    partition: int | None,
    since: datetime | None,
    follow: bool,
    backlog: bool,
) -> None:
    """Show what happened to replicas and partitions: requests, elections, ISR changes, lost records.

    As JSON, a line is a record of the topic __state_changes. With --backlog a line is a broker, alive or not:
    the number of requests in its queue, and the time of the oldest.
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition selects a partition of a topic: give --topic too")
    if backlog:
        if topic is not None or since is not None or follow:
            raise click.UsageError("--backlog is about brokers: of the other options it allows only --broker")
        _show_backlog(invocation, brokers)
        return
    from strandline import Admin
    from strandline.report.text.state_changes import line_of
    from strandline.vocabulary.state_changes import dump_event

    async def main() -> None:
        since_ms = 0 if since is None else int(since.timestamp() * 1000)
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            changes = admin.state_changes(brokers, topic, partition, follow=follow, since_ms=since_ms)
            shown = False
            async with aclosing(changes) as events:
                async for event in events:
                    shown = True
                    if invocation.out.json:
                        invocation.out.emit(dump_event(event))
                    else:
                        invocation.out.line(line_of(event, now().date()))
                    if follow:
                        sys.stdout.flush()
            if not shown:
                invocation.out.note(await _why_nothing(admin, brokers, topic, partition))

    try:
        run(main)
    except KeyboardInterrupt:
        if not follow:
            raise
        click.get_current_context().exit(INTERRUPTED)  # the usual end of --follow, so there is no message


async def _why_nothing(
    admin: Admin, brokers: Collection[int], topic: str | None, partition: int | None
) -> str:
    """The message if there are no events: the topic, partition or broker may not exist."""
    from strandline.errors import UnknownTopicOrPartition

    reasons = []
    if topic is not None:
        try:
            (found,) = (await admin.metadata([topic])).topics
            if partition is not None and partition >= len(found.partitions):
                last = len(found.partitions) - 1
                reasons.append(f"{topic} has partitions 0 to {last}, there is no {partition}")
        except UnknownTopicOrPartition as error:
            reasons.append(error.message)
    known = sorted(each.endpoint.id for each in (await admin.describe_cluster()).brokers)
    reasons += [
        f"broker {broker} is not known, known are {', '.join(map(str, known))}"
        for broker in sorted(set(brokers) - set(known))
    ]
    return "; ".join(["nothing is recorded of what was asked for", *reasons])


def _show_backlog(invocation: Invocation, brokers: Collection[int]) -> None:
    from strandline import Admin
    from strandline.adapters.system.clock import SystemClock

    async def main() -> list[BrokerDescription]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            described = (await admin.describe_cluster()).brokers
        return [each for each in described if not brokers or each.endpoint.id in brokers]

    described = run(main)
    now_ms = SystemClock().wall_ms()
    rows: list[dict[str, Any]] = []
    for broker in sorted(described, key=lambda each: each.endpoint.id):
        oldest_ms = broker.oldest_queued_at_ms or None
        rows.append(
            {
                "broker": broker.endpoint.id,
                "alive": broker.alive,
                "queued": broker.queued_state_changes,
                "oldest_at": oldest_ms,
                "oldest_age_ms": None if oldest_ms is None else max(0, now_ms - oldest_ms),
            }
        )
    if invocation.out.json:
        for row in rows:
            invocation.out.emit(row)
        return
    table = [[row["broker"], row["alive"], row["queued"], age(row["oldest_age_ms"])] for row in rows]
    invocation.out.table(("broker", "alive", "queued", "oldest"), table)
