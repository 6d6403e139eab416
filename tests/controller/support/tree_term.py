"""A term on a tree of znodes in memory."""

from __future__ import annotations

from typing import Any

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.service_host import service_host
from strandline.config.services.controller import ControllerSettings
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.term import Term
from strandline.ports import Coordination
from strandline.vocabulary.metadata import Endpoint
from tests.controller.support.running import MULTI_BYTES


def term_in(session: Coordination, **settings: Any) -> Term:
    """A term in epoch 0. The controller's znodes must exist."""
    host = service_host()
    given = {"zookeeper": "localhost:1", "multi_bytes_max": MULTI_BYTES, **settings}
    endpoint = Endpoint(7, "localhost", 7_000)
    return Term(
        FencedSession(session, 0), endpoint, ControllerSettings(**given), host, MemberKey(host.new_id)
    )
