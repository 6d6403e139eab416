"""What a topology is made of: trees of operators, each from a source to what ends its branches.

An operator is a node that knows how to become a function. `opened` is called once a task, from the leaves to
the source, and what comes out is one closure in another: a record costs the calls of its operators.
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
"""Half the cost of `Record(…)`, which is a call of a function in Python."""

Forward = Callable[[AnyRecord], None]
"""Does with a record all that comes after an operator."""

Emit = Callable[[str, bytes | None, bytes | None, int, Headers], None]
"""Takes what goes out: topic, key, value, timestamp in milliseconds, headers."""

Pipeline = Callable[[bytes | None, bytes | None, int, RecordHeaders], None]
"""Takes what comes in: key, value, timestamp in milliseconds, headers."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the operators of a task reach: its state, its way out, and whose topics it makes."""

    state: RawState
    emit: Emit
    application_id: str


@dataclass(eq=False, slots=True)
class Node:
    """`children` get what it forwards, in the order in which they were declared."""

    children: list[Operator] = field(default_factory=list, init=False, repr=False)

    ends = False
    """Whether a branch may end here: what is done is then worth something without anything downstream."""

    @property
    def stores(self) -> tuple[Store[Any, Any], ...]:
        return ()

    def downstream(self) -> Iterator[Node]:
        """Every node under it, a branch after the other."""
        for child in self.children:
            yield child
            yield from child.downstream()

    def forwarding(self, around: Surroundings) -> Forward:
        """What its children do with a record that it forwards."""
        steps = tuple(child.opened(child.forwarding(around), around) for child in self.children)
        if len(steps) == 1:
            return steps[0]

        def run(record: AnyRecord) -> None:
            for step in steps:
                step(record)

        return run


class Operator(Node, ABC):
    """What stands under a source, or under another operator."""

    __slots__ = ()

    @abstractmethod
    def opened(self, forward: Forward, around: Surroundings) -> Forward:
        """What it does with a record, given what comes after it."""


@dataclass(eq=False, slots=True)
class Source(Node):
    """Where a subtopology begins. `repartition`: its topic is written by this topology."""

    topics: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]
    repartition: bool = False

    def __str__(self) -> str:
        return f"{'repartition' if self.repartition else 'source'}({', '.join(map(repr, self.topics))})"

    def pipeline(self, around: Surroundings) -> Pipeline:
        """Bytes in, and whatever the operators do with them."""
        forward = self.forwarding(around)
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

    def opened(self, forward: Forward, around: Surroundings) -> Forward:
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

    def opened(self, forward: Forward, around: Surroundings) -> Forward:
        f = self.f

        def run(record: AnyRecord) -> None:
            keeps: object = f(record)
            if keeps is True:
                forward(record)
            elif keeps is not False:
                # Whatever would be true of a coroutine, it is not what was asked for.
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

    def opened(self, forward: Forward, around: Surroundings) -> Forward:
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

    def opened(self, forward: Forward, around: Surroundings) -> Forward:
        f, view = self.f, StoreView(self.store, around.state)

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

    def opened(self, forward: Forward, around: Surroundings) -> Forward:
        name, encode, get, put = self.store.name, self.store.key.encode, around.state.get, around.state.put

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

    def opened(self, forward: Forward, around: Surroundings) -> Forward:
        return _writing(self.topic, self.key, self.value, around.emit, lambda: None)


@dataclass(eq=False, slots=True)
class Repartition(Operator):
    """Writes what the source of the same name reads, by key."""

    name: str
    key: Serde[Any]
    value: Serde[Any]
    partitions: int | None

    ends = True

    def __str__(self) -> str:
        return f"repartition({self.name!r})"

    def opened(self, forward: Forward, around: Surroundings) -> Forward:
        topic = internal_topic(around.application_id, self.name, "repartition")

        def refuse() -> None:
            raise _no_key(self)

        return _writing(topic, self.key, self.value, around.emit, refuse)


def _writing(
    topic: str, key_serde: Serde[Any], value_serde: Serde[Any], emit: Emit, without_key: Callable[[], None]
) -> Forward:
    """Encodes and emits; a record without a key is first told to `without_key`."""
    encode_key, encode_value = key_serde.encode, value_serde.encode

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
        emit(topic, key_data, value_data, timestamp_ms, headers)

    return run


def _forward_each(node: Node, results: Any, forward: Forward) -> None:
    # A record is a tuple, and would go on as its key, its value, its time and its headers.
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
    """Everything that one topology describes, until it is built."""

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
