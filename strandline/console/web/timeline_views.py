"""What a browser asks of a timeline, and the rows of the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from strandline.client.arguments import INT32_MAX
from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.drawing import draw
from strandline.console.core.timeline.gaps import Gaps
from strandline.console.core.timeline.lanes.spans import Span
from strandline.console.core.timeline.rows import Row, TransactionRow
from strandline.console.core.timeline.view import LANE_KINDS, ROW_KINDS, RowKind, View, matching
from strandline.console.web.queries import text, whole

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


def view_of(request: Request, now_ms: int, lanes: Sequence[str] = LANE_KINDS) -> View:
    """What a query asks for; `lanes` are the kinds that there are.

    Raises HTTPException 400 that names the value.
    """
    until_ms = whole(request, "until", now_ms, 1, MOMENTS_END)
    from_ms = whole(request, "from", max(0, until_ms - SHOWN_MS), 0, MOMENTS_END)
    if from_ms >= until_ms:
        raise HTTPException(400, f"from = {from_ms} is not before until = {until_ms}")
    kinds = frozenset(request.query_params.getlist("kind")) - {""}
    rows = text(request, "rows", NAME_CHARS_MAX, "partition")
    if rows not in ROW_KINDS:
        raise HTTPException(400, f"rows = {rows!r}: one of {', '.join(ROW_KINDS)}")
    if unknown := sorted(kinds - set(lanes)):
        raise HTTPException(400, f"kind = {unknown[0][:NAME_CHARS_MAX]!r}: some of {', '.join(lanes)}")
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
        transaction=text(request, "transaction", NAME_CHARS_MAX) or None,
        kinds=kinds,
        text=text(request, "text", NAME_CHARS_MAX),
        changed=whole(request, "changed", 0, 0, 1) == 1,
    )


def _number(request: Request, name: str) -> int | None:
    number = whole(request, name, -1, 0, INT32_MAX)
    return None if number < 0 else number


async def matching_rows(rows: Rows, view: View) -> list[Row | Span]:
    """The rows of a view, in their order."""
    found: list[Row | Span] = []
    for number, row in enumerate(matching(rows, view)):
        if row is not None:
            found.append(row)
        if number % ROWS_AT_ONCE == ROWS_AT_ONCE - 1:
            await asyncio.sleep(0)
    return found


async def drawn_rows(
    page: Sequence[Row | TransactionRow | Span], view: View, of: Rows
) -> tuple[list[dict[str, Any]], bool]:
    """The rows with their lanes, and whether some are drawn coarsely."""
    gaps = Gaps(of, view)
    rows: list[dict[str, Any]] = []
    items = unpaused = 0
    for row in page:
        drawn = draw(row, view if items < ITEMS_MAX else view.coarse(COARSE_WIDTH), gaps)
        rows.append(drawn)
        shown = [item for lane in drawn["lanes"] for item in lane.get("items", ())]
        made = 1 + sum(1 + len(item.get("parts", ())) for item in shown)
        items, unpaused = items + made, unpaused + made
        if unpaused >= ITEMS_AT_ONCE:
            unpaused = 0
            await asyncio.sleep(0)
    return rows, items >= ITEMS_MAX


def json_answer(answer: object) -> Response:
    """All ASCII: a text in a record may be one that UTF-8 does not have."""
    body = json.dumps(answer, separators=(",", ":"), allow_nan=False)
    return Response(body, media_type="application/json")
