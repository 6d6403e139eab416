"""Reading as a group member: the options that `consume` and `verify consume` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.records.start import Start

if TYPE_CHECKING:
    import asyncio

    from strandline import Consumer, TopicPartition
    from strandline.consumer.group.listener import RebalanceListener
    from strandline.vocabulary.groups import GroupMetadata

HEARTBEAT_INTERVAL_MS: Final = 1_000
"""The longest heartbeat interval; a short session has three heartbeats."""

OPTIONS = (
    click.option("--group", metavar="G", help="Share the partitions with the other members of the group G."),
    click.option(
        "--group-protocol", type=click.Choice(["classic", "consumer"]),
        help="classic: the members assign the partitions; consumer: the coordinator does (KIP-848). "
        "With --group; default: classic.",
    ),
    click.option(
        "--rebalance-protocol", type=click.Choice(["eager", "cooperative"]),
        help="eager: give up all partitions in each rebalance; cooperative: only those that move. "
        "With --group; default: eager.",
    ),
    click.option("--client-id", metavar="ID", help="Name of this member in `group describe`; with --group."),
    click.option(
        "--instance", metavar="ID",
        help="A member that returns under this name keeps its share; with --group."
    ),
    click.option(
        "--session-timeout-ms", type=click.IntRange(min=1), metavar="MS",
        help="Time without heartbeats after which the group removes a member; with --group.",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Membership:
    """The values of these options; None if an option was not given."""

    group: str | None
    group_protocol: str | None
    rebalance_protocol: str | None
    client_id: str | None
    instance: str | None
    session_timeout_ms: int | None

    def settings(self, start: Start, partition: int | None) -> dict[str, Any] | None:
        """Settings for a Consumer in the group, whose new partitions begin at `start`; None without a group.

        Raises click.UsageError for options that exclude each other.
        """
        given: dict[str, Any] = {}
        options: list[str] = []
        for option, name, value in (
            ("--group-protocol", "group_protocol", self.group_protocol),
            ("--rebalance-protocol", "rebalance_protocol", self.rebalance_protocol),
            ("--client-id", "client_id", self.client_id),
            ("--instance", "group_instance_id", self.instance),
            ("--session-timeout-ms", "session_timeout_ms", self.session_timeout_ms),
        ):
            if value is not None:
                given[name] = value
                options.append(option)
        if self.session_timeout_ms is not None:
            given["heartbeat_interval_ms"] = min(HEARTBEAT_INTERVAL_MS, -(-self.session_timeout_ms // 3))
        if self.group is None:
            if given:
                raise click.UsageError(f"give --group beside {', '.join(options)}: they are for members")
            return None
        decided = [each for each in options if each in ("--rebalance-protocol", "--session-timeout-ms")]
        if self.group_protocol == "consumer" and decided:
            raise click.UsageError(
                f"{' and '.join(decided)}: only for --group-protocol classic; in other groups the "
                "coordinator decides, and `strandline group alter` sets consumer.session.timeout.ms"
            )
        if partition is not None:
            raise click.UsageError("--partition and --group exclude each other: the group assigns partitions")
        match start:
            case "earliest" | "latest":
                given["offset_reset"] = start
            case datetime():
                given["offset_reset_timestamp_ms"] = int(start.timestamp() * 1000)
            case int():
                raise click.UsageError(
                    "--from OFFSET and --group: a group continues at its committed offsets; "
                    "`strandline group reset-offsets` changes them"
                )
        return {"group_id": self.group, **given}


async def subscribe(consumer: Consumer, topics: Sequence[str], listener: RebalanceListener) -> None:
    """Joins the group for `topics`.

    Raises UnknownTopicOrPartition; a consumer alone would wait for the topic to appear.
    """
    for topic in topics:
        await consumer.partitions_for(topic)
    consumer.subscribe(topics, listener=listener)


def group_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that make a consumer a member; passes them as one `membership`."""

    @wraps(function)
    def handing_over(*arguments: Any, **named: Any) -> None:
        given_values = {each.name: named.pop(each.name) for each in fields(Membership)}
        function(*arguments, membership=Membership(**given_values), **named)

    for option in reversed(OPTIONS):
        handing_over = option(handing_over)
    return handing_over


OnChange = Callable[[str, Sequence["TopicPartition"], "GroupMetadata"], None]
"""Takes an event ("assigned", "revoked", "lost"), its partitions, and the consumer's member id and
generation."""


def report_changes(consumer: Consumer, on_change: OnChange) -> RebalanceListener:
    """A listener that passes all events to one function, with sorted partitions."""
    from strandline import RebalanceListener

    def report(event: str, partitions: Iterable[TopicPartition]) -> None:
        on_change(event, sorted(partitions), consumer.group_metadata())

    class Reporting(RebalanceListener):
        def on_assigned(self, added: set[TopicPartition]) -> None:
            report("assigned", added)

        def on_revoked(self, removed: set[TopicPartition]) -> None:
            report("revoked", removed)

        def on_lost(self, lost: set[TopicPartition]) -> None:
            report("lost", lost)

    return Reporting()


class Stop:
    """Handles SIGTERM and Ctrl-C: the member commits what was handed out, and leaves the group.

    `interrupted`: Ctrl-C was pressed. A second Ctrl-C ends the command at once.
    """

    def __init__(self) -> None:
        import asyncio
        import signal

        self.event: asyncio.Event = asyncio.Event()
        self.interrupted = False
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.event.set)

        def interrupt() -> None:
            self.interrupted = True
            self.event.set()
            loop.remove_signal_handler(signal.SIGINT)

        loop.add_signal_handler(signal.SIGINT, interrupt)
