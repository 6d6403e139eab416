"""What stands between the network and the pages: hosts, origins, tokens of forms, sizes, safety headers."""

from __future__ import annotations

import asyncio
import hmac
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strandline.config.console import ConsoleSettings
from strandline.config.security import is_loopback
from strandline.console.web.context import Console
from strandline.console.web.errors import refusal
from strandline.console.web.queries import form_fields

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SAFETY: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, a browser hides the origin of its own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
METHODS: Final = ("GET", "HEAD", "POST")
STATIC: Final = "/static/"
HEALTH: Final = "/healthz"
CSRF: Final = "csrf"
"""The field of a form that shows its page was ours; a script sends the header of `CSRF_HEADER` instead."""
CSRF_HEADER: Final = "x-csrf-token"
OURS: Final = ("same-origin", "none")
"""Values of Sec-Fetch-Site of requests that no other site caused."""
ID_DIGITS: Final = 32


class Guard:
    """Lets a request pass to the pages, or refuses it. Every answer gets the headers of `SAFETY`."""

    def __init__(self, console: Console, pages: ASGIApp) -> None:
        self._console = console
        self._pages = pages
        self._settings = console.settings
        self._secret = console.host.new_id().encode()
        prefix = "__Host-" if self._settings.encrypted else ""
        self._cookie = f"{prefix}strandline-console"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the console speaks HTTP only, not {scope['type']}")
        browser = self._browser(Headers(scope=scope).get("cookie", ""))
        is_new = browser is None and not scope["path"].startswith(STATIC) and scope["path"] != HEALTH
        browser = browser or self._console.host.new_id()
        state = {"browser": browser, "csrf": self._csrf(browser), "user": None, "admitted": False}
        scope = {**scope, "state": state}

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SAFETY)
                headers.setdefault("Cache-Control", "no-store")
                if is_new and "set-cookie" not in headers:
                    headers.append("Set-Cookie", self._set_cookie(browser))
            await send(message)

        try:
            receive = await self._checked(scope, receive)
            state["admitted"] = True
        except HTTPException as error:
            await refusal(self._console, Request(scope), error)(scope, receive, send_safely)
            return
        await self._pages(scope, receive, send_safely)

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        """What the pages receive the request from. Raises HTTPException."""
        headers = Headers(scope=scope)
        if scope["method"] not in METHODS:
            raise HTTPException(405, "the console knows GET, HEAD and POST", {"Allow": ", ".join(METHODS)})
        host = headers.get("host", "")
        if not is_ours(host, self._settings):
            raise HTTPException(
                400,
                f"this console is not {host[:100]!r}: host_names lists the names under which it is reached",
            )
        if scope["method"] != "POST":
            return receive
        if not came_from_here(headers, scope["scheme"], host):
            raise HTTPException(403, "another site sent this form")
        body = await self._body(headers, receive)
        shown = headers.get(CSRF_HEADER) or form_fields(headers, body).get(CSRF, "")
        if not hmac.compare_digest(shown.encode(), scope["state"]["csrf"].encode()):
            raise HTTPException(403, "the form is too old, or not of this console: load its page again")
        return _replayed(body, receive)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Raises HTTPException if it is too large, or takes too long."""
        most = self._settings.request_bytes_max
        too_large = HTTPException(413, f"a request has at most {most:,} bytes (request_bytes_max)")
        said = headers.get("content-length", "0")
        if not (said.isascii() and said.isdigit()) or int(said) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.request_ms_max / 1000):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HTTPException(400, "the request ended too early")
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise HTTPException(408, "the request took too long to arrive") from None

    def _csrf(self, browser: str) -> str:
        return hmac.new(self._secret, browser.encode(), sha256).hexdigest()

    def _browser(self, cookies: str) -> str | None:
        """What the browser shows; None: nothing that this console gave out."""
        try:
            found = SimpleCookie(cookies).get(self._cookie)
        except CookieError:
            return None
        value = "" if found is None else found.value
        return value if len(value) == ID_DIGITS and value.isascii() and value.isalnum() else None

    def _set_cookie(self, browser: str) -> str:
        secure = "; Secure" if self._settings.encrypted else ""
        return f"{self._cookie}={browser}; Path=/; HttpOnly; SameSite=Strict{secure}"


def is_ours(host: str, settings: ConsoleSettings) -> bool:
    """Whether a browser that asks for this host means this console. A page of another site whose name
    leads here (DNS rebinding) asks for that name, never for an address."""
    name = host.rpartition(":")[0] if _has_port(host) else host
    name = name.strip("[]").rstrip(".").lower()
    if name in {each.strip().lower() for each in settings.host_names.split(",") if each.strip()}:
        return True
    if is_loopback(settings.host):
        return is_loopback(name)
    if name == settings.host.lower():
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or host.startswith("["))


def came_from_here(headers: Headers, scheme: str, host: str) -> bool:
    """Whether no page of another site caused this request, as far as the browser says (Fetch Metadata)."""
    if headers.get("sec-fetch-site", OURS[0]) not in OURS:
        return False
    origin = headers.get("origin")
    return origin is None or origin.lower() == f"{scheme}://{host}".lower()


def _replayed(body: bytes, receive: Receive) -> Receive:
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again
