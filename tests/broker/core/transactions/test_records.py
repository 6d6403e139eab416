"""Records of `__transaction_state`: Kafka's bytes, and nothing that no coordinator writes (X1)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.transactions.records import (
    LAST_EPOCH_HEADER,
    UnreadableTransactionRecord,
    decode_key,
    decode_value,
    encode_headers,
    encode_key,
    encode_value,
)
from strandline.broker.core.transactions.transaction import Transaction
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from strandline.records import Headers
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import EPOCH_MAX, NO_PRODUCER, TransactionState

NAME = "payments"
PARTITIONS = frozenset(
    {TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("words", 300)}
)
EMPTY = Transaction(NAME, ProducerIdentity(7000, 5), 60_000, TransactionState.EMPTY, 1_700_000_100_000)
ONGOING = replace(EMPTY, state=TransactionState.ONGOING, partitions=PARTITIONS, started_ms=1_700_000_000_000)
PREPARED = replace(
    ONGOING,
    state=TransactionState.PREPARE_COMMIT,
    producer=ProducerIdentity(7000, EPOCH_MAX),
    last=ProducerIdentity(7000, EPOCH_MAX - 1),
    next_id=7001,
    client_version=2,
)
COMPLETE = replace(
    EMPTY,
    state=TransactionState.COMPLETE_ABORT,
    last=ProducerIdentity(7000, 4),
    started_ms=1_700_000_000_000,
    client_version=2,
)

HEAD = "00010000000000001b58"
TIMES = "0000018bcfe6eea00000018bcfe56800"
LISTED = "03076f72646572730300000000000000010006776f726473020000012c00"
GOLDEN = [
    (EMPTY, HEAD + "00050000ea6000000000018bcfe6eea0ffffffffffffffff00"),
    (ONGOING, HEAD + "00050000ea6001" + LISTED + TIMES + "00"),
    (
        PREPARED,
        HEAD + "7fff0000ea6002" + LISTED + TIMES + "0300080000000000001b5801080000000000001b5902020002",
    ),
    (COMPLETE, HEAD + "00050000ea600501" + TIMES + "0200080000000000001b5802020002"),
]
"""Written by the serializer of Kafka 4.4.0."""


def read(data: bytes, headers: Headers = ()) -> Transaction:
    return decode_value(NAME, data, headers)


def test_a_key_has_kafkas_bytes() -> None:
    key = bytes.fromhex("000000087061796d656e7473")
    assert encode_key(NAME) == key
    assert decode_key(key) == NAME


@pytest.mark.parametrize(("transaction", "data"), GOLDEN)
def test_a_value_has_kafkas_bytes(transaction: Transaction, data: str) -> None:
    assert encode_value(transaction).hex() == data
    assert read(bytes.fromhex(data), encode_headers(transaction)) == transaction


@pytest.mark.parametrize(
    ("transaction", "data"),
    [
        (EMPTY, "00000000000000001b5800050000ea6000ffffffff0000018bcfe6eea0ffffffffffffffff"),
        (
            ONGOING,
            "00000000000000001b5800050000ea60010000000200066f72646572730000000200000000000000010005776f726473"
            "000000010000012c0000018bcfe6eea00000018bcfe56800",
        ),
    ],
)
def test_a_value_of_version_0_is_read(transaction: Transaction, data: str) -> None:
    assert read(bytes.fromhex(data)) == transaction


def test_unknown_tags_are_skipped() -> None:
    """NextProducerEpoch, which Kafka 4.4 knows and does not use."""
    data = HEAD + "00050000ea600501" + TIMES + "0300080000000000001b580202000203020003"
    assert read(bytes.fromhex(data), encode_headers(COMPLETE)) == COMPLETE


def test_without_its_header_the_identity_before_is_not_known() -> None:
    assert read(encode_value(COMPLETE)).last == NO_PRODUCER


@given(st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    numbers = st.integers(0, 2**63 - 1)
    state = data.draw(st.sampled_from(["Ongoing", "PrepareCommit", "PrepareAbort"]))
    names = st.builds(TopicPartition, st.text("abcé.", min_size=1, max_size=249), st.integers(0, 2**31 - 1))
    identities = st.builds(ProducerIdentity, numbers, st.integers(0, EPOCH_MAX - 1))
    transaction = Transaction(
        data.draw(st.text("abcé/", min_size=1, max_size=1_024)),
        data.draw(identities),
        data.draw(st.integers(1, 2**31 - 1)),
        TransactionState(state),
        data.draw(numbers),
        frozenset(data.draw(st.sets(names, max_size=20))),
        data.draw(numbers),
        data.draw(identities),
    )
    name = decode_key(encode_key(transaction.transactional_id))
    assert decode_value(name, encode_value(transaction), encode_headers(transaction)) == transaction


# --- what no coordinator writes -----------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "00", "0001000161", "00000002", "000000016100", "0000ffff"])
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(UnreadableTransactionRecord):
        decode_key(bytes.fromhex(key))


@pytest.mark.parametrize("name", ["", "a\tb", "x" * 1_025])
def test_ids_that_no_client_can_have_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        decode_key(encode_key(name))


@pytest.mark.parametrize(
    "changed",
    [
        replace(EMPTY, producer=ProducerIdentity(-1, 0)),
        replace(EMPTY, producer=ProducerIdentity(1, -1)),
        replace(EMPTY, producer=ProducerIdentity(1, EPOCH_MAX)),
        replace(ONGOING, producer=ProducerIdentity(1, EPOCH_MAX)),
        replace(EMPTY, timeout_ms=0),
        replace(EMPTY, updated_ms=-2),
        replace(ONGOING, started_ms=-2),
        replace(COMPLETE, partitions=PARTITIONS),
        replace(ONGOING, next_id=5),
        replace(PREPARED, next_id=-5),
        replace(PREPARED, producer=ProducerIdentity(7000, 4)),
        replace(EMPTY, last=ProducerIdentity(-1, 5)),
        replace(EMPTY, last=ProducerIdentity(5, -2)),
        replace(EMPTY, last=ProducerIdentity(5, EPOCH_MAX)),
        replace(EMPTY, client_version=3),
        replace(EMPTY, client_version=-1),
        replace(ONGOING, partitions=frozenset({TopicPartition("t", -1)})),
        replace(ONGOING, partitions=frozenset({TopicPartition("", 1)})),
        replace(ONGOING, partitions=frozenset({TopicPartition("x" * 250, 1)})),
    ],
)
def test_values_that_no_coordinator_writes_are_refused(changed: Transaction) -> None:
    with pytest.raises(UnreadableTransactionRecord):
        read(encode_value(changed), encode_headers(changed))


@pytest.mark.parametrize(
    "data",
    [
        "",
        "0002",
        "0000" + HEAD[4:] + "00050000ea6001fffffffe" + TIMES,
        "0000" + HEAD[4:] + "00050000ea600100000001000161ffffffff" + TIMES,
        "ffff",
        HEAD + "00050000ea600600" + TIMES + "00",
        HEAD + "00050000ea60ff00" + TIMES + "00",
        HEAD + "00050000ea600000" + TIMES + "0000",
        HEAD + "00050000ea6001ffffffffff7f" + TIMES + "00",
        HEAD + "00050000ea60010202610201",
        HEAD + "00050000ea60010302610200000001000261020000000100" + TIMES + "00",
        HEAD + "00050000ea60010202610200000001" + "01" + TIMES + "00",
        HEAD + "00050000ea6001020261ff",
        HEAD + "00050000ea600000" + TIMES + "02020200020202000200",
        HEAD + "00050000ea600000" + TIMES + "010204000200",
    ],
)
def test_other_bytes_are_refused(data: str) -> None:
    with pytest.raises(UnreadableTransactionRecord):
        read(bytes.fromhex(data))


@pytest.mark.parametrize("content", [None, b"", b"\x00", b"\x00\x00\x00"])
def test_a_header_has_two_bytes(content: bytes | None) -> None:
    with pytest.raises(UnreadableTransactionRecord):
        read(encode_value(EMPTY), ((LAST_EPOCH_HEADER, content),))


@given(st.data())
def test_any_damage_is_refused_or_read_as_a_valid_value(data: st.DataObject) -> None:
    transaction, _ = data.draw(st.sampled_from(GOLDEN))
    value = bytearray(encode_value(transaction))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(value[: data.draw(st.integers(0, len(value)))])
    try:
        found = read(cut, encode_headers(transaction))
    except UnreadableTransactionRecord:
        return
    assert read(encode_value(found), encode_headers(found)) == found
