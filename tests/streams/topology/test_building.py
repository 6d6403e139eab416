"""From a description to its parts, and every description that is refused with what to change."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from strandline.errors import StrandlineError
from strandline.streams.topology.errors import TopologyError
from strandline.streams.topology.records import Record
from strandline.streams.topology.serdes import BYTES, INTEGER, JSON, STRING, StringSerde
from strandline.streams.topology.stores import Store
from strandline.streams.topology.topology import Topology

COUNTS = Store("counts", STRING, INTEGER)


def keep(record: Any, store: Any) -> None:
    """A processor that does nothing."""


def same(record: Record[Any, Any]) -> Record[Any, Any]:
    return record


def refused(topology: Topology, application_id: str = "app") -> str:
    """The error for a topology that cannot be built."""
    with pytest.raises(TopologyError) as raised:
        topology.build(application_id)
    assert isinstance(raised.value, StrandlineError)
    return raised.value.message


# --- parts --------------------------------------------------------------------------------------


def test_a_subtopology_names_its_inputs_stores_and_outputs() -> None:
    topology = Topology()
    lines = topology.source("lines", "more-lines", key=STRING, value=STRING)
    lines.to("copy", key=STRING, value=STRING)
    words = lines.repartition("words", key=STRING, value=STRING, partitions=12)
    words.count("counts").to("out", key=STRING, value=INTEGER)
    words.process(keep, store=Store("last", STRING, JSON))
    first, second = topology.build("app")

    assert first.name == "lines"
    assert first.topics == ("lines", "more-lines")
    assert first.stores == ()
    assert first.changelog is None
    assert dict(first.repartitions) == {"app-words-repartition": 12}
    assert first.sinks == {"copy"}
    assert not first.reads_repartition

    assert second.name == "words"
    assert second.topics == ("app-words-repartition",)
    assert second.stores == (Store("counts", STRING, INTEGER), Store("last", STRING, JSON))
    assert second.changelog == "app-words-changelog"
    assert dict(second.repartitions) == {}
    assert second.sinks == {"out"}
    assert second.reads_repartition


def test_a_repartition_has_as_many_partitions_as_are_asked_for_or_leaves_that_open() -> None:
    topology = Topology()
    topology.source("a").repartition("r", key=BYTES, value=BYTES).process(
        keep, store=Store("s", BYTES, BYTES)
    )
    assert dict(topology.build("app")[0].repartitions) == {"app-r-repartition": None}


def test_parts_are_in_the_order_of_their_sources() -> None:
    topology = Topology()
    b, a = topology.source("b"), topology.source("a")
    a.to("x", key=BYTES, value=BYTES)
    b.repartition("c", key=BYTES, value=BYTES).to("y", key=BYTES, value=BYTES)
    assert [part.name for part in topology.build("app")] == ["b", "a", "c"]


def test_a_store_used_twice_alike_is_one_store() -> None:
    topology = Topology()
    lines = topology.source("lines", key=STRING)
    lines.process(keep, store=COUNTS)
    lines.process(keep, store=Store("counts", StringSerde(), INTEGER))
    (part,) = topology.build("app")
    assert part.stores == (COUNTS,)


def test_one_subtopology_may_read_what_another_writes() -> None:
    topology = Topology()
    topology.source("a").to("b", key=BYTES, value=BYTES)
    topology.source("b").to("c", key=BYTES, value=BYTES)
    assert [part.sinks for part in topology.build("app")] == [{"b"}, {"c"}]


def test_the_same_description_is_built_for_any_application() -> None:
    topology = Topology()
    topology.source("a", key=STRING).count("counts")
    assert [topology.build(name)[0].changelog for name in ("one", "two")] == [
        "one-a-changelog",
        "two-a-changelog",
    ]


def test_a_built_topology_takes_no_further_description() -> None:
    topology = Topology()
    stream = topology.source("a")
    stream.to("b", key=BYTES, value=BYTES)
    topology.build("app")
    with pytest.raises(TopologyError, match=r"to\('c'\): the topology is built already"):
        stream.to("c", key=BYTES, value=BYTES)
    with pytest.raises(TopologyError, match=r"source\('d'\): the topology is built already"):
        topology.source("d")


def test_a_refused_topology_can_be_corrected_and_built() -> None:
    topology = Topology()
    stream = topology.source("a")
    refused(topology)
    stream.to("b", key=BYTES, value=BYTES)
    assert len(topology.build("app")) == 1


# --- the whole: refused when it is built -------------------------------------------------------


def test_no_source() -> None:
    assert refused(Topology()) == "the topology has no source: begin with Topology.source(topic)"


@pytest.mark.parametrize("sources", [[("a",), ("b", "a")], [("a", "a")]])
def test_a_topic_that_is_read_twice(sources: list[tuple[str, ...]]) -> None:
    topology = Topology()
    for topics in sources:
        topology.source(*topics).to("out", key=BYTES, value=BYTES)
    assert "topic 'a' is read by two sources, or twice by one: call source once" in refused(topology)


def test_a_sink_that_is_read_upstream_of_itself() -> None:
    topology = Topology()
    topology.source("a", "b").filter(lambda record: True).to("b", key=BYTES, value=BYTES)
    said = refused(topology)
    assert said == (
        "source('b') is written by to('b') downstream of it, so it would never end: write to another topic"
    )


def test_a_sink_that_is_read_before_a_repartition_upstream_of_itself() -> None:
    topology = Topology()
    repartitioned = topology.source("a").repartition("r", key=BYTES, value=BYTES)
    repartitioned.repartition("q", key=BYTES, value=BYTES).to("a", key=BYTES, value=BYTES)
    with pytest.raises(TopologyError, match=r"source\('a'\) is written by to\('a'\) downstream of it"):
        topology.build("app")


def test_a_store_has_one_count() -> None:
    topology = Topology()
    lines = topology.source("a")
    lines.count("c")
    lines.filter(lambda record: record.value is not None).count("c")
    with pytest.raises(TopologyError, match=r"count\('c'\) is called twice downstream of 'a'"):
        topology.build("app")


def test_two_repartitions_of_one_name() -> None:
    topology = Topology()
    for topic in "ab":
        stream = topology.source(topic, key=STRING).repartition("r", key=STRING, value=BYTES)
        stream.process(keep, store=Store(f"of-{topic}", STRING, BYTES))
    assert refused(topology) == "there are two repartitions of the name 'r': name one of them otherwise"


def test_a_repartition_with_the_name_of_a_source_topic() -> None:
    topology = Topology()
    counted = topology.source("words").repartition("words", key=BYTES, value=BYTES).count("counts")
    counted.to("out", key=BYTES, value=INTEGER)
    assert "repartition 'words' has the name of a source topic" in refused(topology)


def test_a_store_of_two_parts() -> None:
    topology = Topology()
    topology.source("a", key=STRING).count("counts")
    topology.source("b", key=STRING).process(keep, store=COUNTS)
    said = refused(topology)
    assert said == (
        "store 'counts' is used downstream of 'a' and of 'b', which run apart: "
        "give each a store of its own name"
    )


def test_a_store_with_two_kinds_of_serdes() -> None:
    topology = Topology()
    stream = topology.source("a", key=STRING)
    stream.count("counts")
    stream.process(keep, store=Store("counts", STRING, JSON))
    said = refused(topology)
    assert said.startswith("store 'counts' is declared twice downstream of 'a' with different serdes: ")
    assert "value=IntegerSerde()" in said and "value=JsonSerde()" in said


UNENDED: dict[str, Callable[[Topology], object]] = {
    "source('a')": lambda topology: topology.source("a"),
    r"map(same)": lambda topology: topology.source("a").map(same),
    "flat_map(list)": lambda topology: topology.source("a").flat_map(list),  # type: ignore[arg-type]
    "repartition('r')": lambda topology: topology.source("a").repartition("r", key=BYTES, value=BYTES),
}


@pytest.mark.parametrize("last", UNENDED)
def test_a_branch_that_ends_nowhere(last: str) -> None:
    topology = Topology()
    UNENDED[last](topology)
    said = refused(topology)
    assert said.startswith(f"nothing is done with what comes out of {last}, downstream of ")
    assert "end the branch with to, process, count or repartition" in said


def test_a_filter_that_ends_nowhere_beside_a_branch_that_ends() -> None:
    topology = Topology()
    stream = topology.source("a")
    stream.to("b", key=BYTES, value=BYTES)
    stream.filter(lambda record: True)
    assert "nothing is done with what comes out of filter(" in refused(topology)


@pytest.mark.parametrize("taken", ["app-words-repartition", "app-words-changelog"])
def test_a_topic_of_a_user_that_the_application_makes_for_itself(taken: str) -> None:
    read, written = Topology(), Topology()
    for topology in (read, written):
        words = topology.source("lines", key=STRING).repartition("words", key=STRING, value=BYTES)
        words.count("counts")
    read.source(taken).to("out", key=BYTES, value=BYTES)
    written.source("other").to(taken, key=BYTES, value=BYTES)
    for topology in (read, written):
        assert refused(topology).startswith(f"topic {taken!r} is one that the application makes for itself: ")
        assert len(topology.build("another")) == 3


def test_an_internal_topic_whose_name_is_too_long() -> None:
    topology = Topology()
    topology.source("a" * 200, key=STRING).count("counts")
    assert len(topology.build("b" * 38)) == 1
    said = refused(topology, "b" * 39)
    assert "would have 250 characters, 249 are allowed: shorten the application id" in said
    assert "a" * 200 in said and "b" * 39 in said


@pytest.mark.parametrize("application_id", ["", "a b", "über", "..", "a" * 250, "__app", 5, None])
def test_an_application_id_that_no_topic_or_group_can_have(application_id: Any) -> None:
    topology = Topology()
    topology.source("a").to("b", key=BYTES, value=BYTES)
    assert refused(topology, application_id).startswith(f"application id {application_id!r}")


# --- a single call: refused at once ------------------------------------------------------------


def said_of(call: Callable[[], object]) -> str:
    """The error for a call that is refused."""
    with pytest.raises(TopologyError) as raised:
        call()
    return raised.value.message


@pytest.mark.parametrize("name", ["", "a/b", ".", "x" * 250, "__state_changes", ["a"], b"a"])
def test_a_name_that_no_topic_can_have(name: Any) -> None:
    stream = Topology().source("a", key=STRING)
    assert said_of(lambda: Topology().source("ok", name)).startswith(f"source topic {name!r}")
    assert said_of(lambda: stream.to(name, key=STRING, value=BYTES)).startswith(f"sink topic {name!r}")
    assert said_of(lambda: stream.repartition(name, key=STRING, value=BYTES)).startswith(
        f"repartition {name!r}"
    )
    assert said_of(lambda: Store(name, BYTES, BYTES)).startswith(f"store {name!r}")
    assert said_of(lambda: stream.count(name)).startswith(f"store {name!r}")


def test_a_source_without_topics() -> None:
    assert said_of(lambda: Topology().source()) == "source(): name a topic at least"


async def waits(*_: object) -> None: ...


async def yields(*_: object) -> AsyncIterator[int]:
    yield 1


class Waits:
    async def __call__(self, *_: object) -> None: ...


@pytest.mark.parametrize("f", [waits, yields, Waits(), functools.partial(waits, 1), Waits().__call__])
@pytest.mark.parametrize("operator", ["map", "filter", "flat_map", "process"])
def test_a_function_that_would_have_to_be_awaited(operator: str, f: Any) -> None:
    stream: Any = Topology().source("a")
    stores = {"store": COUNTS} if operator == "process" else {}
    said = said_of(lambda: getattr(stream, operator)(f, **stores))
    assert said.startswith(f"{operator}(") and "it is asynchronous; give a plain function" in said


@pytest.mark.parametrize("operator", ["map", "filter", "flat_map", "process"])
def test_a_function_that_is_none(operator: str) -> None:
    stream: Any = Topology().source("a")
    stores = {"store": COUNTS} if operator == "process" else {}
    assert (
        said_of(lambda: getattr(stream, operator)("upper", **stores))
        == f"{operator}('upper'): give a function"
    )


def test_an_object_that_can_be_called_is_a_function() -> None:
    class Upper:
        def __call__(self, record: Record[bytes, bytes]) -> Record[bytes, bytes]:
            return record.with_value((record.value or b"").upper())

    topology = Topology()
    stream = topology.source("a").map(Upper()).map(functools.partial(Record.with_key, key=b"k"))
    stream.to("b", key=BYTES, value=BYTES)
    assert len(topology.build("app")) == 1


def test_a_process_without_a_declared_store() -> None:
    stream: Any = Topology().source("a")
    assert said_of(lambda: stream.process(keep, store="counts")) == (
        "process(keep): store='counts'; give a Store(name, key, value)"
    )


@pytest.mark.parametrize("partitions", [0, -1, 10_001, 1.5, "3", True])
def test_a_number_of_partitions_that_no_topic_can_have(partitions: Any) -> None:
    stream = Topology().source("a")
    said = said_of(lambda: stream.repartition("r", key=BYTES, value=BYTES, partitions=partitions))
    assert said.startswith(f"repartition 'r': partitions={partitions!r}; say 1 to 10000, or nothing")


def test_an_invalid_serde_is_refused() -> None:
    wrong: Any = StringSerde
    nothing: Any = None
    stream = Topology().source("a")
    assert said_of(lambda: Topology().source("a", key=wrong)) == (
        "key serde of source 'a' is the class StringSerde: give an instance, StringSerde()"
    )
    assert "value serde of sink 'b' None is no serde" in said_of(
        lambda: stream.to("b", key=BYTES, value=nothing)
    )
    assert "value serde of store 's'" in said_of(lambda: Store("s", BYTES, wrong))
    assert "key serde of repartition 'r'" in said_of(lambda: stream.repartition("r", key=wrong, value=BYTES))


def test_count_asks_for_a_serde_where_a_function_may_have_changed_the_key() -> None:
    stream = Topology().source("a", key=STRING).filter(lambda record: True)
    stream.count("as-it-was-read")
    stream.repartition("r", key=STRING, value=BYTES).count("as-it-was-written")
    changed = stream.map(lambda record: record.with_key(len(record.key or "")))
    for unknown in (
        stream.flat_map(lambda record: [record]),
        stream.process(keep, store=Store("s", STRING, STRING)),
    ):
        assert "say how to write it" in said_of(functools.partial(unknown.count, "lengths"))
    said = said_of(lambda: changed.count("lengths"))
    assert said.startswith("count('lengths'): map(") and said.endswith("say how to write it, as key=STRING")
    changed.count("lengths", key=INTEGER).count("again")
