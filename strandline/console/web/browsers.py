"""What a browser shows with each request: a cookie that names it, and a token in each form."""

from __future__ import annotations

import hmac
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final

from strandline.config.console import ConsoleSettings
from strandline.host import Host

DIGITS: Final = 32
"""Of a browser's id."""


class Browsers:
    """Names browsers. An id cannot be guessed, and only its own browser knows it."""

    def __init__(self, settings: ConsoleSettings, host: Host) -> None:
        self._new_id = host.new_id
        self._secret = host.new_id().encode()
        self._encrypted = settings.encrypted
        prefix = "__Host-" if settings.encrypted else ""
        self._cookie = f"{prefix}strandline-console-{settings.port}"  # ports of a host share their cookies

    def new(self) -> str:
        """An id for a browser that has none, or that has just logged in or out."""
        return self._new_id()

    def shown(self, cookies: str) -> str | None:
        """The id in the header `Cookie`; None: no id of ours is there."""
        try:
            found = SimpleCookie(cookies).get(self._cookie)
        except CookieError:
            return None
        value = "" if found is None else found.value
        return value if len(value) == DIGITS and value.isascii() and value.isalnum() else None

    def cookie(self, browser: str) -> str:
        """The value of the header `Set-Cookie`: no script reads it, and no other site's request has it."""
        secure = "; Secure" if self._encrypted else ""
        return f"{self._cookie}={browser}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def csrf(self, browser: str) -> str:
        """What a form of this browser has to show, so that no other site can make one."""
        return hmac.new(self._secret, browser.encode(), sha256).hexdigest()
