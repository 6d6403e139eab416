"""Logging in: as a user of the cluster with its password, or by the token of the console."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import structlog
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from strandline.adapters.telemetry.bearer_token import BearerToken
from strandline.client.admin.admin import Admin
from strandline.config.console import ConsoleSettings
from strandline.config.security import WITH_LOGINS
from strandline.console.core.attempts import Attempts
from strandline.console.web.admins import Connection
from strandline.errors import AuthenticationFailed, SettingsError
from strandline.ports import Clock
from strandline.security.login.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512

logger = structlog.get_logger(__name__)

AT_ONCE_MAX: Final = 4
"""Passwords that are checked at the same time; each costs thousands of rounds of a hash."""
REFUSED: Final = "This user does not exist, or the password is another one."
"""One sentence for both: a caller does not learn which users there are."""


class Shown(BaseModel):
    """The form of a login."""

    model_config = ConfigDict(extra="ignore")

    user: str = Field(default="", max_length=1_000)
    password: str = Field(default="", max_length=1_000, repr=False)
    token: str = Field(default="", max_length=5_000, repr=False)
    next: str = Field(default="/", max_length=8_000)


class Logins:
    """Checks what a browser shows, within the bounds on failures."""

    def __init__(self, settings: ConsoleSettings, connection: Connection, own: Admin, clock: Clock) -> None:
        """Raises SettingsError for a token that cannot be used, and for a cluster without passwords."""
        self._settings = settings
        self._connection = connection
        self._own = own
        self._clock = clock
        self._attempts = Attempts(settings.failed_logins_per_minute_max)
        self._checks = asyncio.Semaphore(AT_ONCE_MAX)
        self._token: BearerToken | None = None
        if settings.token_file is not None:
            self._token = BearerToken(settings.token_file, "token_file")
        if settings.login and connection.settings.get("security_protocol") not in WITH_LOGINS:
            raise SettingsError(
                "setting login = true: the console's clients have to connect where passwords are taken: "
                "security_protocol = SASL_SSL in the file of --command-config"
            )

    @property
    def are_needed(self) -> bool:
        """Whether a browser has to log in."""
        return self._settings.login or self._settings.token_file is not None

    async def check(self, shown: Shown, address: str) -> tuple[str | None, Connection, Admin, AsyncExitStack]:
        """The user, and its clients, which the stack ends. Raises HTTPException 401, 429, 503."""
        if not self._attempts.are_left(address, self._clock.monotonic()):
            raise HTTPException(429, "Too many logins have failed: wait a minute.", {"Retry-After": "60"})
        if self._checks.locked():
            raise HTTPException(503, "Too many logins at once: try again.", {"Retry-After": "1"})
        async with self._checks, AsyncExitStack() as clients:
            try:
                if self._token is not None:
                    self._check_token(shown.token)
                    return None, self._connection, self._own, clients.pop_all()
                connection = Connection(
                    self._connection.bootstrap, of_user(self._connection.settings, shown.user, shown.password)
                )
                admin = await clients.enter_async_context(Admin(connection.bootstrap, **connection.arguments))
                await admin.metadata()
                return shown.user, connection, admin, clients.pop_all()
            except (AuthenticationFailed, SettingsError):
                self._attempts.failed(address, self._clock.monotonic())
                logger.warning("a login was refused", user=shown.user[:300], address=address)
                raise HTTPException(
                    401, REFUSED if self._token is None else "This is not the token."
                ) from None

    def _check_token(self, token: str) -> None:
        """Raises AuthenticationFailed."""
        assert self._token is not None
        if not self._token.is_shown(f"Bearer {token}"):
            raise AuthenticationFailed("another token")


def of_user(settings: Mapping[str, Any], user: str, password: str) -> dict[str, Any]:
    """The settings of the console's clients with another user's name and password."""
    own = settings.get("sasl_mechanism")
    mechanism = own if own in (SCRAM_SHA_256, SCRAM_SHA_512) else SCRAM_SHA_512
    kept = {name: value for name, value in settings.items() if not name.startswith("sasl_")}
    return {**kept, "sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}
