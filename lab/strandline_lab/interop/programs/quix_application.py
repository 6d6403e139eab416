"""Quix Streams: a stream counts in a state whose changes are kept in a topic that Quix makes."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import quixstreams
from quixstreams import Application

from strandline_lab.interop.programs.claims import claim, same, version

WORDS = ["sea", "tide", "sea", "moon", "tide", "sea"]


def count(bootstrap: str) -> None:
    """The counts leave by another topic; the state survives the end of the application."""
    name = f"quix-{time.time_ns()}"
    counts: dict[str, int] = {}
    for round_number in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            app = Application(
                broker_address=bootstrap,
                consumer_group=name,
                auto_offset_reset="earliest",
                state_dir=str(Path(folder)),
            )
            words = app.topic(f"{name}-words", key_deserializer="str", value_deserializer="str")
            with app.get_producer() as producer:
                for word in WORDS:
                    producer.produce(words.name, key=word.encode(), value=word.encode())

            def counted(word: str, state: Any) -> tuple[str, int]:
                number = state.get(word, 0) + 1
                state.set(word, number)
                return word, number

            def keep(found: tuple[str, int]) -> None:
                counts[found[0]] = found[1]

            app.dataframe(words).apply(counted, stateful=True).update(keep)
            app.run(count=len(WORDS), timeout=60)
        same(counts, {"sea": 3 * round_number, "tide": 2 * round_number, "moon": round_number})


def main(bootstrap: str) -> None:
    version(quixstreams.__version__)
    claim("a stream counts in a state, which is restored", lambda: count(bootstrap))


if __name__ == "__main__":
    main(sys.argv[1])
