"""What every page needs: the cluster as it was seen, the callers' own clients, and templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from strandline.config.console import ConsoleSettings
from strandline.console.changes.change import Changes
from strandline.console.core import words
from strandline.console.core.groups.known_events import KnownEvents
from strandline.console.core.member_names import short_member
from strandline.console.core.missing import Missing, deleted_ms
from strandline.console.core.overview.troubles import Sights
from strandline.console.core.permalink import group_link, stream_link, timeline_link, transaction_link
from strandline.console.core.seen import Seen
from strandline.console.feeds.cluster import ClusterFeed
from strandline.console.feeds.groups import GroupsFeed
from strandline.console.feeds.loads import LoadsFeed
from strandline.console.feeds.timeline import TimelineFeed
from strandline.console.web.admins import Admins
from strandline.console.web.browsers import Browsers
from strandline.console.web.live import EventStreams, Pulse
from strandline.console.web.logins import Logins
from strandline.console.web.sessions import Sessions
from strandline.host import Host
from strandline.ports import Clock
from strandline.report.text.partition_names import compact


@dataclass(frozen=True, slots=True)
class Place:
    """A page that the navigation names."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Site:
    """What every page needs, of a cluster or of runs. `pulse` beats when something that pages show has
    changed."""

    settings: ConsoleSettings
    host: Host
    browsers: Browsers
    logins: Logins
    sessions: Sessions
    pulse: Pulse
    streams: EventStreams
    templates: Environment
    places: Sequence[Place]

    @property
    def clock(self) -> Clock:
        return self.host.clock

    @property
    def cluster_id(self) -> str:
        """Empty without a cluster, or while it is not known."""
        return ""

    @property
    def has_cluster(self) -> bool:
        """Whether there is a cluster that it could change."""
        return False

    @property
    def old(self) -> Seen | None:
        """What was seen of the cluster last, if it cannot be read now: pages then show what is old."""
        return None

    def missing(self, request: Request) -> Missing | None:
        """What is known of the subject of a page that the cluster does not have; None if it has none."""
        return None

    def end_streams(self) -> None:
        """Ends every stream to a browser."""
        self.pulse.close()

    async def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        """The page that `template` makes of `values`, and of what all pages show.

        With `?part=NAME` only the block NAME of the template, which the page replaces in itself. Raises
        HTTPException 404 for an unknown block.
        """
        part = request.query_params.get("part")
        return HTMLResponse(self.written(request, template, part, values), status)

    def written(self, request: Request, template: str, part: str | None, values: Mapping[str, Any]) -> str:
        """The HTML of a page, or of one block of it. Raises HTTPException 404 for an unknown block."""
        given = {**self.common(request), **values}
        found = self.templates.get_template(template)
        if part is None:
            return found.render(given)
        if part not in found.blocks:
            raise HTTPException(404, f"this page has no part {part[:100]!r}")
        return "".join(found.blocks[part](found.new_context(given)))

    def common(self, request: Request) -> dict[str, Any]:
        """What the frame of every page shows."""
        state = request.state
        return {
            "places": self.places if state.admitted else (),
            "path": request.url.path,
            "old": self.old if state.admitted else None,
            "cluster_id": self.cluster_id if state.admitted else "",
            "has_cluster": self.has_cluster,
            "changes_allowed": self.settings.allow_changes,
            "csrf": state.csrf,
            "logged_in": state.session is not None,
            "user": state.user,
            "now_ms": self.clock.wall_ms(),
        }


@dataclass(frozen=True, slots=True)
class Console(Site):
    """What the pages of a cluster need. `timeline_pulse` beats when the timeline has changed."""

    admins: Admins
    cluster: ClusterFeed
    groups: GroupsFeed
    loads: LoadsFeed
    sights: Sights
    timeline: TimelineFeed
    known_events: KnownEvents
    timeline_pulse: Pulse
    changes: Changes

    @property
    def cluster_id(self) -> str:
        return self.cluster.seen.cluster_id

    @property
    def has_cluster(self) -> bool:
        return True

    @property
    def old(self) -> Seen | None:
        return self.cluster.seen if self.cluster.seen.is_old else None

    def missing(self, request: Request) -> Missing | None:
        names = {**request.query_params, **request.path_params}
        match request.url.path.split("/")[1]:
            case "topics":
                since_ms = deleted_ms(self.timeline.window.rows, names.get("topic", ""))
                return Missing(since_ms, "/topics", "All topics")
            case "groups":
                return Missing(self.groups.gone_ms(names.get("group", "")), "/groups", "All groups")
            case "transactions":
                return Missing(None, "/transactions", "All transactional ids")
            case "streams":
                since_ms = self.groups.gone_ms(names.get("application", ""))
                return Missing(since_ms, "/streams", "All applications")
            case _:
                return None

    def end_streams(self) -> None:
        self.pulse.close()
        self.timeline_pulse.close()

    async def seen(self, request: Request) -> Seen:
        """The state of the cluster, as far as the caller may know it."""
        return await self.admins.visible(request, self.cluster.seen)


def templates() -> Environment:
    """The templates of the console. Every value is escaped, and a missing one is an error."""
    made = Environment(
        loader=PackageLoader("strandline.console.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "bytes": words.bytes_,
        "counted": words.counted,
        "number": words.number,
        "duration": words.duration,
        "per_s": words.per_s,
        "ago": words.ago,
        "utc": words.utc,
        "shown": words.shown,
        "partitions": compact,
        "short_member": short_member,
    }
    made.globals |= {
        "timeline_link": timeline_link,
        "group_link": group_link,
        "stream_link": stream_link,
        "transaction_link": transaction_link,
    }
    return made
