"""The steps of a record through a whole cluster, as its brokers log them (docs/run/operations.md)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from strandline.broker.core.record_steps import EVENT, RecordStep, Step
from strandline.testing import SimulatedCluster

EVERY = 10
RECORDS = 3 * EVERY
AT_LEADER = [Step.RECEIVED, Step.APPENDED, Step.COMMITTED, Step.ANSWERED, Step.FETCHED]


async def written_and_read(cluster: SimulatedCluster, *, in_one_batch: bool) -> None:
    await cluster.create_topic("tides", replication_factor=3)
    async with cluster.producer(linger_ms=20 if in_one_batch else 0) as producer:
        for number in range(RECORDS):
            sent = await producer.send("tides", b"%d" % number)
            if not in_one_batch:
                await sent
    async with cluster.consumer(group_id="readers", offset_reset="earliest") as consumer:
        consumer.subscribe(["tides"])
        for _ in range(RECORDS):
            await consumer.getone()


@pytest.mark.parametrize("in_one_batch", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_step_is_there_once_and_after_those_that_it_needs(seed: int, in_one_batch: bool) -> None:
    """On virtual time, in one process: the order of the lines is the order of what happened."""
    settings = {"trace_every": EVERY}
    with capture_logs() as lines, SimulatedCluster(seed=seed, broker_settings=settings) as cluster:
        cluster.run(written_and_read(cluster, in_one_batch=in_one_batch))
    steps = [RecordStep.load(line) for line in lines if line["event"] == EVENT]
    steps = [step for step in steps if step.topic == "tides"]
    assert {step.offset for step in steps} == set(range(0, RECORDS, EVERY))
    for offset in range(0, RECORDS, EVERY):
        seen = [step for step in steps if step.offset == offset]
        leader = seen[0].broker
        places = {(each.step, each.broker, each.follower): place for place, each in enumerate(seen)}
        assert len(places) == len(seen), "no step twice"
        followers = {each.broker for each in seen} - {leader}
        assert len(followers) == 2
        in_order([places[step, leader, None] for step in AT_LEADER])
        for follower in followers:
            moments = [
                places[Step.APPENDED, leader, None],
                places[Step.SENT, leader, follower],
                places[Step.STORED, follower, None],
                places[Step.REPLICATED, leader, follower],
                places[Step.COMMITTED, leader, None],
                places[Step.COMMITTED, follower, None],
            ]
            in_order(moments)
        assert len(seen) == len(AT_LEADER) + 2 * 4


def in_order(places: list[int]) -> None:
    assert all(one < other for one, other in pairwise(places)), places


def test_no_line_without_the_setting() -> None:
    with capture_logs() as lines, SimulatedCluster(seed=1) as cluster:
        cluster.run(written_and_read(cluster, in_one_batch=True))
    assert not any(line["event"] == EVENT for line in lines)
