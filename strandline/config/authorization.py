"""The settings about who may do what, of brokers and controllers alike."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from strandline.errors import InvalidRequest
from strandline.security.acls import EVERY
from strandline.security.authorizer import Rules
from strandline.security.members import MemberPrincipals
from strandline.security.principal import ANONYMOUS, Principal, parse_principals


class AuthorizationSettings(BaseModel):
    """Who may do what. All brokers and controllers of a cluster should agree."""

    model_config = ConfigDict(defer_build=True)

    authorizer: str = Field(default="none", pattern="^(none|acl)$")
    """none: every caller may do everything; acl: what the cluster's ACLs allow. It needs `super_users`."""
    super_users: str = Field(default="", validate_default=True)
    """Principals that need no ACL, with semicolons between them: `User:admin;User:CN=ops,O=x`."""
    super_users_by_token: bool = False
    """Whether a token (OAUTHBEARER) may give a super user's name: set it if its issuer gives that name to no
    one else."""
    broker_principals: str = "User:broker-{id}"
    """The principals of brokers, which need no ACL either: a template, or a list:
    `1=User:CN=b1;2=User:CN=b2`."""
    controller_principals: str = "User:controller-{id}"
    """The same for controllers."""
    allow_everyone_if_no_acl_found: bool = False
    """Whether every principal may use a resource that no ACL is about."""

    @field_validator("super_users")
    @classmethod
    def _can_administer(cls, text: str, info: ValidationInfo) -> str:
        named = parse_principals(_checked(parse_principals, text))
        if Principal(EVERY) in named:
            raise ValueError(
                f"{Principal(EVERY)} is everyone only in ACLs: name the super users, or set authorizer = none"
            )
        if not named and info.data.get("authorizer") == "acl":
            raise ValueError("authorizer = acl needs one: only a super user can write the first ACL")
        return text

    @field_validator("broker_principals", "controller_principals")
    @classmethod
    def _names_members(cls, text: str) -> str:
        if MemberPrincipals.parse(_checked(MemberPrincipals.parse, text)).id_of(ANONYMOUS) is not None:
            raise ValueError(f"{ANONYMOUS} is every caller without a name: each of them would be a member")
        return text

    def authorization_rules(self) -> Rules | None:
        """The rules for an authorizer; None: everything is allowed."""
        if self.authorizer == "none":
            return None
        return Rules(
            parse_principals(self.super_users),
            MemberPrincipals.parse(self.broker_principals),
            MemberPrincipals.parse(self.controller_principals),
            self.allow_everyone_if_no_acl_found,
            self.super_users_by_token,
        )


def _checked(parse: Any, text: str) -> str:
    """The text, if it can be parsed. Raises ValueError, which names the setting."""
    try:
        parse(text)
    except InvalidRequest as error:
        raise ValueError(error.message) from None
    return text
