"""The page of the timeline: what moved when, and why. `static/timeline` draws what the API answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.console.core.timeline.view import LANE_KINDS, ROW_KINDS
from strandline.console.web.context import Console
from strandline.console.web.queries import text

NAME_CHARS_MAX: Final = 300
KINDS_MAX: Final = 50
ROW_WORDS: Final = {
    "partition": "partitions",
    "broker": "brokers",
    "group": "groups",
    "task": "stream tasks",
    "request": "requests",
}
KIND_WORDS: Final = {
    "leader": "leaders",
    "isr": "in-sync replicas",
    "offsets": "high watermarks and log ends",
    "request": "requests to brokers",
    "reassignment": "reassignments",
    "marks": "truncations, unclean elections and other marks",
    "generation": "generations of groups",
    "owned": "what members own",
    "learner": "roles in stream tasks",
    "alive": "brokers that live",
    "drain": "drains",
}
SPANS: Final = ((60_000, "1 min"), (900_000, "15 min"), (3_600_000, "1 h"), (86_400_000, "1 day"))
"""Lengths of time that a button shows."""


def routes(console: Console) -> Sequence[BaseRoute]:
    """The page at `/timeline`."""

    async def timeline(request: Request) -> Response:
        return await console.page(
            request, "timeline.html", title="Timeline", run=None, whole=None, zero=None, **asked_of(request)
        )

    return [Route("/timeline", timeline)]


def asked_of(request: Request, more_kinds: Mapping[str, str] = {}) -> dict[str, Any]:
    """The filters of a query, and what there is to choose from. `more_kinds`: further lanes, in words.

    Raises HTTPException 400.
    """
    rows = text(request, "rows", NAME_CHARS_MAX)
    asked: dict[str, object] = {
        "rows": rows if rows in ROW_KINDS else ROW_KINDS[0],
        "kind": request.query_params.getlist("kind")[:KINDS_MAX],
        "changed": request.query_params.get("changed") == "1",
    }
    for name in ("topic", "partition", "broker", "group", "text"):
        asked[name] = text(request, name, NAME_CHARS_MAX)
    return {
        "asked": asked,
        "row_kinds": [(kind, ROW_WORDS[kind]) for kind in ROW_KINDS],
        "kinds": [*more_kinds.items(), *((kind, KIND_WORDS[kind]) for kind in LANE_KINDS)],
        "spans": SPANS,
    }
