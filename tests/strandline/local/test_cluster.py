"""A cluster of real processes, to be killed, hung, started and found again (DESIGN, 9 and 11)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from strandline.adapters.zookeeper.connect import connect
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError
from strandline.local.cluster import LocalCluster
from strandline.local.layout import Layout
from strandline.local.members.member_status import MemberStatus
from strandline.local.ports import LOOPBACK, free_ports
from strandline.local.process import Process, ProcessFailed
from tests.conftest import ClusterFactory
from tests.waiting import eventually


def running(pid: int) -> bool:
    """False for one that is gone though its parent has not asked for its exit status yet."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def pids(cluster: LocalCluster) -> dict[tuple[str, int], int | None]:
    return {(member.kind, member.id): member.pid for member in cluster.members()}


@contextmanager
def taken(port: int) -> Iterator[None]:
    with socket.create_server((LOOPBACK, port)):
        yield


async def registered(cluster: LocalCluster) -> set[int]:
    """The brokers that ZooKeeper has."""
    session = await connect(ZooKeeperSettings(zookeeper=cluster.zookeeper))
    try:
        return set(map(int, await session.children("/brokers/ids")))
    finally:
        await session.close()


async def test_a_cluster_serves_within_its_context_and_is_gone_after_it() -> None:
    """The fixture that others use in their own tests (DESIGN, "Python")."""
    async with LocalCluster(brokers=3) as cluster:
        assert cluster.broker_ids == [1, 2, 3]
        assert cluster.controller_ids == [1]
        assert cluster.bootstrap == ",".join(map(cluster.address, cluster.broker_ids))
        members = cluster.members()
        assert [(m.kind, m.id) for m in members] == [
            ("zookeeper", 1), ("controller", 1), ("broker", 1), ("broker", 2), ("broker", 3)
        ]  # fmt: skip
        assert all(member.alive for member in members)
        assert len({member.port for member in members}) == 5
        assert await registered(cluster) == {1, 2, 3}
        assert all(cluster.data_dir(n).is_relative_to(cluster.directory) for n in cluster.broker_ids)
        started = [member.pid for member in members]
    assert not cluster.directory.exists()
    assert not any(pid is not None and running(pid) for pid in started)


@pytest.mark.slow
async def test_a_killed_broker_comes_back_on_its_port_and_its_data(make_cluster: ClusterFactory) -> None:
    cluster = await make_cluster(brokers=1, controllers=0)
    pid, address = cluster.pid(1), cluster.address(1)
    await cluster.kill_broker(1)
    assert not running(pid)
    with pytest.raises(SettingsError, match="broker 1 does not run"):
        cluster.pid(1)
    await cluster.start_broker(1)
    assert cluster.pid(1) != pid
    assert cluster.address(1) == address
    assert any(cluster.data_dir(1).iterdir())
    with pytest.raises(SettingsError, match="broker 1 runs already"):
        await cluster.start_broker(1)


@pytest.mark.slow
async def test_a_stopped_broker_leaves_zookeeper_before_it_is_gone(make_cluster: ClusterFactory) -> None:
    """SIGTERM is a clean shutdown: its registration does not wait for a timeout (DESIGN, "Running it")."""
    cluster = await make_cluster(
        brokers=2, controllers=0, broker_settings={"zookeeper_session_timeout_ms": 60_000}
    )
    await cluster.stop_broker(1)
    assert await registered(cluster) == {2}


@pytest.mark.slow
async def test_a_paused_broker_hangs_until_it_is_resumed(make_cluster: ClusterFactory) -> None:
    """It answers nothing and closes nothing, and ZooKeeper forgets it after the session timeout."""
    cluster = await make_cluster(
        brokers=2, controllers=0, broker_settings={"zookeeper_session_timeout_ms": 1_000}
    )
    cluster.pause_broker(2)
    state = Path(f"/proc/{cluster.pid(2)}/status")
    await eventually(lambda: "State:\tT" in state.read_text())

    async def only_one() -> bool:
        return await registered(cluster) == {1}

    async def both() -> bool:
        return await registered(cluster) == {1, 2}

    await eventually(only_one)
    cluster.resume_broker(2)
    await eventually(both)


