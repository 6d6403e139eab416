"""The secret of each login of a client: a password, or a token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from strandline.config.login import TokenProvider
from strandline.errors import AuthenticationFailed, SettingsError
from strandline.ports import Clock
from strandline.security.login.oauthbearer import OauthToken

logger = logging.getLogger(__name__)

PROVIDER_S_MAX: Final = 10.0
"""The longest time that a provider has for a token."""
_RENEWED_AFTER: Final = 0.8
"""The part of a token's time after which the provider is asked for another. A session is renewed a little
later, so that its login has the next token."""
_SETTING: Final = "sasl_oauth_token_provider"


class Secrets(Protocol):
    """Both methods raise SettingsError, AuthenticationFailed."""

    async def current(self) -> str:
        """The secret for a login that begins now."""
        ...

    def in_thread(self) -> str:
        """The same in a thread, whether or not the event loop is blocked."""
        ...


@dataclass(frozen=True, slots=True)
class Given:
    """A secret of the settings, or of a file that is read each time."""

    read: Callable[[], str]

    async def current(self) -> str:
        return self.read()

    def in_thread(self) -> str:
        return self.read()


@dataclass(frozen=True, slots=True)
class _Kept:
    token: OauthToken
    renewed_at_ms: float


class Provided:
    """Tokens of the application's provider. All connections of a client share one while it counts.

    If the provider fails, the last token goes on until it ends.
    """

    def __init__(self, provider: TokenProvider, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._kept: _Kept | None = None
        self._asking = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def current(self) -> str:
        self._loop = asyncio.get_running_loop()
        async with self._asking:
            if (token := self._fresh()) is not None:
                return token
            try:
                self._kept = await self._asked()
            except (AuthenticationFailed, SettingsError) as error:
                return self._last(error)
            return self._kept.token.token

    def in_thread(self) -> str:
        if (token := self._fresh()) is not None:
            return token
        if self._loop is None or self._loop.is_closed():
            return self._last(AuthenticationFailed(f"{_SETTING}: its event loop does not run"))
        asked = asyncio.run_coroutine_threadsafe(self.current(), self._loop)
        try:
            return asked.result(PROVIDER_S_MAX)
        except TimeoutError:
            asked.cancel()
            return self._last(AuthenticationFailed(f"{_SETTING}: the event loop was blocked"))

    def _fresh(self) -> str | None:
        kept = self._kept
        return None if kept is None or self._clock.wall_ms() >= kept.renewed_at_ms else kept.token.token

    def _last(self, error: AuthenticationFailed | SettingsError) -> str:
        """The last token, if it still counts. Raises the error if not."""
        kept = self._kept
        if kept is None or self._clock.wall_ms() >= kept.token.expires_at_ms:
            raise error
        logger.warning("%s: the last token goes on until it ends", error.message)
        return kept.token.token

    async def _asked(self) -> _Kept:
        """Raises AuthenticationFailed, SettingsError. What the provider raised may name a secret, so that
        only the cause of the error has it."""
        try:
            async with asyncio.timeout(PROVIDER_S_MAX):
                given = await self._provider()
        except TimeoutError as error:
            raise AuthenticationFailed(f"{_SETTING}: no token within {PROVIDER_S_MAX:.0f} s") from error
        except Exception as error:
            raise AuthenticationFailed(f"{_SETTING} raised {type(error).__name__}") from error
        if not isinstance(given, OauthToken):
            raise SettingsError(f"{_SETTING} returned a {type(given).__name__}: return an OauthToken")
        now_ms = self._clock.wall_ms()
        left_ms = given.expires_at_ms - now_ms
        if left_ms <= 0:
            raise AuthenticationFailed(f"{_SETTING}: its token ended {-left_ms / 1000:.1f} s ago")
        return _Kept(given, now_ms + left_ms * _RENEWED_AFTER)
