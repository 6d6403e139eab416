"""Changes by the pages: planned, shown, done once, and found on the timeline.

A form asks for a change at `POST /changes/KIND/plan`. The answer leads to `/changes/ID`, which shows the
effect with a form for `POST /changes/do`; that leads back to `/changes/ID`, which has the outcome by then.
All of it works without JavaScript, and a page that is loaded again changes nothing. The guard refuses
them unless changes are allowed (`access.CHANGES`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from strandline.console.clients import Clients
from strandline.console.core.changes import Place
from strandline.console.core.forms import Form
from strandline.console.core.permalink import group_link, timeline_link
from strandline.console.web.access import CHANGES
from strandline.console.web.context import Console
from strandline.console.web.live import address_of
from strandline.console.web.queries import form
from strandline.consumer.consumer import Consumer
from strandline.errors import InvalidRequest
from strandline.producer.producer import Producer

SEE_OTHER: Final = 303


def clients_of(console: Console, request: Request) -> Clients:
    """The caller's own clients."""
    connection = console.admins.connection(request)

    def consumer(**settings: object) -> Consumer:
        return Consumer(connection.bootstrap, **{**connection.arguments, **settings})

    def producer(**settings: object) -> Producer:
        return Producer(connection.bootstrap, **{**connection.arguments, **settings})

    return Clients(console.admins.admin(request), consumer, producer, address_of(request))


def timeline_of(place: Place, at_ms: int | None) -> str:
    """The link to the timeline of what a change is about."""
    return timeline_link(
        topic=place.topic or None,
        partition=place.partition,
        broker=place.broker,
        group=place.group or None,
        at_ms=at_ms,
    )


def page_of(place: Place) -> str:
    """The page of what a change is about."""
    if place.topic:
        return f"/topics/{place.topic}"
    if place.group:
        return group_link(place.group)
    return "/moves" if place.broker is not None else "/topics"


def routes(console: Console) -> Sequence[BaseRoute]:
    """The routes of all changes."""

    async def plan(request: Request) -> Response:
        kind = console.changes.kinds.get(request.path_params["kind"])
        if kind is None:
            raise HTTPException(404, f"there is no change {request.path_params['kind'][:100]!r}")
        change = kind(Form(await form(request)))
        planned = await console.changes.plan(_session(request), change, clients_of(console, request))
        return _to(planned.id)

    async def do(request: Request) -> Response:
        given = Form(await form(request))
        plan_id, seen = given.needed("plan"), given.needed("seen")
        try:
            await console.changes.do(
                plan_id,
                _session(request),
                seen=seen,
                typed=given.text("typed"),
                clients=clients_of(console, request),
            )
        except InvalidRequest as error:  # it is not confirmed: the form is shown again
            return await shown(request, plan_id, error.message)
        if topic := console.changes.get(plan_id, _session(request)).change.place.topic:
            console.cluster.topics_changed([topic])
        return _to(plan_id)

    async def show(request: Request) -> Response:
        return await shown(request, request.path_params["plan"])

    async def shown(request: Request, plan_id: str, problem: str = "") -> Response:
        planned = console.changes.get(plan_id, _session(request))
        place = planned.change.place
        return await console.page(
            request,
            "changes/change.html",
            status=400 if problem else 200,
            problem=problem,
            title=planned.effect.title,
            plan=planned,
            timeline=timeline_of(place, planned.began_ms or None),
            back=page_of(place),
        )

    return [
        Route(f"{CHANGES}do", do, methods=["POST"]),
        Route(f"{CHANGES}{{kind}}/plan", plan, methods=["POST"]),
        Route(f"{CHANGES}{{plan}}", show),
    ]


def _session(request: Request) -> str:
    """Whose plans these are: a user's in one browser."""
    return f"{request.state.browser}/{request.state.user or ''}"


def _to(plan_id: str) -> Response:
    return RedirectResponse(f"{CHANGES}{plan_id}", SEE_OTHER)
