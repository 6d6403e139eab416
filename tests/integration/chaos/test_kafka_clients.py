"""The Kafka clients of a round write histories that the checks of a round judge."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from strandline import Admin, LocalCluster, NewTopic
from strandline.auditing import reference
from strandline.auditing.history import (
    Acked,
    Assigned,
    CommitAcked,
    Failed,
    History,
    Received,
    Sent,
    Unassigned,
    Watermark,
    read,
)
from strandline.auditing.reference import Logged, Span
from strandline.errors import Outcome
from strandline_lab.chaos import clients
from strandline_lab.chaos.core.load import TOPICS as ALL_TOPICS
from strandline_lab.chaos.core.load import TRANSACTED, WITH_KAFKA, ClientRole, ClientRoles, Library
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

TOPICS = [each for each in ALL_TOPICS if each is not TRANSACTED]
KAFKA_ROLES = ClientRoles([
    role
    for role in WITH_KAFKA.roles
    if role.library is not Library.STRANDLINE and not role.transacts and role.topic != TRANSACTED.topic
])  # fmt: skip
"""Whole rounds have those with transactions."""
RECORDS = 200
READ_S_MAX = 60.0


def history(folder: Path, role: ClientRole) -> History:
    return read(folder / f"{role.name}.jsonl", role.name)


def count(folder: Path, kind: str, topic: str, event: str) -> int:
    """The events of all clients of this kind that write or read the topic."""
    roles = (role for role in KAFKA_ROLES.roles if role.topic == topic and role.name.startswith(kind))
    texts = ((folder / f"{role.name}.jsonl").read_bytes() for role in roles)
    return sum(text.count(f'"event": "{event}"'.encode()) for text in texts)


def all_read(folder: Path) -> bool:
    """True if the reader and the group of each topic have as many records as were sent."""
    kinds = ["consume-assign", *(f"consume-group-{group}" for group in KAFKA_ROLES.groups)]
    return all(
        count(folder, kind, each.topic, "received") >= count(folder, "produce", each.topic, "sent")
        for kind in kinds
        for each in TOPICS
        if any(role.topic == each.topic and role.name.startswith(kind) for role in KAFKA_ROLES.roles)
    )


def found(histories: Sequence[History]) -> list[str]:
    """What the checks find, if the readers' records are the log."""
    log = {
        Logged(event.topic, event.partition, event.offset, event.value)
        for each in histories
        for event in each.events
        if isinstance(event, Received)
    }
    ends: defaultdict[tuple[str, int], int] = defaultdict(int)
    for each in log:
        ends[each.topic, each.partition] = max(ends[each.topic, each.partition], each.offset + 1)
    spans = {place: Span(0, end) for place, end in ends.items()}
    return [finding.sentence for finding in reference.findings(histories, log, spans)]


async def make_topics(cluster: LocalCluster, replicas: int) -> None:
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        await admin.create_topics([NewTopic(each.topic, each.partitions, replicas) for each in TOPICS])


@pytest.mark.parametrize("secure", [False, True])
async def test_all_of_their_records_are_sent_acknowledged_and_received(tmp_path: Path, secure: bool) -> None:
    """X13: also with certificates."""
    async with LocalCluster(2, directory=tmp_path / "cluster", kafka=True, secure=secure) as cluster:
        await make_topics(cluster, 2)
        load = clients.Load(
            cluster.bootstrap,
            tmp_path,
            KAFKA_ROLES,
            kafka_bootstrap=cluster.kafka_bootstrap,
            config=cluster.directory / "client.toml" if secure else None,
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(load.run())
            await load.begun()
            await eventually(
                lambda: count(tmp_path, "consume-assign", "ebb", "received") >= RECORDS, deadline_s=READ_S_MAX
            )
            await load.end("produce")
            await eventually(lambda: all_read(tmp_path), deadline_s=READ_S_MAX)
            await load.end("consume")
            await running
    assert load.hung == []
    histories = {role: history(tmp_path, role) for role in KAFKA_ROLES.roles}
    assert found(list(histories.values())) == []
    for role, each in histories.items():
        events = {type(event) for event in each.events}
        if role.produces:
            assert Sent in events
            assert Failed not in events
            assert (Acked in events) is ("1" not in role.options), "acks=1 promises nothing"
        elif role.group:
            assert {Assigned, Received, Unassigned} <= events
            # aiokafka does not report the commits that it makes itself.
            assert (CommitAcked in events) is (role.library is Library.CONFLUENT)
        else:
            assert {Assigned, Received, Watermark} <= events


async def test_a_record_without_an_answer_has_an_unknown_outcome(tmp_path: Path) -> None:
    """CORRECTNESS H6: the broker is killed under a producer, which gives up after a second. (An idempotent
    producer of aiokafka never gives up.)"""
    out = tmp_path / "produce.jsonl"
    async with LocalCluster(1, directory=tmp_path / "cluster", kafka=True) as cluster:
        await make_topics(cluster, 1)
        program = (
            "-m",
            "strandline_lab.chaos.kafka",
            Library.CONFLUENT,
            cluster.kafka_bootstrap,
            "produce",
            "swell",
        )
        async with clients.command((*program, "--delivery-timeout-ms", "1000"), out) as producer:
            await eventually(lambda: b'"acked"' in out.read_bytes(), deadline_s=READ_S_MAX)
            await cluster.kill_broker(1)
            await eventually(lambda: b'"failed"' in out.read_bytes(), deadline_s=READ_S_MAX)
            producer.terminate()
            await eventually(lambda: producer.returncode is not None, deadline_s=READ_S_MAX)
    outcomes = {event.outcome for event in read(out).events if isinstance(event, Failed)}
    assert outcomes == {Outcome.UNKNOWN}
