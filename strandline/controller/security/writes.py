"""How the active controller writes what ZooKeeper keeps of ACLs and users: each znode by a compare-and-set,
so that a change by hand at the same time is never lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from strandline.controller.term.fenced_session import FencedSession, Happened
from strandline.controller.term.results import for_user
from strandline.errors import OutcomeUnknown, StrandlineError
from strandline.ports import BadVersion, MultiFailed, NodeExists, NoNode, Operation
from strandline.tasks import pipelined

WRITES_IN_FLIGHT_MAX: Final = 64
ATTEMPTS_MAX: Final = 20
"""Attempts at a write. Each fails only if the znode was changed by hand in between."""

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Write(Generic[Value]):
    """One transaction, and how to look whether it happened."""

    value: Value
    """What the znode holds then."""
    operations: Sequence[Operation]
    happened: Happened


async def compare_and_set(
    session: FencedSession, prepare: Callable[[], Awaitable[Write[Value] | None]], what: str
) -> Value | None:
    """Carry out a write that depends on what its znode holds. Returns what it holds then, or None if there
    was nothing to write.

    `prepare` reads the znode, and says what to write. Raises what it raises, and OutcomeUnknown.
    """
    for _ in range(ATTEMPTS_MAX):
        write = await prepare()
        if write is None:
            return None
        try:
            await session.write(write.operations, write.happened)
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NodeExists | NoNode):
                raise
            continue
        return write.value
    raise OutcomeUnknown(f"{what} changed by hand at the same time, again and again")


async def each_alone(
    write: Callable[[Key], Awaitable[None]], keys: Iterable[Key]
) -> dict[Key, StrandlineError | None]:
    """Carry out a write for each key. Returns the error of each, as its client gets it."""

    async def outcome(key: Key) -> StrandlineError | None:
        try:
            await write(key)
        except StrandlineError as error:
            return for_user(error)
        return None

    wanted = list(keys)
    errors = await pipelined(outcome, wanted, in_flight_max=WRITES_IN_FLIGHT_MAX)
    return dict(zip(wanted, errors, strict=True))
