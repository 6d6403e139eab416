"""The records of groups whose coordinator assigns, byte for byte as Kafka's own."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.consumer_groups.member import ClassicWords, MemberState
from strandline.broker.core.consumer_groups.records import (
    CURRENT,
    EPOCH,
    MEMBER,
    OF_SUBJECTS,
    TARGET,
    TARGET_EPOCH,
    ConsumerKey,
    ConsumerRecord,
    ConsumerValue,
    CurrentValue,
    EpochValue,
    MemberValue,
    TargetEpochValue,
    TargetValue,
    decode_consumer_value,
)
from strandline.broker.core.groups.stored import read_key, read_record
from strandline.errors import StrandlineError
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.vocabulary.groups import GroupProtocol

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
EPOCHS = st.integers(0, 2**31 - 1)
KEYS = st.builds(
    PartitionKey,
    st.binary(min_size=16, max_size=16).map(lambda data: TopicId(data.hex())),
    st.integers(0, 2**31 - 1).map(PartitionId),
)
PROTOCOLS = st.lists(st.builds(GroupProtocol, TEXT, st.binary(max_size=20)), max_size=3).map(tuple)
ASSIGNED = st.dictionaries(KEYS, EPOCHS, max_size=6)
VALUES: dict[int, st.SearchStrategy[ConsumerValue]] = {
    EPOCH: st.builds(EpochValue, EPOCHS, st.integers(-(2**63), 2**63 - 1)),
    MEMBER: st.builds(
        MemberValue, st.none() | TEXT, st.none() | TEXT, TEXT, TEXT, st.lists(TEXT).map(tuple), TEXT, EPOCHS,
        st.none() | TEXT, st.none() | st.builds(ClassicWords, EPOCHS, PROTOCOLS),
    ),
    TARGET_EPOCH: st.builds(TargetEpochValue, EPOCHS, st.integers(0, 2**63 - 1)),
    TARGET: st.builds(TargetValue, st.frozensets(KEYS, max_size=6)),
    CURRENT: st.builds(CurrentValue, EPOCHS, EPOCHS, st.sampled_from(MemberState), ASSIGNED, ASSIGNED),
}  # fmt: skip
RECORDS = st.sampled_from(list(VALUES)).flatmap(
    lambda type_: st.builds(ConsumerRecord, st.just(ConsumerKey(type_, "g", "m")), VALUES[type_])
)

OF_KAFKA = (
    "00000269000263032f68020274010000ea600001001b0100002710030672616e6765040001020007737469636b79010000"
)
"""A member of the classic protocol, as Kafka 4.4's own class of the record writes it."""


def test_a_member_of_the_classic_protocol_has_kafkas_layout() -> None:
    """ConsumerGroupMemberMetadata, tag 0: a structure that may be null begins with a byte."""
    protocols = (GroupProtocol("range", bytes((0, 1, 2))), GroupProtocol("sticky", b""))
    value = MemberValue("i", None, "c", "/h", ("t",), "", 60_000, None, ClassicWords(10_000, protocols))
    assert value.encoded() == bytes.fromhex(OF_KAFKA)
    assert decode_consumer_value(ConsumerKey(MEMBER, "g", "m"), bytes.fromhex(OF_KAFKA)) == value


TOPIC = TopicId("000102030405060708090a0b0c0d0e0f")


def test_records_have_the_layouts_of_kafka() -> None:
    """ConsumerGroupMetadata, ConsumerGroupMemberMetadata, ConsumerGroupTargetAssignmentMember and
    ConsumerGroupCurrentMemberAssignment of Kafka 4.4: all of version 0."""
    at = PartitionKey(TOPIC, PartitionId(2))
    expected = (
        (EPOCH, EpochValue(7, 1), "0000 00000007 01 00 08 0000000000000001"),
        (
            MEMBER,
            MemberValue("i", None, "c", "h", ("t",), "", 5, "range"),
            "0000 02 69 00 02 63 02 68 02 02 74 01 00000005 06 72616e6765 00",
        ),
        (TARGET_EPOCH, TargetEpochValue(7, 2), "0000 00000007 01 00 08 0000000000000002"),
        (TARGET, TargetValue(frozenset([at])), f"0000 02 {TOPIC} 02 00000002 00 00"),
        (
            CURRENT,
            CurrentValue(4, 3, MemberState.STABLE, {at: 3}, {}),
            f"0000 00000004 00000003 00 02 {TOPIC} 02 00000002 01 00 05 02 00000003 01 00",
        ),
    )
    for type_, of_group, value in expected:
        key = f"{type_:04x} 0001 67" + (" 0001 6d" if type_ in OF_SUBJECTS else "")
        record = ConsumerRecord(ConsumerKey(type_, "g", "m" if type_ in OF_SUBJECTS else ""), of_group)
        assert record.encoded() == (bytes.fromhex(key), bytes.fromhex(value), ())


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(record: ConsumerRecord) -> None:
    key, value, headers = record.encoded()
    assert value is not None
    read = read_key(key)
    assert isinstance(read, ConsumerKey)
    assert decode_consumer_value(read, value) == record.value
    assert read_record(read, None, headers) == ConsumerRecord(read, None)


@given(RECORDS, st.data())
def test_bytes_that_are_no_record_are_refused(record: ConsumerRecord, data: st.DataObject) -> None:
    key, value, _ = record.encoded()
    assert value is not None
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    with pytest.raises(StrandlineError):
        decode_consumer_value(record.key, cut)
    broken = bytearray(value)
    broken[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(StrandlineError):
        decode_consumer_value(record.key, bytes(broken))
    assert read_key(key).group == "g"
