"""librdkafka's part of the measurement `control_plane_versus`, by confluent-kafka, in a process of its own.

`python -m strandline_lab.bench.kafka.control_client BOOTSTRAP WORK NAME [OPTION=NUMBER…]` prints a line of
JSON. NAME is a topic's, or the beginning of topics' names.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

REPLICAS: Final = 3
CALL_S_MAX: Final = 120.0
DONE_S_MAX: Final = 300.0
LOOK_S: Final = 0.02
POLL_S: Final = 0.1
RECORD_BYTES: Final = 100
Options = Mapping[str, int]


def create(bootstrap: str, name: str, options: Options) -> dict[str, float]:
    """Creates `topics` topics of `partitions` partitions, `at_once` by a request, numbered from `first` on.

    `answered_s`: until the last answer; `led_s`: until every partition has a leader.
    """
    admin = _admin(bootstrap)
    names = _names(name, options)
    settings = {"min.insync.replicas": "2"}
    began = time.perf_counter()
    for lot in _lots(names, options):
        topics = [NewTopic(each, options["partitions"], REPLICAS, config=settings) for each in lot]
        _all_done(admin.create_topics(topics, operation_timeout=CALL_S_MAX, request_timeout=CALL_S_MAX))
    answered_s = time.perf_counter() - began
    _until(admin, lambda: _led(admin, names, options["partitions"]))
    return {"answered_s": answered_s, "led_s": time.perf_counter() - began}


def delete(bootstrap: str, name: str, options: Options) -> dict[str, float]:
    """Deletes such topics. `answered_s`: until the last answer; `gone_s`: until they are not listed."""
    admin = _admin(bootstrap)
    names = _names(name, options)
    began = time.perf_counter()
    for lot in _lots(names, options):
        _all_done(admin.delete_topics(lot, operation_timeout=CALL_S_MAX, request_timeout=CALL_S_MAX))
    answered_s = time.perf_counter() - began
    _until(admin, lambda: not set(names) & admin.list_topics(timeout=CALL_S_MAX).topics.keys())
    return {"answered_s": answered_s, "gone_s": time.perf_counter() - began}


def fill(bootstrap: str, name: str, options: Options) -> dict[str, float]:
    """Produces `records` small records, which all are acknowledged. Raises RuntimeError otherwise."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20})
    value = bytes(RECORD_BYTES)
    for _ in range(options["records"]):
        while True:
            try:
                producer.produce(name, value)
                break
            except BufferError:  # librdkafka's queue is full
                producer.poll(POLL_S)
    left = producer.flush(CALL_S_MAX)
    if left:
        raise RuntimeError(f"{left} records were not acknowledged")
    return {"records": options["records"]}


def leader(bootstrap: str, name: str, _options: Options) -> dict[str, float]:
    """The broker that leads partition 0 of a topic."""
    found = _admin(bootstrap).list_topics(name, timeout=CALL_S_MAX)
    return {"leader": found.topics[name].partitions[0].leader}


def whole(bootstrap: str, _name: str, options: Options) -> dict[str, float]:
    """Waits until there are `brokers` brokers, and each replica of every partition is in sync."""
    admin = _admin(bootstrap)

    def is_whole() -> bool:
        found = admin.list_topics(timeout=CALL_S_MAX)
        return len(found.brokers) == options["brokers"] and all(
            each.leader >= 0 and len(each.isrs) == len(each.replicas)
            for topic in found.topics.values()
            for each in topic.partitions.values()
        )

    began = time.perf_counter()
    _until(admin, is_whole)
    return {"waited_s": time.perf_counter() - began}


def members(bootstrap: str, name: str, options: Options) -> dict[str, float]:
    """Runs `members` consumers of a topic in a group of its name, until standard input ends. Prints when the
    partitions of one changed, by the monotonic clock, and how many it has then."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=_member, args=(bootstrap, name, options["first"] + number, stop))
        for number in range(options["members"])
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    return {"members": len(threads)}


def _member(bootstrap: str, topic: str, number: int, stop: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-{topic}",
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
        }
    )
    held = 0

    def changed(by: int) -> None:
        nonlocal held
        held += by
        line = json.dumps({"at": time.monotonic(), "member": number, "held": held})
        sys.stdout.write(line + "\n")  # one call: threads share the output
        sys.stdout.flush()

    def assigned(client: Any, partitions: list[Any]) -> None:
        client.incremental_assign(partitions)
        changed(len(partitions))

    def revoked(client: Any, partitions: list[Any]) -> None:
        client.incremental_unassign(partitions)
        changed(-len(partitions))

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not stop.is_set():
        consumer.poll(POLL_S)
    consumer.close()


def _admin(bootstrap: str) -> Any:
    return AdminClient({"bootstrap.servers": bootstrap})


def _names(name: str, options: Options) -> list[str]:
    first = options.get("first", 0)
    return [f"{name}-{number}" for number in range(first, first + options["topics"])]


def _lots(names: list[str], options: Options) -> list[list[str]]:
    at_once = options.get("at_once", len(names))
    return [names[first : first + at_once] for first in range(0, len(names), at_once)]


def _all_done(futures: Mapping[str, Any]) -> None:
    """Waits for the answers. Raises KafkaException for a refusal; one that took too long is none: what became
    of the request shows later."""
    for future in futures.values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.REQUEST_TIMED_OUT:
                raise


def _led(admin: Any, names: list[str], partitions: int) -> bool:
    topics = admin.list_topics(timeout=CALL_S_MAX).topics
    return all(
        name in topics
        and len(topics[name].partitions) == partitions
        and all(each.leader >= 0 for each in topics[name].partitions.values())
        for name in names
    )


def _until(admin: Any, done: Callable[[], bool]) -> None:
    """Returns once it is true. Raises RuntimeError if that takes too long."""
    deadline = time.monotonic() + DONE_S_MAX
    while True:
        try:
            if done():
                return
        except KafkaException:  # the broker that was asked has ended
            pass
        if time.monotonic() > deadline:
            raise RuntimeError(f"not done after {DONE_S_MAX:.0f} s")
        admin.poll(LOOK_S)


WORK: Final = {work.__name__: work for work in (create, delete, fill, leader, whole, members)}


def main(bootstrap: str, work: str, name: str, *options: str) -> None:
    """Does the work and prints its figures."""
    given = {key: int(value) for key, value in (option.split("=") for option in options)}
    print(json.dumps(WORK[work](bootstrap, name, given)))


if __name__ == "__main__":
    main(*sys.argv[1:])
