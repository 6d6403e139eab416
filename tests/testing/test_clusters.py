"""The clusters for users' tests, on virtual and on real time: the same clients, faults and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strandline import Admin, Consumer, TopicPartition
from strandline.errors import BrokerNotAvailable, SettingsError
from strandline.host import Host
from strandline.simulation.engine.no_outside import NotPlayed
from strandline.testing import (
    ConditionNotReached,
    MemberFailed,
    MemoryCluster,
    NotPossible,
    SimulatedCluster,
    UnknownMember,
)
from strandline.testing.played import PlayedCluster

Scenario = Callable[[PlayedCluster], Awaitable[None]]
Run = Callable[[Scenario], Awaitable[None]]

RECORDS = 60


@pytest.fixture(params=["simulated", "memory"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a scenario on one of the two clusters."""

    async def simulated(scenario: Scenario) -> None:
        async def whole() -> None:
            await scenario(cluster)

        with SimulatedCluster(seed=3) as cluster:
            cluster.run(whole())

    async def memory(scenario: Scenario) -> None:
        async with MemoryCluster() as cluster:
            await scenario(cluster)

    return simulated if request.param == "simulated" else memory


async def produce(cluster: PlayedCluster, fault: Callable[[int], None]) -> None:
    """Every record is acknowledged, with what `fault(number)` does before each."""
    async with cluster.producer() as producer:
        for number in range(RECORDS):
            fault(number)
            _ = await producer.send("topic", b"%d" % number, partition=number % 2)
            await cluster.host.clock.sleep(0.01)
        await producer.flush()


async def consume(cluster: PlayedCluster) -> list[int]:
    async with cluster.consumer(group_id="group", offset_reset="earliest") as consumer:
        consumer.subscribe(["topic"])
        return [int((await anext(consumer)).value or b"") for _ in range(RECORDS)]


async def test_records_arrive_although_leaders_are_killed_paused_and_cut_off(run: Run) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.create_topic("topic", partitions=2)

        def fault(number: int) -> None:
            if number == 10:
                cluster.kill(cluster.leader("topic", 0))
            elif number == 20:
                cluster.pause(cluster.leader("topic", 1))
            elif number == 30:
                cluster.heal()
            elif number == 40:
                cluster.cut("test", cluster.leader("topic", 0))
            elif number == 50:
                cluster.heal()

        await produce(cluster, fault)
        await cluster.run_until(cluster.is_whole)
        assert sorted(await consume(cluster)) == list(range(RECORDS))
        assert cluster.coordinator("group") in cluster.broker_ids

    await run(scenario)


async def test_a_broker_without_power_comes_back_and_catches_up(run: Run) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.create_topic("topic", partitions=2)
        leader = cluster.leader("topic", 0)
        cluster.lose_power(leader)
        with pytest.raises(NotPossible, match=f"broker {leader} cannot start: its machine has no power"):
            cluster.start(leader)
        await produce(cluster, lambda number: None)
        assert leader not in cluster.in_sync("topic", 0)
        cluster.return_power(leader)
        cluster.start(leader)
        await cluster.run_until(lambda: leader in cluster.in_sync("topic", 0))

    await run(scenario)


async def test_healing_brings_back_a_broker_that_shuts_down_and_one_whose_disk_was_full(run: Run) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.create_topic("topic", partitions=2)
        cluster.fill_disk(2)
        await produce(cluster, lambda number: None)
        assert 2 not in cluster.in_sync("topic", 0)
        cluster.stop(1)
        cluster.pause(3)
        cluster.stop(3)
        cluster.heal()
        await cluster.run_until(cluster.is_whole)
        assert all(map(cluster.runs, cluster.broker_ids))
        assert sorted(await consume(cluster)) == list(range(RECORDS))

    await run(scenario)


FAULTS: list[Callable[[PlayedCluster], None]] = [
    lambda cluster: cluster.kill(1),
    lambda cluster: cluster.lose_power(1),
    lambda cluster: cluster.stop(1),
    lambda cluster: cluster.expire_session(1),
    lambda cluster: cluster.kill_controller(1),
]


@pytest.mark.parametrize("fault", FAULTS, ids=["kill", "power", "stop", "session", "controller"])
async def test_a_cluster_is_not_whole_from_a_fault_on_until_the_next_life_serves(
    fault: Callable[[PlayedCluster], None],
) -> None:
    async def scenario() -> None:
        await cluster.create_topic("topic")
        await cluster.run_until(cluster.is_whole)
        fault(cluster)
        assert not cluster.is_whole()
        cluster.heal()
        assert not cluster.is_whole(), "ZooKeeper still shows the life before"
        await cluster.run_until(cluster.is_whole)
        async with cluster.producer() as producer:
            _ = await producer.send_and_wait("topic", b"x")
        assert cluster.is_whole(), "nothing of the fault is still to come"
        cluster.pause(2)
        assert not cluster.is_whole()
        cluster.resume(2)
        assert cluster.is_whole()

    with SimulatedCluster(seed=4) as cluster:
        cluster.run(scenario())


