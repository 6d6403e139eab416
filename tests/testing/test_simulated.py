"""A cluster on virtual time: a seed is a run, time costs nothing, and it is used only within `run`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import structlog

from strandline.errors import SettingsError
from strandline.simulation.engine.loop import Deadlock
from strandline.testing import ConditionNotReached, MemberFailed, NotPossible, SimulatedCluster


async def write(cluster: SimulatedCluster) -> None:
    await cluster.create_topic("topic", partitions=2)
    async with cluster.producer() as producer:
        for number in range(20):
            _ = await producer.send("topic", b"%d" % number)
            if number == 10:
                cluster.kill(cluster.leader("topic"))
        await producer.flush()


def trace(seed: int) -> str:
    with SimulatedCluster(seed=seed) as cluster:
        cluster.run(write(cluster))
        inside = cluster.trace_hash
    assert cluster.trace_hash == inside, "it is readable after the end"
    return inside


def test_one_seed_is_one_run() -> None:
    assert trace(1) == trace(1) != trace(2)


def test_a_second_use_is_the_same_run_from_its_beginning() -> None:
    cluster, traces = SimulatedCluster(seed=1), []
    for _ in range(2):
        with cluster:
            cluster.run(write(cluster))
        traces.append(cluster.trace_hash)
    assert traces == [trace(1)] * 2


@pytest.fixture
def unset_structlog() -> Iterator[None]:
    """As in a program that has not set structlog up."""
    configuration = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    yield
    if configuration is not None:
        structlog.configure(**configuration)


@pytest.mark.usefixtures("unset_structlog")
def test_a_wrong_value_of_a_setting_leaves_nothing_behind() -> None:
    cluster = SimulatedCluster(broker_settings={"keep_in_sync_ms": "soon"})
    for _ in range(2):
        with pytest.raises(SettingsError, match="keep_in_sync_ms"), cluster:
            pytest.fail("it does not start")
    assert not structlog.is_configured()


def test_without_a_seed_one_is_drawn() -> None:
    assert SimulatedCluster().seed != SimulatedCluster().seed


async def test_an_hour_passes_at_once_even_within_another_event_loop() -> None:
    loop = asyncio.get_running_loop()
    with SimulatedCluster(seed=1, brokers=1) as cluster:

        async def wait() -> int:
            await cluster.host.clock.sleep(3600.0)
            return 42

        assert cluster.run(wait()) == 42
        hour = cluster.now_s
        assert 3599 < hour < 3610, "clocks of machines go a little fast or slow"
        assert cluster.run(wait()) == 42
        assert cluster.now_s > hour + 3599, "a second run continues where the first one ended"
    assert asyncio.get_running_loop() is loop


def test_a_wait_that_nothing_can_end_is_reported() -> None:
    with SimulatedCluster(seed=1, brokers=1) as cluster:

        async def wait() -> None:
            cluster.kill(1)
            cluster.kill_controller(1)
            cluster.lose_power(1)
            await asyncio.Event().wait()

        with pytest.raises(Deadlock):
            cluster.run(wait())


def test_a_wait_without_end_beside_a_living_cluster_is_ended() -> None:
    with SimulatedCluster(seed=1, brokers=1) as cluster:

        async def wait() -> None:
            await asyncio.Event().wait()

        with pytest.raises(
            ConditionNotReached, match=r"not ended after 60 s of virtual time[^\n]*\nbroker 1: runs"
        ):
            cluster.run(wait(), timeout_s=60)
        assert cluster.now_s == pytest.approx(60, abs=1)


async def test_it_is_refused_outside_of_a_run() -> None:
    with SimulatedCluster(seed=1, brokers=1) as cluster:
        with pytest.raises(
            NotPossible, match=r"only in a coroutine that `cluster.run\(…\)` runs, but here the"
        ):
            cluster.producer()
        with pytest.raises(NotPossible, match="virtual time passes only"):
            await cluster.run_until(lambda: True)

        async def nested() -> None:
            cluster.run(asyncio.sleep(0))

        with pytest.raises(NotPossible, match="is run by `run` already"):
            cluster.run(nested())
        with pytest.raises(NotPossible, match="runs already"):
            cluster.__enter__()
    with pytest.raises(NotPossible, match="this SimulatedCluster does not run: use it in its `with` block"):
        cluster.kill(1)


def test_it_is_refused_where_no_event_loop_runs() -> None:
    with (
        SimulatedCluster(seed=1, brokers=1) as cluster,
        pytest.raises(NotPossible, match="but here no event loop runs"),
    ):
        cluster.admin()


def test_a_defect_of_a_broker_fails_the_test() -> None:
    cluster = SimulatedCluster(seed=1, brokers=1, broker_settings={"crash_points": "session.reconcile"})

    async def wait() -> None:
        await cluster.run_until(lambda: not cluster.runs(1))

    with pytest.raises(MemberFailed, match=r"broker 1: .*AssertionError"), cluster:
        cluster.run(wait())


def test_a_broker_that_cannot_start_is_reported_at_once() -> None:
    cluster = SimulatedCluster(seed=1, brokers=1, broker_settings={"crash_points": "produce.append:often"})
    with cluster, pytest.raises(MemberFailed, match="broker 1 could not start: setting crash_points = "):
        cluster.run(asyncio.sleep(0))


def test_roles_change_with_the_cluster() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("topic")
        leader, followers = cluster.leader("topic"), cluster.followers("topic")
        assert sorted([leader, *followers]) == cluster.broker_ids
        assert cluster.replicas("topic") == [leader, *followers]
        cluster.isolate(leader)
        new = await cluster.run_until(lambda: {cluster.leader("topic")} - {leader})
        assert new <= set(followers)
        await cluster.run_until(lambda: set(cluster.in_sync("topic")) == set(followers))
        cluster.heal()
        await cluster.run_until(cluster.is_whole)
        assert sorted(cluster.in_sync("topic")) == cluster.broker_ids
        first = cluster.controller()
        cluster.kill_controller(first)
        await cluster.run_until(lambda: cluster.controller() != first)

    with SimulatedCluster(seed=5, controllers=2) as cluster:
        cluster.run(scenario(cluster))


def test_a_broker_without_its_session_registers_anew() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("topic")
        cluster.expire_session(2)
        await cluster.run_until(lambda: 2 not in cluster.registered)
        await cluster.run_until(lambda: not cluster.runs(2) or 2 in cluster.registered)
        cluster.heal()
        await cluster.run_until(cluster.is_whole)
        cluster.stop(1)
        await cluster.run_until(lambda: not cluster.runs(1))
        cluster.lose_zookeeper_leader()
        cluster.start(1)
        await cluster.run_until(cluster.is_whole)

    with SimulatedCluster(seed=6) as cluster:
        cluster.run(scenario(cluster))
