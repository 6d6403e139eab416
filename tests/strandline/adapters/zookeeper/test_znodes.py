"""The content of znodes is read back as it was written, and a record of the past never blocks a start."""

from __future__ import annotations

import json

import pytest

from strandline.adapters.zookeeper.layout.balance_znodes import dump_balance, fitting, load_balance
from strandline.adapters.zookeeper.layout.isr_znodes import dump_isr, load_isr
from strandline.adapters.zookeeper.znodes import dump_registration, load_registration
from strandline.config.limits import BALANCE_REASONS_BYTES_MAX, TOPIC_NAME_LENGTH_MAX, ZNODE_BYTES_MAX
from strandline.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.vocabulary.metadata import (
    Balance,
    BalanceMove,
    BalanceState,
    Endpoint,
    IsrMember,
    PartitionState,
    Registration,
)
from strandline.vocabulary.state_changes import AskedBy, ChangeKind, RequestState, StateChangeEvent

EVENT = StateChangeEvent(
    id="isr-1",
    command=ChangeKind.CHANGE_ISR,
    state=RequestState.COMPLETED,
    topic="orders",
    key=PartitionKey(TopicId("a" * 32), PartitionId(3)),
    broker=BrokerId(1),
    epoch=LeaderEpoch(7),
    at_ms=5,
    reason="broker 2 is late",
    isr=(),
    left=(BrokerId(2),),
)
STATE = PartitionState(BrokerId(1), LeaderEpoch(7), (IsrMember(BrokerId(1), BrokerEpoch(10)),), (EVENT,))


def test_a_registration_has_every_address() -> None:
    endpoint = Endpoint(4, "h", 1, "r", ("out", 2), ("kafka", 3), ("kafka-out", 4), encrypted=True)
    registration = Registration(endpoint, BrokerEpoch(9), follower_fetch=True)
    assert load_registration(4, dump_registration(registration), 9) == registration


def test_a_registration_of_an_earlier_version_has_no_kafka_address_and_serves_no_rack() -> None:
    """As during a rolling upgrade."""
    data = json.dumps({"host": "h", "port": 1, "rack": "", "shutting_down": False}).encode()
    assert load_registration(4, data, 9) == Registration(Endpoint(4, "h", 1), BrokerEpoch(9))


def test_a_trail_is_read_back_as_it_was_written() -> None:
    found = load_isr("orders", 3, dump_isr(STATE))
    assert found == STATE
    assert found.trail == (EVENT,)


@pytest.mark.parametrize(
    "garbage",
    [{"command": "of-a-later-version"}, {}, "text", 5, None, [], {"id": "x", "command": ["list"]}],
    ids=str,
)
def test_a_foreign_record_blocks_nothing(garbage: object) -> None:
    """CORRECTNESS E7: a leader is elected from what is left; the events that can be read stay."""
    raw = json.loads(dump_isr(STATE))
    raw["trail"].insert(0, garbage)
    found = load_isr("orders", 3, json.dumps(raw).encode())
    assert found == STATE
    assert found.trail == (EVENT,)


@pytest.mark.parametrize("trail", ["text", 5, {"id": 1}])
def test_a_trail_that_is_none_is_passed_over(trail: object) -> None:
    raw = {**json.loads(dump_isr(STATE)), "trail": trail}
    assert load_isr("orders", 3, json.dumps(raw).encode()).trail == ()


def test_a_state_that_is_none_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="lacks 'leader'"):
        load_isr("orders", 3, b'{"epoch":1,"isr":[]}')


# --- balances -----------------------------------------------------------------------------------


def move(topic: str, number: int, before: tuple[int, ...], after: tuple[int, ...]) -> BalanceMove:
    name = TopicPartition(topic, number)
    return BalanceMove(name, TopicId("a" * 32), tuple(map(BrokerId, before)), tuple(map(BrokerId, after)), 7)


def test_a_balance_is_read_as_it_was_written_with_its_moves_in_their_turn() -> None:
    moves = (move("b", 0, (1, 2), (3, 2)), move("b", 1, (2, 1), (3, 1)), move("a", 0, (1, 2), (2, 1)))
    balance = Balance(
        BalanceState.PAUSED, moves, 3, 1_000, 5, 1, 1, AskedBy("User:alice", "192.0.2.1"), ("r",)
    )
    assert load_balance(dump_balance(balance)) == balance


def test_a_plan_is_cut_to_the_size_of_a_znode() -> None:
    names = [f"{number}".rjust(TOPIC_NAME_LENGTH_MAX, "t") for number in range(3_000)]
    moves = [move(name, 0, (1, 2, 3), (4, 2, 3)) for name in names]
    kept = fitting(moves)
    assert 0 < len(kept) < len(moves)
    asker = AskedBy("User:alice", "192.0.2.1")
    reasons = ("r" * (BALANCE_REASONS_BYTES_MAX // 100 - 3),) * 100
    full = Balance(BalanceState.RUNNING, tuple(kept), len(kept), 2**62, 2**62, by=asker, reasons=reasons)
    size = len(dump_balance(full))
    assert ZNODE_BYTES_MAX * 0.9 < size <= ZNODE_BYTES_MAX
    assert fitting(moves[:100]) == moves[:100]
