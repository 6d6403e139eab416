"""`strandline verify` while a leader is killed: an audit finds nothing, until the histories are doctored."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strandline.auditing import checks
from strandline.auditing.checks import Finding
from strandline.auditing.history import Acked, Assigned, Received, Watermark, read
from strandline.errors import InvalidRequest
from strandline.pipeline.core.connection import Connection
from strandline.pipeline.jobs.audit import run
from tests.conftest import SPARK_TIME
from tests.integration.support.harness import Harness, Topic
from tests.strandline.cli.support.cli_process import start
from tests.waiting import eventually

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMAND_S_MAX = 300.0

ASSIGNMENT = [[1, 2, 3], [2, 3, 1]]


class Client:
    """A `strandline verify` that writes its history to a file."""

    def __init__(self, process: Process, path: Path) -> None:
        self.process = process
        self.path = path

    def count(self, kind: type) -> int:
        """Events of a kind, so far."""
        return sum(isinstance(event, kind) for event in read(self.path).events)

    def reached(self) -> dict[int, int]:
        """By partition, the offset after the last received."""
        found = [event for event in read(self.path).events if isinstance(event, Received)]
        return {event.partition: event.offset + 1 for event in found}

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)
            await self.process.wait()


@asynccontextmanager
async def clients(bootstrap: str, topic: str, folder: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts clients: `await start("name", "consume", "--from", "earliest")`. They are killed at the end."""
    started: list[Client] = []

    async def start(name: str, what: str, *arguments: str) -> Client:
        path = folder / f"{name}.jsonl"
        command = [sys.executable, "-m", "strandline", "verify", what, topic, "--bootstrap", bootstrap]
        with path.open("wb") as out:
            process = await asyncio.create_subprocess_exec(*command, *arguments, stdout=out)
        started.append(Client(process, path))
        return started[-1]

    try:
        yield start
    finally:
        for client in started:
            await client.end(signal.SIGKILL)


async def write_histories(harness: Harness, topic: Topic, folder: Path) -> list[Path]:
    """Two producers and three readers, two of them in a group; the leader of a partition and one of the
    members are killed."""
    bootstrap = harness.cluster.bootstrap
    member = ("consume", "--from", "earliest", "--group", "audited", "--session-timeout-ms", "6000")
    async with clients(bootstrap, topic.name, folder) as start:
        reader = await start("reader", "consume", "--from", "earliest", "--watermarks", "0.2")
        members = [await start(f"member-{n}", *member) for n in range(2)]
        producers = [
            await start(f"producer-{n}", "produce", "--rate", "60", "--value-prefix", f"{n}-")
            for n in range(2)
        ]

        async def acked(records: int) -> None:
            before = [producer.count(Acked) for producer in producers]

            def enough() -> bool:
                counts = zip(producers, before, strict=True)
                return all(producer.count(Acked) >= count + records for producer, count in counts)

            await eventually(enough, deadline_s=120, what=f"each producer has {records} more acknowledged")

        await acked(50)
        await eventually(lambda: all(each.count(Assigned) for each in members), deadline_s=60)
        state = await topic.state()
        await harness.cluster.kill_broker(state.leader)
        await topic.led_above(state.leader_epoch)
        await acked(50)
        await members[0].end(signal.SIGKILL)
        await acked(50)
        for producer in producers:
            await producer.end()
        ends = {number: (await topic.end(number))[0] for number in range(len(ASSIGNMENT))}
        await eventually(
            lambda: reader.reached() == ends == members[1].reached(),
            deadline_s=120,
            what=f"the reader and the member that is left reach {ends}",
        )
        for each in (reader, members[1]):
            await each.end()
        assert reader.count(Watermark) > 0
        return [each.path for each in (*producers, reader, *members)]


@pytest.mark.timeout(900)
async def test_a_leader_that_is_killed_leaves_nothing_to_find_and_what_is_doctored_is_found(
    own: Harness, spark: SparkSession, tmp_path: Path
) -> None:
    topic = await own.create_topic(ASSIGNMENT)
    paths = await write_histories(own, topic, tmp_path)

    (empty := tmp_path / "never-started.jsonl").touch()

    async def audited() -> list[Finding]:
        histories = [*paths, empty]
        found, silent = await asyncio.to_thread(
            run, spark, Connection(own.cluster.bootstrap), histories, [topic.name]
        )
        assert silent == [str(empty)]
        return found

    assert await audited() == []
    producer, other, reader = paths[0], paths[1], paths[2]
    doctor(producer, "acked", 1, {"offset": 1_000_000})
    doctor(other, "acked", 50, {"event": "failed", "outcome": "fatal"})
    doctor(reader, "received", 100, None)
    doctor(reader, "received", 50, {"value": "another"})
    doctor(reader, "watermark", 1, {"offset": 0, "proven": 1})
    by_hand = await start(
        "pipeline", "audit", *map(str, paths), "--topic", topic.name, "-o", "json",
        "--bootstrap", own.cluster.bootstrap, "--master", "local[1]",
    )  # fmt: skip
    try:
        async with asyncio.timeout(COMMAND_S_MAX):
            out, err = await by_hand.communicate()
    finally:
        if by_hand.returncode is None:
            by_hand.kill()
            await by_hand.wait()
    assert by_hand.returncode == 2, err.decode()
    found = [Finding(**json.loads(line)) for line in out.splitlines()]
    assert {each.check for each in found} == {
        each.name
        for each in (checks.LOST, checks.ABORTED, checks.UNSEEN, checks.INCONSISTENT, checks.WATERMARK)
    }


def doctor(path: Path, event: str, back: int, facts: dict[str, Any] | None) -> None:
    """Change facts of an event, counted from the last of its kind, or take it out."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    number = [at for at, line in enumerate(lines) if line["event"] == event][-back]
    if facts is None:
        del lines[number]
    else:
        lines[number] |= facts
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@SPARK_TIME
async def test_a_topic_without_a_history_is_an_error(
    own: Harness, spark: SparkSession, tmp_path: Path
) -> None:
    """A typo that is another topic's name must not pass."""
    topic = await own.create_topic(ASSIGNMENT)
    (path := tmp_path / "elsewhere.jsonl").write_text('{"event":"summary","seq":0,"topic":"elsewhere"}\n')
    with pytest.raises(InvalidRequest, match=f"no history has an event of topic '{topic.name}'"):
        await asyncio.to_thread(run, spark, Connection(own.cluster.bootstrap), [path], [topic.name])


@SPARK_TIME
async def test_a_compacted_topic_is_not_audited(own: Harness, spark: SparkSession, tmp_path: Path) -> None:
    """Records that are missing there are no fault."""
    topic = await own.create_topic(ASSIGNMENT, {"cleanup.policy": "compact"})
    path = tmp_path / "nobody.jsonl"
    path.touch()
    with pytest.raises(InvalidRequest, match="is compacted"):
        await asyncio.to_thread(run, spark, Connection(own.cluster.bootstrap), [path], [topic.name])
