"""Who asks for a call: its caller, or the one for whom a member of the cluster makes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from strandline.adapters.rpc.member_key import MemberKey
from strandline.ports import Caller
from strandline.security.audit.entry import Source, shortened, source_of
from strandline.security.principal import USER, Principal
from strandline.security.quotas.bill import Bill, ClientQuotas
from strandline.serving.asked import doing_for
from strandline.vocabulary.state_changes import AskedBy


@dataclass(frozen=True, slots=True)
class Askers:
    """What a call says of another caller counts if it shows the members' key."""

    key: MemberKey
    quotas: ClientQuotas

    def source(self, caller: Caller) -> Source | None:
        """None: a member of the cluster asks for itself."""
        if not self.key.is_shown(caller.member_key):
            return source_of(caller)
        return None if caller.asks_for is None else shortened(caller.asks_for)

    def bill(self, caller: Caller) -> Bill | None:
        """The bill of the one who asks. None: it has no quota to keep, as members of the cluster have
        none."""
        if not self.key.is_shown(caller.member_key):
            return self.quotas.of(caller)
        source = caller.asks_for
        if source is None:
            return None
        principal = Principal(source.principal.removeprefix(f"{USER}:"))
        return self.quotas.of(
            replace(caller, principal=principal, member_key=None, client_id=source.client_id)
        )

    @contextmanager
    def doing_for(self, caller: Caller) -> Iterator[None]:
        """What is done within it is done for the one who asks, and counts for its quotas."""
        source = self.source(caller)
        by = None if source is None else AskedBy(source.principal, source.address)
        with doing_for(by, self.bill(caller)):
            yield
