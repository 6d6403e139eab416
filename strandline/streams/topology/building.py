"""Builds the subtopologies of a described topology, and checks the constraints between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from strandline.streams.topology.errors import TopologyError
from strandline.streams.topology.graph import Count, Graph, Node, Repartition, Sink, Source
from strandline.streams.topology.names import check_name, internal_topic
from strandline.streams.topology.stores import Store
from strandline.streams.topology.subtopology import Subtopology


def build(graph: Graph, application_id: str) -> tuple[Subtopology, ...]:
    """Raises TopologyError."""
    check_name(application_id, "application id")
    if not graph.sources:
        raise TopologyError("the topology has no source: begin with Topology.source(topic)")
    _check_sources(graph.sources)
    for source in graph.sources:
        _check_ends(source)
    parts = tuple(_part(source, application_id) for source in graph.sources)
    _check_loops(parts)
    _check_stores(parts)
    _check_internal_topics(parts)
    return parts


def _part(source: Source, application_id: str) -> Subtopology:
    name = source.topics[0]
    nodes = tuple(source.downstream())
    stores = _stores(nodes, name)
    topics = (internal_topic(application_id, name, "repartition"),) if source.repartition else source.topics
    sinks = frozenset(node.topic for node in nodes if isinstance(node, Sink))
    return Subtopology(
        name=name,
        topics=topics,
        stores=stores,
        changelog=internal_topic(application_id, name, "changelog") if stores else None,
        repartitions=MappingProxyType(
            {
                internal_topic(application_id, node.name, "repartition"): node.partitions
                for node in nodes
                if isinstance(node, Repartition)
            }
        ),
        sinks=sinks,
        reads_repartition=source.repartition,
        application_id=application_id,
        source=source,
    )


def _stores(nodes: Iterable[Node], name: str) -> tuple[Store[Any, Any], ...]:
    """The stores of one part, in the order of first use."""
    found: dict[str, Store[Any, Any]] = {}
    counted = _twice(node.store.name for node in nodes if isinstance(node, Count))
    if counted is not None:
        raise TopologyError(
            f"count({counted!r}) is called twice downstream of {name!r}, and each record would count twice: "
            "call it once, and the methods of its stream as often as there are branches"
        )
    for store in (store for node in nodes for store in node.stores):
        if found.setdefault(store.name, store) != store:
            raise TopologyError(
                f"store {store.name!r} is declared twice downstream of {name!r} with different serdes: "
                f"{_serdes(found[store.name])} and {_serdes(store)}; declare it once, "
                "or give one of them another name"
            )
    return tuple(found.values())


def _serdes(store: Store[Any, Any]) -> str:
    return f"key={store.key!r}, value={store.value!r}"


def _check_sources(sources: Iterable[Source]) -> None:
    """Check that each topic has one reader, each repartition one writer, and each part a unique name."""
    repartitions = [source.topics[0] for source in sources if source.repartition]
    if name := _twice(repartitions):
        raise TopologyError(f"there are two repartitions of the name {name!r}: name one of them otherwise")
    read = [topic for source in sources if not source.repartition for topic in source.topics]
    if topic := _twice(read):
        raise TopologyError(
            f"topic {topic!r} is read by two sources, or twice by one: call source once, "
            "and the methods of its stream as often as there are branches"
        )
    if name := _twice(source.topics[0] for source in sources):
        raise TopologyError(
            f"repartition {name!r} has the name of a source topic, and parts are named by these: "
            "name the repartition otherwise"
        )


def _twice(names: Iterable[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _check_ends(source: Source) -> None:
    for node in (source, *source.downstream()):
        if not node.children and not node.ends:
            raise TopologyError(
                f"nothing is done with what comes out of {node}, downstream of {source.topics[0]!r}: "
                "end the branch with to, process, count or repartition, or leave it out"
            )


def _check_loops(parts: Iterable[Subtopology]) -> None:
    """Check that no part writes a topic that it or an earlier part reads: that would be an endless loop."""
    before: dict[str, frozenset[str]] = {}
    """For each repartition topic: all topics that lead to it. Parts are in the order of creation."""
    for part in parts:
        led = frozenset(part.topics).union(*(before.get(topic, frozenset()) for topic in part.topics))
        before |= dict.fromkeys(part.repartitions, led)
        if loops := led & part.sinks:
            raise TopologyError(
                f"source({min(loops)!r}) is written by to({min(loops)!r}) downstream of it, so it would "
                "never end: write to another topic"
            )


def _check_stores(parts: Iterable[Subtopology]) -> None:
    """Check that each store name is used in one part only: its state belongs to that part's partitions."""
    users: dict[str, str] = {}
    for part in parts:
        for store in part.stores:
            other = users.setdefault(store.name, part.name)
            if other != part.name:
                raise TopologyError(
                    f"store {store.name!r} is used downstream of {other!r} and of {part.name!r}, "
                    "which run apart: give each a store of its own name"
                )


def _check_internal_topics(parts: Iterable[Subtopology]) -> None:
    """Check that the user names no topic that the application creates for itself."""
    named = {topic for part in parts for topic in part.sinks}
    named |= {topic for part in parts if not part.reads_repartition for topic in part.topics}
    internal = {topic for part in parts for topic in part.repartitions}
    internal |= {part.changelog for part in parts if part.changelog is not None}
    if taken := named & internal:
        raise TopologyError(
            f"topic {min(taken)!r} is one that the application makes for itself: "
            "use another topic, or another application id"
        )
