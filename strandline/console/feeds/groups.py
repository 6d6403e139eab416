"""Reads groups for the browsers that look at them, and keeps how their lag went.

A page describes only the groups that it shows: a list of thousands costs one call to each broker. What was
read is kept for a moment, so several browsers that look at one group cost as much as one. While a browser
looks at something, it is read again; pages hear of it if it has changed. For the lag, a bounded number of
groups is read at a slow pace as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, cast

from strandline.client.admin.admin import Admin
from strandline.console.core.groups.lag import LagHistory, Sample, sample
from strandline.consumer.described.reading import read_group
from strandline.consumer.described.view import GroupView
from strandline.errors import GroupIdNotFound, StrandlineError
from strandline.ports import Clock
from strandline.vocabulary.groups import ListedGroup

AGE_S: Final = 2.0
"""How old what the page of a group shows may be, and how often it is read again while a browser looks."""
IN_LIST_AGE_S: Final = 5.0
"""As AGE_S, for a group in a list."""
LOOKING_S: Final = 10.0
"""How long after a look a browser counts as looking."""
ASK_S: Final = 4.0
"""How often browsers that look are asked to look again, if nothing has changed."""
SLOW_S: Final = 30.0
"""How often the lag of groups is sampled at which no browser looks."""
SAMPLED_MAX: Final = 50
"""Groups that are sampled at the slow pace: those looked at last, and all others if there are no more."""
SAMPLED_AFTER_LOOK_S: Final = 3_600.0
AT_ONCE_MAX: Final = 8
"""Groups that are read at one time."""
KEPT_MAX: Final = 200
"""Answers that are kept; those that were looked at longest ago go first."""

ValueT = TypeVar("ValueT")


@dataclass(slots=True, eq=False)
class _Kept(Generic[ValueT]):
    """What was read last with one client. Only one reading is under way."""

    read: Callable[[], Awaitable[ValueT]]
    group: str | None
    looked_s: float
    age_s: float
    value: ValueT | StrandlineError | None = None
    read_s: float | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class GroupsFeed:
    """Groups as the cluster describes them.

    `changed` is called when something that a browser looks at has changed, and now and then, so that those
    that still look say so by looking again.
    """

    def __init__(self, own: Admin, clock: Clock, changed: Callable[[], None]) -> None:
        """`own` is the client with which lags are sampled while no browser looks."""
        self._own = own
        self._clock = clock
        self._changed = changed
        self._kept: dict[Hashable, _Kept[Any]] = {}
        """The one that was looked at last is last."""
        self._looked_s: dict[str, float] = {}
        """When a browser looked at a group last."""
        self._at_once = asyncio.Semaphore(AT_ONCE_MAX)
        self._history = LagHistory()
        self._gone_ms: dict[str, int] = {}
        """When a group that had been read was found missing."""
        self._asked_s = clock.monotonic()

    def samples(self, group: str) -> tuple[Sample, ...]:
        """The lag of a group over time, the oldest sample first. For callers that may describe the group."""
        return self._history.of(group)

    def sampled(self) -> dict[str, tuple[Sample, ...]]:
        """The samples of all groups that have some. For callers that may describe them all."""
        return {group: self._history.of(group) for group in self._history.groups()}

    def gone_ms(self, group: str) -> int | None:
        """Since when a group that was read before is gone; None if that is not known."""
        return self._gone_ms.get(group)

    async def listed(self, admin: Admin) -> list[ListedGroup]:
        """All groups that this client may know of, by name. Raises BrokerNotAvailable, …"""
        return await self._look((id(admin), None), None, admin.list_groups, AGE_S)

    async def group(self, admin: Admin, group: str, age_s: float = AGE_S) -> GroupView:
        """One group with its members, offsets and lags, as it was at most `age_s` ago.

        Raises GroupIdNotFound, GroupAuthorizationFailed, …
        """

        async def read() -> GroupView:
            async with self._at_once:
                return await read_group(admin, group)

        return await self._look((id(admin), group), group, read, age_s)

    async def groups(self, admin: Admin, groups: Iterable[str]) -> Mapping[str, GroupView | StrandlineError]:
        """Several groups, each with its view, or the error that says why it has none."""
        found: dict[str, GroupView | StrandlineError] = {}

        async def one(group: str) -> None:
            try:
                found[group] = await self.group(admin, group, IN_LIST_AGE_S)
            except StrandlineError as error:
                found[group] = error

        async with asyncio.TaskGroup() as tasks:
            for group in groups:
                tasks.create_task(one(group))
        return found

    # --- what is kept -------------------------------------------------------------------------

    async def _look(
        self, key: Hashable, group: str | None, read: Callable[[], Awaitable[ValueT]], age_s: float
    ) -> ValueT:
        now_s = self._clock.monotonic()
        kept = self._kept.pop(key, None) or _Kept[Any](read, group, now_s, age_s)
        kept.age_s = min(kept.age_s, age_s)
        kept.looked_s = now_s
        self._kept[key] = kept
        _bound(self._kept)
        if group is not None:
            self._looked_s.pop(group, None)
            self._looked_s[group] = now_s
            _bound(self._looked_s)
        await self._refresh(kept)
        if isinstance(kept.value, StrandlineError):
            raise kept.value
        return cast("ValueT", kept.value)

    async def _refresh(self, kept: _Kept[Any]) -> None:
        """Read it again if it is too old."""
        async with kept.lock:
            if kept.read_s is not None and self._clock.monotonic() - kept.read_s < kept.age_s:
                return
            try:
                kept.value = await kept.read()
            except StrandlineError as error:
                kept.value = error
            kept.read_s = self._clock.monotonic()
            if kept.group is not None:
                self._note(kept.group, kept.value)

    def _note(self, group: str, value: GroupView | StrandlineError) -> None:
        if isinstance(value, GroupView):
            self._history.add(group, sample(value, self._clock.wall_ms()))
            self._gone_ms.pop(group, None)
        elif isinstance(value, GroupIdNotFound):
            if self._history.of(group):
                self._gone_ms[group] = self._clock.wall_ms()
                _bound(self._gone_ms)
            self._history.forget(group)
            self._looked_s.pop(group, None)

    # --- in the background --------------------------------------------------------------------

    async def run(self) -> None:
        """Reads what is looked at, and samples lags, without an end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._again_and_again(self.read_again, AGE_S / 2))
            tasks.create_task(self._again_and_again(self.sample, SLOW_S))

    async def _again_and_again(self, work: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while True:
            await work()
            await self._clock.sleep(pause_s)

    async def read_again(self) -> None:
        """Read what a browser looks at and what is too old."""
        now_s = self._clock.monotonic()
        for key in [key for key, kept in self._kept.items() if now_s - kept.looked_s > LOOKING_S]:
            del self._kept[key]
        looked_at = list(self._kept.values())
        before = [_seen(kept.value) for kept in looked_at]
        async with asyncio.TaskGroup() as tasks:
            for kept in looked_at:
                tasks.create_task(self._refresh(kept))
        changed = before != [_seen(kept.value) for kept in looked_at]
        if changed or (looked_at and now_s - self._asked_s >= ASK_S):
            self._asked_s = now_s
            self._changed()

    async def sample(self) -> None:
        """Sample the lag of groups at which no browser looks."""
        try:
            wanted = await self._sampled()
        except StrandlineError:
            return  # pages that ask for the same say why it cannot be read
        for group in wanted:
            await self._sample_one(group)

    async def _sample_one(self, group: str) -> None:
        found: GroupView | StrandlineError
        async with self._at_once:
            try:
                found = await read_group(self._own, group)
            except StrandlineError as error:
                found = error
        self._note(group, found)

    async def _sampled(self) -> list[str]:
        """The groups to sample now: not those that are read more often anyway."""
        now_s = self._clock.monotonic()
        read = {kept.group for kept in self._kept.values()}
        looked = [
            group for group, at_s in reversed(self._looked_s.items()) if now_s - at_s < SAMPLED_AFTER_LOOK_S
        ]
        listed = [each.group for each in await self._own.list_groups()]
        others = listed if len(listed) <= SAMPLED_MAX else []
        there = frozenset(listed)
        wanted = [
            group for group in dict.fromkeys([*looked, *others]) if group in there and group not in read
        ]
        return wanted[:SAMPLED_MAX]


def _bound(kept: dict[Any, Any]) -> None:
    while len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]


def _seen(value: object) -> object:
    """What two readings are compared by."""
    return (type(value), value.message) if isinstance(value, StrandlineError) else value
