"""From the subject of a certificate to a principal, by Kafka's `ssl.principal.mapping.rules`.

Rules are tried in order: `RULE:pattern/replacement/` with `L` or `U` behind it for lower or upper case, and
`DEFAULT`, which takes the subject as it is. A pattern is a regular expression that the whole subject, as
RFC 2253 writes it, must match. `$1` in a replacement is the pattern's first group; `\\` takes the next
character as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from strandline.errors import InvalidRequest
from strandline.security.login.steps import LoginRefused, Why
from strandline.security.principal import ANONYMOUS, Principal

SUBJECT_CHARS_MAX: Final = 4_000
"""A pattern may take long for a long subject."""

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?P<end>,|$)",
    re.DOTALL,
)
_TOKEN: Final = re.compile(r"\\(?P<character>.)|\$(?P<group>[0-9])|(?P<text>[^\\])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MappingRule:
    """One rule. Without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: tuple[str | int, ...] = ()
    """Text, and numbers of groups."""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """The principal's name; None if the rule does not match."""
        if self.pattern is None:
            return subject
        if (found := self.pattern.fullmatch(subject)) is None:
            return None
        name = "".join(part if isinstance(part, str) else found[part] or "" for part in self.replacement)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)


DEFAULT_RULES: Final = (MappingRule(),)


def parse_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """Read rules, separated by commas; "" is DEFAULT. Raises InvalidRequest."""
    if not text.strip():
        return DEFAULT_RULES
    rules: list[MappingRule] = []
    at, more = 0, True
    while more:
        if (found := _RULE.match(text, at)) is None:
            raise InvalidRequest(
                f"rule {text[at:].strip()[:200]!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]"
            )
        rules.append(MappingRule() if found["default"] else _rule(found))
        at, more = found.end(), found["end"] == ","
    return tuple(rules)


def _rule(found: re.Match[str]) -> MappingRule:
    try:
        pattern = re.compile(found["pattern"])
    except re.error as error:
        raise InvalidRequest(
            f"rule {found[0].strip()!r}: the pattern is no regular expression: {error}"
        ) from None
    parts: list[str | int] = []
    for token in _TOKEN.finditer(found["replacement"]):
        if token["group"] is not None and int(token["group"]) <= pattern.groups:
            parts.append(int(token["group"]))
        else:  # a group that the pattern does not have is text, as in Kafka
            parts.append(token["character"] or token[0])
    return MappingRule(pattern, tuple(parts), found["case"])


def principal_of(subject: str, rules: tuple[MappingRule, ...] = DEFAULT_RULES) -> Principal:
    """The principal of a certificate's subject. Raises AuthenticationFailed if no rule matches."""
    if len(subject) > SUBJECT_CHARS_MAX:
        raise _refused(
            f"the certificate's subject has {len(subject)} characters, more than {SUBJECT_CHARS_MAX}"
        )
    for rule in rules:
        name = rule.apply(subject)
        if name is not None:
            try:
                principal = Principal.parse(f"User:{name}")
            except InvalidRequest as error:
                raise _refused(f"the certificate's subject {subject!r}: {error.message}") from None
            if principal == ANONYMOUS:
                raise _refused(
                    f"the certificate's subject {subject!r} gives {principal}, which means callers without a "
                    "name"
                )
            return principal
    raise _refused(f"no rule of ssl_principal_mapping_rules matches the certificate's subject {subject!r}")


def _refused(message: str) -> LoginRefused:
    return LoginRefused(message, Why.CERTIFICATE)
