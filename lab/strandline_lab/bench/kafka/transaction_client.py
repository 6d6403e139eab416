"""librdkafka's part of the measurement of transactions, by confluent-kafka, in a process of its own.

`python -m strandline_lab.bench.kafka.transaction_client BOOTSTRAP WORK TOPIC [OPTION=NUMBER…]` prints a line
of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from strandline_lab.bench.kafka.client import BATCH, PARTITIONS, WAIT_S, Options

CALL_S_MAX: Final = 60.0
WARM: Final = 50
"""Transactions before those that are counted."""


def commits(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Transactions one after another, each of `records` records over all partitions. Times each commit, from
    the call to its return: it sends what is left of the records first."""
    producer = _transactional(bootstrap, topic, linger_ms=0)
    value, times = bytes(options["size"]), []
    began = 0.0
    for number in range(WARM + options["transactions"]):
        if number == WARM:
            began = time.perf_counter()
        producer.begin_transaction()
        for record in range(options["records"]):
            producer.produce(topic, value, partition=record % PARTITIONS)
        called = time.perf_counter()
        producer.commit_transaction(CALL_S_MAX)
        times.append((time.perf_counter() - called) * 1_000)
    seconds = time.perf_counter() - began
    counted = sorted(times[WARM:])
    return {
        "per_s": len(counted) / seconds,
        "p50_ms": counted[len(counted) // 2],
        "p99_ms": counted[len(counted) * 99 // 100],
    }


def bulk(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Records in bulk, a transaction each `every_ms`; without transactions if that is 0."""
    records, every_s = options["records"], options["every_ms"] / 1_000
    producer = (
        _transactional(bootstrap, topic, linger_ms=20) if every_s else Producer(_settings(bootstrap, 20))
    )
    messages: list[dict[str, Any]] = [{"value": bytes(options["size"])} for _ in range(BATCH)]
    producer.list_topics(topic)
    began = last = time.perf_counter()
    if every_s:
        producer.begin_transaction()
    sent = 0
    while sent < records:
        part = messages[: records - sent]
        taken = producer.produce_batch(topic, part)
        sent += taken
        if taken < len(part):
            producer.poll(WAIT_S)
        if every_s and time.perf_counter() - last >= every_s:
            producer.commit_transaction(CALL_S_MAX)
            producer.begin_transaction()
            last = time.perf_counter()
    if every_s:
        producer.commit_transaction(CALL_S_MAX)
    elif producer.flush(CALL_S_MAX):
        raise RuntimeError("not all records were acknowledged")
    return {"records_per_s": records / (time.perf_counter() - began)}


def read(bootstrap: str, topic: str, options: Options) -> dict[str, float]:
    """Reads `records` from the start; only what is committed if `committed` is 1.

    librdkafka asks for no more while 100,000 records wait for the caller, and looks again after a second
    unless `fetch.queue.backoff.ms` says less: that second would be most of what is measured.
    """
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 5,
        "isolation.level": "read_committed" if options["committed"] else "read_uncommitted",
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found = 0
    began = time.perf_counter()
    while found < options["records"]:
        messages = consumer.consume(BATCH, CALL_S_MAX)
        if not messages:
            raise RuntimeError(f"only {found} records were read")
        found += len(messages)
    seconds = time.perf_counter() - began
    consumer.close()
    return {"records_per_s": found / seconds}


def _settings(bootstrap: str, linger_ms: int) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": linger_ms,
        "batch.num.messages": BATCH,
    }


def _transactional(bootstrap: str, topic: str, *, linger_ms: int) -> Producer:
    producer = Producer({**_settings(bootstrap, linger_ms), "transactional.id": topic})
    producer.init_transactions(CALL_S_MAX)
    producer.list_topics(topic)
    return producer


WORK: Final = {work.__name__: work for work in (commits, bulk, read)}


def main(bootstrap: str, work: str, topic: str, *options: str) -> None:
    """Does the work and prints its figures."""
    given = {name: int(number) for name, number in (option.split("=") for option in options)}
    print(json.dumps(WORK[work](bootstrap, topic, given)))


if __name__ == "__main__":
    main(*sys.argv[1:])
