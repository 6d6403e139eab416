"""The pages `/login` and `/logout`."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from strandline.console.web.access import LOGIN, own_path
from strandline.console.web.context import Site
from strandline.console.web.live import address_of
from strandline.console.web.logins import Shown
from strandline.console.web.queries import form, parsed

logger = structlog.get_logger(__name__)

LOGOUT = "/logout"


def routes(site: Site) -> Sequence[BaseRoute]:
    """What a browser gets before it has logged in."""
    logins, sessions, browsers = site.logins, site.sessions, site.browsers

    async def page(request: Request, *, status: int = 200, said: str = "", to: str = "/") -> Response:
        by_token = site.settings.token_file is not None
        return await site.page(
            request, "login.html", status=status, title="Log in", said=said, to=to, by_token=by_token
        )

    async def login(request: Request) -> Response:
        if not logins.are_needed:
            return RedirectResponse("/", 303)
        if request.method != "POST":
            return await page(request, to=own_path(request.query_params.get("next", "/")))
        shown = parsed(Shown, await form(request))
        address = address_of(request)
        try:
            user, connection, admin, clients = await logins.check(shown, address)
        except HTTPException as error:
            answer = await page(request, status=error.status_code, said=error.detail, to=own_path(shown.next))
            answer.headers.update(error.headers or {})
            return answer
        browser = browsers.new()  # another id than before: no one else can have put it there
        await sessions.end(request.state.browser)
        await sessions.begin(browser, user, connection, admin, clients.aclose)
        logger.info("a browser has logged in", user=user, address=address)
        return RedirectResponse(own_path(shown.next), 303, {"Set-Cookie": browsers.cookie(browser)})

    async def logout(request: Request) -> Response:
        await sessions.end(request.state.browser)
        return RedirectResponse(LOGIN, 303, {"Set-Cookie": browsers.cookie(browsers.new())})

    return [Route(LOGIN, login, methods=["GET", "POST"]), Route(LOGOUT, logout, methods=["POST"])]
