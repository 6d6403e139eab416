"""Kafka Streams' exactly once: two instances count words while one of them and a broker are killed."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final
from uuid import uuid4

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strandline_lab.interop.outcome import Outcome, Place, Report, Status, Suite
from strandline_lab.interop.suites.java import HOW, NEWEST, java

WORDS: Final = tuple(f"word-{number}" for number in range(40))
LINES, WORDS_A_LINE = 9_000, 4
PARTITIONS: Final = 4
STEP: Final = 300
PAUSE_S: Final = 0.2
"""After each STEP lines, so that instances and brokers die while there is work."""
START_S_MAX: Final = 60.0
COUNT_S_MAX: Final = 240.0
STOP_S_MAX: Final = 10.0
RUNNING: Final = b"state RUNNING"


class Instances:
    """Processes of the application; `kill` ends one as a crash does."""

    def __init__(self, command: Sequence[str | Path], place: Place, name: str, topics: Sequence[str]) -> None:
        self._command = [str(word) for word in command]
        self._place = place
        self._arguments = [name, *topics]
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._started = 0
        self._stack = ExitStack()

    def __enter__(self) -> Instances:
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self._running):
            self.kill(number)
        self._stack.close()

    def start(self, number: int) -> None:
        """An instance of the same number has the same folder."""
        self._started += 1
        home = self._place.output / "streams"
        home.mkdir(parents=True, exist_ok=True)
        words = [
            *self._command, *self._arguments, str(home / f"{self._arguments[0]}-{number}"), self._place.kafka
        ]  # fmt: skip
        log = self._stack.enter_context((home / f"{self._started}.log").open("wb"))
        self._running[number] = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )

    def wait_running(self, *numbers: int) -> None:
        """Returns once these instances run. Raises RuntimeError if one does not."""
        for number in numbers:
            process = self._running[number]
            assert process.stdout is not None
            late = threading.Timer(START_S_MAX, process.kill)
            late.start()
            try:
                if not any(line.strip() == RUNNING for line in process.stdout):
                    raise RuntimeError(f"instance {number} did not start")
            finally:
                late.cancel()

    def kill(self, number: int) -> None:
        process = self._running.pop(number)
        process.kill()
        process.wait(STOP_S_MAX)


def run_suite(place: Place) -> Report | None:
    """Runs it, or returns None without Java."""
    command = java("WordCount", library="kafka-streams")(place)
    if command is None or place.kill_leader is None:
        return None
    name = f"words-{uuid4().hex[:8]}"
    lines, counts = f"{name}-lines", f"{name}-counts"
    admin = AdminClient({"bootstrap.servers": place.kafka})
    for made in admin.create_topics([NewTopic(each, PARTITIONS, 3) for each in (lines, counts)]).values():
        made.result(START_S_MAX)
    random = Random(1)
    text = [" ".join(random.choices(WORDS, k=WORDS_A_LINE)) for _ in range(LINES)]
    with Instances(command, place, name, (lines, counts)) as instances:
        for number in (1, 2):
            instances.start(number)
        instances.wait_running(1, 2)
        producer = Producer({"bootstrap.servers": place.kafka, "enable.idempotence": True})
        for at in range(0, LINES, STEP):
            for number, line in enumerate(text[at : at + STEP]):
                producer.produce(lines, line, partition=number % PARTITIONS)
            producer.flush(START_S_MAX)
            if at == LINES // 3:
                instances.kill(1)
                instances.start(1)
            if at == 2 * LINES // 3:
                place.kill_leader(lines)
            producer.poll(PAUSE_S)
        written = Counter(word for line in text for word in line.split())
        return Report("Kafka Streams", NEWEST, judged(written, _counts(place.kafka, counts, written)))


def judged(written: Counter[str], seen: dict[str, list[int]]) -> list[Outcome]:
    """Whether the last count of each word is the number of times that it was written, and whether each count
    from 1 on was there once, in order."""
    wrong = [f"{word}: {seen.get(word, [0])[-1]}, not {count}" for word, count in written.items()
             if seen.get(word, [0])[-1] != count]  # fmt: skip
    uneven = [word for word, counts in seen.items() if counts != list(range(1, len(counts) + 1))]
    return [
        _outcome("exactly_once_v2: the counts are those of the input", wrong),
        _outcome("exactly_once_v2: each count is written once, and in order", uneven),
    ]


def _outcome(name: str, faults: Sequence[str]) -> Outcome:
    if not faults:
        return Outcome(name, Status.PASSED)
    return Outcome(name, Status.FAILED, f"{len(faults)} words: {faults[0]}")


def _counts(bootstrap: str, topic: str, wanted: Counter[str]) -> dict[str, list[int]]:
    """All counts of each word that are committed, in their order, once as many are there as words were
    written, or after COUNT_S_MAX."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    })  # fmt: skip
    consumer.subscribe([topic])
    found: dict[str, list[int]] = {}
    deadline = time.monotonic() + COUNT_S_MAX
    last = float("inf")
    while time.monotonic() < min(deadline, last):
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        key, value = message.key(), message.value()
        assert isinstance(key, bytes) and isinstance(value, bytes)
        found.setdefault(key.decode(), []).append(int(value))
        if sum(map(len, found.values())) == wanted.total():
            last = time.monotonic() + STOP_S_MAX  # what comes too often comes now
    consumer.close()
    return found


SUITE: Final = Suite("Kafka Streams", HOW, run_suite)
