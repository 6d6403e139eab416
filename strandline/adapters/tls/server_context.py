"""A server's context for Python's TLS that always shows the newest certificate."""

from __future__ import annotations

import ssl
from typing import Any, Self

from strandline.adapters.tls.reloaded import ReloadedPem


class NewestContext(ssl.SSLContext):
    """Stands for the context of the newest files: a server keeps one, and asks it at each connection."""

    _pem: ReloadedPem

    def __new__(cls, pem: ReloadedPem) -> Self:
        context = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        context._pem = pem
        return context

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Asyncio and uvloop begin each connection with it."""
        return self._newest().wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """Servers with threads begin each connection with it."""
        return self._newest().wrap_socket(*args, **kwargs)

    def _newest(self) -> ssl.SSLContext:
        server = self._pem.now().server
        assert server is not None, "a process that serves has a server's context"
        return server
