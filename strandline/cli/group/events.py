"""`strandline group events`: shows what happened to groups, from the topic `__group_events`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from strandline.cli.shell.clock import now
from strandline.cli.shell.command import INTERRUPTED, Command, Invocation, pass_invocation, run
from strandline.errors import UnknownTopicOrPartition
from strandline.ids import GROUP_EVENTS_TOPIC, TopicPartition
from strandline.report.text.group_events import line_of, read_event

if TYPE_CHECKING:
    from strandline import Consumer, ConsumerRecord

POLL_MS: Final = 250
WAITING_RECORDS_MAX: Final = 5_000
"""Records of one partition that wait for older ones of others; it is not read further meanwhile."""


@click.command("events", cls=Command)
@click.argument("group", required=False)
@click.option("--follow", is_flag=True, help="Also show new events, until Ctrl-C.")
@pass_invocation
def events(invocation: Invocation, group: str | None, follow: bool) -> None:
    """Show what happened to GROUP, or to all groups: rebalances, partitions and tasks; the newest last.

    A line has the time, the event, the group, the generation, the member, its task or its partitions, and
    further details: how far the task's state is restored, the reason, and the member that caused it. As JSON,
    a line is a record of the topic __group_events.
    """
    from strandline import Consumer

    passed_over = 0

    def write(records: Iterable[ConsumerRecord]) -> None:
        nonlocal passed_over
        for record in records:
            if group is not None and record.key != group.encode():
                continue
            event = read_event(record.value)
            if event is None:
                passed_over += 1
            elif invocation.out.json:
                invocation.out.emit(event)
            else:
                invocation.out.line(line_of(event, now().date()))
        if follow:
            sys.stdout.flush()

    async def main() -> None:
        async with Consumer(
            invocation.bootstrap_servers(), offset_reset="earliest", **invocation.client_settings()
        ) as consumer:
            await read_events(consumer, write, follow=follow)

    try:
        run(main)
    except KeyboardInterrupt:
        if not follow:
            raise
        click.get_current_context().exit(INTERRUPTED)  # the usual end of --follow, so there is no message
    if passed_over:
        invocation.out.note(f"records skipped because they are no events of this version: {passed_over}")


Write = Callable[[Iterable["ConsumerRecord"]], None]


async def read_events(consumer: Consumer, write: Write, *, follow: bool) -> None:
    """Passes the topic's present events to `write`, the oldest first, and with `follow` all new ones.

    If the topic does not exist yet, there are no events; with `follow`, waits for it.
    """
    partitions = await _partitions(consumer, follow=follow)
    if not partitions:
        return
    ends = await consumer.end_offsets(partitions)
    consumer.assign(partitions)
    await consumer.seek_to_beginning()
    merge = Merge(ends)
    while merge.open:
        for name in list(merge.open):
            if await consumer.position(name) >= ends[name]:
                merge.close(name)
        write(merge.take())
        waiting = merge.waiting()
        consumer.pause(*waiting)
        consumer.resume(*merge.open - waiting)
        if merge.open:
            merge.add(await consumer.getmany(timeout_ms=POLL_MS), later=follow)
    consumer.resume(*partitions)
    while follow:
        merge.add(await consumer.getmany(timeout_ms=POLL_MS), later=True)
        write(merge.take())


async def _partitions(consumer: Consumer, *, follow: bool) -> list[TopicPartition]:
    while True:
        try:
            numbers = await consumer.partitions_for(GROUP_EVENTS_TOPIC)
        except UnknownTopicOrPartition:  # it has waited for the topic
            if not follow:
                return []
        else:
            return [TopicPartition(GROUP_EVENTS_TOPIC, number) for number in numbers]


class Merge:
    """Merges the records of several partitions by time; each partition's own order stays.

    `open` are the partitions that have not been read to their ends: each may still have older records.
    """

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self._ends = ends
        self._queues: dict[TopicPartition, deque[ConsumerRecord]] = {name: deque() for name in ends}
        self.open = set(ends)

    def add(self, batches: Mapping[TopicPartition, Sequence[ConsumerRecord]], *, later: bool) -> None:
        """Adds records of partitions; those past the ends only with `later`."""
        for name, records in batches.items():
            end = self._ends[name]
            self._queues[name].extend(record for record in records if later or record.offset < end)

    def close(self, name: TopicPartition) -> None:
        """Notes that this partition has no older records."""
        self.open.discard(name)

    def take(self) -> list[ConsumerRecord]:
        """The records that no other record can precede."""
        taken: list[ConsumerRecord] = []
        while all(self._queues[name] for name in self.open):
            queues = [queue for queue in self._queues.values() if queue]
            if not queues:
                break
            taken.append(min(queues, key=lambda queue: queue[0].timestamp).popleft())
        return taken

    def waiting(self) -> set[TopicPartition]:
        """The partitions that should not be read further now: they are at their ends, or too far ahead of the
        others."""
        return {
            name
            for name, queue in self._queues.items()
            if name not in self.open or len(queue) > WAITING_RECORDS_MAX
        }
