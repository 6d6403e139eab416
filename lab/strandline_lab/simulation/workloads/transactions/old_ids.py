"""Transactional ids that have been used nearly as often as an epoch counts.

Their records are what a coordinator writes: the state after thousands of producers. They come into the log as
those of coordinators do, and brokers that start read them there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from strandline.broker.coordinators.placement import partition_of
from strandline.broker.core.replication.produce_ticket import ProduceOutcome
from strandline.broker.core.transactions.records import encode_key, encode_value
from strandline.broker.core.transactions.transaction import Transaction
from strandline.broker.replicas.leadership import Leadership
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import ACKS_ALL, TRANSACTIONS_TOPIC, TopicPartition
from strandline.records import pack
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import TransactionState
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.transactions.history import Initialized

TIMEOUT_MS: Final = 10_000
AGAIN_S: Final = 0.1


async def age(
    stage: Stage, host: Host, taken: Sequence[Initialized], epoch: int, timeout_ms: int, partitions: int
) -> None:
    """Have these ids, which were taken for the first time, stand at an epoch. `partitions`: of
    `__transaction_state`. All brokers are killed and started."""
    for each in taken:
        name = TopicPartition(TRANSACTIONS_TOPIC, partition_of(each.owner, partitions))
        producer = ProducerIdentity(each.producer.producer_id, epoch)
        old = Transaction(each.owner, producer, timeout_ms, TransactionState.EMPTY, updated_ms=0)
        while not await _written(stage, name, old):
            await host.clock.sleep(AGAIN_S)
    for process in stage.cluster.brokers:
        process.kill()
    for number in range(len(stage.cluster.brokers)):
        stage.cluster.start_broker(number)


async def _written(stage: Stage, name: TopicPartition, transaction: Transaction) -> bool:
    """False if no broker leads the partition now."""
    for number, process in enumerate(stage.cluster.brokers):
        broker = stage.cluster.running.get(number)
        replica = None if broker is None or broker.manager is None else broker.manager.find(name)
        if replica is not None and replica.leadership is not None:
            written: asyncio.Future[ProduceOutcome] = asyncio.get_running_loop().create_future()
            packed = pack([(encode_key(transaction.transactional_id), encode_value(transaction), (), 0)])

            await process.run(_write(replica.leadership, packed.seal(), written.set_result))
            return not isinstance(await written, StrandlineError)
    return False


async def _write(leadership: Leadership, batch: bytes, done: Callable[[ProduceOutcome], None]) -> None:
    leadership.produce(batch, acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, done=done)
