"""A consumer in a group as a process of its own, to be killed or paused: prints a JSON line for all it does.

Arguments: the bootstrap addresses, the topic, and the settings as JSON. It ends in order on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from typing import Any

from strandline import Consumer, RebalanceListener, TopicPartition

POLL_MS = 100


def emit(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


class Telling(RebalanceListener):
    def on_assigned(self, added: set[TopicPartition]) -> None:
        emit("assigned", partitions=sorted(name.partition for name in added))

    def on_revoked(self, removed: set[TopicPartition]) -> None:
        emit("revoked", partitions=sorted(name.partition for name in removed))

    def on_lost(self, lost: set[TopicPartition]) -> None:
        emit("lost", partitions=sorted(name.partition for name in lost))


async def main(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Consumer(bootstrap, **settings) as consumer:
        consumer.subscribe([topic], listener=Telling())
        while not stop.is_set():
            for name, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                generation = consumer.group_metadata().generation
                offsets = [record.offset for record in records]
                emit("records", partition=name.partition, offsets=offsets, generation=generation)
    emit("closed")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
