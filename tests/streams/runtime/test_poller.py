"""The main loop over a partition that cannot be read, on virtual time."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from strandline import TopicPartition
from strandline.config.streams import StreamsSettings
from strandline.streams.runtime.poller import Poller
from strandline.streams.runtime.tasks.group_offsets import GroupOffsets
from strandline.streams.runtime.tasks.inputs import Inputs
from strandline.testing import SimulatedCluster

APPLICATION = "counting"


def test_processing_ends_in_order_while_a_partition_cannot_be_read(
    simulated_cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A member that stops then commits what its other tasks have done."""
    cluster = simulated_cluster

    async def ends() -> None:
        await cluster.create_topic("words", replication_factor=1)
        away = cluster.leader("words")
        cluster.kill(away)
        await cluster.run_until(lambda: away not in cluster.registered)
        async with cluster.consumer(group_id=APPLICATION) as consumer, asyncio.TaskGroup() as tasks:
            consumer.assign([TopicPartition("words", 0)])
            poller = Poller(
                consumer,
                Inputs(consumer, "earliest"),
                GroupOffsets(consumer, timeout_s=1),
                settings=StreamsSettings(application_id=APPLICATION, state_dir=Path("/state")),
                clock=cluster.host.clock,
                on_stopped=lambda task, error: pytest.fail(f"{task} stopped: {error}"),
            )
            tasks.create_task(poller.run())
            await cluster.run_until(lambda: "nothing can be read now" in caplog.text)
            await poller.end()

    with caplog.at_level(logging.INFO):
        cluster.run(ends())
