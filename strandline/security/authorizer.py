"""The authorizer of a process: its rules, its ACLs, and the decisions it remembers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from strandline.security.acls import Operation, ResourceType, plain_address
from strandline.security.asker import Asker
from strandline.security.decide import Acls, Decision, Ground, decide, decide_any
from strandline.security.login.mechanisms import OAUTHBEARER
from strandline.security.members import MemberPrincipals
from strandline.security.principal import ANONYMOUS, Principal
from strandline.security.rights import Right

CALLERS_MAX: Final = 1_000
"""Pairs of principal and address with remembered decisions."""
DECISIONS_PER_CALLER_MAX: Final = 1_000
"""Names are the client's: without a bound, a client could fill the memory."""


OnDecided = Callable[[Asker, Right, str, Decision], None]
"""Called with each decision that is remembered, once."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings say about authorization."""

    super_users: frozenset[Principal] = frozenset()
    brokers: MemberPrincipals = MemberPrincipals()  # noqa: RUF009 - frozen
    controllers: MemberPrincipals = MemberPrincipals()  # noqa: RUF009 - frozen
    allow_everyone_if_no_acl_found: bool = False
    super_users_by_token: bool = False
    """Whether a token may give a super user's principal."""

    def unasked(self, principal: Principal) -> Ground | None:
        """Why this principal may do everything; None: the ACLs decide."""
        if principal in self.super_users:
            return Ground.SUPER_USER
        return Ground.MEMBER if self.is_member(principal) else None

    def is_member(self, principal: Principal) -> bool:
        """Whether it is the principal of a broker or a controller."""
        return self.brokers.id_of(principal) is not None or self.controllers.id_of(principal) is not None


class Authorizer:
    """Decides what callers may do. Without rules, everything is allowed."""

    def __init__(self, rules: Rules | None, on_decided: OnDecided | None = None) -> None:
        self.rules = rules
        self._on_decided = on_decided
        self._acls: Acls | None = None
        self._version = -1
        self._callers: dict[tuple[Principal, str], dict[tuple[Operation, ResourceType, str], bool]] = {}

    def is_member(self, principal: Principal) -> bool:
        """Whether it is the principal of a broker or a controller, by the rules."""
        return self.rules is not None and self.rules.is_member(principal)

    def is_super_user(self, principal: Principal) -> bool:
        """Whether it needs no ACL, by the rules."""
        return self.rules is not None and principal in self.rules.super_users

    def withholds(self, principal: Principal, mechanism: str) -> bool:
        """Whether a login by this mechanism never gives the principal: the one of callers without a name, a
        member's, and, by a token, a super user's unless the rules say so. The issuer of tokens may let its
        users choose their names; a super user's password is set by super users alone."""
        if principal == ANONYMOUS or self.is_member(principal):
            return True
        by_token = self.rules is not None and self.rules.super_users_by_token
        return mechanism == OAUTHBEARER and self.is_super_user(principal) and not by_token

    @property
    def acls(self) -> Acls | None:
        """The last picture of the ACLs; None: they were never read."""
        return self._acls

    @property
    def version(self) -> int:
        """Changes with each decision that may change: a stream compares it to ask again."""
        return self._version

    @property
    def loaded(self) -> bool:
        """Whether it knows ACLs to decide by, or needs none."""
        return self.rules is None or self._acls is not None

    def take(self, acls: Acls) -> None:
        """Decide by these ACLs from now on."""
        self._acls = acls
        self._version = acls.version
        self._callers.clear()

    def forget(self) -> None:
        """Another process may change the ACLs from now on, unseen by this one."""
        self._acls = None
        self._callers.clear()

    def allowed(self, caller: Asker, operation: Operation, of: ResourceType, name: str) -> bool:
        """Whether the caller may do the operation on the resource."""
        if self.rules is None:
            return True
        known = self._callers.get((caller.principal, caller.host))
        if known is None:
            known = self._remember(caller)
        asked = (operation, of, name)
        allowed = known.get(asked)
        if allowed is None:
            decision = self.decision(caller, operation, of, name)
            allowed = decision.allowed
            if len(known) >= DECISIONS_PER_CALLER_MAX:
                known.clear()
            known[asked] = allowed
            if self._on_decided is not None:
                self._on_decided(caller, Right(operation, of), name, decision)
        return allowed

    def decision(self, caller: Asker, operation: Operation, of: ResourceType, name: str) -> Decision:
        """The same, with the reason."""
        if (rules := self.rules) is None:
            return Decision(True, Ground.OFF)
        if (ground := rules.unasked(caller.principal)) is not None:
            return Decision(True, ground)
        if self._acls is None:
            return Decision(False, Ground.NOT_LOADED)
        found = decide(self._acls, caller.principal, plain_address(caller.host), operation, of, name)
        if found.why is Ground.NO_ACL_FOUND:
            if rules.allow_everyone_if_no_acl_found:
                return replace(found, allowed=True)
            return Decision(False, Ground.NO_ACL)
        return found

    def allowed_any(self, caller: Asker, operation: Operation, of: ResourceType) -> bool:
        """Whether the caller may do the operation on at least one resource of the type."""
        if (rules := self.rules) is None or rules.unasked(caller.principal) is not None:
            return True
        if self._acls is None:
            return False
        found = decide_any(self._acls, caller.principal, plain_address(caller.host), operation, of)
        return found.allowed or (found.why is Ground.NO_ACL and rules.allow_everyone_if_no_acl_found)

    def remembered(self) -> int:
        """The number of decisions that are remembered."""
        return sum(map(len, self._callers.values()))

    def _remember(self, caller: Asker) -> dict[tuple[Operation, ResourceType, str], bool]:
        if len(self._callers) >= CALLERS_MAX:
            self._callers.clear()
        return self._callers.setdefault((caller.principal, caller.host), {})
