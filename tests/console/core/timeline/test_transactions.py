"""What the timeline shows of one transactional id: bars of its transactions, and how each of them ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from strandline.broker.core.transactions.transaction import Transaction
from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.drawing import draw
from strandline.console.core.timeline.facts.transactions import Changed, explained, row_of
from strandline.console.core.timeline.gaps import Gaps
from strandline.console.core.timeline.places import parse_id, unpack
from strandline.console.core.timeline.view import View
from strandline.ids import TopicPartition
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import TransactionState

AT = 1_795_336_400_000
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
EMPTY = Transaction("pay", ProducerIdentity(7, 0), 60_000, TransactionState.EMPTY, AT)


def held(state: TransactionState, began: int, *partitions: TopicPartition) -> Transaction:
    return replace(EMPTY, state=state, started_ms=AT + began, partitions=frozenset(partitions))


COMMITTED = (
    (0, EMPTY),
    (100, held(TransactionState.ONGOING, 100, A)),
    (150, held(TransactionState.ONGOING, 100, A, B)),
    (300, held(TransactionState.PREPARE_COMMIT, 100, A, B)),
    (320, held(TransactionState.COMPLETE_COMMIT, 100)),
)
ABORTED = (
    (500, held(TransactionState.ONGOING, 500, A)),
    (700, held(TransactionState.PREPARE_ABORT, 500, A)),
    (720, held(TransactionState.COMPLETE_ABORT, 500)),
)


def changes(said: Iterable[tuple[int, Transaction | None]]) -> list[Changed]:
    return [Changed(3, 40 + number, AT + at, each) for number, (at, each) in enumerate(said)]


def drawn(said: Iterable[tuple[int, Transaction | None]], width: int = 1_000) -> dict[str, Any]:
    """The lanes of the row by their kinds, in a second of `width` pixels."""
    view = View("transaction", AT, AT + 1_000, width)
    row = draw(row_of("pay", changes(said)), view, Gaps(Rows(), view))
    assert (row["id"], row["name"]) == ("transaction/pay", "pay")
    return {lane["kind"]: lane["items"] for lane in row["lanes"]}


def test_a_transaction_is_a_bar_while_it_is_open_and_while_it_ends() -> None:
    lanes = drawn([*COMMITTED, *ABORTED])
    bars = [(each["from"] - AT, each["until"] - AT, each["label"]) for each in lanes["transaction"]]
    assert bars == [
        (100, 300, "open, 2 partitions"),
        (300, 320, "committing, 2 partitions"),
        (500, 700, "open, 1 partition"),
        (700, 720, "aborting, 1 partition"),
    ]
    ends = [(each["at"] - AT, each["kind"]) for each in lanes["marks"]]
    assert ends == [(320, "committed"), (720, "aborted")]
    assert lanes["transaction"][0]["event"] == "transaction/3/41"


def test_one_that_is_open_has_no_end_and_one_that_follows_at_once_has_a_bar_of_its_own() -> None:
    again = held(TransactionState.ONGOING, 320, B)
    (*_, last) = drawn([*COMMITTED, (320, again)])["transaction"]
    assert (last["from"] - AT, last["until"], last["label"]) == (320, None, "open, 1 partition")


def test_thousands_of_them_are_a_few_items_a_pixel() -> None:
    many = [
        (number // 3, each)
        for number in range(0, 2_997, 3)
        for each in (
            held(TransactionState.ONGOING, number, A),
            held(TransactionState.PREPARE_COMMIT, number, A),
            held(TransactionState.COMPLETE_COMMIT, number),
        )
    ]
    lanes = drawn(many, width=20)
    assert len(lanes["transaction"]) <= 40 and len(lanes["marks"]) <= 20
    assert sum(each["count"] for each in lanes["marks"]) == 999


def test_an_event_is_explained_by_its_record() -> None:
    (*_, change) = changes([*COMMITTED, *ABORTED])
    said = explained(change)
    assert said["sentence"] == "A transaction of pay is aborted, in all of its partitions."
    assert said["record"] == {"topic": "__transaction_state", "partition": 3, "offset": 47}
    assert unpack(parse_id(said["id"]))[1:] == (3, 47)
    assert said["fields"]["state"] == "CompleteAbort"
    (forgotten,) = changes([(0, None)])
    assert "forgotten" in explained(forgotten)["sentence"]
    assert explained(changes(COMMITTED)[3])["sentence"] == (
        "The commit of a transaction of pay is decided; its markers go to 2 partitions."
    )
