"""`strandline-lab perf`: measures the cluster's speed through the public clients."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.records.produce import ACKS, acks_option, compression_option
from strandline.cli.shell.command import FAILED, Group, Invocation, pass_invocation, run
from strandline.cli.shell.numbers import FiniteRange
from strandline.errors import OutcomeUnknown
from strandline_lab.perf.malloc import keep_freed_memory

if TYPE_CHECKING:
    from strandline import Admin
    from strandline_lab.perf.measure import Load

REPLICAS: Final = 3

records_option = click.option("--records", type=click.IntRange(min=1), default=1_000_000, show_default=True)
size_option = click.option(
    "--record-size", type=click.IntRange(min=1), default=100, show_default=True, help="Bytes of a value."
)
partitions_option = click.option("--partitions", type=click.IntRange(min=1), default=3, show_default=True)
replication_option = click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help=f"Replicas of each partition; default: {REPLICAS}, or the number of brokers if that is lower.",
)
config_option = click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A config of the topic, such as flush.messages=1.",
)
in_flight_option = click.option(
    "--in-flight", type=click.IntRange(min=1), default=4, show_default=True,
    help="Unanswered calls: in total for `many`, for each partition for `batch`.",
)  # fmt: skip
batch_bytes_option = click.option(
    "--batch-bytes",
    type=click.IntRange(min=1024),
    default=256 * 1024,
    show_default=True,
    help="Size of a batch.",
)


@click.group(cls=Group)
def perf() -> None:
    """Measure throughput, latency, failover and rebalances, each on a topic of its own."""
    keep_freed_memory()


@asynccontextmanager
async def _own_topic(
    bootstrap: str,
    connection: dict[str, Any],
    load: Load,
    replication_factor: int | None,
    configs: tuple[str, ...],
) -> AsyncIterator[Admin]:
    """Creates the load's topic, and deletes it afterwards, also after an error."""
    from strandline import Admin

    async with Admin(bootstrap, **connection) as admin:
        if replication_factor is None:
            replication_factor = min(REPLICAS, len((await admin.describe_cluster()).brokers))
        config = dict(pair.split("=", 1) for pair in configs)
        await admin.create_topic(
            load.topic, partitions=load.partitions, replication_factor=replication_factor, config=config
        )
        try:
            yield admin
        finally:
            await admin.delete_topics([load.topic])


async def _check_appended(admin: Admin, topic: str, records: int) -> None:
    """Checks that the log has every record once; otherwise the figures do not count. Raises
    OutcomeUnknown."""
    (description,) = await admin.describe_topics([topic])
    appended = sum(partition.log_end_offset or 0 for partition in description.partitions)
    if appended != records:
        raise OutcomeUnknown(f"{records} records were acknowledged, and the log has {appended}")


def _load(what: str, partitions: int, records: int, record_size: int, **bounds: int) -> Load:
    from strandline_lab.perf.measure import Load

    # The process id separates runs at the same time.
    return Load(
        topic=f"perf-{what}-{os.getpid()}",
        partitions=partitions,
        records=records,
        record_size=record_size,
        in_flight=bounds.get("in_flight", 4),
        batch_bytes=bounds.get("batch_bytes", 256 * 1024),
    )


def _report(invocation: Invocation, figures: dict[str, Any]) -> None:
    if invocation.out.json:
        invocation.out.emit(figures)
        return
    width = max(map(len, figures))
    for name, figure in figures.items():
        text = (
            f"{figure:,}" if isinstance(figure, int | float) and not isinstance(figure, bool) else str(figure)
        )
        invocation.out.line(f"{name:<{width}}  {text}")


