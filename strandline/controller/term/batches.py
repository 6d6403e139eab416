"""Writes many things at once, each of them whole or not at all, and each with an outcome of its own.

They share `multi`s, so ZooKeeper sees as few writes as their bytes allow. A multi that ZooKeeper refuses
because of one of them is written again without that one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from strandline.controller.term.term import BrokerForgotten, Term
from strandline.controller.term.writes import Whole, joined, pack_wholes
from strandline.errors import StrandlineError
from strandline.ports import MultiFailed
from strandline.tasks import pipelined

T = TypeVar("T")

MULTIS_IN_FLIGHT_MAX: Final = 4
"""Multis of one request that are under way at the same time: each may have almost 1 MB."""


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
        while lot:
            meant = [each.meant for each in lot]
            try:
                await term.write(joined(lot), partial(happened, meant))
            except StrandlineError as error:
                refused = _refused(lot, error)
                failed.extend((lot[number].meant, error) for number in refused)
                lot = [each for number, each in enumerate(lot) if number not in set(refused)]
            else:
                written(meant)
                return

    lots = pack_wholes(wholes, term.settings.multi_bytes_max)
    await pipelined(write, lots, in_flight_max=MULTIS_IN_FLIGHT_MAX)
    return failed


def _refused(lot: Sequence[Whole[T]], error: StrandlineError) -> Sequence[int]:
    """The places of those that a multi with all of these failed for: all, if it was not refused for some of
    them."""
    if isinstance(error, BrokerForgotten):
        return [number for number, each in enumerate(lot) if each.adds(error.broker)]
    if isinstance(error, MultiFailed):
        end = 0
        for number, each in enumerate(lot):
            end += each.length
            if error.index < end:
                return [number]
    return range(len(lot))
