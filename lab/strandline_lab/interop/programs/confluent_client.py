"""confluent-kafka: topics, records, a group, and administration."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka
import confluent_kafka.admin
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from strandline_lab.interop.programs.claims import COPIED, claim, halves, read_back, same, version
from strandline_lab.interop.programs.security import of_librdkafka

SECONDS: Final = 30.0
ADMIN: Final[Any] = confluent_kafka.admin
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class Client:
    """Works on topics of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.common = {"bootstrap.servers": bootstrap, **of_librdkafka()}
        self.admin = ADMIN.AdminClient(self.common)
        self.mark = f"{time.time_ns()}"
        self.topic = f"confluent-{self.mark}"
        self.group = f"confluent-{self.mark}"

    def create(self) -> None:
        wait(self.admin.create_topics([ADMIN.NewTopic(self.topic, 3, 3)]))
        (topic,) = [each for name, each in self.admin.list_topics().topics.items() if name == self.topic]
        same([len(each.replicas) for each in topic.partitions.values()], [3, 3, 3])

    def produce(self) -> None:
        for codec in CODECS:
            failed: list[Any] = []

            def report(error: Any, _message: object, failed: list[Any] = failed) -> None:
                failed += [error] if error else []

            producer = Producer({**self.common, "compression.type": codec, "enable.idempotence": True})
            for number in range(100):
                producer.produce(
                    self.topic, f"{codec}-{number}" * 20, key=str(number), headers={"codec": codec},
                    on_delivery=report,
                )  # fmt: skip
            same(producer.flush(SECONDS), 0)
            same(failed, [])

    def consume(self) -> None:
        consumer = self._consumer()
        consumer.subscribe([self.topic])
        read = self._read(consumer, 300)
        consumer.commit(asynchronous=False)
        consumer.close()
        again = self._consumer()
        again.subscribe([self.topic])
        read += self._read(again, 200)
        again.commit(asynchronous=False)
        again.close()
        same(len({message.value() for message in read}), 500)
        same(len(read), 500)

    def rebalance(self) -> None:
        """Two members with `cooperative-sticky` share the partitions."""
        members = [self._consumer("cooperative-sticky", f"{self.group}-two") for _ in range(2)]
        for member in members:
            member.subscribe([self.topic])
        deadline = time.monotonic() + SECONDS
        while sorted(len(member.assignment()) for member in members) != [1, 2]:
            for member in members:
                member.poll(0.2)
            if time.monotonic() > deadline:
                raise AssertionError(f"assigned {[member.assignment() for member in members]}")
        for member in members:
            member.close()

    def offsets(self) -> None:
        partitions = {TopicPartition(self.topic, 0): ADMIN.OffsetSpec.latest()}
        (latest,) = wait(self.admin.list_offsets(partitions))
        consumer = self._consumer()
        low, high = consumer.get_watermark_offsets(TopicPartition(self.topic, 0))
        same((low, high), (0, latest.offset))
        (found,) = consumer.offsets_for_times([TopicPartition(self.topic, 0, 1)])
        same(found.offset, 0)
        consumer.close()

    def groups(self) -> None:
        listed = {each.group_id for each in self.admin.list_consumer_groups().result().valid}
        same(self.group in listed, True)
        (described,) = wait(self.admin.describe_consumer_groups([self.group]))
        same(described.state.name, "EMPTY")
        (committed,) = wait(
            self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])
        )
        same(sum(each.offset for each in committed.topic_partitions), 500)
        wait(self.admin.delete_consumer_groups([self.group]))

    def configs(self) -> None:
        entry = ADMIN.ConfigEntry(
            "retention.ms", "3600000", incremental_operation=ADMIN.AlterConfigOpType.SET
        )
        wait(
            self.admin.incremental_alter_configs(
                [ADMIN.ConfigResource(ADMIN.ResourceType.TOPIC, self.topic, incremental_configs=[entry])]
            )
        )
        deadline = time.monotonic() + SECONDS
        value = ""
        while value != "3600000":
            (found,) = wait(
                self.admin.describe_configs([ADMIN.ConfigResource(ADMIN.ResourceType.TOPIC, self.topic)])
            )
            value = found["retention.ms"].value
            if time.monotonic() > deadline:
                raise AssertionError(value)
        (broker,) = wait(self.admin.describe_configs([ADMIN.ConfigResource(ADMIN.ResourceType.BROKER, "1")]))
        same(broker["num.partitions"].value, "1")

    def partitions(self) -> None:
        wait(self.admin.create_partitions([ADMIN.NewPartitions(self.topic, 5)]))

    def delete_records(self) -> None:
        (found,) = wait(self.admin.delete_records([TopicPartition(self.topic, 0, 10)]))
        same(found.low_watermark, 10)

    def delete(self) -> None:
        wait(self.admin.delete_topics([self.topic]))
        same(self.topic in self.admin.list_topics().topics, False)

    def transactions(self) -> None:
        """Commits, aborts and commits again. librdkafka's consumers read what is committed."""
        topic = f"{self.topic}-transactions"
        wait(self.admin.create_topics([ADMIN.NewTopic(topic, 3, 3)]))
        producer = Producer({**self.common, "transactional.id": topic})
        producer.init_transactions(SECONDS)
        for value in ("first", "aborted", "last"):
            producer.begin_transaction()
            for partition in range(3):
                producer.produce(topic, value, partition=partition)
            same(producer.flush(SECONDS), 0)
            end = producer.abort_transaction if value == "aborted" else producer.commit_transaction
            end(SECONDS)
        consumer = self._consumer(group=topic)
        consumer.subscribe([topic])
        read: dict[int, list[bytes]] = {}
        for message in self._read(consumer, 6):
            read.setdefault(message.partition(), []).append(message.value())
        consumer.close()
        same(read, {partition: [b"first", b"last"] for partition in range(3)})

    def copy(self) -> None:
        """Writes and reads over the death of a leader. The runner compares what is read."""
        topic = f"{self.topic}-copied"
        wait(self.admin.create_topics([ADMIN.NewTopic(topic, 3, 3)]))
        producer = Producer({**self.common, "enable.idempotence": True})
        consumer = self._consumer(group=topic)
        consumer.subscribe([topic])
        for numbers in halves(topic):
            for number in numbers:
                producer.produce(
                    topic, f"value-{number}", f"key-{number}", number % 3, headers={"number": str(number)}
                )
            same(producer.flush(SECONDS), 0)
            for message in self._read(consumer, len(numbers)):
                read_back(message.partition(), message.key(), message.headers()[0], message.value())
            consumer.commit(asynchronous=False)
        consumer.close()

    def _consumer(self, strategy: str = "range,roundrobin", group: str = "") -> Any:
        return Consumer(
            {
                **self.common,
                "group.id": group or self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": strategy,
            }
        )

    def _read(self, consumer: Any, count: int) -> list[Any]:
        found: list[Any] = []
        deadline = time.monotonic() + SECONDS
        while len(found) < count:
            found += [each for each in consumer.consume(count - len(found), 1.0) if not each.error()]
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(found)} of {count} records")
        return found


def wait(futures: Mapping[Any, Any]) -> list[Any]:
    """The results, in order."""
    return [future.result(SECONDS) for future in futures.values()]


def main(bootstrap: str) -> None:
    version(f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})")
    client = Client(bootstrap)
    claim("topics are created and described", client.create)
    claim("batches of each codec are acknowledged", client.produce)
    claim("a group reads, commits, and goes on where it was", client.consume)
    claim("two members share the partitions, cooperative-sticky", client.rebalance)
    claim("offsets are listed, also by time", client.offsets)
    claim("groups are listed, described and deleted", client.groups)
    claim("configs are changed and described", client.configs)
    claim("partitions are added", client.partitions)
    claim("records are deleted", client.delete_records)
    claim("topics are deleted", client.delete)
    claim("what is committed is read, and what is aborted is not", client.transactions)
    claim(COPIED, client.copy)


if __name__ == "__main__":
    main(sys.argv[1])
