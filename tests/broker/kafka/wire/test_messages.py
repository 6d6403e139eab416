"""Every version of every served API, against a codec of its own: requests are read as the client wrote them,
answers as the broker wrote them, and no truncated request passes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.kafka.call import Api
from strandline.broker.kafka.router import Arrived, Introduction, Router
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.apis import ApiWire
from strandline.broker.kafka.wire.fields import MalformedRequest, Writer
from strandline.broker.kafka.wire.header import RequestHeader, frame
from strandline.records import BatchHeader
from tests.broker.kafka.support.messages import API_VERSIONS, SCHEMAS
from tests.broker.kafka.support.recorded import RECORDED, Recorded
from tests.broker.kafka.support.schemas import Schema, any_struct, varint
from tests.broker.kafka.support.values import ANSWERS, expected_answer, expected_request, part, shown

WIRES: dict[int, ApiWire[Any, Any]] = {
    wire.key: wire for wire in vars(apis).values() if isinstance(wire, ApiWire)
}


async def unanswered(*_: object) -> None:
    raise AssertionError("nothing is handled here")


ROUTER = Router(Api(wire, unanswered) for wire in WIRES.values())

EACH = pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)


def read(data: bytes) -> Any:
    arrived = ROUTER.read(data)
    assert isinstance(arrived, Arrived)
    return arrived.value


def test_the_tables_have_what_is_served() -> None:
    served = {(wire.key, wire.name, wire.first, wire.last, wire.flexible_since) for wire in WIRES.values()}
    assert served == {(each.key, each.name, each.first, each.last, each.flexible_since) for each in SCHEMAS}


def any_version(schema: Schema, data: st.DataObject) -> int:
    return data.draw(st.sampled_from(schema.versions), "version")


@EACH
@given(st.data())
def test_a_request_is_read_as_it_was_written(schema: Schema, data: st.DataObject) -> None:
    version = any_version(schema, data)
    values = data.draw(any_struct(schema.request, version))
    wanted = expected_request(schema.name, values)
    if schema.name == "Metadata" and version == 0 and not values["topics"]:
        wanted = wanted._replace(topics=None)  # empty meant all, before there was null
    assert shown(read(schema.encode_request(version, values))) == shown(wanted)


@EACH
@given(st.data())
def test_an_answer_is_read_as_it_was_written(schema: Schema, data: st.DataObject) -> None:
    version = any_version(schema, data)
    answer = data.draw(ANSWERS[schema.name])
    body = Writer(flexible=schema.flexible(version))
    WIRES[schema.key].write(body, answer, version)
    whole = b"".join(frame(RequestHeader(schema.key, version, 77, ""), body))
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    correlation_id, found = schema.decode_answer(version, whole[4:])
    assert correlation_id == 77
    assert part(found, expected_answer(schema.name, answer, version))


@EACH
@given(st.data())
def test_a_truncated_request_is_malformed(schema: Schema, data: st.DataObject) -> None:
    """Each truncation, except those within what the broker does not read: tags at the end, and fields that
    decide nothing."""
    version = any_version(schema, data)
    values = data.draw(any_struct(schema.request, version))
    whole = schema.encode_request(version, values)
    needed = shown(read(whole))
    for length in range(len(whole)):
        try:
            found = shown(read(whole[:length]))
        except MalformedRequest:
            continue
        assert found == needed, f"{length} of {len(whole)} bytes"


@EACH
@given(st.data(), st.binary(min_size=1, max_size=8))
def test_bytes_after_a_request_are_ignored(schema: Schema, data: st.DataObject, after: bytes) -> None:
    version = any_version(schema, data)
    whole = schema.encode_request(version, data.draw(any_struct(schema.request, version)))
    assert shown(read(whole + after)) == shown(read(whole))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_malformed(data: bytes) -> None:
    """CORRECTNESS X6: nothing else can come of bytes that a client sends."""
    with suppress(MalformedRequest):
        ROUTER.read(data)


@EACH
@given(st.data())
def test_a_damaged_request_is_a_request_or_malformed(schema: Schema, data: st.DataObject) -> None:
    version = any_version(schema, data)
    whole = bytearray(schema.encode_request(version, data.draw(any_struct(schema.request, version))))
    for _ in range(3):
        whole[data.draw(st.integers(8, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedRequest):
        ROUTER.read(whole)


@pytest.mark.parametrize("wire", WIRES.values(), ids=lambda wire: wire.name)
def test_a_version_that_is_not_served_is_malformed(wire: ApiWire[Any, Any]) -> None:
    for version in (wire.first - 1, wire.last + 1, 2**15 - 1):
        header = b"".join(number.to_bytes(2, "big", signed=True) for number in (wire.key, version, 0, 0, -1))
        with pytest.raises(MalformedRequest, match="is not served"):
            ROUTER.read(header + bytes(100))


# --- ApiVersions ------------------------------------------------------------------------------


def introduce(data: bytes, version: int) -> dict[str, Any]:
    arrived = ROUTER.read(data)
    assert isinstance(arrived, Introduction)
    _, found = API_VERSIONS.decode_answer(version, b"".join(arrived.parts)[4:])
    return found


TABLE = [
    {"api": api, "first": first, "last": last}
    for api, first, last in sorted(
        [(18, 0, 3), *((wire.key, wire.first, wire.last) for wire in WIRES.values())]
    )
]


@pytest.mark.parametrize("version", API_VERSIONS.versions)
def test_every_client_learns_the_versions(version: int) -> None:
    client = {"software_name": "x", "software_version": "1"}
    found = introduce(API_VERSIONS.encode_request(version, client), version)
    assert (found["error"], found["served"]) == (0, TABLE)


def test_a_client_of_the_future_learns_the_versions_in_version_0() -> None:
    future = Schema(18, "ApiVersions", 4, 9, 3, API_VERSIONS.request, API_VERSIONS.answer)
    found = introduce(future.encode_request(9, {"software_name": "x", "software_version": "1"}), 0)
    assert (found["error"], found["served"]) == (35, TABLE)


def test_an_introduction_that_is_malformed_is_answered_in_version_0() -> None:
    client = {"software_name": "x", "software_version": "1"}
    found = introduce(API_VERSIONS.encode_request(3, client)[:-3], 0)
    assert (found["error"], found["served"]) == (35, TABLE)


# --- requests of clients ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "recorded", RECORDED, ids=lambda each: f"{each.client}-{each.api}-{each.version}".replace(" ", "-")
)
def test_a_request_of_a_client_is_read_whole_and_no_part_of_it(recorded: Recorded) -> None:
    """A truncated one is malformed, or lacks only what decides nothing."""
    arrived = ROUTER.read(recorded.request)
    if isinstance(arrived, Introduction):
        assert (arrived.header.api, arrived.header.version) == (recorded.api, recorded.version)
        return
    header = arrived.asked.header
    assert (header.api, header.version) == (recorded.api, recorded.version)
    for length in range(len(recorded.request)):
        try:
            found = read(recorded.request[:length])
        except MalformedRequest:
            continue
        assert shown(found) == shown(arrived.value), f"{length} of {len(recorded.request)} bytes"


def test_what_clients_asked_for_is_read() -> None:
    def the(client: str, api: int) -> Any:
        (found,) = [each for each in RECORDED if each.client.startswith(client) and each.api == api]
        return read(found.request)

    produced = the("librdkafka", 0)
    assert (produced.acks, produced.transactional_id, produced.topics[0].name) == (-1, None, "tides")
    assert BatchHeader.parse(produced.topics[0].partitions[0].records).record_count == 1
    assert the("kafka-python", 1).topics[0].name == "tides"
    assert the("aiokafka", 2).topics[0].partitions[0].partition == 0
    assert [each.name for each in the("kcat", 3).topics] == ["tides"]
    assert the("librdkafka", 10).keys == ("g",)
    assert the("kcat", 22).transactional_id is None


# --- counts that are lies ---------------------------------------------------------------------


def test_unknown_tags_are_skipped() -> None:
    """In any order, twice, and of any length."""
    (schema,) = [each for each in SCHEMAS if each.name == "InitProducerId"]
    values = {"transactional_id": None, "timeout_ms": 1, "producer_id": 2, "producer_epoch": 3}
    whole = schema.encode_request(4, values)
    tags = b"\x03" + varint(77) + varint(5) + b"hello" + varint(2) + b"\0" + varint(77) + b"\0"
    assert read(whole[:-1] + tags).transactional_id is None


@pytest.mark.parametrize("count", [0xFFFFFFFF, 0x7FFFFFFF, 20_002, 1_000])
def test_a_count_that_is_a_lie_is_malformed(count: int) -> None:
    """CORRECTNESS X6: the bytes that are left bound it, before any element is made."""
    (schema,) = [each for each in SCHEMAS if each.name == "Metadata"]
    head = schema.encode_request(12, {"topics": [], "auto_create": False, "topic_operations": False})[:-4]
    with pytest.raises(MalformedRequest, match="elements in"):
        read(head + varint(count) + bytes(20))


def test_elements_of_all_arrays_have_one_bound() -> None:
    """CORRECTNESS X6: elements of a few bytes would take a hundred times as much memory."""
    (schema,) = [each for each in SCHEMAS if each.name == "FindCoordinator"]
    many = schema.encode_request(4, {"kind": 0, "keys": [""] * 20_000})
    assert len(read(many).keys) == 20_000
    with pytest.raises(MalformedRequest, match="more than 20000 elements"):
        read(schema.encode_request(4, {"kind": 0, "keys": [""] * 20_001}))


def test_tags_count_as_elements() -> None:
    (schema,) = [each for each in SCHEMAS if each.name == "FindCoordinator"]
    whole = schema.encode_request(3, {"key": "g", "kind": 0})
    head, body = whole[:11], whole[12:]
    with pytest.raises(MalformedRequest, match="more than 20000 elements"):
        read(head + varint(20_001) + bytes(2 * 20_001) + body)
