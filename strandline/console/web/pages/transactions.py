"""Transactions: the list of transactional ids, and one with its producer and partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.config.limits import TRANSACTIONAL_ID_LENGTH_MAX
from strandline.console.core import transactions as listing
from strandline.console.core.paging import page
from strandline.console.core.words import shown
from strandline.console.feeds.transactions import TransactionsFeed
from strandline.console.web.context import Console
from strandline.console.web.queries import one_of, query_link, text, whole

PAGE_MAX: Final = 1_000_000


def routes(console: Console) -> Sequence[BaseRoute]:
    """The pages below `/transactions`."""
    feed = TransactionsFeed(console.clock)

    async def transactions(request: Request) -> Response:
        if named := text(request, "id", TRANSACTIONAL_ID_LENGTH_MAX):
            return await one(console, request, named)
        return await every(console, feed, request)

    async def transaction(request: Request) -> Response:
        if named := request.path_params["transactional_id"]:
            return await one(console, request, named)
        return await every(console, feed, request)

    return [Route("/transactions", transactions), Route("/transactions/{transactional_id:path}", transaction)]


async def every(console: Console, feed: TransactionsFeed, request: Request) -> Response:
    """The list. Raises CoordinatorNotAvailable, …"""
    search = text(request, "search", TRANSACTIONAL_ID_LENGTH_MAX)
    state = one_of(request, "state", listing.STATES)
    listed = await feed.listed(console.admins.admin(request))
    found = listing.searched(listed, search, state)
    return await console.page(
        request,
        "transactions/list.html",
        title="Transactions",
        shown=page(found, whole(request, "page", 1, 1, PAGE_MAX), console.settings.page_rows_max),
        count=len(listed),
        states=listing.states_of(listed),
        search=search,
        state=state,
        listing=listing,
        link=lambda **changes: query_link(request, **changes),
    )


async def one(console: Console, request: Request, transactional_id: str) -> Response:
    """One transactional id. Raises TransactionalIdNotFound, TransactionalIdAuthorizationFailed, …"""
    description = await console.admins.admin(request).describe_transaction(transactional_id)
    found = description.transaction
    return await console.page(
        request,
        "transactions/transaction.html",
        title=f"Transactional id {shown(transactional_id)}",
        transactional_id=transactional_id,
        found=found,
        coordinator=description.coordinator,
        rows=page(found.partitions, whole(request, "page", 1, 1, PAGE_MAX), console.settings.page_rows_max),
        listing=listing,
        link=lambda **changes: query_link(request, **changes),
    )
