"""The description of a stream application, and its division into independent parts."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from strandline.streams.topology.building import build
from strandline.streams.topology.errors import TopologyError
from strandline.streams.topology.graph import Graph, Source
from strandline.streams.topology.names import check_name, check_serde
from strandline.streams.topology.serdes import BYTES, Serde
from strandline.streams.topology.stream import Stream
from strandline.streams.topology.subtopology import Subtopology

K = TypeVar("K")
V = TypeVar("V")


class Topology:
    """Describes a topology: it begins with sources; each returns a stream, whose methods add the rest.
    Nothing runs yet."""

    def __init__(self) -> None:
        self._graph = Graph()

    @overload
    def source(self, *topics: str) -> Stream[bytes, bytes]: ...
    @overload
    def source(self, *topics: str, key: Serde[K]) -> Stream[K, bytes]: ...
    @overload
    def source(self, *topics: str, value: Serde[V]) -> Stream[bytes, V]: ...
    @overload
    def source(self, *topics: str, key: Serde[K], value: Serde[V]) -> Stream[K, V]: ...
    def source(self, *topics: str, key: Serde[Any] = BYTES, value: Serde[Any] = BYTES) -> Stream[Any, Any]:
        """Read topics with the same serdes. The first topic names the state downstream, permanently.

        Raises TopologyError for no topics, for illegal topic names, and for invalid serdes.
        """
        if not topics:
            raise TopologyError("source(): name a topic at least")
        for topic in topics:
            check_name(topic, "source topic")
        check_serde(key, f"key serde of source {topics[0]!r}")
        check_serde(value, f"value serde of source {topics[0]!r}")
        source = Source(topics, key, value)
        self._graph.begin(source)
        return Stream(self._graph, source, key)

    def build(self, application_id: str) -> tuple[Subtopology, ...]:
        """The parts, in the order of their sources; after that the description cannot be changed.

        Raises TopologyError for a contradiction: the message names it and what to change.
        """
        parts = build(self._graph, application_id)
        self._graph.built = True
        return parts
