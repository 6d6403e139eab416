"""From a client's certificate to its principal."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from hashlib import sha256
from typing import Final

from strandline.adapters.tls.distinguished_name import subject_of
from strandline.config.security import SSL
from strandline.errors import InvalidRequest, SettingsError
from strandline.ports import Caller
from strandline.security.login.steps import LoginRefused, Why
from strandline.security.mapping import parse_mapping_rules, principal_of
from strandline.security.principal import Principal

PRINCIPALS_KEPT_MAX: Final = 1_000
"""Certificates whose principals are remembered: each call needs one, and rules are regular expressions."""


class CertificatePrincipals:
    """The principals of the certificates that come, by `ssl_principal_mapping_rules`."""

    def __init__(self, rules: str) -> None:
        """Raises SettingsError."""
        try:
            self._rules = parse_mapping_rules(rules)
        except InvalidRequest as error:
            raise SettingsError(f"setting ssl_principal_mapping_rules: {error.message}") from error
        self._known: dict[bytes, Principal] = {}
        """By the digest of the certificate as it was shown."""

    def of(self, certificate: bytes) -> Principal:
        """Of a certificate in DER or PEM. Raises AuthenticationFailed if no rule takes its subject."""
        shown = sha256(certificate).digest()
        known = self._known.get(shown)
        if known is None:
            known = principal_of(subject_of(_der(certificate)), self._rules)
            if len(self._known) >= PRINCIPALS_KEPT_MAX:
                self._known.clear()
            self._known[shown] = known
        return known

    def named(self, caller: Caller, certificate: bytes) -> Caller:
        """The caller with the principal of its certificate. Raises as `of`."""
        return replace(caller, principal=self.of(certificate), mechanism=SSL)


def _der(certificate: bytes) -> bytes:
    if not certificate.startswith(b"-"):
        return certificate
    try:
        return ssl.PEM_cert_to_DER_cert(certificate.decode("ascii"))
    except ValueError as error:
        raise LoginRefused(f"the certificate cannot be read: {error}", Why.CERTIFICATE) from error


def shown_certificate(transport: asyncio.BaseTransport) -> bytes | None:
    """The certificate, in DER, that the other end of a connection showed; None: it showed none."""
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return None if encrypted is None else encrypted.getpeercert(binary_form=True)
