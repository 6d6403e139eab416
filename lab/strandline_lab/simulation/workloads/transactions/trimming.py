"""Deletes the beginning of logs, past transactions that are open, decided and aborted (DeleteRecords).

What it deletes has been read before, with its markers: so the judge still knows the whole log.
"""

from __future__ import annotations

from random import Random
from typing import Final

from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.deleting import delete_records
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.transactions.history import History

PAUSE_S: Final = 0.5
"""Between two deletions, on average."""
WHOLE_RATE: Final = 1 / 2
"""The part of the deletions that take all that was read."""


async def trim(stage: Stage, history: History, client: KafkaClient, partitions: int, random: Random) -> None:
    """Deletes until the faults have ended. `history.deleted` says so before it asks for it."""
    while not stage.faults_ended.is_set():
        await client.host.clock.sleep(random.expovariate(1 / PAUSE_S))
        partition = random.randrange(partitions)
        log = history.log[partition]
        start, end = history.deleted.get(partition, 0), log[-1].offset if log else 0
        whole = random.random() < WHOLE_RATE or end <= start
        offset = end if whole else random.randint(start, end)
        if offset > start:
            history.deleted[partition] = offset
            await delete_records(client, partition, offset)
    client.close()
