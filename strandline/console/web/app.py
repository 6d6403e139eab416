"""The web application: its pages, what is below them, and the guard in front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from strandline.console.web import changes
from strandline.console.web.access import HEALTH, LIVE, LOGIN, STATIC, Guard
from strandline.console.web.context import Console, Place, Site
from strandline.console.web.errors import Bounded, defect, failure, refusal
from strandline.console.web.live import changes as changes_seen
from strandline.console.web.pages import (
    groups,
    login,
    moves,
    overview,
    records,
    streams,
    timeline,
    timeline_api,
    topics,
    transactions,
)
from strandline.errors import AuthenticationFailed, StrandlineError

OLD: Final = "/old"
"""What every page says at its top while the cluster cannot be read."""
STATIC_FILES: Final = Path(__file__).parent / "static"


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its place in the navigation, None if it has none, and its routes."""

    place: Place | None
    routes: Callable[[Console], Sequence[BaseRoute]]


PAGES: Final[tuple[Page, ...]] = (
    Page(Place("Overview", "/"), overview.routes),
    Page(Place("Timeline", "/timeline"), timeline.routes),
    Page(Place("Topics", "/topics"), topics.routes),
    Page(Place("Groups", "/groups"), groups.routes),
    Page(Place("Transactions", "/transactions"), transactions.routes),
    Page(Place("Streams", "/streams"), streams.routes),
    Page(Place("Moves", "/moves"), moves.routes),
    Page(None, records.routes),
    Page(None, changes.routes),
    Page(None, login.routes),
    Page(None, timeline_api.routes),
)
"""Every page, in the order of the navigation."""

PLACES: Final = tuple(page.place for page in PAGES if page.place is not None)


def application(console: Console) -> ASGIApp:
    """What a server serves of a cluster."""

    async def old(request: Request) -> Response:
        return await console.page(request, "parts/old.html")

    pages = [route for page in PAGES for route in page.routes(console)]
    return guarded(console, [Route(OLD, old), *pages])


def guarded(site: Site, pages: Sequence[BaseRoute]) -> ASGIApp:
    """The pages of a site, with what every site has, and the guard in front."""

    async def live(request: Request) -> Response:
        return site.streams.respond(request, changes_seen(site.pulse))

    async def healthy(_: Request) -> Response:
        return PlainTextResponse("stopping\n", 503) if site.pulse.closed else PlainTextResponse("ok\n")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return refusal(site, request, error)

    async def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, StrandlineError)
        if isinstance(error, AuthenticationFailed) and request.state.session is not None:
            await site.sessions.end(request.state.browser)  # its password is another one by now
            return RedirectResponse(LOGIN, 303)
        return failure(site, request, error)

    async def broken(request: Request, _: Exception) -> Response:
        return defect(site, request)

    routes: list[BaseRoute] = [
        Route(HEALTH, healthy),
        Route(LIVE, live),
        Mount(STATIC.rstrip("/"), StaticFiles(directory=STATIC_FILES)),
        *pages,
    ]
    handlers = {HTTPException: refused, StrandlineError: failed, Exception: broken}
    return Guard(site, Bounded(site, Starlette(routes=routes, exception_handlers=handlers)))
