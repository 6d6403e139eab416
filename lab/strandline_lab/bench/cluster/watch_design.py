"""A model of this family's first design, as a comparison: watches for each partition.

Each broker watches the leader znode of every partition that it has a replica of; a leader also watches the
ISR and the reassignment. With 3 brokers and 3,000 partitions of 3 replicas, these are the 15,000 watches that
Kafka's design V2 counts. When a leader's session ends, every replica of each of its partitions is notified,
and all of them try to create the leader znode. The model has no log: it measures only the coordination.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError
from kazoo.protocol.states import EventType, WatchedEvent

ROOT: Final = "/v1"
BATCH: Final = 500
SESSION_S: Final = 3.0
"""The same as the brokers' default."""


# --- one broker, in a process of its own -------------------------------------------------------


class Replica:
    """One partition on one broker."""

    def __init__(self, broker: WatchingBroker, number: int) -> None:
        self._broker = broker
        self._path = f"{ROOT}/{number}"
        self.number = number

    def look(self) -> Any:
        """Watches the leader znode; if there is none, tries to create it."""
        found = self._broker.client.exists_async(f"{self._path}/leader", watch=self._changed)
        found.rawlink(self._seen)
        return found

    def _changed(self, event: WatchedEvent) -> None:
        if event.type in (EventType.DELETED, EventType.CREATED):
            self.look()

    def _seen(self, found: Any) -> None:
        if found.successful() and found.value is None:
            self.stand()

    def stand(self) -> Any:
        created = self._broker.client.create_async(
            f"{self._path}/leader", str(self._broker.id).encode(), ephemeral=True
        )
        created.rawlink(self._stood)
        return created

    def _stood(self, created: Any) -> None:
        if not created.successful():
            assert isinstance(created.exception, NodeExistsError), created.exception
            return
        self._broker.client.set_async("/v1epoch", b"").rawlink(self._take_over)

    def _take_over(self, _epoch: Any) -> None:
        client = self._broker.client
        client.set_async(f"{self._path}/isr", b"[]")
        client.get_async(f"{self._path}/isr", watch=_ignored)
        client.exists_async(f"{self._path}/reassigned", watch=_ignored)
        self._broker.elected(self.number)


def _ignored(_event: WatchedEvent) -> None: ...


class WatchingBroker:
    def __init__(self, broker_id: int, zookeeper: str, partitions: int, brokers: int) -> None:
        self.id = broker_id
        self.client = KazooClient(zookeeper, timeout=SESSION_S)
        self._replicas = [Replica(self, number) for number in range(partitions)]
        self._brokers = brokers
        self._lock = threading.Lock()

    def run(self) -> None:
        """Leads each `brokers`-th partition, watches all, and runs until killed."""
        self.client.start()
        mine = [replica for replica in self._replicas if replica.number % self._brokers == self.id]
        for some in _batches(mine):
            for created in [replica.stand() for replica in some]:
                created.wait()
        print("led", flush=True)
        sys.stdin.readline()  # until all of them are led
        for some in _batches(self._replicas):
            for found in [replica.look() for replica in some]:
                found.wait()
        print("watching", flush=True)
        signal.pause()

    def elected(self, number: int) -> None:
        with self._lock:  # callbacks run on kazoo's threads
            print(f"elected {number}", flush=True)


def _batches(replicas: Sequence[Replica]) -> list[Sequence[Replica]]:
    return [replicas[at : at + BATCH] for at in range(0, len(replicas), BATCH)]


# --- all of them -----------------------------------------------------------------------------------


class Model:
    """The brokers of the model, as processes."""

    def __init__(self, processes: list[asyncio.subprocess.Process], partitions: int) -> None:
        self._processes = processes
        self._partitions = partitions

    async def kill_first(self) -> float:
        """Kills the first with kill -9. Returns the seconds until each partition that it led has a leader
        again."""
        led = self._partitions // len(self._processes)
        victim, *others = self._processes
        began = time.monotonic()
        victim.kill()
        elected: set[str] = set()
        all_led = asyncio.Event()

        async def listen(process: asyncio.subprocess.Process) -> None:
            while not all_led.is_set():
                elected.add((await _line(process)).removeprefix("elected "))
                if len(elected) == led:
                    all_led.set()

        async with asyncio.TaskGroup() as tasks:
            listeners = [tasks.create_task(listen(process)) for process in others]
            await all_led.wait()
            took = time.monotonic() - began
            for listener in listeners:
                listener.cancel()
        return took


@asynccontextmanager
async def model(zookeeper: str, *, partitions: int, brokers: int) -> AsyncIterator[Model]:
    """Runs the model with each partition led and watched, on a ZooKeeper that can hold it."""
    await asyncio.to_thread(_lay_ground, zookeeper, partitions)
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "strandline_lab.bench.cluster.watch_design"),
            *(str(broker), zookeeper, str(partitions), str(brokers)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for broker in range(brokers)
    ]  # fmt: skip
    try:
        for process in processes:
            await _until(process, "led")
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
        for process in processes:
            await _until(process, "watching")
        yield Model(processes, partitions)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _until(process: asyncio.subprocess.Process, word: str) -> None:
    while await _line(process) != word:
        continue


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError("a broker of the model ended")
    return line.decode().strip()


def _lay_ground(zookeeper: str, partitions: int) -> None:
    client = KazooClient(zookeeper)
    client.start()
    try:
        client.ensure_path(ROOT)
        client.ensure_path("/v1epoch")
        for first in range(0, partitions, BATCH):
            transaction = client.transaction()
            for number in range(first, min(first + BATCH, partitions)):
                transaction.create(f"{ROOT}/{number}")
                transaction.create(f"{ROOT}/{number}/isr")
            transaction.commit()
    finally:
        client.stop()
        client.close()


if __name__ == "__main__":
    WatchingBroker(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])).run()
