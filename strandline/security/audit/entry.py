"""One line of the audit log.

No entry holds a password, a token, a record or a group's metadata: what an entry says of a request is chosen
field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import Any, Final

from strandline.errors import Outcome, StrandlineError
from strandline.security.asker import Asker
from strandline.security.decide import Decision, Ground
from strandline.security.quotas.usage import CLIENT_ID_CHARS_MAX
from strandline.security.rights import Right

TEXT_CHARS_MAX: Final = 300
"""The longest text of an entry: names come from callers."""
ELEMENTS_MAX: Final = 100
"""The longest list of an entry's arguments."""
_GROUNDS: Final = {
    Ground.OFF: "no authorizer",
    Ground.SUPER_USER: "super",
    Ground.MEMBER: "member",
    Ground.NO_ACL: "default",
    Ground.NO_ACL_FOUND: "default",
    Ground.NOT_LOADED: "not loaded",
}


class Event(Enum):
    """What an entry is about."""

    LOGIN = "login"
    """A caller proved its name, or failed to."""
    ACCESS = "access"
    """A caller may use a resource, or may not."""
    CHANGE = "change"
    """A caller changed something, or tried to."""


@dataclass(frozen=True, slots=True)
class Source:
    """Who, and from where."""

    principal: str = ""
    mechanism: str = "none"
    address: str = ""
    connection: str = ""
    listener: str = ""
    call: str = ""
    request_id: int | None = None
    client_id: str = ""
    """What the client calls itself, for its quotas: lines of the audit log do not have it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Empty fields are left out of the line."""

    event: Event
    allowed: bool
    source: Source
    operation: str = ""
    resource_type: str = ""
    resource: str = ""
    by: str = ""
    """What decided: an ACL, `super`, `member`, or `default` if no ACL did."""
    reason: str = ""
    """Of a login: why it was refused."""
    detail: str = ""
    """Of a refused token: what is wrong with it."""
    user: str = ""
    """Of a refused login: the name that the caller claimed."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    """Of a change: why it failed."""
    count: int = 0
    """The number of further ones like it within the minute."""
    others: int = 0
    """The number of further ones of this caller, about other things, within the minute."""

    @property
    def key(self) -> tuple[object, ...]:
        """Of entries with the same key, one is written a minute; the others are counted."""
        source = self.source
        return (
            self.event, self.allowed, source.principal, source.mechanism, source.address, self.user,
            self.operation, self.resource_type, self.resource, self.reason,
        )  # fmt: skip


def source_of(caller: Asker) -> Source:
    """As the audit log has it, with short names."""
    return shortened(whole_source(caller))


def shortened(source: Source) -> Source:
    return replace(source, principal=cut(source.principal), client_id=cut(source.client_id))


def whole_source(caller: Asker) -> Source:
    """With the names as its quotas have them."""
    return Source(
        str(caller.principal),
        caller.mechanism or "none",
        caller.host,
        caller.connection,
        caller.reached,
        caller.call,
        caller.request_id,
        caller.client_id[:CLIENT_ID_CHARS_MAX],
    )


def access_entry(source: Source, right: Right, name: str, decision: Decision) -> Entry:
    """That a caller may use a resource, or may not, and what decided."""
    return Entry(
        Event.ACCESS,
        decision.allowed,
        source,
        right.operation.name,
        right.of.name,
        cut(name),
        by=ground(decision),
    )


def ground(decision: Decision) -> str:
    """The ACL that decided, or the rule in a word."""
    return _GROUNDS[decision.why] if isinstance(decision.why, Ground) else str(decision.why)


def bounded(value: Any) -> Any:
    """The same argument of a change, with short texts and short lists."""
    match value:
        case str():
            return cut(value)
        case Mapping():
            named = {cut(str(key)): bounded(each) for key, each in islice(value.items(), ELEMENTS_MAX)}
            return named | {"…": "…"} if len(value) > ELEMENTS_MAX else named
        case list() | tuple():
            found = [bounded(each) for each in islice(value, ELEMENTS_MAX)]
            return [*found, "…"] if len(value) > ELEMENTS_MAX else found
        case _:
            return value


def cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"


def fields(entry: Entry) -> dict[str, Any]:
    """The JSON object of an entry, without its time."""
    source = entry.source
    found: dict[str, Any] = {
        "event": entry.event.value,
        "allowed": entry.allowed,
        "principal": source.principal,
        "mechanism": source.mechanism,
        "address": source.address,
        "connection": source.connection,
        "listener": source.listener,
        "call": source.call,
        "request_id": source.request_id,
        "user": entry.user,
        "operation": entry.operation,
        "resource_type": entry.resource_type,
        "resource": entry.resource,
        "by": entry.by,
        "reason": entry.reason,
        "detail": entry.detail,
        "arguments": entry.arguments,
        "error": entry.error,
        "count": entry.count,
        "others": entry.others,
    }
    return {name: value for name, value in found.items() if value is False or value not in ("", 0, None, {})}


def may_have_changed(error: StrandlineError | None) -> bool:
    """Whether a change that ended with this error, or without one, belongs in the audit log."""
    return error is None or error.outcome is Outcome.UNKNOWN
