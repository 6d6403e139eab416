"""A task's state in memory, and a pipeline over it that keeps what it emits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from strandline.records import Headers
from strandline.streams.topology.graph import Emit
from strandline.streams.topology.subtopology import Subtopology
from strandline.streams.topology.topology import Topology


class MemoryState:
    """RawState over a dict."""

    def __init__(self) -> None:
        self.data: dict[tuple[str, bytes], bytes] = {}

    def get(self, store: str, key: bytes) -> bytes | None:
        return self.data.get((store, key))

    def put(self, store: str, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.data.pop((store, key), None)
        else:
            self.data[store, key] = value

    def range(self, store: str, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        return iter(
            sorted(
                (key, value)
                for (name, key), value in self.data.items()
                if name == store and (start is None or start <= key) and (end is None or key < end)
            )
        )


class Emitted(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 7
    headers: Headers = ()


class Task:
    """One partition of a subtopology. `send` gives it a record, `emitted` is what came out so far."""

    def __init__(self, part: Subtopology) -> None:
        self.state = MemoryState()
        self.emitted: list[Emitted] = []
        self._pipeline = part.pipeline(self.state, self._emit_to)

    def send(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int = 7,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> None:
        self._pipeline(key, value, timestamp_ms, headers)

    @property
    def out(self) -> list[tuple[str, bytes | None, bytes | None]]:
        """The outputs, without times and headers."""
        return [(record.topic, record.key, record.value) for record in self.emitted]

    def _emit_to(self, topic: str) -> Emit:
        def emit(key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> None:
            self.emitted.append(Emitted(topic, key, value, timestamp_ms, headers))

        return emit


def only_task(topology: Topology) -> Task:
    """A task of the one subtopology."""
    (part,) = topology.build("app")
    return Task(part)
