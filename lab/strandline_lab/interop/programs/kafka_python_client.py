"""kafka-python: topics, records, and a group."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from strandline_lab.interop.programs.claims import COPIED, claim, halves, read_back, same, version
from strandline_lab.interop.programs.security import of_kafka_python

CODECS: Final = (None, "gzip")
"""Others need more packages."""
RECORDS: Final = 100
SECONDS: Final = 30.0


class Client:
    """Works on topics of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.common: dict[str, Any] = {"bootstrap_servers": bootstrap.split(","), **of_kafka_python()}
        self.topic = f"kafka-python-{time.time_ns()}"

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
            with self._consumer(self.topic) as consumer:
                read += poll(consumer, wanted - len(read))
        same(len({record.value for record in read}), expected)

    def _consumer(self, topic: str) -> KafkaConsumer:
        return KafkaConsumer(
            topic, **self.common, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
        )

    def offsets(self) -> None:
        partitions = [TopicPartition(self.topic, number) for number in range(3)]
        with KafkaConsumer(**self.common) as consumer:
            same(set(consumer.beginning_offsets(partitions).values()), {0})
            same(sum(consumer.end_offsets(partitions).values()), len(CODECS) * RECORDS)

    def delete(self) -> None:
        with KafkaAdminClient(**self.common) as admin:
            admin.delete_topics([self.topic])

    def copy(self) -> None:
        """Writes and reads over the death of a leader. The runner compares what is read."""
        topic = f"{self.topic}-copied"
        with KafkaAdminClient(**self.common) as admin:
            admin.create_topics({topic: {"num_partitions": 3, "replication_factor": 3}})
        with KafkaProducer(**self.common) as producer, self._consumer(topic) as consumer:
            for numbers in halves(topic):
                for number in numbers:
                    producer.send(
                        topic, f"value-{number}".encode(), f"key-{number}".encode(),
                        [("number", f"{number}".encode())], number % 3,
                    )  # fmt: skip
                producer.flush(SECONDS)
                for record in poll(consumer, len(numbers)):
                    read_back(record.partition, record.key, record.headers[0], record.value)


def poll(consumer: KafkaConsumer, wanted: int) -> list[Any]:
    """As many records as are wanted, and commits them."""
    found: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < wanted:
        for records in consumer.poll(1000, max_records=wanted - len(found)).values():
            found += records
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(found)} of {wanted} records")
    consumer.commit()
    return found


def main(bootstrap: str) -> None:
    version(kafka.__version__)
    client = Client(bootstrap)
    claim("topics are created", client.create)
    claim("batches are acknowledged", client.produce)
    claim("a group reads, commits, and goes on where it was", client.consume)
    claim("offsets are listed", client.offsets)
    claim("topics are deleted", client.delete)
    claim(COPIED, client.copy)


if __name__ == "__main__":
    main(sys.argv[1])
