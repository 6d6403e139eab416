"""The pages of the port for metrics: `/metrics`, for those who may read them, and health, for everyone.

Health names nothing: a prober needs no token, and a stranger learns nothing but whether the process serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import structlog

from strandline.adapters.telemetry.bearer_token import BearerToken

logger = structlog.get_logger(__name__)

METRICS: Final = "/metrics"
ALIVE: Final = "/healthz"
READY: Final = "/readyz"

Application = Callable[..., Iterable[bytes]]
"""A WSGI application (PEP 3333)."""


class Health(Protocol):
    """Both methods raise TimeoutError if the service's event loop is busy for too long, RuntimeError once
    it is closed."""

    def alive(self) -> bool:
        """True: the loop has turned."""
        ...

    def ready(self) -> bool:
        """Whether the service serves its clients."""
        ...


def pages(metrics: Application, health: Health, token: BearerToken | None) -> Application:
    """A WSGI application. `metrics` answers any path by itself; here it has one, and callers need the token.

    None: they need none.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def say(status: str, text: str, *headers: tuple[str, str]) -> list[bytes]:
            start_response(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
            return [f"{text}\n".encode()]

        def found(good: bool) -> list[bytes]:
            return say("200 OK", "ok") if good else say("503 Service Unavailable", "not ready")

        try:
            path = environ.get("PATH_INFO")
            if path == ALIVE:
                return found(health.alive())
            if path == READY:
                return found(health.ready())
            if path != METRICS:
                return say("404 Not Found", f"there are {METRICS}, {ALIVE} and {READY} here")
            if token is None or token.is_shown(environ.get("HTTP_AUTHORIZATION", "")):
                return metrics(environ, start_response)
            challenge = ("WWW-Authenticate", "Bearer")
            return say("401 Unauthorized", "show the token of metrics_token_file", challenge)
        except (TimeoutError, RuntimeError) as error:
            logger.warning("a request to the metrics' port was not answered", reason=repr(error))
            return say("503 Service Unavailable", "the service is busy, or stops")

    return serve
