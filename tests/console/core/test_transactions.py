"""Transactions as pages show them."""

from __future__ import annotations

from strandline.console.core.transactions import open_words, searched, states_of
from strandline.ids import TopicPartition
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import (
    ListedTransaction,
    LogTransactions,
    OpenInLog,
    TransactionState,
)

NAME = TopicPartition("t", 0)
OPEN, EMPTY = TransactionState.ONGOING, TransactionState.EMPTY
LISTED = (
    ListedTransaction("idle", 1, EMPTY),
    ListedTransaction("young", 2, OPEN, 900),
    ListedTransaction("old", 3, OPEN, 100),
)


def test_the_transaction_that_is_open_for_longest_is_first() -> None:
    assert [each.transactional_id for each in searched(LISTED, "", "")] == ["old", "young", "idle"]
    assert [each.transactional_id for each in searched(LISTED, "OU", "Ongoing")] == ["young"]
    assert searched(LISTED, "", "Dead") == []
    assert states_of(LISTED) == [(EMPTY, 1), (OPEN, 2)]


def test_a_log_says_where_its_readers_wait() -> None:
    opened = OpenInLog(ProducerIdentity(1, 0), 1_234, 1_000)
    log = LogTransactions(NAME, None, 1_234, 2_000, 7, (opened,))
    assert open_words(log, 62_000) == "7 transactions open, the first for 1 min 1 s from offset 1,234"
    assert open_words(LogTransactions(NAME), 62_000) == ""