@perf.command()
@click.option(
    "--api", type=click.Choice(["many", "send", "batch"]), default="many", show_default=True,
    help="`many`: send_many; `send`: record by record; `batch`: batches encoded beforehand.",
)  # fmt: skip
@records_option
@size_option
@partitions_option
@replication_option
@in_flight_option
@batch_bytes_option
@click.option("--linger-ms", type=FiniteRange(min=0), default=0, show_default=True)
@acks_option
@compression_option
@config_option
@pass_invocation
def produce(
    invocation: Invocation,
    api: str,
    records: int,
    record_size: int,
    partitions: int,
    replication_factor: int | None,
    in_flight: int,
    batch_bytes: int,
    linger_ms: float,
    acks: str,
    compression: str,
    configs: tuple[str, ...],
) -> None:
    """Measure producing: records and MB a second, and the time until a call is acknowledged."""
    from strandline import Producer
    from strandline_lab.perf import measure

    load = _load("produce", partitions, records, record_size, in_flight=in_flight, batch_bytes=batch_bytes)
    settings: dict[str, Any] = {
        "acks": ACKS[acks], "linger_ms": linger_ms, "batch_bytes": batch_bytes, "compression": compression,
    }  # fmt: skip

    async def main() -> measure.Figures:
        bootstrap, connection = invocation.bootstrap_servers(), invocation.client_settings()
        async with (
            _own_topic(bootstrap, connection, load, replication_factor, configs) as admin,
            Producer(bootstrap, **settings, **connection) as producer,
        ):
            with invocation.out.progress(
                f"producing {records} records of {record_size} bytes", records
            ) as advance:
                figures = await measure.produce(producer, api, load, advance)
            if acks != "0":
                await _check_appended(admin, load.topic, figures["records"])
            return figures

    _report(invocation, {"perf": "produce", "api": api, "acks": acks, "partitions": partitions, **run(main)})


@perf.command()
@click.option(
    "--api", type=click.Choice(["batches", "many", "one"]), default="batches", show_default=True,
    help="`batches`: getbatches (undecoded); `many`: getmany; `one`: getone.",
)  # fmt: skip
@records_option
@size_option
@partitions_option
@replication_option
@pass_invocation
def consume(
    invocation: Invocation,
    api: str,
    records: int,
    record_size: int,
    partitions: int,
    replication_factor: int | None,
) -> None:
    """Measure consuming of produced records: records and MB a second."""
    from strandline import Consumer, Producer, TopicPartition
    from strandline_lab.perf import measure

    load = _load("consume", partitions, records, record_size)

    async def main() -> measure.Figures:
        bootstrap, connection = invocation.bootstrap_servers(), invocation.client_settings()
        async with _own_topic(bootstrap, connection, load, replication_factor, ()):
            async with Producer(bootstrap, **connection) as producer:
                with invocation.out.progress(f"producing {records} records to read", records) as advance:
                    await measure.produce(producer, "many", load, advance)
            async with Consumer(bootstrap, **connection) as consumer:
                whole = [TopicPartition(load.topic, number) for number in range(partitions)]
                with invocation.out.progress(f"consuming {records} records", records) as advance:
                    return await measure.consume(consumer, api, whole, load, advance)

    _report(invocation, {"perf": "consume", "api": api, "partitions": partitions, **run(main)})


@perf.command()
@click.option("--records", type=click.IntRange(min=1), default=5_000, show_default=True)
@size_option
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True)
@replication_option
@acks_option
@config_option
@pass_invocation
def latency(
    invocation: Invocation,
    records: int,
    record_size: int,
    partitions: int,
    replication_factor: int | None,
    acks: str,
    configs: tuple[str, ...],
) -> None:
    """Measure one record in flight: time to its acknowledgement, and to a consumer that waits for it."""
    from strandline import Consumer, Producer, TopicPartition
    from strandline_lab.perf import measure

    load = _load("latency", partitions, records, record_size)

    async def main() -> measure.Figures:
        bootstrap, connection = invocation.bootstrap_servers(), invocation.client_settings()
        async with (
            _own_topic(bootstrap, connection, load, replication_factor, configs),
            Producer(bootstrap, acks=ACKS[acks], **connection) as producer,
            Consumer(bootstrap, **connection) as consumer,
        ):
            with invocation.out.progress(f"{records} records to the acknowledgement", records) as advance:
                commit = await measure.commit_latency(producer, load, advance)
            with invocation.out.progress(f"{records} records to a consumer", records) as advance:
                end_to_end = await measure.end_to_end_latency(
                    producer, consumer, TopicPartition(load.topic, 0), load, advance
                )
        return {**commit, **{f"end_to_end_{name}": figure for name, figure in end_to_end.items()}}

    _report(
        invocation,
        {"perf": "latency", "acks": acks, "records": records, "record_size": record_size, **run(main)},
    )


