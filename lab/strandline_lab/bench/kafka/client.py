"""librdkafka's part of the measurement `kafka`, by confluent-kafka, in a process of its own.

`python -m strandline_lab.bench.kafka.client BOOTSTRAP WORK TOPIC [OPTION=NUMBER…]` prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from select import select
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS: Final = 3
BATCH: Final = 10_000
"""Records that one call hands to librdkafka, or takes from it."""
END_S_MAX: Final = 120.0
WAIT_S: Final = 0.001
Options = Mapping[str, int]


def produce(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Produces in bulk, acks=all; librdkafka makes the batches.

    Raises RuntimeError if a record is missing.
    """
    records, size = options["records"], options["size"]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 20,
            "batch.num.messages": BATCH,
            "queue.buffering.max.messages": 2 * records,
            "queue.buffering.max.kbytes": 2**21 - 1,
        }
    )
    value = bytes(size)
    before = stored(bootstrap, topic)
    messages = [{"value": value} for _ in range(min(BATCH, records))]
    producer.list_topics(topic)
    began = time.perf_counter()
    for sent in range(0, records, len(messages)):
        part = messages[: records - sent]
        while (taken := producer.produce_batch(topic, part)) < len(part):
            part = part[taken:]
            producer.poll(WAIT_S)
    if producer.flush(END_S_MAX):
        raise RuntimeError("not all records were acknowledged")
    seconds = time.perf_counter() - began
    if stored(bootstrap, topic) - before != records:
        raise RuntimeError("records are missing")
    return {"records_per_s": records / seconds, "mb_per_s": records * size / seconds / 1e6}


def produce_small(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Produces batches of one record, with `in_flight` of them unanswered."""
    records, size, in_flight = options["records"], options["size"], options["in_flight"]
    partitions = options.get("partitions", PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "batch.num.messages": 1}
    )
    value = bytes(size)
    producer.list_topics(topic)
    acknowledged = 0

    def count(error: Any, _message: object) -> None:
        nonlocal acknowledged
        if error is not None:
            raise RuntimeError(str(error))
        acknowledged += 1

    began = time.perf_counter()
    for number in range(records):
        while number - acknowledged >= in_flight:
            producer.poll(1)
        producer.produce(topic, value, partition=number % partitions, on_delivery=count)
        producer.poll(0)
    producer.flush(END_S_MAX)
    seconds = time.perf_counter() - began
    return {"records_per_s": acknowledged / seconds, "mb_per_s": acknowledged * size / seconds / 1e6}


def latency(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Times one record in flight until librdkafka reports its acknowledgement."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    done: list[Any] = []
    times = []
    for number in range(options["records"] + 100):
        began = time.perf_counter()
        producer.produce(topic, bytes(100), partition=0, on_delivery=lambda error, _: done.append(error))
        while len(done) <= number:
            producer.poll(1)
        times.append((time.perf_counter() - began) * 1_000)
    if any(done):
        raise RuntimeError(str(next(error for error in done if error)))
    times = sorted(times[100:])  # the first ones connect
    return {"p50_ms": times[len(times) // 2], "p99_ms": times[len(times) * 99 // 100]}


def consume(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Reads `records` from the start, in lists."""
    consumer = _consumer(bootstrap)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    read = size = 0
    began = time.perf_counter()
    while read < options["records"]:
        messages = consumer.consume(BATCH, 5.0)
        if not messages:
            raise RuntimeError(f"only {read} records were read")
        read += len(messages)
        size += sum(len(message) for message in messages)
    seconds = time.perf_counter() - began
    consumer.close()
    return {"records_per_s": read / seconds, "mb_per_s": size / seconds / 1e6}


def idle(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Keeps consumers that wait at the end of partition 0, until standard input ends."""
    consumers = [_consumer(bootstrap) for _ in range(options["consumers"])]
    for consumer in consumers:
        consumer.assign([TopicPartition(topic, 0, 0)])
    for consumer in consumers:
        message = consumer.poll(END_S_MAX)
        if message is None or message.error():
            raise RuntimeError("a consumer did not read the record that is there")
    print("ready", flush=True)
    sys.stdin.read()
    for consumer in consumers:
        consumer.close()
    return {"consumers": len(consumers)}


def feed(bootstrap: str, topic: str, _options: Options) -> dict[str, float]:
    """Produces a record every millisecond until standard input ends. Prints when each was sent and
    acknowledged, by the monotonic clock."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
    )
    errors: list[Any] = []

    def acknowledged(sent_at: float) -> Callable[[Any, object], None]:
        def report(error: Any, _message: object) -> None:
            if error is None:
                print(f"{sent_at} {time.monotonic()}", flush=True)
            else:
                errors.append(error)

        return report

    while not select([sys.stdin], [], [], 0)[0]:
        producer.produce(topic, bytes(100), partition=0, on_delivery=acknowledged(time.monotonic()))
        producer.poll(WAIT_S)
    producer.flush(END_S_MAX)
    if errors:
        raise RuntimeError(f"{len(errors)} records failed: {errors[0]}")
    return {"failed": 0}


def stored(bootstrap: str, topic: str) -> int:
    """The sum of the end offsets."""
    consumer = _consumer(bootstrap)
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number))[1] for number in range(PARTITIONS)]
    consumer.close()
    return sum(ends)


def _consumer(bootstrap: str) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )


WORK: Final = {work.__name__: work for work in (produce, produce_small, latency, consume, idle, feed)}


def main(bootstrap: str, work: str, topic: str, *options: str) -> None:
    """Does the work and prints its figures."""
    given = {name: int(number) for name, number in (option.split("=") for option in options)}
    print(json.dumps(WORK[work](bootstrap, topic, given)))


if __name__ == "__main__":
    main(*sys.argv[1:])
