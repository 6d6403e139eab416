"""The messages of Kafka's clients in a group, of every version (KIP-429 as released, KIP-792, KIP-881)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from strandline.errors import InconsistentGroupProtocol
from strandline.ids import TopicPartition
from strandline.vocabulary.parsing.consumer_protocol import (
    COOPERATIVE_STICKY,
    DRAFT_VERSION,
    EAGER_VERSION,
    RELEASED_VERSION,
    Assignment,
    AssignmentError,
    Subscription,
)
from tests.consumer.core.support.kafka_bytes import kafka_assignment, kafka_subscription

topics = st.text(st.characters(codec="utf-8"), max_size=12)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
sorted_partitions = st.sets(partitions, max_size=12).map(lambda names: tuple(sorted(names)))
generations = st.integers(-1, 2**31 - 1)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@given(st.integers(0, 3), st.lists(topics, max_size=6).map(tuple), sorted_partitions, generations)
def test_a_subscription_of_a_kafka_client_is_read_in_every_version(
    version: int, said: tuple[str, ...], owned: tuple[TopicPartition, ...], generation: int
) -> None:
    """Claims begin with version 1, their generation with version 2; the rack of version 3 is passed over."""
    data = kafka_subscription(version, said, owned, generation, user_data=b"u", rack="r")
    read = Subscription.decode(data)
    assert read.topics == said
    assert read.user_data == b"u"
    assert read.version == (RELEASED_VERSION if version else EAGER_VERSION)
    assert read.owned == (owned if version >= 1 else ())
    assert read.owned_generation == (generation if version >= 2 else -1)


@given(st.lists(topics, max_size=6).map(tuple), sorted_partitions, generations, st.binary(max_size=20))
def test_a_subscription_under_cooperative_sticky_is_what_kafkas_clients_send(
    said: tuple[str, ...], owned: tuple[TopicPartition, ...], generation: int, user_data: bytes
) -> None:
    """Version 3 byte for byte, without a rack."""
    mine = Subscription(RELEASED_VERSION, said, owned, generation, user_data)
    assert mine.encode() == kafka_subscription(3, said, owned, generation, user_data=user_data)
    theirs = ConsumerProtocolSubscription.decode(mine.encode())
    assert (tuple(theirs.topics), theirs.generation_id, theirs.rack_id) == (said, generation, None)
    assert Subscription.decode(mine.encode()) == mine


@pytest.mark.parametrize(
    ("user_data", "generation"), [(b"\0\0\0\x07", 7), (b"", -1), (None, -1), (b"\0\0\0\x07!", -1)]
)
def test_java_puts_the_generation_of_version_1_into_its_user_data(
    user_data: bytes | None, generation: int
) -> None:
    """Clients from 2.4 to 3.1; other clients have other data there, or none (CORRECTNESS G2)."""
    data = kafka_subscription(1, ("t",), (T0,), -1, user_data=user_data)
    assert Subscription.decode(data) == Subscription(
        RELEASED_VERSION, ("t",), (T0,), generation, user_data or b""
    )


@pytest.mark.parametrize("version", [4, 2**15 - 1])
def test_a_version_after_3_is_read_as_far_as_it_is_known(version: int) -> None:
    """A later version adds at the end, so that an upgrade of clients meets no member that cannot read."""
    later = version.to_bytes(2)
    said = kafka_subscription(3, ("t",), (T0,), 7, user_data=b"", rack="r")
    assert Subscription.decode(later + said[2:] + b"more") == Subscription.decode(said)
    assert Assignment.decode(later + kafka_assignment(0, [T0])[2:] + b"more").assigned == (T0,)


@pytest.mark.parametrize("version", [2, 3])
def test_a_subscription_that_ends_before_its_generation_is_refused(version: int) -> None:
    whole = kafka_subscription(version, ("t",), (T0,), 7)
    for length in range(len(kafka_subscription(2, ("t",), (T0,), 7))):
        with pytest.raises(InconsistentGroupProtocol, match=r"at byte \d+ of"):
            Subscription.decode(whole[:length])


def test_a_subscription_means_cooperative_by_the_name_of_the_assignor() -> None:
    """A Kafka client sends one version under all names, and is an eager member under every name but one;
    only strandline's draft is cooperative under another."""
    for version in range(4):
        data = kafka_subscription(version, ("t",), (), -1)
        read = Subscription.decode(data)
        assert read.cooperative(COOPERATIVE_STICKY)
        assert not any(read.cooperative(name) for name in ("range", "roundrobin", "sticky"))
    draft = Subscription.decode(Subscription(DRAFT_VERSION, ("t",)).encode())
    assert all(draft.cooperative(name) for name in ("range", "roundrobin", "sticky", COOPERATIVE_STICKY))


@given(st.integers(0, 3), sorted_partitions)
def test_an_assignment_of_a_kafka_leader_is_read_in_every_version(
    version: int, assigned: tuple[TopicPartition, ...]
) -> None:
    """Kafka's versions 1 to 3 have the fields of version 0; the end of the draft tells version 1 apart."""
    assert Assignment.decode(kafka_assignment(version, assigned)) == Assignment(EAGER_VERSION, assigned)


@given(sorted_partitions)
def test_an_assignment_for_kafkas_clients_is_read_by_them(assigned: tuple[TopicPartition, ...]) -> None:
    """Version 0, which every client reads."""
    data = Assignment(EAGER_VERSION, assigned).encode()
    assert data == kafka_assignment(0, assigned)
    assert tuple(sorted(ConsumerProtocolAssignment.decode(data).partitions())) == assigned


def test_an_owner_finds_by_itself_what_it_has_to_revoke() -> None:
    """KIP-429 as released: revoked is owned − assigned, and only a member that revokes joins again."""
    assigned = Assignment(EAGER_VERSION, (T0,), user_data=b"!")
    moved = assigned.to_owner_of({T0, T1})
    assert (moved.assigned, moved.revoked, moved.error) == ((T0,), (T1,), AssignmentError.NEEDS_REJOIN)
    assert moved.user_data == b"!"
    kept = assigned.to_owner_of({T0})
    assert (kept.assigned, kept.revoked, kept.error) == ((T0,), (), AssignmentError.NONE)
