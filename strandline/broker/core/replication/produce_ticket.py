"""A produce request from its append to its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.errors import StrandlineError


@dataclass(frozen=True, slots=True)
class Produced:
    """The place of a batch. `appended`: False if it is a duplicate of an earlier one."""

    base_offset: int
    log_start_offset: int
    appended: bool = True
    append_time_ms: int = -1
    """As `Appended` has it."""


ProduceOutcome = Produced | StrandlineError
OnProduced = Callable[[ProduceOutcome], None]


@dataclass(slots=True)
class ProduceTicket:
    """A request in the commit queue. `done` is called once."""

    produced: Produced
    done: OnProduced
