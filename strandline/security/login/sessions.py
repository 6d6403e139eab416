"""Sessions: what a call shows after a login, for as long as its connection and the login last.

A connection has one session, which counts nowhere else. A further login on it begins another one in its
place.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from dataclasses import dataclass, field

from strandline.errors import AuthenticationFailed, IllegalSaslState
from strandline.room import first_of_most
from strandline.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Session:
    """A login that succeeded."""

    token: str = field(repr=False)
    """Random: who knows it, on its connection, is the caller that logged in."""
    principal: Principal
    mechanism: str
    ends_at: float | None
    """Monotonic seconds; None: with its connection."""


class Sessions:
    """The sessions of one process, by connection. Beyond the bound, one of the principal that has most ends:
    the one that was used least recently."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._of: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._of)

    def begin(self, connection: str, session: Session) -> None:
        """The connection has this session from now on."""
        if connection not in self._of and len(self._of) >= self._sessions_max:
            taken = ((each, has.principal) for each, has in self._of.items())
            del self._of[first_of_most(taken, session.principal)]
        self._of[connection] = session
        self._of.move_to_end(connection)

    def find(self, connection: str, token: str | None, now: float) -> Session:
        """The session that a call on this connection shows.

        Raises IllegalSaslState for no token, or one that is not this connection's; AuthenticationFailed if
        the session has ended.
        """
        if token is None:
            raise IllegalSaslState(
                "this port asks its callers to log in first: set security_protocol and sasl_mechanism"
            )
        session = self._of.get(connection)
        if session is None or not hmac.compare_digest(session.token.encode(), token.encode()):
            raise IllegalSaslState("the session of this call is not one of this connection: log in again")
        self._of.move_to_end(connection)
        check_session(session.ends_at, now)
        return session


def check_session(ends_at: float | None, now: float) -> None:
    """Raises AuthenticationFailed if a session that ends then has ended."""
    if ends_at is not None and now >= ends_at:
        raise AuthenticationFailed("the session of this call has ended: log in again")
