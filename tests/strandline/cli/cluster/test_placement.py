"""`topic reassign`, `elect --preferred` and `alter --partitions`, as their users run them."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.strandline.cli.support.cli_process import start
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """Four brokers, so that there is somewhere to go."""
    return await make_module_cluster(brokers=4)


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster)


async def partition_of(shell: Shell, topic: str, number: int = 0) -> dict[str, Any]:
    (described,) = await shell.objects("topic", "describe", topic)
    found: dict[str, Any] = described["partitions"][number]
    return found


async def reassign(shell: Shell, topic: str, *arguments: str) -> dict[str, Any]:
    (answer,) = await shell.objects("topic", "reassign", topic, "--partition", "0", *arguments)
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("records", [0, 500])
async def test_replicas_move_under_any_leader_with_and_without_traffic(
    shell: Shell, cluster: LocalCluster, records: int
) -> None:
    """Kafka's design V3, both branches: the leader stays, or is not in RAR. Also on a quiet partition, where
    only the reassignment causes any work (CORRECTNESS E16); removed replicas are gone from the disk too."""
    topic = await shell.topic(f"moves-{records}", replication_factor=2)
    lines = [b"%d" % number for number in range(records)]
    await shell.objects("produce", topic, stdin=b"\n".join(lines))
    for wanted in ((1, 2, 3), (3, 4), (1,), (2, 3, 4), (4, 3, 2, 1), (2, 1)):
        answer = await reassign(shell, topic, "--replicas", ",".join(map(str, wanted)), "--wait")
        assert (answer["complete"], answer["replicas"]) == (True, list(wanted))
        await eventually(lambda: is_led_by_the_first(shell, topic), deadline_s=30)
    found = await shell.objects("consume", topic, "--from", "earliest", "--idle-exit", "1")
    assert [record["value"].encode() for record in found] == lines

    def gone() -> bool:
        return not any(path.name.startswith(f"{topic}-0-") for path in cluster.data_dir(4).iterdir())

    await eventually(gone, what="broker 4 has removed its replica")


async def is_led_by_the_first(shell: Shell, topic: str) -> bool:
    now = await partition_of(shell, topic)
    return now["leader"] == now["replicas"][0] and sorted(now["isr"]) == sorted(now["replicas"])


async def test_an_ongoing_reassignment_is_listed_and_can_be_cancelled(shell: Shell) -> None:
    """A replica that does not come is waited for, visibly; a throttle of a byte a second keeps it away."""
    topic = await shell.topic("back", replication_factor=1)
    before = await partition_of(shell, topic)
    here, there = before["replicas"][0], before["replicas"][0] % 4 + 1
    value = b"v" * 10_000
    await shell.objects("produce", topic, stdin=b"\n".join([value] * 300))
    answer = await reassign(shell, topic, "--replicas", str(there), "--throttle", "1")
    assert answer == {
        "topic": topic,
        "partition": 0,
        "cancelled": False,
        "complete": False,
        "replicas": [there],
        "warnings": [],
    }
    (listed,) = await shell.objects("topic", "reassign", "--list")
    assert listed["deadline_at"] > 0
    expected = {
        "topic": topic,
        "partition": 0,
        "original": [here],
        "replicas": [there],
        "isr": [here],
        "adding": [there],
        "removing": [here],
        "throttle": 1,
        "reverting": False,
        "overdue": False,
    }
    assert {key: listed[key] for key in expected} == expected

    async def begun() -> dict[str, Any] | None:
        (now,) = await shell.objects("topic", "reassign", "--list")
        return now if now["bytes_left"] is not None and now["bytes_per_s"] is not None else None

    copied = await eventually(begun, deadline_s=30, what="the new replica has reported")
    assert copied is not None
    total = copied["bytes_done"] + copied["bytes_left"]
    assert total >= 300 * len(value) > copied["bytes_done"]
    (copy,) = copied["copies"]
    assert (copy["broker"], copy["in_sync"], copy["bytes_left"]) == (there, False, copied["bytes_left"])
    watching = await start("topic", "reassign", "--list", "--watch", **shell.environment)
    assert watching.stdout is not None
    async for line in watching.stdout:
        if b"time left" in line:
            break
    answer = await reassign(shell, topic, "--cancel", "--wait")
    assert (answer["cancelled"], answer["complete"], answer["replicas"]) == (True, True, [here])
    assert await shell.objects("topic", "reassign", "--list") == []
    _ = await watching.communicate()
    assert watching.returncode == 0, "it ends with the last reassignment"
    again = await shell("topic", "reassign", topic, "--partition", "0", "--cancel")
    assert again.status == 1
    assert "no reassignment is under way" in again.err


async def test_the_throttle_of_moves_under_way_is_changed_for_one_and_for_all(shell: Shell) -> None:
    """At a byte a second they would take days; without a throttle they end at once."""
    topics = [await shell.topic(f"slow-{number}", replication_factor=1) for number in range(2)]
    targets = {}
    for topic in topics:
        await shell.objects("produce", topic, stdin=b"\n".join([b"v" * 10_000] * 300))
        now = await partition_of(shell, topic)
        targets[topic] = now["replicas"][0] % 4 + 1
        await reassign(shell, topic, "--replicas", str(targets[topic]), "--throttle", "1")
    (changed,) = await shell.objects("topic", "reassign", topics[0], "--partition", "0", "--throttle", "2")
    assert changed == {"topic": topics[0], "partition": 0, "throttle": 2}
    listed = {each["topic"]: each["throttle"] for each in await shell.objects("topic", "reassign", "--list")}
    assert listed == {topics[0]: 2, topics[1]: 1}
    rows = await shell.objects("topic", "reassign", "--all", "--throttle", "0")
    assert sorted(each["topic"] for each in rows) == topics

    await eventually(lambda: nothing_moves(shell), deadline_s=30, what="both moves have ended")

    async def shown() -> bool:
        now = [(await partition_of(shell, topic))["replicas"] for topic in topics]
        return now == [[targets[topic]] for topic in topics]

    await eventually(shown, deadline_s=30, what="the brokers show the new replicas")
    nothing = await shell("topic", "reassign", topics[0], "--throttle", "5")
    assert (nothing.status, "no partition of slow-0 is moving" in nothing.err) == (1, True)
    unknown = await shell("topic", "reassign", "nope", "--throttle", "5")
    assert (unknown.status, "topic 'nope' does not exist" in unknown.err) == (1, True)
    for quiet in (["--all", "--throttle", "5"], ["--list"], ["--list", "--watch"]):
        ended = await shell("topic", "reassign", *quiet)
        assert (ended.status, ended.out) == (0, b"no replica is moving\n")
    for wrong in (
        ["--throttle", "5"],
        [topics[0], "--all", "--throttle", "5"],
        ["--all", "--partition", "0", "--throttle", "5"],
    ):
        assert (await shell("topic", "reassign", *wrong)).status == 2


async def test_a_move_that_is_overdue_ends_the_wait_with_the_reason_and_goes_on_unless_told_otherwise(
    shell: Shell,
) -> None:
    """Kafka's design V3: "probably timeout and raise error". The reason is in `__state_changes` too."""
    topic = await shell.topic("late", replication_factor=1)
    here = (await partition_of(shell, topic))["replicas"][0]
    there = here % 4 + 1
    value = b"v" * 10_000
    await shell.objects("produce", topic, stdin=b"\n".join([value] * 300))
    where = (
        "topic",
        "reassign",
        topic,
        "--partition",
        "0",
        "--wait",
        "--throttle",
        "1",
        "--timeout",
        "0.001",
    )
    late = await shell(*where, "--replicas", str(there))
    assert late.status == 1
    assert f"overdue: {topic}-0: waiting for broker {there} to have all records" in late.err
    (listed,) = await shell.objects("topic", "reassign", "--list")
    assert (listed["overdue"], listed["reverting"]) == (True, False)
    back = await shell(*where, "--replicas", str(there), "--cancel-at-deadline")
    assert back.status == 1
    assert f"{topic}-0: waiting for broker {there} to have all records" in back.err
    assert re.search(f"overdue: .*; it is taken back|overdue, and taken back to {here}: ", back.err)

    async def same_as_before() -> bool:
        return bool((await partition_of(shell, topic))["replicas"] == [here])

    await eventually(same_as_before, deadline_s=60)

    async def reasons() -> list[str]:
        events = await shell.objects("state-changes", "--topic", topic)
        return [event["reason"] for event in events if event["command"] == "reassignment-overdue"]

    async def both() -> bool:
        return len(await reasons()) == 2

    await eventually(both, deadline_s=60, what="both deadlines are recorded")
    on, taken_back = await reasons()
    assert on == f"not complete after 0.001 s: not in sync: broker {there}; it goes on"
    assert taken_back.endswith("; it is taken back")


