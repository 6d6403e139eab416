"""Sessions: what a caller shows after a login, for as long as its connection and the login last.

A session counts on the connection on which it was opened, and nowhere else.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from strandline.errors import AuthenticationFailed, IllegalSaslState
from strandline.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Session:
    """One login that succeeded."""

    connection: str
    principal: Principal
    mechanism: str
    ends_at: float
    """In monotonic seconds."""

    def ended(self, now: float) -> bool:
        return now >= self.ends_at


class Sessions:
    """The sessions of one process. Beyond the bound, the one that was not used for the longest time ends."""

    def __init__(self, sessions_max: int, lifetime_s: float) -> None:
        self._sessions_max = sessions_max
        self.lifetime_s = lifetime_s
        self._by_token: OrderedDict[bytes, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_token)

    def open(
        self, token: bytes, connection: str, principal: Principal, mechanism: str, now: float
    ) -> Session:
        """`token`: random, and never used before."""
        session = Session(connection, principal, mechanism, now + self.lifetime_s)
        self._by_token[token] = session
        while len(self._by_token) > self._sessions_max:
            self._by_token.popitem(last=False)
        return session

    def find(self, token: bytes | None, connection: str, now: float) -> Session:
        """The session that a call shows. Raises IllegalSaslState if the call shows none, or one of another
        connection; AuthenticationFailed if the session has ended."""
        if token is None:
            raise IllegalSaslState("this port asks its callers to log in first")
        session = self._by_token.get(token)
        if session is None:
            raise AuthenticationFailed("the session of this call has ended")
        if session.connection != connection:
            raise IllegalSaslState("the session of this call belongs to another connection")
        if session.ended(now):
            del self._by_token[token]
            raise AuthenticationFailed("the session of this call has ended")
        self._by_token.move_to_end(token)
        return session
