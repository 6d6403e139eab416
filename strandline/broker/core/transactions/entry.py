"""What a coordinator keeps for each transactional id besides its value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.transactions.effects import AbortReason
from strandline.broker.core.transactions.transaction import Transaction
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Write:
    """A write in flight. `wanted` is held once it is in the log, and `call` is answered by `answer`. None: a
    tombstone, and no client that waits."""

    write_id: int
    wanted: Transaction | None
    call: Call[Any] | None = None
    answer: Any = None
    reason: AbortReason | None = None


@dataclass(slots=True)
class Entry:
    """One transactional id.

    There is at most one write in flight: requests meanwhile are asked to come again. Until the first one is
    in the log, nothing is held.
    """

    transactional_id: str
    held: Transaction | None = None
    writing: Write | None = None
    unmarked: set[TopicPartition] = field(default_factory=set)
    """While it is ending: the partitions whose markers are not known to be in the log."""
    deadline_s: float = 0.0
    """While it is Ongoing: the monotonic time of its timeout."""
    refusal: StrandlineError | None = None
    """Answers every request: the id is Dead here. A record could not be read, or a turn failed."""
