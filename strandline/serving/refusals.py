"""Has the audit log know of callers that a gRPC listener refuses for their certificates."""

from __future__ import annotations

from collections.abc import Callable

from strandline.adapters.rpc.server.held_calls import host_of
from strandline.adapters.telemetry.audit import Audit
from strandline.config.security import SSL
from strandline.errors import StrandlineError
from strandline.ports import Caller
from strandline.security.login.steps import LoginRefused, Why


def refusals_noted(
    then: Callable[[StrandlineError, str], None], audit: Audit
) -> Callable[[StrandlineError, str], None]:
    """For `strandline.host.Listen`: notes callers whose certificates give no principal, and calls `then`."""

    def note(error: StrandlineError, peer: str) -> None:
        then(error, peer)
        if isinstance(error, LoginRefused) and error.why is Why.CERTIFICATE:
            audit.login_refused(Caller(peer, host_of(peer)), SSL, error)

    return note
