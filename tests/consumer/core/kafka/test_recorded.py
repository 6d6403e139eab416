"""What real clients sent in groups with strandline's consumers, recorded from their coordinator."""

from __future__ import annotations

import pytest

from strandline.ids import TopicPartition
from strandline.vocabulary.parsing.consumer_protocol import (
    EAGER_VERSION,
    RELEASED_VERSION,
    Assignment,
    Subscription,
    generation_data,
)

T0, T1, T2, T3 = (TopicPartition("tides", number) for number in range(4))
TIDES = "0005 7469646573"
LIBRDKAFKAS = f"00000001 {TIDES} 00000002 00000002 00000003 00000002"
"""The user data of librdkafka's sticky assignors: the partitions and the generation once more."""

SUBSCRIPTIONS = {
    "kafka-clients 3.9.1, range": (
        f"0003 00000001 {TIDES} ffffffff 00000000 00000001 ffff",
        Subscription(RELEASED_VERSION, ("tides",), (), 1),
    ),
    "kafka-clients 3.9.1, cooperative-sticky, new": (
        f"0003 00000001 {TIDES} 00000004 ffffffff 00000000 ffffffff ffff",
        Subscription(RELEASED_VERSION, ("tides",), (), -1, b"\xff\xff\xff\xff"),
    ),
    "kafka-clients 3.9.1, cooperative-sticky": (
        f"0003 00000001 {TIDES} 00000004 00000005 00000001 {TIDES} 00000001 00000001 00000005 ffff",
        Subscription(RELEASED_VERSION, ("tides",), (T1,), 5, generation_data(5)),
    ),
    "librdkafka 2.16, range": (
        f"0003 00000001 {TIDES} 00000000 00000000 ffffffff 0000",
        Subscription(RELEASED_VERSION, ("tides",)),
    ),
    "librdkafka 2.16, cooperative-sticky": (
        f"0003 00000001 {TIDES} 0000001b {LIBRDKAFKAS} 00000001 {TIDES} 00000002 00000002 00000003"
        " 00000002 0000",
        Subscription(RELEASED_VERSION, ("tides",), (T2, T3), 2, bytes.fromhex(LIBRDKAFKAS)),
    ),
    "kafka-python 3.0.12, cooperative-sticky": (
        f"0001 00000001 {TIDES} 00000000 00000001 {TIDES} 00000001 00000002",
        Subscription(RELEASED_VERSION, ("tides",), (T2,), -1),
    ),
    "kafka-python 3.0.12 and aiokafka 0.14.0, range": (
        f"0000 00000001 {TIDES} 00000000",
        Subscription(EAGER_VERSION, ("tides",)),
    ),
}
ASSIGNMENTS = {
    "kafka-clients 3.9.1": (f"0003 00000001 {TIDES} 00000002 00000001 00000003 ffffffff", (T1, T3), b""),
    "librdkafka 2.16, range": (f"0000 00000001 {TIDES} 00000002 00000002 00000003 00000000", (T2, T3), b""),
    "librdkafka 2.16, cooperative-sticky": (
        f"0000 00000001 {TIDES} 00000002 00000001 00000000 00000004 00000002",
        (T1, T0),
        generation_data(2),  # what the member had sent
    ),
    "kafka-python 3.0.12, cooperative-sticky": (
        f"0001 00000001 {TIDES} 00000002 00000000 00000002 00000000",
        (T0, T2),
        b"",
    ),
    "kafka-python 3.0.12 and aiokafka 0.14.0, range": (
        f"0000 00000001 {TIDES} 00000001 00000002 00000000",
        (T2,),
        b"",
    ),
}


@pytest.mark.parametrize("client", SUBSCRIPTIONS)
def test_a_recorded_subscription_is_read(client: str) -> None:
    """CORRECTNESS G17: no client's is unreadable, or taken for strandline's draft."""
    data, expected = SUBSCRIPTIONS[client]
    assert Subscription.decode(bytes.fromhex(data)) == expected


def test_a_cooperative_subscription_is_javas_byte_for_byte() -> None:
    data, said = SUBSCRIPTIONS["kafka-clients 3.9.1, cooperative-sticky"]
    assert said.encode() == bytes.fromhex(data)


@pytest.mark.parametrize("client", ASSIGNMENTS)
def test_a_recorded_assignment_is_read(client: str) -> None:
    """CORRECTNESS G17."""
    data, assigned, user_data = ASSIGNMENTS[client]
    assert Assignment.decode(bytes.fromhex(data)) == Assignment(EAGER_VERSION, assigned, user_data=user_data)
