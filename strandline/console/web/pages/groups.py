"""Consumer groups: the list, and one group with its members, what they own, its offsets and its lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.console.core.groups import lag, listing, ownership
from strandline.console.core.groups.rebalances import History
from strandline.console.core.paging import page
from strandline.console.core.timeline.places import Source
from strandline.console.core.words import shown
from strandline.console.feeds.event_topic import FOLLOWING
from strandline.console.web.context import Console
from strandline.console.web.queries import one_of, query_link, text, whole
from strandline.consumer.described.view import mixed_advice
from strandline.ids import GROUP_EVENTS_TOPIC

PAGE_MAX: Final = 1_000_000
MEMBERS_SHOWN: Final = 12
"""Members on one page of a group: each has a column beside the partitions."""
IN_LIST_MAX: Final = 50
"""Groups on one page of the list: each of them is described."""
REBALANCES_SHOWN: Final = 10
READ_BACK_MS: Final = 24 * 3600 * 1000
"""How far back rebalances are looked for, if the window has few of them."""
TOPIC_CHARS_MAX: Final = 249


def routes(console: Console) -> Sequence[BaseRoute]:
    """The pages below `/groups`."""

    async def groups(request: Request) -> Response:
        if named := text(request, "group", GROUP_ID_LENGTH_MAX):
            return await one_group(console, request, named)
        return await all_groups(console, request)

    async def group(request: Request) -> Response:
        if named := request.path_params["group"]:
            return await one_group(console, request, named)
        return await all_groups(console, request)

    return [Route("/groups", groups), Route("/groups/{group:path}", group)]


async def events_readable(console: Console, request: Request) -> str | None:
    """None if this caller may read the events of groups and the console has them; else why not, in words."""
    state = console.timeline.state_of(Source.GROUP)
    if state != FOLLOWING:
        return f"{GROUP_EVENTS_TOPIC}: {state}"
    if not await console.admins.may_read(request, GROUP_EVENTS_TOPIC):
        return f"you may not read {GROUP_EVENTS_TOPIC}, which has them"
    return None


def known_rebalances(console: Console, group: str) -> History:
    """The last rebalances. If they are few, older events are read in the background."""
    history = console.known_events.rebalances(group)
    if len(history.rebalances) < REBALANCES_SHOWN:
        console.timeline.topics[Source.GROUP].further_back(console.clock.wall_ms() - READ_BACK_MS)
    return history


def lag_of(console: Console, group: str) -> dict[str, Any]:
    """How the lag of a group went, as its templates take it."""
    samples = console.groups.samples(group)
    return {
        "samples": samples,
        "chart": lag.chart(samples),
        "pace": lag.pace(samples),
        "peak": lag.peak(samples),
        "figures": lag.figures(samples),
    }


async def all_groups(console: Console, request: Request) -> Response:
    """The list. Only the groups on the page are described."""
    admin = console.admins.admin(request)
    search, state = text(request, "search", GROUP_ID_LENGTH_MAX), one_of(request, "state", listing.STATES)
    listed = await console.groups.listed(admin)
    found = listing.searched(listed, search, state)
    size = min(IN_LIST_MAX, console.settings.page_rows_max)
    groups = page(found, whole(request, "page", 1, 1, PAGE_MAX), size)
    return await console.page(
        request,
        "groups/list.html",
        title="Groups",
        shown=groups,
        views=await console.groups.groups(admin, [each.group for each in groups.items]),
        count=len(listed),
        states=listing.states_of(listed),
        search=search,
        state=state,
        listing=listing,
        link=lambda **changes: query_link(request, **changes),
    )


async def one_group(console: Console, request: Request, group: str) -> Response:
    """One group. Raises GroupIdNotFound, GroupAuthorizationFailed, …"""
    view = await console.groups.group(console.admins.admin(request), group)
    topic = text(request, "topic", TOPIC_CHARS_MAX)
    partitions = [each for each in view.partitions if topic in each.name.topic]
    rows = page(partitions, whole(request, "page", 1, 1, PAGE_MAX), console.settings.page_rows_max)
    members = page(view.members, whole(request, "members", 1, 1, PAGE_MAX), MEMBERS_SHOWN)
    events = await events_readable(console, request)
    return await console.page(
        request,
        "groups/group.html",
        title=f"Group {shown(group)}",
        group=group,
        view=view,
        topic=topic,
        topics=len({each.name.topic for each in view.partitions}),
        rows=rows,
        members=members,
        matrix=ownership.matrix(view, rows.items, members.items),
        labels=ownership.labels(view.members),
        free=ownership.free_partitions(view),
        advice=mixed_advice(view) if view.mixed else "",
        history=known_rebalances(console, group) if events is None else None,
        events=events,
        shown_rebalances=REBALANCES_SHOWN,
        listing=listing,
        link=lambda **changes: query_link(request, **changes),
        **lag_of(console, group),
    )