async def test_an_application_is_killed_without_a_finally_and_runs_again(run: Run) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.create_topic("topic", partitions=2)
        seen: list[bytes | None] = []
        steps: list[str] = []

        async def main(host: Host) -> None:
            steps.append("begun")
            try:
                async with Consumer(cluster.bootstrap, host=host, offset_reset="earliest") as consumer:
                    consumer.assign([TopicPartition("topic", 0)])
                    async for record in consumer:
                        seen.append(record.value)
            finally:
                steps.append("ended")

        async with cluster.producer() as producer:
            await (await producer.send("topic", b"one", partition=0))
            reader = cluster.application("reader", main)
            await cluster.run_until(lambda: seen == [b"one"])
            reader.kill()
            assert (reader.state, steps) == ("ended", ["begun"])
            with pytest.raises(NotPossible, match="cannot kill application reader: ended"):
                reader.kill()
            reader.start()
            await cluster.run_until(lambda: seen == [b"one", b"one"])
            reader.cancel()
            await cluster.finished(reader)
            assert steps == ["begun", "begun", "ended"]

    await run(scenario)


async def test_an_application_that_has_just_been_started_is_cancelled_in_each_life(run: Run) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        async def main(host: Host) -> None:
            await host.clock.sleep(3600.0)

        idle = cluster.application("idle", main)
        idle.cancel()
        await cluster.finished(idle, timeout_s=1)
        idle.start()
        idle.cancel()
        await cluster.finished(idle, timeout_s=1)

    await run(scenario)


async def test_an_isolated_broker_is_out_of_reach_for_an_application_that_is_made_later(run: Run) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.create_topic("topic")
        leader = cluster.leader("topic")
        alone = cluster.bootstrap.split(",")[leader - 1]

        async def main(host: Host) -> None:
            async with Admin(alone, host=host, request_timeout_ms=200) as admin:
                _ = await admin.describe_topics()

        cluster.isolate(leader)
        with pytest.raises(BrokerNotAvailable, match="is unreachable"):
            await cluster.finished(cluster.application("late", main))
        cluster.heal()
        await cluster.finished(cluster.application("later", main))

    await run(scenario)


async def test_an_application_hears_why_it_has_no_sockets_and_no_subprocesses(run: Run) -> None:
    async def dials(host: Host) -> None:
        _ = await asyncio.open_connection("localhost", 5432)

    async def spawns(host: Host) -> None:
        _ = await asyncio.create_subprocess_exec("true")

    async def scenario(cluster: PlayedCluster) -> None:
        with pytest.raises(NotPlayed, match="create_connection is not possible here: this code runs in a"):
            await cluster.finished(cluster.application("dials", dials))
        with pytest.raises(NotImplementedError, match="subprocess_exec is not possible here"):
            await cluster.finished(cluster.application("spawns", spawns))

    await run(scenario)


async def test_an_error_of_an_application_fails_the_test_unless_it_looks_at_it(run: Run) -> None:
    async def main(host: Host) -> None:
        raise LookupError("no such order")

    async def looks(cluster: PlayedCluster) -> None:
        with pytest.raises(LookupError, match="no such order"):
            await cluster.finished(cluster.application("billing", main))

    async def does_not(cluster: PlayedCluster) -> None:
        billing = cluster.application("billing", main)
        await cluster.run_until(lambda: not billing.runs)

    await run(looks)
    with pytest.raises(MemberFailed, match=r"application billing failed: LookupError\('no such order'\)"):
        await run(does_not)


async def test_a_condition_that_is_not_reached_shows_what_was_seen(run: Run) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        cluster.kill(2)
        await cluster.create_topic("topic", replication_factor=2)
        records: list[str] = []
        with pytest.raises(ConditionNotReached) as caught:
            await cluster.run_until(lambda: records, timeout_s=0.1)
        text = str(caught.value)
        assert "not reached within 0.1 s: await cluster.run_until(lambda: records, timeout_s=0.1)" in text
        assert "looks: []" in text
        assert "broker 1: runs, registered" in text
        assert "broker 2: killed or stopped" in text
        assert "controller 1: runs, active" in text
        with pytest.raises(ZeroDivisionError):
            await cluster.run_until(lambda: 1 // len(records))

    await run(scenario)


async def test_wrong_names_say_which_there_are(run: Run) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        with pytest.raises(UnknownMember, match="there is no broker 4; the brokers are 1 to 3"):
            cluster.kill(4)
        with pytest.raises(UnknownMember, match="there is no topic 'orders'; the topics are"):
            cluster.leader("orders")
        with pytest.raises(UnknownMember, match="'brokers' is no party"):
            cluster.cut("brokers", 1)  # type: ignore[arg-type]  # a user without types
        with pytest.raises(NotPossible, match="broker 1 runs already"):
            cluster.start(1)
        with pytest.raises(NotPossible, match="broker 1 is not paused"):
            cluster.resume(1)

    await run(scenario)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"brokers": 0}, "brokers = 0: a cluster has 1 to 100"),
        ({"broker_settings": {"keep_in_sink_ms": 3}}, "broker_settings has no 'keep_in_sink_ms'"),
        ({"controller_settings": {"retries": 3}}, "controller_settings has no 'retries'"),
    ],
)
def test_wrong_settings_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    for kind in (SimulatedCluster, MemoryCluster):
        with pytest.raises(SettingsError, match=message):
            kind(**arguments)
