"""Writes many things at once, each of them whole or not at all, and each with an outcome of its own.

They share `multi`s, so ZooKeeper sees as few writes as their bytes allow. A multi that ZooKeeper refuses
because of one of them is written again without that one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.term.term import BrokerForgotten, Term
from strandline.controller.term.writes import Whole, joined, pack_wholes
from strandline.errors import StrandlineError
from strandline.ports import Create, MultiFailed, NodeExists, NoNode
from strandline.tasks import pipelined

T = TypeVar("T")

MULTIS_IN_FLIGHT_MAX: Final = 4
"""Multis of one request that are under way at the same time: each may have almost 1 MB."""
REFUSALS_MAX: Final = 3
"""Refusals after which what is left of a multi is written in two: others are changing many of its topics."""


async def write_batched(
    term: Term,
    wholes: Iterable[Whole[T]],
    happened: Callable[[Sequence[T]], Awaitable[bool]],
    written: Callable[[Sequence[T]], None],
) -> list[tuple[T, StrandlineError]]:
    """Writes all of these. Returns those that were not written, each with the error; that of a refused one is
    MultiFailed or BrokerForgotten.

    `happened` looks in ZooKeeper whether a multi was carried out that writes all of what it is given, of
    which others may have changed some since. `written` is called after each multi.
    """
    failed: list[tuple[T, StrandlineError]] = []

    async def write(lot: list[Whole[T]]) -> None:
        refusals = 0
        while lot:
            meant = [each.meant for each in lot]
            try:
                await term.write(joined(lot), partial(happened, meant))
            except StrandlineError as error:
                refused = await _refused(term, lot, error)
            else:
                written(meant)
                return
            failed.extend((lot[number].meant, error) for number, error in refused.items())
            lot = [each for number, each in enumerate(lot) if number not in refused]
            refusals += 1
            if refusals == REFUSALS_MAX:
                half = len(lot) // 2
                await write(lot[:half])
                lot, refusals = lot[half:], 0

    lots = pack_wholes(wholes, term.settings.multi_bytes_max)
    await pipelined(write, lots, in_flight_max=MULTIS_IN_FLIGHT_MAX)
    return failed


async def _refused(term: Term, lot: Sequence[Whole[T]], error: StrandlineError) -> dict[int, StrandlineError]:
    """The places of those that a multi with all of these failed for, with their errors: all, if it was not
    refused because of some of them."""
    if isinstance(error, BrokerForgotten):
        return {number: error for number, each in enumerate(lot) if each.adds(error.broker)}
    if isinstance(error, MultiFailed):
        at = error.index
        for number, each in enumerate(lot):
            if at < each.length:
                return await _alike(term, lot, at - each.length) | {number: error}
            at -= each.length
    return dict.fromkeys(range(len(lot)), error)


async def _alike(term: Term, lot: Sequence[Whole[T]], at: int) -> dict[int, StrandlineError]:
    """Those that would be refused because of this operation of theirs, counted from their last one: its path
    is there already, or not there any longer. None of them has two operations for a path.

    Another request for the same topics changes all of them, and each would cost one more write.
    """

    async def look(whole: Whole[T]) -> StrandlineError | None:
        operations = whole.operations
        operation = operations[max(at, -len(operations))]
        found = await term.session.exists(operation.path) is not None
        if found is not isinstance(operation, Create):
            return None
        return MultiFailed(0, (NodeExists if found else NoNode)(operation.path))

    try:
        errors = await pipelined(look, lot, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    except StrandlineError:
        return {}  # the session has ended, which the next write says
    return {number: error for number, error in enumerate(errors) if error is not None}
