"""The elements of a topology: trees of operators, each from a source to the ends of its branches.

An operator is a node that can build a function. `opened` is called once for each task, from the leaves to the
source, and the result is nested closures: a record costs the calls of its operators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from strandline.records import Headers, RecordHeaders
from strandline.streams.topology.errors import RecordRefused, TopologyError
from strandline.streams.topology.names import function_name, internal_topic
from strandline.streams.topology.records import Record
from strandline.streams.topology.serdes import BYTES, INTEGER, Serde
from strandline.streams.topology.stores import RawState, Store, StoreView

AnyRecord = Record[Any, Any]
_new: Final = tuple.__new__
"""Half the cost of `Record(…)`, which calls a Python function."""

Forward = Callable[[AnyRecord], None]
"""Processes a record with everything after an operator."""

Emit = Callable[[bytes | None, bytes | None, int, Headers], None]
"""Takes an output to one topic: key, value, timestamp in milliseconds, headers."""

EmitTo = Callable[[str], Emit]
"""Returns the function that takes the outputs to a topic."""

Pipeline = Callable[[bytes | None, bytes | None, int, RecordHeaders], None]
"""Takes an input: key, value, timestamp in milliseconds, headers."""


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The context of a task's operators: its state, where its outputs go, and the application id for topic
    names."""

    state: RawState
    emit_to: EmitTo
    application_id: str


@dataclass(eq=False, slots=True)
class Node:
    """A node of the tree. `children` get the records that it forwards, in the order of their declaration."""

    children: list[Operator] = field(default_factory=list, init=False, repr=False)

    ends = False
    """Whether a branch may end here, because the node has an effect of its own."""

    @property
    def stores(self) -> tuple[Store[Any, Any], ...]:
        return ()

    def downstream(self) -> Iterator[Node]:
        """Every node below it, branch by branch."""
        for child in self.children:
            yield child
            yield from child.downstream()

    def forwarding(self, context: OperatorContext) -> Forward:
        """The function that passes a forwarded record to its children."""
        steps = tuple(child.opened(child.forwarding(context), context) for child in self.children)
        if len(steps) == 1:
            return steps[0]

        def run(record: AnyRecord) -> None:
            for step in steps:
                step(record)

        return run


class Operator(Node, ABC):
    """A node under a source or another operator."""

    __slots__ = ()

    @abstractmethod
    def opened(self, forward: Forward, context: OperatorContext) -> Forward:
        """The function that processes a record; `forward` is everything after it."""


@dataclass(eq=False, slots=True)
class Source(Node):
    """The start of a subtopology. `repartition`: this topology writes its topic."""

    topics: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]
    repartition: bool = False

    def __str__(self) -> str:
        return f"{'repartition' if self.repartition else 'source'}({', '.join(map(repr, self.topics))})"

    def pipeline(self, context: OperatorContext) -> Pipeline:
        """The function that decodes a record and passes it to the operators."""
        forward = self.forwarding(context)
        decode_key, decode_value = self.key.decode, self.value.decode

        def run_bytes(
            key: bytes | None, value: bytes | None, timestamp_ms: int, headers: RecordHeaders
        ) -> None:
            forward(_new(Record, (key, value, timestamp_ms, headers)))

        def run(key: bytes | None, value: bytes | None, timestamp_ms: int, headers: RecordHeaders) -> None:
            part = "key"
            try:
                new_key = None if key is None else decode_key(key)
                part = "value"
                new_value = None if value is None else decode_value(value)
            except Exception as error:
                error.add_note(f"while decoding the {part} of a record of {self}")
                raise
            forward(_new(Record, (new_key, new_value, timestamp_ms, headers)))

        return run_bytes if self.key == BYTES == self.value else run


@dataclass(eq=False, slots=True)
class Map(Operator):
    f: Callable[[AnyRecord], AnyRecord]

    def __str__(self) -> str:
        return f"map({function_name(self.f)})"

    def opened(self, forward: Forward, context: OperatorContext) -> Forward:
        f = self.f

        def run(record: AnyRecord) -> None:
            result: object = f(record)
            if not isinstance(result, Record):
                raise _no_record(self, result, "a Record; filter or flat_map leave records out")
            forward(result)

        return run


@dataclass(eq=False, slots=True)
class Filter(Operator):
    f: Callable[[AnyRecord], bool]

    def __str__(self) -> str:
        return f"filter({function_name(self.f)})"

    def opened(self, forward: Forward, context: OperatorContext) -> Forward:
        f = self.f

        def run(record: AnyRecord) -> None:
            keeps: object = f(record)
            if keeps is True:
                forward(record)
            elif keeps is not False:
                # A coroutine is always true, but is no valid result.
                if hasattr(keeps, "__await__"):
                    raise _no_record(self, keeps, "whether to keep the record")
                if keeps:
                    forward(record)

        return run


