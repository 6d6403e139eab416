"""The public keys by which tokens are checked: of a file, or fetched from their issuer (RFC 7517).

They are read at the start, once in an hour, and when a token names a key that is not among them, but at most
once in ten seconds. A set that cannot be had changes nothing: the last one stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import structlog

from strandline.config.sasl import SaslSettings
from strandline.errors import SettingsError
from strandline.ports import Clock
from strandline.security.login.mechanisms import OAUTHBEARER
from strandline.security.login.tokens import (
    SET_BYTES_MAX,
    KeyTimes,
    TokenKey,
    TokenRules,
    TokenUser,
    UnknownKey,
    UnusableKeys,
    check_size,
    parse_keys,
    verified,
)

logger = structlog.get_logger(__name__)


class TokenKeys:
    """Checks tokens with the keys that this process has read. Any thread may use it."""

    def __init__(
        self, rules: TokenRules, read: Callable[[], bytes], where: str, clock: Clock, *, needed_at_start: bool
    ) -> None:
        """`read` blocks; it raises OSError and UnusableKeys. `where` names its setting in errors.
        `needed_at_start`: a process without keys does not begin."""
        self._rules = rules
        self._read = read
        self._where = where
        self._clock = clock
        self._needed_at_start = needed_at_start
        self._keys: Mapping[str, TokenKey] = {}
        self._times = KeyTimes()
        self._reading = threading.Lock()

    def prepare(self) -> None:
        """Reads the keys. An issuer that does not answer delays nothing; its tokens are refused until it
        does. Raises SettingsError."""
        if find_spec("jwt") is None:
            raise SettingsError(
                "setting sasl_enabled_mechanisms: OAUTHBEARER needs PyJWT: pip install 'strandline[oauth]'"
            )
        import jwt  # noqa: F401  # the first token does not wait for it

        failure = self._read_again(unknown=False)
        if failure is not None and self._needed_at_start:
            raise SettingsError(f"setting {self._where}: {failure}")

    def user_of(self, token: str) -> TokenUser:
        """Raises InvalidToken."""
        self._read_again(unknown=False)
        try:
            return self._verified(token)
        except UnknownKey:
            self._read_again(unknown=True)
            return self._verified(token)

    def _verified(self, token: str) -> TokenUser:
        return verified(token, self._rules, self._keys, self._clock.wall_ms() / 1000)

    def _read_again(self, *, unknown: bool) -> str | None:
        """Reads the keys if it is time. Returns why that failed. One thread reads; others use what there
        is."""
        now = self._clock.monotonic()
        if not self._times.due(now, unknown=unknown) or not self._reading.acquire(blocking=False):
            return None
        try:
            if not self._times.due(now, unknown=unknown):
                return None
            self._times.tried_at = now
            self._keys = parse_keys(self._read())
            self._times.read_at = now
            logger.info("keys for tokens read", source=self._where, keys=len(self._keys))
        except (OSError, UnusableKeys) as error:
            logger.warning("keys for tokens cannot be read", source=self._where, reason=str(error))
            return str(error)
        finally:
            self._reading.release()
        return None


def token_keys(settings: SaslSettings, clock: Clock) -> TokenKeys | None:
    """None without OAUTHBEARER."""
    if OAUTHBEARER not in settings.mechanisms:
        return None
    file, url = settings.sasl_oauthbearer_jwks_file, settings.sasl_oauthbearer_jwks_url
    if file is not None:
        where = f"sasl_oauthbearer_jwks_file = '{file}'"
        return TokenKeys(settings.token_rules(), partial(_of_file, file), where, clock, needed_at_start=True)
    assert url is not None
    from strandline.adapters.fetched_keys import fetch  # here: few processes need it

    read = partial(fetch, url, clock)
    where = f"sasl_oauthbearer_jwks_url = '{url}'"
    return TokenKeys(settings.token_rules(), read, where, clock, needed_at_start=False)


def _of_file(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(SET_BYTES_MAX + 1)
    check_size(data)
    return data
