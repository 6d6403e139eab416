"""The rights to append the first batches of transactions, which leaders ask coordinators for (KIP-890)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.transactions.admission import TransactionAdmission
from strandline.ids import TopicPartition
from strandline.records.header import HEADER_BYTES, BatchHeader, Bytes, in_transaction
from strandline.tasks import pipelined
from strandline.vocabulary.log import ProducerIdentity, Rights, Transactional

_Asked = tuple[ProducerIdentity, Mapping[TopicPartition, int | None]]
"""A producer, and the guards of its partitions."""
PRODUCERS_IN_FLIGHT_MAX: Final = 8
"""Producers of one request for which coordinators are asked at the same time: a client has one."""


class TransactionRights:
    """For all requests of producers at one broker."""

    def __init__(self, manager: ReplicaManager, admission: TransactionAdmission) -> None:
        self._manager = manager
        self._admission = admission

    def wanted(self, name: TopicPartition, batch: Bytes) -> bool:
        """Whether the batch would begin its producer's transaction in this partition, which is led here."""
        if len(batch) < HEADER_BYTES or not in_transaction(batch):
            return False
        replica = self._manager.find(name)
        if replica is None or replica.leadership is None:
            return False  # refused when it is appended
        header = BatchHeader.parse(batch)
        known = replica.log.producers.transactions.of(header.producer_id)
        return known is None or known.epoch < header.producer_epoch

    async def of(
        self, transactional_id: str, batches: Mapping[TopicPartition, Bytes], *, add: bool
    ) -> Rights:
        """The rights for these batches, which are wanted. `add`: see `TransactionAdmission.admit`."""
        asked: dict[ProducerIdentity, dict[TopicPartition, int | None]] = {}
        for name, batch in batches.items():
            header = BatchHeader.parse(batch)
            producer = ProducerIdentity(header.producer_id, header.producer_epoch)
            producers = self._manager.named(*name).log.producers
            asked.setdefault(producer, {})[name] = None if add else producers.guard(producer.producer_id)
        ask = partial(self._of_producer, transactional_id, add=add)
        found = await pipelined(ask, asked.items(), in_flight_max=PRODUCERS_IN_FLIGHT_MAX)
        return {name: right for rights in found for name, right in rights.items()}

    async def _of_producer(self, transactional_id: str, asked: _Asked, *, add: bool) -> Rights:
        producer, guards = asked
        answers = await self._admission.admit(transactional_id, producer, tuple(guards), add=add)
        return {name: answers[name] or Transactional(producer, guard) for name, guard in guards.items()}