@pytest.mark.slow
async def test_settings_reach_the_broker_and_stay_with_it(make_cluster: ClusterFactory) -> None:
    """Also glibc's two thresholds, without which large messages cost page faults (PERFORMANCE)."""
    cluster = await make_cluster(
        brokers=2,
        controllers=0,
        racks=["east", "west"],
        broker_settings={"keep_in_sync_ms": 750},
        spawn=Process.spawn,
    )

    def environment(broker_id: int) -> list[str]:
        return Path(f"/proc/{cluster.pid(broker_id)}/environ").read_text().split("\0")

    for broker_id, rack in ((1, "east"), (2, "west")):
        assert {
            "STRANDLINE_KEEP_IN_SYNC_MS=750",
            f"STRANDLINE_RACK={rack}",
            "MALLOC_MMAP_THRESHOLD_=268435456",
            "MALLOC_TRIM_THRESHOLD_=268435456",
        } <= set(environment(broker_id))
    await cluster.kill_broker(1)
    await cluster.start_broker(1, handover_ms=99, election_step_ms=99)
    await cluster.kill_broker(1)
    await cluster.start_broker(1)
    assert {
        "STRANDLINE_KEEP_IN_SYNC_MS=750",
        "STRANDLINE_HANDOVER_MS=99",
        "STRANDLINE_TEST_ELECTION_STEP_MS=99",
    } <= set(environment(1))


@pytest.mark.slow
async def test_a_broker_is_added_with_the_next_id(make_cluster: ClusterFactory) -> None:
    cluster = await make_cluster(brokers=1, controllers=0)
    assert await cluster.add_broker(rack="north") == 2
    assert await registered(cluster) == {1, 2}
    assert cluster.bootstrap.count(",") == 1
    assert cluster.members()[-1].rack == "north"


@pytest.mark.slow
async def test_zookeeper_is_killed_and_started_under_the_brokers(make_cluster: ClusterFactory) -> None:
    cluster = await make_cluster(brokers=1, controllers=0, zookeeper=None)
    await cluster.kill_zookeeper()
    assert not cluster.members()[0].alive
    await cluster.start_zookeeper()

    async def back() -> bool:
        return await registered(cluster) == {1}

    await eventually(back)


async def test_a_detached_cluster_is_found_again_and_only_what_lacks_is_started(tmp_path: Path) -> None:
    """`strandline up` does this on an existing folder."""
    home = tmp_path / "home"
    first = LocalCluster(2, controllers=0, directory=home, detached=True)
    async with first:
        before = pids(first)
    second = LocalCluster.open(home)
    try:
        assert pids(second) == before
        assert second.bootstrap == first.bootstrap
        await second.kill_broker(2)
        third = LocalCluster.open(home)
        assert [m.alive for m in third.members()] == [True, True, False]
        await third.start()
        after = pids(third)
        assert after["broker", 2] is not None
        assert {**before, ("broker", 2): None} == {**after, ("broker", 2): None}
        with pytest.raises(SettingsError, match="holds a cluster already"):
            LocalCluster(2, directory=home)
    finally:
        await LocalCluster.open(home).stop()
    assert [m.alive for m in LocalCluster.open(home).members()] == [False, False, False]
    assert not any(pid is not None and running(pid) for pid in after.values())


async def test_a_pid_that_another_process_has_now_is_left_alone(tmp_path: Path) -> None:
    cluster = LocalCluster(1, controllers=0, directory=tmp_path / "home")
    await cluster.start()
    await cluster.stop(clean=False)
    layout = Layout(tmp_path / "home")
    file = layout.read()
    file.brokers[0].pid, file.brokers[0].started = os.getpid(), 1
    layout.write(file)
    found = LocalCluster.open(tmp_path / "home")
    assert not any(member.alive for member in found.members())
    await found.stop(clean=False)


@pytest.mark.slow
async def test_clusters_live_side_by_side(make_cluster: ClusterFactory) -> None:
    async with asyncio.TaskGroup() as group:
        starting = [group.create_task(make_cluster(brokers=1, controllers=0)) for _ in range(2)]
    left, right = (task.result() for task in starting)
    assert left.directory != right.directory
    assert not {m.port for m in left.members()} & {m.port for m in right.members()}
    await left.kill_broker(1)
    assert await registered(right) == {1}


async def test_a_process_that_dies_at_start_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    """And nothing of the cluster is left running. A port may be taken after it was looked at."""
    with ExitStack() as stack:

        def spawn(name: str, *arguments: Any, **options: Any) -> Process:
            if name == "broker-1":
                stack.enter_context(taken(port))
            return Process.spawn(name, *arguments, **options)

        cluster = LocalCluster(2, controllers=0, directory=tmp_path / "home", spawn=spawn)
        port = cluster.members()[-1].port
        with pytest.raises(ProcessFailed, match=rf"broker-2 died before it served.*{port}"):
            await cluster.start()
    assert not any(member.alive for member in cluster.members())


