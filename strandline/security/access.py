"""What a handler asks about its caller: may it do this? A refusal is a typed error that names the caller,
the operation and the resource.

A handler knows neither how a caller proved its name nor where the ACLs come from. Without an authorizer
nothing is refused, and a question costs one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from strandline.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    LeaderNotAvailable,
    NotCoordinator,
    NotLeaderOrFollower,
    StrandlineError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from strandline.security.acls import CLUSTER_NAME, ResourceType
from strandline.security.asker import Asker
from strandline.security.authorizer import Authorizer
from strandline.security.members import unknown_key
from strandline.security.principal import ANONYMOUS, Principal
from strandline.security.rights import CLUSTER_ACTION, IDEMPOTENT_WRITE, WRITE_TOPIC, Right
from strandline.security.split import Entry, Split

_ERRORS: Final = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}
"""The refusals by type of resource; for other types ClusterAuthorizationFailed."""


OnDenied = Callable[[Asker, Right, str], None]
"""Called with a right that a caller does not have, and the name of the resource, at each refusal."""


def _no_key(shown: bytes | None) -> bool:
    return False


_NOT_READY: Final = {
    ResourceType.TOPIC: NotLeaderOrFollower,
    ResourceType.GROUP: NotCoordinator,
    ResourceType.TRANSACTIONAL_ID: NotCoordinator,
}
"""What a broker is not before it knows the ACLs; for other types LeaderNotAvailable. After these, every Kafka
client asks again: BrokerNotAvailable is final for some of them."""

OnChanged = Callable[[Asker, Right, str, Mapping[str, Any], StrandlineError | None], None]
"""Called with a change that a caller made: the right, the name of the resource, and the arguments; with an
error, one that it may have made."""


class Access:
    """The rights of all callers of one process."""

    def __init__(
        self,
        authorizer: Authorizer,
        is_member_key: Callable[[bytes | None], bool] = _no_key,
        not_ready: Callable[[], StrandlineError] | None = None,
        on_denied: OnDenied | None = None,
        on_changed: OnChanged | None = None,
    ) -> None:
        """`is_member_key`: whether this is the key that the members of the cluster show each other.
        `not_ready` makes the refusal of a caller that needs ACLs while the authorizer has none yet; None: as
        a broker refuses it."""
        self.authorizer = authorizer
        self._is_member_key = is_member_key
        self._not_ready = not_ready
        self._on_denied = on_denied
        self._on_changed = on_changed

    @property
    def enforced(self) -> bool:
        """False: there is no authorizer, and every caller may do everything."""
        return self.authorizer.rules is not None

    # --- rights ------------------------------------------------------------------------------

    def allowed(self, caller: Asker, right: Right, name: str = CLUSTER_NAME) -> bool:
        """Whether the caller has the right to the resource of this name."""
        if not self.enforced:
            return True
        return self.authorizer.allowed(caller, *right, name) or self._is_member_key(caller.member_key)

    def refusal(self, caller: Asker, right: Right, name: str = CLUSTER_NAME) -> StrandlineError | None:
        """Why the caller may not use the right; None if it may."""
        return None if self.allowed(caller, right, name) else self.refused(caller, right, name)

    def check(self, caller: Asker, right: Right, name: str = CLUSTER_NAME) -> None:
        """Raises TopicAuthorizationFailed, GroupAuthorizationFailed, TransactionalIdAuthorizationFailed or
        ClusterAuthorizationFailed, and a retriable error before the ACLs are known."""
        if not self.allowed(caller, right, name):
            raise self.refused(caller, right, name)

    def refusals(self, caller: Asker, right: Right, names: Iterable[str]) -> dict[str, StrandlineError]:
        """The refusals by name, for those of these names to which the caller does not have the right."""
        if not self.enforced:
            return {}
        return {
            name: self.refused(caller, right, name)
            for name in set(names)
            if not self.allowed(caller, right, name)
        }

    def split(
        self, caller: Asker, right: Right, entries: Sequence[Entry], name: Callable[[Entry], str]
    ) -> Split[Entry]:
        """The entries of a request, by whether the caller has the right to what each of them names."""
        return Split(entries, name, self.refusals(caller, right, map(name, entries)))

    def check_idempotent(self, caller: Asker) -> None:
        """A producer id is for callers that may write to a topic (KIP-679). Raises
        ClusterAuthorizationFailed."""
        if self.allowed(caller, IDEMPOTENT_WRITE):
            return
        if not self.authorizer.allowed_any(caller, *WRITE_TOPIC):
            raise self.refused(caller, IDEMPOTENT_WRITE, CLUSTER_NAME)

    def refused(self, caller: Asker, right: Right, name: str) -> StrandlineError:
        """The refusal itself, or a retriable error before the ACLs are known."""
        if self.authorizer.loaded:
            self._note_denial(caller, right, name)
            return _refusal(caller, right, name)
        if self._not_ready is not None:
            return self._not_ready()
        error = _NOT_READY.get(right.of, LeaderNotAvailable)
        return error("the ACLs are not known here yet; ask again soon")

    # --- names -------------------------------------------------------------------------------

    def owner(self, caller: Asker) -> Principal | None:
        """The principal to which names belong that the caller makes; None: callers are not distinguished."""
        return caller.principal if self.enforced else None

    # --- members of the cluster --------------------------------------------------------------

    def is_member(self, caller: Asker) -> bool:
        """Whether the caller is a broker or a controller, by its name or by the key that it shows."""
        return self.authorizer.is_member(caller.principal) or self._is_member_key(caller.member_key)

    def member_refusal(self, caller: Asker) -> StrandlineError | None:
        """Why the caller does not count as a member of the cluster; None if it does. No ACL makes a member,
        and without an authorizer the key alone does."""
        if self.is_member(caller):
            return None
        if caller.member_key is not None:
            return unknown_key()
        self._note_denial(caller, CLUSTER_ACTION, CLUSTER_NAME)
        return ClusterAuthorizationFailed(
            f"{caller.principal} from {caller.host} is no member of this cluster: it shows no members' key"
        )

    def check_member(self, caller: Asker) -> None:
        """Raises ClusterAuthorizationFailed unless the caller is a broker or a controller of the cluster, and
        BrokerNotAvailable for a key that this process has not read."""
        if (refusal := self.member_refusal(caller)) is not None:
            raise refusal

    def check_broker(self, caller: Asker, broker: int) -> None:
        """Raises as `check_member`, and for a member that is not that broker. Without an authorizer, and of a
        caller without a name, the members' key is asked, and its bearer's id is believed."""
        rules = self.authorizer.rules
        if rules is None or caller.principal == ANONYMOUS:
            self.check_member(caller)
        elif rules.brokers.id_of(caller.principal) != broker:
            self._note_denial(caller, CLUSTER_ACTION, CLUSTER_NAME)
            raise ClusterAuthorizationFailed(
                f"{caller.principal} from {caller.host} is not broker {broker} (broker_principals)"
            )

    def changed(
        self,
        caller: Asker,
        right: Right,
        name: str,
        error: StrandlineError | None = None,
        **arguments: Any,
    ) -> None:
        """Note that the caller has used the right to change something; with an error, that it may have."""
        if self._on_changed is not None:
            self._on_changed(caller, right, name, arguments, error)

    def _note_denial(self, caller: Asker, right: Right, name: str) -> None:
        if self._on_denied is not None:
            self._on_denied(caller, right, name)


def _refusal(caller: Asker, right: Right, name: str) -> StrandlineError:
    kind = right.of.name.lower().replace("_", " ")
    what = "the cluster" if right.of is ResourceType.CLUSTER else f"{kind} {name!r}"
    error = _ERRORS.get(right.of, ClusterAuthorizationFailed)
    return error(f"{caller.principal} from {caller.host} has no right to {right.operation.name} on {what}")
