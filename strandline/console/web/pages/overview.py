"""The overview: what is wrong now, brokers and controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.console.core.groups.lag import Sample
from strandline.console.core.overview.brokers import broker_lines
from strandline.console.core.overview.troubles import Trouble, troubles
from strandline.console.core.seen import Seen
from strandline.console.feeds.loads import RATES_AFTER
from strandline.console.web.context import Console
from strandline.errors import StrandlineError

LIST_S_MAX: Final = 0.5
FRESH_MS: Final = 1_000


def routes(console: Console) -> Sequence[BaseRoute]:
    """The page at `/`."""
    latest = _Latest(console)

    async def overview(request: Request) -> Response:
        seen = await console.seen(request)
        found = latest.of(seen, await lags(console, request))
        loads = console.loads.look()
        may_describe = seen.described_at_ms is not None
        tried = console.loads.tried if may_describe else RATES_AFTER
        return await console.page(
            request,
            "overview.html",
            title="Overview",
            seen=seen,
            troubles=found,
            brokers=broker_lines(seen, loads if may_describe else None),
            no_size="unknown" if tried else "not read yet",
            no_rate="unknown" if tried >= RATES_AFTER else "not measured yet",
            partitions=sum(len(topic.partitions) for topic in seen.topics),
        )

    return [Route("/", overview)]


async def lags(console: Console, request: Request) -> Mapping[str, Sequence[Sample]]:
    """The samples of the groups that the caller may know of; none if the cluster does not say in time."""
    sampled = console.groups.sampled()
    if not sampled or request.state.user is None:
        return sampled
    try:
        async with asyncio.timeout(LIST_S_MAX):
            groups = await console.groups.listed(console.admins.admin(request))
    except (StrandlineError, TimeoutError):
        return {}
    return {each.group: sampled[each.group] for each in groups if each.group in sampled}


class _Latest:
    """What was found last. Browsers that may see all of the cluster share it for a moment: with thousands of
    partitions that lack something, it takes as long as a page."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._of: tuple[Seen, int, int] | None = None
        self._found: list[Trouble] = []

    def of(self, seen: Seen, lags: Mapping[str, Sequence[Sample]]) -> list[Trouble]:
        window, now_ms = self._console.timeline.window, self._console.clock.wall_ms()
        before, current = self._of, (seen, window.version, now_ms // FRESH_MS)
        if before is None or before[0] is not seen or before[1:] != current[1:]:
            found = troubles(seen, window.rows, lags, self._console.sights, now_ms)
            if seen is not self._console.cluster.seen:  # of one user
                return found
            self._of, self._found = current, found
        return self._found
