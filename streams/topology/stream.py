"""A stream of records while it is described: each call says what is done with them next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from strandline.streams.topology.errors import TopologyError
from strandline.streams.topology.graph import (
    Count,
    Filter,
    FlatMap,
    Graph,
    Map,
    Node,
    Operator,
    Process,
    Repartition,
    Sink,
    Source,
)
from strandline.streams.topology.names import (
    check_function,
    check_name,
    check_partitions,
    check_serde,
    function_name,
)
from strandline.streams.topology.records import Record
from strandline.streams.topology.serdes import INTEGER, Serde
from strandline.streams.topology.stores import KeyValueStore, Store

K = TypeVar("K")
V = TypeVar("V")
NewK = TypeVar("NewK")
NewV = TypeVar("NewV")
SK = TypeVar("SK")
SV = TypeVar("SV")


class Stream(Generic[K, V]):
    """Made by `Topology.source`, and by the methods here; each may be called several times, which branches.

    Branches get a record in the order in which they were declared, and the same one: functions make new
    values and never change one in place. Time and headers go on as they are unless a function says otherwise.
    Every method raises TopologyError for an argument that cannot work, and once the topology is built.
    """

    def __init__(self, graph: Graph, node: Node, key: Serde[K] | None) -> None:
        self._graph = graph
        self._node = node
        self._key = key
        """How keys became what they are, while no function may have changed that."""

    def map(self, f: Callable[[Record[K, V]], Record[NewK, NewV]]) -> Stream[NewK, NewV]:
        """A record for a record. It may change the key; where the record is does not change by that."""
        check_function(f, "map")
        return self._to(Map(f), None)

    def filter(self, f: Callable[[Record[K, V]], bool]) -> Stream[K, V]:
        """Keeps those of which `f` is true."""
        check_function(f, "filter")
        return self._to(Filter(f), self._key)

    def flat_map(self, f: Callable[[Record[K, V]], Iterable[Record[NewK, NewV]]]) -> Stream[NewK, NewV]:
        """Any number of records for a record, in order."""
        check_function(f, "flat_map")
        return self._to(FlatMap(f), None)

    def process(
        self,
        f: Callable[[Record[K, V], KeyValueStore[SK, SV]], Iterable[Record[NewK, NewV]] | None],
        *,
        store: Store[SK, SV],
    ) -> Stream[NewK, NewV]:
        """Does something with each record and the state of its task; what `f` returns or yields goes on."""
        check_function(f, "process")
        if not isinstance(store, Store):
            raise TopologyError(
                f"process({function_name(f)}): store={store!r}; give a Store(name, key, value)"
            )
        return self._to(Process(f, store), None)

    def count(self, store: str, *, key: Serde[K] | None = None) -> Stream[K, int]:
        """The number of records of their key so far, after each of them, whatever their values are.

        Counted are those of the same partition: `repartition` first unless equal keys are in one anyway. The
        keys of the store are written with `key`; by default as they were read, if no function came between.
        """
        key = self._key if key is None else key
        if key is None:
            raise TopologyError(
                f"count({store!r}): {self._node} may have changed the key; say how to write it, as key=STRING"
            )
        return self._to(Count(Store(store, key, INTEGER)), key)

    def repartition(
        self, name: str, *, key: Serde[K], value: Serde[V], partitions: int | None = None
    ) -> Stream[K, V]:
        """All records of a key in one partition, through a topic of the application's own.

        `partitions`: how many it gets when it is created; by default as many as the source has.
        """
        check_name(name, "repartition")
        check_serde(key, f"key serde of repartition {name!r}")
        check_serde(value, f"value serde of repartition {name!r}")
        check_partitions(partitions, name)
        source = Source((name,), key, value, repartition=True)
        self._graph.add(self._node, Repartition(name, key, value, partitions))
        self._graph.begin(source)
        return Stream(self._graph, source, key)

    def to(self, topic: str, *, key: Serde[K], value: Serde[V]) -> None:
        """Writes them to a topic, by key; those without one to any partition."""
        check_name(topic, "sink topic")
        check_serde(key, f"key serde of sink {topic!r}")
        check_serde(value, f"value serde of sink {topic!r}")
        self._graph.add(self._node, Sink(topic, key, value))

    def _to(self, node: Operator, key: Serde[NewK] | None) -> Stream[NewK, NewV]:
        self._graph.add(self._node, node)
        return Stream(self._graph, node, key)
