"""Fetches the public keys of an issuer. A process loads this only if it does: Python's HTTP client and what
that needs are dozens of modules."""

from __future__ import annotations

import http.client
import urllib.request
from typing import Any, Final

from strandline.ports import Clock
from strandline.security.login.tokens import UnusableKeys, check_size

FETCH_S_MAX: Final = 5.0
"""The longest wait for the issuer."""
CHUNK_BYTES: Final = 16 * 1024


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirection is an error: it could lead to a place that is not encrypted."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def fetch(url: str, clock: Clock) -> bytes:
    """What the address has, within bounds of time and size. Raises OSError, UnusableKeys."""
    ends_at = clock.monotonic() + FETCH_S_MAX
    opener = urllib.request.build_opener(_NoRedirect)
    data = bytearray()
    try:
        with opener.open(url, timeout=FETCH_S_MAX) as answer:
            while chunk := answer.read1(CHUNK_BYTES):
                data += chunk
                check_size(data)
                if clock.monotonic() > ends_at:
                    raise TimeoutError(f"it took longer than {FETCH_S_MAX:.0f} s")
    except http.client.HTTPException as error:
        raise UnusableKeys(str(error)) from error
    return bytes(data)
