"""`topic elect --unclean`, as its users run it after a disk lost a folder (CORRECTNESS E18)."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.strandline.cli.support.cli_process import Ended, ended, start
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

pytestmark = pytest.mark.slow

QUICK = {"reconcile_ms": 500}


@pytest.fixture
async def cluster(make_cluster: ClusterFactory) -> LocalCluster:
    return await make_cluster(brokers=1, broker_settings=QUICK)


@pytest.mark.timeout(120)
async def test_the_loss_is_shown_before_the_election_is_requested(cluster: LocalCluster) -> None:
    """One topic by name, then all of them; the rest is led and left alone."""
    shell = Shell(cluster)
    topics = await lost(cluster, shell, 2)

    async def asked(*arguments: str, stdin: bytes = b"") -> Ended:
        return await shell("topic", "elect", "--unclean", *arguments, stdin=stdin)

    async def can_be_elected() -> Ended | None:
        ended = await asked("--all", stdin=b"n\n")
        return ended if ended.out.count(b"would lead") == 2 else None

    refused = await eventually(can_be_elected, deadline_s=30)
    assert refused is not None
    assert b"lost-0-0: broker 1 would lead from offset 0 on (broker 1 lost its log)" in refused.out
    assert b"committed records 0 to 2 are missing; more may be missing from 3 on" in refused.out
    assert (refused.status, refused.err.endswith("nothing was done\n")) == (1, True)

    done = await asked("lost-0", stdin=b"y\n")
    assert done.status == 0, done.err
    assert b"lost-0-0: broker 1 leads from offset 0 on" in done.out
    (row,) = await shell.objects("topic", "elect", "--unclean", "--all", "--yes")
    assert (row["topic"], row["elected"], row["log_end"], row["lost_to"]) == ("lost-1", True, 0, 3)
    assert [await leader(shell, topic) for topic in topics] == [1, 1]

    again = await asked("lost-0", "--partition", "0", "--yes")
    assert (again.status, again.out.strip()) == (1, b"lost-0-0: broker 1 leads")
    nothing = await asked("--all")
    assert (nothing.status, nothing.out.strip()) == (0, b"all partitions are led")
    for arguments in ([], ["lost-0", "--all"], ["lost-0", "lost-1", "--partition", "0"]):
        assert (await asked(*arguments)).status == 2


@pytest.mark.timeout(120)
async def test_a_confirmed_plan_is_of_the_topic_that_it_was_shown_for(cluster: LocalCluster) -> None:
    """A topic that is made anew before the answer keeps its records, and what was shown is not done."""
    shell = Shell(cluster)
    await lost(cluster, shell, 1)

    async def can_be_elected() -> bool:
        ended = await shell("topic", "elect", "--unclean", "--all", stdin=b"n\n")
        return b"would lead" in ended.out

    await eventually(can_be_elected, deadline_s=30)
    process = await start("topic", "elect", "--unclean", "lost-0", **shell.environment)
    assert process.stderr is not None
    await process.stderr.readuntil(b"Elect?")
    await shell("topic", "delete", "lost-0")
    await shell.topic("lost-0", replication_factor=1)
    answered = await ended(process, b"y\n")
    assert answered.status == 1
    assert b"topic 'lost-0' is another one by now" in answered.out


async def lost(cluster: LocalCluster, shell: Shell, count: int) -> list[str]:
    """Topics whose only replica has lost its log of three records."""
    topics = [await shell.topic(f"lost-{number}", replication_factor=1) for number in range(count)]
    for topic in topics:
        await shell.objects("produce", topic, stdin=b"a\nb\nc")
    await cluster.stop_broker(1)
    for topic in topics:
        (folder,) = cluster.data_dir(1).glob(f"{topic}-0-*")
        shutil.rmtree(folder)
    await cluster.start_broker(1)
    return topics


async def leader(shell: Shell, topic: str) -> Any:
    (described,) = await shell.objects("topic", "describe", topic)
    return described["partitions"][0]["leader"]
