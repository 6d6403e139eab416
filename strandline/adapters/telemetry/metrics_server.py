"""Serves metrics over HTTP or HTTPS, in Prometheus' text format, and health.

Requests are answered on their own threads, so that no scrape, however slow or malformed, blocks the
event loop. The loop does one thing for a scrape: it reads the service's objects in one turn, so
that the samples are consistent. Scrapes within a short time share one reading.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Final

import structlog

from strandline.adapters.telemetry.loop_load import LOOP_METRICS, LoopLoad
from strandline.adapters.telemetry.metrics import Metric, Reading, Sample, gauge
from strandline.config.security import is_loopback
from strandline.config.services.listener import ListenerSettings
from strandline.errors import SettingsError
from strandline.ports import Clock

logger = structlog.get_logger(__name__)

REQUEST_S_MAX: Final = 5.0
"""How long a client may take to send a piece of its request, or to read the answer."""
READING_S_MAX: Final = 5.0
"""How long a scrape waits for a busy event loop."""
READING_SHARED_S: Final = 0.1
"""A sample younger than this is reused for the next scrape, so that any number of scrapes costs the
loop at most ten readings a second."""
STOP_POLL_S: Final = 0.1

SERVING: Final = gauge("strandline_serving", "1 while this process serves its clients, else 0.")

PROCESS_METRICS: Final = (SERVING, *LOOP_METRICS)
"""Those that every service has; they are not in its own list."""

Read = Callable[[], Iterable[Sample]]
"""Called on the event loop; what it returns is iterated on threads of scrapes, several times."""


@asynccontextmanager
async def serve_metrics(
    settings: ListenerSettings,
    metrics: Sequence[Metric],
    read: Read,
    is_serving: Callable[[], bool],
    clock: Clock,
    tls: ssl.SSLContext | None = None,
    *,
    request_s_max: float = REQUEST_S_MAX,
    reading_s_max: float = READING_S_MAX,
) -> AsyncIterator[int | None]:
    """Serve what `read` returns, the `PROCESS_METRICS`, and whether the service `is_serving`, until the end
    of the block. Both are called on this event loop.

    `tls` None: in plaintext. Yields the port, a free one for 0; None: serves nothing. Raises SettingsError if
    it cannot listen on the address, or cannot use the token.
    """
    if settings.metrics_port is None:
        yield None
        return
    # A process without metrics does not load these; one with metrics does now, since a scrape would delay it.
    from strandline.adapters.telemetry.bearer_token import BearerToken
    from strandline.adapters.telemetry.metrics_http import MetricsListener
    from strandline.adapters.telemetry.metrics_pages import pages
    from strandline.adapters.telemetry.prometheus_text import text_application

    host, port, token_file = settings.metrics_address, settings.metrics_port, settings.metrics_token_file
    load = LoopLoad(clock)
    turns = _Turns(read, is_serving, load, asyncio.get_running_loop(), clock, reading_s_max)
    token = None if token_file is None else BearerToken(token_file)
    application = pages(text_application((*metrics, *PROCESS_METRICS), turns.samples), turns, token)
    try:
        listener = MetricsListener(host, port, application, request_s_max, tls)
    except OSError as error:
        raise SettingsError(
            f"setting metrics_port = {port}: cannot listen on {host}:{port}: {error.strerror} "
            "(set STRANDLINE_METRICS_PORT or STRANDLINE_METRICS_HOST)"
        ) from error
    _warn(settings, host)
    # A daemon thread: if the process ends by an exception, it does not wait for scrapes.
    thread = threading.Thread(target=listener.serve_forever, args=(STOP_POLL_S,), name="metrics", daemon=True)
    thread.start()
    logger.info("metrics are served", host=host, port=listener.server_port, encrypted=tls is not None)
    load.start()
    try:
        yield listener.server_port
    finally:
        load.stop()
        await asyncio.to_thread(listener.shutdown)
        listener.server_close()


def _warn(settings: ListenerSettings, host: str) -> None:
    """Say what other machines may read."""
    if is_loopback(host):
        return
    if settings.metrics_for_all:
        logger.warning(
            "everyone who reaches this port may read the metrics, with the names of topics and groups: set "
            "metrics_token_file, or metrics_ssl",
            host=host,
            port=settings.metrics_port,
        )
    elif not settings.metrics_ssl:
        logger.warning(
            "the token for metrics is not encrypted on the network: set metrics_ssl",
            host=host,
            port=settings.metrics_port,
        )


class _Turns:
    """Turns of a service's event loop, for the threads of requests."""

    def __init__(
        self,
        read: Read,
        is_serving: Callable[[], bool],
        load: LoopLoad,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        wait_s_max: float,
    ) -> None:
        self._read = read
        self._is_serving = is_serving
        self._load = load
        self._loop = loop
        self._clock = clock
        self._wait_s_max = wait_s_max
        self._lock = threading.Lock()
        self._last: Future[Iterable[Sample]] | None = None
        self._asked = 0.0

    def samples(self) -> Iterable[Sample]:
        """Raises TimeoutError if the loop is busy for too long, RuntimeError once it is closed."""
        return self._ask().result(self._wait_s_max)

    def alive(self) -> bool:
        """True, once the loop has turned. Raises as `samples` does."""
        return self._turn(lambda: True)

    def ready(self) -> bool:
        """Whether the service serves. Raises as `samples` does."""
        return self._turn(self._is_serving)

    def _turn(self, ask: Callable[[], bool]) -> bool:
        answer: Future[bool] = Future()
        self._loop.call_soon_threadsafe(lambda: answer.set_result(ask()))
        return answer.result(self._wait_s_max)

    def _ask(self) -> Future[Iterable[Sample]]:
        """The reading in progress, a recent one, or a new one."""
        with self._lock:
            now = self._clock.monotonic()
            if self._last is None or (self._last.done() and now - self._asked > READING_SHARED_S):
                answer: Future[Iterable[Sample]] = Future()
                self._loop.call_soon_threadsafe(self._answer, answer)
                self._last, self._asked = answer, now
            return self._last

    def _answer(self, answer: Future[Iterable[Sample]]) -> None:
        """Runs on the event loop. The service continues if its metrics fail."""
        try:
            own = [SERVING.is_now(self._is_serving()), *self._load.read()]
            answer.set_result(Reading(own, self._read()))
        except Exception as error:
            logger.exception("metrics could not be read")
            answer.set_exception(error)
