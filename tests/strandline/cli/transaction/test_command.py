"""The transaction commands against a real cluster, as users run them, with a producer of confluent-kafka."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from strandline import Admin
from strandline.ids import TRANSACTIONS_TOPIC
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.strandline.cli.support.cli_process import start
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

DEADLINE_S = 20.0
ANY_AGE = ("--older-than", "0")


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    settings = {"transaction_state_topic_partitions": 3}
    return await make_module_cluster(brokers=1, kafka=True, broker_settings=settings)


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster)


@contextmanager
def producer(cluster: LocalCluster, name: str) -> Iterator[Producer]:
    """A producer that has initialized."""
    made = Producer({"bootstrap.servers": cluster.kafka_bootstrap, "transactional.id": name})
    made.init_transactions(DEADLINE_S)
    try:
        yield made
    finally:
        made.purge()


def write(cluster: LocalCluster, name: str, topic: str) -> None:
    """A committed transaction, and an open one whose producer has gone."""
    with producer(cluster, name) as made:
        for commit in (True, False):
            made.begin_transaction()
            made.produce(topic, b"value", partition=0)
            made.flush(DEADLINE_S)
            if commit:
                made.commit_transaction(DEADLINE_S)


async def test_transactions_are_listed_described_and_aborted(cluster: LocalCluster, shell: Shell) -> None:
    """Shapes of `transaction list` and `transaction describe`. A transaction that a coordinator has does not
    hang, and is not aborted in one log."""
    topic = await shell.topic("listed", replication_factor=1)
    await asyncio.to_thread(write, cluster, "pay", topic)
    (listed,) = await shell.objects("transaction", "list", "--state", "Ongoing", *ANY_AGE)
    assert (listed["transactional_id"], listed["state"]) == ("pay", "Ongoing")
    assert listed["open_ms"] > 0 and listed["started_ms"] > 0
    (described,) = await shell.objects("transaction", "describe", "pay")
    assert described["partitions"] == {topic: [0]}
    assert described["coordinator"]["id"] == 1
    assert described["timeout_ms"] == 60_000
    text = (await shell("transaction", "describe", "pay")).out
    assert b"state             Ongoing" in text and b"listed:0" in text
    assert await shell.objects("transaction", "find-hanging", *ANY_AGE) == []
    assert "no transaction hangs" in (await shell("transaction", "find-hanging", *ANY_AGE)).err
    at = ("--topic", topic, "--partition", "0", "--start-offset", "2")
    refused = await shell("transaction", "abort", *at)
    assert refused.status == 1 and "its coordinator has it" in refused.err
    assert await shell.objects("transaction", "abort", "pay") == [
        {"transactional_id": "pay", "aborted": True}
    ]
    assert await shell.objects("transaction", "list", "--state", "Ongoing") == []
    again = await shell("transaction", "abort", "pay")
    assert again.status == 1 and "nothing to abort" in again.err
    assert b"CompleteAbort" in (await shell("transaction", "list")).out
    unknown = await shell("transaction", "describe", "unknown", "pay")
    assert unknown.status == 1 and "not known" in unknown.err
    assert b"transactional id  pay" in unknown.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_input_is_aborted_at_once(shell: Shell, number: signal.Signals) -> None:
    """And the command says so: nothing of its input counts."""
    topic = await shell.topic(f"cut-{number.name.lower()}", replication_factor=1)
    process = await start("produce", topic, "--transactional-id", topic, "-o", "json", **shell.environment)
    assert process.stdin is not None
    process.stdin.write(b"one\ntwo\n")
    await process.stdin.drain()

    async def state() -> str:
        found = await shell.objects("transaction", "list")
        return "".join(str(each["state"]) for each in found if each["transactional_id"] == topic)

    await eventually(lambda: is_in(state, "Ongoing"))
    process.send_signal(number)
    out, _ = await process.communicate()
    assert process.returncode == 130
    assert json.loads(out) == {
        "topic": topic, "acked": 0, "failed": 2, "error": "interrupted: the transaction is aborted",
    }  # fmt: skip
    await eventually(lambda: is_in(state, "CompleteAbort"))


async def is_in(state: Callable[[], Awaitable[str]], wanted: str) -> bool:
    return await state() == wanted


@pytest.mark.parametrize(
    "arguments", [(), ("pay", "--topic", "t"), ("--topic", "t", "--partition", "0"), ("--partition", "0")]
)
async def test_an_abort_names_an_id_or_a_place(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert (await shell("transaction", "abort", *arguments)).status == 2


@pytest.mark.timeout(120)
async def test_a_transaction_whose_coordinator_lost_its_log_is_found_and_aborted(
    cluster: LocalCluster, shell: Shell
) -> None:
    topic = await shell.topic("hanging", replication_factor=1)
    await asyncio.to_thread(write, cluster, "lost", topic)
    await cluster.stop_broker(1)
    for folder in cluster.data_dir(1).glob(f"{TRANSACTIONS_TOPIC}-*"):
        shutil.rmtree(folder)
    await cluster.start_broker(1)
    async with Admin(cluster.bootstrap) as admin:

        async def led() -> bool:
            """Its partitions are elected as soon as the controller knows that they have no leader."""
            await admin.elect_unclean()
            (found,) = await admin.describe_topics([TRANSACTIONS_TOPIC])
            return all(each.leader > 0 for each in found.partitions)

        await eventually(led)
    assert await shell.objects("transaction", "find-hanging") == []  # not that old
    (found,) = await shell.objects("transaction", "find-hanging", topic, *ANY_AGE)
    assert (found["topic"], found["partition"], found["start_offset"]) == (topic, 0, 2)
    shown = await shell("transaction", "find-hanging", *ANY_AGE)
    command = "transaction abort --topic hanging --partition 0 --start-offset 2"
    assert command in shown.err and b"hanging" in shown.out
    assert (await shell(*command.split())).out == b"aborted at offset 2 of hanging-0\n"
    assert await shell.objects("transaction", "find-hanging", *ANY_AGE) == []
    assert (await shell(*command.split())).status == 1
