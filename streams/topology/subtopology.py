"""A part of a topology that runs by itself: what it reads, keeps and writes, and what happens to a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strandline.streams.topology.graph import Emit, Pipeline, Source, Surroundings
from strandline.streams.topology.stores import RawState, Store


@dataclass(frozen=True, slots=True, eq=False)
class Subtopology:
    """A source and all downstream of it, as far as the next repartition. A task runs one partition of it."""

    name: str
    """That of its first topic as it was described: stable, it is in the names of changelogs and folders."""
    topics: tuple[str, ...]
    """What it reads; that of a repartition by its real name."""
    stores: tuple[Store[Any, Any], ...]
    changelog: str | None
    """None if it has no stores."""
    repartitions: Mapping[str, int | None]
    """Real names of the repartition topics that it writes, with the partitions asked for."""
    sinks: frozenset[str]
    reads_repartition: bool
    application_id: str
    source: Source = field(repr=False)

    def pipeline(self, state: RawState, emit: Emit) -> Pipeline:
        """What a task does with a record: decode, operators, encode, `emit`. Made once a task.

        What a serde, a function or `emit` raises passes through, and the record may be half done then: the
        caller discards the changes of `state`. Raises RecordRefused for a record that an operator cannot use.
        """
        return self.source.pipeline(Surroundings(state, emit, self.application_id))
