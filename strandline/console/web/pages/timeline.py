"""The page of the timeline: what moved when, and why. `static/timeline` draws what the API answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.console.core.timeline.view import LANE_KINDS, PARTS_MAX, ROW_KINDS
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
    "transaction": "transactions of one id",
}
NAMED: Final = ("topic", "partition", "broker", "group", "transaction")
"""Filters by a name or a number, which the folded part of the form has."""
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
    "transaction": "open and ending transactions",
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
    for name in (*NAMED, "text"):
        asked[name] = text(request, name, NAME_CHARS_MAX)
    kinds = {**more_kinds, **{kind: KIND_WORDS[kind] for kind in LANE_KINDS}}
    return {
        "asked": asked,
        "row_kinds": [(kind, ROW_WORDS[kind]) for kind in ROW_KINDS],
        "kinds": list(kinds.items()),
        "active": list(_active(request, kinds)),
        "spans": SPANS,
        "parts_max": PARTS_MAX,
    }


def _active(request: Request, kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The filters that hold and are folded away: each in words, with a link to the page without it."""
    given = request.query_params.multi_items()
    for name, value in given:
        words = f"{name} {value.strip()}" if name in NAMED else kinds.get(value, "") if name == "kind" else ""
        if value.strip() and words:
            yield words, "?" + urlencode([each for each in given if each != (name, value)])
