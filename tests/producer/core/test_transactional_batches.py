"""What the accumulator of a producer with transactions does with batches that fail, and after each end."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.config.load import load
from strandline.config.producer import ProducerSettings
from strandline.errors import (
    InvalidProducerEpoch,
    OutOfOrderSequence,
    SettingsError,
    StrandlineError,
    TransactionAbortable,
    UnknownProducerId,
)
from strandline.producer.core.effects import Acknowledged, Renew, Send
from strandline.records import BatchHeader
from strandline.vocabulary.log import ProducerIdentity
from tests.producer.core.test_accumulator import CONNECTION, LEADER, Bench, failures, of_kind

ABORTED = TransactionAbortable("aborted")
NEXT = ProducerIdentity(7, 1)


def bench() -> Bench:
    return Bench(transactional_id="payments")


@pytest.mark.parametrize("error", [OutOfOrderSequence("a gap"), UnknownProducerId("forgotten")])
def test_a_failed_batch_takes_those_behind_it_along_and_the_producer_keeps_its_id(
    error: StrandlineError,
) -> None:
    """A batch under another producer id would be in no transaction."""
    one = bench()
    one.add(*"abc")
    a, *_ = one.core.take(LEADER, CONNECTION)
    effects = one.core.refused(a, error)
    assert failures(effects) == dict.fromkeys("abc", error)
    assert not of_kind(effects, Renew)


def test_the_next_transaction_begins_with_sequence_0_of_its_epoch() -> None:
    one = bench()
    one.add(*"ab")
    a, b = one.core.take(LEADER, CONNECTION)
    one.core.acknowledged(a, 0)
    one.core.acknowledged(b, 1)
    one.core.go_on_as(NEXT)
    one.add("c")
    (c,) = one.core.take(LEADER, CONNECTION)
    header = BatchHeader.parse(c.seal(transactional=True))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 0)
    assert header.is_transactional


def test_an_abort_ends_every_batch_and_late_answers_of_those_in_flight_change_nothing() -> None:
    """The broker refuses one that comes after the end: it has an earlier epoch."""
    one = bench()
    one.add(*"ab")
    a, b = one.core.take(LEADER, CONNECTION)
    one.add("c")
    one.core.begin(one.queue, "open", 0)
    assert failures(one.core.abandon(ABORTED)) == dict.fromkeys(["a", "b", "c", "open"], ABORTED)
    one.core.go_on_as(NEXT)
    one.add("d")
    assert one.take() == ["d"], "on the same connection, which keeps the order"
    assert one.core.refused(a, InvalidProducerEpoch("an old one")) == [Send(one.queue)]
    assert one.core.acknowledged(b, 1) == [Send(one.queue)]
    (d,) = one.in_flight()
    assert d.sequence == 0
    assert one.core.acknowledged(d, 2) == [Acknowledged(d, 2)]
    assert one.queue.empty


def test_after_a_failure_the_partition_goes_on_with_the_next_transaction() -> None:
    one = bench()
    one.add("a")
    (a,) = one.core.take(LEADER, CONNECTION)
    one.core.refused(a, OutOfOrderSequence("a gap"))
    one.core.abandon(ABORTED)
    one.core.go_on_as(NEXT)
    one.add("b")
    assert one.take() == ["b"]


@pytest.mark.parametrize("without", [{"acks": 1}, {"enable_idempotence": False}])
def test_transactions_need_idempotence(without: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="transactional_id"):
        load(ProducerSettings, transactional_id="payments", **without)
