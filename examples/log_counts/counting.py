"""Defines the computation: all code about stream tasks is here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from examples.log_counts.cluster import Cluster
from examples.log_counts.lines import component_of, user_of
from strandline.streams import INTEGER, STRING, Record, Streams, Topology

APPLICATION = "log-counts"
LINES = "log-lines"
PARTITIONS = 4

COUNTED: dict[str, Callable[[str], str]] = {"user": user_of, "component": component_of}
"""The counted fields, and how to find each in a line."""


def counts_topic(name: str) -> str:
    """The topic of one field's counts."""
    return f"{APPLICATION}-per-{name}"


def topology() -> Topology:
    """Sends each line to the partition of its key, so that one task gets all lines of a user, and counts
    there."""
    topology = Topology()
    lines = topology.source(LINES, value=STRING)
    for name, find in COUNTED.items():
        counts = lines.map(keyed_by(find)).repartition(f"by-{name}", key=STRING, value=STRING).count(name)
        counts.to(counts_topic(name), key=STRING, value=INTEGER)
    return topology


def keyed_by(find: Callable[[str], str]) -> Callable[[Record[bytes, str]], Record[str, str]]:
    """Gives a line the found field as its key."""
    return lambda line: line.with_key(find(line.value or ""))


def application(cluster: Cluster, state_dir: Path) -> Streams:
    """One member. Several members share the work; each needs a state folder of its own.

    The group notices a killed member after three seconds.
    """
    return Streams(
        topology(),
        cluster.bootstrap,
        application_id=APPLICATION,
        state_dir=state_dir,
        client_id=state_dir.name,
        session_timeout_ms=3_000,
        **cluster.settings,
    )
