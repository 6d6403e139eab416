"""The topology of a counting application: it counts each user and each component in a topic.

A record's key is its user, its value its component. Users are counted where they are read, components behind
a repartition topic, so that both ways in which a count could be wrong are covered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from strandline.streams import INTEGER, STRING, KeyValueStore, Record, Store, Topology

USERS: Final = "users"
COMPONENTS: Final = "components"
"""Names of stores; of the repartition topic, and so of its subtopology, too."""

COUNT_BYTES: Final = 8

Look = Callable[[Record[str, str]], None]


class Padded:
    """A count that is padded to this size, so that few keys make a large state."""

    def __init__(self, size: int) -> None:
        self._padding = bytes(max(0, size - COUNT_BYTES))

    def encode(self, value: int) -> bytes:
        return INTEGER.encode(value) + self._padding

    def decode(self, data: bytes) -> int:
        return INTEGER.decode(data[:COUNT_BYTES])


def counting(lines: str, counts: str, *, state_bytes: int, partitions: int, look: Look) -> Topology:
    """From the topic `lines` to `counts`: a component and its count, whenever that changes.

    `state_bytes` is the size of a user's count; `look` sees every record that is counted.
    """

    def count(record: Record[str, str], store: KeyValueStore[str, int]) -> None:
        look(record)
        assert record.key is not None
        store.put(record.key, (store.get(record.key) or 0) + 1)

    topology = Topology()
    source = topology.source(lines, key=STRING, value=STRING)
    _ = source.process(count, store=Store(USERS, STRING, Padded(state_bytes)))
    by_component = source.map(_by_component).repartition(
        COMPONENTS, key=STRING, value=STRING, partitions=partitions
    )
    by_component.count(COMPONENTS).to(counts, key=STRING, value=INTEGER)
    return topology


def _by_component(record: Record[str, str]) -> Record[str, str]:
    return record._replace(key=record.value)