@dataclass(eq=False, slots=True)
class FlatMap(Operator):
    f: Callable[[AnyRecord], Iterable[AnyRecord]]

    def __str__(self) -> str:
        return f"flat_map({function_name(self.f)})"

    def opened(self, forward: Forward, context: OperatorContext) -> Forward:
        f = self.f

        def run(record: AnyRecord) -> None:
            _forward_each(self, f(record), forward)

        return run


@dataclass(eq=False, slots=True)
class Process(Operator):
    f: Callable[[AnyRecord, Any], Iterable[AnyRecord] | None]
    store: Store[Any, Any]

    ends = True

    def __str__(self) -> str:
        return f"process({function_name(self.f)})"

    @property
    def stores(self) -> tuple[Store[Any, Any], ...]:
        return (self.store,)

    def opened(self, forward: Forward, context: OperatorContext) -> Forward:
        f, view = self.f, StoreView(self.store, context.state)

        def run(record: AnyRecord) -> None:
            results = f(record, view)
            if results is not None:
                _forward_each(self, results, forward)

        return run


@dataclass(eq=False, slots=True)
class Count(Operator):
    store: Store[Any, int]

    ends = True

    def __str__(self) -> str:
        return f"count({self.store.name!r})"

    @property
    def stores(self) -> tuple[Store[Any, Any], ...]:
        return (self.store,)

    def opened(self, forward: Forward, context: OperatorContext) -> Forward:
        name, encode, get, put = self.store.name, self.store.key.encode, context.state.get, context.state.put

        def run(record: AnyRecord) -> None:
            key, _, timestamp_ms, headers = record
            if key is None:
                raise _no_key(self)
            try:
                data = encode(key)
            except Exception as error:
                error.add_note(f"while encoding a key for store {name!r}")
                raise
            before = get(name, data)
            count = 1 if before is None else INTEGER.decode(before) + 1
            put(name, data, INTEGER.encode(count))
            forward(_new(Record, (key, count, timestamp_ms, headers)))

        return run


@dataclass(eq=False, slots=True)
class Sink(Operator):
    topic: str
    key: Serde[Any]
    value: Serde[Any]

    ends = True

    def __str__(self) -> str:
        return f"to({self.topic!r})"

    def opened(self, forward: Forward, context: OperatorContext) -> Forward:
        return _writing(self.topic, self.key, self.value, context.emit_to, lambda: None)


@dataclass(eq=False, slots=True)
class Repartition(Operator):
    """Writes, by key, what the source of the same name reads."""

    name: str
    key: Serde[Any]
    value: Serde[Any]
    partitions: int | None

    ends = True

    def __str__(self) -> str:
        return f"repartition({self.name!r})"

    def opened(self, forward: Forward, context: OperatorContext) -> Forward:
        topic = internal_topic(context.application_id, self.name, "repartition")

        def refuse() -> None:
            raise _no_key(self)

        return _writing(topic, self.key, self.value, context.emit_to, refuse)


def _writing(
    topic: str,
    key_serde: Serde[Any],
    value_serde: Serde[Any],
    emit_to: EmitTo,
    without_key: Callable[[], None],
) -> Forward:
    """Encodes and emits a record; calls `without_key` first if it has no key."""
    encode_key, encode_value, emit = key_serde.encode, value_serde.encode, emit_to(topic)

    def run(record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        if key is None:
            without_key()
        part = "key"
        try:
            key_data = None if key is None else encode_key(key)
            part = "value"
            value_data = None if value is None else encode_value(value)
        except Exception as error:
            error.add_note(f"while encoding the {part} of a record for topic {topic!r}")
            raise
        emit(key_data, value_data, timestamp_ms, headers)

    return run


def _forward_each(node: Node, results: Any, forward: Forward) -> None:
    # A record is a tuple, and would be iterated as its fields.
    if isinstance(results, Record):
        raise _no_record(node, results, "records in an iterable, as [record]")
    try:
        records = iter(results)
    except TypeError:
        raise _no_record(node, results, "an iterable of records") from None
    for record in records:
        if not isinstance(record, Record):
            raise _no_record(node, record, "nothing but records")
        forward(record)


def _no_record(node: Node, result: object, wanted: str) -> RecordRefused:
    return RecordRefused(
        f"{node} returned {result!r:.100} ({type(result).__name__}); it has to return {wanted}"
    )


def _no_key(node: Node) -> RecordRefused:
    return RecordRefused(
        f"{node}: a record without a key; leave such records out before it, "
        "as with filter(lambda record: record.key is not None), or give them a key with map"
    )


class Graph:
    """The description of one topology, until it is built."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.built = False

    def begin(self, source: Source) -> None:
        self._check_open(source)
        self.sources.append(source)

    def add(self, parent: Node, child: Operator) -> None:
        self._check_open(child)
        parent.children.append(child)

    def _check_open(self, node: Node) -> None:
        if self.built:
            raise TopologyError(f"{node}: the topology is built already; describe all of it before it is run")
