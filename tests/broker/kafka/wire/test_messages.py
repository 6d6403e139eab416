"""Every version of every served API, against the codecs of two clients: requests are read as they were
written, answers as the broker wrote them, and no truncated request passes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.broker.kafka.call import Api
from strandline.broker.kafka.router import Arrived, Asked, Router
from strandline.broker.kafka.wire.apis import (
    DELETE_GROUPS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LEAVE_GROUP,
    METADATA,
    TXN_OFFSET_COMMIT,
    ApiWire,
)
from strandline.broker.kafka.wire.fields import MalformedRequest
from strandline.broker.kafka.wire.groups.administration import (
    DeleteGroupsAnswer,
    DeleteGroupsRequest,
    GroupResult,
)
from strandline.broker.kafka.wire.groups.membership import LeaveGroupAnswer, MemberThatLeft
from strandline.broker.kafka.wire.groups.offsets import (
    OffsetCommitAnswer,
    OffsetToCommit,
    PartitionResult,
    TxnOffsetCommitRequest,
)
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.ids import TopicId
from strandline_lab.simulation.kafka.messages import answer_in, frame
from tests.broker.kafka.support.codec import (
    any_answer,
    any_request,
    decode_answer,
    encode_request,
    is_known,
)
from tests.broker.kafka.support.mapped import WIRES, fixed, value_of


async def unanswered(*_: object) -> None:
    raise AssertionError("nothing is handled here")


ROUTER = Router(Api(wire, unanswered) for wire in WIRES.values())

EACH = pytest.mark.parametrize(
    ("wire", "version"),
    [
        pytest.param(wire, version, id=f"{wire.name}-{version}")
        for wire in WIRES.values()
        for version in wire.versions
        if is_known(wire.key, version)
    ],
)
FEW = settings(max_examples=15)
"""For each version of each API."""


def read(data: bytes) -> Any:
    arrived = ROUTER.read(data)
    assert isinstance(arrived, Arrived)
    return arrived.value


@EACH
@FEW
@given(st.data(), st.binary(min_size=1, max_size=8))
def test_a_request_is_read_as_it_was_written(
    wire: ApiWire[Any, Any], version: int, data: st.DataObject, after: bytes
) -> None:
    """Each truncation of it is malformed. Bytes after it are ignored: librdkafka sends some. The table writes
    requests that it reads."""
    values = data.draw(any_request(wire.key, version))
    whole, wanted = encode_request(wire.key, version, values), value_of(wire.request, values, version)
    assert read(whole) == wanted
    assert read(whole + after) == wanted
    assert read(frame(wire, version, wanted, 1, "t")[4:]) == wanted
    for length in range(len(whole)):
        with pytest.raises(MalformedRequest):
            read(whole[:length])


@EACH
@FEW
@given(st.data())
def test_an_answer_is_read_as_it_was_written(
    wire: ApiWire[Any, Any], version: int, data: st.DataObject
) -> None:
    """Every field is in its place, with the value that the broker chose, or the one that it always has. The
    table reads answers that it writes."""
    key = wire.key
    values = data.draw(any_answer(key, version, fixed(wire, version)))
    answer, header = value_of(wire.answer, values, version), RequestHeader(key, version, 77, "")
    whole = b"".join(Asked(Api(wire, unanswered), header).answer(answer))
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert decode_answer(key, version, whole[4:]) == (77, values)
    assert answer_in(wire, version, whole[4:]) == answer


@pytest.mark.parametrize("wire", WIRES.values(), ids=lambda wire: wire.name)
@given(st.data())
def test_a_damaged_request_is_a_request_or_malformed(wire: ApiWire[Any, Any], data: st.DataObject) -> None:
    """CORRECTNESS X6."""
    known = [version for version in wire.versions if is_known(wire.key, version)]
    version = data.draw(st.sampled_from(known), "version")
    whole = bytearray(encode_request(wire.key, version, data.draw(any_request(wire.key, version))))
    for _ in range(3):
        whole[data.draw(st.integers(8, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedRequest):
        ROUTER.read(whole)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_malformed(data: bytes) -> None:
    """CORRECTNESS X6: nothing else can come of bytes that a client sends."""
    with suppress(MalformedRequest):
        ROUTER.read(data)


@pytest.mark.parametrize("wire", WIRES.values(), ids=lambda wire: wire.name)
def test_a_version_that_is_not_served_is_malformed(wire: ApiWire[Any, Any]) -> None:
    for version in (wire.first - 1, wire.last + 1, 2**15 - 1):
        header = b"".join(number.to_bytes(2, "big", signed=True) for number in (wire.key, version, 0, 0, -1))
        with pytest.raises(MalformedRequest, match="is not served"):
            ROUTER.read(header + bytes(100))


@pytest.mark.parametrize(
    ("key", "what"), [(88, "StreamsGroupHeartbeat.*group.protocol=streams"), (76, "ShareGroupHeartbeat")]
)
def test_an_api_that_clients_may_ask_for_unnamed_is_named_in_the_refusal(key: int, what: str) -> None:
    """It goes to the broker's log: the client hears nothing but the end of its connection."""
    with pytest.raises(MalformedRequest, match=what):
        ROUTER.read(key.to_bytes(2, "big") + bytes(100))


