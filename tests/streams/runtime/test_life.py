"""How a member begins and ends: what keeps it from starting is said clearly, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from strandline.errors import (
    BrokerNotAvailable,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    SettingsError,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.local.ports import free_ports
from strandline.streams import INTEGER, STRING, NotHere, ProcessingFailed, Record, Streams, Topology, run
from strandline.streams.storage.slots import StateFolder
from tests.streams.restore.changelogs import raised
from tests.streams.runtime.applications import COUNTS, SETTLE_S, Application, found, others, running, words
from tests.waiting import eventually


@asynccontextmanager
async def leaving_nothing(application: Application) -> AsyncIterator[None]:
    """No task runs after the block that did not before, and the state folder is free."""
    before = others()
    yield
    await eventually(lambda: not others() - before, what=f"others than {len(before)} tasks have ended")
    if application.folder.is_dir():
        folder = StateFolder.take(application.folder, application.id)
        assert folder.path.name == "slot-0"
        folder.close()


async def test_a_topic_that_is_missing_is_named(application: Application) -> None:
    await application.admin.create_topic(application.sink)
    async with leaving_nothing(application):
        with pytest.raises(UnknownTopicOrPartition, match=application.source) as caught:
            await application.start()
    assert "have to be there before it" in caught.value.message


async def test_a_sink_that_is_missing_is_named(application: Application) -> None:
    await application.admin.create_topic(application.source)
    async with leaving_nothing(application):
        with pytest.raises(UnknownTopicOrPartition, match=application.sink):
            await application.start()


async def test_a_repartition_topic_of_another_size_is_refused_with_what_to_do(
    application: Application,
) -> None:
    await application.create()
    await application.admin.create_topic(f"{application.id}-again-repartition", 3)
    topology = Topology()
    again = topology.source(application.source, key=STRING, value=STRING).repartition(
        "again", key=STRING, value=STRING, partitions=2
    )
    again.count(COUNTS).to(application.sink, key=STRING, value=INTEGER)
    async with leaving_nothing(application):
        with pytest.raises(InvalidPartitions, match="delete the topic, or say 3"):
            await application.start(topology=topology)


async def test_more_copies_than_there_are_brokers_are_refused(application: Application) -> None:
    await application.create()
    async with leaving_nothing(application):
        with pytest.raises(InvalidReplicationFactor, match="replication factor 9"):
            await application.start(replication_factor=9)


def test_a_state_folder_without_a_name_is_refused(application: Application) -> None:
    with pytest.raises(SettingsError, match="state_dir"):
        application.member(state_dir="")


async def test_a_state_folder_that_cannot_be_is_refused(application: Application, tmp_path: Path) -> None:
    await application.create()
    (tmp_path / "file").touch()
    async with leaving_nothing(application):
        with pytest.raises(SettingsError, match="state_dir"):
            await application.start(state_dir=tmp_path / "file")


async def test_an_application_measures_its_consumer_and_its_producers(application: Application) -> None:
    """docs/use/clients.md, "Metrics": each client's numbers under its name."""
    await application.create()
    member = await application.start()
    await application.write(words(5))
    await application.counted(member)
    values = member.metrics()
    assert values.keys() == {metric.name for metric in Streams.METRICS}
    assert values["consumer.records-consumed-total"] == 5
    assert values["consumer.assigned-partitions"] >= 1
    assert values["changelogs.record-send-total"] > 0


async def test_unreachable_brokers_are_named(application: Application) -> None:
    (port,) = free_ports(1)
    member = Streams(
        application.topology(),
        f"127.0.0.1:{port}",
        application_id=application.id,
        state_dir=application.folder,
        request_timeout_ms=200,
    )
    async with leaving_nothing(application):
        with pytest.raises(BrokerNotAvailable, match=str(port)):
            await member.start()
        await member.wait()


@pytest.mark.parametrize("steps", [0, 1, 3, 10, 30, 100, 200])
async def test_a_member_stopped_while_it_starts_leaves_nothing_behind(
    application: Application, steps: int
) -> None:
    """However far it has come by then: it started, or says that it was stopped."""
    await application.create()
    async with leaving_nothing(application):
        member = application.member()
        async with asyncio.TaskGroup() as tasks:
            starting = tasks.create_task(raised(member.start()))
            for _ in range(steps):
                await asyncio.sleep(0)
            await member.stop()
        assert starting.result() is None or isinstance(starting.result(), InvalidRequest), starting.result()
        await member.wait()


@pytest.mark.parametrize("steps", [1, 5, 20, 60])
async def test_a_member_cancelled_while_it_starts_leaves_nothing_behind(
    application: Application, steps: int
) -> None:
    await application.create()
    async with leaving_nothing(application):
        async with asyncio.TaskGroup() as tasks:
            starting = tasks.create_task(application.start())
            for _ in range(steps):
                await asyncio.sleep(0)
            starting.cancel()
        for member in application.members:
            await member.stop()


async def test_a_member_can_be_inspected_at_any_time(application: Application) -> None:
    """Before it starts, while it runs, and after it has stopped."""
    await application.create()
    member = application.member()
    nothing_is_here(member)
    await member.start()
    await application.running(member, [0])
    assert member.store(COUNTS).get("word") is None
    await member.stop()
    nothing_is_here(member)


def nothing_is_here(member: Streams) -> None:
    assert member.tasks() == []
    assert found(member) == {}
    with pytest.raises(NotHere):
        member.store(COUNTS).get("word")
    with pytest.raises(LookupError, match=COUNTS):
        member.store("another")


