"""The partitions of one coordinators' topic that this broker leads, from election to end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from strandline.broker.coordinators.kind import Kind
from strandline.broker.coordinators.partition import CoordinatorPartition, Surroundings
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.ids import TopicId

Led = TypeVar("Led", bound=CoordinatorPartition[Any])


class LedPartitions(ABC, Generic[Led]):
    """A `LeadershipWatcher`. `run` owns the tasks of all partitions."""

    def __init__(
        self,
        kind: Kind,
        manager: ReplicaManager,
        holds_lease: Callable[[], bool],
        *,
        append_timeout_ms: int,
        appends_max: int,
    ) -> None:
        self._kind = kind
        self._manager = manager
        self._clock = manager.clock
        self._holds_lease = holds_lease
        self._append_timeout_ms = append_timeout_ms
        self._appends_max = appends_max
        self._partitions: dict[int, Led] = {}
        self._new: deque[Led] = deque()
        self._wake = asyncio.Event()
        self.topic_id: TopicId | None = None
        """The incarnation of the topic that was last led here."""

    @abstractmethod
    def _make(self, leadership: Leadership, around: Surroundings) -> Led:
        """The partition of a leadership that begins."""

    def __iter__(self) -> Iterator[Led]:
        return iter(tuple(self._partitions.values()))

    def get(self, number: int) -> Led | None:
        """The partition, if this broker leads it; it may still be loading."""
        return self._partitions.get(number)

    async def run(self) -> None:
        """Runs the partitions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._new:
                    tasks.create_task(self._new.popleft().run())

    def begun(self, leadership: Leadership) -> None:
        replica = leadership.replica
        if replica.name.topic != self._kind.topic:
            return
        around = Surroundings(
            clock=self._clock,
            append_timeout_ms=self._append_timeout_ms,
            appends_max=self._appends_max,
            hint=partial(self._manager.hint, replica),
            holds_lease=self._holds_lease,
            on_storage_failed=partial(leadership.step_down, None),
            expiry_ms=self._manager.retention.now_ms,
        )
        partition = self._make(leadership, around)
        self._end(partition.number)
        self.topic_id = replica.key.topic_id
        self._partitions[partition.number] = partition
        self._new.append(partition)
        self._wake.set()

    def ended(self, leadership: Leadership) -> None:
        partition = self._partitions.get(leadership.replica.name.partition)
        if partition is not None and partition.leadership is leadership:
            self._end(partition.number)

    def _end(self, number: int) -> None:
        partition = self._partitions.pop(number, None)
        if partition is not None:
            partition.end()
