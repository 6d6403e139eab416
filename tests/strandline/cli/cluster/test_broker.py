"""`strandline broker`: list, drain and ready, as operators run them (USERS 11)."""

from __future__ import annotations

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.local.cluster import LocalCluster
from strandline.vocabulary.state_changes import Command, StateChange
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

pytestmark = pytest.mark.slow

GONE = 9
"""A broker that was here once: there is its queue, and nothing else of it."""


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster)


async def queue_for_the_gone(cluster: LocalCluster, at_ms: int) -> None:
    change = StateChange(
        f"request-{at_ms}", Command.DELETE_REPLICA, "old",
        PartitionKey(TopicId("f" * 32), PartitionId(0)), LeaderEpoch(1), BrokerId(1), at_ms,
    )  # fmt: skip
    session = await connect(ZooKeeperSettings(zookeeper=cluster.zookeeper))
    try:
        await session.ensure_path(znodes.state_queue(GONE))
        data = queue_znodes.dump_state_changes([change])
        await session.create(znodes.state_entry_prefix(GONE), data, sequential=True)
    finally:
        await session.close()


async def test_the_list_shows_live_brokers_and_dead_ones_with_a_queue(
    cluster: LocalCluster, shell: Shell
) -> None:
    """CORRECTNESS Q4: what waits for a broker that is gone is seen, and how old it is."""
    await queue_for_the_gone(cluster, 1_000_000)
    rows = {row["broker"]: row for row in await shell.objects("broker", "list")}
    assert set(rows) == {*cluster.broker_ids, GONE}
    for broker in cluster.broker_ids:
        assert rows[broker]["alive"] is True
        assert f"{rows[broker]['host']}:{rows[broker]['port']}" == cluster.address(broker)
        assert rows[broker]["epoch"] > 0
    gone = rows[GONE]
    assert (gone["alive"], gone["host"], gone["port"], gone["epoch"]) == (False, None, None, None)
    assert (gone["queued"], gone["oldest_at"]) == (1, 1_000_000)
    assert gone["oldest_age_ms"] > 0
    shown = await shell("broker", "list")
    (line,) = [line for line in shown.out.decode().splitlines() if line.startswith(f"{GONE} ")]
    assert " d " in line, "its age is shown in days"
    (status,) = await shell.objects("status")
    (row,) = [row for row in status["brokers"] if row["id"] == GONE]
    assert (row["alive"], row["queued_state_changes"]) == (False, 1)
    assert row["oldest_queued_age_ms"] > 0


async def test_a_broker_is_drained_shown_so_and_taken_back(cluster: LocalCluster, shell: Shell) -> None:
    await shell.objects("topic", "create", "moves", "--partitions", "3", "--replication-factor", "3")
    ended = await shell("broker", "drain", "2")
    assert ended.status == 0, ended.err
    assert "broker 2: drained, 0 leaderships" in ended.out.decode()
    (topic,) = await shell.objects("topic", "describe", "moves")
    assert 2 not in [row["leader"] for row in topic["partitions"]]
    rows = {row["broker"]: row["drained"] for row in await shell.objects("broker", "list")}
    assert {broker for broker, drained in rows.items() if drained} == {2}
    (status,) = await shell.objects("status")
    assert [row["id"] for row in status["brokers"] if row.get("drained")] == [2]
    (undone,) = await shell.objects("broker", "drain", "2", "--undo")
    assert undone["leaderships"] == 0

    async def leads_again() -> bool:
        ended = await shell("topic", "elect", "--preferred", "moves")
        (topic,) = await shell.objects("topic", "describe", "moves")
        return ended.status == 0 and 2 in [row["leader"] for row in topic["partitions"]]

    await eventually(leads_again, deadline_s=30)


async def test_a_drain_that_is_not_waited_for_reports_what_cannot_move_and_succeeds(shell: Shell) -> None:
    """The drain goes on: a script that begins one has nothing to repeat."""
    await shell.objects("topic", "create", "everywhere", "--replication-factor", "3")
    ended = await shell("broker", "drain", "3", "--replicas", "--no-wait")
    try:
        assert ended.status == 0
        assert "everywhere-0 has the replicas" in ended.err
        assert "no other broker" in ended.err
    finally:
        await shell.objects("broker", "drain", "3", "--undo")


