"""The timeline as JSON: its rows in a time, one event explained, a stream that says when it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from strandline.console.core.timeline.drawing import draw
from strandline.console.core.timeline.explanation import explain
from strandline.console.core.timeline.lanes.spans import Span
from strandline.console.core.timeline.places import TOPICS, Source, parse_id, unpack
from strandline.console.core.timeline.rows import PartitionRow, Row
from strandline.console.core.timeline.view import LANE_KINDS, ROW_KINDS, RowKind, View, matching
from strandline.console.web.context import Console
from strandline.console.web.live import changes
from strandline.console.web.queries import text, whole
from strandline.ids import TopicPartition

MOMENTS_END: Final = 2**53
"""Greater times are no exact numbers in a browser."""
SHOWN_MS: Final = 600_000
"""The time that is shown unless the query says another one."""
WIDTH_MAX: Final = 4_000
ROWS_MAX: Final = 200
ROWS_FIRST_MAX: Final = 1_000_000
NAME_CHARS_MAX: Final = 300
ITEMS_MAX: Final = 40_000
"""With more items the rows that are left are drawn coarsely."""
COARSE_WIDTH: Final = 50
ROWS_AT_ONCE: Final = 1_000
"""Rows that are compared before the loop may do something else."""
ITEMS_AT_ONCE: Final = 200
CHANGES_PAUSE_S: Final = 0.25
INT32_MAX: Final = 2**31 - 1


def routes(console: Console) -> Sequence[BaseRoute]:
    """What is below `/api/timeline`."""
    feed = console.timeline

    async def timeline(request: Request) -> Response:
        now_ms = console.clock.wall_ms()
        view = _view(request, now_ms)
        source = Source.GROUP if view.rows in ("group", "task") else Source.STATE
        await _check_readable(console, request, source)
        topic, window = feed.topics[source], feed.window
        topic.further_back(view.from_ms)
        found = await _matching(console, view)
        page = found[view.first : view.first + view.count]
        if view.rows == "partition" and view.wants("offsets"):
            known = frozenset(each.name for each in (await console.seen(request)).topics)
            view = replace(view, offsets_of=known)
            feed.offsets.looked_at(
                TopicPartition(row.topic, row.partition)
                for row in page
                if isinstance(row, PartitionRow) and row.topic in known
            )
        rows, coarse = await _drawn(page, view)
        return JSONResponse(
            {
                "from": view.from_ms,
                "until": view.until_ms,
                "now": now_ms,
                "kept_from": window.kept_from(source),
                "reading_back": topic.reading_back,
                "complete": topic.complete,
                "feeds": [{"topic": each.topic, "state": each.state} for each in feed.topics.values()],
                "rows_total": len(found),
                "first": view.first,
                "version": window.version,
                "coarse": coarse,
                "rows": rows,
            }
        )

    async def one_event(request: Request) -> Response:
        try:
            ref = parse_id(request.path_params["id"])
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        await _check_readable(console, request, unpack(ref)[0])
        found = feed.window.found(ref) or await feed.read_one(ref)
        if found is None:
            name = request.path_params["id"]
            raise HTTPException(404, f"there is no event {name}, or it is not kept any longer")
        at_ms, said = found
        return JSONResponse(explain(feed.window, ref, said, at_ms))

    def newest() -> dict[str, int]:
        return {"version": feed.window.version, "newest": feed.window.newest_ms}

    async def live(request: Request) -> Response:
        await _check_readable(console, request, Source.STATE)
        return console.streams.respond(changes(console.timeline_pulse, CHANGES_PAUSE_S, newest))

    return [
        Route("/api/timeline", timeline),
        Route("/api/timeline/live", live),
        Route("/api/timeline/event/{id:path}", one_event),
    ]


def _view(request: Request, now_ms: int) -> View:
    """Raises HTTPException 400 that names the value."""
    until_ms = whole(request, "until", now_ms, 1, MOMENTS_END)
    from_ms = whole(request, "from", max(0, until_ms - SHOWN_MS), 0, MOMENTS_END)
    if from_ms >= until_ms:
        raise HTTPException(400, f"from = {from_ms} is not before until = {until_ms}")
    kinds = frozenset(request.query_params.getlist("kind")) - {""}
    rows = text(request, "rows", NAME_CHARS_MAX, "partition")
    if rows not in ROW_KINDS:
        raise HTTPException(400, f"rows = {rows!r}: one of {', '.join(ROW_KINDS)}")
    if unknown := sorted(kinds - set(LANE_KINDS)):
        raise HTTPException(400, f"kind = {unknown[0][:NAME_CHARS_MAX]!r}: some of {', '.join(LANE_KINDS)}")
    return View(
        rows=cast("RowKind", rows),
        from_ms=from_ms,
        until_ms=until_ms,
        width=whole(request, "width", 1_000, 1, WIDTH_MAX),
        first=whole(request, "first", 0, 0, ROWS_FIRST_MAX),
        count=whole(request, "count", 100, 1, ROWS_MAX),
        topic=text(request, "topic", NAME_CHARS_MAX) or None,
        partition=_number(request, "partition"),
        broker=_number(request, "broker"),
        group=text(request, "group", NAME_CHARS_MAX) or None,
        kinds=kinds,
        text=text(request, "text", NAME_CHARS_MAX),
        changed=whole(request, "changed", 0, 0, 1) == 1,
    )


def _number(request: Request, name: str) -> int | None:
    number = whole(request, name, -1, 0, INT32_MAX)
    return None if number < 0 else number


async def _check_readable(console: Console, request: Request, source: Source) -> None:
    """Refuses a caller who may not know the topic that the events are from. Raises HTTPException 403."""
    topic = TOPICS.get(source, TOPICS[Source.STATE])
    there = any(each.name == topic for each in console.cluster.seen.topics)
    if there and not await console.admins.may_read(request, topic):
        raise HTTPException(403, f"you may not read {topic}, which has these events")


async def _matching(console: Console, view: View) -> list[Row | Span]:
    found: list[Row | Span] = []
    for number, row in enumerate(matching(console.timeline.window.rows, view)):
        if row is not None:
            found.append(row)
        if number % ROWS_AT_ONCE == ROWS_AT_ONCE - 1:
            await asyncio.sleep(0)
    return found


async def _drawn(page: Sequence[Row | Span], view: View) -> tuple[list[dict[str, Any]], bool]:
    """The rows with their lanes, and whether some are drawn coarsely."""
    rows: list[dict[str, Any]] = []
    items = unpaused = 0
    for row in page:
        drawn = draw(row, view if items < ITEMS_MAX else view.coarse(COARSE_WIDTH))
        rows.append(drawn)
        made = 1 + sum(len(lane.get("items", ())) for lane in drawn["lanes"])
        items, unpaused = items + made, unpaused + made
        if unpaused >= ITEMS_AT_ONCE:
            unpaused = 0
            await asyncio.sleep(0)
    return rows, items >= ITEMS_MAX
