"""Rights for handlers under test: without an authorizer, every caller may do everything."""

from __future__ import annotations

from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer

OPEN = Access(Authorizer(None))
CALLER = Caller("ipv4:192.0.2.1:1", "192.0.2.1")
