"""kafka-python: topics, records, and a group."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from strandline_lab.interop.programs.claims import claim, same, version
from strandline_lab.interop.programs.security import of_kafka_python

CODECS: Final = (None, "gzip")
"""Others need more packages."""
RECORDS: Final = 100
SECONDS: Final = 30.0


class Client:
    """Works on topics of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.common: dict[str, Any] = {"bootstrap_servers": bootstrap.split(","), **of_kafka_python()}
        self.topic = self.group = f"kafka-python-{time.time_ns()}"

    def create(self) -> None:
        with KafkaAdminClient(**self.common) as admin:
            admin.create_topics({self.topic: {"num_partitions": 3, "replication_factor": 3}})

    def produce(self) -> None:
        for codec in CODECS:
            with KafkaProducer(**self.common, acks="all", compression_type=codec) as producer:
                sent = [producer.send(self.topic, f"{codec}-{number}".encode()) for number in range(RECORDS)]
                for each in sent:
                    each.get(SECONDS)

    def consume(self) -> None:
        expected = len(CODECS) * RECORDS
        read: list[Any] = []
        for wanted in (expected // 2, expected):
            with KafkaConsumer(
                self.topic, **self.common, group_id=self.group, auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer:  # fmt: skip
                deadline = time.monotonic() + SECONDS
                while len(read) < wanted:
                    for records in consumer.poll(1000, max_records=wanted - len(read)).values():
                        read += records
                    if time.monotonic() > deadline:
                        raise AssertionError(f"{len(read)} of {wanted} records")
                consumer.commit()
        same(len({record.value for record in read}), expected)

    def offsets(self) -> None:
        partitions = [TopicPartition(self.topic, number) for number in range(3)]
        with KafkaConsumer(**self.common) as consumer:
            same(set(consumer.beginning_offsets(partitions).values()), {0})
            same(sum(consumer.end_offsets(partitions).values()), len(CODECS) * RECORDS)

    def delete(self) -> None:
        with KafkaAdminClient(**self.common) as admin:
            admin.delete_topics([self.topic])


def main(bootstrap: str) -> None:
    version(kafka.__version__)
    client = Client(bootstrap)
    claim("topics are created", client.create)
    claim("batches are acknowledged", client.produce)
    claim("a group reads, commits, and goes on where it was", client.consume)
    claim("offsets are listed", client.offsets)
    claim("topics are deleted", client.delete)


if __name__ == "__main__":
    main(sys.argv[1])
