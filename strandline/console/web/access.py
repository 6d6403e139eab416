"""What stands between the network and the pages: hosts, origins, tokens of forms, sizes, safety headers."""

from __future__ import annotations

import asyncio
import hmac
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlencode

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strandline.config.console import ConsoleSettings
from strandline.config.limits import KIB
from strandline.config.security import is_loopback
from strandline.console.web.context import Site
from strandline.console.web.errors import API, refusal
from strandline.console.web.queries import form_fields

logger = structlog.get_logger(__name__)

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
LIVE: Final = "/live"
CSRF: Final = "csrf"
"""The field of a form that shows its page was ours; a script sends the header of `CSRF_HEADER` instead."""
CSRF_HEADER: Final = "x-csrf-token"
OURS: Final = ("same-origin", "none")
"""Values of Sec-Fetch-Site of requests that no other site caused."""
CHANGES: Final = "/changes/"
"""All that changes the cluster is below it, so that the guard refuses it unless changes are allowed."""
NOT_ALLOWED: Final = (
    "this console changes nothing: start it with --allow-changes (allow_changes = true) if it shall"
)
LOGIN: Final = "/login"
LOGIN_BYTES_MAX: Final = 32 * KIB
"""The largest form of a browser that has not logged in."""
TARGET_BYTES_MAX: Final = 16 * KIB
"""The longest path with its query: a search for 1,000 characters has 12,000 bytes."""
HEADERS_MAX: Final = 100
HEAD_BYTES_MAX: Final = 32 * KIB
"""The largest head of a request: its line and its headers."""


class Guard:
    """Lets a request pass to the pages, or refuses it. Every answer gets the headers of `SAFETY`."""

    def __init__(self, site: Site, pages: ASGIApp) -> None:
        self._site = site
        self._pages = pages
        self._settings = site.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the console speaks HTTP only, not {scope['type']}")
        browsers = self._site.browsers
        headers = Headers(scope=scope)
        state = self.state_of(headers)
        browser = state["browser"]
        is_new = browsers.shown(headers.get("cookie", "")) is None and not is_plain(scope["path"])
        scope = {**scope, "state": state}

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SAFETY)
                headers.setdefault("Cache-Control", "no-store")
                if is_new and "set-cookie" not in headers:
                    headers.append("Set-Cookie", browsers.cookie(browser))
            await send(message)

        try:
            check_head(scope)
            self._check_addressee(scope)
            if not state["admitted"] and not is_for_all(scope["path"]):
                await self._ask_to_log_in(scope)(scope, receive, send_safely)
                return
            if scope["path"].startswith(CHANGES) and not self._settings.allow_changes:
                raise HTTPException(403, NOT_ALLOWED)
            if scope["method"] == "POST":
                receive = await self._checked_form(scope, receive)
        except HTTPException as error:
            await refusal(self._site, Request(scope), error)(scope, receive, send_safely)
            return
        try:
            await self._pages(scope, receive, send_safely)
        except Exception as error:  # the browser has a page that says so, or its connection is closed
            logger.error("a page failed", path=scope["path"][:300], exc_info=error)

    def state_of(self, headers: Headers) -> dict[str, Any]:
        """What the pages know of a request with these headers: its browser, and who is logged in there."""
        browsers = self._site.browsers
        browser = browsers.shown(headers.get("cookie", "")) or browsers.new()
        session = self._site.sessions.find(browser)
        return {
            "browser": browser,
            "csrf": browsers.csrf(browser),
            "session": session,
            "user": None if session is None else session.user,
            "admitted": session is not None or not self._site.logins.are_needed,
        }

    def _check_addressee(self, scope: Scope) -> None:
        """Raises HTTPException for a method or a host that is not ours."""
        if scope["method"] not in METHODS:
            raise HTTPException(405, "the console knows GET, HEAD and POST", {"Allow": ", ".join(METHODS)})
        host = Headers(scope=scope).get("host", "")
        if not is_ours(host, self._settings):
            raise HTTPException(
                400,
                f"this console is not {host[:100]!r}: host_names lists the names under which it is reached",
            )

    def _ask_to_log_in(self, scope: Scope) -> Response:
        request = Request(scope)
        if scope["method"] == "POST" or scope["path"].startswith((API, LIVE)):
            return refusal(self._site, request, HTTPException(401, "log in first: load the page again"))
        wanted = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        return RedirectResponse(f"{LOGIN}?{urlencode({'next': own_path(wanted)})}", 303)

    async def _checked_form(self, scope: Scope, receive: Receive) -> Receive:
        """What the pages receive the form from. Raises HTTPException unless a page of ours sent it."""
        headers = Headers(scope=scope)
        if not came_from_here(headers, scope["scheme"], headers.get("host", "")):
            raise HTTPException(403, "another site sent this form")
        most = self._settings.request_bytes_max if scope["state"]["admitted"] else LOGIN_BYTES_MAX
        body = await self._body(headers, receive, most)
        shown = headers.get(CSRF_HEADER) or form_fields(headers, body).get(CSRF, "")
        if not hmac.compare_digest(shown.encode(), scope["state"]["csrf"].encode()):
            raise HTTPException(403, "the form is too old, or not of this console: load its page again")
        return _replayed(body, receive)

    async def _body(self, headers: Headers, receive: Receive, most: int) -> bytes:
        """Raises HTTPException if it is too large, or takes too long."""
        too_large = HTTPException(413, f"a request has at most {most:,} bytes")
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


def check_head(scope: Scope) -> None:
    """Raises HTTPException for a request whose line is too long, or whose headers are too many or too large.

    The server reads a head that is larger than HEAD_BYTES_MAX as long as it comes in few pieces.
    """
    target = len(scope["raw_path"]) + len(scope["query_string"])
    if target > TARGET_BYTES_MAX:
        raise HTTPException(414, f"an address has at most {TARGET_BYTES_MAX:,} bytes")
    headers = scope["headers"]
    if len(headers) > HEADERS_MAX:
        raise HTTPException(431, f"a request has at most {HEADERS_MAX} headers")
    if target + sum(len(name) + len(value) for name, value in headers) > HEAD_BYTES_MAX:
        raise HTTPException(431, f"the headers of a request have at most {HEAD_BYTES_MAX:,} bytes")


def own_path(wanted: str) -> str:
    """A path of this console; `/` for anything that a browser might take for another site's."""
    is_own = wanted.startswith("/") and not wanted.startswith("//") and wanted.isprintable()
    return wanted if is_own and "\\" not in wanted and wanted.isascii() else "/"


def is_for_all(path: str) -> bool:
    """Whether a browser gets this path before it has logged in."""
    return path == LOGIN or is_plain(path)


def is_plain(path: str) -> bool:
    """Whether what is there is the same for all."""
    return path == HEALTH or path.startswith(STATIC)


def is_ours(host: str, settings: ConsoleSettings) -> bool:
    """Whether a browser that asks for this host means this console. A page of another site whose name
    leads here (DNS rebinding) asks for that name, never for an address.

    The port is not compared: a tunnel or a container has another one for browsers, and a name that leads
    here may have any. Forms of pages at another port are refused by `came_from_here`.
    """
    name = host.rpartition(":")[0] if _has_port(host) else host
    name = name.strip("[]").rstrip(".").lower()
    if name in {each.strip().lower() for each in settings.host_names.split(",") if each.strip()}:
        return True
    if is_loopback(name) or name == settings.host.lower():
        return True
    if is_loopback(settings.host):
        return False
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
