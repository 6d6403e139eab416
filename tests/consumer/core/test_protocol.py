"""The messages between members and leader (KIP-429: a subscription carries the owned partitions)."""

from __future__ import annotations

import tracemalloc

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.errors import InconsistentGroupProtocol
from strandline.ids import TopicPartition
from strandline.vocabulary.parsing.consumer_protocol import (
    DRAFT_VERSION,
    EAGER_VERSION,
    Assignment,
    AssignmentError,
    Subscription,
)

topics = st.text(st.characters(codec="utf-8"), max_size=12)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
sorted_partitions = st.sets(partitions, max_size=12).map(lambda names: tuple(sorted(names)))
user_data = st.binary(max_size=20)
v0_subscriptions = st.builds(
    Subscription, st.just(EAGER_VERSION), st.lists(topics, max_size=6).map(tuple), user_data=user_data
)
v1_subscriptions = st.builds(
    Subscription,
    st.just(DRAFT_VERSION),
    st.lists(topics, max_size=6).map(tuple),
    sorted_partitions,
    st.integers(-1, 2**31 - 1),
    user_data,
)
v0_assignments = st.builds(Assignment, st.just(EAGER_VERSION), sorted_partitions, user_data=user_data)
v1_assignments = st.builds(
    Assignment,
    st.just(DRAFT_VERSION),
    sorted_partitions,
    sorted_partitions,
    st.sampled_from(AssignmentError),
    user_data,
)
SUBSCRIPTION = Subscription(
    DRAFT_VERSION, ("orders", "zoo"), (TopicPartition("orders", 2), TopicPartition("zoo", 0)), 7, b"!"
)
ASSIGNMENT = Assignment(
    DRAFT_VERSION,
    (TopicPartition("orders", 2),),
    (TopicPartition("zoo", 0),),
    AssignmentError.NEEDS_REJOIN,
    b"!",
)


@given(v0_subscriptions)
def test_a_subscription_of_version_0_is_byte_for_byte_what_kafkas_clients_send(said: Subscription) -> None:
    """KIP-429: an eager consumer still speaks V0."""
    theirs = ConsumerProtocolMemberMetadata(0, list(said.topics), said.user_data).encode()
    assert said.encode() == theirs
    assert Subscription.decode(theirs) == said


@given(v0_assignments)
def test_an_assignment_of_version_0_is_byte_for_byte_what_kafkas_leaders_send(said: Assignment) -> None:
    """KIP-429: an eager consumer still speaks V0."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in said.assigned:
        by_topic.setdefault(topic, []).append(partition)
    theirs = ConsumerProtocolMemberAssignment(0, list(by_topic.items()), said.user_data).encode()
    assert said.encode() == theirs
    assert Assignment.decode(theirs) == said


def test_user_data_that_is_null_is_user_data_that_is_empty() -> None:
    """Kafka's clients send null where they have none to send."""
    assert Subscription.decode(ConsumerProtocolMemberMetadata(0, ["t"], None).encode()) == Subscription(
        EAGER_VERSION, ("t",)
    )
    assert Assignment.decode(ConsumerProtocolMemberAssignment(0, [], None).encode()) == Assignment(
        EAGER_VERSION, ()
    )


@given(v1_subscriptions)
def test_a_subscription_of_version_1_comes_back_with_what_is_owned_and_since_when(said: Subscription) -> None:
    """KIP-429: what is assigned now is part of the subscription; with its generation (CORRECTNESS G2)."""
    assert Subscription.decode(said.encode()) == said


@given(v1_assignments)
def test_an_assignment_of_version_1_comes_back_with_revocations_and_the_error(said: Assignment) -> None:
    """KIP-429: moved partitions are named to their old owner, and all members must join again."""
    assert Assignment.decode(said.encode()) == said


def test_the_layout_of_version_1_is_that_of_version_0_and_more() -> None:
    """KIP-429: a leader that knows V0 only can read what members say in V1."""
    assert SUBSCRIPTION.encode().hex(" ") == (
        "00 01"  # version
        " 00 00 00 02 00 06 6f 72 64 65 72 73 00 03 7a 6f 6f"  # topics
        " 00 00 00 01 21"  # user data
        " 00 00 00 02"  # owned
        " 00 06 6f 72 64 65 72 73 00 00 00 01 00 00 00 02"
        " 00 03 7a 6f 6f 00 00 00 01 00 00 00 00"
        " 00 00 00 07"  # the generation it is owned since
    )
    assert ASSIGNMENT.encode().hex(" ") == (
        "00 01"  # version
        " 00 00 00 01 00 06 6f 72 64 65 72 73 00 00 00 01 00 00 00 02"  # assigned
        " 00 00 00 01 21"  # user data
        " 00 00 00 01 00 03 7a 6f 6f 00 00 00 01 00 00 00 00"  # revoked
        " 00 01"  # join again
    )
    assert ConsumerProtocolMemberMetadata.decode(SUBSCRIPTION.encode()).subscription == ["orders", "zoo"]
    assert ConsumerProtocolMemberAssignment.decode(ASSIGNMENT.encode()).partitions() == [("orders", 2)]


