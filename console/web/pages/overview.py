"""The overview: brokers and the controller."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.console.web.context import Console


def routes(console: Console) -> Sequence[BaseRoute]:
    """The page at `/`."""

    async def overview(request: Request) -> Response:
        return await console.page(
            request, "overview.html", title="Overview", seen=await console.seen(request)
        )

    return [Route("/", overview)]