@pytest.mark.parametrize(
    "answer", [LeaveGroupAnswer(members=(MemberThatLeft("m", None, 25),)), LeaveGroupAnswer(25)]
)
def test_a_client_with_one_member_gets_its_error_as_that_of_the_request(answer: LeaveGroupAnswer) -> None:
    header = RequestHeader(LEAVE_GROUP.key, 2, 1, "")
    whole = b"".join(Asked(Api(LEAVE_GROUP, unanswered), header).answer(answer))
    assert decode_answer(LEAVE_GROUP.key, 2, whole[4:])[1]["error_code"] == 25


# --- versions that no codec has -----------------------------------------------------------------


def test_every_group_that_is_not_deleted_has_a_reason() -> None:
    """DeleteGroups 3. The bytes are those of a broker of Kafka 4.4, with a text of its own."""
    head = DELETE_GROUPS.key.to_bytes(2, "big") + b"\x00\x03" + bytes(4) + b"\x00\x01t" + b"\x00"
    assert read(head + b"\x02\x05nope\x00") == DeleteGroupsRequest(("nope",))
    answer = DeleteGroupsAnswer((GroupResult("nope", 69, "why"), GroupResult("gone")))
    whole = Asked(Api(DELETE_GROUPS, unanswered), RequestHeader(DELETE_GROUPS.key, 3, 7, "")).answer(answer)
    header, throttle = b"\x00\x00\x00\x07\x00", bytes(4)
    refused, deleted = b"\x05nope\x00E\x04why\x00", b"\x05gone\x00\x00\x00\x00"
    assert b"".join(whole)[4:] == header + throttle + b"\x03" + refused + deleted + b"\x00"


def test_offsets_of_a_transaction_come_with_ids() -> None:
    """TxnOffsetCommit 6 (KIP-1319). The bytes are what the definition of Kafka 4.4 says."""
    head = TXN_OFFSET_COMMIT.key.to_bytes(2, "big") + b"\x00\x06" + bytes(4) + b"\x00\x01t" + b"\x00"
    topic, group = bytes(range(16)), b"\x02g"
    producer, member = bytes(7) + b"\x07" + b"\x00\x03", b"\x00\x00\x00\x04" + b"\x02m" + b"\x02i"
    partition = b"\x00\x00\x00\x05" + bytes(7) + b"\x09" + b"\x00\x00\x00\x02" + b"\x00" + b"\x00"
    body = b"\x02x" + group + producer + member + b"\x02" + topic + b"\x02" + partition + b"\x00" + b"\x00"
    known = TopicId(topic.hex())
    wanted = TxnOffsetCommitRequest(
        "x", "g", 7, 3, (OfTopic("", (OffsetToCommit(5, 9, 2, None),), known),), 4, "m", "i"
    )
    assert read(head + body) == wanted
    answer = OffsetCommitAnswer((OfTopic("", (PartitionResult(5, 100),), known),))
    asked = Asked(Api(TXN_OFFSET_COMMIT, unanswered), RequestHeader(TXN_OFFSET_COMMIT.key, 6, 7, ""))
    whole = b"".join(asked.answer(answer))
    result = b"\x00\x00\x00\x05" + b"\x00\x64" + b"\x00"
    written = bytes(4) + b"\x02" + topic + b"\x02" + result + b"\x00" + b"\x00"
    assert whole[4:] == b"\x00\x00\x00\x07\x00" + written


# --- what versions mean ------------------------------------------------------------------------


def test_an_empty_list_of_topics_means_all_of_them_in_version_0_alone() -> None:
    assert read(encode_request(METADATA.key, 0, {"topics": []})).topics is None
    assert read(encode_request(METADATA.key, 1, {"topics": []})).topics == ()


# --- what no codec writes ---------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(0x80 | number & 0x7F)
        number >>= 7
    return bytes(out) + bytes([number])


def test_unknown_tags_are_skipped() -> None:
    """In any order, twice, and of any length."""
    whole = encode_request(INIT_PRODUCER_ID.key, 4, {})
    tags = b"\x03" + varint(77) + varint(5) + b"hello" + varint(2) + b"\0" + varint(77) + b"\0"
    assert read(whole[:-1] + tags).transactional_id is None
    for length in range(1, len(tags)):
        with pytest.raises(MalformedRequest):
            read(whole[:-1] + tags[:length])


@pytest.mark.parametrize("count", [0xFFFFFFFF, 0x7FFFFFFF, 20_002, 1_000])
def test_a_count_that_is_a_lie_is_malformed(count: int) -> None:
    """CORRECTNESS X6: the bytes that are left bound it, before any element is made."""
    head = encode_request(METADATA.key, 12, {"topics": []})[:-4]
    with pytest.raises(MalformedRequest, match="elements in"):
        read(head + varint(count) + bytes(20))


def test_elements_of_all_arrays_have_one_bound() -> None:
    """CORRECTNESS X6: elements of a few bytes would take a hundred times as much memory."""
    many = encode_request(FIND_COORDINATOR.key, 4, {"coordinator_keys": [""] * 20_000})
    assert len(read(many).keys) == 20_000
    with pytest.raises(MalformedRequest, match="more than 20000 elements"):
        read(encode_request(FIND_COORDINATOR.key, 4, {"coordinator_keys": [""] * 20_001}))


def test_tags_count_as_elements() -> None:
    whole = encode_request(FIND_COORDINATOR.key, 3, {"key": "g"})
    head, body = whole[:11], whole[12:]
    with pytest.raises(MalformedRequest, match="more than 20000 elements"):
        read(head + varint(20_001) + bytes(2 * 20_001) + body)
