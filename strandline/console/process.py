"""The process of the console: what it reads of the cluster, then the web server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from strandline.adapters.system_host import client_host
from strandline.client.admin.admin import Admin
from strandline.config.client import ClientSettings
from strandline.config.console import ConsoleSettings
from strandline.config.load import load
from strandline.console.changes.change import Changes
from strandline.console.changes.kinds import KINDS
from strandline.console.core.groups.known_events import KnownEvents
from strandline.console.core.overview.troubles import Sights, all_keys
from strandline.console.core.window import Window
from strandline.console.feeds.cluster import ClusterFeed
from strandline.console.feeds.groups import GroupsFeed
from strandline.console.feeds.loads import LoadsFeed
from strandline.console.feeds.timeline import TimelineFeed
from strandline.console.web.admins import Admins, Connection
from strandline.console.web.app import PLACES, application
from strandline.console.web.browsers import Browsers
from strandline.console.web.context import Console, templates
from strandline.console.web.live import EventStreams, Pulse
from strandline.console.web.logins import Logins
from strandline.console.web.serving import living, serve_site
from strandline.console.web.sessions import Sessions
from strandline.consumer.consumer import Consumer
from strandline.host import Host

logger = structlog.get_logger(__name__)


@asynccontextmanager
async def running(settings: ConsoleSettings, connection: Connection) -> AsyncIterator[Console]:
    """A console whose feeds run until the end of the block. Raises SettingsError."""
    host = _host(connection)
    pulse, timeline_pulse = Pulse(), Pulse()
    async with Admin(connection.bootstrap, **connection.arguments) as admin:

        def new_consumer() -> Consumer:
            return Consumer(
                connection.bootstrap, offset_reset="none", on_undecodable="skip", **connection.arguments
            )

        def changed(topics: set[str]) -> None:
            cluster.topics_changed(topics)

        window = Window(settings.events_kept, timeline_pulse.beat, first_seen=host.clock.wall_ms())
        timeline = TimelineFeed(window, admin, new_consumer, host.clock, changed)

        sights = Sights()

        def seen() -> None:
            timeline.seen(cluster.seen)
            sights.note(all_keys(cluster.seen), host.clock.wall_ms())
            pulse.beat()

        cluster = ClusterFeed(
            admin, host.clock, settings.refresh_ms, settings.page_ms_max, seen, timeline.begun
        )
        groups = GroupsFeed(admin, host.clock, pulse.beat)
        loads = LoadsFeed(admin, host.clock, lambda: cluster.seen, pulse.beat)
        console = Console(
            settings=settings,
            host=host,
            admins=Admins(connection, admin, host.clock, lambda: cluster.seen),
            browsers=Browsers(settings, host),
            logins=Logins(settings, connection, admin, host.clock),
            sessions=Sessions(settings.sessions_max, settings.session_ms_max / 1000, host.clock),
            cluster=cluster,
            groups=groups,
            loads=loads,
            sights=sights,
            pulse=pulse,
            timeline=timeline,
            known_events=KnownEvents(window),
            timeline_pulse=timeline_pulse,
            streams=EventStreams(settings),
            changes=Changes(KINDS, host),
            templates=templates(),
            places=PLACES,
        )
        async with living(console, cluster.run(), groups.run(), loads.run(), timeline.run()):
            yield console


async def serve(
    settings: ConsoleSettings,
    connection: Connection,
    stop: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    """Serves the console of a cluster until `stop` is set; `ready` gets its address once it is served.

    Raises SettingsError.
    """
    async with running(settings, connection) as console:
        await serve_site(console, application(console), stop, ready)


def _host(connection: Connection) -> Host:
    """Raises SettingsError."""
    return client_host(load(ClientSettings, **connection.settings), connection.host)
