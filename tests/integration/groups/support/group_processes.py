"""Starts consumers as processes, and keeps what each has printed so far."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from strandline import LocalCluster
from tests.forking.client import Forked, start_forked
from tests.integration.groups.support.group_members import GROUP_SETTINGS

MODULE = "tests.integration.groups.support.group_process"


class Process:
    """One consumer process. `printed` is what it printed, in order."""

    def __init__(self, process: Forked, log: Path) -> None:
        self._process = process
        self._log = log
        self.printed: list[dict[str, Any]] = []

    async def listen(self) -> None:
        async for line in self._process.stdout:
            self.printed.append(json.loads(line))

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def owned(self) -> set[int]:
        """The partitions that it owns by its own output."""
        owned: set[int] = set()
        for event in self.printed:
            if event["event"] == "assigned":
                owned |= set(event["partitions"])
            elif event["event"] in ("revoked", "lost"):
                owned -= set(event["partitions"])
        return owned

    @property
    def generation(self) -> int:
        """The generation of its last records."""
        return max((event["generation"] for event in self.printed if event["event"] == "records"), default=-1)

    def seen(self) -> Counter[tuple[int, int]]:
        """How often each record, by partition and offset, was handed out."""
        return Counter(
            (event["partition"], offset)
            for event in self.printed
            if event["event"] == "records"
            for offset in event["offsets"]
        )

    def signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def ended(self) -> int:
        return await self._process.wait()


class Processes:
    """The members of one group."""

    def __init__(
        self,
        cluster: LocalCluster,
        topic: str,
        group: str,
        directory: Path,
        tasks: asyncio.TaskGroup,
        settings: Mapping[str, Any],
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._settings = {**GROUP_SETTINGS, "group_id": group, **settings}
        self._directory = directory
        self._tasks = tasks
        self.all: list[Process] = []

    async def start(self, module: str = MODULE, **settings: Any) -> Process:
        """One more, by another module a Kafka client; it may not have joined yet."""
        bootstrap = self._cluster.bootstrap if module == MODULE else self._cluster.kafka_bootstrap
        log = self._directory / f"member-{len(self.all)}.log"
        with log.open("wb") as output:
            arguments = (bootstrap, self._topic, json.dumps({**self._settings, **settings}))
            process = await start_forked(module, *arguments, stderr=output)
        member = Process(process, log)
        self.all.append(member)
        self._tasks.create_task(member.listen())
        return member

    def seen(self) -> Counter[tuple[int, int]]:
        """Over all participants."""
        total: Counter[tuple[int, int]] = Counter()
        for member in self.all:
            total += member.seen()
        return total


@asynccontextmanager
async def processes(
    cluster: LocalCluster, topic: str, group: str, directory: Path, **settings: Any
) -> AsyncIterator[Processes]:
    """All of them are dead when the block ends."""
    async with asyncio.TaskGroup() as tasks:
        started = Processes(cluster, topic, group, directory, tasks, settings)
        try:
            yield started
        finally:
            for process in started.all:
                process.signal(signal.SIGKILL)
                _ = await process.ended()
