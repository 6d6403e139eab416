"""Rights for handlers under test: without an authorizer, every caller may do everything."""

from __future__ import annotations

from strandline.broker.log.guarded import GuardedLog
from strandline.broker.log.handlers import Handlers
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer
from tests.broker.support.replicas import CLOCK

OPEN = Access(Authorizer(None))
CALLER = Caller("ipv4:192.0.2.1:1", "192.0.2.1")


def opened(handlers: Handlers) -> GuardedLog:
    """The handlers, for every caller."""
    return GuardedLog(handlers, OPEN, CLOCK)
