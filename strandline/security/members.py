"""Which principals are a cluster's own brokers or controllers."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.errors import BrokerNotAvailable, InvalidRequest
from strandline.security.principal import Principal

_ID = "{id}"
_DIGITS_MAX = 10


@dataclass(frozen=True, slots=True)
class MemberPrincipals:
    """The principal of each member, by a template or by a list."""

    before: str = ""
    after: str = ""
    """The template, around the id. Both are empty if there is none."""
    listed: dict[Principal, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MemberPrincipals:
        """Read a template, `User:broker-{id}`, or a list, `1=User:CN=b1;2=User:CN=b2`. "": no principal is a
        member's. Raises InvalidRequest."""
        if not text:
            return cls()
        if _ID in text:
            before, _, after = text.partition(_ID)
            Principal.parse(f"{before}0{after}")
            if ":" not in before or _ID in after:
                raise InvalidRequest(f"template {text!r} is not of the form User:…{_ID}…")
            return cls(before, after)
        listed: dict[Principal, int] = {}
        for entry in filter(None, map(str.strip, text.split(";"))):
            number, equals, principal = entry.partition("=")
            if not (equals and _is_id(number)):
                raise InvalidRequest(f"{entry!r} is not of the form id=User:name, and {text!r} has no {_ID}")
            if listed.setdefault(Principal.parse(principal), int(number)) != int(number):
                raise InvalidRequest(f"{principal!r} is the principal of two members")
        return cls(listed=listed)

    def id_of(self, principal: Principal) -> int | None:
        """The member whose principal it is; None: it is no member's."""
        if not self.before:
            return self.listed.get(principal)
        text = str(principal)
        if len(text) < len(self.before) + len(self.after) + 1:
            return None
        if not (text.startswith(self.before) and text.endswith(self.after)):
            return None
        number = text[len(self.before) : len(text) - len(self.after)]
        return int(number) if _is_id(number) else None


def unknown_key() -> BrokerNotAvailable:
    """The refusal of a call that shows another key than this process has read: it is retriable, because after
    a restore of ZooKeeper the members may differ for a while."""
    return BrokerNotAvailable("the member key of this call is not the one that this process has read")


def _is_id(text: str) -> bool:
    """Only the spelling that the template itself makes: 07 is another principal than 7."""
    return (
        text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX and (text == "0" or text[0] != "0")
    )
