"""What a browser gets when something cannot be shown: a page, or JSON below /api/, without a traceback."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strandline import errors
from strandline.console.records.reading import AnotherTopic
from strandline.console.web.context import Site
from strandline.errors import Outcome, StrandlineError
from strandline.ids import TopicPartition

API: Final = "/api/"
READING: Final = ("GET", "HEAD")
"""Methods of requests that change nothing."""
_STATUS: Final[tuple[tuple[tuple[type[StrandlineError], ...], int], ...]] = (
    (
        (
            errors.UnknownTopicOrPartition,
            errors.GroupIdNotFound,
            errors.TransactionalIdNotFound,
            errors.ResourceNotFound,
        ),
        404,
    ),
    (
        (
            errors.ClusterAuthorizationFailed,
            errors.GroupAuthorizationFailed,
            errors.TopicAuthorizationFailed,
        ),
        403,
    ),
    ((errors.AuthenticationFailed,), 401),
)


def status_of(error: StrandlineError) -> int:
    """The status of HTTP for an error of the cluster."""
    for kinds, status in _STATUS:
        if isinstance(error, kinds):
            return status
    match error.outcome:
        case Outcome.RETRIABLE:
            return 503
        case Outcome.UNKNOWN:
            return 504
        case Outcome.FATAL:
            return 400


def refusal(site: Site, request: Request, error: HTTPException) -> Response:
    """The answer to a request that is refused."""
    return _answer(site, request, error.status_code, error.detail, dict(error.headers or {}))


def failure(site: Site, request: Request, error: StrandlineError) -> Response:
    """The answer when the cluster refuses or does not answer."""
    return _answer(site, request, status_of(error), error.message, {}, _present(error))


def fragment(site: Site, request: Request, error: StrandlineError) -> str:
    """What the page of a failure says, without the frame of the page."""
    return _written(site, request, status_of(error), error.message, _present(error), is_part=True)


def _present(error: StrandlineError) -> TopicPartition | None:
    """The partition that has the name of the one that was asked for."""
    return error.name if isinstance(error, AnotherTopic) else None


def defect(site: Site, request: Request) -> Response:
    """The answer after a defect of the console. The log has the traceback; the browser gets none."""
    said = "the console failed at this page; its log says why"
    return _answer(site, request, 500, said, {})


class Bounded:
    """Refuses a page with 503 whose answer has not begun within `page_ms_max`. What has begun may take its
    time: streams and exports. A POST is not ended: a change that is under way would have no outcome."""

    def __init__(self, site: Site, pages: ASGIApp) -> None:
        self._site = site
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in READING:
            await self._pages(scope, receive, send)
            return
        ms_max = self._site.settings.page_ms_max
        bound = asyncio.timeout(ms_max / 1000)
        try:
            async with bound:

                async def send_in_time(message: Message) -> None:
                    bound.reschedule(None)
                    await send(message)

                await self._pages(scope, receive, send_in_time)
        except TimeoutError:
            if not bound.expired():
                raise
            said = f"the cluster did not answer within page_ms_max = {ms_max:,} ms: load the page again"
            await refusal(self._site, Request(scope), HTTPException(503, said))(scope, receive, send)


def _answer(
    site: Site,
    request: Request,
    status: int,
    message: str,
    headers: dict[str, str],
    present: TopicPartition | None = None,
) -> Response:
    if request.url.path.startswith(API):
        return JSONResponse({"error": message}, status, headers)
    html = _written(site, request, status, message, present, is_part="part" in request.query_params)
    return HTMLResponse(html, status, headers)


def _written(
    site: Site, request: Request, status: int, message: str, present: TopicPartition | None, *, is_part: bool
) -> str:
    """A part is put in place of a part of the page, so it has what the page says of the failure alone."""
    values = {
        "title": HTTPStatus(status).phrase,
        "status": status,
        "message": message,
        "present": present,
        "missing": site.missing(request) if status == HTTPStatus.NOT_FOUND else None,
    }
    return site.written(request, "error.html", "content" if is_part else None, values)
