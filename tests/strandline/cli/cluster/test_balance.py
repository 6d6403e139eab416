"""`cluster balance`, as operators run it: the plan, the moves, and what is said of them."""

from __future__ import annotations

import pytest

from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.strandline.cli.support.shell import Shell

pytestmark = pytest.mark.slow

TOPIC = "tides"


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """Four brokers; the topic is on three of them."""
    return await make_module_cluster(brokers=4)


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster)


async def replicas(shell: Shell) -> list[list[int]]:
    (described,) = await shell.objects("topic", "describe", TOPIC)
    return [row["replicas"] for row in described["partitions"]]


async def test_a_topic_is_spread_over_a_new_broker_and_the_command_shows_it(shell: Shell) -> None:
    """From the plan to its end; the events of each move have the cause and who asked."""
    await shell.topic(TOPIC, partitions=4, replication_factor=3)
    for number in range(4):
        move = ("--partition", f"{number}", "--replicas", "1,2,3", "--wait")
        await shell.objects("topic", "reassign", TOPIC, *move)
    before = await replicas(shell)
    records = b"\n".join(b"%d:v" % number for number in range(1_000))
    await shell.objects("produce", TOPIC, "--key-separator", ":", stdin=records)
    (plan,) = await shell.objects("cluster", "balance", "--dry-run", "--topic", TOPIC)
    assert {row["before"]["bytes"] > 0 for row in plan["brokers"] if row["before"]["replicas"]} == {True}
    assert await replicas(shell) == before
    assert (plan["started"], plan["copies"]) == (False, 3)
    after = {row["broker"]: row["after"] for row in plan["brokers"]}
    assert {(load["replicas"], load["preferred"]) for load in after.values()} == {(3, 1)}
    slow = ("--throttle", "1000")
    shown = (await shell("cluster", "balance", "--dry-run", "--topic", TOPIC, *slow)).out.decode()
    assert f"{TOPIC}-{plan['moves'][0]['partition']}" in shown and "3 replicas to copy" in shown
    assert "at most 1.0 kB/s for each partition: hardly felt by any move" in shown
    between = ("cluster", "balance", "--dry-run", "--topic", TOPIC, "--brokers", "1,2")
    (named,) = await shell.objects(*between)
    assert {row["broker"]: row["kept_because"] for row in named["brokers"]} == {
        1: None, 2: None, 3: "not named", 4: "not named",
    }  # fmt: skip
    assert "stays as it is: not named" in (await shell(*between)).out.decode()
    (ended,) = await shell.objects("cluster", "balance", "--topic", TOPIC, "--wait")
    assert (ended["state"], ended["done"], ended["left"]) == ("completed", len(plan["moves"]), 0)
    wanted = {row["partition"]: row["after"] for row in plan["moves"]}
    assert {number: (await replicas(shell))[number] for number in wanted} == wanted
    events = await shell.objects("state-changes", "--topic", TOPIC)
    asked = [
        each for each in events if each["command"] == "reassign-replicas" and each.get("reason") == "balance"
    ]
    assert {each["partition"] for each in asked} == set(wanted)
    assert {each["state"] for each in asked} == {"requested"}
    assert {each["by"]["principal"] for each in asked} == {"User:ANONYMOUS"}
    again = await shell("cluster", "balance", "--topic", TOPIC)
    assert (again.status, "nothing moves" in again.out.decode()) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--status", "--pause"), "--status and --pause exclude each other"),
        (("--cancel", "--topic", "t"), "--cancel is about the balance under way"),
        (("--revert",), "give --cancel as well"),
        (("--dry-run", "--wait"), "there is none to wait for"),
        (("--brokers", "1,x"), "'1,x' is not of the form 1,2,3"),
        (("--brokers", "1,2,1"), "'1,2,1' names broker 1 twice"),
    ],
)
async def test_options_that_contradict_each_other_are_refused(
    shell: Shell, arguments: tuple[str, ...], said: str
) -> None:
    ended = await shell("cluster", "balance", *arguments)
    assert (ended.status, said in ended.err) == (2, True)