@pytest.mark.parametrize("in_folder", [True, False])
async def test_a_new_cluster_whose_ports_are_taken_starts_nothing_and_leaves_no_folder(
    tmp_path: Path, in_folder: bool
) -> None:
    """All of them are named, of every kind."""
    (kafka_port,) = free_ports(1)
    home = tmp_path / "home" if in_folder else None
    cluster = LocalCluster(1, directory=home, kafka_port=kafka_port)
    zookeeper, controller, _ = cluster.members()
    ports = {
        zookeeper.port: "ZooKeeper",
        controller.metrics_port: "metrics of controller 1",
        kafka_port: "Kafka clients of broker 1",
    }
    with ExitStack() as stack:
        for port in ports:
            assert port is not None
            stack.enter_context(taken(port))
        with pytest.raises(SettingsError, match="nothing was started") as refused:
            await cluster.start()
    for port, use in ports.items():
        assert f"{port} ({use}) is taken" in refused.value.message
    assert refused.value.message.count("taken") == len(ports)
    assert not cluster.directory.exists()


async def test_a_start_whose_ports_another_start_has_is_refused_for_that_reason(tmp_path: Path) -> None:
    """Otherwise a user who repeats a command is sent to look for other ports."""
    home = tmp_path / "home"
    cluster = LocalCluster(0, directory=home)
    zookeeper, _ = cluster.members()
    with taken(zookeeper.port):
        with Layout(home).lock(), pytest.raises(SettingsError, match="another process is starting"):
            await cluster.start()
        with pytest.raises(SettingsError, match=f"{zookeeper.port} .* is taken"):
            await cluster.start()


async def test_a_port_that_two_members_would_have_is_refused(tmp_path: Path) -> None:
    """Kafka's ports and those above the base port are chosen one at a time."""
    base_port = free_ports(1)[0]
    cluster = LocalCluster(1, directory=tmp_path / "home", base_port=base_port, kafka_port=base_port + 200)
    twice = f"{base_port + 200} is for ZooKeeper and Kafka clients of broker 1"
    with pytest.raises(SettingsError, match=twice):
        await cluster.start()
    assert not cluster.directory.exists()


async def test_a_member_of_another_cluster_on_the_port_does_not_count(tmp_path: Path) -> None:
    """It answers that it serves, while the one that was started dies of the taken port."""
    async with LocalCluster(1, controllers=0, directory=tmp_path / "one") as one:
        layout = Layout(tmp_path / "two")
        other = LocalCluster(1, controllers=0, directory=layout.directory)
        await other.start()
        await other.stop(clean=False)
        file = layout.read()
        file.brokers[0].port = one.members()[-1].port
        layout.write(file)
        with pytest.raises(ProcessFailed, match="broker-1 died before it served"):
            await LocalCluster.open(layout.directory).start()
        again = LocalCluster.open(layout.directory)
        assert [member.alive for member in again.members()] == [True, False]
        await again.stop(clean=False)


async def test_the_later_of_two_clusters_made_in_one_folder_is_refused(tmp_path: Path) -> None:
    """Also if both had looked before either began; the cluster that is there stays as it is."""
    home = tmp_path / "home"
    first, second = (LocalCluster(0, controllers=0, directory=home, detached=True) for _ in range(2))
    with Layout(home).lock(), pytest.raises(SettingsError, match="another process is starting"):
        await first.start()
    async with first:
        with pytest.raises(SettingsError, match="holds a cluster already"):
            await second.start()
        assert pids(LocalCluster.open(home)) == pids(first)
    assert await LocalCluster.open(home).stop(clean=False) == 1


async def test_members_that_another_process_started_meanwhile_are_stopped_too(tmp_path: Path) -> None:
    """`strandline down` may have read the folder while `strandline up` was under way."""
    home = tmp_path / "home"
    async with LocalCluster(0, controllers=0, directory=home, detached=True) as cluster:
        await cluster.stop(clean=False)
        early = LocalCluster.open(home)
        await LocalCluster.open(home).start()
    assert await early.stop(clean=False) == 1
    assert not LocalCluster.open(home).members()[0].alive


