"""Jobs that read and count, on a topic with a committed, an aborted and an open transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strandline import Admin, Producer
from strandline.auditing.checks import Finding
from strandline.auditing.history import Received, read
from strandline.errors import SettingsError
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.jobs import archive, audit
from strandline.pipeline.jobs.archive_check import run as check
from strandline_lab.chaos import replica_logs
from tests.integration.support.harness import Harness
from tests.strandline.cli.support.cli_process import strandline
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ALL = [0, 1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13]
"""The offsets of all records: three outside of transactions, two committed ones, a marker, two aborted ones,
a marker, two outside, two of the open transaction, one outside."""
ENDED = [0, 1, 2, 3, 4, 9, 10]
"""Those of committed records before the open transaction."""
END = [*ENDED, 11, 12, 13]


@asynccontextmanager
async def written(bootstrap: str, topic: str, history: Path) -> AsyncIterator[Producer]:
    """Yields the producer of the open transaction. `history` is that of the producer outside of
    transactions."""

    async def plain(count: int) -> None:
        """By `verify produce`, which numbers the values of each run from 0."""
        done = await strandline(
            "verify", "produce", topic, "--bootstrap", bootstrap,
            "--max-records", str(count), "--value-prefix", f"{count}-",
        )  # fmt: skip
        assert done.status == 0, done.err
        history.with_name(f"{history.name}-{count}").write_bytes(done.out)

    async with Producer(bootstrap, transactional_id=f"{topic}-1") as producer:
        await plain(3)
        async with producer.transaction():
            _ = await producer.send_many(topic, [b"c1", b"c2"])
        async with producer.transaction() as transaction:
            await (await producer.send_many(topic, [b"a1", b"a2"]))
            await transaction.abort()
        await eventually(lambda: _marked(bootstrap, topic), deadline_s=30, what="the markers are written")
        await plain(2)
        async with producer.transaction():
            await (await producer.send_many(topic, [b"o1", b"o2"]))
            await plain(1)
            yield producer


async def _marked(bootstrap: str, topic: str) -> bool:
    async with Admin(bootstrap) as admin:
        (described,) = await admin.describe_topics([topic])
    return described.partitions[0].log_end_offset == 9


async def received(bootstrap: str, topic: str, isolation: str, path: Path) -> list[int]:
    """The offsets that `verify consume` receives; its history is at `path`."""
    done = await strandline(
        "verify", "consume", topic, "--bootstrap", bootstrap, "--from", "earliest", "--isolation", isolation,
        "--watermarks", "0.2", "--idle-exit", "2",
    )  # fmt: skip
    assert done.status == 0, done.err
    path.write_bytes(done.out)
    return [event.offset for event in read(path).events if isinstance(event, Received)]


async def test_an_archive_and_an_audit_of_a_topic_with_transactions(
    own: Harness, spark: SparkSession, tmp_path: Path
) -> None:
    topic = (await own.create_topic([[1, 2, 3]])).name
    bootstrap, to = own.cluster.bootstrap, Connection(own.cluster.bootstrap)
    kept, whole = str(tmp_path / "kept"), str(tmp_path / "whole")

    def offsets(directory: str) -> list[int]:
        rows = archive.archived(spark, directory).select("offset").orderBy("offset").collect()
        return [row.offset for row in rows]

    async def audited(isolation: str, *names: str) -> list[Finding]:
        paths = [tmp_path / name for name in names]
        found, _ = await asyncio.to_thread(
            audit.run, spark, to, paths, [topic], isolation=f"read_{isolation}"
        )
        return found

    producers = [f"plain-{count}" for count in (3, 2, 1)]
    async with written(bootstrap, topic, tmp_path / "plain"):
        assert await received(bootstrap, topic, "uncommitted", tmp_path / "all") == ALL
        assert await received(bootstrap, topic, "committed", tmp_path / "some") == ENDED
        assert await audited("uncommitted", *producers, "all") == []
        await asyncio.to_thread(archive.run, spark, to, topic, kept)
        assert offsets(kept) == ENDED
        assert (await asyncio.to_thread(check, spark, to, topic, kept)).sound
    assert await received(bootstrap, topic, "committed", tmp_path / "end") == END
    assert await audited("committed", *producers, "some", "end") == []
    assert {each.check for each in await audited("uncommitted", *producers, "end")} == {"unseen"}

    await asyncio.to_thread(archive.run, spark, to, topic, kept)
    assert offsets(kept) == END
    assert (await asyncio.to_thread(check, spark, to, topic, kept)).sound
    with pytest.raises(SettingsError, match="is an archive with isolation read_committed, not"):
        await asyncio.to_thread(check, spark, to, topic, kept, isolation="read_uncommitted")

    await asyncio.to_thread(archive.run, spark, to, topic, whole, isolation="read_uncommitted")
    assert offsets(whole) == ALL
    assert (await asyncio.to_thread(check, spark, to, topic, whole)).sound

    logs = {broker: own.cluster.data_dir(broker) for broker in own.cluster.broker_ids}
    ((log_id, replicas),) = [each for each in replica_logs.find(logs).items() if each[0].topic == topic]
    for replica in replicas:
        assert [each.offset for each in replica_logs.records(log_id, replica, 14)] == ALL
