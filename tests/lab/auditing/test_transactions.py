"""What is committed in a log, and what that says of transactions and of those who process in them."""

from __future__ import annotations

from strandline.auditing.checks import HANGING, PROCESSED, TORN
from strandline.vocabulary.log import ProducerIdentity
from strandline_lab.auditing.transactions import (
    Batch,
    Model,
    Output,
    Read,
    Sending,
    hanging,
    processed,
    torn,
)

ONE, TWO = ProducerIdentity(1, 0), ProducerIdentity(2, 0)
LOG = ("out", 0)
INPUT = ("in", 0)


def written(offset: int, producer: ProducerIdentity, *values: bytes) -> Batch:
    records = tuple(Read(offset + at, value) for at, value in enumerate(values))
    return Batch(offset, producer, True, None, records)


def marker(offset: int, producer: ProducerIdentity, *, commits: bool) -> Batch:
    return Batch(offset, producer, True, commits, ())


def output(value: bytes, offset: int) -> Output:
    return Output("out", value, ("in", 0, offset))


def test_a_marker_ends_the_transaction_of_its_producer_alone() -> None:
    log = [
        written(0, ONE, b"a"),
        written(1, TWO, b"b"),
        Batch(2, ProducerIdentity(-1, -1), False, None, (Read(2, b"c"),)),
        marker(3, TWO, commits=True),
        written(4, TWO, b"d"),
        marker(5, ONE, commits=False),
        written(6, ONE, b"e"),
        marker(7, TWO, commits=True),
    ]
    model = Model({LOG: log})
    assert [read.value for read in model.committed[LOG]] == [b"b", b"c", b"d"]
    assert model.open == [(LOG, log[6])]
    (found,) = hanging(model.open)
    assert (found.check, found.topic, found.partition, found.offset) == (HANGING.name, *LOG, 6)


def test_a_transaction_is_torn_if_a_part_of_it_is_committed() -> None:
    sending = Sending("p", 3, outputs=[Output("out", b"%d" % number) for number in range(6)])
    everything = {(each.topic, each.value) for each in sending.outputs}
    assert list(torn([sending], everything)) == []
    assert list(torn([sending], set())) == []
    (found,) = torn([sending], {("out", b"0"), ("elsewhere", b"1")})
    assert found.check == TORN.name
    assert found.detail == ("transaction 3 of p: b'0' is committed, and b'1', b'2', b'3' and 2 more are not")


def test_each_input_below_the_offset_of_the_group_has_one_committed_output() -> None:
    sendings = [
        Sending("m", 0, "g", [output(b"a", 0)]),
        Sending("m", 1, "g", [output(b"b", 2)]),
        Sending("m", 2, "g", [output(b"c", 2)]),
    ]
    inputs = {INPUT: [0, 2]}
    once = {("out", b"a"), ("out", b"b")}
    assert list(processed(sendings, once, inputs, {("g", INPUT): 3})) == []
    (found,) = processed(sendings, {*once, ("out", b"c")}, inputs, {("g", INPUT): 3})
    assert (found.check, found.offset) == (PROCESSED.name, 2)
    assert found.detail.endswith("2 times: transaction 1 of m and transaction 2 of m")
    (found,) = processed(sendings, {("out", b"a")}, inputs, {("g", INPUT): 3})
    assert "has no committed output" in found.detail
    (found,) = processed(sendings, once, inputs, {("g", INPUT): 2})
    assert found.detail == "transaction 1 of m of group g is committed, and the offset of the group is 2"


def test_other_groups_and_records_without_an_input_are_not_compared() -> None:
    sendings = [Sending("p", 0, "", [Output("out", b"x")]), Sending("m", 0, "g", [output(b"a", 0)])]
    committed = {("out", b"x"), ("out", b"a")}
    ends = {("g", INPUT): 1, ("another", INPUT): 9}
    assert list(processed(sendings, committed, {INPUT: [0, 1]}, ends)) == []
