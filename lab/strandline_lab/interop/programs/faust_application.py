"""Faust: an agent counts words in a table, whose changes are kept in a topic that Faust makes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time

import faust
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from strandline_lab.interop.programs.claims import claim_async, same, version

WORDS = ["sea", "tide", "sea", "moon", "tide", "sea"]


async def count(bootstrap: str) -> None:
    """The table has the counts once the agent has seen every word."""
    name = f"faust-{time.time_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        app = faust.App(
            name,
            broker=[f"kafka://{address}" for address in bootstrap.split(",")],
            store="memory://",
            datadir=folder,
            web_enabled=False,
            topic_partitions=3,
            topic_replication_factor=3,
            stream_wait_empty=False,
        )
        words = app.topic(f"{name}-words", key_type=str, value_type=str)
        counts = app.Table("counts", default=int)
        seen: list[str] = []
        done = asyncio.Event()

        @app.agent(words)  # type: ignore[untyped-decorator]
        async def agent(stream: faust.Stream[str]) -> None:
            async for word in stream:
                counts[word] += 1
                seen.append(word)
                if len(seen) == len(WORDS):
                    done.set()

        # A topic that Kafka creates on demand is without a leader while Faust's group shares its partitions.
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(f"{name}-words", 3, 3)])
        await admin.close()
        await app.start()
        try:
            for word in WORDS:
                await words.send(key=word, value=word)
            await done.wait()
            same({word: counts[word] for word in set(WORDS)}, {"sea": 3, "tide": 2, "moon": 1})
        finally:
            await app.stop()


def main(bootstrap: str) -> None:
    version(faust.__version__)
    claim_async("an agent counts in a table", lambda: count(bootstrap), seconds=120)


if __name__ == "__main__":
    main(sys.argv[1])