async def test_nothing_starts_twice_and_a_second_start_harms_nothing(application: Application) -> None:
    await application.create()
    member = await application.start()
    with pytest.raises(InvalidRequest):
        await member.start()
    await application.write(["a"])
    await application.counted(member)
    with pytest.raises(InvalidRequest):
        await application.member().leave()


async def test_the_only_member_leaves_at_once(application: Application) -> None:
    await application.create(2)
    member = await application.start(leave_timeout_ms=600_000)
    await application.write(words(20))
    await application.counted(member)
    async with asyncio.timeout(SETTLE_S):
        assert await member.leave()
    await member.wait()
    assert await member.leave(), "it did, and says so again"
    again = await application.start()
    await application.counted(again)


async def test_stopping_and_leaving_at_once_and_again_ends_it_once(application: Application) -> None:
    """A leaving member does not wait for stopped tasks."""
    await application.create(2)
    before = others()
    member = await application.start(leave_timeout_ms=600_000)
    await application.running(member, [0, 1])
    async with asyncio.timeout(SETTLE_S), asyncio.TaskGroup() as tasks:
        leaving = [tasks.create_task(member.leave()) for _ in range(2)]
        for _ in range(3):
            tasks.create_task(member.stop())
    await member.stop()
    await member.wait()
    assert leaving[0].result() == leaving[1].result() == await member.leave()
    await eventually(lambda: not others() - before, what="all tasks have ended")


async def test_a_copy_that_is_kept_up_to_date_ends_without_a_failure(application: Application) -> None:
    """It is closed after the consumer, which then reports it to no coordinator."""
    await application.create(2)
    first = await application.start(num_standbys=1)
    await application.running(first, [0, 1])
    second = await application.start(num_standbys=1)
    await eventually(lambda: len(second.tasks()) == 2, deadline_s=SETTLE_S)
    await second.stop()
    await second.wait()
    await first.stop()
    await first.wait()


async def test_a_member_cancelled_while_it_leaves_stops_at_once(application: Application) -> None:
    await application.create(1)
    first = await application.start()
    await application.running(first, [0])
    second = await application.start(acceptable_lag=0)
    async with asyncio.TaskGroup() as tasks:
        leaving = tasks.create_task(first.leave())
        await asyncio.sleep(0)
        leaving.cancel()
    await first.wait()
    await application.write(words(10))
    await application.counted(second)


async def test_a_record_that_fails_ends_the_member_and_no_other(application: Application) -> None:
    """Its earlier counts stand; another member that does not fail at the record continues from there."""
    await application.create(2)

    def see(record: Record[str, str]) -> None:
        if record.key == "bad":
            raise ValueError("a bad word")

    other = await application.start()
    await application.running(other, [0, 1])
    failing = await application.start(see)
    await eventually(lambda: running(failing), deadline_s=SETTLE_S)
    (task,) = running(failing)
    await application.write(words(5), partition=task.partition)
    await application.counted(other, failing)
    await application.write(["bad"], partition=task.partition)
    with pytest.raises(
        ProcessingFailed, match=rf"{task}, {application.source}-{task.partition} offset 5: Val"
    ):
        await failing.wait()
    await failing.stop()
    await application.write(["others"], partition=1 - task.partition)
    await application.counted(other)
    assert not await failing.leave()


async def test_a_refused_output_ends_the_member(application: Application) -> None:
    """A gap in what it sends is never committed over."""
    await application.create()
    await application.admin.alter_topic(application.sink, set={"max.message.bytes": "1024"})
    member = await application.start()
    await application.write(["long" * 500])
    with pytest.raises(StrandlineError):
        await member.wait()
    assert found(member) == {}


async def test_a_signal_has_it_leave_and_a_second_one_makes_it_hurry(application: Application) -> None:
    await application.create(2)
    first = await application.start()
    await application.running(first, [0, 1])
    member = application.member(leave_timeout_ms=600_000)
    default = signal.getsignal(signal.SIGTERM)
    async with asyncio.timeout(SETTLE_S), asyncio.TaskGroup() as tasks:
        program = tasks.create_task(run(member))
        await eventually(lambda: signal.getsignal(signal.SIGTERM) is not default, deadline_s=SETTLE_S)
        await eventually(lambda: member.tasks() or program.done(), deadline_s=SETTLE_S)
        assert not program.done()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
    await member.wait()


def test_a_member_takes_the_settings_of_a_login(application: Application) -> None:
    """CORRECTNESS A11: its clients share one host, which logs in."""
    _ = application.member(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="alice",
        sasl_password="wonderland-1",
    )


async def test_a_signal_ends_one_that_reaches_no_broker(application: Application) -> None:
    (port,) = free_ports(1)
    member = Streams(
        application.topology(),
        f"127.0.0.1:{port}",
        application_id=application.id,
        state_dir=application.folder,
        request_timeout_ms=600_000,
    )
    default = signal.getsignal(signal.SIGTERM)
    async with leaving_nothing(application), asyncio.timeout(SETTLE_S), asyncio.TaskGroup() as tasks:
        program = tasks.create_task(run(member))
        await eventually(lambda: signal.getsignal(signal.SIGTERM) is not default, deadline_s=SETTLE_S)
        await asyncio.sleep(0)
        assert not program.done()
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is default


async def test_a_program_that_cannot_start_says_why_as_it_is(application: Application) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="have to be there before it"):
        await run(application.member())


async def test_a_program_raises_the_error_that_failed_it_unchanged(application: Application) -> None:
    await application.create(1)

    def see(record: Record[str, str]) -> None:
        raise ValueError("a bad word")

    await application.write(["bad"])
    async with asyncio.timeout(SETTLE_S):
        with pytest.raises(ProcessingFailed, match="a bad word"):
            await run(application.member(see))
