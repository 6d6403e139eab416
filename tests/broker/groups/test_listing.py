"""Groups are listed: those that the caller may see."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from strandline.broker.groups.handlers import GroupHandlers
from strandline.security.access import Access
from strandline.security.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from strandline.tasks import SLICE_S
from tests.broker.groups.live import live
from tests.broker.support.access import CALLER
from tests.broker.support.replicas import settings
from tests.hand_clock import HandClock
from tests.waiting import eventually

GROUPS = 20


class WeighedAccess(Access):
    """Each question takes a whole slice of time."""

    def __init__(self, authorizer: Authorizer, clock: HandClock) -> None:
        super().__init__(authorizer)
        self.clock = clock

    def allowed(self, *asked: Any) -> bool:
        self.clock.now_s += SLICE_S
        return super().allowed(*asked)


async def test_others_have_their_turns_while_a_caller_is_told_which_groups_it_may_see() -> None:
    """CORRECTNESS X6: each group is asked for by its name, and a broker coordinates thousands."""
    clock, authorizer = HandClock(), Authorizer(Rules())
    pattern = ResourcePattern(ResourceType.GROUP, "own-", PatternType.PREFIXED)
    mine = AclBinding(pattern, CALLER.principal, "*", Operation.DESCRIBE, Permission.ALLOW)
    authorizer.take(Acls(1, [mine]))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with live() as one, asyncio.TaskGroup() as tasks:
        await eventually(lambda: one.partition.active)
        for number in range(GROUPS):
            await one.commit(f"{'own' if number % 2 else 'other'}-{number:02}", 1)
        handlers = GroupHandlers(
            cast(Any, SimpleNamespace(clock=clock)), cast(Any, None), cast(Any, [one.partition]),
            cast(Any, None), settings(), WeighedAccess(authorizer, clock), cast(Any, None),
        )  # fmt: skip
        counting = tasks.create_task(count_turns())
        found = await handlers.list_groups(None, CALLER)
        counting.cancel()
    assert [each.group for each in found] == [f"own-{number:02}" for number in range(1, GROUPS, 2)]
    assert turns >= GROUPS - 1, "between each two of its questions"
