"""The timeline of a run as JSON, as that of a cluster is answered, with a row for the faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.console.core.runs.faults import FAULT, MOMENT
from strandline.console.core.runs.run import RunTimeline
from strandline.console.core.timeline.explanation import explain
from strandline.console.core.timeline.places import Source, parse_id, unpack
from strandline.console.core.timeline.rows import BrokerRow, PartitionRow
from strandline.console.core.timeline.view import LANE_KINDS
from strandline.console.feeds.runs import Runs
from strandline.console.web.context import Site
from strandline.console.web.pages.runs import run_of
from strandline.console.web.timeline_views import drawn_rows, json_answer, matching_rows, view_of
from strandline.report.round_files import GROUP_EVENTS, STATE_CHANGES

FILES: Final = {Source.STATE: STATE_CHANGES, Source.GROUP: GROUP_EVENTS}


def routes(site: Site, runs: Runs) -> Sequence[BaseRoute]:
    """What is below `/api/timeline` for queries that name a run."""

    async def timeline(request: Request) -> Response:
        found = await run_of(request, runs)
        run, window = found.run, found.window
        view = view_of(request, run.ended_ms, (*LANE_KINDS, FAULT))
        rows = await matching_rows(window.rows, view)
        with_faults = len(found.faults) > 0 and view.wants(FAULT)
        shift = int(with_faults)
        shown = replace(view, first=max(0, view.first - shift), count=view.count - shift * (view.first == 0))
        page = rows[shown.first : shown.first + shown.count]
        topics = frozenset(row.topic for row in page if isinstance(row, PartitionRow))
        shown = replace(shown, offsets_of=topics)  # who may see the run may see all of it
        drawn, coarse = await drawn_rows(page, shown, window.rows)
        for row, lanes in zip(page, drawn, strict=True):
            if isinstance(row, BrokerRow) and view.wants(FAULT):
                lanes["lanes"] = [*found.faults.of_broker(row.broker), *lanes["lanes"]]
        if with_faults and view.first == 0:
            drawn = [found.faults.row(view.from_ms, view.until_ms), *drawn]
        return json_answer(
            {
                "from": view.from_ms,
                "until": view.until_ms,
                "now": run.ended_ms,
                "kept_from": None,
                "reading_back": False,
                "rows_total": len(rows) + shift,
                "first": view.first,
                "version": 1,
                "coarse": coarse,
                "rows": drawn,
            }
        )

    async def one_event(request: Request) -> Response:
        found = await run_of(request, runs)
        name = request.path_params["id"]
        said = _explained(found, name)
        if said is None:
            raise HTTPException(404, f"the run {found.run.name} has no event {name[:100]!r}")
        return json_answer(said)

    return [Route("/api/timeline", timeline), Route("/api/timeline/event/{id:path}", one_event)]


def _explained(found: RunTimeline, name: str) -> dict[str, Any] | None:
    """None if the run has no such event. Raises HTTPException 400."""
    if name.partition("/")[0] in (FAULT, MOMENT):
        return found.faults.explain(name)
    try:
        ref = parse_id(name)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    event = found.window.found(ref)
    if event is None:
        return None
    source, _, line = unpack(ref)
    file = FILES.get(source)
    return {**explain(found.window, ref, event[1], event[0]), "record": file and {"file": file, "line": line}}
