"""The login of one connection: where it is, and what may be asked meanwhile.

States: no mechanism yet → `begun`, with a mechanism → logged in, with a principal → `begun` again, to renew
the login before it ends (KIP-368). A failed login is the end of its connection.
"""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from strandline.broker.kafka.wire.header import API_VERSIONS
from strandline.security.login.steps import Login, LoginRefused, Why
from strandline.security.principal import Principal

OF_LOGINS: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})
"""What a connection may ask before it is logged in."""
FRAME_BYTES_MAX: Final = 64 * 1024
"""The largest frame before a login."""
LOGIN_S_MAX: Final = 10.0
"""A new connection has this time to log in."""


class ConnectionLogin:
    """Of one connection to a port with SASL."""

    def __init__(self, now: float) -> None:
        self.opened_at = now
        self.begun: Login | None = None
        """The login in progress."""
        self.bare = False
        """True if the messages of the login in progress have no headers."""
        self.failed = False
        """True: the connection ends after the answer."""
        self.principal: Principal | None = None
        self.mechanism = ""
        self._ends_at: float | None = None
        """None: never."""

    def permits(self, api: int, now: float) -> bool:
        """Whether this API may be asked now. A login that has ended may only be renewed."""
        if api in OF_LOGINS:
            return True
        ended = self._ends_at is not None and now >= self._ends_at
        return self.principal is not None and self.begun is None and not ended

    def begin(self, login: Login, *, bare: bool) -> None:
        """A login begins, or is renewed. Raises AuthenticationFailed for another mechanism than before."""
        if self.principal is not None and login.mechanism != self.mechanism:
            message = f"a login by {self.mechanism} is renewed by the same mechanism"
            raise LoginRefused(message, Why.OTHER_USER, self.principal.name)
        self.begun, self.bare = login, bare

    def succeed(self, principal: Principal, ends_at: float | None) -> None:
        """Raises AuthenticationFailed for another principal than before: its requests would be mixed up."""
        assert self.begun is not None
        if self.principal not in (None, principal):
            raise LoginRefused("a login is renewed by the same user", Why.OTHER_USER, principal.name)
        self.principal, self.mechanism, self._ends_at = principal, self.begun.mechanism, ends_at
        self.begun, self.bare = None, False

    def overdue(self, now: float) -> bool:
        """True for a new connection that takes too long to log in."""
        return self.principal is None and now - self.opened_at > LOGIN_S_MAX
