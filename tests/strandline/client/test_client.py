"""The common life of all clients: they start once, and at the end they stop all that they started."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest

from strandline.client.client import Client
from strandline.config.client import ClientSettings
from strandline.errors import InvalidRequest
from tests.strandline.client.network import FastClock, Network, answering, metadata


class Watched(Network):
    closed = 0

    async def close(self) -> None:
        self.closed += 1


class Reading(Client[ClientSettings]):
    """A client with a task of its own."""

    def __init__(self, network: Watched) -> None:
        super().__init__("reading", "broker1:9092", ClientSettings(), network, FastClock())
        self.breaks = asyncio.Event()
        self.cancelled = False

    async def start(self) -> None:
        await super().start()
        self._scope.spawn(self._work(), "work")

    async def partitions(self) -> int:
        self._scope.check()
        return len((await self._cluster.topic("t")).partitions)

    async def _work(self) -> None:
        try:
            await self.breaks.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise ZeroDivisionError


async def test_a_client_asks_nothing_until_it_is_asked_and_closes_its_transport() -> None:
    network = Watched()
    network.brokers["broker1:9092"] = answering(metadata((1, 1), (2, 1)))
    async with Reading(network) as client:
        assert network.asked == []
        assert await client.partitions() == 2
    assert (network.closed, client.cancelled) == (1, True)
    with pytest.raises(InvalidRequest, match="this reading has been stopped"):
        await client.partitions()


async def test_a_client_starts_once() -> None:
    async with Reading(Watched()) as client:
        with pytest.raises(InvalidRequest, match="started already"):
            await client.start()


async def test_a_failing_client_logs_its_error_and_closes_its_transport(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Watched()
    client = Reading(network)
    with caplog.at_level(logging.ERROR), suppress(ExceptionGroup):
        await client.start()
        client.breaks.set()
        await client.stop()
    assert network.closed == 1
    assert "the reading failed" in caplog.messages


async def test_a_client_that_is_about_to_end_takes_no_work() -> None:
    """Its group takes no task from the first failure on, some turns before the client has failed."""
    client = Reading(Watched())
    refused: list[str] = []
    with pytest.raises(ExceptionGroup):
        await client.start()
        client.breaks.set()
        while not refused:
            await asyncio.sleep(0)
            try:
                client._scope.spawn(asyncio.sleep(0), "more work")
            except ExceptionGroup as error:
                refused.append(repr(error.exceptions))
        await client.stop()
    assert refused == ["(ZeroDivisionError(),)"]
    assert not client._scope.runs
