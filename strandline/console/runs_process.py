"""The process of a console that shows the folders of runs, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.routing import BaseRoute

from strandline.adapters.system_host import client_host
from strandline.client.admin.admin import Admin
from strandline.config.client import ClientSettings
from strandline.config.console import ConsoleSettings
from strandline.config.load import load
from strandline.console.feeds.run_folder import folders_of
from strandline.console.feeds.runs import Runs
from strandline.console.web.admins import Connection
from strandline.console.web.app import guarded
from strandline.console.web.browsers import Browsers
from strandline.console.web.context import Place, Site, templates
from strandline.console.web.live import EventStreams, Pulse
from strandline.console.web.logins import Logins
from strandline.console.web.pages import login, run_timeline, runs
from strandline.console.web.serving import living, serve_site
from strandline.console.web.sessions import Sessions
from strandline.errors import SettingsError

PLACES: Final = (Place("Runs", runs.PATH),)
NOWHERE: Final = Connection("nowhere.invalid:1")
"""No page of runs asks a cluster, and no client is started."""


@asynccontextmanager
async def running(settings: ConsoleSettings) -> AsyncIterator[Site]:
    """A site without a cluster, until the end of the block. Raises SettingsError."""
    if settings.login or settings.allow_changes:
        name = "login" if settings.login else "allow_changes"
        raise SettingsError(f"setting {name} = true: a console of runs has no cluster that it could ask")
    host = client_host(load(ClientSettings), None)
    site = Site(
        settings=settings,
        host=host,
        browsers=Browsers(settings, host),
        logins=Logins(settings, NOWHERE, Admin(NOWHERE.bootstrap), host.clock),
        sessions=Sessions(settings.sessions_max, settings.session_ms_max / 1000, host.clock),
        pulse=Pulse(),
        streams=EventStreams(settings),
        templates=templates(),
        places=PLACES,
    )
    async with living(site):
        yield site


async def serve_runs(
    settings: ConsoleSettings, given: Sequence[Path], stop: asyncio.Event, ready: Callable[[str], None]
) -> None:
    """Serves runs until `stop` is set. `given`: their folders, or folders with some in them.

    Raises SettingsError.
    """
    found = Runs(folders_of(given))
    async with running(settings) as site:
        await serve_site(site, guarded(site, pages_of(site, found)), stop, ready)


def pages_of(site: Site, found: Runs) -> list[BaseRoute]:
    """All pages of a console of runs."""
    return [*runs.routes(site, found), *run_timeline.routes(site, found), *login.routes(site)]
