"""Metrics over HTTP: what a scrape is given, and that no client of it can hurt the service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import pytest

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.telemetry.metrics import Histogram, Sample, counter, gauge, histogram
from strandline.adapters.telemetry.metrics_server import READING_SHARED_S, serve_metrics
from strandline.config.limits import METRICS_CONNECTIONS_MAX
from strandline.config.services.listener import ListenerSettings
from strandline.errors import SettingsError
from strandline.local.ports import LOOPBACK, free_ports
from tests.scraping import ask, scrape
from tests.waiting import eventually

HEAT = gauge("oven_heat", "How hot it is.")
LOAVES = counter("oven_loaves_total", "Loaves so far.", "sort")
BAKING_MS = histogram("oven_baking_ms", "How long they took.")
METRICS = (HEAT, LOAVES, BAKING_MS)
CLOCK = SystemClock()
NEVER_S = 86_400.0
BUSY_S_MAX = 3.0
"""As long as a scrape may need on a busy machine."""


class Oven:
    """Some service."""

    def __init__(self) -> None:
        self.readings = 0
        self.read_by = set[int]()
        self.baking_ms = Histogram((1, 10))
        self.fault: Exception | None = None

    def read(self) -> Sequence[Sample]:
        self.readings += 1
        self.read_by.add(threading.get_ident())
        if self.fault is not None:
            raise self.fault
        return [
            HEAT.is_now(180.5),
            LOAVES.is_now(3, "rye"),
            LOAVES.is_now(4, 'with "seeds"\n'),
            BAKING_MS.is_now(self.baking_ms.read()),
        ]


def serve_oven(oven: Oven, port: int | None = 0, **limits: Any) -> AbstractAsyncContextManager[int | None]:
    settings = ListenerSettings(metrics_port=port)
    return serve_metrics(settings, METRICS, oven.read, lambda: True, CLOCK, **limits)


async def test_a_scrape_shows_gauges_counters_and_histograms() -> None:
    """docs/run/metrics.md: Prometheus' text format, labels escaped, buckets added up."""
    oven = Oven()
    for took_ms in (0.5, 1, 7, 100):
        oven.baking_ms.observe(took_ms)
    async with serve_oven(oven) as port:
        assert port
        found = await scrape(port)
    assert found("oven_heat") == 180.5
    assert found("oven_loaves_total", sort="rye") == 3
    assert found("oven_loaves_total", sort='with "seeds"\n') == 4
    assert [found("oven_baking_ms_bucket", le=end) for end in ("1.0", "10.0", "+Inf")] == [2, 3, 4]
    assert (found("oven_baking_ms_count"), found("oven_baking_ms_sum")) == (4, 108.5)
    assert {found.kinds[name] for name in ("oven_heat", "oven_loaves", "oven_baking_ms")} == {
        "gauge",
        "counter",
        "histogram",
    }
    assert found("process_resident_memory_bytes") > 0  # prometheus_client's own, of the process
    assert found("strandline_serving") == 1
    assert found("strandline_event_loop_delay_ms_count") >= 0


async def test_the_service_is_read_on_its_own_loop() -> None:
    """The values of a sample belong together: nothing changes while they are read."""
    oven = Oven()
    async with serve_oven(oven) as port:
        assert port
        await scrape(port)
    assert oven.read_by == {threading.get_ident()}


async def test_nothing_is_served_without_a_port() -> None:
    before = threading.active_count()
    async with serve_oven(Oven(), None) as port:
        assert port is None
        assert threading.active_count() == before


@pytest.mark.parametrize(
    ("request_", "statuses"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", {404}),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", {404}),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", {404}),
        (b"PUT /metrics HTTP/1.1\r\n\r\n", {405}),
        (b"PRI * HTTP/2.0\r\n\r\n", {0}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {0}),
        # A client that still sends when the server hangs up may miss the answer.
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\nxxxx", {405, 0}),
        (b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 500 + b"\r\n", {431, 0}),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", {414, 0}),
    ],
)
async def test_senseless_requests_are_refused(request_: bytes, statuses: set[int]) -> None:
    """Garbage and what is too large; the next scrape is answered."""
    oven = Oven()
    async with serve_oven(oven) as port:
        assert port
        assert (await ask(port, request_))[0] in statuses
        assert oven.readings == 0
        assert (await scrape(port))("oven_heat") == 180.5


async def test_clients_that_hold_their_connections_keep_no_other_client_out() -> None:
    """A connection too many hangs up on the oldest; threads are bounded."""
    oven = Oven()
    before = threading.active_count()
    async with serve_oven(oven) as port, AsyncExitStack() as held:
        assert port
        for _ in range(3 * METRICS_CONNECTIONS_MAX):
            _, writer = await asyncio.open_connection(LOOPBACK, port)
            held.callback(writer.close)
            writer.write(b"GET /metrics HTTP/1.1\r\n")  # and nothing more
        assert (await scrape(port))("oven_heat") == 180.5
        assert threading.active_count() <= before + 1 + METRICS_CONNECTIONS_MAX


async def test_a_client_that_sends_nothing_is_given_up() -> None:
    """REQUEST_S_MAX: its thread ends, even if no other client connects."""
    async with serve_oven(Oven(), request_s_max=0.05) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


async def test_a_flood_of_scrapes_costs_the_loop_few_readings() -> None:
    """Scrapes that come together share one reading; later ones get a new one."""
    oven = Oven()
    async with serve_oven(oven) as port:
        assert port
        began = CLOCK.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(scrape(port))
        took_s = CLOCK.monotonic() - began
        assert oven.readings <= 1 + took_s / READING_SHARED_S

        async def read_anew() -> bool:
            await scrape(port)
            return oven.readings > 1

        await eventually(read_anew)


async def test_a_scrape_reports_a_busy_loop() -> None:
    """READING_S_MAX: a scrape waits for the loop no longer than this; the next one finds it free."""
    oven = Oven()
    async with serve_oven(oven, reading_s_max=BUSY_S_MAX) as port:
        assert port
        found: list[tuple[int, str]] = []
        client = threading.Thread(target=lambda: found.append(asyncio.run(ask(port))))
        client.start()
        client.join(10 * BUSY_S_MAX)  # which keeps the loop from reading
        assert [status for status, _ in found] == [503]
        assert (await scrape(port))("oven_heat") == 180.5


async def test_a_reading_that_fails_is_an_error_of_the_scrape_alone() -> None:
    oven = Oven()
    async with serve_oven(oven) as port:
        assert port
        oven.fault = ValueError("the thermometer broke")
        assert (await ask(port))[0] == 500
        oven.fault = None

        async def well_again() -> bool:
            return (await ask(port))[0] == 200

        await eventually(well_again)


async def test_an_address_that_is_taken_is_an_error_of_its_setting() -> None:
    """Also by another that serves metrics; the message names the setting, its value and the variable."""
    taken = free_ports(1)[0]
    async with serve_oven(Oven(), taken):
        with pytest.raises(SettingsError, match=rf"metrics_port = {taken}.*STRANDLINE_METRICS_PORT"):
            async with serve_oven(Oven(), taken):
                raise AssertionError("two listen on one port")
    async with serve_oven(Oven(), taken) as port:
        assert port == taken  # and it is free again at once


async def test_the_end_waits_for_no_client() -> None:
    """One that holds its connection open is left behind: the end would come after the test's time limit."""
    async with AsyncExitStack() as held, serve_oven(Oven(), request_s_max=NEVER_S) as port:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        held.callback(writer.close)
