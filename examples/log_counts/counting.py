"""What is computed: all of it that has to do with stream tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from examples.log_counts.lines import component_of, user_of
from strandline.streams import INTEGER, STRING, Record, Streams, Topology

APPLICATION = "log-counts"
LINES = "log-lines"
PARTITIONS = 4

COUNTED: dict[str, Callable[[str], str]] = {"user": user_of, "component": component_of}
"""What is counted, and how it is found in a line."""


def counts_topic(name: str) -> str:
    """Where the counts of one of them come out."""
    return f"{APPLICATION}-per-{name}"


def topology() -> Topology:
    """Lines are sent on by what they are about, so that all of one user come together, and counted there."""
    topology = Topology()
    lines = topology.source(LINES, value=STRING)
    for name, find in COUNTED.items():
        counts = lines.map(keyed_by(find)).repartition(f"by-{name}", key=STRING, value=STRING).count(name)
        counts.to(counts_topic(name), key=STRING, value=INTEGER)
    return topology


def keyed_by(find: Callable[[str], str]) -> Callable[[Record[bytes, str]], Record[str, str]]:
    """Gives a line what it is about as its key."""
    return lambda line: line.with_key(find(line.value or ""))


def application(bootstrap: str, state_dir: Path) -> Streams:
    """One member. Start more of them, and they share the work; each has a state folder of its own.

    One that is killed is missed after three seconds.
    """
    return Streams(
        topology(),
        bootstrap,
        application_id=APPLICATION,
        state_dir=state_dir,
        client_id=state_dir.name,
        session_timeout_ms=3_000,
    )
