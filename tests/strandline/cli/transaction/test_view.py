"""Transactions as JSON."""

from __future__ import annotations

from strandline.cli.transaction.view import (
    abort_command,
    described_json,
    hanging_json,
    listed_json,
    shortened,
)
from strandline.client.admin.transactions import HangingTransaction, TransactionDescription
from strandline.ids import TopicPartition
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.transactions import (
    DescribedTransaction,
    ListedTransaction,
    OpenInLog,
    TransactionState,
)

NAME, PRODUCER, NOW_MS = TopicPartition("t", 3), ProducerIdentity(7, 2), 1_000


def test_an_id_without_a_transaction_has_no_time() -> None:
    listed = ListedTransaction("pay", 7, TransactionState.EMPTY)
    assert listed_json(listed, NOW_MS) == {
        "transactional_id": "pay", "producer_id": 7, "state": "Empty", "started_ms": None, "open_ms": None,
    }  # fmt: skip
    found = DescribedTransaction("pay", PRODUCER, TransactionState.EMPTY, 60_000)
    shown = described_json(TransactionDescription(found, Endpoint(1, "h", 9)), NOW_MS)
    assert (shown["started_ms"], shown["open_ms"], shown["partitions"]) == (None, None, {})


def test_a_long_id_does_not_widen_the_table() -> None:
    assert shortened("x" * 80) == "x" * 80
    assert shortened("x" * 81) == "x" * 79 + "…"


def test_times_are_counted_from_the_begin_and_not_below_zero() -> None:
    """The clocks of the coordinator and of this machine may differ."""
    assert listed_json(ListedTransaction("pay", 7, TransactionState.ONGOING, 400), NOW_MS)["open_ms"] == 600
    assert listed_json(ListedTransaction("pay", 7, TransactionState.ONGOING, 4_000), NOW_MS)["open_ms"] == 0


def test_a_hanging_transaction_names_its_place() -> None:
    hanging = HangingTransaction(NAME, OpenInLog(PRODUCER, 5, 400))
    assert hanging_json(hanging, NOW_MS) == {
        "topic": "t", "partition": 3, "start_offset": 5, "producer_id": 7, "producer_epoch": 2,
        "began_ms": 400, "open_ms": 600,
    }  # fmt: skip
    assert abort_command(hanging) == "transaction abort --topic t --partition 3 --start-offset 5"
