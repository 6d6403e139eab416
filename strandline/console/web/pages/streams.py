"""Stream applications: the list, and one with its tasks, who runs, learns and stands by for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.console.core.groups import listing
from strandline.console.core.groups.ownership import labels
from strandline.console.core.groups.stream_tasks import (
    ASSIGNOR,
    Application,
    Sayings,
    application,
    application_names,
    sayings,
)
from strandline.console.core.paging import page
from strandline.console.core.words import shown
from strandline.console.web.context import Console
from strandline.console.web.pages.groups import IN_LIST_MAX, PAGE_MAX, events_readable, lag_of
from strandline.console.web.queries import query_link, text, whole
from strandline.consumer.described.view import GroupView
from strandline.errors import StrandlineError

EMPTY: Final = "Empty"
MEMBERS_SHOWN: Final = 50


def routes(console: Console) -> Sequence[BaseRoute]:
    """The pages below `/streams`."""

    async def streams(request: Request) -> Response:
        if named := text(request, "application", GROUP_ID_LENGTH_MAX):
            return await one_application(console, request, named)
        return await all_applications(console, request)

    async def stream(request: Request) -> Response:
        if named := request.path_params["application"]:
            return await one_application(console, request, named)
        return await all_applications(console, request)

    return [Route("/streams", streams), Route("/streams/{application:path}", stream)]


async def all_applications(console: Console, request: Request) -> Response:
    """The list. Only the applications on the page are described."""
    admin = console.admins.admin(request)
    events = await events_readable(console, request)
    groups = [each.group for each in await console.groups.listed(admin)]
    topics = [topic.name for topic in (await console.seen(request)).topics]
    spoke = console.known_events.groups_with_tasks() if events is None else set[str]()
    names = application_names(groups, topics, spoke)
    size = min(IN_LIST_MAX, console.settings.page_rows_max)
    found = page(names, whole(request, "page", 1, 1, PAGE_MAX), size)
    views = await console.groups.groups(admin, found.items)
    return await console.page(
        request,
        "streams/list.html",
        title="Streams",
        found=found,
        applications={
            name: _of(console, view, events)
            for name, view in views.items()
            if isinstance(view, GroupView) and is_application(view)
        },
        refused={name: view.message for name, view in views.items() if isinstance(view, StrandlineError)},
        events=events,
        listing=listing,
        link=lambda **changes: query_link(request, **changes),
    )


def is_application(view: GroupView) -> bool:
    """Whether this group is one as far as it can tell: a group without members has no protocol."""
    return view.group.protocol == ASSIGNOR or view.group.state == EMPTY


def _of(console: Console, view: GroupView, events: str | None) -> Application:
    said: Sayings = sayings(console.known_events.row(view.group.group)) if events is None else {}
    return application(view, said)


async def one_application(console: Console, request: Request, name: str) -> Response:
    """One application. Raises GroupIdNotFound, GroupAuthorizationFailed, …"""
    view = await console.groups.group(console.admins.admin(request), name)
    events = await events_readable(console, request)
    found = _of(console, view, events)
    return await console.page(
        request,
        "streams/application.html",
        title=f"Stream application {shown(name)}",
        name=name,
        view=view,
        is_application=is_application(view),
        application=found,
        tasks=page(found.tasks, whole(request, "page", 1, 1, PAGE_MAX), console.settings.page_rows_max),
        members=page(found.members, whole(request, "members", 1, 1, PAGE_MAX), MEMBERS_SHOWN),
        loads=_loads(found),
        labels=labels(view.members),
        events=events,
        listing=listing,
        link=lambda **changes: query_link(request, **changes),
        **lag_of(console, name),
    )


def _loads(found: Application) -> Mapping[str, tuple[int, int, int]]:
    """For each member the number of tasks that it owns, learns, and stands by for."""
    loads = {each.member: [0, 0, 0] for each in found.members}
    for task in found.tasks:
        for part in task.parts:
            if part.member in loads:
                loads[part.member][part.place] += 1
    return {member: (owns, learns, stands_by) for member, (owns, learns, stands_by) in loads.items()}
