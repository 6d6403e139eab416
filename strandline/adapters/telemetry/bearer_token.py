"""The token that a scrape has to show (RFC 6750): the contents of a file, which may be replaced."""

from __future__ import annotations

import hmac
import os
import threading
from pathlib import Path
from typing import Final

import structlog

from strandline.adapters.system.file_stamp import stamp
from strandline.adapters.system.secret_file import OTHERS
from strandline.errors import SettingsError

logger = structlog.get_logger(__name__)

SCHEME: Final = "bearer "
TOKEN_BYTES_MIN: Final = 16
TOKEN_BYTES_MAX: Final = 4_096


class BearerToken:
    """The token in the file of a setting. Any thread may use it.

    A file that cannot be used changes nothing: the previous token stays.
    """

    def __init__(self, path: Path, setting: str = "metrics_token_file") -> None:
        """Raises SettingsError, which names the setting, if the file cannot be used."""
        self._setting = setting
        self._path = path
        self._looking = threading.Lock()
        self._stamp = stamp(path)
        self._token = _read(setting, path)

    def is_shown(self, authorization: str) -> bool:
        """Whether a request with this `Authorization` shows the token. Never raises."""
        self._look()
        scheme, shown = authorization[: len(SCHEME)], authorization[len(SCHEME) :]
        return scheme.lower() == SCHEME and hmac.compare_digest(shown.strip().encode(), self._token)

    def _look(self) -> None:
        with self._looking:
            found = stamp(self._path)
            if found == self._stamp:
                return
            self._stamp = found
            try:
                self._token = _read(self._setting, self._path)
            except SettingsError as error:
                logger.error("the new token cannot be used, the old one stays", reason=error.message)
            else:
                logger.info("a token was replaced", setting=self._setting, file=str(self._path))


def _read(name: str, path: Path) -> bytes:
    """Raises SettingsError."""
    setting = f"setting {name} = '{path}'"
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(TOKEN_BYTES_MAX + 1).strip()
    except OSError as error:
        raise SettingsError(f"{setting}: {error.strerror}") from error
    if mode & OTHERS:
        raise SettingsError(f"{setting}: other users can read it: chmod 600 '{path}'")
    if not TOKEN_BYTES_MIN <= len(token) <= TOKEN_BYTES_MAX:
        raise SettingsError(f"{setting}: a token has {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} bytes")
    return token
