"""A browser for tests: it keeps cookies, sends the tokens of forms, and needs no network."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Scope

from strandline.console.web.access import Guard

FORM = "application/x-www-form-urlencoded"
ANSWER_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered. `headers` has lower-case names, the last value of each."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def words(self) -> str:
        """The text without its tags, blanks as one."""
        return " ".join(re.sub(r"<[^>]*>", " ", self.text).split())


@dataclass(slots=True)
class Browser:
    """Opens pages of `application` as `host` names it."""

    application: ASGIApp
    host: str = "127.0.0.1:8088"
    scheme: str = "http"
    address: str = "127.0.0.1"
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Answer:
        """Headers are named with `_` for `-`."""
        return await self.send("GET", path, headers=headers)

    async def post(self, path: str, fields: Mapping[str, object] | None = None, **headers: str) -> Answer:
        """Sends a form with the token of this browser, as a page of the console does."""
        sent = {"csrf": await self.csrf(), **(fields or {})}
        return await self.send(
            "POST", path, urlencode(sent).encode(), headers={"content_type": FORM, **headers}
        )

    def request(self) -> Request:
        """A request of this browser, as a page gets it: the guard has found its session."""
        assert isinstance(self.application, Guard)
        state = self.application.state_of(Headers({"cookie": self._cookie()}))
        return Request({"type": "http", "method": "GET", "path": "/", "headers": [], "state": state})

    def _cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    async def csrf(self) -> str:
        """The token of this browser's forms, which every page has."""
        page = await self.get("/nowhere")
        if page.status == 303:  # it has to log in first
            page = await self.get(page.headers["location"])
        found = re.search(r'name="csrf-token" content="(\w+)"', page.text)
        assert found is not None
        return found[1]

    async def follow(self, path: str, body: bytearray, leave: asyncio.Event) -> None:
        """Appends a stream to `body` until it ends, as it does once the browser has left."""
        waiting: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Message:
            if waiting:
                return waiting.pop()
            await leave.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            body.extend(message.get("body", b""))

        async with asyncio.timeout(ANSWER_S_MAX):
            await self.application(self._scope("GET", path, {}), receive, send)

    async def send(
        self, method: str, path: str, body: bytes = b"", *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request, and its whole answer."""
        given = dict(headers or {})
        if body:
            given.setdefault("content_length", str(len(body)))
        scope = self._scope(method, path, given)
        sent: list[Message] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if waiting:
                return waiting.pop()
            await asyncio.get_running_loop().create_future()  # as a browser that waits for the answer
            raise AssertionError("nothing more comes")

        async def send(message: Message) -> None:
            sent.append(message)

        async with asyncio.timeout(ANSWER_S_MAX):
            await self.application(scope, receive, send)
        return self._answer(sent)

    def _scope(self, method: str, path: str, headers: Mapping[str, str]) -> Scope:
        parts = urlsplit(path)
        given = {"host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.cookies:
            given.setdefault("cookie", self._cookie())
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": self.scheme,
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
            "client": (self.address, 50_000),
            "server": ("127.0.0.1", 8088),
        }

    def _answer(self, sent: list[Message]) -> Answer:
        begun, *rest = sent
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in begun["headers"]}
        for name, value in begun["headers"]:
            if name.lower() == b"set-cookie":
                cookie, _, attributes = value.decode().partition(";")
                key, _, content = cookie.partition("=")
                if "max-age=0" in attributes.lower():
                    self.cookies.pop(key, None)
                else:
                    self.cookies[key] = content
        return Answer(begun["status"], headers, b"".join(part.get("body", b"") for part in rest))
