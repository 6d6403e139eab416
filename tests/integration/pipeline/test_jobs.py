"""Archive, lifecycle and ownership of a real cluster, as users have them; one driver is killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.client.events.writer import EventWriter
from strandline.errors import GroupIdNotFound, SettingsError
from strandline.ids import GROUP_EVENTS_TOPIC
from strandline.local.cluster import LocalCluster
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.jobs import archive, lifecycle, ownership
from strandline.pipeline.jobs.archive_check import Check
from strandline.pipeline.jobs.archive_check import run as check
from tests.integration.groups.support.group_members import new_group
from tests.integration.groups.support.group_processes import Processes, processes
from tests.integration.groups.support.member_calls import member_transport
from tests.integration.support.harness import Harness
from tests.strandline.cli.support.cli_process import Ended, start
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPARK_S_MAX = 240
LOCAL = ("--master", "local[1]")
PNG = b"\x89PNG\r\n"


async def pipeline(cluster: LocalCluster, *arguments: str) -> Ended:
    """Run `strandline pipeline …` to its end, which takes as long as Spark takes to start."""
    process = await start("pipeline", *arguments, *LOCAL, "--bootstrap", cluster.bootstrap)
    try:
        async with asyncio.timeout(SPARK_S_MAX):
            out, err = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Ended(process.returncode, out, err.decode())


# --- archive ---------------------------------------------------------------------------------

Record = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


async def write(cluster: LocalCluster, topic: str, records: int) -> None:
    """To partitions 0 and 1: keys and values that are null or empty, headers, text and bytes."""
    async with Producer(cluster.bootstrap) as producer:
        sent = [
            await producer.send(
                topic,
                None if number % 7 == 3 else b"\xff%d" % number * (number % 3),
                key=None if number % 5 else b"key %d" % number,
                partition=number % 2,
                headers=[("h", None), ("h", b""), ("n", b"%d" % number)] if number % 11 == 0 else (),
            )
            for number in range(records)
        ]
        await producer.flush()
        for one in sent:
            _ = await one


async def consumed(cluster: LocalCluster, topic: str, records: int) -> list[Record]:
    names = [TopicPartition(topic, number) for number in range(3)]
    found: list[Record] = []
    async with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign(names)
        while len(found) < records:
            for batch in (await consumer.getmany(timeout_ms=500)).values():
                found += [
                    (r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch
                ]
    return sorted(found, key=lambda record: record[:2])


def archived(spark: SparkSession, folder: Path) -> list[Record]:
    """As Spark reads it."""
    frame = archive.archived(spark, str(folder)).selectExpr(
        "partition", "offset", "unix_millis(timestamp) as at", "key", "value", "headers"
    )

    def of_bytes(value: bytearray | None) -> bytes | None:
        return None if value is None else bytes(value)

    return [
        (
            row.partition,
            row.offset,
            row.at,
            of_bytes(row.key),
            of_bytes(row.value),
            tuple((h.key, of_bytes(h.value)) for h in row.headers or ()),
        )
        for row in frame.orderBy("partition", "offset").collect()
    ]


def doctor(folder: Path) -> tuple[int, int]:
    """Another value for one record of one file; returns its partition and offset."""
    path = max(folder.glob("topic=*/date=*/*.parquet"), key=lambda path: path.stat().st_size)
    table = pq.read_table(path, partitioning=None)
    values = table["value"].to_pylist()
    values[0] = b"doctored"
    place = table.schema.get_field_index("value")
    table = table.set_column(place, table.schema.field(place), pa.array(values, pa.binary()))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    pq.write_table(table, path)
    return table["partition"][0].as_py(), table["offset"][0].as_py()


async def test_an_archive_whose_driver_is_killed_has_each_record_once_and_what_is_doctored_is_found(
    harness: Harness, spark: SparkSession, tmp_path: Path
) -> None:
    cluster, folder = harness.cluster, tmp_path / "kept"
    topic = (await harness.create_topic([[1, 2, 3], [2, 3, 1], [3, 1, 2]])).name
    await write(cluster, topic, 2_000)
    options = ("--to", str(folder), "--batch-records", "200", *LOCAL, "--bootstrap", cluster.bootstrap)
    driver = await start("pipeline", "archive", topic, *options)
    try:
        some = folder / "_spark_metadata" / "1"
        await eventually(some.exists, deadline_s=SPARK_S_MAX, what="two batches are finished")
    finally:
        driver.send_signal(signal.SIGKILL)
        _ = await driver.communicate()
    assert len(archived(spark, folder)) < 2_000

    done = await asyncio.to_thread(archive.run, spark, Connection(cluster.bootstrap), topic, str(folder))
    assert {name.partition: span[1] for name, span in done.offsets.items()} == {0: 1_000, 1: 1_000}
    assert archived(spark, folder) == await consumed(cluster, topic, 2_000)
    assert archive.leftovers(spark, str(folder)) == []

    await write(cluster, topic, 10)  # the topic grows, and the archive is as right as before
    found = await asyncio.to_thread(check, spark, Connection(cluster.bootstrap), topic, str(folder))
    assert found.sound
    assert [each.archive.records for each in found.partitions] == [1_000, 1_000, 0]

    partition, offset = doctor(folder)
    differs = await pipeline(cluster, "archive", topic, "--to", str(folder), "--check", "-o", "json")
    assert differs.status == 2, differs
    said = rf"^starting Spark,.*\n(.*\n)*Spark [\d.]+ is up: comparing {topic}$"
    assert re.search(said, differs.err, re.MULTILINE), "what it does, before it has a result"
    *partitions, changed, whole = map(json.loads, differs.out.splitlines())
    assert [(each["what"], each["same"]) for each in partitions] == [
        ("partition", number != partition) for number in range(3)
    ]
    assert [(each["archived"], each["records"]) for each in partitions] == [(1_000, 1_000)] * 2 + [(0, 0)]
    assert changed == {"what": "changed", "topic": topic, "partition": partition, "offset": offset}
    (rewritten,) = whole.pop("faults")
    assert rewritten.endswith(" were written")
    assert whole == {"what": "check", "sound": False, "different": 1, "notes": []}


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("topic=*/date=*/*.parquet"))


async def test_a_damaged_archive_is_named_and_an_incomplete_one_is_left_alone(
    harness: Harness, spark: SparkSession, tmp_path: Path
) -> None:
    """Without its list of files all of them look like what a batch left that was cut off, which the next run
    removes."""
    cluster, folder = harness.cluster, tmp_path / "kept"
    topic = (await harness.create_topic([[1, 2, 3]] * 2)).name
    await write(cluster, topic, 400)

    def run() -> archive.Archived:
        return archive.run(spark, Connection(cluster.bootstrap), topic, str(folder), batch_records=100)

    def look() -> Check:
        return check(spark, Connection(cluster.bootstrap), topic, str(folder))

    await asyncio.to_thread(run)
    there = files(folder)
    for name in ("_spark_metadata", "_checkpoint/offsets"):
        (folder / name).rename(tmp_path / "away")
        for job in (look, run):
            with pytest.raises(SettingsError, match=f"is not whole: {name} is missing"):
                await asyncio.to_thread(job)
        (tmp_path / "away").rename(folder / name)
    elsewhere = folder.rename(tmp_path / "moved")
    with pytest.raises(SettingsError, match="was moved"):
        await asyncio.to_thread(archive.run, spark, Connection(cluster.bootstrap), topic, str(elsewhere))
    with pytest.raises(SettingsError, match="was moved"):
        await asyncio.to_thread(check, spark, Connection(cluster.bootstrap), topic, str(elsewhere))
    elsewhere.rename(folder)
    assert files(folder) == there and (await asyncio.to_thread(look)).sound

    emptied, flipped, gone = there[0], there[1], there[2]
    for path in (emptied, flipped):
        path.with_name(f".{path.name}.crc").unlink()
    size = emptied.stat().st_size
    emptied.write_bytes(b"")
    data = bytearray(flipped.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    flipped.write_bytes(data)
    gone.unlink()
    found = await asyncio.to_thread(look)
    assert not found.sound and found.different
    said = {path.name: [fault for fault in found.faults if path.name in fault] for path in there}
    assert said.pop(emptied.name)[0].endswith(f"has 0 bytes, and {size} were written")
    assert "cannot be read: " in said.pop(flipped.name)[0]
    assert said.pop(gone.name)[0].endswith("is not there")
    assert not any(said.values()), said


async def test_foreign_files_are_not_removed(harness: Harness, spark: SparkSession, tmp_path: Path) -> None:
    topic = (await harness.create_topic([[1, 2, 3]])).name
    (foreign := tmp_path / "topic=mine" / "part.parquet").parent.mkdir()
    foreign.write_bytes(b"PAR1")
    with pytest.raises(SettingsError, match="has files that no archive there wrote"):
        await asyncio.to_thread(
            archive.run, spark, Connection(harness.cluster.bootstrap), topic, str(tmp_path)
        )
    assert foreign.exists()


@asynccontextmanager
async def following(cluster: LocalCluster, topic: str, folder: Path) -> AsyncIterator[Process]:
    """`pipeline archive --follow` in small batches, in a session of its own, as in a terminal."""
    options = ("--to", str(folder), "--follow", "--every", "0.1", "--batch-records", "100", *LOCAL)
    command = [sys.executable, "-m", "strandline", "pipeline", "archive", topic, *options]
    process = await asyncio.create_subprocess_exec(
        *command, "--bootstrap", cluster.bootstrap, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def test_an_archive_that_follows_ends_in_order_and_continues_though_spark_compacts_its_metadata(
    harness: Harness, spark: SparkSession, tmp_path: Path
) -> None:
    """Ctrl-C goes to all processes of a terminal, SIGTERM to one. Spark rewrites its list of files with every
    third batch here: it is read behind that."""
    cluster, folder = harness.cluster, tmp_path / "kept"
    topic = (await harness.create_topic([[1, 2, 3]] * 3)).name
    await write(cluster, topic, 2_500)
    for batch, (number, status) in ((1, (signal.SIGINT, 130)), (4, (signal.SIGTERM, 0))):
        async with following(cluster, topic, folder) as process:
            written = folder / "_spark_metadata" / str(batch)
            await eventually(written.exists, deadline_s=SPARK_S_MAX, what=f"batch {batch} is written")
            if number == signal.SIGINT:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            async with asyncio.timeout(SPARK_S_MAX):
                _, err = await process.communicate()
        assert process.returncode == status, err.decode()
        assert archive.leftovers(spark, str(folder)) == []
    assert (folder / "_spark_metadata" / "2.compact").exists()
    assert len(archived(spark, folder)) < 2_500, "it was ended in the middle"
    await asyncio.to_thread(archive.run, spark, Connection(cluster.bootstrap), topic, str(folder))
    assert archived(spark, folder) == await consumed(cluster, topic, 2_500)
    assert (await asyncio.to_thread(check, spark, Connection(cluster.bootstrap), topic, str(folder))).sound


# --- lifecycle -------------------------------------------------------------------------------


async def test_lifecycle_shows_what_waits_for_a_dead_broker_and_how_long_it_took_when_it_is_back(
    harness: Harness, spark: SparkSession
) -> None:
    cluster = harness.cluster
    moved, deleted = await harness.create_topic([[1, 2]]), await harness.create_topic([[1, 3]])
    async with Admin(cluster.bootstrap) as admin:
        await admin.reassign({TopicPartition(moved.name, 0): [2, 3]})

        async def done() -> bool:
            return not await admin.list_reassignments()

        await eventually(done, deadline_s=60, what="the reassignment is done")
        await cluster.kill_broker(3)
        await admin.delete_topics([deleted.name])

    async def look() -> lifecycle.Lifecycle:
        now_ms = SystemClock().wall_ms()
        return await asyncio.to_thread(lifecycle.run, spark, Connection(cluster.bootstrap), now_ms, 100)

    def waits(found: lifecycle.Lifecycle) -> list[str]:
        return [row.command for row in found.unended if row.topic == deleted.name and row.broker == 3]

    async def looked(wanted: list[str]) -> lifecycle.Lifecycle | None:
        found = await look()
        return found if waits(found) == wanted else None

    before = await eventually(
        lambda: looked(["delete-replica"]), deadline_s=120, what="a request waits for broker 3"
    )
    assert before is not None
    assert all(row.age_ms >= 0 for row in before.unended)
    await cluster.start_broker(3)
    after = await eventually(lambda: looked([]), deadline_s=120, what="the request has ended")
    assert after is not None
    (deletion,) = (row for row in after.latencies if (row.broker, row.command) == (3, "delete-replica"))
    assert deletion.completed >= 1 and deletion.total_max_ms >= deletion.work_max_ms >= 0
    assert any(row.command == "reassign-replicas" and row.total_max_ms > 0 for row in after.latencies)
    assert next(row.waiting_max for row in after.peaks if row.broker == 3) >= 1


# --- ownership -------------------------------------------------------------------------------

PARTITIONS = 4


async def shared(members: Processes, *indices: int) -> None:
    """Return once these members have all partitions between them."""

    def whole() -> bool:
        owned = [number for index in indices for number in members.all[index].owned]
        return sorted(owned) == list(range(PARTITIONS)) and all(members.all[i].owned for i in indices)

    await eventually(whole, deadline_s=60, what=f"members {indices} share everything")


async def reported(cluster: LocalCluster, group: str, owned: set[int]) -> None:
    """Return once the coordinator knows that a member owns these: it reports them after its listener ran."""
    async with Admin(cluster.bootstrap) as admin:

        async def known() -> bool:
            members = (await admin.describe_group(group)).group.members
            return any({name.partition for name in member.owned} == owned for member in members)

        await eventually(known, deadline_s=60, what="a member reports what it owns")


async def tell(cluster: LocalCluster, group: str, event: dict[str, Any]) -> None:
    """One more event, as a coordinator would write it."""

    async def prepare() -> None:
        return

    async with EventWriter(
        cluster.bootstrap,
        GROUP_EVENTS_TOPIC,
        events_max=10,
        prepare=prepare,
        transport=await member_transport(cluster),
        clock=SystemClock(),
    ) as writer:
        writer.put(group.encode(), json.dumps(event).encode(), event["at_ms"])
        assert await writer.flush(30)


async def test_ownership_follows_a_group_whose_member_is_killed_and_finds_a_second_owner(
    harness: Harness, spark: SparkSession, tmp_path: Path
) -> None:
    cluster, group = harness.cluster, new_group()
    topic = (await harness.create_topic([[1, 2, 3]] * PARTITIONS)).name
    async with processes(cluster, topic, group, tmp_path, rebalance_protocol="cooperative") as members:
        _ = await members.start()
        await shared(members, 0)
        _ = await members.start()
        await shared(members, 0, 1)
        taken = members.all[1].owned
        await reported(cluster, group, taken)
        members.all[1].signal(signal.SIGKILL)
        await shared(members, 0)

        async def events_in_topic() -> ownership.Ownership | None:
            """Once the topic has what the living member reported last: it owns everything."""
            found = await asyncio.to_thread(ownership.run, spark, Connection(cluster.bootstrap), group)
            owners = [row.owner for row in found.partitions]
            whole = len(owners) == PARTITIONS and len(set(owners)) == 1 and None not in owners
            return found if whole else None

        found = await eventually(events_in_topic, deadline_s=120, what="the events are in the topic")
    with pytest.raises(GroupIdNotFound, match="nothing has happened to a group 'nobody'"):
        await asyncio.to_thread(ownership.run, spark, Connection(cluster.bootstrap), "nobody")
    assert found is not None
    assert found.overlaps == []
    lost = [row for row in found.timeline if row.ended in ("lost", "member_left")]
    assert {row.partition for row in lost} == taken
    assert {row.partition for row in found.gaps if row.to_ms is not None} >= taken
    assert all(row.unowned_ms >= 0 for row in found.gaps)
    assert any("not heard of" in row.reason and row.finished for row in found.reasons)

    ghost = {"version": 1, "event": "assigned", "group": group, "generation": lost[0].generation}
    ghost |= {"at_ms": lost[0].from_ms + 1, "member": "ghost", "partitions": {topic: [lost[0].partition]}}
    await tell(cluster, group, ghost)
    chart = tmp_path / "owners.png"
    ended = await pipeline(cluster, "ownership", "--group", group, "--chart", str(chart))
    assert ended.status == 2, ended
    assert f"two owners: {topic}-{lost[0].partition} of {group} from" in ended.out.decode()
    assert "ghost" in ended.out.decode()
    assert chart.read_bytes().startswith(PNG)
