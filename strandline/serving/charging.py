"""Charges callers for the time of what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from strandline.ports import Caller, Clock
from strandline.security.quotas.bill import PAY_AGAIN_S_MIN, Bill, ClientQuotas
from strandline.security.quotas.model import Quota
from strandline.turns import Turns

T = TypeVar("T")

_OF_MEMBERS: Final = frozenset(
    f"/strandline.v1.Groups/{name}"
    for name in ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "ReportOwnership")
)
"""Calls that are never delayed: a member must not lose its group for a quota."""


async def charge_call(
    path: str,
    quotas: ClientQuotas,
    clock: Clock,
    caller: Caller,
    work: Callable[[], Coroutine[Any, Any, bytes]],
) -> bytes:
    """The result of the work of a call with one answer. A caller that still has to pay for earlier ones waits
    before it begins, and pays for reading its request and writing the answer too: the largest cost more than
    their handlers do."""
    bill = quotas.of(caller)
    if bill is None or bill.limit(Quota.REQUEST_PERCENTAGE) is None:
        return await work()
    if path not in _OF_MEMBERS:
        await paid(bill, (Quota.REQUEST_PERCENTAGE,), clock)
    return await charged_time(work(), bill, Turns(clock.monotonic))


async def paid(bill: Bill, quotas: Sequence[Quota], clock: Clock) -> None:
    """Returns once the caller has paid for what it used of these quotas, on whichever stream or connection it
    used it. Others that share a quota may use it up meanwhile, so it asks again: what follows without an
    await is the only use."""
    while owed_s := max(map(bill.owed, quotas)):
        await clock.sleep(max(owed_s, PAY_AGAIN_S_MIN))


async def charged_time(work: Coroutine[Any, Any, T], bill: Bill, turns: Turns) -> T:
    """The result of the work, for whose time the caller is charged, as far as nothing has charged these
    turns before."""
    try:
        return await turns.of(work)
    finally:
        bill.charge(Quota.REQUEST_PERCENTAGE, turns.taken_s())
