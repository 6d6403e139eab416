"""Deletes the beginning of logs (DeleteRecords), as Kafka's admin client does, but once."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.replicas import DeleteRecordsRequest, PartitionDeletion
from strandline.broker.kafka.wire.topics import OfTopic, each_partition
from strandline_lab.simulation.kafka.client import LOOK_AGAIN, KafkaClient
from strandline_lab.simulation.kafka.connection import Disconnected
from strandline_lab.simulation.kafka.messages import DELETE_RECORDS

TIMEOUT_MS: Final = 1_000


async def delete_records(client: KafkaClient, partition: int, offset: int) -> None:
    """Have the records below an offset deleted, all of which were read. They may stay: no answer or one that
    sends the client elsewhere only makes it look who leads. Any other refusal is wrong."""
    topic = OfTopic(client.topic, (PartitionDeletion(partition, offset),))
    try:
        connection = await client.connection(client.led(partition).broker)
        answer = await client.ask(connection, DELETE_RECORDS, DeleteRecordsRequest((topic,), TIMEOUT_MS))
    except Disconnected:
        await client.refresh()
        return
    [(_, found)] = each_partition(answer.topics)
    if found.error in LOOK_AGAIN:
        await client.refresh()
    elif found.error:
        client.wrong.append(
            f"{client.name}: a deletion below {offset} of {client.topic}-{partition} failed with error "
            f"{found.error}"
        )
