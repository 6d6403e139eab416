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
from strandline.console.core.overview.troubles import troubles
from strandline.console.web.context import Console
from strandline.errors import StrandlineError

LIST_S_MAX: Final = 0.5


def routes(console: Console) -> Sequence[BaseRoute]:
    """The page at `/`."""

    async def overview(request: Request) -> Response:
        seen = await console.seen(request)
        rows = console.timeline.window.rows
        found = troubles(seen, rows, await lags(console, request), console.sights, console.clock.wall_ms())
        loads = console.loads.look()
        may_describe = seen.described_at_ms is not None
        return await console.page(
            request,
            "overview.html",
            title="Overview",
            seen=seen,
            troubles=found,
            brokers=broker_lines(seen, loads if may_describe else None),
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