async def test_the_controllers_requests_are_recorded_even_for_a_broker_that_is_down(
    shell: Shell, cluster: LocalCluster
) -> None:
    """Kafka's design V2, goal 7: the broker, the requester and the reason are visible before the broker
    returns; a reassignment's life is recorded once from its request to its end. A command that waits for it
    says so, and continues."""
    topic = await shell.topic("answer", replication_factor=2)
    await reassign(shell, topic, "--replicas", "1,2", "--wait")
    await cluster.kill_broker(4)
    await reassign(shell, topic, "--replicas", "1,4")

    async def answer() -> bool:
        events = await shell.objects("state-changes", "--topic", topic)
        asked = [e for e in events if e["broker"] == 4 and e.get("reason") == "replicas reassigned"]
        return [(e["state"], e["requester"], e["command"]) for e in asked][-1:] == [
            ("requested", -1, "start-replica")
        ]

    await eventually(answer, deadline_s=30, what="the request for broker 4 is answer")
    again = ("topic", "reassign", topic, "--partition", "0", "--replicas", "1,4", "--wait")
    waiting = await start(*again, **shell.environment)
    assert waiting.stderr is not None
    try:
        async with asyncio.timeout(60):
            while (
                b"answer-0: waiting for broker 4, not alive: start it" not in await waiting.stderr.readline()
            ):
                assert waiting.returncode is None
            await cluster.start_broker(4)
            out, _ = await waiting.communicate()
        assert (waiting.returncode, out) == (0, b"answer-0 has replicas 1,4\n")
    finally:
        if waiting.returncode is None:
            waiting.kill()
            await waiting.wait()
    await eventually(lambda: nothing_moves(shell), deadline_s=30, what="broker 4 is in sync")
    assert (await partition_of(shell, topic))["replicas"] == [1, 4]

    async def ended() -> bool:
        events = await shell.objects("state-changes", "--topic", topic)
        lives: dict[str, list[str]] = {}
        for event in events:
            if event["command"] == "reassign-replicas":
                lives.setdefault(event["id"], []).append(event["state"])
        return [*lives.values()][-1:] == [["requested", "completed"]]

    await eventually(ended, deadline_s=30, what="the reassignment has ended")


