"""The clients with which pages ask the cluster: each caller's own, so that the cluster's ACLs decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from strandline.client.admin.admin import Admin
from strandline.console.core.seen import Seen
from strandline.host import Host


@dataclass(frozen=True, slots=True)
class Connection:
    """How a caller's clients reach the cluster: `Consumer(connection.bootstrap, **connection.arguments)`."""

    bootstrap: str
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Those of the connections, such as `security_protocol`."""
    host: Host | None = None
    """None: one of its own for each client."""

    @property
    def arguments(self) -> dict[str, Any]:
        """What a client takes besides the bootstrap servers."""
        return {**self.settings, "host": self.host}


class Admins:
    """The admin client of each caller."""

    def __init__(self, connection: Connection, own: Admin) -> None:
        """`own`: the console's, which callers without a name of their own share."""
        self._connection = connection
        self._own = own

    def admin(self, request: Request) -> Admin:
        """The caller's own client, which is started. Do not stop it."""
        return self._own

    def connection(self, request: Request) -> Connection:
        """For another client of this caller, such as a consumer."""
        return self._connection

    async def visible(self, request: Request, seen: Seen) -> Seen:
        """What of the seen state this caller may know."""
        return seen
