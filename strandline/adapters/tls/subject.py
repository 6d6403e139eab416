"""From the subject of a client's certificate to its principal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from strandline.config.security import SSL
from strandline.errors import InvalidRequest, SettingsError
from strandline.ports import Caller
from strandline.security.mapping import parse_mapping_rules, principal_of
from strandline.security.principal import Principal

SUBJECTS_KEPT_MAX: Final = 1_000
"""Subjects whose principals are remembered: the rules are regular expressions, and each call needs one."""


class CertificatePrincipals:
    """The principals of the subjects that come, by `ssl_principal_mapping_rules`."""

    def __init__(self, rules: str) -> None:
        """Raises SettingsError."""
        try:
            self._rules = parse_mapping_rules(rules)
        except InvalidRequest as error:
            raise SettingsError(f"setting ssl_principal_mapping_rules: {error.message}") from error
        self._known: dict[str, Principal] = {}

    def of(self, subject: str) -> Principal:
        """Raises AuthenticationFailed if no rule takes it."""
        known = self._known.get(subject)
        if known is None:
            known = principal_of(subject, self._rules)
            if len(self._known) >= SUBJECTS_KEPT_MAX:
                self._known.clear()
            self._known[subject] = known
        return known

    def named(self, caller: Caller, subject: str) -> Caller:
        """The caller with the principal of its certificate. Raises as `of`."""
        return replace(caller, principal=self.of(subject), mechanism=SSL)


_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "street",
    "userId": "UID",
}
"""Python's names of attributes, and those of RFC 2253 as gRPC writes them."""
_ESCAPED: Final = frozenset(',+"\\<>;')

_BYTES: Final = re.compile(r"(?P<digits>(?:\\[0-9A-F]{2})+)|\\.", re.DOTALL)

Names = Sequence[Sequence[tuple[str, str]]]
"""A subject as Python gives it: relative names, from the most general, each of attributes with values."""


def shown_subject(transport: asyncio.BaseTransport) -> Names | None:
    """The subject of the certificate that the other end of a connection showed; None: it showed none."""
    subject: Names | None = (transport.get_extra_info("peercert") or {}).get("subject")
    return subject


def subject_text(subject: Names) -> str:
    """The subject as RFC 2253 writes it, and as gRPC gives it: the most special name first."""
    return ",".join(
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in reversed(name))
        for name in reversed(subject)
    )


def text_of_grpc(subject: bytes) -> str:
    """The same of a subject that gRPC gives, with two digits for each byte outside ASCII."""
    return _BYTES.sub(_characters, subject.decode("ascii", "backslashreplace"))


def _characters(found: re.Match[str]) -> str:
    digits = found["digits"]
    if digits is None:  # another character that is escaped, such as a backslash
        return found[0]
    return bytes.fromhex(digits.replace("\\", "")).decode(errors="backslashreplace")


def _escaped(value: str) -> str:
    text = "".join(f"\\{char}" if char in _ESCAPED else char for char in value)
    if text[:1] in ("#", " "):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if len(text) > 1 and text.endswith(" ") else text
