"""`strandline up`, `down` and `status`: runs the cluster of a folder as processes of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.cluster.partitions import (
    PARTITION_COLUMNS,
    partition_rows,
    partition_table,
    summary,
    summary_line,
)
from strandline.cli.shell.command import FAILED, Command, Invocation, pass_invocation, run
from strandline.errors import SettingsError
from strandline.report.text.counts import counted
from strandline.report.text.durations import age

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline import LocalCluster
    from strandline.client.admin.topics import TopicDescription
    from strandline.local.console_process import ConsoleProcess
    from strandline.vocabulary.admin import ClusterDescription

BROKERS: Final = 3
ADDED: Final = (
    "new topics get replicas there too; those that exist stay where they are until you move them, with "
    "`strandline cluster balance` or `strandline topic reassign`"
)
AFTER_A_FAILURE: Final = "What serves stays up: `strandline up` continues, `strandline down` stops it"
STATUS_TIMEOUT_MS: Final = 2_000
"""Short, because `status` is also for a cluster in trouble."""


@click.command(cls=Command)
@click.option(
    "--brokers", type=click.IntRange(1, 100), help=f"Brokers of the cluster; default: {BROKERS}, or as it is."
)
@click.option("--controllers", type=click.IntRange(1, 9), help="Controllers of a new cluster; default: 1.")
@click.option(
    "--base-port", type=click.IntRange(1024, 65_000), metavar="P",
    help="Ports of brokers: P, P+1, …; of controllers: from P+100; of ZooKeeper: P+200; metrics of each: 300 "
         "above its port. Default: free ports.",
)  # fmt: skip
@click.option(
    "--kafka-port", type=click.IntRange(1024, 65_000), metavar="P",
    help="Ports for Kafka clients, the first broker's at P; default: none.",
)  # fmt: skip
@click.option(
    "--secure", is_flag=True, default=None,
    help="Encrypt a new cluster's connections; clients show certificates, and ACLs decide what they may do.",
)  # fmt: skip
@click.option(
    "--console", is_flag=True, help="Serve a web page beside the cluster, from now on at each start."
)
@pass_invocation
def up(
    invocation: Invocation,
    brokers: int | None,
    controllers: int | None,
    base_port: int | None,
    kafka_port: int | None,
    secure: bool | None,
    console: bool,
) -> None:
    """Start ZooKeeper, brokers and a controller, and wait until they serve.

    If the folder has a cluster already, start its missing processes, also those that are just stopping; with
    more --brokers than it has, add the missing brokers. Replicas move to them only on request. A failure
    leaves what serves as it is.
    """
    from strandline import LocalCluster
    from strandline.adapters.system.files import keep_files_private
    from strandline.local.process import ProcessFailed

    keep_files_private()
    directory = invocation.directory
    if (directory / "cluster.json").exists():
        cluster = LocalCluster.open(directory)
        _refuse_change(cluster, brokers, controllers, base_port, kafka_port)
        if secure and not cluster.secure:
            raise SettingsError(
                f"the cluster in {cluster.directory} was made without --secure: name another with --dir"
            )
    else:
        cluster = LocalCluster(
            brokers or BROKERS,
            controllers=controllers or 1,
            directory=directory,
            base_port=base_port,
            kafka_port=kafka_port,
            secure=bool(secure),
            detached=True,
        )

    async def main() -> tuple[list[int], ConsoleProcess | None]:
        async with cluster:  # a detached cluster keeps running after the block
            added = await cluster.grow(brokers) if brokers is not None else []
            return added, await cluster.start_console() if console else cluster.console

    with invocation.out.progress(_awaited(cluster, brokers)):
        try:
            added, page = run(main)
        except ProcessFailed as failure:
            raise ProcessFailed(f"{failure.message}. {AFTER_A_FAILURE}") from failure
    _show_served(invocation, cluster, added, page)


def _awaited(cluster: LocalCluster, brokers: int | None) -> str:
    """What `up` waits for, before it begins; `brokers`: how many there are to be."""
    missing = sum(not member.alive for member in cluster.members())
    missing += max(0, (brokers or 0) - len(cluster.broker_ids))
    if not missing:
        return f"waiting until all {len(cluster.members())} processes in {cluster.directory} serve"
    return f"starting {counted(missing, 'process', 'processes')} in {cluster.directory}"


def _show_served(
    invocation: Invocation, cluster: LocalCluster, added: Sequence[int], page: ConsoleProcess | None
) -> None:
    if invocation.out.json:
        row: dict[str, Any] = {"dir": str(cluster.directory), "bootstrap": cluster.bootstrap}
        row |= {"console": None if page is None else page.address}
        invocation.out.emit(row | {"kafka_bootstrap": cluster.kafka_bootstrap or None, "added": added})
    else:
        for broker in added:
            invocation.out.line(f"added broker {broker} at {cluster.address(broker)}")
        if added:
            invocation.out.line(ADDED)
        serve = "serves" if len(cluster.broker_ids) == 1 else "serve"
        invocation.out.line(f"{counted(len(cluster.broker_ids), 'broker')} {serve} at {cluster.bootstrap}")
        if cluster.kafka_bootstrap:
            invocation.out.line(f"Kafka clients connect to {cluster.kafka_bootstrap}")
        if cluster.secure:
            invocation.out.line(f"the settings of its admin's clients are in {cluster.directory}/client.toml")
        if page is not None:
            invocation.out.line(f"the console is at {page.address}")
            if page.token_file is not None:
                invocation.out.line(f"it asks a browser for the token in {page.token_file}")


def _refuse_change(
    cluster: LocalCluster,
    brokers: int | None,
    controllers: int | None,
    base_port: int | None,
    kafka_port: int | None,
) -> None:
    """Checks that the cluster loses no broker and keeps its ports. Raises SettingsError otherwise."""
    has_brokers = len(cluster.broker_ids)
    if brokers is not None and brokers < has_brokers:
        raise SettingsError(
            f"the cluster in {cluster.directory} has {has_brokers} brokers, and --brokers {brokers} takes "
            "none away: empty one with `strandline broker drain ID --replicas`, stop it, and then "
            "`strandline broker forget ID`"
        )
    first = next(member for member in cluster.members() if member.kind == "broker")
    for option, wanted, has in (
        ("--controllers", controllers, len(cluster.controller_ids)),
        ("--base-port", base_port, first.port),
        ("--kafka-port", kafka_port, first.kafka_port or "left out"),
    ):
        if wanted is not None and wanted != has:
            raise SettingsError(
                f"the cluster in {cluster.directory} was made with {option} {has}, not {wanted}: "
                "leave the option out, or name another folder with --dir"
            )


@click.command(cls=Command)
@pass_invocation
def down(invocation: Invocation) -> None:
    """Stop the cluster of the folder; its data stays, and `up` starts it again."""
    from strandline import LocalCluster

    cluster = LocalCluster.open(invocation.directory)
    with invocation.out.progress(f"stopping the cluster in {cluster.directory}"):
        stopped = run(cluster.stop)  # returns the count, since an `up` may be under way
    if invocation.out.json:
        invocation.out.emit({"dir": str(cluster.directory), "stopped": stopped})
    else:
        invocation.out.line(
            f"stopped {counted(stopped, 'process', 'processes')}; the data stays in {cluster.directory}"
        )


@click.command(cls=Command)
@pass_invocation
def status(invocation: Invocation) -> None:
    """Show processes, brokers and partitions; unknown values are null.

    Exits with 1 if no broker answers.
    """
    from strandline import Admin
    from strandline.errors import StrandlineError

    if invocation.named_bootstrap() is None:
        result = _processes(invocation)
    else:
        result = {"zookeeper": None, "controllers": [], "brokers": [], "console": None}

    topics: list[TopicDescription] = []

    async def ask() -> None:
        async with Admin(
            invocation.bootstrap_servers(),
            request_timeout_ms=STATUS_TIMEOUT_MS,
            **invocation.client_settings(),
        ) as admin:
            topics.extend(await admin.describe_topics(replicas=True))
            result["topics"] = [
                {"topic": topic.name, "topic_id": topic.topic_id, "partitions": partition_rows(topic)}
                for topic in topics
            ]
            result["replication"] = summary(topics)
            try:
                _add_what_the_cluster_says(result, await admin.describe_cluster())
            except StrandlineError as error:  # the brokers serve while no controller runs
                result["problem"] = str(error)

    try:
        run(ask)
    except StrandlineError as error:
        result |= {"topics": [], "problem": str(error)}
        answered = False
    else:
        answered = True
    _show(invocation, result, topics)
    if "problem" in result:
        invocation.out.note(f"error: {result['problem']}")
    if not answered:
        click.get_current_context().exit(FAILED)


def _processes(invocation: Invocation) -> dict[str, Any]:
    """The processes of the folder, before any request."""
    from strandline import LocalCluster

    if not invocation.directory.exists():
        raise SettingsError(f"there is no cluster in {invocation.directory}: start one with `strandline up`")
    cluster = LocalCluster.open(invocation.directory)
    result: dict[str, Any] = {
        "dir": str(cluster.directory),
        "zookeeper": None,
        "controllers": [],
        "brokers": [],
        "console": None,
    }
    for member in cluster.members():
        where: dict[str, Any] = {
            "pid": member.pid,
            "host": member.host,
            "port": member.port,
            "alive": member.alive,
        }
        if member.kind in ("controller", "broker"):
            where["metrics_port"] = member.metrics_port
        match member.kind:
            case "zookeeper":
                result["zookeeper"] = where
            case "console":
                result["console"] = where
            case "controller":
                active = None if member.alive else False  # until the cluster says which one is
                result["controllers"].append({"id": member.id, **where, "active": active})
            case _:
                place = {"id": member.id, **where, "kafka_port": member.kafka_port}
                result["brokers"].append({**place, "rack": member.rack})
    return result


def _add_what_the_cluster_says(result: dict[str, Any], description: ClusterDescription) -> None:
    """Adds what the controller knows; members on other machines have no pid here."""
    from strandline.adapters.system.clock import SystemClock

    now_ms = SystemClock().wall_ms()
    result["cluster_id"] = description.cluster_id
    active = description.controller
    if active is not None:
        controllers = {row["id"]: row for row in result["controllers"]}
        elsewhere = {"id": active.id, "pid": None, "host": active.host, "port": active.port, "alive": True}
        controllers.setdefault(active.id, {**elsewhere, "metrics_port": None})
        result["controllers"] = [{**row, "active": row["id"] == active.id} for row in controllers.values()]
    brokers = {row["id"]: row for row in result["brokers"]}
    for broker in description.brokers:
        endpoint = broker.endpoint
        elsewhere = {"id": endpoint.id, "pid": None, "host": None, "port": None, "alive": broker.alive}
        row = brokers.setdefault(endpoint.id, {**elsewhere, "metrics_port": None, "kafka_port": None})
        if broker.alive:
            row |= {"host": endpoint.host, "port": endpoint.port, "rack": endpoint.rack}
        oldest_ms = broker.oldest_queued_at_ms or None
        row |= {
            "epoch": broker.broker_epoch if broker.alive else None,
            "shutting_down": broker.shutting_down,
            "drained": broker.drained,
            "queued_state_changes": broker.queued_state_changes,
            "oldest_queued_age_ms": None if oldest_ms is None else max(0, now_ms - oldest_ms),
        }
    result["brokers"] = sorted(brokers.values(), key=lambda row: int(row["id"]))


def _show(invocation: Invocation, result: dict[str, Any], topics: Sequence[TopicDescription]) -> None:
    if invocation.out.json:
        invocation.out.emit(result)
        return
    columns = (
        "process",
        "id",
        "pid",
        "port",
        "metrics",
        "kafka",
        "alive",
        "active",
        "drained",
        "queued",
        "oldest",
    )
    nothing = [None] * 4
    rows = [["zookeeper", None, *_place(result["zookeeper"]), *nothing]] if result["zookeeper"] else []
    rows += [
        ["controller", row["id"], *_place(row), row["active"], *nothing[1:]] for row in result["controllers"]
    ]
    for row in result["brokers"]:
        queue = [row.get("queued_state_changes"), age(row.get("oldest_queued_age_ms"))]
        rows.append(["broker", row["id"], *_place(row), None, row.get("drained"), *queue])
    if result.get("console"):
        rows.append(["console", None, *_place(result["console"]), *nothing])
    if rows:
        invocation.out.table(columns, rows)
    partitions = [[topic.name, *row] for topic in topics for row in partition_table(topic)]
    if partitions:
        invocation.out.line("")
        invocation.out.table(("topic", *PARTITION_COLUMNS), partitions)
        invocation.out.line("")
        invocation.out.line(summary_line(result["replication"]))


def _place(row: dict[str, Any]) -> list[object]:
    return [row["pid"], row["port"], row.get("metrics_port"), row.get("kafka_port"), row["alive"]]