async def test_a_drain_does_not_wait_for_partitions_without_another_replica(shell: Shell) -> None:
    """It ends long before a drain counts as stuck; with --except-permanent it succeeds, so that a rolling
    restart continues."""
    await shell.objects("topic", "create", "single")
    await shell.objects("topic", "create", "shared", "--partitions", "3", "--replication-factor", "3")
    (topic,) = await shell.objects("topic", "describe", "single")
    only = str(topic["partitions"][0]["leader"])
    try:
        ended = await shell("broker", "drain", only)
        assert ended.status == 1
        out = ended.out.decode()
        assert f"broker {only}: drained but for partitions without another replica, 1 leadership, " in out
        assert "single-0 cannot be led by another: it has no other replica" in ended.err
        assert "topic reassign" in ended.err
        (answer,) = await shell.objects("broker", "drain", only, "--except-permanent")
        assert (answer["drained"], answer["leaderships"], answer["permanent"]) == (False, 1, 1)
        (topic,) = await shell.objects("topic", "describe", "shared")
        assert int(only) not in [row["leader"] for row in topic["partitions"]]
    finally:
        await shell.objects("broker", "drain", only, "--undo")
        await shell.objects("topic", "delete", "single", "shared")


async def test_ready_succeeds_only_for_a_broker_that_may_be_stopped(shell: Shell) -> None:
    await shell.objects("topic", "create", "spared", "--partitions", "2", "--replication-factor", "3")
    (ready,) = await shell.objects("broker", "ready", "1", "--wait", "20")
    assert (ready["ready"], ready["problems"]) == (True, [])
    assert ready["replicas"] >= 2
    ended = await shell("broker", "ready", "7")
    assert ended.status == 1
    assert "broker 7 is not registered" in ended.err
    await shell.objects("topic", "create", "alone")
    (topic,) = await shell.objects("topic", "describe", "alone")
    (only,) = topic["partitions"][0]["replicas"]
    try:
        # Longer than a command may take here: so it does not wait for what does not pass.
        ended = await shell("broker", "ready", str(only), "--wait", "300")
        assert ended.status == 1
        assert "ready but for partitions that can never spare it" in ended.out.decode()
        assert "alone-0: no broker of it can ever be stopped safely" in ended.err
        assert "topic reassign" in ended.err
        ended = await shell("broker", "ready", str(only), "-o", "json")
        assert ended.status == 1
        (answer,) = ended.objects
        assert (answer["ready"], answer["permanent"]) == (False, answer["problems"])
        (answer,) = await shell.objects("broker", "ready", str(only), "--except-permanent")
        assert (answer["ready"], len(answer["permanent"])) == (False, 1)
        ended = await shell("broker", "ready", "7", "--except-permanent")
        assert ended.status == 1
    finally:
        await shell.objects("topic", "delete", "alone")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["drain", "8"], 1, "broker 8 is not known"),
        (["drain", str(GONE)], 1, "not alive"),
        (["drain", "x"], 2, "not a valid integer"),
        (["drain", "-1"], 2, ""),
        (["drain", "1", "--throttle", "5"], 2, "--replicas"),
        (["drain", "1", "--undo", "--replicas"], 2, "--undo"),
        (["drain", "1", "--undo", "--except-permanent"], 2, "--except-permanent"),
        (["drain", "1", "--no-wait", "--except-permanent"], 2, "--except-permanent"),
        (["drain", "1", "--replicas", "--throttle", "0"], 2, "0"),
        (["ready", "99999999999"], 2, "99999999999"),
        (["ready", "1", "--wait", "-3"], 2, "-3"),
    ],
)
async def test_bad_arguments_are_refused_by_name_and_value(
    cluster: LocalCluster, shell: Shell, arguments: list[str], status: int, said: str
) -> None:
    await queue_for_the_gone(cluster, 2_000_000)
    ended = await shell("broker", *arguments)
    assert ended.status == status, ended.err
    assert said in ended.err
    assert "Traceback" not in ended.err
