"""An independent part of a topology: its inputs, stores and outputs, and the processing of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strandline.streams.topology.graph import EmitTo, OperatorContext, Pipeline, Source
from strandline.streams.topology.stores import RawState, Store


@dataclass(frozen=True, slots=True, eq=False)
class Subtopology:
    """A source and everything downstream, up to the next repartition. A task runs one partition of it."""

    name: str
    """The name of its first topic in the description. It is stable: changelogs and folders contain it."""
    topics: tuple[str, ...]
    """Input topics; a repartition topic has its full name."""
    stores: tuple[Store[Any, Any], ...]
    changelog: str | None
    """None if it has no stores."""
    repartitions: Mapping[str, int | None]
    """Full names of the repartition topics that it writes, with the requested partition counts."""
    sinks: frozenset[str]
    reads_repartition: bool
    application_id: str
    source: Source = field(repr=False)

    def pipeline(self, state: RawState, emit_to: EmitTo) -> Pipeline:
        """The function that processes a record: decode, operators, encode, emit. Made once for each task.

        Errors of a serde, a function or an emit are passed on, and the record may then be half processed: the
        caller discards the changes of `state`. Raises RecordRefused for a record that an operator cannot use.
        """
        return self.source.pipeline(OperatorContext(state, emit_to, self.application_id))