async def test_a_failed_start_leaves_members_that_ran_before_running(tmp_path: Path) -> None:
    """`strandline up` on a folder whose cluster is half down must not take down the other half."""
    home = tmp_path / "home"
    async with LocalCluster(2, controllers=0, directory=home, detached=True) as cluster:
        await cluster.kill_broker(2)
        port = cluster.members()[-1].port
    again = LocalCluster.open(home)
    try:
        with taken(port), pytest.raises(ProcessFailed, match="broker-2 died"):
            await again.start()
        assert [member.alive for member in LocalCluster.open(home).members()] == [True, True, False]
    finally:
        await again.stop(clean=False)


async def test_a_member_that_never_serves_is_reported_too(tmp_path: Path) -> None:
    cluster = LocalCluster(1, controllers=0, directory=tmp_path / "home")
    with pytest.raises(ProcessFailed, match=r"does not serve after 0\.01 s"):
        await cluster.start(timeout_s=0.01)
    assert not any(member.alive for member in cluster.members())


def test_a_wrong_setting_is_refused_before_anything_starts() -> None:
    with pytest.raises(SettingsError, match="a broker has no setting 'keep_in_synch_ms'"):
        LocalCluster(1, broker_settings={"keep_in_synch_ms": 1})
    with pytest.raises(SettingsError, match="a controller has no setting 'rack'"):
        LocalCluster(1, controller_settings={"rack": "x"})
    with pytest.raises(SettingsError, match="0 to 100 brokers"):
        LocalCluster(101)


async def test_a_wrong_value_is_refused_with_its_name(tmp_path: Path) -> None:
    cluster = LocalCluster(
        1, controllers=0, directory=tmp_path / "home", broker_settings={"keep_in_sync_ms": 1}
    )
    with pytest.raises(SettingsError, match="keep_in_sync_ms = '1'"):
        await cluster.start()
    assert not any(member.alive for member in cluster.members())


def test_with_a_base_port_ports_are_known_beforehand(tmp_path: Path) -> None:
    """Brokers from the base port on, controllers 100 above, ZooKeeper 200 above; metrics 300 above those."""
    cluster = LocalCluster(2, directory=tmp_path / "home", base_port=20_000)
    assert [member.port for member in cluster.members()] == [20_200, 20_100, 20_000, 20_001]
    assert [member.metrics_port for member in cluster.members()] == [None, 20_400, 20_300, 20_301]
    assert cluster.bootstrap == "127.0.0.1:20000,127.0.0.1:20001"


def test_ports_for_kafka_clients_are_kept(tmp_path: Path) -> None:
    """Only brokers have them: from a given port on, or free ones."""
    given = LocalCluster(2, directory=tmp_path / "given", kafka_port=29_092)
    assert [member.kafka_port for member in given.members()] == [None, None, 29_092, 29_093]
    assert given.kafka_bootstrap == "127.0.0.1:29092,127.0.0.1:29093"
    for base_port in (None, 20_000):
        free = LocalCluster(2, directory=tmp_path / f"free-{base_port}", kafka=True, base_port=base_port)
        ports = [member.port for member in free.members()] + [m.kafka_port for m in free.members()][2:]
        assert None not in ports and len(set(ports)) == 6
    assert LocalCluster(2, directory=tmp_path / "none").kafka_bootstrap == ""


def test_an_unknown_member_is_reported(tmp_path: Path) -> None:
    cluster = LocalCluster(2, directory=tmp_path / "home")
    with pytest.raises(SettingsError, match="there is no broker 3; there are: 1, 2"):
        cluster.log_path(3)


def test_a_member_without_a_pid_does_not_run() -> None:
    port = free_ports(1)[0]
    assert not MemberStatus("broker", 1, LOOPBACK, port, None, "", None).alive


async def test_a_cluster_uses_a_zookeeper_that_is_running(zookeeper: str, tmp_path: Path) -> None:
    """Below its chroot; it neither harms nor stops the server, also when the folder is opened again."""
    async with LocalCluster(1, controllers=0, directory=tmp_path / "home", zookeeper=zookeeper) as cluster:
        assert cluster.zookeeper == LocalCluster.open(cluster.directory).zookeeper == zookeeper
        assert await registered(cluster) == {1}
        assert [(member.kind, member.id) for member in cluster.members()] == [("broker", 1)]
        with pytest.raises(SettingsError, match="did not start the ZooKeeper at"):
            await cluster.kill_zookeeper()
    assert await registered(cluster) == set()
