"""The runs: what was found in each, and its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from strandline.console.core.runs.faults import FAULT
from strandline.console.core.runs.run import RunTimeline
from strandline.console.feeds.runs import Runs
from strandline.console.web.context import Site
from strandline.console.web.pages.timeline import asked_of
from strandline.console.web.queries import text

PATH: Final = "/runs"
NAME_CHARS_MAX: Final = 300
FINDINGS_SHOWN: Final = 30
MARGIN: Final = 50
"""The whole run is shown with this part of its time on each side."""


def routes(site: Site, runs: Runs) -> Sequence[BaseRoute]:
    """The pages at `/runs` and, of one run, at `/timeline`."""

    async def first(_: Request) -> Response:
        return RedirectResponse(PATH)

    async def every(request: Request) -> Response:
        found, unreadable = await runs.all()
        return await site.page(request, "runs.html", title="Runs", runs=found, unreadable=unreadable)

    async def one(request: Request) -> Response:
        if not request.query_params.get("run"):
            return RedirectResponse(PATH)
        run = (await run_of(request, runs)).run
        margin_ms = max(1, (run.ended_ms - run.began_ms) // MARGIN)
        return await site.page(
            request,
            "timeline.html",
            title=run.name,
            run=run,
            whole=(run.began_ms - margin_ms, run.ended_ms + margin_ms),
            zero=run.began_ms,
            findings_shown=FINDINGS_SHOWN,
            **asked_of(request, {FAULT: "faults"}),
        )

    return [Route("/", first), Route(PATH, every), Route("/timeline", one)]


async def run_of(request: Request, runs: Runs) -> RunTimeline:
    """The run that a query names. Raises HTTPException 404, SettingsError."""
    name = text(request, "run", NAME_CHARS_MAX)
    try:
        found = await runs.timeline(name)
    except OSError as error:
        raise HTTPException(404, f"the run {name} cannot be read any longer: {error.strerror}") from None
    if found is None:
        raise HTTPException(404, f"there is no run {name!r}; {PATH} lists those that there are")
    return found
