"""A stream of records during its description: each call adds the next operation."""

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
    """Returned by `Topology.source` and by the methods here; calling several methods creates branches.

    Branches get a record in the order of their declaration, and the same object: functions return new values
    and never change one in place. Time and headers stay as they are unless a function changes them. Every
    method raises TopologyError for an invalid argument, and after the topology is built.
    """

    def __init__(self, graph: Graph, node: Node, key: Serde[K] | None) -> None:
        self._graph = graph
        self._node = node
        self._key = key
        """The serde with which keys were decoded, as long as no function may have changed them."""

    def map(self, f: Callable[[Record[K, V]], Record[NewK, NewV]]) -> Stream[NewK, NewV]:
        """One record for each record. It may change the key, but not the partition of the record."""
        check_function(f, "map")
        return self._to(Map(f), None)

    def filter(self, f: Callable[[Record[K, V]], bool]) -> Stream[K, V]:
        """Keeps the records for which `f` is true."""
        check_function(f, "filter")
        return self._to(Filter(f), self._key)

    def flat_map(self, f: Callable[[Record[K, V]], Iterable[Record[NewK, NewV]]]) -> Stream[NewK, NewV]:
        """Any number of records for each record, in order."""
        check_function(f, "flat_map")
        return self._to(FlatMap(f), None)

    def process(
        self,
        f: Callable[[Record[K, V], KeyValueStore[SK, SV]], Iterable[Record[NewK, NewV]] | None],
        *,
        store: Store[SK, SV],
    ) -> Stream[NewK, NewV]:
        """Processes each record with the state of its task; the records that `f` returns or yields are
        forwarded."""
        check_function(f, "process")
        if not isinstance(store, Store):
            raise TopologyError(
                f"process({function_name(f)}): store={store!r}; give a Store(name, key, value)"
            )
        return self._to(Process(f, store), None)

    def count(self, store: str, *, key: Serde[K] | None = None) -> Stream[K, int]:
        """The number of records with the same key so far, after each of them; their values do not matter.

        It counts within a partition: use `repartition` first unless equal keys are already in one partition.
        The keys of the store are encoded with `key`; by default as they were decoded, if no function came
        between.
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
        """All records of a key in one partition, through an internal topic of the application.

        `partitions`: its number of partitions when it is created; by default that of the source.
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
        """Writes the records to a topic, partitioned by key; those without one go to any partition."""
        check_name(topic, "sink topic")
        check_serde(key, f"key serde of sink {topic!r}")
        check_serde(value, f"value serde of sink {topic!r}")
        self._graph.add(self._node, Sink(topic, key, value))

    def _to(self, node: Operator, key: Serde[NewK] | None) -> Stream[NewK, NewV]:
        self._graph.add(self._node, node)
        return Stream(self._graph, node, key)
