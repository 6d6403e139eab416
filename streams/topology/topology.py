"""The description of a stream application, and what it comes to: parts that run by themselves."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from strandline.streams.topology.building import built
from strandline.streams.topology.errors import TopologyError
from strandline.streams.topology.graph import Graph, Source
from strandline.streams.topology.names import check_name, check_serde
from strandline.streams.topology.serdes import BYTES, Serde
from strandline.streams.topology.stream import Stream
from strandline.streams.topology.subtopology import Subtopology

K = TypeVar("K")
V = TypeVar("V")


class Topology:
    """Begins with sources; each gives a stream, and a stream's methods say the rest. Nothing runs yet."""

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
        """Reads topics that are written alike. The first one names the state kept downstream, for ever.

        Raises TopologyError for no topics, for names that no topic can have, and for what is no serde.
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
        """The parts, in the order of their sources; from then on the description is closed.

        Raises TopologyError for what does not go together: the message names it and what to change.
        """
        parts = built(self._graph, application_id)
        self._graph.built = True
        return parts
