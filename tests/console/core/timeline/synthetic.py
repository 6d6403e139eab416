"""State changes of a busy cluster, as many as are wanted: the same with every run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple

from strandline.ids import TopicId

SEED: Final = 0
BROKERS: Final = 5
STEP_MS: Final = 20


Facts = dict[str, Any]


class Written(NamedTuple):
    """One record of the topic."""

    key: bytes
    value: bytes
    at_ms: int


def state_changes(topics: int, partitions: int, from_ms: int) -> Iterator[Written]:
    """Requests with their three steps, elections and changes of ISRs, without an end, STEP_MS apart."""
    random, epoch, number = Random(SEED), 0, 0
    topic_id = TopicId("ab" * 16)

    def written(topic: int, partition: int, **facts: Any) -> Written:
        nonlocal number
        at_ms = from_ms + number * STEP_MS
        number += 1
        name = f"topic-{topic}"
        place = {"topic": name, "topic_id": topic_id, "partition": partition, "epoch": epoch}
        fields = {"version": 1, **place, "state": "completed", "at": at_ms, **facts}
        value = json.dumps(fields, separators=(",", ":")).encode()
        return Written(f"{name}-{partition}".encode(), value, at_ms)

    while True:
        topic, partition = random.randrange(topics), random.randrange(partitions)
        one, two, three = random.sample(range(1, BROKERS + 1), 3)
        match random.choice(("request", "election", "isr")):
            case "request":
                life: Facts = {
                    "id": f"{random.getrandbits(128):032x}",
                    "command": "start-replica",
                    "broker": one,
                }
                for state in ("requested", "received", "completed"):
                    yield written(
                        topic, partition, **life, state=state, requester=two, reason="the leader has changed"
                    )
            case "election":
                epoch += 1
                name = f"elect-{topic_id}-{partition}-{epoch}"
                facts: Facts = {"command": "elect-leader", "broker": one, "isr": [one, two]}
                yield written(topic, partition, id=name, reason=f"broker {two} is gone", **facts)
            case _:
                facts = {"command": "change-isr", "broker": one, "isr": [one, two, three], "joined": [three]}
                yield written(topic, partition, id=f"isr-{number}", reason="it has caught up", **facts)