async def are_led_by_the_first(shell: Shell, topic: str, partitions: int) -> bool:
    """On a busy machine another replica may have been elected first: the preferred one is asked for then."""
    await shell("topic", "elect", "--preferred", topic)
    (described,) = await shell.objects("topic", "describe", topic)
    return [p["leader"] == p["replicas"][0] for p in described["partitions"]] == [True] * partitions


async def nothing_moves(shell: Shell) -> bool:
    return await shell.objects("topic", "reassign", "--list") == []


async def test_partitions_are_added_and_never_taken_away(shell: Shell) -> None:
    topic = await shell.topic("grows", partitions=2, replication_factor=2)
    (answer,) = await shell.objects(
        "topic", "alter", topic, "--partitions", "5", "--config", "retention.ms=7"
    )
    assert answer == {"topic": topic, "set": {"retention.ms": "7"}, "unset": [], "partitions": 5}

    await eventually(lambda: are_led_by_the_first(shell, topic, 5), deadline_s=30)
    (done,) = await shell.objects("produce", topic, "--partition", "4", stdin=b"x\n")
    assert done["acked"] == 1
    fewer = await shell("topic", "alter", topic, "--partitions", "4")
    assert fewer.status == 1
    assert "cannot be taken away" in fewer.err


async def test_preferred_leaders_lead_again_when_that_is_asked(shell: Shell, cluster: LocalCluster) -> None:
    """Kafka's design V3, checkLoadBalancing on demand: the command's success means that it happened."""
    topic = await shell.topic("preferred", partitions=4, replication_factor=3)
    await eventually(lambda: are_led_by_the_first(shell, topic, 4), deadline_s=30)
    one = await partition_of(shell, topic)
    broker = one["replicas"][0]
    await cluster.stop_broker(broker)
    await cluster.start_broker(broker)

    async def back_in_sync() -> bool:
        (described,) = await shell.objects("topic", "describe", topic)
        return all(sorted(p["isr"]) == sorted(p["replicas"]) for p in described["partitions"])

    await eventually(back_in_sync, deadline_s=30, what="all replicas are in sync again")
    assert (await partition_of(shell, topic))["leader"] != broker
    (answer,) = await shell.objects("topic", "elect", "--preferred", topic)
    assert answer == {"topic": topic, "partition": 0, "elected": True, "error": None}

    async def leads() -> bool:
        (described,) = await shell.objects("topic", "describe", topic)
        return all(p["leader"] == p["replicas"][0] for p in described["partitions"])

    await eventually(leads, what="every preferred leader leads")
    assert await shell.objects("topic", "elect", "--preferred", topic, "--partition", "0") == []
    everywhere = await shell("topic", "elect", "--preferred", "--all")
    assert everywhere.status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["reassign", "t", "--partition", "0"], 2, "--replicas"),
        (["reassign", "t", "--partition", "0", "--replicas", "1", "--cancel"], 2, "--cancel"),
        (["reassign", "t", "--partition", "0", "--replicas", "one"], 2, "1,2,3"),
        (["reassign", "t", "--partition", "0", "--replicas", "0,1,0"], 2, "'0,1,0' names broker 0 twice"),
        (["reassign", "t", "--partition", "0", "--cancel", "--throttle", "5"], 2, "--throttle"),
        (["reassign", "t", "--partition", "0", "--cancel", "--timeout", "5"], 2, "--timeout"),
        (
            ["reassign", "t", "--partition=0", "--replicas=1", "--timeout=0", "--cancel-at-deadline"],
            2,
            "--timeout 0 is no deadline",
        ),
        (["reassign", "nowhere", "--partition", "0", "--replicas", "1"], 1, "nowhere"),
        (["reassign", "nowhere", "--partition", "0", "--replicas", "-1"], 1, "-1"),
        (["reassign", "t", "--replicas", "1"], 2, "--partition"),
        (["reassign", "t", "u", "--partition", "0", "--replicas", "1"], 2, "one partition"),
        (["reassign", "t", "--list"], 2, "name no topic"),
        (["reassign", "--list", "--throttle", "5"], 2, "give one of"),
        (["reassign", "--list", "--wait"], 2, "--wait"),
        (["reassign", "t", "--throttle", "5", "--watch"], 2, "--watch"),
        (["reassign", "t", "--partition", "0", "--cancel", "--all"], 2, "--all"),
        (["elect", "t"], 2, "--preferred or --unclean"),
        (["elect", "--preferred"], 2, "--all"),
        (["elect", "--preferred", "--all", "--partition", "0"], 2, "--partition"),
        (["elect", "--preferred", "t", "--yes"], 2, "--yes"),
        (["elect", "--preferred", "nowhere"], 1, "nowhere"),
        (["elect-preferred", "t"], 2, "use 'strandline topic elect --preferred'"),
        (["reassignments"], 2, "use 'strandline topic reassign --list'"),
        (["throttle", "--all", "--to", "5"], 2, "use 'strandline topic reassign --throttle'"),
        (["alter", "nowhere", "--partitions", "2"], 1, "nowhere"),
        (["alter", "t"], 2, "--partitions"),
    ],
)
async def test_an_impossible_command_fails_with_the_reason(
    shell: Shell, arguments: list[str], status: int, said: str
) -> None:
    """2 for wrong usage, 1 for a failure, with the value."""
    ended = await shell("topic", *arguments)
    assert ended.status == status
    assert said in ended.err
