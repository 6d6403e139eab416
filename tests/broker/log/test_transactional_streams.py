"""Batches of transactions on a produce stream: coordinators are asked before the first one in a log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from strandline.adapters.rpc.request_times import RequestTimes
from strandline.broker.log.produce_stream import ProduceStream
from strandline.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    StrandlineError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from strandline.ids import TopicPartition
from strandline.records import BatchHeader, pack
from strandline.security.access import Access
from strandline.security.rights import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, Right
from strandline.vocabulary.log import (
    ProduceEntry,
    ProduceMessage,
    ProduceResult,
    ProducerIdentity,
    Rights,
    Transactional,
)
from tests.broker.kafka.support.asking import log_handlers
from tests.broker.support.access import OPEN
from tests.broker.support.quotas import UNLIMITED
from tests.broker.support.replicas import CLOCK, NAME, settings
from tests.broker.support.seat import Seat, seated
from tests.broker.transactions.test_handlers import ALICE, granted

PRODUCER = ProducerIdentity(7, 0)
ID = "payments"


def batch(sequence: int, *, transactional: bool = True) -> bytes:
    packed = pack([(None, b"v", (), CLOCK.wall_ms())])
    return packed.seal(producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=transactional)


def lead(seat: Seat) -> None:
    """The only replica that has to be in sync."""
    leadership = seat.lead_alone(5)
    leadership.core.assign(seat.replica.assignment, 1, CLOCK.monotonic())


class Coordinators:
    """Knows which transactions are open by the log, and answers with `answer`."""

    def __init__(self, seat: Seat, *answers: StrandlineError | None) -> None:
        self._seat = seat
        self._answers = list(answers)
        self.asked: list[tuple[str, list[TopicPartition]]] = []

    def wanted(self, name: TopicPartition, batch: bytes) -> bool:
        header = BatchHeader.parse(batch)
        known = self._seat.replica.log.producers.transactions.of(header.producer_id)
        return header.is_transactional and known is None

    async def of(
        self, transactional_id: str, batches: Mapping[TopicPartition, bytes], *, add: bool
    ) -> Rights:
        assert add, "own clients know of transactions v2 only"
        if batches:
            self.asked.append((transactional_id, list(batches)))
        answer = self._answers.pop(0) if batches and self._answers else None
        return {name: answer or Transactional(PRODUCER, None) for name in batches}


async def outcomes(
    seat: Seat, coordinators: Coordinators, *messages: Sequence[ProduceEntry], access: Access = OPEN
) -> list[StrandlineError | None]:
    """The errors of the entries, by their correlation ids."""
    found: list[ProduceResult] = []

    async def reply(results: Sequence[ProduceResult]) -> None:
        found.extend(results)

    async def requests() -> AsyncIterator[ProduceMessage]:
        for entries in messages:
            transactional = any(entry.transactional_id for entry in entries)
            yield ProduceMessage(len(entries), iter(entries), (), transactional=transactional)

    log, times = log_handlers(seat, access), RequestTimes(CLOCK)
    stream = ProduceStream(log, ALICE, settings(), times, CLOCK, lambda: None, UNLIMITED, coordinators)
    await stream.serve(requests(), reply)
    return [result.error for result in sorted(found)]


def entries(*sequences: int, transactional_id: str = ID) -> list[ProduceEntry]:
    return [
        ProduceEntry(NAME, batch(number), correlation_id=number, transactional_id=transactional_id)
        for number in sequences
    ]


async def test_coordinators_are_asked_once_for_a_transaction_in_a_log(tmp_path: Path) -> None:
    """However many of its batches come, in one message or in several. Order is kept."""
    async with seated(tmp_path) as seat:
        lead(seat)
        coordinators = Coordinators(seat)
        found = await outcomes(seat, coordinators, entries(0, 1), entries(2))
        assert found == [None] * 3
        assert coordinators.asked == [(ID, [NAME])]
        assert seat.replica.log.log_end_offset == 3


async def test_all_batches_of_a_partition_without_the_right_are_refused(tmp_path: Path) -> None:
    """The second one would come out of order. The client sends both again."""
    async with seated(tmp_path) as seat:
        lead(seat)
        coordinators = Coordinators(seat, ConcurrentTransactions("its last one is being ended"), None)
        refused = await outcomes(seat, coordinators, entries(0, 1))
        assert [type(error) for error in refused] == [ConcurrentTransactions] * 2
        assert await outcomes(seat, coordinators, entries(0, 1)) == [None] * 2


async def test_a_batch_in_a_transaction_needs_a_transactional_id(tmp_path: Path) -> None:
    """Also within a transaction that is open: the id is what rights are given for."""
    async with seated(tmp_path) as seat:
        lead(seat)
        coordinators = Coordinators(seat)
        found = await outcomes(seat, coordinators, entries(0), entries(1, transactional_id=""))
        assert [type(error) for error in found] == [type(None), TransactionalIdAuthorizationFailed]
        assert seat.replica.log.log_end_offset == 1


async def test_no_coordinator_hears_of_a_plain_batch(tmp_path: Path) -> None:
    """The leader refuses it within an open transaction of its producer."""
    async with seated(tmp_path) as seat:
        lead(seat)
        coordinators = Coordinators(seat)
        plain = ProduceEntry(NAME, batch(0, transactional=False), correlation_id=0, transactional_id=ID)
        assert await outcomes(seat, coordinators, [plain]) == [None]
        assert coordinators.asked == []
        within = plain._replace(records=batch(2, transactional=False), correlation_id=2)
        found = await outcomes(seat, coordinators, entries(1), [within])
        assert [type(error) for error in found] == [type(None), InvalidTransactionState]


@pytest.mark.parametrize(
    ("rights", "refusal"),
    [
        ([(WRITE_TOPIC, NAME.topic)], TransactionalIdAuthorizationFailed),
        ([(WRITE_TRANSACTIONAL_ID, ID)], TopicAuthorizationFailed),
        ([(WRITE_TOPIC, NAME.topic), (WRITE_TRANSACTIONAL_ID, ID)], None),
    ],
)
async def test_no_coordinator_hears_of_what_the_client_may_not_write(
    tmp_path: Path, rights: list[tuple[Right, str]], refusal: type[StrandlineError] | None
) -> None:
    """It would write its markers there."""
    async with seated(tmp_path) as seat:
        lead(seat)
        coordinators = Coordinators(seat)
        (found,) = await outcomes(seat, coordinators, entries(0), access=granted(*rights))
        assert type(found) is (refusal or type(None))
        assert bool(coordinators.asked) is (refusal is None)
