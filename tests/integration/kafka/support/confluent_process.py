"""A consumer of confluent-kafka in a group as a process of its own, to be killed: it prints what
`tests.integration.groups.support.group_process` prints.

Arguments: the bootstrap addresses, the topic, and as JSON its `group_id` and `assignor`; other settings are
for strandline's consumer. It ends in order on SIGTERM.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.integration.groups.support.group_process import emit
from tests.integration.kafka.support.confluent_member import POLL_S, SETTINGS

AUTO_COMMIT = {"enable.auto.commit": True, "auto.commit.interval.ms": 200}


def main(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    consumer = Consumer(
        {
            **SETTINGS,
            **AUTO_COMMIT,
            "bootstrap.servers": bootstrap,
            "group.id": settings["group_id"],
            "partition.assignment.strategy": settings["assignor"],
        }
    )

    def hear(event: str, partitions: list[TopicPartition]) -> None:
        emit(event, partitions=sorted(each.partition for each in partitions))

    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: hear("assigned", partitions),
        on_revoke=lambda _, partitions: hear("revoked", partitions),
        on_lost=lambda _, partitions: hear("lost", partitions),
    )
    while not stopped:
        message = consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            emit("records", partition=message.partition(), offsets=[message.offset()], generation=-1)
    consumer.close()
    emit("closed")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
