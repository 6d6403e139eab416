"""The records of `__consumer_offsets`, byte for byte as Kafka's own."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.groups.records import (
    GroupKey,
    GroupValue,
    OffsetKey,
    StoredMember,
    UnreadableGroupRecord,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.builds(
    StoredMember,
    TEXT,
    st.none() | TEXT,
    TEXT,
    TEXT,
    INT32,
    INT32,
    st.binary(max_size=20),
    st.binary(max_size=20),
)
GROUPS = st.builds(
    GroupValue,
    TEXT,
    INT32,
    st.none() | TEXT,
    st.none() | TEXT,
    INT64,
    st.lists(MEMBERS, max_size=4, unique_by=lambda member: member.member).map(tuple),
)
OFFSETS = st.builds(CommittedOffset, INT64, INT32, TEXT, INT64)


def test_an_offset_has_the_layout_of_kafka() -> None:
    """OffsetCommitKey version 1, OffsetCommitValue version 3."""
    key = encode_offset_key("g", TopicPartition("wörds", 7))
    assert key == bytes.fromhex("0001 0001 67 0006 77c3b6726473 00000007".replace(" ", ""))
    value = encode_offset_value(CommittedOffset(258, 3, "at", 1_700_000_000_000))
    assert value == bytes.fromhex(
        "0003 0000000000000102 00000003 0002 6174 0000018bcfe56800".replace(" ", "")
    )


def test_a_group_has_the_layout_of_kafka() -> None:
    """GroupMetadataKey version 2, GroupMetadataValue version 3."""
    assert encode_group_key("g") == bytes.fromhex("0002000167")
    member = StoredMember("m", None, "c", "/h", 60_000, 10_000, b"\x01\x02", b"\xff")
    static = StoredMember("n", "i", "", "", 1, 2, b"", b"")
    value = encode_group_value(GroupValue("consumer", 5, "range", "m", -1, (member, static)))
    assert value == bytes.fromhex(
        (
            "0003 0008 636f6e73756d6572 00000005 0005 72616e6765 0001 6d ffffffffffffffff 00000002 "
            "0001 6d ffff 0001 63 0002 2f68 0000ea60 00002710 00000002 0102 00000001 ff "
            "0001 6e 0001 69 0000 0000 00000001 00000002 00000000 00000000"
        ).replace(" ", "")
    )
    empty = encode_group_value(GroupValue("", 6, None, None, 0, ()))
    assert empty == bytes.fromhex("0003 0000 00000006 ffff ffff 0000000000000000 00000000".replace(" ", ""))


@given(TEXT, TEXT, INT32)
def test_keys_come_back(group: str, topic: str, partition: int) -> None:
    name = TopicPartition(topic, partition)
    assert decode_key(encode_offset_key(group, name)) == OffsetKey(group, name)
    assert decode_key(encode_group_key(group)) == GroupKey(group)


@given(GROUPS, OFFSETS)
def test_values_come_back(group: GroupValue, offset: CommittedOffset) -> None:
    assert decode_group_value(encode_group_value(group)) == group
    assert decode_offset_value(encode_offset_value(offset)) == offset


@given(st.binary(max_size=60))
def test_bytes_that_are_no_record_are_refused_by_one_typed_error(data: bytes) -> None:
    """A loader can log an unreadable record, and continue with the next one."""
    for decode in (decode_key, decode_group_value, decode_offset_value):
        try:
            decode(data)
        except UnreadableGroupRecord as error:
            assert isinstance(error, StrandlineError)


@given(GROUPS, st.data())
def test_a_record_that_is_cut_or_has_a_tail_is_refused(group: GroupValue, data: st.DataObject) -> None:
    encoded = encode_group_value(group)
    end = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(UnreadableGroupRecord):
        decode_group_value(encoded[:end])
    with pytest.raises(UnreadableGroupRecord):
        decode_group_value(encoded + b"\0")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (struct.pack(">h", 9), "key of version 9"),
        (struct.pack(">hh", 2, -1), "null"),
        (struct.pack(">hh", 2, -2), "-2 bytes wanted"),
        (struct.pack(">hh", 2, 2) + b"\xff\xfe", "no text"),
    ],
)
def test_a_malformed_key_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(UnreadableGroupRecord, match=why):
        decode_key(data)


def test_values_of_other_versions_and_impossible_members_are_refused() -> None:
    with pytest.raises(UnreadableGroupRecord, match="offset of version 1"):
        decode_offset_value(struct.pack(">hq", 1, 5))
    head = encode_group_value(GroupValue("t", 1, None, None, 0, ()))[:-4]
    with pytest.raises(UnreadableGroupRecord, match="group of -1 members"):
        decode_group_value(head + struct.pack(">i", -1))
    twin = StoredMember("m", None, "", "", 1, 1, b"", b"")
    with pytest.raises(UnreadableGroupRecord, match="twice"):
        decode_group_value(encode_group_value(GroupValue("t", 1, None, None, 0, (twin, twin))))