@pytest.mark.parametrize("whole", [SUBSCRIPTION, ASSIGNMENT])
def test_bytes_that_end_early_or_late_are_refused_with_the_position(whole: Subscription | Assignment) -> None:
    """Truncated at any byte, or with one byte too many. Version 1 without the end of the draft is Kafka's."""
    data = whole.encode()
    kafkas = len(data) - (4 if isinstance(whole, Subscription) else 19)
    for length in range(len(data)):
        if length == kafkas:
            assert type(whole).decode(data[:length]).version != DRAFT_VERSION
            continue
        with pytest.raises(InconsistentGroupProtocol, match=rf"at byte \d+ of {length}: "):
            type(whole).decode(data[:length])
    with pytest.raises(InconsistentGroupProtocol, match=rf"at byte {len(data)} of {len(data) + 1}: 1 bytes"):
        type(whole).decode(data + b"\0")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("ffff", "at byte 0 of 2: version is -1"),
        ("0000 ffffffff", "at byte 2 of 6: length of an array is -1"),
        ("0000 00000001 ffff", "at byte 6 of 8: length of a string is -1"),
        ("0000 00000001 0002 c328 00000000", "at byte 8 of 14: a string is not UTF-8"),
        ("0000 00000000 fffffffe", "at byte 6 of 10: length of bytes is -2"),
        ("0000 00000000 00000005 00", "at byte 10 of 11: 5 bytes wanted, 1 left"),
        (
            "0001 00000000 00000000 00000001 000174 00000001 ffffffff 00000001",
            "at byte 21 of 29: partition -1",
        ),
    ],
)
def test_a_subscription_that_says_nothing_is_refused_with_position_and_reason(data: str, why: str) -> None:
    """Each kind of nonsense, at its byte."""
    with pytest.raises(InconsistentGroupProtocol, match=why):
        Subscription.decode(bytes.fromhex(data))


def test_an_unknown_error_code_is_refused() -> None:
    """A member that cannot know what it is asked to do must not continue as if there were no error."""
    data = Assignment(DRAFT_VERSION, ()).encode()
    with pytest.raises(InconsistentGroupProtocol, match="at byte 14 of 16: error code 2"):
        Assignment.decode(data[:-1] + b"\2")


@given(st.binary(max_size=200), st.sampled_from([Subscription, Assignment]))
@example(b"\0\1" + b"\0" * 14, Assignment)
def test_of_garbage_nothing_but_the_typed_error_comes(
    data: bytes, kind: type[Subscription] | type[Assignment]
) -> None:
    """Either it says something, and then the same again, or it is refused."""
    try:
        said = kind.decode(data)
    except InconsistentGroupProtocol:
        return
    assert kind.decode(said.encode()).encode() == said.encode()


@given(st.data(), st.sampled_from([SUBSCRIPTION, ASSIGNMENT]))
def test_of_bytes_that_were_damaged_nothing_but_the_typed_error_comes(
    data: st.DataObject, whole: Subscription | Assignment
) -> None:
    """Closer to the truth than garbage, so it reaches deeper."""
    damaged = bytearray(whole.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        type(whole).decode(bytes(damaged))
    except InconsistentGroupProtocol as refused:
        assert " at byte " in refused.message


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Subscription, "0000 7fffffff"),
        (Subscription, "0000 00000000 7fffffff"),
        (Subscription, "0001 00000000 00000000 7fffffff"),
        (Assignment, "0000 7fffffff"),
        (Assignment, "0000 00000001 000174 7fffffff"),
    ],
)
def test_a_length_that_the_bytes_cannot_hold_costs_no_memory(
    kind: type[Subscription] | type[Assignment], data: str
) -> None:
    """Two thousand million elements in a message of twenty bytes."""
    tracemalloc.start()
    try:
        with pytest.raises(InconsistentGroupProtocol):
            kind.decode(bytes.fromhex(data))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
