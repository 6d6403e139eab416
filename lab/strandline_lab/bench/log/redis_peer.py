"""Redis streams with two replicas, for comparison: XADD in pipelines, each closed by WAIT 2."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import redis

from strandline.errors import SettingsError
from strandline.local.ports import LOOPBACK, free_ports
from strandline.local.process import Process
from strandline_lab.perf.measure import spread

REPLICAS: Final = 2
START_S_MAX: Final = 20
WAIT_MS_MAX: Final = 10_000
STREAM: Final = "peer"
PIPELINE: Final = 5_000
"""Records in a pipeline, which has one WAIT; shorter ones are slower, longer ones no faster."""


@asynccontextmanager
async def cluster() -> AsyncIterator[redis.Redis]:
    """Runs a leader with two replicas in a temporary folder, without a disk; yields a client of the leader.

    Raises SettingsError if redis-server is not installed.
    """
    executable = shutil.which("redis-server")
    if executable is None:
        raise SettingsError("redis-server is not installed; on Debian: apt-get install redis-server")
    ports = free_ports(1 + REPLICAS)
    with tempfile.TemporaryDirectory(prefix="strandline-peer-") as folder:
        processes = []
        try:
            for port in ports:
                directory = Path(folder, str(port))
                directory.mkdir()
                command = [
                    executable, "--port", str(port), "--bind", LOOPBACK, "--dir", str(directory),
                    "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
                ]  # fmt: skip
                if port != ports[0]:
                    command += ["--replicaof", LOOPBACK, str(ports[0])]
                log_path = directory / "log"
                processes.append(Process.spawn(f"redis-{port}", command, log_path=log_path, environment={}))
            with redis.Redis(host=LOOPBACK, port=ports[0]) as client:
                _wait_replicated(client)
                yield client
        finally:
            for process in processes:
                await process.stop(clean=False, timeout_s=0)


def _wait_replicated(client: redis.Redis) -> None:
    """Returns once a write reaches both replicas."""
    deadline = perf_counter() + START_S_MAX
    while True:
        try:
            client.set("ready", "1")
            if client.wait(REPLICAS, 100) == REPLICAS:
                return
        except redis.ConnectionError:
            pass  # it does not listen yet
        if perf_counter() > deadline:
            raise SettingsError(f"redis-server had not {REPLICAS} replicas after {START_S_MAX} s")


def produce(client: redis.Redis, records: int, record_size: int, pipeline: int = PIPELINE) -> dict[str, Any]:
    """Appends `records`, and waits for both replicas after each pipeline. Returns records and MB a second."""
    client.delete(STREAM)
    value = bytes(record_size)
    began = perf_counter()
    for first in range(0, records, pipeline):
        pipe = client.pipeline(transaction=False)
        for _ in range(min(pipeline, records - first)):
            pipe.xadd(STREAM, {b"v": value})
        pipe.wait(REPLICAS, WAIT_MS_MAX)
        _check_replicated(pipe.execute()[-1])
    seconds = perf_counter() - began
    return {"records_per_s": records / seconds, "mb_per_s": records * record_size / seconds / 1e6}


def consume(client: redis.Redis, records: int, record_size: int) -> dict[str, Any]:
    """Fills a stream, then reads it in lists of 10,000. Returns records and MB a second of the reading."""
    produce(client, records, record_size)
    last: bytes | str = "0"
    read = 0
    began = perf_counter()
    while read < records:
        answer: Any = client.xread({STREAM: last}, count=10_000)
        ((_, entries),) = answer
        last = entries[-1][0]
        read += len(entries)
    seconds = perf_counter() - began
    return {"records_per_s": read / seconds, "mb_per_s": read * record_size / seconds / 1e6}


def latency(client: redis.Redis, records: int, record_size: int) -> dict[str, Any]:
    """Measures one record in flight: XADD and WAIT in one pipeline. Returns p50, p99 and maximum, ms."""
    client.delete(STREAM)
    value = bytes(record_size)
    took = []
    for _ in range(records):
        began = perf_counter()
        pipe = client.pipeline(transaction=False)
        pipe.xadd(STREAM, {b"v": value})
        pipe.wait(REPLICAS, WAIT_MS_MAX)
        _check_replicated(pipe.execute()[-1])
        took.append(perf_counter() - began)
    return spread(took)


def _check_replicated(replicas: int) -> None:
    if replicas < REPLICAS:
        raise RuntimeError(f"only {replicas} of {REPLICAS} replicas had the records after {WAIT_MS_MAX} ms")