@perf.command()
@click.option("--partitions", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--members", type=click.IntRange(min=2), default=10, show_default=True)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Rounds of each change."
)
@click.option(
    "--rate", type=FiniteRange(min=1), default=1000, show_default=True, help="Records a second, in total."
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Processes that the members share.",
)
@click.option(
    "--rebalance-protocol", "protocols", type=click.Choice(["eager", "cooperative", "consumer"]),
    multiple=True, default=("eager", "cooperative", "consumer"), show_default=True, help="May be repeated.",
)  # fmt: skip
@replication_option
@pass_invocation
def rebalance(
    invocation: Invocation,
    partitions: int,
    members: int,
    rounds: int,
    rate: float,
    processes: int,
    protocols: tuple[str, ...],
    replication_factor: int | None,
) -> None:
    """Measure a rebalance after one member joins or leaves: time without owners and without records.

    `unowned`: from a partition's revocation to its next assignment, for partitions that were interrupted.
    `silent`: the longest time in which a remaining consumer received no records of partitions that it kept;
    `quiet` is the same without a change. `settle`: the time until all partitions are shared again.
    """
    from strandline_lab.perf.rebalance import Scale, measure_rebalance

    load = _load("rebalance", partitions, 0, 0)
    scale = Scale(load.topic, partitions, members, rounds, rate, processes)

    async def main() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        bootstrap, connection = invocation.bootstrap_servers(), invocation.client_settings()
        what = f"a member of {members} comes and goes {rounds} times"
        async with _own_topic(bootstrap, connection, load, replication_factor, ()) as admin:
            for protocol in dict.fromkeys(protocols):
                with invocation.out.progress(f"{protocol}: {what}", 2 * rounds) as advance:
                    found = await measure_rebalance(bootstrap, connection, protocol, scale, advance)
                await admin.delete_group(scale.group(protocol))
                rows += [
                    {"rebalance_protocol": protocol, "change": change, **figures}
                    for change, figures in found.items()
                ]
        return rows

    rows = run(main)
    if not invocation.out.json:
        invocation.out.table(tuple(rows[0]), [tuple(row.values()) for row in rows])
        return
    for row in rows:
        invocation.out.emit({"perf": "rebalance", "partitions": partitions, "members": members, **row})


@perf.command()
@click.option("--rounds", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--brokers", type=click.IntRange(min=3), default=3, show_default=True)
@click.option("--rate", type=FiniteRange(min=1), default=500, show_default=True, help="Records a second.")
@click.option("--secure", is_flag=True, help="Encrypt every connection, with certificates on both ends.")
@click.option("--hang", is_flag=True, help="Stop the leader (SIGSTOP) instead: it keeps its connections.")
@pass_invocation
def failover(
    invocation: Invocation, rounds: int, brokers: int, rate: float, secure: bool, hang: bool
) -> None:
    """Kill -9 the leader repeatedly under load, in a temporary cluster.

    Reports the time from the kill to the first acknowledgement of a record sent after it. Exits with 1 if an
    acknowledged record was lost, read twice, changed or reordered.
    """
    from strandline_lab.perf.failover import measure_failover

    what = "stopping" if hang else "killing"

    async def main() -> dict[str, Any]:
        with invocation.out.progress(f"{what} the leader {rounds} times", rounds) as advance:
            return await measure_failover(rounds, brokers, rate, advance, secure=secure, hang=hang)

    figures = run(main)
    faults = figures.pop("faults")
    _report(invocation, {"perf": "failover", "rounds": rounds, "brokers": brokers, "hang": hang, **figures})
    for fault in faults:
        invocation.out.note(f"error: {fault}")
    if faults:
        click.get_current_context().exit(FAILED)
